"""Several small networks evaluated as one."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class EnsembleMLP(nn.Module):
    """M independent networks with two hidden layers of `width`: (M, B, inputs) → logits (M, B).

    Batched matrix products train all of them for little more than the price of one. No member sees another's
    gradient, so each is what it would be alone.
    """

    def __init__(self, members: int, inputs: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        sizes = ((inputs, width), (width, width), (width, 1))

        def uniform(*shape: int, fan_in: int) -> nn.Parameter:
            return nn.Parameter((torch.rand(shape, generator=generator) * 2 - 1) * fan_in**-0.5)

        self.weights = nn.ParameterList(uniform(members, i, o, fan_in=i) for i, o in sizes)
        self.biases = nn.ParameterList(uniform(members, 1, o, fan_in=i) for i, o in sizes)

    def forward(self, x: Tensor, first: int = 0, count: int | None = None) -> Tensor:
        """Logits (count, B) of members `first`, `first` + 1, … for `x` (count, B, inputs), or (B, inputs) for all."""
        count = len(self.weights[0]) if count is None else count
        members = slice(first, first + count)
        x = x.expand(count, *x.shape[-2:])
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.bmm(functional.silu(x) if layer else x, weight[members]) + bias[members]
        return x.squeeze(-1)
