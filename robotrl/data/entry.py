"""One committed episode as its journal line names it, and how its bytes are read and checked."""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.durable import storage_errors
from robotrl.data.episode_file import meta_from_json, meta_to_json, read_episode
from robotrl.data.journal import JSON
from robotrl.errors import DataError
from robotrl.types import Episode, EpisodeMeta

JOURNAL = "journal.jsonl"
_FILE = re.compile(r"(episodes|segments)/[A-Za-z0-9][A-Za-z0-9._-]{0,150}")


@dataclass(frozen=True)
class StoreEntry:
    """One committed episode: T ticks, the CRC-32 of its bytes, its metadata, and where the bytes are.

    They are `size` bytes of a file of the directory `writer` from byte `offset` on: of "episodes/…", the whole of it,
    or of "segments/…", a member. `record` is the metadata as JSON; `meta` and `path` are made when they are asked for,
    as of most of a large store nobody asks.
    """

    writer: Path
    file: str
    episode_id: str
    length: int
    size: int
    crc: int
    record: Mapping[str, Any] = field(hash=False)
    offset: int = 0

    @cached_property
    def path(self) -> Path:
        """The file that holds the bytes."""
        return self.writer / self.file

    @cached_property
    def meta(self) -> EpisodeMeta:
        """The metadata; `DataError` when the record is none."""
        return meta_from_json(self.record, f"{self.writer / JOURNAL}: {self.file}")

    @property
    def packed(self) -> bool:
        """Whether the bytes lie in a segment, with those of other episodes."""
        return self.file.startswith("segments/")

    def to_json(self) -> dict[str, JSON]:
        """The journal record."""
        return {
            "kind": "episode",
            "id": self.episode_id,
            "file": self.file,
            "offset": self.offset,
            "length": self.length,
            "size": self.size,
            "crc": self.crc,
            "meta": self.record,
        }

    @staticmethod
    def of(episode: Episode, writer: Path, file: str, size: int, crc: int, offset: int = 0) -> "StoreEntry":
        """The entry of an episode whose bytes lie there."""
        record = meta_to_json(episode.meta)
        return StoreEntry(writer, file, episode.meta.episode_id, episode.length, size, crc, record, offset)

    @staticmethod
    def from_json(raw: Mapping[str, Any], writer: Path) -> "StoreEntry":
        """The entry of a record in the journal of the directory `writer`; `DataError` for one that is none."""
        try:
            length, size, crc, offset = map(index, (raw["length"], raw["size"], raw["crc"], raw["offset"]))
            return StoreEntry(writer, file_name(writer, raw["file"]), raw["id"], length, size, crc, raw["meta"], offset)
        except (KeyError, TypeError) as error:
            raise DataError(
                f"{writer / JOURNAL}: {raw.get('file')}: not the record of an episode ({type(error).__name__}: {error})"
            ) from error


def file_name(writer: Path, name: str) -> str:
    """`name` itself if it is "episodes/…" or "segments/…"; `DataError` for one that would lie elsewhere."""
    if not _FILE.fullmatch(name):
        raise DataError(f"{writer / JOURNAL}: '{name}' is no valid file name in a writer's directory")
    return name


def entry_bytes(entry: StoreEntry) -> NDArray[np.uint8]:
    """The episode's bytes, mapped into memory; `DataError` when the file is missing or of another size."""
    if not entry.path.exists():
        raise DataError(
            f"{entry.path} is missing although it was committed: restore it from a copy, or let "
            "`robotrl data recover` set the episode aside"
        )
    with storage_errors("read", entry.path):
        size = entry.path.stat().st_size
        if (size < entry.offset + entry.size) if entry.packed else size != entry.size:
            raise DataError(f"{entry.path}: expected {entry.size} bytes, got {size}: cut short or damaged")
        return np.memmap(entry.path, np.uint8, "r", entry.offset, (entry.size,)).view(np.ndarray)


def read_entry(entry: StoreEntry, *, verify: bool = True) -> Episode:
    """The episode, its arrays mapped into memory; with `verify` its bytes must be exactly what was committed."""
    content = entry_bytes(entry)
    episode = read_episode(entry.path, verify=verify, offset=entry.offset, size=entry.size)
    if verify and zlib.crc32(content) != entry.crc:
        raise DataError(f"{entry.path}: damaged outside its arrays (the CRC-32 of the episode is wrong)")
    return episode
