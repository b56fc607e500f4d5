"""Deploy draws of a lower temperature, or the mean of several."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from robotrl.errors import ConfigurationError
from robotrl.interfaces import Policy
from robotrl.specs import CameraSpec
from robotrl.types import ActionChunk, Committed, Float32, Int64, Observation, UInt8


class Sampler(Policy, Protocol):
    """A policy that turns noise into actions."""

    def noise(self, generator: np.random.Generator, draws: int) -> Float32:
        """Starting noise (draws, H, A); the first draw is the same whatever their number."""
        ...

    def context(self, states: Float32, images: Mapping[str, UInt8]) -> Float32:
        """What is drawn from, (n, C), of `states` (n, L, S) and pictures (n, H, W, 3): the same for every draw."""
        ...

    def sample(self, context: Float32, noise: Float32) -> Float32:
        """Raw chunks (n, H, A) from `context` (n, C) and `noise` (n, H, A)."""
        ...


class AverageSelector:
    """A policy that proposes the mean of `draws` chunks of another, element by element in raw units.

    The mean of draws has less noise than a draw, which pays in precise phases, but it blurs distinct ways of doing a
    task. Starting noise that is scaled by a `temperature` below 1 keeps each draw near a mode of its own: at 0.5 one
    draw did better than the mean of eight at 1 (docs/results.md). Draw 0 has the noise that the policy alone would use.

    Args:
        policy: what is drawn from.
        draws: chunks that are averaged, at least 1.
        temperature: factor on the starting noise, at least 0; 1 samples what the policy learned.
    """

    def __init__(self, policy: Sampler, draws: int = 16, temperature: float = 1.0) -> None:
        if draws < 1:
            raise ConfigurationError(f"selector.draws={draws}: expected at least 1")
        if not 0 <= temperature < math.inf:
            raise ConfigurationError(f"selector.temperature={temperature}: expected a number of at least 0")
        self.policy, self.draws, self.temperature = policy, draws, temperature

    @property
    def history(self) -> int:
        """L of the policy."""
        return self.policy.history

    @property
    def chunk_length(self) -> int:
        """H of the policy."""
        return self.policy.chunk_length

    @property
    def cameras(self) -> tuple[CameraSpec, ...]:
        """What the policy must see."""
        return self.policy.cameras

    @property
    def version(self) -> int:
        """Version of the policy's weights."""
        return self.policy.version

    def propose(
        self, observation: Observation, rows: Int64, committed: Committed, rng: Sequence[np.random.Generator]
    ) -> ActionChunk:
        """The mean chunk of every world; it carries no noise, since none alone reproduces it."""
        del committed
        noise = np.concatenate([self.policy.noise(generator, self.draws) for generator in rng])
        noise *= np.float32(self.temperature)
        context = self.policy.context(observation.state, observation.images)
        drawn = self.policy.sample(np.repeat(context, self.draws, axis=0), noise)
        mean = drawn.reshape(len(rows), self.draws, *drawn.shape[1:]).mean(axis=1, dtype=np.float32)
        return ActionChunk(rows, mean, observation.tick, self.policy.version)
