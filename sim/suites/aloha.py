"""The two tasks of gym-aloha: bimanual ViperX arms under joint targets, at 50 Hz.

gym-aloha draws three large pictures at every tick and then lets a policy see one, and it says that actions lie within
±1, while they are joint angles that reach further. Here pictures are drawn when they are asked for, joint angles and
the objects' poses are the state, and actions are bounded by the joints.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from robotrl.errors import unknown_name
from robotrl.specs import ArraySpec, CameraSpec, EnvironmentSpec
from robotrl.types import Float32, UInt8
from sim.suites.base import Moment, Simulation, SuiteEnvironment, World, suite_spec
from sim.suites.packages import suite_module
from sim.suites.pictures import Pictures, require_camera

TASKS = {
    "transfer_cube": ("pick up the cube with the right arm and hand it to the left arm", ("cube",)),
    "insertion": ("insert the peg of the right arm into the socket of the left arm", ("peg", "socket")),
}
"""Name → the task in words, and its objects."""
_HORIZON = 300
"""Ticks that gym-aloha registers its tasks with."""
_TOP = CameraSpec("top", 240, 320)
_NO_PICTURE = np.zeros((1, 1, 3), np.uint8)
_POSE = (("x", "m"), ("y", "m"), ("z", "m"), *((f"q{element}", "1") for element in "wxyz"))


def aloha(name: str, worlds: int, cameras: Sequence[CameraSpec] = (_TOP,)) -> SuiteEnvironment:
    """`worlds` worlds of the task `name`: "transfer_cube" or "insertion"; `cameras` are those of its model."""
    if name not in TASKS:
        raise unknown_name("gym-aloha task", name, TASKS)
    suite_module("gym_aloha")
    return SuiteEnvironment(partial(Aloha, name, tuple(cameras)), worlds)


class Aloha(World):
    """One world of the task `name`."""

    def __init__(self, name: str, cameras: tuple[CameraSpec, ...]) -> None:
        self._env, self._pictures = suite_module("gym_aloha.env").AlohaEnv(name), Pictures()
        self._failed: Any = suite_module("dm_control.rl.control").PhysicsError
        self._task.get_observation = lambda physics: {"images": {"top": _NO_PICTURE}}
        model = self.simulation[0]
        for camera in cameras:
            require_camera(model, camera)
        constants = suite_module("gym_aloha.constants")
        instruction, objects = TASKS[name]
        self._spec = suite_spec(
            task=name,
            robot="aloha",
            state=_state(constants.JOINTS, objects),
            action=_action(constants.JOINTS, model.actuator_ctrlrange),
            simulation=self.simulation,
            control_hz=1.0 / constants.DT,
            horizon=_HORIZON,
            instruction=instruction,
            cameras=cameras,
        )

    @property
    def _task(self) -> Any:
        """gym-aloha's task, which reads the physics."""
        return self._env._env.task

    @property
    def spec(self) -> EnvironmentSpec:
        """What it promises."""
        return self._spec

    def reset(self, seed: int) -> Moment:
        """Start from `seed`."""
        self._env.reset(seed=seed % 2**32)  # what NumPy's old generators take
        return Moment(self._state())

    def step(self, action: Float32) -> Moment:
        """One tick under `action` (A,)."""
        try:
            _, reward, _, _, info = self._env.step(action)
        except self._failed:
            return Moment(np.full(self._spec.state.size, np.nan, np.float32))
        return Moment(self._state(), float(reward), bool(info["is_success"]))

    def _state(self) -> Float32:
        """Positions and velocities of the joints, and the objects' poses, (S,)."""
        task, physics = self._task, self._env._env.physics
        parts = task.get_qpos(physics), task.get_qvel(physics), task.get_env_state(physics)
        return np.concatenate(parts).astype(np.float32)

    @property
    def simulation(self) -> Simulation:
        """The MuJoCo model and data."""
        physics = self._env._env.physics
        return physics.model.ptr, physics.data.ptr

    def picture(self, camera: CameraSpec) -> UInt8:
        """What `camera` sees, (H, W, 3)."""
        return self._pictures.of(self.simulation, camera)

    def close(self) -> None:
        """Free graphics contexts."""
        self._pictures.close()


def _unit(joint: str) -> str:
    """Grippers are in shares of their opening, 0 closed and 1 open."""
    return "1" if joint.endswith("gripper") else "rad"


def _state(joints: Sequence[str], objects: Sequence[str]) -> ArraySpec:
    """Positions of the `joints`, their velocities, and the poses of the `objects`."""
    elements = [(joint, _unit(joint)) for joint in joints]
    elements += [(f"{joint}.velocity", f"{_unit(joint)}/s") for joint in joints]
    elements += [(f"{body}.{element}", unit) for body in objects for element, unit in _POSE]
    names, units = zip(*elements, strict=True)
    return ArraySpec("state", names, units, (-np.inf,) * len(names), (np.inf,) * len(names))


def _action(joints: Sequence[str], ranges: Any) -> ArraySpec:
    """Targets of the `joints`, within `ranges` (16, 2) of the actuators; a gripper has two of them."""
    units = tuple(map(_unit, joints))
    arms = iter(np.delete(np.asarray(ranges), [6, 7, 14, 15], axis=0).tolist())
    bounds = [(0.0, 1.0) if unit == "1" else tuple(next(arms)) for unit in units]
    low, high = zip(*bounds, strict=True)
    return ArraySpec("action", tuple(joints), units, low, high)
