"""Per-tick buffers of N running episodes, filled a whole batch at a time, cut into `Episode`s when they end."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.frames import TakenFrame
from robotrl.data.spill import SpillDirectory, SpillLog
from robotrl.rollout.execution import ScheduledActions
from robotrl.specs import EnvironmentSpec
from robotrl.types import (
    ActionChunk,
    Bool,
    ChunkTable,
    Command,
    Episode,
    EpisodeMeta,
    Float32,
    Int32,
    Int64,
    Observation,
    Transition,
)

_STATE_ROWS = ("state", "privileged", "physics", "time_ns")  # T + 1 rows
_NOT_BUFFERED = ("meta", "chunks", "cameras")


@dataclass
class _Chunks:
    """The chunk table of one running episode, as lists."""

    actions: list[Float32]
    observed: list[int]
    start: list[int]
    version: list[int]
    noise: list[Float32]


class Recorder:
    """Holds the ticks of N running episodes of at most `spec.horizon` ticks."""

    def __init__(self, spec: EnvironmentSpec, worlds: int) -> None:
        t, a = spec.horizon, spec.action.size
        self._spec = spec
        self._ticks = np.zeros(worlds, np.int64)
        self._first = np.zeros(worlds, np.int64)  # ticks since reset at which the episode began
        self._orient = np.zeros(worlds)
        self._watch = np.zeros(worlds)
        self._chunks = [_Chunks([], [], [], [], []) for _ in range(worlds)]
        per_tick = {"action": a, "action_requested": a, "action_policy": a, "action_human": a}
        self._logs: dict[int, SpillLog] = {}
        self._arrays: dict[str, NDArray[Any]] = {
            "state": np.zeros((worlds, t + 1, spec.state.size), np.float32),
            "privileged": np.zeros((worlds, t + 1, spec.privileged.size), np.float32),
            "physics": np.zeros((worlds, t + 1, spec.physics_size), np.float64),
            "time_ns": np.zeros((worlds, t + 1), np.int64),
            **{name: np.zeros((worlds, t, size), np.float32) for name, size in per_tick.items()},
            **{name: np.zeros((worlds, t), np.float32) for name in ("reward", "probability")},
            **{name: np.zeros((worlds, t), np.uint8) for name in ("control_mode", "trigger", "clamped")},
            **{
                n: np.zeros((worlds, t), bool)
                for n in ("intervention", "terminated", "truncated", "success", "starved")
            },
            **{n: np.zeros((worlds, t), np.int32) for n in ("policy_version", "chunk_id", "chunk_row", "delay_ticks")},
        }

    def begin(self, rows: Int64, observation: Observation) -> None:
        """Start episodes in the worlds `rows` (n,) from `observation` (N worlds)."""
        self._ticks[rows] = self._orient[rows] = self._watch[rows] = 0
        self._first[rows] = observation.tick[rows]
        for row in rows:
            self._chunks[row] = _Chunks([], [], [], [], [])
        self._arrays["state"][rows, 0] = observation.state[rows]
        self._arrays["time_ns"][rows, 0] = observation.time_ns[rows]
        if observation.privileged is not None:
            self._arrays["privileged"][rows, 0] = observation.privileged[rows]
        if observation.physics is not None:
            self._arrays["physics"][rows, 0] = observation.physics[rows]

    def spill(self, row: int, spills: SpillDirectory, meta: EpisodeMeta) -> None:
        """Log the ticks of the episode that has just begun in world `row` to disk as well, while it runs."""
        self._logs[row] = spills.begin(meta, {name: self._arrays[name][row, 0] for name in _STATE_ROWS})

    def frames(self, taken: Sequence[tuple[int, TakenFrame]]) -> None:
        """Log camera frames of running episodes, each with its world, where they are logged at all."""
        for row, frame in taken:
            if row in self._logs:
                self._logs[row].frame(frame)

    def chunk(self, chunk: ActionChunk) -> Int64:
        """Note proposed chunks; returns their index (n,) in each episode's chunk table."""
        for i, row in enumerate(chunk.rows):
            table, observed = self._chunks[row], int(chunk.observed_tick[i] - self._first[row])
            table.actions.append(chunk.actions[i])
            table.observed.append(observed)
            table.start.append(-1)
            table.version.append(chunk.policy_version)
            if chunk.noise is not None:
                table.noise.append(chunk.noise[i])
            if row in self._logs:
                noise = None if chunk.noise is None else chunk.noise[i]
                self._logs[row].chunk(chunk.actions[i], noise, observed, chunk.policy_version)
        return np.array([len(self._chunks[row].observed) - 1 for row in chunk.rows], np.int64)

    def ticks(
        self, transition: Transition, planned: ScheduledActions, command: Command | None, probability: Float32
    ) -> None:
        """Append K ticks of every world that moved. `probability` (N,) is the critic's, NaN without one."""
        count = transition.valid.shape[1]
        human = np.zeros(len(self._ticks), bool) if command is None else command.active
        requested = np.where(human[:, None, None], 0 if command is None else command.actions[:, None], planned.actions)
        ours = ~human[:, None]
        values: dict[str, NDArray[Any]] = {
            "action": transition.actions,
            "action_requested": requested,
            "action_policy": np.where((ours & (planned.chunk_id >= 0))[..., None], planned.actions, np.nan),
            "action_human": np.where(human[:, None, None], requested, np.nan),
            "control_mode": np.zeros((len(human), count), np.uint8) if command is None else command.mode[:, None],
            "trigger": np.zeros((len(human), count), np.uint8) if command is None else command.trigger[:, None],
            "intervention": human[:, None],
            "probability": probability[:, None],
            "policy_version": np.where(ours, planned.version, -1),
            "chunk_id": np.where(ours, planned.chunk_id, -1),
            "chunk_row": np.where(ours, planned.chunk_row, -1),
            "delay_ticks": np.where(ours, planned.delay_ticks, -1),
            "starved": ours & planned.starved,
            **{n: getattr(transition, n) for n in ("reward", "terminated", "truncated", "success", "clamped")},
        }
        world, k = np.nonzero(transition.valid)
        at = self._ticks[world] + k
        for name, value in values.items():
            self._arrays[name][world, at] = np.broadcast_to(value, (len(human), count, *value.shape[2:]))[world, k]
        for name in ("state", "privileged", "physics"):
            self._arrays[name][world, at + 1] = getattr(transition, name)[world, k]
        period_ns = 1e9 / self._spec.control_hz
        self._arrays["time_ns"][world, at + 1] = np.round((self._first[world] + at + 1) * period_ns).astype(np.int64)
        self._note_starts(transition.valid, values["chunk_id"])
        moved = transition.valid.sum(1)
        for row in self._logs.keys() & set(np.flatnonzero(moved).tolist()):
            self._log_ticks(row, int(self._ticks[row]), int(self._ticks[row] + moved[row]))
        self._ticks += moved
        self._account(command, moved)

    def finish(self, row: int, meta: EpisodeMeta) -> Episode:
        """Cut the episode of world `row`. Operator, orientation and watching seconds are filled in here."""
        if row in self._logs:
            self._logs.pop(row).finish()
        ticks = int(self._ticks[row])
        hz = self._spec.control_hz
        arrays: dict[str, Any] = {
            f.name: self._arrays[f.name][row, : ticks + (f.name in _STATE_ROWS)].copy()
            for f in fields(Episode)
            if f.name not in _NOT_BUFFERED
        }
        human_s = float(arrays["intervention"].sum()) / hz
        orient_s, watch_s = float(self._orient[row] / hz), float(self._watch[row] / hz)
        meta = replace(meta, operator_s=human_s, orient_s=orient_s, watch_s=watch_s)
        return Episode(meta=meta, chunks=self._chunk_table(row), **arrays)

    def _log_ticks(self, row: int, start: int, stop: int) -> None:
        rows = {name: array[row, start:stop] for name, array in self._arrays.items() if name not in _STATE_ROWS}
        rows |= {name: self._arrays[name][row, start + 1 : stop + 1] for name in _STATE_ROWS}
        self._logs[row].ticks(rows)

    def _account(self, command: Command | None, moved: Int64) -> None:
        if command is None:
            return
        self._orient += np.where(command.orient, moved, 0)
        if not (command.orient | command.active).any() and (moved > 0).any():
            self._watch += (moved > 0) / (moved > 0).sum()  # one person's idle tick, shared by the robots watched

    def _note_starts(self, valid: Bool, chunk_id: Int32) -> None:
        """Write down the first tick at which each chunk acted."""
        for k in range(valid.shape[1]):
            for row in np.flatnonzero(valid[:, k] & (chunk_id[:, k] >= 0)):
                start = self._chunks[row].start
                if start[chunk_id[row, k]] < 0:
                    start[chunk_id[row, k]] = int(self._ticks[row]) + k

    def _chunk_table(self, row: int) -> ChunkTable:
        table, count = self._chunks[row], len(self._chunks[row].observed)
        return ChunkTable(
            actions=np.array(table.actions, np.float32)
            if count
            else np.zeros((0, 0, self._spec.action.size), np.float32),
            observed_tick=np.array(table.observed, np.int32),
            start_tick=np.array(table.start, np.int32),
            policy_version=np.array(table.version, np.int32),
            noise=np.array(table.noise, np.float32) if table.noise else np.zeros((count, 0, 0), np.float32),
        )
