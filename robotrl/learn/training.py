"""All that a training run changes while it goes on, and its checkpoint."""

import copy
import hashlib
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from robotrl.data.durable import write_atomic
from robotrl.errors import DataError
from robotrl.interfaces import Trainable
from robotrl.learn.tensors import load_into, read_tensors, to_bytes
from robotrl.types import Windows


class Sampler(Protocol):
    """Draws training batches; `robotrl.data.windows.WindowSampler` is one."""

    def sample(self) -> Windows:
        """The next batch."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """JSON with which `load_state` goes on at the same batch."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was taken."""
        ...


class Training:
    """A policy in training: live and averaged weights, optimiser, noise generator and the sampler's place.

    Args:
        policy: where training starts; it is copied.
        sampler: its place is saved with the rest.
        seed: of the loss's noise.
        purpose: text that must be equal when a checkpoint is resumed, e.g. the configuration.
    """

    def __init__(self, policy: Trainable, sampler: Sampler, seed: int, purpose: str) -> None:
        self.policy = copy.deepcopy(policy)
        self.generator = torch.Generator().manual_seed(seed)
        self.losses: list[float] = []
        self._live, self._average = cast(nn.Module, self.policy), copy.deepcopy(cast(nn.Module, policy))
        self._parameters: list[Tensor] = list(self._live.parameters())
        self._averages: list[Tensor] = list(self._average.parameters())
        self._optimizer = torch.optim.AdamW(self._parameters, fused=True)
        self._sampler = sampler
        start = to_bytes(self._live.state_dict())
        self._fingerprint = hashlib.sha256(start + purpose.encode()).hexdigest()

    @property
    def updates(self) -> int:
        """Gradient steps made."""
        return len(self.losses)

    def zero_grad(self) -> None:
        """Forget the gradient."""
        self._optimizer.zero_grad(set_to_none=True)

    def clip_gradient(self, limit: float) -> float:
        """Scale the gradient to a norm of at most `limit`; returns the norm it had."""
        return float(nn.utils.clip_grad_norm_(self._parameters, limit, foreach=True))

    def apply(self, rate: float, weight_decay: float, decay: float, loss: float) -> None:
        """Step by AdamW, and move the average by 1 − `decay` (more in the first updates, when it knows little)."""
        for group in self._optimizer.param_groups:
            group["lr"], group["weight_decay"] = rate, weight_decay
        self._optimizer.step()
        self.losses.append(loss)
        decay = min(decay, self.updates / (self.updates + 9))
        get_ema_multi_avg_fn(decay)(self._averages, self._parameters, self.updates)

    def averaged(self) -> Trainable:
        """The policy with averaged weights."""
        return cast(Trainable, self._average)

    def save(self, path: Path) -> None:
        """Write everything to `path` in one step."""
        tensors: dict[str, Tensor] = {"generator": self.generator.get_state(), "losses": torch.tensor(self.losses)}
        tensors |= {f"live.{name}": t for name, t in self._live.state_dict().items()}
        tensors |= {f"average.{name}": t for name, t in self._average.state_dict().items()}
        for index, state in self._optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": t for name, t in state.items()}
        info = {"fingerprint": self._fingerprint, "sampler": self._sampler.state_dict()}
        write_atomic(path, to_bytes(tensors, info))

    def load(self, path: Path) -> None:
        """Go on where `save` wrote `path`."""
        tensors, info = read_tensors(path)
        if info.get("fingerprint") != self._fingerprint:
            raise DataError(
                f"{path} is the checkpoint of another training (other weights to start from, or another "
                "configuration): remove it to train from the start"
            )
        load_into(self._live, _under(tensors, "live."), str(path))
        load_into(self._average, _under(tensors, "average."), str(path))
        state: dict[int, dict[str, Any]] = {}
        for key, tensor in _under(tensors, "optimizer.").items():
            index, _, name = key.partition(".")
            state.setdefault(int(index), {})[name] = tensor
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": state})
        self.generator.set_state(tensors["generator"])
        self.losses = tensors["losses"].tolist()
        self._sampler.load_state(info["sampler"])


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
