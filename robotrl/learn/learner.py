"""Offline training of a policy, resumable to the bit."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from robotrl.data.durable import ensure_directory, write_atomic
from robotrl.errors import ConfigurationError, RobotRLError
from robotrl.interfaces import Objective, Trainable
from robotrl.learn.blocks import torch_threads
from robotrl.learn.tensors import to_bytes
from robotrl.learn.training import Sampler, Training
from robotrl.types import Float32, Windows

Progress = Callable[[int, int, float], None]
"""Called with (updates done, updates in all, loss of the last one)."""


@dataclass(frozen=True)
class LearnerConfig:
    """How to train.

    Attributes:
        updates: gradient steps.
        learning_rate: of AdamW at its highest; it rises over `warmup` updates and falls as a cosine to
            `final_fraction` of itself.
        weight_decay: of AdamW.
        clip: largest gradient norm.
        ema: decay of the averaged weights, which are what `fit` returns.
        threads: inside one operation; part of the configuration, since training bits depend on it.
        checkpoint_every: updates between checkpoints, 0 for none.
        seed: of the loss's noise.
    """

    updates: int = 5000
    learning_rate: float = 1e-3
    final_fraction: float = 0.1
    warmup: int = 100
    weight_decay: float = 1e-4
    clip: float = 1.0
    ema: float = 0.995
    threads: int = 2
    checkpoint_every: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        positive = {"updates": self.updates, "learning_rate": self.learning_rate, "clip": self.clip}
        for name, value in {**positive, "threads": self.threads}.items():
            if value <= 0:
                raise ConfigurationError(f"learner.{name}={value}: expected a positive number")
        if not 0 <= self.ema < 1:
            raise ConfigurationError(f"learner.ema={self.ema}: expected at least 0 and below 1")

    def rate(self, update: int) -> float:
        """Learning rate of the update with this index, from 0."""
        rising = min(1.0, (update + 1) / max(self.warmup, 1))
        falling = 0.5 * (1 + math.cos(math.pi * update / self.updates))
        return self.learning_rate * rising * (self.final_fraction + (1 - self.final_fraction) * falling)


@dataclass(frozen=True)
class FitResult:
    """What training made: `policy` with averaged weights, `loss` (updates,) of every update, `metrics` at the end."""

    policy: Trainable
    loss: Float32
    metrics: Mapping[str, float]


def fit_normalizer(policy: Trainable, sampler: Sampler, batches: int = 32) -> None:
    """Measure the scales of `policy` on `batches` batches; once, before its first training."""
    drawn = [sampler.sample() for _ in range(batches)]
    fields = ("states", "actions", "mask", "next_states", "episode", "tick", "source")
    joined = {name: np.concatenate([getattr(w, name) for w in drawn]) for name in fields}
    cast(Any, policy).fit_normalizer(Windows(columns={}, images={}, **joined))


def fit(
    policy: Trainable,
    objective: Objective,
    sampler: Sampler,
    config: LearnerConfig,
    checkpoint_dir: Path,
    progress: Progress | None = None,
    reference: Trainable | None = None,
) -> FitResult:
    """Train a copy of `policy`; the one given, the champion perhaps, is never touched.

    An interrupted call made again with equal arguments goes on from the last checkpoint in `checkpoint_dir` and
    returns the bits of an undisturbed one. A loss that is not finite ends training: the batch is saved there.

    Args:
        policy: where training starts, its normaliser fitted.
        objective: loss of a batch.
        sampler: where batches come from; windows are drawn in proportion to their mass, so all weigh the same here.
        config: how to train.
        checkpoint_dir: holds `training.safetensors`; give every training its own.
        progress: called after every update.
        reference: a frozen policy for objectives that need one.
    """
    checkpoint = ensure_directory(checkpoint_dir) / "training.safetensors"
    with torch_threads(config.threads):
        training = Training(policy, sampler, config.seed, repr(config))
        if checkpoint.exists():
            training.load(checkpoint)
        while training.updates < config.updates:
            batch = sampler.sample()
            loss = _update(training, objective, reference, batch, config)
            if not math.isfinite(loss):
                raise _diverged(checkpoint_dir, batch, training.updates, loss)
            if progress is not None:
                progress(training.updates, config.updates, loss)
            if config.checkpoint_every and training.updates % config.checkpoint_every == 0:
                training.save(checkpoint)
    losses = np.array(training.losses, np.float32)
    metrics = {"loss_first": float(losses[:100].mean()), "loss_last": float(losses[-100:].mean())}
    return FitResult(training.averaged(), losses, metrics)


def _update(
    training: Training, objective: Objective, reference: Trainable | None, batch: Windows, config: LearnerConfig
) -> float:
    """One gradient step. Returns the loss, or NaN (and no step) when loss or gradient is not finite."""
    training.zero_grad()
    weights = torch.ones(len(batch.states))
    loss, _ = objective(training.policy, reference, batch, weights, training.generator)
    loss.backward()
    value = float(loss.detach())
    norm = training.clip_gradient(config.clip)
    if not math.isfinite(value + norm):
        return math.nan
    training.apply(config.rate(training.updates), config.weight_decay, config.ema, value)
    return value


def _diverged(directory: Path, batch: Windows, update: int, loss: float) -> RobotRLError:
    path = directory / f"diverged_at_{update}.safetensors"
    arrays = {name: getattr(batch, name) for name in ("states", "actions", "mask", "episode", "tick")}
    write_atomic(path, to_bytes({name: torch.from_numpy(a) for name, a in arrays.items()}, {"loss": repr(loss)}))
    return RobotRLError(
        f"training diverged at update {update}: the loss or its gradient is not finite. The batch is in {path}, the "
        "policy that training started from is unchanged. Look for NaN in the data, or lower learner.learning_rate"
    )
