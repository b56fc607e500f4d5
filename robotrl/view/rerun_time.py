"""The two time axes of a recording, and stretches of equal values."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import rerun as rr
from numpy.typing import NDArray

from robotrl.types import Int64


@dataclass(frozen=True)
class Timeline:
    """Control ticks and seconds of an episode's T + 1 states: `time_ns` (T + 1,) since reset."""

    time_ns: Int64

    def at(self, ticks: NDArray[np.integer]) -> tuple[rr.TimeColumn, rr.TimeColumn]:
        """The index columns `tick` and `time` (s) of rows that belong to `ticks` (R,), each in [0, T]."""
        return (
            rr.TimeColumn("tick", sequence=ticks.astype(np.int64)),
            rr.TimeColumn("time", duration=self.time_ns[ticks] * 1e-9),
        )


def runs(values: NDArray[np.generic]) -> list[tuple[int, int]]:
    """Stretches [start, stop) over which `values` (T,) do not change, in order; none when T is 0."""
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    bounds = [0, *edges.tolist(), len(values)] if len(values) else []
    return list(pairwise(bounds))
