"""State features that policies and critics share."""

import numpy as np
import torch
from torch import Tensor, nn

from robotrl.errors import DataError
from robotrl.specs import ArraySpec
from robotrl.types import Float32

FINE_SCALES = {"m": (0.02, 0.004), "rad": (0.1, 0.02)}
"""Distances and angles over which the fine-scale features saturate, by unit."""

_CLIP = 5.0
_CONSTANT = 1e-4
_FLOOR = 1e-2


def fine_elements(spec: ArraySpec) -> list[tuple[int, float]]:
    """Index and scale of the fine features: relative poses, whose name says from where to where ("tool_to_peg.x")."""
    return [
        (i, scale)
        for i, (name, unit) in enumerate(zip(spec.elements, spec.units, strict=True))
        if "_to_" in name
        for scale in FINE_SCALES.get(unit, ())
    ]


def mean_and_std(values: Float32) -> tuple[Float32, Float32]:
    """Mean and standard deviation over the first axis of `values` (M, ...), both (...). Raises on NaN or M = 0."""
    if len(values) == 0 or not np.isfinite(values).all():
        raise DataError(f"cannot normalise {values.shape} values: expected at least one row, all finite")
    mean, std = values.mean(axis=0, dtype=np.float64), values.std(axis=0, dtype=np.float64)
    return mean.astype(np.float32), std.astype(np.float32)


class StateFeatures(nn.Module):
    """Normalised state and fine-scale relative poses: (..., S) in raw units → (..., F).

    Millimetres decide an insertion, but they vanish beside a reach of half a metre. So every relative pose
    (`fine_elements`) appears normalised and as tanh(x / scale), once for each of `FINE_SCALES`. The fitted numbers are
    buffers and travel with the weights.
    """

    mean: Tensor
    scale: Tensor
    fine: Tensor
    fine_scale: Tensor

    def __init__(self, spec: ArraySpec) -> None:
        super().__init__()
        fine = fine_elements(spec)
        self.size = spec.size + len(fine)
        self.register_buffer("mean", torch.zeros(spec.size))
        self.register_buffer("scale", torch.zeros(spec.size))
        self.register_buffer("fine", torch.tensor([i for i, _ in fine], dtype=torch.int64), persistent=False)
        self.register_buffer("fine_scale", torch.tensor([s for _, s in fine]), persistent=False)

    @property
    def fitted(self) -> bool:
        """Whether `fit` has run, here or before the weights were saved."""
        return bool(self.scale.all())

    def fit(self, states: Float32) -> None:
        """Measure mean and scale of `states` (M, S) in raw units.

        Deviations below the floor count as the floor, so that sensor noise is never blown up; an element that never
        changes keeps scale 1, so that a later small change stays small.
        """
        mean, std = mean_and_std(states)
        scale = np.where(std < _CONSTANT, np.float32(1.0), np.maximum(std, np.float32(_FLOOR)))
        self.mean.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(scale))

    def forward(self, states: Tensor) -> Tensor:
        """Features (..., F) of `states` (..., S) in raw units."""
        coarse = ((states - self.mean) / self.scale).clamp(-_CLIP, _CLIP)
        return torch.cat([coarse, torch.tanh(states[..., self.fine] / self.fine_scale)], dim=-1)
