"""What a control tick means in time. The loop sees ticks and a clock, never `time.time`."""

import time
from dataclasses import dataclass, field
from typing import Protocol


class Clock(Protocol):
    """Paces ticks."""

    def pace(self, tick: int) -> int:
        """Return when `tick`, counted from the clock's start, is due: the ticks overrun, 0 when on time."""
        ...


@dataclass(frozen=True)
class VirtualClock:
    """Simulated time: a tick lasts exactly 1 / `control_hz` s and never waits."""

    control_hz: float

    def pace(self, tick: int) -> int:
        """Never waits, never overruns."""
        del tick
        return 0


@dataclass
class MonotonicClock:
    """Hardware time by absolute deadlines, `start + tick / control_hz`.

    A late tick is counted and skipped: the next deadline stays on the grid, so that lateness never accumulates
    and is never caught up by running faster.
    """

    control_hz: float
    overruns: int = 0
    _start_ns: int | None = field(default=None, repr=False)
    _skipped: int = field(default=0, repr=False)

    def pace(self, tick: int) -> int:
        """Sleep until the tick's deadline. Returns whole tick periods that had already passed it."""
        period_ns = 1e9 / self.control_hz
        now_ns = time.monotonic_ns()
        if self._start_ns is None:
            self._start_ns = now_ns - round(tick * period_ns)
        late_ns = now_ns - (self._start_ns + round((tick + self._skipped) * period_ns))
        if late_ns <= 0:
            time.sleep(-late_ns / 1e9)
            return 0
        missed = int(late_ns // period_ns)
        self._skipped += missed
        self.overruns += missed
        return missed
