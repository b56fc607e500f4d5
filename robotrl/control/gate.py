"""Whether a challenger replaces the champion: a paired sequential test that may stop early.

Both policies run the same seeds. A look compares all outcomes so far by the exact one-sided McNemar test. The chance
that a challenger no better than the champion is ever promoted is at most α over the whole run, since the budgets
of all looks of all iterations add up to it (union bound): iteration i gets α · 6 / (π² i²), look l a fixed share of
that. A look refuses at once when even the best trend that its interval allows would not be promoted by the last look;
the trend observed at 200 pairs is no ground for that, as it once refused a challenger that was 6 points better.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from robotrl.errors import ConfigurationError
from robotrl.stats import PairedDifference, mcnemar, paired_difference

Decision = Literal["promote", "refuse", "extend"]


@dataclass(frozen=True)
class GateConfig:
    """How promotion is decided.

    Attributes:
        alpha: chance of promoting any challenger that is no better, over all iterations.
        looks: pairs compared at each look, growing.
        shares: part of an iteration's budget that each look spends; they sum to 1.
    """

    alpha: float = 0.05
    looks: tuple[int, ...] = (200, 400, 800)
    shares: tuple[float, ...] = (0.4, 0.2, 0.4)

    def __post_init__(self) -> None:
        object.__setattr__(self, "looks", tuple(self.looks))
        object.__setattr__(self, "shares", tuple(self.shares))
        if not 0 < self.alpha < 1:
            raise ConfigurationError(f"gate.alpha={self.alpha}: expected a number between 0 and 1")
        if not self.looks or self.looks[0] < 1 or any(b <= a for a, b in zip(self.looks, self.looks[1:], strict=False)):
            raise ConfigurationError(f"gate.looks={self.looks}: expected growing numbers of pairs")
        if len(self.shares) != len(self.looks) or min(self.shares) <= 0 or abs(sum(self.shares) - 1) > 1e-9:
            raise ConfigurationError(f"gate.shares={self.shares}: expected {len(self.looks)} positive numbers of sum 1")

    def budget(self, look: int, iteration: int) -> float:
        """Error probability spent at `look` (from 0) of `iteration` (from 1)."""
        return self.alpha * 6 / (math.pi**2 * iteration**2) * self.shares[look]


@dataclass(frozen=True)
class Verdict:
    """What the gate decided, and from what.

    Attributes:
        decision: "promote", "refuse", or "extend" to the next look.
        look, iteration: as given to `decide`.
        n: pairs; `gained` only the challenger succeeded, `lost` only the champion.
        champion, challenger: success rates.
        difference, low, high: challenger − champion with its 95 % interval.
        p_value: one-sided exact McNemar; promotion needs it at or below `budget`.
        best_p_value: p-value at the last look if the difference were `high` from here on; refusal above its budget.
        reason: one sentence.
    """

    decision: Decision
    look: int
    iteration: int
    n: int
    gained: int
    lost: int
    champion: float
    challenger: float
    difference: float
    low: float
    high: float
    p_value: float
    budget: float
    best_p_value: float
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Plain values for the event log."""
        return asdict(self)


def decide(
    champion: ArrayLike, challenger: ArrayLike, look: int, iteration: int, config: GateConfig | None = None
) -> Verdict:
    """The verdict on all outcomes up to a look; equal arguments give an equal verdict.

    Args:
        champion: (n,) bool, success on each gate seed.
        challenger: (n,) bool, on the same seeds in the same order.
        look: index into `config.looks`, from 0. n may be smaller than planned by starts that were left out.
        iteration: of the outer loop, from 1; later ones have smaller budgets.
        config: the plan of the test.
    """
    config = config or GateConfig()
    if not 0 <= look < len(config.looks) or iteration < 1:
        raise ConfigurationError(f"look {look}, iteration {iteration}: expected 0..{len(config.looks) - 1} and >= 1")
    pair = paired_difference(champion, challenger)
    if pair.n > config.looks[look]:
        raise ConfigurationError(f"look {look} compares {config.looks[look]} pairs, got {pair.n}")
    p_value, budget = mcnemar(pair.gained, pair.lost), config.budget(look, iteration)
    last = len(config.looks) - 1
    best = _best_p_value(pair, config.looks[last] - config.looks[look])
    decision, reason = _choose(p_value, budget, best, config.budget(last, iteration), look == last)
    champion_rate = float(np.asarray(champion, bool).mean())
    return Verdict(
        decision=decision,
        look=look,
        iteration=iteration,
        n=pair.n,
        gained=pair.gained,
        lost=pair.lost,
        champion=champion_rate,
        challenger=champion_rate + pair.difference,
        difference=pair.difference,
        low=pair.low,
        high=pair.high,
        p_value=p_value,
        budget=budget,
        best_p_value=best,
        reason=f"{pair.gained} seeds gained, {pair.lost} lost of {pair.n}: {reason}",
    )


def _best_p_value(pair: PairedDifference, more: int) -> float:
    """The p-value after `more` pairs of which as many differ as until now, and by the interval's upper end."""
    differing = max((pair.gained + pair.lost) / pair.n, pair.high)
    gained, lost = more * (differing + pair.high) / 2, more * (differing - pair.high) / 2
    return mcnemar(pair.gained + round(gained), pair.lost + round(lost))


def _choose(p_value: float, budget: float, best: float, last_budget: float, final: bool) -> tuple[Decision, str]:
    if p_value <= budget:
        return "promote", f"p = {p_value:.2g} is within this look's budget of {budget:.2g}"
    if final:
        return "refuse", f"p = {p_value:.2g} exceeds the last look's budget of {budget:.2g}"
    if best > last_budget:
        return "refuse", f"even the best trend in the interval would end at p = {best:.2g} > {last_budget:.2g}"
    return "extend", f"p = {p_value:.2g} exceeds {budget:.2g}, but later looks may still decide"
