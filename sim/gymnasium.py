"""The tasks as Gymnasium environments: `gymnasium.make("sim.gymnasium:robotrl/PickPlace-v0")`.

Importing this module registers them. States, starts, endings and pictures are those of `sim.environment`.

- An observation is the state vector within the bounds of its spec. What lies beyond them, such as a joint pressed a
  milliradian over its limit, is clipped, as other libraries take the bounds of a `Box` at their word.
- An action says how far each target moves in a tick, in [-1, 1] times the longest step that the robot allows; zero
  stands still. The longest step of a gripper is its whole opening.
- The reward is the task's, in [0, 1]. When success has held for half a second the episode ends, and that tick also pays
  1 for each tick that is left. Without it, waiting beside the goal would pay more than success.
- Starts come from the training seeds of `robotrl.seeds`, whatever seed `reset` is given, unless `seeds` names others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from robotrl.errors import ConfigurationError, DataError, unknown_name
from robotrl.seeds import seed_range
from robotrl.types import Bool, Float32, Float64, UInt8
from sim import scene
from sim.environment import MujocoEnvironment
from sim.tasks import TASKS, Task

Info = dict[str, Any]
Parameter = float | str
_METADATA: Info = {"render_modes": ["rgb_array"], "render_fps": 20}
_ONE = np.ones(1, np.bool_)


def register() -> None:
    """Tell Gymnasium of the tasks: `pick_place` is `robotrl/PickPlace-v0`. Idempotent."""
    for name, task in TASKS.items():
        if (key := f"robotrl/{task.__name__}-v0") not in gymnasium.registry:
            gymnasium.register(
                key,
                entry_point=f"{__name__}:TaskEnv",
                vector_entry_point=f"{__name__}:TaskVectorEnv",
                kwargs={"task": name},
            )


def _task_called(name: str, parameters: Mapping[str, Parameter]) -> Task:
    """The task of this name with these parameters."""
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    valid = [field.name for field in fields(TASKS[name])]
    for parameter in parameters:
        if parameter not in valid:
            raise unknown_name(f"parameter of task '{name}'", parameter, valid)
    return TASKS[name](**parameters)  # pyright: ignore[reportArgumentType]


class _Worlds:
    """N worlds of a task in Gymnasium's terms.

    Attributes:
        observation_space, action_space: of one world.
        hz: control ticks a second.
    """

    def __init__(
        self, task: Task, worlds: int, threads: int, robot: str | None, render_mode: str | None, seeds: str
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ConfigurationError(f"render_mode: expected None or 'rgb_array', got {render_mode!r}")
        self._range = seed_range(seeds)
        self._environment = MujocoEnvironment(task, worlds, threads, robot)
        self._spec = spec = self._environment.spec
        self._targets, self._stages = scene.control_slice(self._environment.model), spec.privileged.slice("checkpoint")
        low, high = np.array([spec.state.low, spec.state.high], np.float32)
        self.observation_space = spaces.Box(low, high, dtype=np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (spec.action.size,), np.float32)
        self.hz = spec.control_hz
        self._seeds = np.zeros(worlds, np.int64)
        self._success = np.zeros(worlds, np.bool_)
        self._failure = np.full(worlds, "", object)
        self._reached = np.zeros((worlds, self._stages.stop - self._stages.start), np.bool_)
        self._last = self._environment.reset(self._seeds, self._success)  # of no world: there is no start yet

    @property
    def observation(self) -> Float32:
        """What the worlds (N, S) observe."""
        return self._spec.state.clip(self._last.state)

    def reset(self, generators: Sequence[np.random.Generator], mask: Bool) -> None:
        """Start the worlds in `mask` (N,), each from a seed that its own generator draws."""
        for row in np.flatnonzero(mask):
            self._seeds[row] = self._range.draw(generators[row])
        self._last = self._environment.reset(self._seeds, mask)
        self._success[mask], self._failure[mask], self._reached[mask] = False, "", False
        self._note_stages(mask)

    def targets(self, actions: Float32) -> Float32:
        """The robot's actions (N, A) that Gymnasium's `actions` (N, A) ask for."""
        expected, robot = (len(self._seeds), self._spec.action.size), self._environment.robot
        if np.shape(actions) != expected:
            raise DataError(f"actions: expected shape {expected}, got {np.shape(actions)}")
        self._spec.action.require(moves := np.asarray(actions, np.float32))
        assert self._last.physics is not None  # MuJoCo never hides it
        now = robot.actions_of(self._last.physics[:, self._targets])
        return self._spec.action.clip(now + np.clip(moves, -1.0, 1.0) * robot.longest_step)

    def step(self, targets: Float32, mask: Bool) -> tuple[Float64, Bool, Bool]:
        """One tick of the worlds in `mask` (N,) under `targets` (N, A): reward, terminated and truncated, (N,) each."""
        passed = self._environment.step(targets[:, None], mask)
        self._last = passed.observation
        terminated, truncated = passed.terminated[:, 0], passed.truncated[:, 0]
        self._failure[mask] = np.array(passed.failure, object)[mask]
        self._success[mask] = (terminated & (self._failure == ""))[mask]
        self._note_stages(mask)
        left = self._spec.horizon - self._last.tick
        return passed.reward[:, 0] + (terminated & self._success) * left.astype(np.float64), terminated, truncated

    def _note_stages(self, mask: Bool) -> None:
        """Remember the checkpoints at which the worlds in `mask` (N,) are."""
        assert self._last.privileged is not None  # nor does it hide this
        self._reached[mask] |= self._last.privileged[mask, self._stages] > 0.5

    def info(self) -> Info:
        """What is known besides the observation: a name → (N,) values, or → a dictionary of such."""
        stages = [name.removeprefix("checkpoint.") for name in self._spec.privileged.elements[self._stages]]
        return {
            "seed": self._seeds.copy(),
            "instruction": np.array(self._last.instruction, object),
            "checkpoints": dict(zip(stages, self._reached.T.copy(), strict=True)),
            "success": self._success.copy(),
            "is_success": self._success.copy(),  # the name under which Stable-Baselines3 looks for it
            "failure": self._failure.copy(),
        }

    def render(self) -> UInt8:
        """Pictures (N, H, W, 3) of the worlds."""
        nobody = np.zeros_like(self._success)
        still = np.zeros((len(self._seeds), 1, self._spec.action.size), np.float32)
        images = self._environment.step(still, nobody, render=~nobody).observation.images
        return images[self._spec.cameras[0].name]

    def close(self) -> None:
        """Free threads and graphics. Idempotent."""
        self._environment.close()


def _of_one_world(info: Info) -> Info:
    """What `_Worlds.info` tells of the first world, in plain values."""
    return {
        name: _of_one_world(value) if isinstance(value, dict) else value.tolist()[0] for name, value in info.items()
    }


class TaskEnv(gymnasium.Env[Float32, Float32]):
    """One world of a task; made by `gymnasium.make`.

    Args:
        task: name, which the registered id stands for.
        robot: name of one that the task can be done with; the first of them when None.
        render_mode: None, or "rgb_array".
        seeds: the range of `robotrl.seeds` from which starts are drawn; another than "train" is to measure on.
        parameters: of the task, such as `difficulty`.
    """

    metadata: Info = _METADATA  # gymnasium.make reads the class

    def __init__(
        self,
        task: str,
        robot: str | None = None,
        render_mode: str | None = None,
        seeds: str = "train",
        **parameters: Parameter,
    ) -> None:
        self._worlds = _Worlds(_task_called(task, parameters), 1, 1, robot, render_mode, seeds)
        self.observation_space, self.action_space = self._worlds.observation_space, self._worlds.action_space
        self.render_mode = render_mode
        self.metadata = {**_METADATA, "render_fps": self._worlds.hz}

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Float32, Info]:
        """A new start: observation (S,) and info. Equal seeds give equal sequences of starts; there are no options."""
        super().reset(seed=seed)
        self._worlds.reset([self.np_random], _ONE)
        return self._worlds.observation[0], _of_one_world(self._worlds.info())

    def step(self, action: Float32) -> tuple[Float32, float, bool, bool, Info]:
        """One tick under `action` (A,): observation (S,), reward, terminated, truncated, info.

        The info holds the `seed` of the start, the `instruction`, which `checkpoints` the episode has reached,
        `success` (also as `is_success`): whether it has held for half a second, and `failure`: why the episode ended
        otherwise, such as "timeout", or "".
        """
        targets = self._worlds.targets(np.asarray(action)[None])
        reward, terminated, truncated = self._worlds.step(targets, _ONE)
        info = _of_one_world(self._worlds.info())
        return self._worlds.observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), info

    def render(self) -> UInt8 | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The picture (H, W, 3) of the world as it is, in mode "rgb_array"."""
        return None if self.render_mode is None else self._worlds.render()[0]

    def close(self) -> None:
        """Free threads and graphics. Idempotent."""
        self._worlds.close()


