"""Any Gymnasium environment with a box of actions, such as `Pendulum-v1` or the tasks of OGBench."""

# MuJoCo's extension modules carry no type stubs.
# pyright: reportAttributeAccessIssue=false

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium import spaces

from robotrl.errors import ConfigurationError, unknown_name
from robotrl.specs import ArraySpec, CameraSpec, EnvironmentSpec
from robotrl.types import Float32, UInt8
from sim.suites.base import Moment, Simulation, SuiteEnvironment, World, suite_spec
from sim.suites.packages import suite_module
from sim.suites.pictures import Pictures, require_camera

TERMINATION = "termination"
"""The value of `success` for tasks that end when they are solved."""


def gymnasium_environment(
    name: str,
    worlds: int,
    package: str | None = None,
    success: str = "success",
    control_hz: float | None = None,
    horizon: int | None = None,
    instruction: str | None = None,
    options: Mapping[str, Any] | None = None,
    cameras: Sequence[CameraSpec] = (),
) -> SuiteEnvironment:
    """`worlds` worlds of the Gymnasium environment with the id `name`.

    Args:
        name: the id, as `gymnasium.make` takes it.
        worlds: N.
        package: module whose import registers the id; none for Gymnasium's own.
        success: key of `info` that says whether the task is solved, or "termination" where that ends the episode.
        control_hz: ticks a second; what the environment says of itself when None.
        horizon: longest episode in ticks; the environment's own limit when None.
        instruction: the task in words; its id when None.
        options: arguments of the environment itself.
        cameras: for a MuJoCo model its own cameras; else one of the size that `render` draws.
    """
    if package is not None:
        suite_module(package)
    if name not in gymnasium.registry:
        raise unknown_name("Gymnasium environment", name, gymnasium.registry)
    mode: dict[str, Any] = {"render_mode": "rgb_array"} if cameras else {}

    def make() -> GymnasiumWorld:
        env = gymnasium.make(name, disable_env_checker=True, **mode, **(options or {}))
        return GymnasiumWorld(env, name, success, control_hz, horizon, instruction or name, tuple(cameras))

    return SuiteEnvironment(make, worlds)


class GymnasiumWorld(World):
    """One Gymnasium environment `env`; the other arguments are those of `gymnasium_environment`."""

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        name: str,
        success: str,
        control_hz: float | None,
        horizon: int | None,
        instruction: str,
        cameras: tuple[CameraSpec, ...],
    ) -> None:
        self._env, self._success, self._pictures = env, success, Pictures()
        self._space, self._seen = state_space(name, env.observation_space), dict[str, UInt8]()
        self.reset(0)  # some build their model at the first reset
        if self.simulation is not None:
            for camera in cameras:
                if camera.name not in self._seen:
                    require_camera(self.simulation[0], camera)
        action = action_spec(name, env.action_space)
        self._spec = suite_spec(
            task=re.sub(r"[^A-Za-z0-9._-]+", "_", name),
            robot="gymnasium",
            state=_numbered("state", "observation", spaces.flatten_space(self._space)),
            action=action,
            simulation=self.simulation,
            control_hz=_rate(name, env, control_hz),
            horizon=_limit(name, env, horizon),
            instruction=instruction,
            cameras=cameras,
            momentary=action.elements,  # nothing says otherwise
        )

    @property
    def spec(self) -> EnvironmentSpec:
        """What it promises."""
        return self._spec

    def reset(self, seed: int) -> Moment:
        """Start from `seed`."""
        observation, _ = self._env.reset(seed=seed)
        return Moment(self._state(observation))

    def step(self, action: Float32) -> Moment:
        """One tick under `action` (A,)."""
        observation, reward, terminated, _, info = self._env.step(action)
        success = terminated if self._success == TERMINATION else bool(info.get(self._success, False))
        return Moment(self._state(observation), float(reward), success, terminated and not success)

    def _state(self, observation: Any) -> Float32:
        """The state vector (S,) of an observation: all of it but pictures, flattened. Its pictures are kept."""
        self._seen = dict(_pictures_in(self._env.observation_space, observation))
        return np.asarray(spaces.flatten(self._space, observation), np.float32)

    @property
    def simulation(self) -> Simulation | None:
        """The MuJoCo model and data of the environment, where it has them."""
        bare = self._env.unwrapped
        model, data = getattr(bare, "model", None), getattr(bare, "data", None)
        return (model, data) if isinstance(model, mujoco.MjModel) and isinstance(data, mujoco.MjData) else None

    def picture(self, camera: CameraSpec) -> UInt8:
        """What `camera` sees, (H, W, 3): a picture of the observation, a camera of the model, or a rendering."""
        if camera.name not in self._seen and self.simulation is not None:
            return self._pictures.of(self.simulation, camera)
        frame: Any = self._seen[camera.name] if camera.name in self._seen else self._env.render()
        shape = (camera.height, camera.width, 3)
        if np.shape(frame) != shape:
            raise ConfigurationError(f"camera '{camera.name}': expected {shape}, but it draws {np.shape(frame)}")
        return np.asarray(frame, np.uint8)

    def close(self) -> None:
        """Close the environment."""
        self._pictures.close()
        self._env.close()


