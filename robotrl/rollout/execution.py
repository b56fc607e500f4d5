"""Which action of which chunk runs at a tick, for N worlds at once.

All scheduling is arithmetic on ticks. With delay d, executed horizon s and chunk length H a schedule can be kept
iff d <= s <= H - d. A tick for which no action is ready is *starved*: it is counted, and the robot holds its last
target.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from robotrl.errors import ConfigurationError
from robotrl.types import ActionChunk, Bool, Committed, Float32, Int32, Int64

_NEVER = np.int64(2**60)


class ExecutionMode(Protocol):
    """How chunks follow one another."""

    @property
    def runs_while_waiting(self) -> bool:
        """Whether the old chunk goes on while the next is computed; otherwise the robot holds."""
        ...

    def base_tick(self, observed: Int64, arrival: Int64) -> Int64:
        """(n,) tick of a chunk's row 0, from the ticks at which it was observed and at which it arrived."""
        ...


@dataclass(frozen=True)
class Synchronous:
    """Think, then act: the robot holds during inference, and a chunk starts at its row 0."""

    runs_while_waiting: bool = False

    def base_tick(self, observed: Int64, arrival: Int64) -> Int64:
        """Row 0 runs when the chunk arrives; nothing moved since the observation."""
        del observed
        return arrival


@dataclass(frozen=True)
class NaiveAsync:
    """The old chunk runs on during inference; the new one replaces it at the current tick's row, without blending."""

    runs_while_waiting: bool = True

    def base_tick(self, observed: Int64, arrival: Int64) -> Int64:
        """Row i belongs to tick `observed + i`, however late the chunk came."""
        del arrival
        return observed


@dataclass(frozen=True)
class ScheduledActions:
    """What K ticks of N worlds will execute.

    `actions` (N, K, A) float32; `chunk_id`, `chunk_row`, `delay_ticks` (N, K) int32, −1 where no chunk acts;
    `version` (N, K) int32 policy version; `starved` (N, K) bool.
    """

    actions: Float32
    chunk_id: Int32
    chunk_row: Int32
    delay_ticks: Int32
    version: Int32
    starved: Bool


