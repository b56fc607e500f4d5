"""The simulation environments of LeRobot, as its `make_env` builds them: LIBERO, Meta-World, PushT and others.

What a task needs beside LeRobot (packages, assets) is LeRobot's affair: its extras are called as the kinds are. The
state is what LeRobot observes besides pictures. The cameras are those of its observations, drawn at every tick.
"""

from collections.abc import Mapping
from typing import Any

from robotrl.errors import ConfigurationError, unknown_name
from sim.suites.base import Moment, SuiteEnvironment
from sim.suites.gymnasium import GymnasiumWorld, observed_cameras
from sim.suites.packages import suite_module

_ELSEWHERE = {"aloha": "suites/aloha", "gym_manipulator": "a robot"}
"""Kinds that cannot be used: ALOHA's actions are bounded to ±1 here, although they are joint angles up to 3 rad."""


def lerobot(
    name: str, worlds: int, kind: str, task_id: int = 0, options: Mapping[str, Any] | None = None
) -> SuiteEnvironment:
    """`worlds` worlds of a task of LeRobot.

    Args:
        name: its task, such as "drawer-open-v3" of Meta-World or the suite "libero_spatial".
        worlds: N.
        kind: LeRobot's type of environment: "metaworld", "libero", "pusht", …
        task_id: which task of a suite that has several.
        options: further values of LeRobot's configuration of that type.
    """
    known = suite_module("lerobot.envs.configs").EnvConfig.get_known_choices()
    if kind in _ELSEWHERE:
        raise ConfigurationError(f"lerobot's '{kind}' does not run here: use {_ELSEWHERE[kind]}")
    if kind not in known:
        raise unknown_name("LeRobot environment", kind, known)
    return SuiteEnvironment(lambda: _world(name, kind, task_id, dict(options or {})), worlds)


def _world(name: str, kind: str, task_id: int, options: dict[str, Any]) -> "LeRobotWorld":
    """One world of the task."""
    factory = suite_module("lerobot.envs.factory")
    config = factory.make_env_config(kind, task=name, **options)
    try:
        (group,) = factory.make_env(config, n_envs=1).values()
    except (ImportError, KeyError, ValueError) as error:
        raise ConfigurationError(f"lerobot cannot make '{name}' of '{kind}': {error}") from error
    if task_id not in group:
        raise ConfigurationError(f"'{name}' of '{kind}' has no task {task_id}: expected 0 to {len(group) - 1}")
    for other, vector in group.items():
        if other != task_id:
            vector.close()
    env = group[task_id].envs[0]
    bare = env.unwrapped
    return LeRobotWorld(
        env,
        name if len(group) == 1 else f"{name}-{task_id}",
        "is_success",
        float(config.fps),
        getattr(bare, "_max_episode_steps", None) or config.episode_length,
        getattr(bare, "task_description", name),
        observed_cameras(env.observation_space),
    )


class LeRobotWorld(GymnasiumWorld):
    """One environment of LeRobot."""

    def reset(self, seed: int) -> Moment:
        """Start from `seed` alone. LIBERO has recorded starts, of which it takes the next at each reset."""
        bare: Any = self._env.unwrapped
        if hasattr(bare, "init_state_id"):
            bare.init_state_id = seed
        return super().reset(seed)
