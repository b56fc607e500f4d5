"""Conditional flow matching over action chunks, on low-dimensional state.

A chunk x₁ in normalised units and noise x₀ ~ N(0, I) are joined by the line x_τ = (1 − τ) x₀ + τ x₁. The network
learns the velocity u = x₁ − x₀ from (state, x_τ, τ); sampling integrates it from τ = 0 to 1 in K Euler steps
(Lipman et al. 2023, "Flow Matching for Generative Modeling", with the optimal-transport path).
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from policies.networks import ResidualMLP, sinusoidal
from policies.normalizer import ActionNormalizer
from robotrl.errors import ConfigurationError, RobotRLError
from robotrl.learn.blocks import map_blocks
from robotrl.learn.features import StateFeatures
from robotrl.specs import ArraySpec
from robotrl.types import ActionChunk, Committed, Float32, Int64, Observation, Windows

_TAU_SIZE = 32


class FlowPolicy(nn.Module):
    """A residual MLP that turns noise into chunks of H actions.

    Args:
        state, action: the environment's specs.
        history: L, past states it sees.
        chunk_length: H.
        width, blocks: size of the network.
        euler_steps: K ≥ 2; one step averages over modes and fails.
        block_rows: rows in every network call, so that bits do not depend on the number of worlds.
        threads: network calls that run side by side while rolling out; changes no bits.
        version: of the weights.
        seed: of the initial weights.
    """

    def __init__(
        self,
        state: ArraySpec,
        action: ArraySpec,
        history: int = 1,
        chunk_length: int = 16,
        width: int = 384,
        blocks: int = 3,
        euler_steps: int = 4,
        block_rows: int = 32,
        threads: int = 1,
        version: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        sizes = {"history": history, "chunk_length": chunk_length, "width": width, "blocks": blocks, "threads": threads}
        for name, value in {**sizes, "euler_steps": euler_steps - 1, "block_rows": block_rows}.items():
            if value < 1:
                raise ConfigurationError(f"policy.{name} is too small: expected at least 1 (euler_steps: 2)")
        self.state, self.action = state, action
        self.history, self.chunk_length, self.version = history, chunk_length, version
        self.width, self.blocks, self.euler_steps = width, blocks, euler_steps
        self.block_rows, self.threads = block_rows, threads
        self.features = StateFeatures(state)
        self.normalizer = ActionNormalizer(state, action, chunk_length)
        flat = chunk_length * action.size
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = ResidualMLP(history * self.features.size + flat + _TAU_SIZE, flat, width, blocks)

    @classmethod
    def from_config(cls, config: Mapping[str, int], state: ArraySpec, action: ArraySpec) -> "FlowPolicy":
        """Rebuild, without weights, what `config` described."""
        return cls(state, action, **config)

    def config(self) -> dict[str, int]:
        """Numbers that decide shape and bits of the network; JSON."""
        names = ("history", "chunk_length", "width", "blocks", "euler_steps", "block_rows", "version")
        return {name: getattr(self, name) for name in names}

    def fit_normalizer(self, windows: Windows) -> None:
        """Measure the scales of states and actions on `windows`; do it once, before the first training."""
        self.features.fit(windows.states[:, -1])
        self.normalizer.fit(windows.states[:, -1], windows.actions, windows.mask)

    def loss(self, windows: Windows, generator: torch.Generator) -> Tensor:
        """Flow-matching error of every sample (B,), averaged over the actions that `windows.mask` marks."""
        self._require_fitted()
        states, mask = torch.from_numpy(windows.states), torch.from_numpy(windows.mask)
        target = self.normalizer.encode(torch.from_numpy(windows.actions), states[:, -1])
        noise = torch.randn(target.shape, generator=generator)
        tau = torch.rand(len(target), generator=generator)
        x = torch.lerp(noise, target, tau[:, None, None])
        error = (self._velocity(self._context(states), x, tau) - (target - noise)).square().mean(dim=2)
        return (error * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)

    def velocity(self, states: Tensor, x: Tensor, tau: Tensor) -> Tensor:
        """Velocity (B, H, A) at normalised chunks `x` (B, H, A) and `tau` (B,), given raw `states` (B, L, S)."""
        return self._velocity(self._context(states), x, tau)

    def noise(self, generator: np.random.Generator, draws: int) -> Float32:
        """Starting noise (draws, H, A). The first draw is the same whatever their number."""
        return generator.standard_normal((draws, self.chunk_length, self.action.size), dtype=np.float32)

    def sample(self, states: Float32, noise: Float32) -> Float32:
        """Chunks (n, H, A) in raw units, inside the action bounds, from `states` (n, L, S) and `noise` (n, H, A)."""
        self._require_fitted()
        return self.action.clip(map_blocks(self._integrate, (states, noise), self.block_rows, self.threads))

    def propose(
        self, observation: Observation, rows: Int64, committed: Committed, rng: Sequence[np.random.Generator]
    ) -> ActionChunk:
        """One draw a world. `committed` is not used: chunks are not conditioned on what runs before them."""
        del committed
        noise = np.concatenate([self.noise(generator, 1) for generator in rng])
        actions = self.sample(observation.state, noise)
        return ActionChunk(rows, actions, observation.tick, self.version, noise)

    def _context(self, states: Tensor) -> Tensor:
        return self.features(states).flatten(1)

    def _velocity(self, context: Tensor, x: Tensor, tau: Tensor) -> Tensor:
        inputs = torch.cat([context, x.flatten(1), sinusoidal(tau, _TAU_SIZE)], dim=1)
        return self.network(inputs).view_as(x)

    def _integrate(self, states: Tensor, noise: Tensor) -> Tensor:
        context, x = self._context(states), noise
        for step in range(self.euler_steps):
            tau = torch.full((len(x),), step / self.euler_steps)
            x = x + self._velocity(context, x, tau) / self.euler_steps
        return self.normalizer.decode(x, states[:, -1])

    def _require_fitted(self) -> None:
        if not (self.features.fitted and self.normalizer.fitted):
            raise RobotRLError("the policy has no normaliser yet: train it or load its weights before using it")
