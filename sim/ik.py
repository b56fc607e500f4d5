"""Inverse kinematics of the arm for many worlds at once: damped least squares with a posture in the null space."""

import numpy as np

from robotrl import kinematics
from robotrl.specs import SceneSpec
from robotrl.types import Float64
from sim.robots import panda

_DAMPING = 0.02
_MAX_POSTURE_STEP = 0.02


class ArmKinematics:
    """Forward and differential kinematics of the arm in `scene`, whose links are frames `link1` to `link7`."""

    def __init__(self, scene: SceneSpec) -> None:
        self._scene = scene
        self._frames = [scene.frame(f"link{i}") for i in range(1, 8)] + [scene.frame(panda.TOOL)]
        addresses = [scene.frames[f].address for f in self._frames[:7]]
        self._columns = np.array(addresses)
        self._size = max(addresses) + 1

    def forward(self, joints: Float64) -> tuple[Float64, Float64, Float64]:
        """Tool position (n, 3) m, quaternion (n, 4) and Jacobian (n, 6, 7) at `joints` (n, 7) rad.

        Rows of the Jacobian are velocity (m/s) and angular velocity (rad/s) of the tool for 1 rad/s of each joint.
        """
        values = np.zeros((len(joints), self._size))
        values[:, self._columns] = joints
        position, quaternion = kinematics.poses(self._scene, values, self._frames)
        axis = kinematics.rotate(quaternion[:, :7], np.array([0.0, 0.0, 1.0]))
        lever = position[:, 7:] - position[:, :7]
        jacobian = np.concatenate([kinematics.cross(axis, lever), axis], axis=-1)
        return position[:, 7], quaternion[:, 7], np.swapaxes(jacobian, 1, 2)

    def reach(self, joints: Float64, shift: Float64, turn: Float64, iterations: int = 2) -> Float64:
        """Joint targets that move the tool.

        Args:
            joints: (n, 7) rad to start from.
            shift: (n, 3) m, displacement of the tool in the world.
            turn: (n, 3) rad, rotation vector of the tool in the world.
            iterations: Newton steps.

        Returns:
            (n, 7) rad within the joint limits. What the six coordinates leave free goes towards `panda.HOME`.
        """
        position, quaternion, jacobian = self.forward(joints)
        angle = np.sqrt(np.square(turn).sum(-1, keepdims=True))
        half = np.concatenate([np.cos(0.5 * angle), 0.5 * turn * np.sinc(0.5 * angle / np.pi)], axis=-1)
        goal, heading = position + shift, kinematics.quaternion_multiply(half, quaternion)
        result = joints
        for k in range(iterations):
            if k:
                position, quaternion, jacobian = self.forward(result)
            missing = kinematics.quaternion_multiply(heading, kinematics.quaternion_conjugate(quaternion))
            error = np.concatenate([goal - position, kinematics.rotation_vector(missing)], axis=-1)
            posture = np.clip(0.1 * (panda.HOME - result), -_MAX_POSTURE_STEP, _MAX_POSTURE_STEP)
            result = result + _damped_step(jacobian, error, posture)
        return np.clip(result, panda.LOW, panda.HIGH)


def _damped_step(jacobian: Float64, error: Float64, posture: Float64) -> Float64:
    """posture + Jᵀ (J Jᵀ + λ²)⁻¹ (error − J posture), (n, 7): the task first, the posture in its null space."""
    transposed = np.swapaxes(jacobian, 1, 2)
    square = jacobian @ transposed + _DAMPING**2 * np.eye(6)
    rest = error[..., None] - jacobian @ posture[..., None]
    return posture + (transposed @ np.linalg.solve(square, rest))[..., 0]
