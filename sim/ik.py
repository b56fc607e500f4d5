"""Inverse kinematics of an arm for many worlds at once: damped least squares with a posture in the null space."""

import numpy as np

from robotrl import kinematics
from robotrl.specs import SceneSpec
from robotrl.types import Float64
from sim.robots import Arm

_DAMPING = 0.02
_MAX_POSTURE_STEP = 0.02
_PARTIAL_TURN = 0.1
"""Weight of a radian beside a metre where the joints are too few for both: a centimetre counts as much as 6 degrees."""


class ArmKinematics:
    """Forward and differential kinematics of one arm in `scene`; it has J joints."""

    def __init__(self, scene: SceneSpec, arm: Arm) -> None:
        frames = [scene.frame(name) for name in (*arm.links, arm.tool)]
        self._forward = kinematics.ForwardKinematics(scene, frames)
        self._columns = [scene.frames[f].address for f in frames[:-1]]
        self._weight = np.array([1.0] * 3 + [1.0 if len(arm.joints) >= 6 else _PARTIAL_TURN] * 3)
        self._low, self._high, self._home = np.array(arm.low), np.array(arm.high), np.array(arm.home)

    def forward(self, joints: Float64) -> tuple[Float64, Float64, Float64]:
        """Tool position (n, 3) m, rotation (n, 3, 3) and Jacobian (n, 6, J) at `joints` (n, J) rad.

        Rows of the Jacobian are velocity (m/s) and angular velocity (rad/s) of the tool for 1 rad/s of each joint.
        """
        values = np.zeros((len(joints), max(self._columns) + 1))
        values[:, self._columns] = joints
        transforms = self._forward(values)
        position, axis = transforms[..., :3, 3], transforms[:, :-1, :3, 2]
        lever = position[:, -1:] - position[:, :-1]
        jacobian = np.concatenate([kinematics.cross(axis, lever), axis], axis=-1)
        return position[:, -1], transforms[:, -1, :3, :3], np.swapaxes(jacobian, 1, 2)

    def reach(self, joints: Float64, shift: Float64, turn: Float64, iterations: int = 2) -> Float64:
        """Joint targets that move the tool.

        Args:
            joints: (n, J) rad to start from.
            shift: (n, 3) m, displacement of the tool in the world.
            turn: (n, 3) rad, rotation vector of the tool in the world.
            iterations: Newton steps.

        Returns:
            (n, J) rad within the joint limits. What the six coordinates leave free goes towards the arm's home; what
            they ask for beyond the arm's freedom is met in the least-squares sense, position before direction.
        """
        position, rotation, jacobian = self.forward(joints)
        goal, heading = position + shift, kinematics.matrix_from_rotation_vector(turn) @ rotation
        result = joints
        for k in range(iterations):
            if k:
                position, rotation, jacobian = self.forward(result)
            missing = kinematics.rotation_vector(heading @ np.swapaxes(rotation, 1, 2))
            error = self._weight * np.concatenate([goal - position, missing], axis=-1)
            posture = np.clip(0.1 * (self._home - result), -_MAX_POSTURE_STEP, _MAX_POSTURE_STEP)
            result = result + _damped_step(self._weight[:, None] * jacobian, error, posture)
        return np.clip(result, self._low, self._high)


def _damped_step(jacobian: Float64, error: Float64, posture: Float64) -> Float64:
    """posture + Jᵀ (J Jᵀ + λ²)⁻¹ (error − J posture), (n, J): the task first, the posture in its null space."""
    transposed = np.swapaxes(jacobian, 1, 2)
    square = jacobian @ transposed + _DAMPING**2 * np.eye(6)
    rest = error[..., None] - jacobian @ posture[..., None]
    return posture + (transposed @ np.linalg.solve(square, rest))[..., 0]
