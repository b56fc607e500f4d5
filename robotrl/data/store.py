"""The episode store: a directory that holds the episodes of one task on one robot.

store.json                       format and environment spec
writers/<name>/                  one writer's episodes and journal (see `writer`)
annotations/<kind>/<version>     columns over ticks (see `annotations`)
cache/                           disposable (see `cache`)
"""

import json
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from robotrl.data.annotations import (
    Annotations,
    TickColumns,
    annotation_versions,
    read_annotations,
    write_annotations,
)
from robotrl.data.durable import ensure_directory, storage_errors, write_atomic
from robotrl.data.entry import JOURNAL, StoreEntry
from robotrl.data.index import StoreIndex
from robotrl.data.journal import JSON
from robotrl.data.snapshot import StoreSnapshot
from robotrl.data.writer import EpisodeWriter
from robotrl.errors import DataError, RunBusyError
from robotrl.specs import EnvironmentSpec, spec_from_json

FORMAT = 1
_LOG = logging.getLogger(__name__)


class EpisodeStore:
    """Episodes are appended and never rewritten; what a person or critic thinks of them is kept beside them."""

    def __init__(self, root: Path, spec: EnvironmentSpec) -> None:
        self.root = root
        self.spec = spec
        self._index = StoreIndex(root)
        self._lock = threading.Lock()  # the index is shared by the threads that take snapshots

    @classmethod
    def create(cls, root: Path, spec: EnvironmentSpec) -> "EpisodeStore":
        """Create the store, or open the one that is there, which must be of the same environment."""
        if (root / "store.json").exists():
            return cls.open(root, spec)
        ensure_directory(root)
        content = {"format": FORMAT, "fingerprint": spec.fingerprint, "environment": json.loads(spec.to_json())}
        write_atomic(root / "store.json", json.dumps(content, indent=1).encode())
        return cls(root, spec)

    @classmethod
    def open(cls, root: Path, spec: EnvironmentSpec | None = None) -> "EpisodeStore":
        """Open an existing store; if `spec` is given, the store must be of that environment."""
        path = root / "store.json"
        if not path.exists():
            raise DataError(f"{root} is not an episode store (no store.json): check the path or collect episodes first")
        with storage_errors("read", path):
            content = path.read_bytes()
        stored = _parse(path, content)
        if spec is not None and spec.fingerprint != stored.fingerprint:
            ours, theirs = json.loads(spec.to_json()), json.loads(stored.to_json())
            differing = ", ".join(key for key in ours if ours[key] != theirs[key])
            raise DataError(
                f"{root} holds episodes of task '{stored.task}' ({stored.fingerprint}), expected '{spec.task}' "
                f"({spec.fingerprint}); they differ in {differing}. Choose another directory or the same task."
            )
        return cls(root, stored)

    def writer(self, name: str | None = None) -> EpisodeWriter:
        """The writer of that name, `RunBusyError` while another process has it; by default the first free one."""
        if name is not None:
            return EpisodeWriter(self.root, name, self.spec)
        number = 0
        while True:
            try:
                return EpisodeWriter(self.root, f"w{number}", self.spec)
            except RunBusyError:
                number += 1

    def snapshot(self, offsets: Mapping[str, int] | None = None) -> StoreSnapshot:
        """All episodes committed until now, or until the journal `offsets` of an earlier snapshot.

        Only what was appended since the last call is read. Of an episode that several writers committed with
        different content, that of the first writer by name is shown, and a warning logged.
        """
        if offsets is not None:
            return _take(StoreIndex(self.root, offsets))
        with self._lock:
            # An index that met damage stays behind, so that a repaired store is read afresh.
            index, self._index = self._index, StoreIndex(self.root)
            snapshot = _take(index)
            self._index = index
            for directory in index.unread():
                _LOG.warning(
                    "%s has episodes that its journal does not name, and none that it names: was %s lost? "
                    "`robotrl data recover` takes them up again",
                    directory,
                    directory / JOURNAL,
                )
            return snapshot

    def follow(self, interval_s: float = 0.2) -> Iterator[tuple[StoreEntry, ...]]:
        """Yield the episodes committed since the last yield, each once, all that are there first.

        It never ends by itself: it yields an empty tuple after each `interval_s` without a commit, so that the caller
        can decide.
        """
        index = StoreIndex(self.root)
        while True:
            entries = tuple(index.find(id_)[0] for id_ in index.refresh())
            index.check()
            yield entries
            if not entries:
                time.sleep(interval_s)

    def remove(self, ids: Iterable[str], reason: str) -> None:
        """Hide episodes from new snapshots, durably; packing frees their bytes, until when older snapshots read them.

        Raises `DataError`, and removes nothing, unless all `ids` are in the store.
        """
        with self.writer() as writer:
            writer.remove(sorted(set(ids)), reason)

    def annotate(
        self, kind: str, version: str, columns: Mapping[str, TickColumns], lineage: Mapping[str, JSON]
    ) -> None:
        """Write columns over the ticks of episodes, durably and for good.

        Args:
            kind: what they are ("labels"); `version`: which ones ("round-1").
            version: a name that is new, or the name of equal content.
            columns: episode id → column name → (T,) float32, int32 or uint8; all episodes have the same columns.
            lineage: what they were made from (critic, policy version, snapshot); it has `annotations.LINEAGE_KEYS`.
        """
        lengths = {entry.episode_id: entry.length for entry in self.snapshot().entries}
        write_annotations(self.root / "annotations", Annotations(kind, version, columns, lineage), lengths)

    def annotations(self, kind: str, version: str, episodes: Iterable[str] | None = None) -> Annotations:
        """Read a version of annotations; of those of the ids `episodes` that it covers only, or of all."""
        return read_annotations(self.root / "annotations", kind, version, episodes)

    def annotation_versions(self, kind: str) -> tuple[str, ...]:
        """Versions of a kind that exist, sorted."""
        return annotation_versions(self.root / "annotations", kind)


def _take(index: StoreIndex) -> StoreSnapshot:
    index.refresh()
    index.check()
    for found in index.conflicts():
        _LOG.warning(
            "episode %s was committed with different content as %s; the first is shown",
            found[0].episode_id,
            " and ".join(str(entry.path) for entry in found),
        )
    return StoreSnapshot(index.visible(), index.offsets)


def _parse(path: Path, content: bytes) -> EnvironmentSpec:
    try:
        raw = json.loads(content)
        if raw["format"] != FORMAT:
            raise DataError(f"this version of robotrl reads format {FORMAT}, got format {raw['format']}")
        spec = spec_from_json(json.dumps(raw["environment"]))
        fingerprint = raw["fingerprint"]
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: damaged ({type(error).__name__}: {error})") from error
    if spec.fingerprint != fingerprint:
        raise DataError(f"{path}: damaged (the fingerprint does not fit the environment)")
    return spec
