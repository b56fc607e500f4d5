"""Small networks on vectors."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class ResidualBlock(nn.Module):
    """x + W₂ silu(W₁ LayerNorm(x)), (B, width) → (B, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, width)
        self.contract = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block to `x` (B, width)."""
        return x + self.contract(functional.silu(self.expand(self.norm(x))))


class ResidualMLP(nn.Module):
    """(B, inputs) → (B, outputs) through `blocks` residual blocks; the last layer starts at zero."""

    def __init__(self, inputs: int, outputs: int, width: int, blocks: int) -> None:
        super().__init__()
        self.inlet = nn.Linear(inputs, width)
        self.trunk = nn.Sequential(*(ResidualBlock(width) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)
        self.outlet = nn.Linear(width, outputs)
        nn.init.zeros_(self.outlet.weight)
        nn.init.zeros_(self.outlet.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the network to `x` (B, inputs)."""
        return self.outlet(self.norm(self.trunk(self.inlet(x))))


def sinusoidal(tau: Tensor, size: int, highest: float = 64.0) -> Tensor:
    """Embed `tau` (B,) in [0, 1] as sines and cosines of `size` / 2 frequencies from 1 to `highest` rad, (B, size)."""
    exponents = torch.linspace(0.0, math.log(highest), size // 2, device=tau.device)
    angles = tau[:, None] * exponents.exp()
    return torch.cat([angles.sin(), angles.cos()], dim=1)
