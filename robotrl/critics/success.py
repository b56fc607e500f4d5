"""Success probability of a state, learned by temporal differences from outcomes alone.

The target of state s_t is the episode's outcome where it ends, and a λ-return of the critic's own values before
(`Experience.targets`); the loss is binary cross-entropy. No reward is designed: r_t = p(s_{t+1}) − p(s_t) is then a
reward that telescopes to the outcome.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from robotrl.critics.calibration import Calibration
from robotrl.critics.ensemble import EnsembleMLP
from robotrl.critics.experience import Experience
from robotrl.data.durable import write_atomic
from robotrl.errors import ConfigurationError, DataError, RobotRLError
from robotrl.interfaces import Columns
from robotrl.learn.blocks import map_blocks, torch_threads
from robotrl.learn.features import StateFeatures
from robotrl.learn.tensors import load_into, read_tensors, to_bytes
from robotrl.specs import ArraySpec
from robotrl.types import Episode, Float32, Int64

_PROBES = 20
_ROWS = 64
_CACHE_ROWS = 512


class SuccessCritic:
    """A pair of networks for use, and one pair a fold that has not seen the fold's episodes.

    An in-sample critic remembers which episodes failed. Scores for labels (`cross_fit_scores`) and diagnostics
    therefore come from members that were trained without the episode in question, each on its own part of the others,
    so that their errors are independent. All members train at once.

    Args:
        state: the environment's state spec.
        width: of both hidden layers.
        members: networks that are averaged, at least 2.
        folds: parts into which episodes are split.
        updates, batch, learning_rate, weight_decay: of AdamW.
        input_noise: standard deviation of noise on normalised inputs, against remembering.
        trace: λ of the targets.
        refresh: updates between two computations of the targets.
        seed: of weights, noise and folds.
    """

    def __init__(
        self,
        state: ArraySpec,
        width: int = 128,
        members: int = 2,
        folds: int = 3,
        updates: int = 700,
        batch: int = 256,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-2,
        input_noise: float = 0.1,
        trace: float = 0.98,
        refresh: int = 100,
        seed: int = 0,
    ) -> None:
        if min(width, updates, batch, refresh) < 1 or min(members, folds) < 2 or not 0 <= trace <= 1:
            raise ConfigurationError(
                f"critic: width={width}, updates={updates}, batch={batch}, refresh={refresh} must be at least 1, "
                f"members={members} and folds={folds} at least 2, trace={trace} in [0, 1]"
            )
        self.state, self.width, self.members, self.folds, self.seed = state, width, members, folds, seed
        self.updates, self.batch, self.refresh = updates, batch, refresh
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.input_noise, self.trace = input_noise, trace
        self.calibration = Calibration.of(np.zeros(0, np.float32), np.zeros(0, bool))
        self._fold_of: dict[str, int] = {}
        self._features = StateFeatures(state)
        self._network = self._new_network(torch.Generator().manual_seed(seed))

    def fit(self, episodes: Sequence[Episode]) -> Mapping[str, float]:
        """Learn from the policy's share of `episodes`; returns held-out `auc`, `brier`, `ece` and `count`.

        Demonstrations and a person's ticks teach nothing about the policy and are left out.
        """
        experience = Experience.of(episodes)
        if not np.isfinite(experience.outcome).any():
            raise DataError(
                f"none of {len(episodes)} episodes has autonomous ticks and an outcome: the critic needs rollouts"
            )
        generator = torch.Generator().manual_seed(self.seed)
        place = np.random.default_rng(self.seed).permutation(len(episodes))
        folds, part = place % self.folds, place // self.folds % self.members
        self._fold_of = {e.meta.episode_id: int(f) for e, f in zip(episodes, folds, strict=True)}
        self._features.fit(experience.states)
        self._network = self._new_network(generator)
        with torch_threads(1):
            self._train(experience, self._lessons(folds[experience.episode], part[experience.episode]), generator)
        self.calibration = self._held_out(episodes)
        return self.calibration.figures()

    def value(self, states: Float32) -> Float32:
        """Success probability (n,) of raw `states` (n, S); no bit depends on n."""
        return self._probabilities(states, 0).mean(axis=1)

    def score(self, episode: Episode) -> Columns:
        """`value` (T + 1,) of every state of `episode`."""
        return {"value": self.value(episode.state)}

    def cross_fit_scores(self, episodes: Sequence[Episode]) -> list[Columns]:
        """Scores (T + 1,) by members that did not see the episode: `value_0`, `value_1`, …, and their mean `value`."""
        groups = [self._fold_of.get(e.meta.episode_id, -1) + 1 for e in episodes]
        found = [self._probabilities(e.state, g) for e, g in zip(episodes, groups, strict=True)]
        return [{"value": v.mean(axis=1), **{f"value_{m}": v[:, m] for m in range(self.members)}} for v in found]

    def save(self, path: Path) -> None:
        """Write weights, folds and calibration to `path` (safetensors)."""
        info = {"width": self.width, "members": self.members, "folds": self.folds, "fold_of": self._fold_of}
        tensors = {f"network.{k}": t for k, t in self._network.state_dict().items()}
        tensors |= {f"features.{k}": t for k, t in self._features.state_dict().items()}
        write_atomic(path, to_bytes(tensors, {**info, "elements": self.state.elements}))

    def load(self, path: Path) -> None:
        """Take over what `save` wrote for the same state spec and sizes."""
        tensors, info = read_tensors(path)
        expected: dict[str, Any] = {"width": self.width, "members": self.members, "folds": self.folds}
        for name, value in {**expected, "elements": list(self.state.elements)}.items():
            if info.get(name) != value:
                raise DataError(f"{path}: critic with {name} {info.get(name)}, expected {value}; fit it again")
        parts = {"network.": self._network, "features.": self._features}
        for prefix, module in parts.items():
            mine = {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}
            load_into(module, mine, str(path))
        self._fold_of = info["fold_of"]

    def _new_network(self, generator: torch.Generator) -> EnsembleMLP:
        return EnsembleMLP(self.members * (1 + self.folds), self._features.size, self.width, generator)

    def _lessons(self, fold: Int64, part: Int64) -> list[Tensor]:
        """Rows that each member draws from: all, and in group g > 0 one part of what is outside fold g − 1."""
        everything = np.arange(len(fold))
        lessons = [everything] * self.members
        for group in range(self.folds):
            lessons += [np.flatnonzero((fold != group) & (part == member)) for member in range(self.members)]
        return [torch.from_numpy(rows if len(rows) else everything) for rows in lessons]

    def _train(self, experience: Experience, rows: list[Tensor], generator: torch.Generator) -> None:
        """Train every member on its own batches of `rows`."""
        inputs = self._features(torch.from_numpy(experience.states))
        optimizer = torch.optim.AdamW(
            self._network.parameters(), self.learning_rate, weight_decay=self.weight_decay, fused=True
        )
        targets = torch.empty(0)
        for update in range(self.updates):
            if update % self.refresh == 0:
                targets = self._targets(experience, inputs, self.trace if update else 1.0)
            drawn = torch.stack([r[torch.randint(len(r), (self.batch,), generator=generator)] for r in rows])
            x = inputs[drawn]
            x = x + self.input_noise * torch.randn(x.shape, generator=generator)
            loss = functional.binary_cross_entropy_with_logits(self._network(x), targets.gather(1, drawn))
            optimizer.zero_grad()
            (loss * len(rows)).backward()
            optimizer.step()

    def _targets(self, experience: Experience, inputs: Tensor, trace: float) -> Tensor:
        """λ-returns (members, n), each group from its own mean value."""
        with torch.no_grad():
            logits = torch.cat([self._network(part) for part in inputs.split(_CACHE_ROWS)], dim=1)
        values = logits.sigmoid().unflatten(0, (-1, self.members)).mean(dim=1)
        returns = torch.from_numpy(experience.targets(values.numpy(), trace))
        return returns.repeat_interleave(self.members, dim=0)

    def _probabilities(self, states: Float32, group: int) -> Float32:
        """Success probability (n, members) by the members of `group`."""
        if not self._features.fitted:
            raise RobotRLError("the critic has not been fitted: call fit() or load() first")

        def call(block: Tensor) -> Tensor:
            return self._network(self._features(block), group * self.members, self.members).sigmoid().T

        return map_blocks(call, (states,), _ROWS)

    def _held_out(self, episodes: Sequence[Episode]) -> Calibration:
        """Calibration on the same number of states of every autonomous episode with an outcome."""
        known = [e for e in episodes if e.meta.source == "autonomous" and e.meta.outcome is not None]
        values = [s["value"] for s in self.cross_fit_scores(known)]
        predicted = [v[np.linspace(0, len(v) - 2, _PROBES).round().astype(int)] for v in values]
        if not predicted:
            return self.calibration
        return Calibration.of(np.concatenate(predicted), np.repeat([e.succeeded for e in known], _PROBES))
