"""Statistics as LeRobot keeps them: of every feature in every episode, and merged over the data set.

A statistic is name → array: min, max, mean, std, count (1,) and quantiles q01 … q99; (D,) for a feature of D elements,
(3, 1, 1) in [0, 1] for pictures. Merged quantiles are LeRobot's approximation, a mean weighted by counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.types import FrameArray

Statistic = Mapping[str, NDArray[Any]]
_QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}
_PICTURES = 32
"""How many pictures of an episode are looked at, evenly spread."""


def vector_statistic(values: NDArray[Any]) -> Statistic:
    """Of (T,) or (T, D) finite values, T > 0."""
    rows = values.reshape(len(values), -1).astype(np.float64)
    quantiles = np.quantile(rows, list(_QUANTILES.values()), axis=0)
    return {
        "min": rows.min(0),
        "max": rows.max(0),
        "mean": rows.mean(0),
        "std": rows.std(0),
        "count": np.array([len(rows)]),
        **dict(zip(_QUANTILES, quantiles, strict=True)),
    }


def picture_statistic(frames: FrameArray) -> Statistic:
    """Of (F, H, W, 3) uint8 pictures, a channel at a time."""
    chosen = np.unique(np.linspace(0, len(frames) - 1, _PICTURES).astype(np.int64))
    pixels = np.concatenate([np.asarray(frames[int(i)])[::2, ::2].reshape(-1, 3) for i in chosen])
    statistic = {name: value.reshape(-1, 1, 1) / 255 for name, value in vector_statistic(pixels).items()}
    return {**statistic, "count": np.array([len(chosen)])}


def merge_statistics(parts: Sequence[Statistic]) -> Statistic:
    """Of all that the parts are about, one or more of one feature."""
    stacked = {name: np.stack([part[name] for part in parts]) for name in parts[0]}
    count = stacked["count"].reshape(-1, *[1] * (stacked["mean"].ndim - 1))
    weight = count / count.sum()
    mean = (stacked["mean"] * weight).sum(0)
    variance = ((stacked["std"] ** 2 + (stacked["mean"] - mean) ** 2) * weight).sum(0)
    return {
        "min": stacked["min"].min(0),
        "max": stacked["max"].max(0),
        "mean": mean,
        "std": np.sqrt(variance),
        "count": stacked["count"].sum(0),
        **{name: (stacked[name] * weight).sum(0) for name in _QUANTILES},
    }
