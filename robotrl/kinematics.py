"""Where the frames of a scene are, given the physics state: quaternions and batched forward kinematics.

Quaternions are (..., 4), order w x y z, unit length. Everything is elementwise, so that a world's result has the same
bits whatever else shares the batch.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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


def quaternion_conjugate(quaternion: Float64) -> Float64:
    """The inverse rotation (..., 4) of a unit quaternion."""
    return quaternion * np.array([1.0, -1.0, -1.0, -1.0])


def cross(left: Float64, right: Float64) -> Float64:
    """Cross product (..., 3); leaner than `np.cross` on small batches."""
    a, b = left[..., [1, 2, 0]], right[..., [2, 0, 1]]
    c, d = left[..., [2, 0, 1]], right[..., [1, 2, 0]]
    return a * b - c * d


def rotate(quaternion: Float64, vector: Float64) -> Float64:
    """`vector` (..., 3) turned by `quaternion` (..., 4): v + 2w(u × v) + 2u × (u × v)."""
    axis = quaternion[..., 1:]
    twice = 2.0 * cross(axis, vector)
    return vector + quaternion[..., 0:1] * twice + cross(axis, twice)


def quaternion_to_matrix(quaternion: Float64) -> Float64:
    """Rotation matrices (..., 3, 3) whose columns are the frame's axes."""
    eye = np.eye(3)
    return np.stack(
        [rotate(quaternion, np.broadcast_to(eye[i], (*quaternion.shape[:-1], 3))) for i in range(3)], axis=-1
    )


def quaternion_from_yaw(yaw: Float64) -> Float64:
    """Rotation about z by `yaw` (...) rad, as (..., 4)."""
    half = 0.5 * np.asarray(yaw, dtype=np.float64)
    zero = np.zeros_like(half)
    return np.stack([np.cos(half), zero, zero, np.sin(half)], axis=-1)


def rotation_vector(quaternion: Float64) -> Float64:
    """Axis times angle (..., 3) rad of the shortest rotation that `quaternion` (..., 4) describes."""
    shortest = np.where(quaternion[..., 0:1] < 0.0, -quaternion, quaternion)
    sine = np.sqrt((shortest[..., 1:2] ** 2 + shortest[..., 2:3] ** 2) + shortest[..., 3:4] ** 2)
    angle = 2.0 * np.arctan2(sine, shortest[..., 0:1])
    # angle / sine tends to 2 for small rotations.
    return shortest[..., 1:] * np.where(sine > 1e-9, angle / np.maximum(sine, 1e-9), 2.0)


def _local(frame: Frame, physics: Float64) -> tuple[Float64, Float64]:
    """Position (..., 3) m and quaternion (..., 4) of a frame in its parent; constant ones have no leading axes."""
    position, quaternion = np.array(frame.position), np.array(frame.quaternion)
    if frame.joint is None:
        return position, quaternion
    if frame.joint in ("free", "mocap"):
        return physics[..., frame.address : frame.address + 3], physics[..., frame.address + 3 : frame.address + 7]
    value = physics[..., frame.address : frame.address + 1]
    axis = np.array(frame.axis)
    if frame.joint == "slide":
        return position + value * rotate(quaternion, axis), quaternion
    turned = quaternion_multiply(quaternion, np.concatenate([[0.0], axis]))
    return position, np.cos(0.5 * value) * quaternion + np.sin(0.5 * value) * turned


def poses(scene: SceneSpec, physics: Float64, frames: Sequence[int] | None = None) -> tuple[Float64, Float64]:
    """World poses of scene frames.

    Args:
        scene: the frame tree; parents come before children.
        physics: (..., X) physics states.
        frames: which frames, by index; all F of them when None. Only their ancestors are computed.

    Returns:
        Positions (..., F, 3) m and quaternions (..., F, 4) wxyz.
    """
    wanted = range(len(scene.frames)) if frames is None else frames
    needed: set[int] = set()
    for index in wanted:
        while index >= 0 and index not in needed:
            needed.add(index)
            index = scene.frames[index].parent
    lead: tuple[int, ...] = physics.shape[:-1]
    position: dict[int, NDArray[np.float64]] = {}
    quaternion: dict[int, NDArray[np.float64]] = {}
    for index in sorted(needed):
        frame = scene.frames[index]
        offset, turn = _local(frame, physics)
        if frame.parent >= 0:
            base = quaternion[frame.parent]
            still = frame.joint != "slide" and not np.any(offset)
            offset = position[frame.parent] if still else position[frame.parent] + rotate(base, offset)
            turn = quaternion_multiply(base, turn)
        position[index], quaternion[index] = offset, turn
    return (
        np.stack([np.broadcast_to(position[i], (*lead, 3)) for i in wanted], axis=-2),
        np.stack([np.broadcast_to(quaternion[i], (*lead, 4)) for i in wanted], axis=-2),
    )
