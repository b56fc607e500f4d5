"""The episode store: a directory that holds the episodes of one task on one robot.

store.json                       format and environment spec
writers/<name>/                  one writer's episodes and journal (see `writer`)
annotations/<kind>/<version>     columns over ticks (see `annotations`)
cache/                           disposable (see `cache`)
"""

import json
from collections.abc import Mapping
from pathlib import Path

from robotrl.data.annotations import Annotations, annotation_versions, read_annotations, write_annotations
from robotrl.data.durable import ensure_directory, storage_errors, write_atomic
from robotrl.data.journal import JSON, read_journal
from robotrl.data.names import require_name
from robotrl.data.snapshot import StoreEntry, StoreSnapshot
from robotrl.data.writer import EpisodeWriter
from robotrl.errors import DataError
from robotrl.interfaces import Columns
from robotrl.specs import EnvironmentSpec, spec_from_json

FORMAT = 1


class EpisodeStore:
    """Episodes are appended and never rewritten; what a person or critic thinks of them is kept beside them."""

    def __init__(self, root: Path, spec: EnvironmentSpec) -> None:
        self.root = root
        self.spec = spec

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

    def writer(self, name: str = "main") -> EpisodeWriter:
        """The writer of that name; `RunBusyError` while another process has it."""
        return EpisodeWriter(self.root / "writers" / require_name("writer", name), self.spec)

    def snapshot(self, offsets: Mapping[str, int] | None = None) -> StoreSnapshot:
        """All episodes committed until now, or until the journal `offsets` of an earlier snapshot."""
        if offsets is None:
            names = sorted(path.parent.name for path in self.root.glob("writers/*/journal.jsonl"))
            stops: dict[str, int | None] = dict.fromkeys(names)
        else:
            stops = dict(offsets)
        entries: dict[str, StoreEntry] = {}
        ends: dict[str, int] = {}
        for name, stop in stops.items():
            directory = self.root / "writers" / name
            records, ends[name] = read_journal(directory / "journal.jsonl", stop=stop)
            for raw in records:
                entry = StoreEntry.from_json(raw, directory / "episodes")
                known = entries.setdefault(entry.episode_id, entry)
                if known.crc != entry.crc:
                    raise DataError(f"two writers committed different episodes as one: {known.path} and {entry.path}")
        return StoreSnapshot(tuple(entries[i] for i in sorted(entries)), ends)

    def annotate(self, kind: str, version: str, columns: Mapping[str, Columns], lineage: Mapping[str, JSON]) -> None:
        """Write columns over the ticks of episodes, durably and for good.

        Args:
            kind: what they are ("labels"); `version`: which ones ("round-1").
            version: a name that is new, or the name of equal content.
            columns: episode id → column name → (T,) float32; all episodes have the same columns.
            lineage: what they were made from: critic, policy version, snapshot, code.
        """
        lengths = {entry.episode_id: entry.length for entry in self.snapshot().entries}
        write_annotations(self.root / "annotations", Annotations(kind, version, columns, lineage), lengths)

    def annotations(self, kind: str, version: str) -> Annotations:
        """Read a version of annotations."""
        return read_annotations(self.root / "annotations", kind, version)

    def annotation_versions(self, kind: str) -> tuple[str, ...]:
        """Versions of a kind that exist, sorted."""
        return annotation_versions(self.root / "annotations", kind)


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
