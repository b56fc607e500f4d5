"""How many ticks an inference takes, in simulation. Draws depend on (seed, chunk) alone."""

from dataclasses import dataclass
from typing import Protocol

from robotrl import seeds
from robotrl.errors import ConfigurationError


class LatencyModel(Protocol):
    """A distribution over inference delays, in ticks."""

    @property
    def forecast(self) -> int:
        """Delay to plan for, in ticks."""
        ...

    def ticks(self, seed: int, chunk: int) -> int:
        """Delay ≥ 0, in ticks, of an episode's chunk with index `chunk`."""
        ...


@dataclass(frozen=True)
class UniformLatency:
    """Integer ticks drawn uniformly from [low, high]; `low == high` is a constant delay."""

    low: int = 0
    high: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high:
            raise ConfigurationError(f"latency: expected 0 <= low <= high ticks, got low={self.low} high={self.high}")

    @property
    def forecast(self) -> int:
        """The longest delay: planning for it never starves."""
        return self.high

    def ticks(self, seed: int, chunk: int) -> int:
        """Delay, in ticks, of an episode's chunk with index `chunk`."""
        if self.low == self.high:
            return self.low
        return int(seeds.generator(seed, "latency", chunk).integers(self.low, self.high + 1))
