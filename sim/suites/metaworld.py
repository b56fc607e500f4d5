"""Meta-World: fifty tasks for a Sawyer arm, each with a scripted policy, which serves as the expert.

A start is the one that Meta-World's own `<name>-goal-observable` environment has for the same seed, and an episode is
a success at the first tick at which Meta-World says so; both are held to the bit by tests. The goal is observed.
"""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from robotrl.errors import unknown_name
from robotrl.specs import ArraySpec, CameraSpec, EnvironmentSpec
from robotrl.types import Float32, Int64, Observation, UInt8
from sim.suites.base import Moment, Simulation, SuiteEnvironment, World, suite_spec
from sim.suites.instructions import META_WORLD
from sim.suites.packages import suite_module
from sim.suites.pictures import Pictures, require_camera
from sim.suites.seeding import process_generators

_POSE = (("x", "m"), ("y", "m"), ("z", "m"), *((f"q{i}", "1") for i in range(4)))
_SEEN = (
    *((f"tool.{axis}", "m") for axis in "xyz"),
    ("gripper", "1"),
    *((f"object_{i}.{element}", unit) for i in (1, 2) for element, unit in _POSE),
)
_STATE = (*_SEEN, *((f"past_{name}", unit) for name, unit in _SEEN), *((f"goal.{axis}", "m") for axis in "xyz"))
_STEP = ("step.x", "step.y", "step.z")
_ACTION = ArraySpec("action", (*_STEP, "effort"), ("1",) * 4, (-1.0,) * 4, (1.0,) * 4)
_CORNER = CameraSpec("corner", 240, 320)


def tasks() -> dict[str, Any]:
    """Name → the class of every task."""
    return suite_module("metaworld.env_dict").ALL_V3_ENVIRONMENTS


def meta_world(name: str, worlds: int, cameras: Sequence[CameraSpec] = (_CORNER,)) -> SuiteEnvironment:
    """`worlds` worlds of the task `name`, such as "drawer-open-v3"; `cameras` are those of its model."""
    if name not in (known := tasks()):
        raise unknown_name("Meta-World task", name, known)
    return SuiteEnvironment(partial(MetaWorld, name, known[name], tuple(cameras)), worlds)


class MetaWorld(World):
    """One world of the task `name`, which Meta-World builds from the class `kind`."""

    def __init__(self, name: str, kind: Any, cameras: tuple[CameraSpec, ...]) -> None:
        self._env, self._pictures = kind(), Pictures()
        # As `set_task` does for a task of Meta-World's multi-task benchmarks.
        self._env._set_task_called, self._env._partially_observable = True, False
        del self._env.sawyer_observation_space
        for camera in cameras:
            require_camera(self._env.model, camera)
        space = self._env.sawyer_observation_space
        elements, units = zip(*_STATE, strict=True)
        self._spec = suite_spec(
            task=name,
            robot="sawyer",
            state=ArraySpec("state", elements, units, tuple(space.low.tolist()), tuple(space.high.tolist())),
            action=_ACTION,
            simulation=self.simulation,
            control_hz=1.0 / self._env.dt,
            horizon=self._env.max_path_length,
            instruction=META_WORLD[name],
            cameras=cameras,
            momentary=_STEP,
        )

    @property
    def spec(self) -> EnvironmentSpec:
        """What it promises."""
        return self._spec

    def reset(self, seed: int) -> Moment:
        """Start from `seed`."""
        # A reset draws the start more than once: Meta-World draws here, and then resets to what it drew.
        with process_generators(seed):
            self._env._freeze_rand_vec = False
            self._env.reset()
            self._env._freeze_rand_vec = True
        return Moment(self._env.reset()[0].astype(np.float32))

    def step(self, action: Float32) -> Moment:
        """One tick under `action` (A,)."""
        state, reward, _, _, info = self._env.step(action)
        return Moment(state.astype(np.float32), float(reward), bool(info["success"]))

    @property
    def simulation(self) -> Simulation:
        """The MuJoCo model and data."""
        return self._env.model, self._env.data

    def picture(self, camera: CameraSpec) -> UInt8:
        """What `camera` sees, (H, W, 3)."""
        return self._pictures.of(self.simulation, camera)

    def close(self) -> None:
        """Free graphics contexts."""
        self._pictures.close()
        self._env.close()


class ScriptedExpert:
    """Meta-World's scripted policy for the task of `spec`. It sees the state alone and makes no noise."""

    def __init__(self, spec: EnvironmentSpec, worlds: int) -> None:
        self._spec = spec
        self._policy = suite_module("metaworld.policies").ENV_POLICY_MAP[spec.task]()

    def reset(self, rows: Int64, seeds: Int64) -> None:
        """It has no memory."""

    def wander(self, rows: Int64, rng: Sequence[np.random.Generator]) -> None:
        """It has no noise."""

    def act(self, observation: Observation, rows: Int64) -> Float32:
        """Actions (n, A) for the worlds `rows` (n,) of `observation` (N worlds)."""
        return self.drive(observation.state[rows], observation.tick[rows], rows)

    def drive(self, state: Float32, tick: Int64, rows: Int64) -> Float32:
        """Actions (n, A) for `state` (n, S)."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that its gains may be too high
            actions = [self._policy.get_action(row) for row in state.astype(np.float64)]
        return self._spec.action.clip(np.stack(actions))
