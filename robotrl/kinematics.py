"""Where the frames of a scene are, given the physics state: rotations and batched forward kinematics.

Quaternions are (..., 4), order w x y z, unit length; a transform is (..., 4, 4) and turns coordinates in the frame into
world coordinates. A world's result has the same bits whatever else shares the batch: everything is elementwise or a
stack of 4 × 4 products.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robotrl.specs import Frame, SceneSpec
from robotrl.types import Float64

# Left component k times the right quaternion: row k says which right component lands in each slot, and its sign.
_PERMUTATION = np.array([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]])
_SIGN = np.array([[1.0, 1.0, 1.0, 1.0], [-1.0, 1.0, -1.0, 1.0], [-1.0, 1.0, 1.0, -1.0], [-1.0, -1.0, 1.0, 1.0]])

# Entry (i, j) of a rotation matrix, at 3 i + j, is 2 (first + sign · second), on the diagonal 1 minus that; first and
# second are products of two components, of which number 4 a + b is that of a and b.
_FIRST = np.array([10, 6, 7, 6, 5, 11, 7, 11, 5])
_SECOND = np.array([15, 3, 2, 3, 15, 1, 2, 1, 10])
_SECOND_SIGN = np.array([1.0, -1.0, 1.0, 1.0, 1.0, -1.0, -1.0, 1.0, 1.0])


def quaternion_multiply(left: Float64, right: Float64) -> Float64:
    """Hamilton product `left` ⊗ `right` (..., 4): first rotate by `right`, then by `left`."""
    out = left[..., 0:1] * right
    for k in (1, 2, 3):
        out = out + left[..., k : k + 1] * (right[..., _PERMUTATION[k]] * _SIGN[k])
    return out


def quaternion_from_yaw(yaw: Float64) -> Float64:
    """Rotation about z by `yaw` (...) rad, as (..., 4)."""
    half = 0.5 * np.asarray(yaw, dtype=np.float64)
    out = np.zeros((*half.shape, 4))
    out[..., 0], out[..., 3] = np.cos(half), np.sin(half)
    return out


def quaternion_to_matrix(quaternion: Float64) -> Float64:
    """Rotation matrices (..., 3, 3) whose columns are the frame's axes."""
    # All entries at once, with the batch innermost: few calls for a few worlds, long loops for many.
    parts = np.ascontiguousarray(np.moveaxis(quaternion, -1, 0))
    products = (parts[:, None] * parts).reshape(16, *parts.shape[1:])
    sign = _SECOND_SIGN.reshape(9, *[1] * (parts.ndim - 1))
    entries = 2.0 * (products[_FIRST] + sign * products[_SECOND])
    entries[::4] = 1.0 - entries[::4]
    return np.moveaxis(entries, 0, -1).reshape(*quaternion.shape[:-1], 3, 3)


def quaternion_from_matrix(matrix: Float64) -> Float64:
    """Quaternions (..., 4) with w >= 0 of rotation matrices (..., 3, 3).

    Shepperd's method (1978): divide by the largest component, which is never small.
    """
    m = matrix
    trace = m[..., 0, 0] + m[..., 1, 1] + m[..., 2, 2]
    a, b, c = m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]
    d, e, f = m[..., 1, 0] + m[..., 0, 1], m[..., 0, 2] + m[..., 2, 0], m[..., 2, 1] + m[..., 1, 2]
    squares = [1.0 + 2.0 * m[..., i, i] - trace for i in range(3)]
    # Four times the quaternion times its w, x, y and z.
    rows = [(1.0 + trace, a, b, c), (a, squares[0], d, e), (b, d, squares[1], f), (c, e, f, squares[2])]
    products = np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
    largest = np.argmax(np.stack([row[i] for i, row in enumerate(rows)], axis=-1), axis=-1)
    chosen = np.take_along_axis(products, largest[..., None, None], axis=-2)[..., 0, :]
    chosen = chosen / np.sqrt(np.square(chosen).sum(-1, keepdims=True))
    return np.where(chosen[..., 0:1] < 0.0, -chosen, chosen)


