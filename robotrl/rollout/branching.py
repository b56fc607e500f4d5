"""Episodes that go on from the middle of others."""

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from robotrl.errors import ConfigurationError, DataError
from robotrl.types import ChunkTable, Episode

_APART = ("meta", "chunks", "cameras")
_WITH_LAST_STATE = ("state", "privileged", "physics", "time_ns")


@dataclass(frozen=True)
class BranchConfig:
    """What goes on from where.

    Attributes:
        episode: id of the parent in the store, or the beginning of one.
        tick: of the state to go on from, since the reset.
        by: who goes on. version: of the policy.
        copies: continuations, each with noise of its own.
        stage: what the new episodes are called.
    """

    episode: str
    tick: int
    by: Literal["policy", "expert"] = "policy"
    version: int = 0
    copies: int = 16
    stage: str = "branches"

    def __post_init__(self) -> None:
        if self.copies < 1:
            raise ConfigurationError(f"copies={self.copies}: expected at least 1")


def joined(parent: Episode, child: Episode) -> Episode:
    """`child` from the reset on: the rows of its `parent` before the branch, then its own.

    The result has the child's id and outcome, no parent, and no pictures. Raises `DataError` where `child` is none of
    `parent`, or the parent itself lacks its beginning.
    """
    meta, tick = child.meta, child.meta.parent_tick
    if meta.parent != parent.meta.episode_id or parent.meta.parent:
        raise DataError(
            f"episode {meta.episode_id} branched off '{meta.parent}', got {parent.meta.episode_id} "
            f"(which branched off '{parent.meta.parent}'): join each with its own parent, from the first one on"
        )
    rows: dict[str, Any] = {
        f.name: np.concatenate([getattr(parent, f.name)[:tick], getattr(child, f.name)])
        for f in fields(Episode)
        if f.name not in _APART
    }
    before = len(parent.chunks.observed_tick)
    own = np.where(child.chunk_id >= 0, child.chunk_id + before, child.chunk_id)
    rows["chunk_id"] = np.concatenate([parent.chunk_id[:tick], own]).astype(np.int32)
    whole = replace(meta, parent="", parent_tick=-1)
    return Episode(meta=whole, chunks=_both(parent.chunks, child.chunks, tick), cameras={}, **rows)


def _both(first: ChunkTable, second: ChunkTable, tick: int) -> ChunkTable:
    """The chunks of both, the second's ticks counted from `tick` on. Those of the first that never ran stay in it."""
    start = np.where(second.start_tick >= 0, second.start_tick + tick, -1)
    first_start = np.where(first.start_tick < tick, first.start_tick, -1)
    return ChunkTable(
        actions=_stacked(first.actions, second.actions),
        observed_tick=np.concatenate([first.observed_tick, second.observed_tick + tick]).astype(np.int32),
        start_tick=np.concatenate([first_start, start]).astype(np.int32),
        policy_version=np.concatenate([first.policy_version, second.policy_version]),
        noise=_stacked(first.noise, second.noise),
    )


def _stacked(first: Any, second: Any) -> Any:
    """Chunks (C, H, A) of both; the longer length where they differ, with NaN behind the shorter ones."""
    longest = max(first.shape[1], second.shape[1])
    size = max(first.shape[2], second.shape[2])
    wide = [
        np.pad(c, ((0, 0), (0, longest - c.shape[1]), (0, size - c.shape[2])), constant_values=np.nan)
        for c in (first, second)
    ]
    return np.concatenate(wide).astype(np.float32)
