"""Actions in the units of the network and back."""

import torch
from torch import Tensor, nn

from robotrl.errors import DataError
from robotrl.learn.features import mean_and_std
from robotrl.specs import ArraySpec
from robotrl.types import Bool, Float32

_FLOOR = 2e-3


class ActionNormalizer(nn.Module):
    """Raw action chunks (B, H, A) ⇄ unit-scale chunks.

    A joint target in radians is taken relative to the same joint as measured in the newest state: elements of action
    and state belong together when their names are equal. All others (a finger width) stay absolute. Mean and scale
    are per (row of the chunk, element), because a target far ahead differs from the measured joint much more than the
    next one does, and the first rows are those that run.
    """

    mean: Tensor
    scale: Tensor
    measured: Tensor
    relative: Tensor

    def __init__(self, state: ArraySpec, action: ArraySpec, chunk_length: int) -> None:
        super().__init__()
        pairs = [
            state.elements.index(name) if name in state.elements and unit == "rad" else -1
            for name, unit in zip(action.elements, action.units, strict=True)
        ]
        index = torch.tensor(pairs, dtype=torch.int64)
        self.register_buffer("mean", torch.zeros(chunk_length, action.size))
        self.register_buffer("scale", torch.zeros(chunk_length, action.size))
        self.register_buffer("measured", index.clamp(min=0), persistent=False)
        self.register_buffer("relative", (index >= 0).float(), persistent=False)

    @property
    def fitted(self) -> bool:
        """Whether `fit` has run, here or before the weights were saved."""
        return bool(self.scale.all())

    def fit(self, newest: Float32, actions: Float32, mask: Bool) -> None:
        """Measure mean and scale.

        Args:
            newest: (M, S) raw states at the chunks' first ticks.
            actions: (M, H, A) raw chunks.
            mask: (M, H) which rows are targets.
        """
        offsets = (torch.from_numpy(actions) - self._base(torch.from_numpy(newest))).numpy()
        for row in range(actions.shape[1]):
            valid = offsets[mask[:, row], row]
            if len(valid) == 0:
                raise DataError(
                    f"no window reaches row {row} of a chunk of {actions.shape[1]}: episodes are too short; lower the "
                    "policy's chunk_length"
                )
            mean, std = mean_and_std(valid)
            self.mean[row] = torch.from_numpy(mean)
            self.scale[row] = torch.from_numpy(std).clamp(min=_FLOOR)

    def encode(self, actions: Tensor, newest: Tensor) -> Tensor:
        """Unit-scale chunks (B, H, A) of raw `actions` (B, H, A) seen from `newest` (B, S)."""
        return (actions - self._base(newest) - self.mean) / self.scale

    def decode(self, chunks: Tensor, newest: Tensor) -> Tensor:
        """Raw actions (B, H, A) of unit-scale `chunks` (B, H, A) seen from `newest` (B, S)."""
        return chunks * self.scale + self.mean + self._base(newest)

    def _base(self, newest: Tensor) -> Tensor:
        return (newest[:, self.measured] * self.relative)[:, None, :]
