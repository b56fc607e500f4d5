"""Processes to be killed. Each writes what it has done to a file of its own, a line at a time.

`+id` the commit of the episode was acknowledged; `?id` its removal begins; `-id` its removal was acknowledged.
"""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from robotrl.data.pack import pack_store
from robotrl.data.store import EpisodeStore
from robotrl.types import Episode
from tests import builders

MODELS = [builders.episode(ticks, takeover=None) for ticks in (1, 3, 60)]


def episode(name: str, number: int) -> Episode:
    """The episode that process `name` commits as its `number`-th: a few sizes, each with its own id and seed."""
    model = MODELS[number % len(MODELS)]
    return replace(model, meta=replace(model.meta, episode_id=f"{name}-{number}", seed=number))


@contextmanager
def journal_of(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    yield descriptor
    os.close(descriptor)


def commit(store: EpisodeStore, name: str, numbers: range, log: int) -> None:
    """Commit the episodes in a directory that is free, and give it up again."""
    with store.writer() as writer:
        for number in numbers:
            writer.on_episode(episode(name, number))
            os.write(log, f"+{name}-{number}\n".encode())


def write(root: Path, name: str, done: Path, count: int) -> None:
    """Commit `count` episodes, a few at a time."""
    store = EpisodeStore.open(root)
    with journal_of(done) as log:
        for start in range(0, count, 6):
            commit(store, name, range(start, min(start + 6, count)), log)


def tidy(root: Path, name: str, done: Path) -> None:
    """Commit a few episodes, remove one, and pack whatever nobody holds, over and over."""
    store = EpisodeStore.open(root)
    with journal_of(done) as log:
        for start in itertools.count(0, 3):
            commit(store, name, range(start, start + 3), log)
            os.write(log, f"?{name}-{start}\n".encode())
            store.remove([f"{name}-{start}"], "for the test")
            os.write(log, f"-{name}-{start}\n".encode())
            pack_store(store, segment_bytes=60_000)
