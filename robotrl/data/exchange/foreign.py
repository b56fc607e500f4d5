"""Episodes of data that robotrl did not record: what they say is kept, the rest is marked as not there."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.names import is_name
from robotrl.specs import ArraySpec, CameraSpec, Capabilities, EnvironmentSpec, SceneSpec
from robotrl.types import CameraFrames, ChunkTable, ControlMode, Episode, EpisodeMeta, Float32, Float64, Int64, Outcome

STAGE = "import"
OPTIONAL = (
    *("action_requested", "action_policy", "action_human", "control_mode", "trigger", "intervention", "reward"),
    *("probability", "success", "policy_version", "starved", "clamped"),
)
"""Fields of `Episode` that foreign data may have; the chunk fields mean nothing without a chunk table."""


@dataclass(frozen=True)
class ForeignEpisode:
    """T ticks as they were found.

    `state` (T + 1, S), `action` (T, A), `time_ns` (T + 1,), `physics` (T + 1, X); `known`: some of `OPTIONAL`.
    """

    episode_id: str
    instruction: str
    state: Float32
    action: Float32
    time_ns: Int64
    physics: Float64
    known: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])
    cameras: Mapping[str, CameraFrames] = field(default_factory=dict[str, CameraFrames])


def foreign_spec(
    *,
    task: str,
    robot: str,
    state: ArraySpec,
    action: ArraySpec,
    physics_size: int,
    control_hz: float,
    horizon: int,
    instructions: Iterable[str],
    cameras: Sequence[CameraSpec],
) -> EnvironmentSpec:
    """An environment of which nothing is known but its data: no scene, no privileged state, nothing to step."""
    return EnvironmentSpec(
        task=task,
        robot=robot,
        state=state,
        privileged=ArraySpec("privileged", (), (), (), ()),
        action=action,
        physics_size=physics_size,
        control_hz=control_hz,
        horizon=horizon,
        settle_ticks=1,
        instructions=tuple(dict.fromkeys(instructions)),
        tool_frame="",
        scene=SceneSpec((), ()),
        capabilities=Capabilities(snapshot=False, batched=False, faster_than_real_time=False),
        cameras=tuple(cameras),
    )


def measured_spec(name: str, elements: Sequence[str], low: NDArray[Any], high: NDArray[Any]) -> ArraySpec:
    """Bounds as they occur in the data; units that nobody stated are "1"."""
    bounds = tuple(map(float, low)), tuple(map(float, high))
    return ArraySpec(name, tuple(elements), ("1",) * len(elements), *bounds)


def task_name(text: str) -> str:
    """`text` with what a name must not have replaced."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("_.-")[:80]
    return name if is_name(name) else "imported"


def complete(found: ForeignEpisode, spec: EnvironmentSpec, outcome: Outcome | None) -> Episode:
    """The episode; `outcome` is what holds where the data do not say it."""
    length, actions = len(found.action), spec.action.size
    none, minus = np.full((length, actions), np.nan, np.float32), np.full(length, -1, np.int32)
    human = found.known.get("intervention", np.zeros(length, bool)).astype(bool)
    defaults: dict[str, NDArray[Any]] = {
        "action_requested": found.action,
        "action_policy": none,
        "action_human": np.where(human[:, None], found.action, np.float32(np.nan)),
        "control_mode": np.where(human, ControlMode.CORRECTION, ControlMode.AUTONOMOUS).astype(np.uint8),
        "trigger": np.zeros(length, np.uint8),
        "intervention": human,
        "reward": np.zeros(length, np.float32),
        "probability": np.full(length, np.nan, np.float32),
        "success": np.zeros(length, bool),
        "policy_version": minus,
        "starved": np.zeros(length, bool),
        "clamped": np.zeros(length, np.uint8),
    }
    arrays = {name: found.known.get(name, default).astype(default.dtype) for name, default in defaults.items()}
    if "success" in found.known:
        outcome = "success" if arrays["success"].any() else "failure"
    last = np.arange(length) == length - 1
    return Episode(
        meta=_meta(found, spec, outcome, human if "intervention" in found.known else None),
        state=found.state,
        privileged=np.zeros((length + 1, 0), np.float32),
        physics=found.physics,
        action=found.action,
        terminated=last & (outcome == "success"),
        truncated=last & (outcome != "success"),
        chunk_id=minus,
        chunk_row=minus,
        delay_ticks=minus,
        time_ns=found.time_ns,
        chunks=_no_chunks(actions),
        cameras=found.cameras,
        **arrays,
    )


def _meta(
    found: ForeignEpisode, spec: EnvironmentSpec, outcome: Outcome | None, human: NDArray[Any] | None
) -> EpisodeMeta:
    """Where somebody noted interventions a policy was at work; elsewhere the data are demonstrations."""
    source = "demonstration" if human is None else "takeover" if human.any() else "autonomous"
    return EpisodeMeta(
        episode_id=found.episode_id,
        task=spec.task,
        instruction=found.instruction,
        seed=-1,
        stage=STAGE,
        source=source,
        outcome=outcome,
        reason=outcome or "imported",
        operator_s=0.0 if human is None else float(human.sum() / spec.control_hz),
        environment=spec.fingerprint,
        control_hz=spec.control_hz,
    )


def _no_chunks(actions: int) -> ChunkTable:
    none = np.zeros(0, np.int32)
    return ChunkTable(np.zeros((0, 0, actions), np.float32), none, none, none, np.zeros((0, 0, 0), np.float32))
