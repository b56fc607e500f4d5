"""Processes to be killed, or whose disk fails. Each writes what it has done to a file of its own, a line at a time.

`+id` the commit of the episode was acknowledged; `?id` its removal begins; `-id` its removal was acknowledged;
`!id` a disk that failed refused the commit.
"""

import errno
import itertools
import os
import random
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from robotrl.data.exchange.lerobot_export import export_lerobot
from robotrl.data.exchange.selection import Selection
from robotrl.data.pack import pack_store
from robotrl.data.store import EpisodeStore
from robotrl.errors import StorageError
from robotrl.types import Episode
from tests import builders

WRITE = os.write
"""Writes what was done, also where the disk of the store fails."""
MODELS = [builders.episode(ticks, takeover=None) for ticks in (1, 3, 60)]


def episode(name: str, number: int) -> Episode:
    """The episode that process `name` commits as its `number`-th: a few sizes, each with its own id and seed."""
    model = MODELS[number % len(MODELS)]
    return replace(model, meta=replace(model.meta, episode_id=f"{name}-{number}", seed=number))


@contextmanager
def journal_of(path: Path) -> Generator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    yield descriptor
    os.close(descriptor)


def commit(store: EpisodeStore, name: str, numbers: range, log: int) -> None:
    """Commit the episodes in a directory that is free, and give it up again."""
    with store.writer() as writer:
        for number in numbers:
            writer.on_episode(episode(name, number))
            WRITE(log, f"+{name}-{number}\n".encode())


def write(root: Path, name: str, done: Path, count: int = 10_000) -> None:
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
            WRITE(log, f"?{name}-{start}\n".encode())
            store.remove([f"{name}-{start}"], "for the test")
            WRITE(log, f"-{name}-{start}\n".encode())
            pack_store(store, segment_bytes=60_000)


def export(root: Path, name: str, done: Path) -> None:
    """Export whatever the store holds as a LeRobot data set, over and over, each to a place of its own."""
    store, targets = EpisodeStore.open(root), exports_of(root)
    targets.mkdir(exist_ok=True)
    with journal_of(done) as log:
        for number in itertools.count():
            if len(store.snapshot()):
                export_lerobot([Selection.of(store)], targets / f"{name}-{number}", lambda *_: None)
                WRITE(log, f"={name}-{number}\n".encode())


def exports_of(root: Path) -> Path:
    """Where `export` puts the data sets of the store."""
    return root.parent / "exports"


def persist(root: Path, name: str, done: Path, count: int, seed: int) -> None:
    """Commit `count` episodes, remove some and pack, on a disk that keeps failing; each is tried until it succeeds."""
    store = EpisodeStore.open(root)
    with journal_of(done) as log, failing_disk(random.Random(seed), 0.08):
        for number in range(count):
            while not _tried(lambda number=number: commit(store, name, range(number, number + 1), log)):
                WRITE(log, f"!{name}-{number}\n".encode())
            if number % 4 == 3:
                WRITE(log, f"?{name}-{number}\n".encode())
                if _tried(lambda number=number: store.remove([f"{name}-{number}"], "for the test")):
                    WRITE(log, f"-{name}-{number}\n".encode())
            if number % 5 == 4:
                _tried(lambda: pack_store(store, segment_bytes=60_000))


def fill(root: Path, name: str, done: Path) -> None:
    """Commit episodes until three in a row are refused."""
    store, refused = EpisodeStore.open(root), 0
    with journal_of(done) as log:
        for number in itertools.count():
            if _tried(lambda number=number: commit(store, name, range(number, number + 1), log)):
                refused = 0
                continue
            WRITE(log, f"!{name}-{number}\n".encode())
            refused += 1
            if refused == 3:
                return


def _tried(action: Callable[[], object]) -> bool:
    with suppress(StorageError):
        action()
        return True
    return False


@contextmanager
def failing_disk(rng: random.Random, share: float) -> Generator[None]:
    """Make a share of all calls that sync, write, rename or delete fail; a failing write does half of its work."""

    def flaky(function: Callable[..., Any], code: int) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            if rng.random() >= share:
                return function(*arguments, **named)
            if function is WRITE:
                function(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            raise OSError(code, os.strerror(code))

        return called

    with (
        patch.object(os, "fsync", flaky(os.fsync, errno.EIO)),
        patch.object(os, "write", flaky(os.write, errno.ENOSPC)),
        patch.object(Path, "replace", flaky(Path.replace, errno.ENOSPC)),
        patch.object(Path, "unlink", flaky(Path.unlink, errno.EIO)),
    ):
        yield
