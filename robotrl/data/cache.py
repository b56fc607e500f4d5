"""The training cache: states, actions and sources of episodes as flat memory-mapped arrays (see `rows`).

Its directory changes with the environment spec and with this format. Readers go by the snapshot's order of ids, so
training does not depend on the order in which episodes were cached.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.rows import Column, cached_rows
from robotrl.data.snapshot import StoreSnapshot
from robotrl.data.store import EpisodeStore
from robotrl.types import ControlMode, Episode, Float32, Int64, UInt8

SOURCES = ("demonstration", "autonomous", "correction", "recovery")
"""Where a tick comes from: a demonstration, the policy, or a person who corrects or recovers."""
_FORMAT = 2


@dataclass(frozen=True)
class TrainingCache:
    """Rows of E episodes, R in all. Row `start[e] + t` holds tick t; row T repeats the last action and source.

    Attributes:
        ids: E episode ids, in order.
        start, length: (E,) int64 first row and T of every episode.
        state: (R, S) float32, `action` (R, A) float32, `source` (R,) uint8 index into `SOURCES`; read-only, mapped
            into memory, so that they may be larger than it.
    """

    ids: tuple[str, ...]
    start: Int64
    length: Int64
    state: Float32
    action: Float32
    source: UInt8

    @classmethod
    def build(cls, store: EpisodeStore, snapshot: StoreSnapshot, root: Path | None = None) -> "TrainingCache":
        """The cache of the snapshot's episodes; only those that no earlier call cached are read.

        Args:
            store: the store that the snapshot is of.
            snapshot: episodes to have, in its order.
            root: where caches lie; by default in the store, which may be read-only.
        """
        widths = {"state": (store.spec.state.size,), "action": (store.spec.action.size,), "source": ()}
        columns = {name: Column(shape, "u1" if name == "source" else "f4") for name, shape in widths.items()}
        directory = cache_directory(store, root)
        rows = cached_rows(directory, columns, snapshot.entries, lambda entry: _rows(snapshot.read(entry)))
        return cls(ids=snapshot.ids, start=rows.start, length=rows.count - 1, **rows.columns)


def cache_directory(store: EpisodeStore, root: Path | None = None) -> Path:
    """Where what is cached of the store lies: below `root`, or in the store when None."""
    key = hashlib.sha256(f"{_FORMAT} {store.spec.fingerprint}".encode()).hexdigest()[:12]
    return (root or store.root / "cache") / key


def tick_sources(episode: Episode) -> UInt8:
    """The source of every tick, (T,) index into `SOURCES`."""
    if episode.meta.source == "demonstration":
        return np.zeros(episode.length, np.uint8)
    person = np.where(episode.control_mode == ControlMode.RECOVERY, 3, 2)
    return np.where(episode.intervention, person, 1).astype(np.uint8)


def _rows(episode: Episode) -> dict[str, NDArray[Any]]:
    held = np.minimum(np.arange(episode.length + 1), episode.length - 1)
    return {"state": episode.state, "action": episode.action_requested[held], "source": tick_sources(episode)[held]}