def state_space(name: str, space: spaces.Space[Any]) -> spaces.Space[Any]:
    """The part of an observation space that a state vector holds: everything but pictures."""
    found = _numbers(space)
    if found is None or not found.is_np_flattenable:
        raise ConfigurationError(f"'{name}' observes {space}: expected numbers; choose its variant with states")
    return found


def _numbers(space: spaces.Space[Any]) -> spaces.Space[Any] | None:
    """`space` without its pictures, None where nothing is left."""
    if not isinstance(space, spaces.Dict):
        return None if _is_picture(space) else space
    kept = {key: part for key in space if (part := _numbers(space[key])) is not None}
    return spaces.Dict(kept) if kept else None


def observed_cameras(space: spaces.Space[Any]) -> tuple[CameraSpec, ...]:
    """The cameras whose pictures are in observations, called by their keys."""
    return tuple(CameraSpec(name, *box.shape[:2]) for name, box in _pictures_in(space, space))


def _pictures_in(space: spaces.Space[Any], observation: Any, name: str = "pixels") -> Iterator[tuple[str, Any]]:
    """The name and value of every picture of an `observation` in `space`."""
    if isinstance(space, spaces.Dict):
        for key, part in space.items():
            yield from _pictures_in(part, observation[key], key)
    elif _is_picture(space):
        yield name, observation


def _is_picture(space: spaces.Space[Any]) -> bool:
    """Whether `space` is of uint8 images (H, W, 3)."""
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3


def action_spec(name: str, space: spaces.Space[Any]) -> ArraySpec:
    """The spec of a box of actions; units are not known."""
    if not (isinstance(space, spaces.Box) and len(space.shape) == 1 and space.is_bounded()):
        raise ConfigurationError(f"'{name}' acts in {space}: expected a bounded Box of one axis")
    return _numbered("action", "action", space)


def _numbered(name: str, prefix: str, space: spaces.Space[Any]) -> ArraySpec:
    """A spec of `space`, a Box of one axis, with elements called after their place."""
    assert isinstance(space, spaces.Box)
    low, high = space.low.astype(float), space.high.astype(float)
    names = tuple(f"{prefix}.{i}" for i in range(len(low)))
    return ArraySpec(name, names, ("1",) * len(low), tuple(low.tolist()), tuple(high.tolist()))


def _rate(name: str, env: gymnasium.Env[Any, Any], control_hz: float | None) -> float:
    """Control ticks a second: as asked for, or the time step that the environment has, or its frame rate."""
    step_s = getattr(env.unwrapped, "dt", None)
    found = control_hz or (1.0 / step_s if isinstance(step_s, float) and step_s > 0 else None)
    found = found or env.metadata.get("render_fps")
    if not found:
        raise ConfigurationError(f"'{name}' does not say its control rate: give task.environment.control_hz")
    return float(found)


def _limit(name: str, env: gymnasium.Env[Any, Any], horizon: int | None) -> int:
    """The longest episode in ticks: no longer than the environment's own limit, where it has one."""
    own = None if env.spec is None else env.spec.max_episode_steps
    found = min([limit for limit in (horizon, own) if limit is not None], default=0)
    if found < 1:
        raise ConfigurationError(f"'{name}' has no time limit: give task.environment.horizon, in ticks")
    return found