def cross(left: Float64, right: Float64) -> Float64:
    """Cross product (..., 3); leaner than `np.cross` on small batches."""
    a, b = np.concatenate([left, left], axis=-1), np.concatenate([right, right], axis=-1)
    return a[..., 1:4] * b[..., 2:5] - a[..., 2:5] * b[..., 1:4]


def rotate(quaternion: Float64, vector: Float64) -> Float64:
    """`vector` (..., 3) turned by `quaternion` (..., 4): v + 2w(u × v) + 2u × (u × v)."""
    axis = quaternion[..., 1:]
    twice = 2.0 * cross(axis, vector)
    return vector + quaternion[..., 0:1] * twice + cross(axis, twice)


def matrix_from_rotation_vector(vector: Float64) -> Float64:
    """Rotation matrices (..., 3, 3) of axis times angle (..., 3) rad."""
    angle = np.sqrt(np.square(vector).sum(-1, keepdims=True))
    quaternion = np.concatenate([np.cos(0.5 * angle), 0.5 * vector * np.sinc(0.5 * angle / np.pi)], axis=-1)
    return quaternion_to_matrix(quaternion)


def rotation_vector(matrix: Float64) -> Float64:
    """Axis times angle (..., 3) rad of rotation matrices (..., 3, 3); loses the axis within 1e-6 of half a turn."""
    m = matrix
    twice = np.stack([m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]], axis=-1)
    sine = 0.5 * np.sqrt(np.square(twice).sum(-1, keepdims=True))
    cosine = 0.5 * (m[..., 0, 0] + m[..., 1, 1] + m[..., 2, 2] - 1.0)[..., None]
    # angle / sine tends to 1 for small rotations.
    return 0.5 * twice * np.where(sine > 1e-9, np.arctan2(sine, cosine) / np.maximum(sine, 1e-9), 1.0)


def _rigid(frame: Frame) -> Float64:
    """Transform (4, 4) of the frame in its parent at zero joint value."""
    transform = np.eye(4)
    transform[:3, :3] = quaternion_to_matrix(np.array(frame.quaternion))
    transform[:3, 3] = frame.position
    return transform


class ForwardKinematics:
    """Transforms of chosen frames of a scene as a function of the physics state.

    A hinge contributes K + C cos q + S sin q (Rodrigues' formula times the fixed transform), a slide K + S q, with
    constant 4 × 4 matrices K, C and S. All joints are evaluated together; then the tree is multiplied out.

    Args:
        scene: the frame tree; parents come before children.
        frames: which frames, by index; all of them when None. Only their ancestors are computed.
    """

    def __init__(self, scene: SceneSpec, frames: Sequence[int] | None = None) -> None:
        self._wanted = list(range(len(scene.frames)) if frames is None else frames)
        needed: set[int] = set()
        for index in self._wanted:
            while index >= 0 and index not in needed:
                needed.add(index)
                index = scene.frames[index].parent
        self._order = [(i, scene.frames[i].parent) for i in sorted(needed)]
        chosen = {i: scene.frames[i] for i in sorted(needed)}
        self._fixed = {i: _rigid(f) for i, f in chosen.items() if f.joint is None}
        self._hinges = _Joints.of([i for i, f in chosen.items() if f.joint == "hinge"], scene)
        self._slides = _Joints.of([i for i, f in chosen.items() if f.joint == "slide"], scene)
        self._free = [i for i, f in chosen.items() if f.joint in ("free", "mocap")]
        # The seven values of each, (M, 7).
        self._free_columns = np.array([np.arange(7) + chosen[i].address for i in self._free], np.int64).reshape(-1, 7)

    def __call__(self, physics: Float64) -> Float64:
        """World transforms (..., F, 4, 4) of the frames for physics states (..., X)."""
        lead = physics.shape[:-1]
        flat = physics.reshape(-1, physics.shape[-1])
        local = self._fixed | self._free_poses(flat)
        if self._hinges.frames:
            angles = self._hinges.values(flat)
            local |= self._hinges.transforms(np.cos(angles), np.sin(angles))
        if self._slides.frames:
            ways = self._slides.values(flat)
            local |= self._slides.transforms(np.zeros_like(ways), ways)
        world: dict[int, Float64] = {}
        for index, parent in self._order:
            world[index] = local[index] if parent < 0 else world[parent] @ local[index]
        out = np.empty((len(flat), len(self._wanted), 4, 4))
        for k, index in enumerate(self._wanted):
            out[:, k] = world[index]
        return out.reshape(*lead, len(self._wanted), 4, 4)

    def _free_poses(self, physics: Float64) -> dict[int, Float64]:
        """Transforms (n, 4, 4) of the free and mocap frames in their parents; `physics` is (n, X)."""
        if not self._free:
            return {}
        values = physics[:, self._free_columns]
        transforms = np.zeros((*values.shape[:2], 4, 4))
        transforms[..., :3, :3] = quaternion_to_matrix(values[..., 3:])
        transforms[..., :3, 3] = values[..., :3]
        transforms[..., 3, 3] = 1.0
        return {frame: transforms[:, k] for k, frame in enumerate(self._free)}


