"""Whether a critic may weight training data.

Ranking episodes well (AUC) does not mean ranking actions well, and weights from a critic that cannot do the latter
cost success. So the gate estimates, on held-out episodes, what the weights would gain: among ticks with equal
prospects, did those that the weights prefer end in success more often?

This is an *estimate* of policy improvement, not a measurement. Prospects are held-out values after recalibration, not
the truth. A value that is too low by chance makes both its advantage and its residual too high, and then the noisier
critic looks better; so the weights come from one member and the prospects from another that was trained on other
episodes, and the two directions are averaged. Errors that both share remain, and the interval, which resamples
episodes, does not cover them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from robotrl.errors import DataError
from robotrl.interfaces import Columns
from robotrl.labels.credit import credit, outcome_value
from robotrl.labels.mass import REFUSE_FAILURE_SHARE, WARN_FAILURE_SHARE, Mass
from robotrl.labels.weights import Downweight
from robotrl.stats import effective_sample_size
from robotrl.types import Episode, Float64, Int64

_BINS = 10


@dataclass(frozen=True)
class CriticGateConfig:
    """When weights may be used.

    Attributes:
        downweight: the weights under test.
        gain: what the interval's low end must exceed.
        effective_share: smallest effective sample size, as a share of the ticks.
        warn_failure_share, refuse_failure_share: bounds on the failures' share of the sampled mass.
        episodes: fewest episodes with an outcome.
        resamples: of the bootstrap.
        seed: of the bootstrap.
    """

    downweight: Downweight = field(default_factory=Downweight)
    gain: float = 0.0
    effective_share: float = 0.5
    warn_failure_share: float = WARN_FAILURE_SHARE
    refuse_failure_share: float = REFUSE_FAILURE_SHARE
    episodes: int = 50
    resamples: int = 500
    seed: int = 0


@dataclass(frozen=True)
class CriticVerdict:
    """Whether weights may be used, and why.

    Attributes:
        usable: the answer.
        gain, low, high: estimated gain in success probability with its 95 % interval over episodes.
        effective_share: of the weights, 1 when all are equal.
        failure_share: of the sampled mass.
        episodes: that the estimate rests on.
        warning: what to watch although the weights may be used, or "".
        reason: one sentence.
    """

    usable: bool
    gain: float
    low: float
    high: float
    effective_share: float
    failure_share: float
    episodes: int
    warning: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Plain values for the event log."""
        return asdict(self)

    @staticmethod
    def in_words(verdict: Mapping[str, Any]) -> str:
        """What `to_json` gave, as a line for the terminal."""
        follows = "its scores may change the labels" if verdict["usable"] else "the labels do without its scores"
        return f"{verdict['reason']}; {follows}"


def judge_critic(
    episodes: Sequence[Episode],
    scores: Sequence[Columns],
    columns: Sequence[Columns],
    config: CriticGateConfig | None = None,
) -> CriticVerdict:
    """Decide from held-out scores.

    Args:
        episodes: those that would be trained on.
        scores: for each, `value_0` and `value_1` (T + 1,) from two members that saw neither it nor the same others
            (`SuccessCritic.cross_fit_scores`).
        columns: for each, the labels that would be used, made with these scores.
        config: the bounds.
    """
    config = config or CriticGateConfig()
    if not len(episodes) == len(scores) == len(columns):
        raise DataError(f"{len(episodes)} episodes, {len(scores)} scores, {len(columns)} columns: expected one each")
    failure_share = Mass.of(episodes, columns).failure_share
    rows = [_Row.of(e, s, config.downweight) for e, s in zip(episodes, scores, strict=True)]
    rows = [r for r in rows if r is not None]
    if len(rows) < max(config.episodes, 1):
        reason = f"{len(rows)} autonomous episodes with an outcome are too few to judge it (at least {config.episodes})"
        return CriticVerdict(False, np.nan, np.nan, np.nan, np.nan, failure_share, len(rows), "", reason)
    gain, low, high = _gain(rows, config)
    weights = np.concatenate([r.factor.mean(axis=0) for r in rows])
    share = effective_sample_size(weights) / len(weights)
    usable, reason = _answer(gain, low, share, failure_share, config)
    warning = ""
    if usable and failure_share > config.warn_failure_share:
        warning = (
            f"failures hold {failure_share:.0%} of the sampled mass; success tends to fall above "
            f"{config.warn_failure_share:.0%}"
        )
    return CriticVerdict(usable, gain, low, high, share, failure_share, len(rows), warning, reason)


