"""Which windows a training batch has: in proportion to a mass, with fixed shares of the sources, or by priority.

A `Sampling` says how, and is prepared for the data at hand; what it gives is asked for every batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from robotrl.data.cache import SOURCES
from robotrl.data.sum_tree import SumTree
from robotrl.errors import ConfigurationError, DataError, unknown_name
from robotrl.types import Float32, Float64, Int64, UInt8


class Draw(Protocol):
    """Draws ticks of the data that it was prepared for."""

    def __call__(self, count: int, rng: np.random.Generator) -> tuple[Int64, Float32]:
        """`count` ticks, none of them without mass, and their importance weights (count,), at most 1."""
        ...


class Sampling(Protocol):
    """How ticks are drawn."""

    def prepare(self, mass: Float32, source: UInt8) -> Draw:
        """The draw from ticks of `mass` (T,) ≥ 0, some of it positive, and `source` (T,), index into `SOURCES`."""
        ...


@dataclass(frozen=True)
class Proportional:
    """Every tick in proportion to its mass."""

    def prepare(self, mass: Float32, source: UInt8) -> Draw:
        """See `Sampling`."""
        cumulative = np.cumsum(mass, dtype=np.float64)

        def draw(count: int, rng: np.random.Generator) -> tuple[Int64, Float32]:
            low, high = np.zeros(count), np.full(count, cumulative[-1])
            return _between(cumulative, low, high, rng), np.ones(count, np.float32)

        return draw


@dataclass(frozen=True)
class Stratified:
    """Fixed shares of the sources in every batch, up to rounding; within a source in proportion to mass.

    `shares`: names of `SOURCES` → share ≥ 0; they need not add up to 1. Sources without any mass leave their share to
    the others, so that training can begin before there are corrections.
    """

    shares: Mapping[str, float]

    def __post_init__(self) -> None:
        for name, share in self.shares.items():
            if name not in SOURCES:
                raise unknown_name("source", name, SOURCES)
            if not 0 <= share < np.inf:
                raise ConfigurationError(f"the share of '{name}' is {share}; expected a finite number of 0 or more")

    def prepare(self, mass: Float32, source: UInt8) -> Draw:
        """See `Sampling`; `ConfigurationError` when no source with a share has mass."""
        order = np.argsort(source, kind="stable")
        cumulative = np.cumsum(mass[order], dtype=np.float64)
        edges = np.searchsorted(source[order], np.arange(len(SOURCES) + 1))
        bounds = np.concatenate([[0.0], cumulative])[edges]
        share = np.array([self.shares.get(name, 0.0) for name in SOURCES]) * (np.diff(bounds) > 0)
        if not share.any():
            present = [name for name, m in zip(SOURCES, np.diff(bounds), strict=True) if m > 0]
            raise ConfigurationError(f"the shares {dict(self.shares)} leave nothing: only {present} have weight")
        shares = np.cumsum(share / share.sum())

        def draw(count: int, rng: np.random.Generator) -> tuple[Int64, Float32]:
            # Evenly spaced positions give every source its share of the batch, up to one window.
            position = (np.arange(count) + rng.random()) / count
            stratum = np.searchsorted(shares, np.minimum(position * shares[-1], _below(shares[-1])), side="right")
            picked = _between(cumulative, bounds[stratum], bounds[stratum + 1], rng)
            return order[picked], np.ones(count, np.float32)

        return draw


@dataclass(frozen=True)
class Prioritised:
    """In proportion to mass · (priority + epsilon)^alpha; importance weights (N · P)^−beta, the batch's largest is 1.

    N is the number of ticks with mass, P the probability of the tick. Priorities start at 1; `PriorityDraw.update`
    sets them.
    """

    alpha: float = 0.6
    beta: float = 0.4
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        if min(self.alpha, self.beta) < 0 or self.epsilon <= 0:
            raise ConfigurationError(f"expected alpha >= 0, beta >= 0 and epsilon > 0, got {self}")

    def prepare(self, mass: Float32, source: UInt8) -> "PriorityDraw":
        """See `Sampling`."""
        return PriorityDraw(self, mass)


class PriorityDraw:
    """The draw of `Prioritised`. `priority` (T,) float32 is what was set last."""

    def __init__(self, sampling: Prioritised, mass: Float32) -> None:
        self.priority = np.ones(len(mass), np.float32)
        self._sampling, self._mass = sampling, mass
        self._count = int(np.count_nonzero(mass))
        self._tree = SumTree(mass * self._raised(self.priority))

    def __call__(self, count: int, rng: np.random.Generator) -> tuple[Int64, Float32]:
        """See `Draw`."""
        ticks = self._tree.find(rng.random(count))
        probability = self._tree[ticks] / self._tree.total
        weight = (self._count * probability) ** -self._sampling.beta
        return ticks, (weight / weight.max()).astype(np.float32)

    def update(self, ticks: Int64, priority: Float32) -> None:
        """Set the priorities (n,) of `ticks` (n,); the last counts where a tick repeats.

        Raises `DataError` for values that are negative or not finite, and changes nothing.
        """
        values = np.asarray(priority, np.float32)
        if values.shape != np.shape(ticks) or not np.isfinite(values).all() or (values < 0).any():
            raise DataError("priorities must be finite, 0 or more, and one for every tick")
        self.priority[ticks] = values
        self._tree.update(ticks, self._mass[ticks] * self._raised(self.priority[ticks]))

    def _raised(self, priority: Float32) -> Float64:
        return (priority.astype(np.float64) + self._sampling.epsilon) ** self._sampling.alpha


def _between(cumulative: Float64, low: Float64, high: Float64, rng: np.random.Generator) -> Int64:
    """Ticks whose cumulative mass is the first above a draw from [low, high): never one without mass."""
    draw = np.minimum(low + rng.random(len(low)) * (high - low), _below(high))
    return np.searchsorted(cumulative, draw, side="right")


def _below(high: Float64) -> Float64:
    return np.nextafter(high, 0)
