"""The tasks of robosuite for one or two arms, with its default controllers: steps of the hands, and grippers.

The state is what robosuite observes of the robots and the objects, element by element. It has no scripted policies.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from robotrl.errors import unknown_name
from robotrl.specs import ArraySpec, CameraSpec, EnvironmentSpec
from robotrl.types import Float32, UInt8
from sim.suites.base import Moment, Simulation, SuiteEnvironment, World, suite_spec
from sim.suites.packages import suite_module
from sim.suites.pictures import Pictures, require_camera
from sim.suites.seeding import process_generators

SHORT = {"Can": "PickPlaceCan", "Square": "NutAssemblySquare", "Transport": "TwoArmTransport"}
"""What robomimic and those after it call three of the tasks."""
_WORDS = {
    "Lift": "lift the cube",
    "Stack": "stack the red cube on the green cube",
    "PickPlaceCan": "put the can into its bin",
    "NutAssemblySquare": "put the square nut on its peg",
    "ToolHang": "assemble the frame and hang the tool on it",
    "TwoArmTransport": "bring the hammer from one bin to the other",
    "Door": "open the door",
    "Wipe": "wipe the table",
}
_UNITS = {"pos": "m", "qpos": "rad", "qvel": "rad/s", "joint_pos": "rad", "joint_vel": "rad/s"}
_FRONT = CameraSpec("agentview", 240, 320)


def tasks() -> list[str]:
    """Names of the tasks, robomimic's last."""
    suite = suite_module("robosuite")
    suite_module("robosuite.utils.log_utils").ROBOSUITE_DEFAULT_LOGGER.setLevel(logging.ERROR)
    return [*suite.ALL_ENVIRONMENTS, *SHORT]


def robosuite(
    name: str,
    worlds: int,
    robot: str = "Panda",
    control_hz: float = 20.0,
    horizon: int = 500,
    cameras: Sequence[CameraSpec] = (_FRONT,),
) -> SuiteEnvironment:
    """`worlds` worlds of the task `name`, such as "Lift", "Can", "Square" or "ToolHang".

    Args:
        name: as robosuite or robomimic call it.
        worlds: N.
        robot: robosuite's name of it; a task for two arms has two of them.
        control_hz: ticks a second.
        horizon: longest episode in ticks.
        cameras: of the task's model.
    """
    if name not in (known := tasks()):
        raise unknown_name("robosuite task", name, known)
    robots = suite_module("robosuite.robots").ROBOT_CLASS_MAPPING
    if robot not in robots:
        raise unknown_name("robosuite robot", robot, robots)
    make = partial(Robosuite, SHORT.get(name, name), robot, control_hz, horizon, tuple(cameras))
    return SuiteEnvironment(make, worlds)


class Robosuite(World):
    """One world of a task; the arguments are those of `robosuite`."""

    def __init__(self, name: str, robot: str, control_hz: float, horizon: int, cameras: tuple[CameraSpec, ...]) -> None:
        self._env: Any = suite_module("robosuite").make(
            name,
            robots=[robot] * 2 if name.startswith("TwoArm") else robot,
            has_renderer=False,
            has_offscreen_renderer=False,
            use_camera_obs=False,
            control_freq=control_hz,
            ignore_done=True,
        )
        self._pictures = Pictures()
        observed = self._env.reset()
        # Single numbers and vectors; those called "…-state" are the others once more.
        self._keys = [key for key in observed if not key.endswith("-state")]
        for camera in cameras:
            require_camera(self.simulation[0], camera)
        action = _action(self._env)
        self._spec = suite_spec(
            task=name,
            robot=robot,
            state=_state({key: np.ravel(observed[key]) for key in self._keys}),
            action=action,
            simulation=self.simulation,
            control_hz=control_hz,
            horizon=horizon,
            instruction=_WORDS.get(name, name),
            cameras=cameras,
            momentary=[element for element in action.elements if "gripper" not in element],
        )

    @property
    def spec(self) -> EnvironmentSpec:
        """What it promises."""
        return self._spec

    def reset(self, seed: int) -> Moment:
        """Start from `seed`: the model is built again, as sizes of objects are drawn too."""
        with process_generators(seed):
            return Moment(self._state(self._env.reset()))

    def step(self, action: Float32) -> Moment:
        """One tick under `action` (A,)."""
        observed, reward, _, _ = self._env.step(action.astype(np.float64))
        return Moment(self._state(observed), float(reward), bool(self._env._check_success()))

    def _state(self, observed: Mapping[str, Any]) -> Float32:
        """The state vector (S,)."""
        return np.concatenate([np.ravel(observed[key]) for key in self._keys]).astype(np.float32)

    @property
    def simulation(self) -> Simulation:
        """The MuJoCo model and data of the present episode."""
        return self._env.sim.model._model, self._env.sim.data._data

    def picture(self, camera: CameraSpec) -> UInt8:
        """What `camera` sees, (H, W, 3)."""
        return self._pictures.of(self.simulation, camera)

    def close(self) -> None:
        """Free graphics contexts."""
        self._pictures.close()


def _state(observed: Mapping[str, Any]) -> ArraySpec:
    """A spec of the observed vectors; units follow from the ends of their names, "1" where nothing is known."""
    elements: list[tuple[str, str]] = []
    for key, values in observed.items():
        unit = next((unit for end, unit in reversed(_UNITS.items()) if key.endswith(end)), "1")
        elements += [(f"{key}.{i}", unit) for i in range(len(values))]
    names, units = zip(*elements, strict=True)
    return ArraySpec("state", names, units, (-np.inf,) * len(names), (np.inf,) * len(names))


def _action(env: Any) -> ArraySpec:
    """The actions of all robots in order, named after robosuite's controllers of the parts of each."""
    names: list[str] = []
    for index, robot in enumerate(env.robots):
        for part, (start, stop) in robot.composite_controller._action_split_indexes.items():
            names += [f"robot{index}.{part}.{i}" for i in range(stop - start)]
    low, high = env.action_spec
    return ArraySpec("action", tuple(names), ("1",) * len(names), tuple(low.tolist()), tuple(high.tolist()))
