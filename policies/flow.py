"""Conditional flow matching over action chunks, on low-dimensional state and pictures.

A chunk x₁ in normalised units and noise x₀ ~ N(0, I) are joined by the line x_τ = (1 − τ) x₀ + τ x₁. The network
learns the velocity u = x₁ − x₀ from (what is observed, x_τ, τ); sampling integrates it from τ = 0 to 1 in K Euler steps
(Lipman et al. 2023, "Flow Matching for Generative Modeling", with the optimal-transport path).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from policies.networks import ResidualMLP, sinusoidal
from policies.normalizer import ActionNormalizer
from policies.vision import ImageEncoder
from robotrl.errors import ConfigurationError, DataError, RobotRLError
from robotrl.learn.blocks import map_blocks
from robotrl.learn.features import StateFeatures
from robotrl.specs import ArraySpec, CameraSpec
from robotrl.types import ActionChunk, Committed, Float32, Int64, Observation, UInt8, Windows

_TAU_SIZE = 32
_DRAWS = 8
"""Noise and τ that a window with pictures is trained on: encoding it costs as much as thirty passes of the network."""


class FlowPolicy(nn.Module):
    """A residual MLP that turns noise into chunks of H actions.

    Args:
        state, action: the environment's specs.
        history: L, past states it sees; of pictures it sees the newest.
        chunk_length: H.
        width, blocks: size of the network.
        euler_steps: K ≥ 2; one step averages over modes and fails.
        block_rows: rows in every network call, so that bits do not depend on the number of worlds.
        threads: network calls that run side by side while rolling out; changes no bits.
        version: of the weights.
        seed: of the initial weights.
        elements: names of the state's elements that it sees; all of them when None.
        cameras: whose pictures it sees beside the state.
        channels: of the convolutions on pictures.
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
        elements: Sequence[str] | None = None,
        cameras: Sequence[CameraSpec] = (),
        channels: Sequence[int] = (16, 16),
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
        self.elements = state.elements if elements is None else tuple(elements)
        self.cameras, self.channels = tuple(cameras), tuple(channels)
        self.features = StateFeatures(state.select(self.elements))
        self.normalizer = ActionNormalizer(state, action, chunk_length)
        self._columns = [state.elements.index(e) for e in self.elements]
        flat = chunk_length * action.size
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.encoder = ImageEncoder(self.cameras, self.channels) if self.cameras else None
            seen = history * self.features.size + (self.encoder.size if self.encoder else 0)
            self.network = ResidualMLP(seen + flat + _TAU_SIZE, flat, width, blocks)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], state: ArraySpec, action: ArraySpec) -> "FlowPolicy":
        """Rebuild, without weights, what `config` described."""
        values: dict[str, Any] = {**config, "cameras": [CameraSpec(**camera) for camera in config.get("cameras", ())]}
        return cls(state, action, **values)

    def config(self) -> dict[str, Any]:
        """What decides shape and bits of the network; JSON."""
        names = ("history", "chunk_length", "width", "blocks", "euler_steps", "block_rows", "version")
        config: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.elements != self.state.elements:
            config["elements"] = list(self.elements)
        if self.cameras:
            config |= {"cameras": [asdict(camera) for camera in self.cameras], "channels": list(self.channels)}
        return config

    def fit_normalizer(self, windows: Windows) -> None:
        """Measure the scales of states and actions on `windows`; do it once, before the first training."""
        self.features.fit(windows.states[:, -1][:, self._columns])
        self.normalizer.fit(windows.states[:, -1], windows.actions, windows.mask)

    def loss(self, windows: Windows, generator: torch.Generator) -> Tensor:
        """Flow-matching error of every sample (B,), averaged over the actions that `windows.mask` marks."""
        self._require_fitted()
        states, mask = torch.from_numpy(windows.states), torch.from_numpy(windows.mask)
        newest = {name: frames[:, -1] for name, frames in windows.images.items()}
        pictures = [torch.from_numpy(picture) for picture in self._seen(newest)]
        target = self.normalizer.encode(torch.from_numpy(windows.actions), states[:, -1])
        draws = 1 if self.encoder is None else _DRAWS
        features, target = self.encode(states, *pictures).repeat(draws, 1), target.repeat(draws, 1, 1)
        noise = torch.randn(target.shape, generator=generator)
        tau = torch.rand(len(target), generator=generator)
        x = torch.lerp(noise, target, tau[:, None, None])
        error = (self.velocity(features, x, tau) - (target - noise)).square().mean(dim=2)
        error = error.unflatten(0, (draws, -1)).mean(dim=0)
        return (error * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)

    def encode(self, states: Tensor, *pictures: Tensor) -> Tensor:
        """Features (B, F) of raw `states` (B, L, S) and a picture (B, H, W, 3) uint8 of every camera."""
        features = self.features(states[..., self._columns]).flatten(1)
        return features if self.encoder is None else torch.cat([features, self.encoder(pictures)], dim=1)

    def velocity(self, features: Tensor, x: Tensor, tau: Tensor) -> Tensor:
        """Velocity (B, H, A) at normalised chunks `x` (B, H, A) and `tau` (B,), given `features` (B, F)."""
        inputs = torch.cat([features, x.flatten(1), sinusoidal(tau, _TAU_SIZE)], dim=1)
        return self.network(inputs).view_as(x)

    def noise(self, generator: np.random.Generator, draws: int) -> Float32:
        """Starting noise (draws, H, A). The first draw is the same whatever their number."""
        return generator.standard_normal((draws, self.chunk_length, self.action.size), dtype=np.float32)

    def context(self, states: Float32, images: Mapping[str, UInt8]) -> Float32:
        """What `sample` draws from, (n, C): features of `states` (n, L, S) and of the pictures, and the newest state.

        `images`: camera → (n, H, W, 3), those of `cameras` at least.
        """
        self._require_fitted()
        arrays = (states, *self._seen(images))
        return np.concatenate([map_blocks(self.encode, arrays, self.block_rows, self.threads), states[:, -1]], axis=1)

    def sample(self, context: Float32, noise: Float32) -> Float32:
        """Chunks (n, H, A) in raw units, inside the action bounds, from `context` (n, C) and `noise` (n, H, A)."""
        return self.action.clip(map_blocks(self._integrate, (context, noise), self.block_rows, self.threads))

    def propose(
        self, observation: Observation, rows: Int64, committed: Committed, rng: Sequence[np.random.Generator]
    ) -> ActionChunk:
        """One draw a world. `committed` is not used: chunks are not conditioned on what runs before them."""
        del committed
        noise = np.concatenate([self.noise(generator, 1) for generator in rng])
        actions = self.sample(self.context(observation.state, observation.images), noise)
        return ActionChunk(rows, actions, observation.tick, self.version, noise)

    def _integrate(self, context: Tensor, noise: Tensor) -> Tensor:
        features, newest = context.split([context.shape[1] - self.state.size, self.state.size], dim=1)
        x = noise
        for step in range(self.euler_steps):
            tau = torch.full((len(x),), step / self.euler_steps)
            x = x + self.velocity(features, x, tau) / self.euler_steps
        return self.normalizer.decode(x, newest)

    def _seen(self, images: Mapping[str, UInt8]) -> list[UInt8]:
        """The pictures (n, H, W, 3) of the cameras, in order; `DataError` unless all are there, of the right size."""
        for camera in self.cameras:
            found = {name: picture.shape[1:3] for name, picture in images.items()}
            if found.get(camera.name) != (camera.height, camera.width):
                raise DataError(
                    f"the policy sees camera {camera}; it was given {found or 'no pictures'}: give its worlds, or the "
                    "episodes that it learns from, the cameras that it was made for"
                )
        return [images[camera.name] for camera in self.cameras]

    def _require_fitted(self) -> None:
        if not (self.features.fitted and self.normalizer.fitted):
            raise RobotRLError("the policy has no normaliser yet: train it or load its weights before using it")