class TaskVectorEnv(VectorEnv[Float32, Float32, NDArray[Any]]):
    """N worlds of a task, stepped together; made by `gymnasium.make_vec`. World i does what a `TaskEnv` does.

    Args:
        task, robot, render_mode, seeds, parameters: as of `TaskEnv`.
        num_envs: N.
        threads: cores to use, 0 for all that the process may use. Results do not depend on it.
        autoreset_mode: when a world that ended starts anew: at the next step, whose action it ignores; in the same one,
            whose info then has `final_obs` and `final_info`; or when `reset` is called with `options["reset_mask"]`.
    """

    metadata: Info = _METADATA | {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        task: str,
        num_envs: int = 1,
        robot: str | None = None,
        render_mode: str | None = None,
        seeds: str = "train",
        threads: int = 1,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **parameters: Parameter,
    ) -> None:
        modes = [mode.value for mode in AutoresetMode]
        if autoreset_mode not in (*AutoresetMode, *modes):
            raise unknown_name("autoreset mode", str(autoreset_mode), modes)
        self._mode = AutoresetMode(autoreset_mode)
        self._worlds = _Worlds(_task_called(task, parameters), num_envs, threads, robot, render_mode, seeds)
        self.num_envs, self.render_mode = num_envs, render_mode
        self.single_observation_space = self._worlds.observation_space
        self.single_action_space = self._worlds.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.metadata = self.metadata | {"render_fps": self._worlds.hz, "autoreset_mode": self._mode}
        self._generators = [seeding.np_random()[0] for _ in range(num_envs)]
        self._everyone = np.ones(num_envs, np.bool_)
        self._ended = np.zeros(num_envs, np.bool_)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Info | None = None
    ) -> tuple[Float32, Info]:
        """New starts: observations (N, S) and info.

        Args:
            seed: of world 0, to which world i adds i; or one for every world. None goes on with the present sequences.
            options: `reset_mask` (N,) bool: which worlds start anew, all by default; there are no others.
        """
        mask = self._everyone if options is None else options.get("reset_mask", self._everyone)
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int | np.integer) else seed
        seeds = [None] * self.num_envs if seeds is None else seeds
        if len(seeds) != self.num_envs:
            raise DataError(f"seed: expected one number, or {self.num_envs}, got {len(seeds)}")
        if np.shape(mask) != (self.num_envs,) or np.asarray(mask).dtype != np.bool_:
            raise DataError(f"reset_mask: expected {self.num_envs} booleans, got {mask!r}")
        for i in np.flatnonzero(mask):
            if seeds[i] is not None:
                self._generators[i] = seeding.np_random(seeds[i])[0]
        self._worlds.reset(self._generators, mask)
        self._ended &= ~mask
        return self._worlds.observation, _with_masks(self._worlds.info(), mask)

    def step(self, actions: Float32) -> tuple[Float32, Float64, Bool, Bool, Info]:
        """One tick under `actions` (N, A): observations (N, S), reward, terminated and truncated (N,), and info.

        The info is that of `TaskEnv.step`, an array for a value.
        """
        targets, moving = self._worlds.targets(actions), self._everyone
        if self._mode is AutoresetMode.NEXT_STEP and self._ended.any():
            moving = ~self._ended
            self._worlds.reset(self._generators, self._ended)
        reward, terminated, truncated = self._worlds.step(targets, moving)
        self._ended, info = terminated | truncated, {}
        if self._mode is AutoresetMode.SAME_STEP and self._ended.any():
            final = {"final_obs": _rows(self._worlds.observation), "final_info": self._worlds.info()}
            info = _with_masks(final, self._ended)
            self._worlds.reset(self._generators, self._ended)
        info |= _with_masks(self._worlds.info(), self._everyone)
        return self._worlds.observation, reward, terminated, truncated, info

    def render(self) -> tuple[UInt8, ...] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The pictures (H, W, 3) of the worlds as they are, in mode "rgb_array"."""
        return None if self.render_mode is None else tuple(self._worlds.render())

    def close_extras(self, **kwargs: Any) -> None:
        """Free threads and graphics."""
        self._worlds.close()


def _rows(values: Float32) -> NDArray[np.object_]:
    """The rows of `values` (N, S) as the elements of an array (N,)."""
    out = np.empty(len(values), object)
    out[:] = list(values)
    return out


def _with_masks(info: Info, mask: Bool) -> Info:
    """What vector environments tell: values that are 0 or None outside of `mask` (N,), and the mask beside each key."""
    out: Info = {}
    for name, value in info.items():
        if isinstance(value, dict):
            out[name] = _with_masks(value, mask)
        else:
            out[name] = np.full_like(value, None if value.dtype == object else 0)
            out[name][mask] = value[mask]
        out[f"_{name}"] = mask.copy()
    return out


register()
