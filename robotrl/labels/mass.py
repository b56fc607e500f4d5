"""What a labeler's columns make training draw."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robotrl.interfaces import Columns
from robotrl.stats import effective_sample_size
from robotrl.types import Episode, Float64

WARN_FAILURE_SHARE = 0.05
REFUSE_FAILURE_SHARE = 0.15


@dataclass(frozen=True)
class Mass:
    """The sampled mass by origin.

    Attributes:
        failure_share: part on the policy's own ticks in failed episodes. It predicts loss of success: warn above
            0.05, refuse above 0.15.
        effective_share: effective sample size (Kish) over ticks of any weight, in (0, 1]. It predicts nothing alone.
        demonstrations, corrections, autonomous: parts on demonstrations, a person's ticks, the policy's own ticks.
        ticks: ticks of any weight.
        histogram: (low, high, ticks) of these weights as multiples of their mean.
    """

    failure_share: float
    effective_share: float
    demonstrations: float
    corrections: float
    autonomous: float
    ticks: int
    histogram: tuple[tuple[float, float, int], ...]

    @staticmethod
    def of(episodes: Sequence[Episode], columns: Sequence[Columns]) -> "Mass":
        """Summarise the `weight` columns of `episodes`."""
        weight = np.concatenate([c["weight"] for c in columns]).astype(np.float64)
        demo = np.concatenate([np.full(e.length, e.meta.source == "demonstration") for e in episodes])
        human = np.concatenate([e.intervention for e in episodes]) & ~demo
        failed = np.concatenate([np.full(e.length, e.meta.outcome == "failure") for e in episodes])
        used, total = weight[weight > 0], max(float(weight.sum()), 1e-300)
        own = ~demo & ~human
        return Mass(
            failure_share=float(weight[own & failed].sum()) / total,
            effective_share=effective_sample_size(used) / max(len(used), 1),
            demonstrations=float(weight[demo].sum()) / total,
            corrections=float(weight[human].sum()) / total,
            autonomous=float(weight[own].sum()) / total,
            ticks=len(used),
            histogram=_histogram(used),
        )


def _histogram(weight: Float64) -> tuple[tuple[float, float, int], ...]:
    """Twelve equal bins from 0 to the largest weight; none without weights."""
    if len(weight) == 0:
        return ()
    relative = weight / weight.mean()
    counts, edges = np.histogram(relative, bins=12, range=(0.0, float(relative.max())))
    return tuple((float(a), float(b), int(n)) for a, b, n in zip(edges[:-1], edges[1:], counts, strict=True))
