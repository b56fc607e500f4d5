"""One committed episode as its journal line names it, and how its bytes are read and checked."""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
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

_FILE = re.compile(r"(episodes|segments)/[A-Za-z0-9][A-Za-z0-9._-]{0,150}")


@dataclass(frozen=True)
class StoreEntry:
    """One committed episode: T ticks, the CRC-32 of its bytes, its metadata, and where the bytes are.

    They are `size` bytes of the file `path` from byte `offset` on: the whole file, or a member of a segment.
    """

    path: Path
    length: int
    size: int
    crc: int
    meta: EpisodeMeta
    offset: int = 0

    @property
    def episode_id(self) -> str:
        """The episode's id."""
        return self.meta.episode_id

    @property
    def writer(self) -> Path:
        """The directory of the writer that committed it."""
        return self.path.parent.parent

    def to_json(self) -> dict[str, JSON]:
        """The journal record."""
        return {
            "kind": "episode",
            "id": self.episode_id,
            "file": f"{self.path.parent.name}/{self.path.name}",
            "offset": self.offset,
            "length": self.length,
            "size": self.size,
            "crc": self.crc,
            "meta": meta_to_json(self.meta),
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any], writer: Path) -> "StoreEntry":
        """The entry of a record in the journal of the directory `writer`; `DataError` for one that is none."""
        where = f"{writer / 'journal.jsonl'}: {raw.get('file')}"
        try:
            meta = meta_from_json(raw["meta"], where)
            path = writer_file(writer, raw["file"])
            length, size, crc, offset = (index(raw[name]) for name in ("length", "size", "crc", "offset"))
        except (KeyError, TypeError) as error:
            raise DataError(f"{where}: not the record of an episode ({type(error).__name__}: {error})") from error
        return StoreEntry(path, length, size, crc, meta, offset)


def writer_file(writer: Path, name: str) -> Path:
    """The path that a journal calls `name` ("episodes/…"); `DataError` for one that would lie elsewhere."""
    if not _FILE.fullmatch(name):
        raise DataError(f"{writer / 'journal.jsonl'}: '{name}' is no valid file name in a writer's directory")
    return writer / name


def entry_bytes(entry: StoreEntry) -> NDArray[np.uint8]:
    """The episode's bytes, mapped into memory; `DataError` when the file is missing or of another size."""
    if not entry.path.exists():
        raise DataError(
            f"{entry.path} is missing although it was committed: restore it from a copy, or let "
            "`robotrl data recover` set the episode aside"
        )
    with storage_errors("read", entry.path):
        size = entry.path.stat().st_size
        packed = entry.path.parent.name == "segments"
        if (size < entry.offset + entry.size) if packed else size != entry.size:
            raise DataError(f"{entry.path}: expected {entry.size} bytes, got {size}: cut short or damaged")
        return np.memmap(entry.path, np.uint8, "r", entry.offset, (entry.size,)).view(np.ndarray)


def read_entry(entry: StoreEntry, *, verify: bool = True) -> Episode:
    """The episode, its arrays mapped into memory; with `verify` its bytes must be exactly what was committed."""
    content = entry_bytes(entry)
    episode = read_episode(entry.path, verify=verify, offset=entry.offset, size=entry.size)
    if verify and zlib.crc32(content) != entry.crc:
        raise DataError(f"{entry.path}: damaged outside its arrays (the CRC-32 of the episode is wrong)")
    return episode
