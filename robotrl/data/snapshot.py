"""What a reader sees of a store: the episodes of the journals, pinned at one moment."""

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from robotrl.data.episode_file import meta_from_json, meta_to_json, read_episode
from robotrl.data.journal import JSON
from robotrl.data.names import require_name
from robotrl.errors import DataError
from robotrl.types import Episode, EpisodeMeta


@dataclass(frozen=True)
class StoreEntry:
    """One committed episode: its file, T ticks, size in bytes and CRC-32 of the file, and its metadata."""

    path: Path
    length: int
    size: int
    crc: int
    meta: EpisodeMeta

    @property
    def episode_id(self) -> str:
        """The episode's id."""
        return self.meta.episode_id

    def to_json(self) -> dict[str, JSON]:
        """The journal record."""
        return {
            "id": self.episode_id,
            "file": self.path.name,
            "length": self.length,
            "size": self.size,
            "crc": self.crc,
            "meta": meta_to_json(self.meta),
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any], episodes: Path) -> "StoreEntry":
        """The entry of a journal record whose file lies in the directory `episodes`."""
        where = f"{episodes.parent / 'journal.jsonl'}: {raw.get('file')}"
        try:
            path = episodes / require_name("file name", raw["file"])
            return StoreEntry(path, raw["length"], raw["size"], raw["crc"], meta_from_json(raw["meta"], where))
        except (KeyError, TypeError) as error:
            raise DataError(f"{where}: not the record of an episode ({type(error).__name__}: {error})") from error


@dataclass(frozen=True)
class StoreSnapshot:
    """Episodes in the order of their ids, whatever was committed since.

    Attributes:
        entries: the episodes.
        offsets: writer → byte at which its journal was pinned; with them `EpisodeStore.snapshot` gives the same again.
    """

    entries: tuple[StoreEntry, ...]
    offsets: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def ids(self) -> tuple[str, ...]:
        """Episode ids in order."""
        return tuple(entry.episode_id for entry in self.entries)

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits that change with any episode in the snapshot, for lineage."""
        content = "\n".join(f"{entry.episode_id} {entry.crc:08x}" for entry in self.entries)
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    def filter(
        self,
        *,
        stage: str | None = None,
        source: str | None = None,
        outcome: Literal["success", "failure", "cut"] | None = None,
    ) -> "StoreSnapshot":
        """The episodes that match every argument given; `outcome="cut"` are those without one."""
        return self._keep(
            entry
            for entry in self.entries
            if (stage is None or entry.meta.stage == stage)
            and (source is None or entry.meta.source == source)
            and (outcome is None or (entry.meta.outcome or "cut") == outcome)
        )

    def select(self, ids: Iterable[str]) -> "StoreSnapshot":
        """The episodes with these ids, all of which must be here."""
        wanted = set(ids)
        unknown = sorted(wanted.difference(self.ids))
        if unknown:
            raise DataError(f"{len(unknown)} of {len(wanted)} episodes are not in the store: {', '.join(unknown[:5])}")
        return self._keep(entry for entry in self.entries if entry.episode_id in wanted)

    def _keep(self, entries: Iterable[StoreEntry]) -> "StoreSnapshot":
        return replace(self, entries=tuple(entries))

    def read(self, entry: StoreEntry, *, verify: bool = True) -> Episode:
        """The episode, its arrays mapped into memory; with `verify` the file must be exactly what was committed."""
        if not entry.path.exists():
            raise DataError(f"{entry.path} is missing although it was committed: restore it from a copy")
        size = entry.path.stat().st_size
        if size != entry.size:
            raise DataError(f"{entry.path}: expected {entry.size} bytes, got {size}: cut short or damaged")
        episode = read_episode(entry.path, verify=verify)
        if verify and zlib.crc32(np.memmap(entry.path, np.uint8, "r").view(np.ndarray)) != entry.crc:
            raise DataError(f"{entry.path}: damaged outside its arrays (the CRC-32 of the file is wrong)")
        return episode

    def episodes(self) -> Iterator[Episode]:
        """Every episode in order, one in memory at a time."""
        for entry in self.entries:
            yield self.read(entry)
