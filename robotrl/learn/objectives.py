"""Losses over windows. Each is a small frozen callable and touches nothing but its arguments."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from robotrl.interfaces import Trainable
from robotrl.types import Windows


@dataclass(frozen=True)
class WeightedRegression:
    """Weighted behaviour cloning: Σᵢ wᵢ lossᵢ / Σᵢ wᵢ, with the policy's own regression loss (flow matching).

    Sampling windows in proportion to their mass and multiplying their loss by it have the same expectation; the
    sampler does the former, so `weights` are usually 1.
    """

    def __call__(
        self,
        policy: Trainable,
        reference: Trainable | None,
        windows: Windows,
        weights: torch.Tensor,
        generator: torch.Generator,
    ) -> tuple[torch.Tensor, Mapping[str, float]]:
        """The scalar loss of `windows` (B) under `weights` (B,), and no further metrics."""
        del reference
        losses = policy.loss(windows, generator)
        return (losses * weights).sum() / weights.sum(), {}