@dataclass(frozen=True)
class _Row:
    """The t ticks of one episode that share in its outcome: weights (2, t) and values (2, t) by member, the outcome."""

    factor: Float64
    value: Float64
    outcome: float

    @staticmethod
    def of(episode: Episode, score: Columns, downweight: Downweight) -> "_Row | None":
        mask = credit(episode) & (episode.meta.source != "demonstration")
        if not mask.any():
            return None
        members = [score[name] for name in ("value_0", "value_1")]
        # Not told the outcome, which would make every advantage look right.
        factor = np.stack([downweight(value)[mask] for value in members]).astype(np.float64)
        value = np.stack([value[:-1][mask] for value in members]).astype(np.float64)
        return _Row(factor, value, outcome_value(episode))


def _gain(rows: Sequence[_Row], config: CriticGateConfig) -> tuple[float, float, float]:
    """Weighted minus plain mean of outcome − recalibrated value, and its bootstrap interval over episodes."""
    outcome = np.concatenate([np.full(r.value.shape[1], r.outcome) for r in rows])
    values = np.concatenate([r.value for r in rows], axis=1)
    residual = np.stack([outcome - _recalibrated(v, outcome) for v in values])[::-1]  # each beside the other's weights
    parts = np.split(residual, np.cumsum([r.value.shape[1] for r in rows])[:-1], axis=1)
    sums = np.stack(
        [
            [r.factor.sum(1), (r.factor * part).sum(1), np.full(2, part.shape[1]), part.sum(1)]
            for r, part in zip(rows, parts, strict=True)
        ]
    )

    def of(total: Float64) -> Float64:
        """Gains (...) from sums (..., 4, 2)."""
        return (total[..., 1, :] / total[..., 0, :] - total[..., 3, :] / total[..., 2, :]).mean(axis=-1)

    rng = np.random.default_rng(config.seed)
    drawn: Int64 = rng.integers(0, len(rows), (config.resamples, len(rows)))
    low, high = np.quantile(of(sums[drawn].sum(axis=1)), [0.025, 0.975])
    return float(of(sums.sum(axis=0))), float(low), float(high)


def _recalibrated(value: Float64, outcome: Float64) -> Float64:
    """Share of successes among ticks of like value: ten equal groups. A useless critic becomes a constant."""
    edges = np.quantile(value, np.linspace(0, 1, _BINS + 1)[1:-1])
    group = np.searchsorted(edges, value, side="right")
    mean = np.bincount(group, outcome, _BINS) / np.maximum(np.bincount(group, minlength=_BINS), 1)
    return mean[group]


def _answer(gain: float, low: float, share: float, failures: float, config: CriticGateConfig) -> tuple[bool, str]:
    if failures > config.refuse_failure_share:
        return (
            False,
            f"failures hold {failures:.0%} of the sampled mass; at most {config.refuse_failure_share:.0%} is safe",
        )
    if share < config.effective_share:
        return False, f"few samples dominate: effective share {share:.2f} is below {config.effective_share:.2f}"
    if not low > config.gain:
        bound = f"its low end {100 * low:+.1f} does not exceed {100 * config.gain:+.1f}"
        return False, f"the estimated gain is {100 * gain:+.1f} points, and {bound}"
    return True, f"held-out episodes suggest a gain of {100 * gain:+.1f} points (low end {100 * low:+.1f})"
