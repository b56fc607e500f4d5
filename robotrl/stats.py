"""Statistics of success counts. Everything here is closed form or exact; nothing is simulated."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtrc

from robotrl.errors import ConfigurationError


@dataclass(frozen=True)
class PairedDifference:
    """How much more often the second of two paired series succeeds.

    Attributes:
        n: pairs.
        gained: pairs in which only the second succeeded; `lost`: only the first.
        difference: success rate of the second minus that of the first, in [−1, 1].
        low, high: its confidence interval.
    """

    n: int
    gained: int
    lost: int
    difference: float
    low: float
    high: float


def wilson_interval(successes: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Score interval (low, high) of a success rate (Wilson 1927, "Probable inference")."""
    if n < 1 or not 0 <= successes <= n:
        raise ConfigurationError(f"{successes} successes of {n}: expected 0 <= successes <= n and n >= 1")
    z = _z(level)
    rate, shrink = successes / n, 1 + z * z / n
    centre = (rate + z * z / (2 * n)) / shrink
    half = z / shrink * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return (0.0 if successes == 0 else centre - half), (1.0 if successes == n else centre + half)


def paired_difference(first: ArrayLike, second: ArrayLike, level: float = 0.95) -> PairedDifference:
    """Difference of the success rates of two series (n,) of bool, paired by seed.

    The interval is the hybrid score interval for paired proportions with a continuity-corrected correlation (Newcombe
    1998, "Improved confidence intervals for the difference between binomial proportions based on paired data",
    method 10); it holds its level where the Wald interval does not, at few disagreements or rates near 0 and 1.
    """
    a, b = _pair(first, second)
    n, gained, lost = len(a), int((b & ~a).sum()), int((a & ~b).sum())
    k_a, k_b = int(a.sum()), int(b.sum())
    low_a, high_a = wilson_interval(k_a, n, level)
    low_b, high_b = wilson_interval(k_b, n, level)
    p_a, p_b = k_a / n, k_b / n
    phi = _correlation(both=int((a & b).sum()), gained=gained, lost=lost, neither=int((~a & ~b).sum()))

    def half(to_b: float, to_a: float) -> float:
        return math.sqrt(max(0.0, to_b**2 - 2 * phi * to_b * to_a + to_a**2))

    difference = p_b - p_a
    low = difference - half(p_b - low_b, high_a - p_a)
    high = difference + half(high_b - p_b, p_a - low_a)
    return PairedDifference(n, gained, lost, difference, low, high)


def mcnemar(gained: int, lost: int) -> float:
    """One-sided exact p-value that the second series is better, from the disagreeing pairs alone.

    The probability of at least `gained` heads in `gained` + `lost` fair tosses (McNemar 1947, exact form); 1 when
    nothing disagrees.
    """
    return float(bdtrc(gained - 1, gained + lost, 0.5)) if gained else 1.0


def auc(scores: ArrayLike, labels: ArrayLike) -> float:
    """Probability that a positive scores above a negative (ties count half); NaN when one kind is missing.

    Args:
        scores: (n,) higher means more likely positive.
        labels: (n,) bool.
    """
    s, y = np.asarray(scores, np.float64), np.asarray(labels, bool)
    if s.shape != y.shape or s.ndim != 1:
        raise ConfigurationError(f"scores {s.shape} and labels {y.shape}: expected two vectors of one length")
    positives, negatives = int(y.sum()), int((~y).sum())
    if positives == 0 or negatives == 0:
        return math.nan
    _, place, count = np.unique(s, return_inverse=True, return_counts=True)
    rank = np.cumsum(count) - (count - 1) / 2  # ties share the mean of their ranks
    rank_sum = float(rank[place][y].sum())
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def effective_sample_size(weights: ArrayLike) -> float:
    """(Σ w)² / Σ w² of non-negative `weights` (n,): how many equal ones say as much (Kish); 0 when all are 0."""
    w = np.asarray(weights, np.float64)
    total = float(w.sum())
    return total * total / float((w * w).sum()) if total > 0 else 0.0


def _z(level: float) -> float:
    if not 0 < level < 1:
        raise ConfigurationError(f"confidence level {level}: expected a number between 0 and 1")
    return NormalDist().inv_cdf(0.5 + level / 2)


def _pair(first: ArrayLike, second: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    a, b = np.asarray(first, bool), np.asarray(second, bool)
    if a.shape != b.shape or a.ndim != 1 or len(a) == 0:
        raise ConfigurationError(f"paired series have shapes {a.shape} and {b.shape}: expected two equal lengths >= 1")
    return a, b


def _correlation(both: int, gained: int, lost: int, neither: int) -> float:
    """Newcombe's corrected φ of a 2 × 2 table."""
    margins = (both + lost) * (both + gained) * (neither + lost) * (neither + gained)
    if margins == 0:
        return 0.0
    cross = both * neither - gained * lost
    if cross > 0:
        cross = max(cross - (both + gained + lost + neither) / 2, 0.0)
    return cross / math.sqrt(margins)