class ChunkExecutor:
    """Holds, for each of N worlds, the chunk that runs and the one in flight.

    Args:
        mode: how chunks follow one another.
        worlds: N.
        chunk_length: H, rows in a chunk.
        execute: s, rows of a chunk that run before the next is wanted, 1 <= s <= H.
        action_size: A.
        forecast: d, delay to plan for, in ticks.
        momentary: (A,) bool, elements whose value does not last: where no action is ready they are 0. None by default.
    """

    def __init__(
        self,
        mode: ExecutionMode,
        worlds: int,
        chunk_length: int,
        execute: int,
        action_size: int,
        forecast: int = 0,
        momentary: Bool | None = None,
    ) -> None:
        if not 1 <= execute <= chunk_length:
            raise ConfigurationError(f"execute={execute} rows of a chunk of {chunk_length}: expected 1..{chunk_length}")
        if mode.runs_while_waiting and not forecast <= execute <= chunk_length - forecast:
            raise ConfigurationError(
                f"delay {forecast}, execute {execute}, chunk {chunk_length}: an asynchronous schedule needs "
                f"delay <= execute <= chunk - delay; lower the latency or change execution.execute"
            )
        self.mode, self.execute, self.chunk_length, self.forecast = mode, execute, chunk_length, forecast
        self._lasting = np.ones(action_size, np.bool_) if momentary is None else ~momentary
        self._hold = np.zeros((worlds, action_size), np.float32)
        self._actions = np.zeros((worlds, chunk_length, action_size), np.float32)
        self._base = np.full(worlds, -_NEVER)  # tick of row 0; -_NEVER: no chunk
        self._current = np.full((worlds, 3), -1, np.int64)  # chunk id, version, delay in ticks
        self._next_actions = np.zeros_like(self._actions)
        self._arrival = np.full(worlds, _NEVER)  # _NEVER: nothing in flight
        self._next_base = np.zeros(worlds, np.int64)
        self._next = np.full((worlds, 3), -1, np.int64)

    def new_epoch(self, rows: Int64, hold: Float32) -> None:
        """Forget the chunks of `rows` (n,), in flight or not, and hold `hold` (n, A) until the next one starts.

        Called at every reset, takeover, hand-back and restore, so that no action computed before acts after.
        """
        self._hold[rows] = np.where(self._lasting, hold, np.float32(0))
        self._base[rows] = -_NEVER
        self._arrival[rows] = _NEVER
        self._current[rows] = -1

    def due(self, tick: Int64, mask: Bool) -> Int64:
        """Worlds of `mask` (N,) that want a new chunk at their `tick` (N,)."""
        idle = self._arrival == _NEVER
        return np.flatnonzero(mask & idle & (tick - self._base >= self.execute))

    def committed(self, rows: Int64, tick: Int64) -> Committed:
        """Actions that `rows` (n,) will run from `tick` (N,) on before a chunk asked for now can start."""
        if not self.mode.runs_while_waiting or self.forecast == 0:
            return Committed(np.zeros((len(rows), 0, self._hold.shape[1]), np.float32), np.zeros(len(rows), np.int64))
        index = (tick - self._base)[rows, None] + np.arange(self.forecast)
        ready = (self._base[rows, None] != -_NEVER) & (index < self.chunk_length)
        actions = self._actions[rows[:, None], np.clip(index, 0, self.chunk_length - 1)]
        return Committed(np.where(ready[..., None], actions, self._hold[rows, None]), ready.sum(1))

    def submit(self, chunk: ActionChunk, delay_ticks: Int64, chunk_id: Int64) -> None:
        """Put `chunk` in flight, to arrive `delay_ticks` (n,) after its observation; `chunk_id` (n,) in the table."""
        rows = chunk.rows
        self._next_actions[rows] = chunk.actions
        self._arrival[rows] = chunk.observed_tick + delay_ticks
        self._next_base[rows] = self.mode.base_tick(chunk.observed_tick, self._arrival[rows])
        self._next[rows] = np.stack([chunk_id, np.full(len(rows), chunk.policy_version), delay_ticks], axis=1)
        if not self.mode.runs_while_waiting:
            self._base[rows] = -_NEVER

    def ticks_to_event(self, tick: Int64, mask: Bool) -> int:
        """Ticks, at least 1, until any world of `mask` receives a chunk or wants one."""
        self._land(tick)
        waiting = self._arrival != _NEVER
        until = np.where(waiting, self._arrival - tick, self._base + self.execute - tick)
        return max(1, int(until[mask].min(initial=self.chunk_length)))

    def schedule(self, tick: Int64, ticks: int, mask: Bool) -> ScheduledActions:
        """What every world runs for the next `ticks` K ticks from its `tick` (N,); only worlds of `mask` will move."""
        self._land(tick)
        row = (tick - self._base)[:, None] + np.arange(ticks)
        ready = (self._base[:, None] != -_NEVER) & (row < self.chunk_length)
        row = np.where(ready, row, -1)
        actions = np.take_along_axis(self._actions, np.maximum(row, 0)[..., None], axis=1)
        for k in range(ticks):
            np.copyto(actions[:, k], self._hold, where=~ready[:, k, None])
            np.copyto(self._hold, actions[:, k], where=mask[:, None] & self._lasting)
        labels = np.where(ready[None], self._current.T[:, :, None], -1).astype(np.int32)
        return ScheduledActions(actions, labels[0], row.astype(np.int32), labels[2], labels[1], ~ready)

    def _land(self, tick: Int64) -> None:
        """Let the chunks that have arrived by `tick` replace the ones that run."""
        rows = np.flatnonzero(self._arrival <= tick)
        if rows.size:
            self._actions[rows] = self._next_actions[rows]
            self._base[rows] = self._next_base[rows]
            self._current[rows] = self._next[rows]
            self._arrival[rows] = _NEVER
