"""Where the frames of a scene are, given the physics state: rotations and batched forward kinematics.

Quaternions are (..., 4), order w x y z, unit length; a transform is (..., 4, 4) and turns coordinates in the frame into
world coordinates. A world's result has the same bits whatever else shares the batch: everything is elementwise or a
stack of 4 × 4 products.
"""

from collections.abc import Sequence

import numpy as np

from robotrl.specs import Frame, SceneSpec
from robotrl.types import Float64

# Left component k times the right quaternion: row k says which right component lands in each slot, and its sign.
_PERMUTATION = np.array([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]])
_SIGN = np.array([[1.0, 1.0, 1.0, 1.0], [-1.0, 1.0, -1.0, 1.0], [-1.0, 1.0, 1.0, -1.0], [-1.0, -1.0, 1.0, 1.0]])


def quaternion_multiply(left: Float64, right: Float64) -> Float64:
    """Hamilton product `left` ⊗ `right` (..., 4): first rotate by `right`, then by `left`."""
    out = left[..., 0:1] * right
    for k in (1, 2, 3):
        out = out + left[..., k : k + 1] * (right[..., _PERMUTATION[k]] * _SIGN[k])
    return out


def quaternion_from_yaw(yaw: Float64) -> Float64:
    """Rotation about z by `yaw` (...) rad, as (..., 4)."""
    half = 0.5 * np.asarray(yaw, dtype=np.float64)
    zero = np.zeros_like(half)
    return np.stack([np.cos(half), zero, zero, np.sin(half)], axis=-1)


def quaternion_to_matrix(quaternion: Float64) -> Float64:
    """Rotation matrices (..., 3, 3) whose columns are the frame's axes."""
    w, x, y, z = (quaternion[..., i] for i in range(4))
    entries = [
        *(1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)),
        *(2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)),
        *(2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)),
    ]
    return np.stack(entries, axis=-1).reshape(*quaternion.shape[:-1], 3, 3)


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
        self._fixed = {i: _rigid(f) for i, f in chosen.items()}
        self._hinges = [i for i, f in chosen.items() if f.joint == "hinge"]
        self._slides = [i for i, f in chosen.items() if f.joint == "slide"]
        self._free = [i for i, f in chosen.items() if f.joint in ("free", "mocap")]
        self._address = {i: f.address for i, f in chosen.items()}
        self._constants = {i: _joint_constants(chosen[i], self._fixed[i]) for i in self._hinges + self._slides}

    def __call__(self, physics: Float64) -> Float64:
        """World transforms (..., F, 4, 4) of the frames for physics states (..., X)."""
        lead = physics.shape[:-1]
        local = self._local(physics.reshape(-1, physics.shape[-1]))
        world: dict[int, Float64] = {}
        for index, parent in self._order:
            world[index] = local[index] if parent < 0 else world[parent] @ local[index]
        count = int(np.prod(lead))
        stacked = [np.broadcast_to(world[i], (count, 4, 4)) for i in self._wanted]
        return np.stack(stacked, axis=1).reshape(*lead, len(stacked), 4, 4)

    def _local(self, physics: Float64) -> dict[int, Float64]:
        """Transforms of the frames in their parents, (n, 4, 4), or (4, 4) where nothing moves; `physics` is (n, X)."""
        local = dict(self._fixed)
        for joints, hinge in ((self._hinges, True), (self._slides, False)):
            if joints:
                values = physics[:, [self._address[i] for i in joints], None, None]
                constant, cosine, sine = (np.stack(m) for m in zip(*(self._constants[i] for i in joints), strict=True))
                moved = np.cos(values) * cosine + np.sin(values) * sine if hinge else values * sine
                moved = moved + constant
                local |= {i: moved[:, k] for k, i in enumerate(joints)}
        for i in self._free:
            start = self._address[i]
            transform = np.zeros((len(physics), 4, 4))
            transform[:, :3, :3] = quaternion_to_matrix(physics[:, start + 3 : start + 7])
            transform[:, :3, 3] = physics[:, start : start + 3]
            transform[:, 3, 3] = 1.0
            local[i] = transform
        return local


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
