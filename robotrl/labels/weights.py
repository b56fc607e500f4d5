"""Which ticks training imitates, and how often it draws them.

A recipe is a `Mixture` of parts: each part selects ticks and owns a share of the sampled mass, or, without shares,
every selected tick weighs the same. Columns made, each (T,) float32:

    weight   sampling mass of the window that starts at the tick; the masses of all episodes sum to 1
    target   1 where the action may be imitated; a window's targets end at the first tick where it is 0
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robotrl.errors import ConfigurationError, DataError
from robotrl.interfaces import Columns
from robotrl.labels.advantages import value_gain
from robotrl.labels.credit import after_last_takeover, outcome_value
from robotrl.types import Bool, Episode, Float32, Float64

Select = Callable[[Episode], Bool]
"""Chooses ticks (T,) of an episode."""


def demonstrated(episode: Episode) -> Bool:
    """Ticks of demonstrations; failed ones teach nothing and are left out."""
    chosen = episode.meta.source == "demonstration" and episode.meta.outcome != "failure"
    return np.full(episode.length, chosen)


def corrected(episode: Episode) -> Bool:
    """A person's ticks in takeovers, whatever became of the episode."""
    return episode.intervention & (episode.meta.source != "demonstration")


def succeeded(episode: Episode) -> Bool:
    """The policy's ticks that ended in success: whole untouched episodes, and what follows the last hand-back."""
    chosen = episode.succeeded and episode.meta.source != "demonstration"
    return after_last_takeover(episode) & chosen


PARTS: Mapping[str, Select] = {"demonstrations": demonstrated, "corrections": corrected, "successes": succeeded}
"""The parts a mixture may be made of; they are disjoint."""


@dataclass(frozen=True)
class Downweight:
    """Draws actions that lowered the success probability less often ("asym" of the prototype).

    Ticks with V(s_{t+ticks}) − V(s_t) < `below` are multiplied by `factor`.
    """

    ticks: int = 8
    below: float = -0.15
    factor: float = 0.1

    def __call__(self, value: Float32, outcome: float = np.nan) -> Float32:
        """Multiplier (T,) from an episode's held-out `value` (T + 1,) and, where it may count, `outcome`."""
        return np.where(value_gain(value, self.ticks, outcome) < self.below, self.factor, 1.0).astype(np.float32)


@dataclass(frozen=True)
class Mixture:
    """A recipe: the parts that are imitated.

    Attributes:
        shares: part → its share of the mass. Shares are relative; a part without ticks gives its share to the others.
            None instead of a number for all parts: every tick weighs the same.
        downweight: applied to the policy's own ticks where scores are given. A critic that its gate refuses gives no
            scores, and then every tick of a part weighs the same.
    """

    shares: Mapping[str, float | None]
    downweight: Downweight | None = None

    def __post_init__(self) -> None:
        unknown = sorted(set(self.shares) - set(PARTS))
        given = [s for s in self.shares.values() if s is not None]
        if unknown or not self.shares:
            raise ConfigurationError(f"labels: parts {unknown or 'missing'}; expected some of {sorted(PARTS)}")
        if given and (len(given) < len(self.shares) or min(given) < 0 or sum(given) <= 0):
            raise ConfigurationError(f"labels: shares {dict(self.shares)}: expected all None, or all >= 0 with one > 0")

    def label(self, episodes: Sequence[Episode], scores: Sequence[Columns] = ()) -> Sequence[Columns]:
        """Columns `weight` and `target` of every episode; `scores` holds `value` (T + 1,), or is empty."""
        if scores and len(scores) != len(episodes):
            raise DataError(f"{len(scores)} scores for {len(episodes)} episodes: expected one each, or none")
        chosen = {part: [PARTS[part](e) for e in episodes] for part in self.shares}
        density = self._density({part: sum(int(m.sum()) for m in masks) for part, masks in chosen.items()})
        raw = [self._weights(density, {p: m[i] for p, m in chosen.items()}) for i in range(len(episodes))]
        if self.downweight is not None and scores:
            raw = [self._reduced(w, e, s["value"]) for w, e, s in zip(raw, episodes, scores, strict=True)]
        total = sum(float(w.sum()) for w in raw)
        if total == 0:
            raise DataError(
                f"no tick of {len(episodes)} episodes belongs to {sorted(self.shares)}: nothing to train on"
            )
        targets = [np.any([chosen[part][i] for part in self.shares], axis=0) for i in range(len(episodes))]
        return [
            {"weight": (w / total).astype(np.float32), "target": t.astype(np.float32)}
            for w, t in zip(raw, targets, strict=True)
        ]

    def _density(self, ticks: Mapping[str, int]) -> dict[str, float]:
        """Mass of one tick of every part, before all are made to sum to 1."""
        uniform = all(share is None for share in self.shares.values())
        return {p: 1.0 if uniform else (s or 0.0) / max(ticks[p], 1) for p, s in self.shares.items()}

    def _weights(self, density: Mapping[str, float], masks: Mapping[str, Bool]) -> Float64:
        stacked = np.stack([density[part] * mask for part, mask in masks.items()])
        return stacked.sum(axis=0)

    def _reduced(self, weight: Float64, episode: Episode, value: Float32) -> Float64:
        if self.downweight is None:
            return weight
        return np.where(succeeded(episode), weight * self.downweight(value, outcome_value(episode)), weight)
