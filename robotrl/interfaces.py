"""The protocols of the platform. A new environment, policy, critic, labeler, objective, operator or sink
implements one of these and inherits its contract test from `tests/contracts/`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from robotrl.specs import CameraSpec, EnvironmentSpec
from robotrl.types import (
    ActionChunk,
    Bool,
    Branch,
    Command,
    Committed,
    Episode,
    Float32,
    Float64,
    Int64,
    Observation,
    Snapshot,
    Status,
    Transition,
    UInt8,
    Windows,
)

if TYPE_CHECKING:
    import torch

Columns = Mapping[str, Float32]
"""Annotation columns of one episode: name → (T,) float32."""


@runtime_checkable
class Environment(Protocol):
    """N worlds of one task: MuJoCo, a world model, an outside suite, or the robot itself (N = 1)."""

    @property
    def spec(self) -> EnvironmentSpec:
        """What the environment promises."""
        ...

    @property
    def worlds(self) -> int:
        """N."""
        ...

    def reset(self, seeds: Int64, mask: Bool) -> Observation:
        """Start the worlds in `mask` (N,) from `seeds` (N,) and return the observation of all N worlds.

        A world's start depends on its seed alone. Starts that are already solved are never drawn.
        """
        ...

    def step(self, actions: Float32, mask: Bool, render: Bool | None = None) -> Transition:
        """Advance the worlds in `mask` (N,) by K ticks under `actions` (N, K, A).

        Masked-out worlds do not move. A world that ends inside the call stops there. Stepping a world that has
        ended and was not reset is an error. The observation has the images of the worlds in `render` (N,), which need
        not move, and zeros for the others; none at all where no world is rendered.
        """
        ...

    def snapshot(self, mask: Bool) -> Snapshot:
        """All that the worlds in `mask` need to go on bit-exactly, in this or another process."""
        ...

    def restore(self, snapshot: Snapshot, mask: Bool) -> Observation:
        """Put the worlds in `mask` (as many as the snapshot holds, in order) into the snapshot's states."""
        ...

    def close(self) -> None:
        """Free threads and graphics contexts. Idempotent."""
        ...


@runtime_checkable
class Branching(Environment, Protocol):
    """An environment that can go on from any state of a stored episode."""

    def snapshot_of(self, branch: Branch) -> Snapshot:
        """What `snapshot` of the one world would have given when `branch.parent` had run for `branch.tick` ticks.

        Bit-exact but for one case: the pushes on a demonstration are not stored, so that where actions arrive late, the
        ones still under way are taken to have been executed as they were requested.
        """
        ...


@runtime_checkable
class Drawer(Environment, Protocol):
    """An environment that can draw states from long ago."""

    def draw(self, physics: Float64, privileged: Float32) -> Mapping[str, UInt8]:
        """Camera → pictures (F, H, W, 3) uint8 of one world's states (F, X), for the cameras of the spec.

        What the world looked like is read from the vectors `privileged` (F, P) that were stored with them.
        """
        ...


@runtime_checkable
class Policy(Protocol):
    """Proposes action chunks. It keeps no state between calls: the loop stacks histories and passes generators."""

    @property
    def history(self) -> int:
        """L, the number of past states it wants to see."""
        ...

    @property
    def chunk_length(self) -> int:
        """H, the number of actions in a chunk."""
        ...

    @property
    def cameras(self) -> tuple[CameraSpec, ...]:
        """What it must see of a world when it proposes; () for a policy that goes by states."""
        ...

    @property
    def version(self) -> int:
        """Version of the weights, recorded at every tick they act in."""
        ...

    def propose(
        self, observation: Observation, rows: Int64, committed: Committed, rng: Sequence[np.random.Generator]
    ) -> ActionChunk:
        """Chunks for the n worlds that are due.

        Args:
            observation: n worlds; `state` is (n, L, S), `images` those of its cameras at least, all drawn.
            rows: (n,) their indices in the loop, copied into the chunk.
            committed: what will run before the chunk can start.
            rng: one generator a world, so that results do not depend on which worlds share a call.
        """
        ...


@runtime_checkable
class EpisodicPolicy(Policy, Protocol):
    """A policy that keeps something through an episode, such as the wandering of a demonstrator's hand."""

    def begin(self, rows: Int64, rng: Sequence[np.random.Generator]) -> None:
        """Episodes begin in the worlds `rows` (n,) of the loop, each with its generator."""
        ...


@runtime_checkable
class Trainable(Policy, Protocol):
    """A policy that learns by regression."""

    def loss(self, windows: Windows, generator: "torch.Generator") -> "torch.Tensor":
        """Loss of every sample, (B,), averaged over the targets that `windows.mask` marks."""
        ...


@runtime_checkable
class Critic(Protocol):
    """Scores states by how likely they lead to success."""

    def fit(self, episodes: Sequence[Episode]) -> Mapping[str, float]:
        """Learn from the outcomes of `episodes`; returns held-out diagnostics (AUC, Brier, ECE)."""
        ...

    def score(self, episode: Episode) -> Columns:
        """Columns over the episode's T + 1 states, e.g. `value`."""
        ...

    def value(self, states: Float32) -> Float32:
        """Success probability (n,) of `states` (n, S)."""
        ...


@runtime_checkable
class Labeler(Protocol):
    """A pure function from episodes and critic scores to annotation columns."""

    def label(self, episodes: Sequence[Episode], scores: Sequence[Columns]) -> Sequence[Columns]:
        """For each episode its columns, each (T,) float32."""
        ...


@runtime_checkable
class Objective(Protocol):
    """A pure loss over windows."""

    def __call__(
        self,
        policy: Trainable,
        reference: Trainable | None,
        windows: Windows,
        weights: "torch.Tensor",
        generator: "torch.Generator",
    ) -> "tuple[torch.Tensor, Mapping[str, float]]":
        """Scalar loss and metrics. `weights` (B,) multiply samples."""
        ...


@runtime_checkable
class Operator(Protocol):
    """One person over many worlds, at the station or simulated."""

    def attend(self, observation: Observation, status: Status) -> Command:
        """Called once a tick with all N worlds."""
        ...

    @property
    def exhausted(self) -> bool:
        """True when the person's budget is spent and no new episode should start for them."""
        ...


@runtime_checkable
class Sink(Protocol):
    """Receives what happened: the store, Rerun, the station."""

    def on_episode(self, episode: Episode) -> None:
        """Called once for every finished episode, in the order in which they finish."""
        ...

    def close(self) -> None:
        """Flush. Idempotent."""
        ...
