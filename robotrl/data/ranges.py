"""What values an array takes over many episodes, from one pass and a few numbers an element."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.specs import ArraySpec

JUMP_SHARE = 0.2
"""A change within one tick is a jump when it exceeds this share of an element's range."""


@dataclass(frozen=True)
class ElementRange:
    """One element of an array over all rows, in its unit.

    Attributes:
        low, high: its bounds by the spec.
        minimum, maximum, mean, std: of finite values; NaN when there are none.
        at_low, at_high: shares of rows at (or beyond) a bound, in [0, 1].
        not_finite: values that are NaN or infinite.
        jumps: ticks at which it changed by more than `JUMP_SHARE` of its range; `jump_episodes` that have any.
    """

    array: str
    element: str
    unit: str
    low: float
    high: float
    minimum: float
    maximum: float
    mean: float
    std: float
    at_low: float
    at_high: float
    not_finite: int
    jumps: int
    jump_episodes: int


class RunningRange:
    """Accumulates the rows of one array, episode by episode."""

    def __init__(self, spec: ArraySpec) -> None:
        self._spec = spec
        self._low, self._high = np.array(spec.low), np.array(spec.high)
        # Float32 rounds bounds: a value that was clamped to one is equal to it only within that.
        self._slack = 1e-6 * (1 + np.where(np.isfinite(self._low), np.abs(self._low), 0))
        zeros = np.zeros(spec.size)
        self._rows, self._count, self._mean, self._square = 0, zeros.copy(), zeros.copy(), zeros.copy()
        self._minimum, self._maximum = np.full(spec.size, np.inf), np.full(spec.size, -np.inf)
        self._at_low, self._at_high, self._jumps, self._jumping = (zeros.copy() for _ in range(4))

    def add(self, rows: NDArray[Any]) -> None:
        """Take in the rows (n, size) of an episode, in order."""
        if not len(rows):
            return
        values = np.asarray(rows, np.float64)
        finite = np.isfinite(values)
        self._rows += len(values)
        self._add_moments(np.where(finite, values, 0.0), finite)
        self._minimum = np.minimum(self._minimum, np.where(finite, values, np.inf).min(0))
        self._maximum = np.maximum(self._maximum, np.where(finite, values, -np.inf).max(0))
        self._at_low += (values <= self._low + self._slack).sum(0)
        self._at_high += (values >= self._high - self._slack).sum(0)
        jumps = jump_mask(values, self._spec).sum(0)
        self._jumps += jumps
        self._jumping += jumps > 0

    def _add_moments(self, values: NDArray[np.float64], finite: NDArray[np.bool_]) -> None:
        """Chan's update: numerically as good as two passes."""
        count = finite.sum(0)
        mean = values.sum(0) / np.maximum(count, 1)
        square = (np.where(finite, values - mean, 0.0) ** 2).sum(0)
        total = np.maximum(self._count + count, 1)
        gap = mean - self._mean
        self._square += square + gap**2 * self._count * count / total
        self._mean += gap * count / total
        self._count += count

    def elements(self) -> tuple[ElementRange, ...]:
        """What was found, element by element."""
        none = self._count == 0
        rows = max(self._rows, 1)
        mean, std = np.where(none, np.nan, self._mean), np.where(none, np.nan, np.sqrt(self._square / self._rows_of()))
        return tuple(
            ElementRange(
                array=self._spec.name,
                element=element,
                unit=self._spec.units[i],
                low=self._spec.low[i],
                high=self._spec.high[i],
                minimum=float("nan") if none[i] else float(self._minimum[i]),
                maximum=float("nan") if none[i] else float(self._maximum[i]),
                mean=float(mean[i]),
                std=float(std[i]),
                at_low=float(self._at_low[i]) / rows,
                at_high=float(self._at_high[i]) / rows,
                not_finite=int(self._rows - self._count[i]),
                jumps=int(self._jumps[i]),
                jump_episodes=int(self._jumping[i]),
            )
            for i, element in enumerate(self._spec.elements)
        )

    def _rows_of(self) -> NDArray[np.float64]:
        return np.maximum(self._count, 1)


def jump_mask(rows: NDArray[np.float64], spec: ArraySpec) -> NDArray[np.bool_]:
    """(n − 1, size) where an element of `rows` (n, size) changed within a tick by more than `JUMP_SHARE` of its range.

    The range of an element without finite bounds is what it covers in these rows.
    """
    bounds = np.array(spec.high) - np.array(spec.low)
    return np.abs(np.diff(rows, axis=0)) > JUMP_SHARE * np.where(np.isfinite(bounds), bounds, np.ptp(rows, axis=0))