@dataclass(frozen=True)
class _Joints:
    """J hinges or J slides: the entries of their transforms K + C c + S s that move, `c` and `s` being their values.

    `frames` and `addresses` (J,); `rest` (J, 4, 4) is K; `cosine` and `sine` (J, 3, m, 1) are C and S in the `columns`,
    m of them, outside of which they are zero, and `constant` (J, 3, m, 1) is K there.
    """

    frames: list[int]
    addresses: list[int]
    rest: Float64
    columns: slice
    constant: Float64
    cosine: Float64
    sine: Float64

    @classmethod
    def of(cls, frames: list[int], scene: SceneSpec) -> "_Joints":
        """The joints of these frames of `scene`, all hinges or all slides."""
        parts = [_joint_constants(scene.frames[i], _rigid(scene.frames[i])) for i in frames]
        rest, cosine, sine = np.array(parts).reshape(-1, 3, 4, 4).swapaxes(0, 1)
        # A hinge about the z axis moves two columns, any other three; a slide moves the last.
        moving = np.flatnonzero(((cosine != 0) | (sine != 0)).any((0, 1)))
        columns = slice(int(moving[0]), int(moving[-1]) + 1) if len(moving) else slice(0, 0)
        constant, cosine, sine = (np.ascontiguousarray(m[:, :3, columns, None]) for m in (rest, cosine, sine))
        return cls(frames, [scene.frames[i].address for i in frames], rest, columns, constant, cosine, sine)

    def values(self, physics: Float64) -> Float64:
        """The joints' values (J, n) in physics states (n, X)."""
        return physics.T[self.addresses]

    def transforms(self, c: Float64, s: Float64) -> dict[int, Float64]:
        """Transforms (n, 4, 4) of the frames in their parents for `c` and `s` (J, n)."""
        moved = self.cosine * c[:, None, None]
        moved += self.sine * s[:, None, None]
        moved += self.constant
        out = np.empty((len(self.frames), c.shape[1], 4, 4))
        out[:] = self.rest[:, None]
        out[:, :, :3, self.columns] = moved.transpose(0, 3, 1, 2)
        return dict(zip(self.frames, out, strict=True))


def _joint_constants(frame: Frame, fixed: Float64) -> tuple[Float64, Float64, Float64]:
    """K, C and S (4, 4) of a hinge or slide frame."""
    axis = np.array(frame.axis)
    skew, rest = np.zeros((4, 4)), np.zeros((4, 4))
    if frame.joint == "slide":
        skew[:3, 3] = axis
        return fixed, np.zeros((4, 4)), fixed @ skew
    skew[:3, :3] = cross(axis, np.eye(3)).T
    rest[:3, :3] = np.outer(axis, axis)
    turning = np.diag([1.0, 1.0, 1.0, 0.0]) - rest
    rest[3, 3] = 1.0
    return fixed @ rest, fixed @ turning, fixed @ skew


def poses(scene: SceneSpec, physics: Float64, frames: Sequence[int] | None = None) -> tuple[Float64, Float64]:
    """World poses of scene frames.

    Args:
        scene: the frame tree.
        physics: (..., X) physics states.
        frames: which frames, by index; all F of them when None.

    Returns:
        Positions (..., F, 3) m and quaternions (..., F, 4) wxyz, w >= 0.
    """
    transforms = ForwardKinematics(scene, frames)(physics)
    return transforms[..., :3, 3], quaternion_from_matrix(transforms[..., :3, :3])
