"""How far predicted success probabilities can be trusted."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from robotrl.stats import auc
from robotrl.types import Bool, Float32


@dataclass(frozen=True)
class ReliabilityBin:
    """Predictions that fell into one tenth of [0, 1]: their number, mean prediction, and share of successes."""

    count: int
    predicted: float
    observed: float


@dataclass(frozen=True)
class Calibration:
    """Held-out quality of success predictions.

    Attributes:
        count: predictions.
        auc: chance that a success is ranked above a failure; NaN when one kind is missing.
        brier: mean squared error of the probability.
        ece: mean distance of predicted and observed over the bins, by their counts.
        bins: the reliability diagram; empty bins are left out.
    """

    count: int
    auc: float
    brier: float
    ece: float
    bins: tuple[ReliabilityBin, ...]

    @staticmethod
    def of(predicted: Float32, success: Bool) -> "Calibration":
        """Compare `predicted` (n,) with what happened, `success` (n,)."""
        if len(predicted) == 0:
            return Calibration(0, np.nan, np.nan, np.nan, ())
        tenth = np.minimum((predicted * 10).astype(np.int64), 9)
        bins = tuple(
            ReliabilityBin(int(m.sum()), float(predicted[m].mean()), float(success[m].mean()))
            for m in (tenth == k for k in np.unique(tenth))
        )
        return Calibration(
            count=len(predicted),
            auc=auc(predicted, success),
            brier=float(np.square(predicted - success).mean()),
            ece=sum(b.count * abs(b.predicted - b.observed) for b in bins) / len(predicted),
            bins=bins,
        )

    def figures(self) -> dict[str, float]:
        """The single numbers: `auc`, `brier`, `ece`, `count`."""
        return {"auc": self.auc, "brier": self.brier, "ece": self.ece, "count": float(self.count)}

    def to_json(self) -> dict[str, Any]:
        """Plain values, bins included."""
        return asdict(self)
