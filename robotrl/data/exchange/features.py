"""The ticks of an episode as features of a LeRobot data set, and back.

`action` is what is imitated: what was requested, or what was executed at ticks where nothing was requested. LeRobot
takes every feature called `observation…` or `action…` for an input or a target of policies, so ours are `robotrl.…`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.specs import EnvironmentSpec
from robotrl.types import Episode

STATE, ACTION, DONE = "observation.state", "action", "next.done"
IMAGES = "observation.images."
VECTORS = {
    "robotrl.action_executed": "action",
    "robotrl.action_requested": "action_requested",
    "robotrl.action_policy": "action_policy",
    "robotrl.action_human": "action_human",
}
"""Feature → the field of `Episode` with (T, A) float32."""
SCALARS = {
    "next.reward": "reward",
    "next.success": "success",
    "intervention": "intervention",
    "robotrl.control_mode": "control_mode",
    "robotrl.trigger": "trigger",
    "robotrl.probability": "probability",
    "robotrl.terminated": "terminated",
    "robotrl.truncated": "truncated",
    "robotrl.policy_version": "policy_version",
    "robotrl.chunk_id": "chunk_id",
    "robotrl.chunk_row": "chunk_row",
    "robotrl.delay_ticks": "delay_ticks",
    "robotrl.starved": "starved",
    "robotrl.clamped": "clamped",
}
"""Feature → the field of `Episode` with (T,)."""
WITHOUT_STATISTICS = {*VECTORS, "robotrl.probability"}
"""NaN says "there was none" in these, so that a mean would mislead."""
_DTYPES = {
    **dict.fromkeys(("reward", "probability"), "float32"),
    **dict.fromkeys(("success", "intervention", "terminated", "truncated", "starved"), "bool"),
    **dict.fromkeys(("control_mode", "trigger", "clamped"), "uint8"),
    **dict.fromkeys(("policy_version", "chunk_id", "chunk_row", "delay_ticks"), "int32"),
}
_INDICES = {
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}


def tick_columns(episode: Episode, fps: float, episode_index: int, first: int, task: int) -> dict[str, NDArray[Any]]:
    """Feature → (T,) or (T, D) of one episode.

    Args:
        episode: T ticks.
        fps: control ticks a second.
        episode_index: its place in the data set.
        first: the place of its first tick among all ticks.
        task: the place of its instruction among all instructions.
    """
    ticks, count = np.arange(episode.length), episode.length
    requested = episode.action_requested
    return {
        STATE: episode.state[:-1],
        ACTION: np.where(np.isfinite(requested), requested, episode.action),
        DONE: episode.terminated | episode.truncated,
        **{feature: getattr(episode, field) for feature, field in (VECTORS | SCALARS).items()},
        "timestamp": (ticks / fps).astype(np.float32),
        "frame_index": ticks,
        "episode_index": np.full(count, episode_index),
        "index": ticks + first,
        "task_index": np.full(count, task),
    }


def declared_features(spec: EnvironmentSpec, cameras: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """`features` of `meta/info.json`; `cameras`: camera name → its feature."""
    action = {"dtype": "float32", "shape": [spec.action.size], "names": list(spec.action.elements)}
    state = {"dtype": "float32", "shape": [spec.state.size], "names": list(spec.state.elements)}
    scalars = {feature: _DTYPES[field] for feature, field in SCALARS.items()} | {DONE: "bool"} | _INDICES
    return {
        STATE: state,
        ACTION: action,
        **{f"{IMAGES}{name}": dict(feature) for name, feature in cameras.items()},
        **{feature: action for feature in VECTORS},
        **{feature: {"dtype": dtype, "shape": [1], "names": None} for feature, dtype in scalars.items()},
    }


def episode_fields(column: Callable[[str], NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The per-tick fields of `Episode`, from a function that gives a feature's column."""
    return {field: column(feature) for feature, field in (VECTORS | SCALARS).items()}
