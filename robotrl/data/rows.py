"""Rows that were computed from episodes, kept in flat memory-mapped files; derived from the store and disposable.

    <column>.<type>   one file a column, rows of all episodes one after the other
    index.jsonl       where each episode's rows lie; written after they are durable
    lock              held while rows are added

Episodes are added in the order in which they are first asked for; that order never shows.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import batched
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.durable import FileLock, ensure_directory, storage_errors
from robotrl.data.entry import StoreEntry
from robotrl.data.journal import JournalWriter
from robotrl.errors import DataError
from robotrl.types import Int64

_EPISODES_A_SYNC = 256  # what an interruption of a long build costs


@dataclass(frozen=True)
class Column:
    """Shape of a row and type of its elements, little endian."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class CachedRows:
    """Rows `start[e]` … `start[e] + count[e]` of every column belong to the e-th episode asked for.

    `start` and `count` are (E,) int64; `columns` are read-only and mapped into memory, (R, *shape) each.
    """

    start: Int64
    count: Int64
    columns: Mapping[str, NDArray[Any]]


Compute = Callable[[StoreEntry], Mapping[str, NDArray[Any]]]
"""The rows of an episode: column → (n, *shape), with the same n for all columns."""


def cached_rows(
    directory: Path, columns: Mapping[str, Column], entries: Sequence[StoreEntry], compute: Compute
) -> CachedRows:
    """The rows of the episodes; `compute` is called for those that no earlier call kept, one at a time.

    A damaged cache is built again. What `compute` raises is passed on; rows that were durable before it stay.
    """
    ensure_directory(directory)
    with FileLock(directory / "lock", wait=True), _open_index(directory, columns) as index:
        known = {raw["id"]: raw for raw in index.records}
        end = _end(index.records)
        missing = [e for e in entries if e.episode_id not in known or known[e.episode_id]["crc"] != e.crc]
        for part in batched(missing, _EPISODES_A_SYNC):
            added = _append(directory, columns, part, compute, end)
            index.extend(added)
            known |= {raw["id"]: raw for raw in added}
            end = _end(added)
    return CachedRows(
        start=np.array([known[e.episode_id]["start"] for e in entries], np.int64),
        count=np.array([known[e.episode_id]["count"] for e in entries], np.int64),
        columns={name: _map(_path(directory, name, column), end, column) for name, column in columns.items()},
    )


def _path(directory: Path, name: str, column: Column) -> Path:
    return directory / f"{name}.{column.dtype}"


def _end(records: Iterable[dict[str, Any]]) -> int:
    return max((raw["start"] + raw["count"] for raw in records), default=0)


def _open_index(directory: Path, columns: Mapping[str, Column]) -> JournalWriter:
    """The index, emptied together with the rows when it is damaged or the rows do not reach as far as it says."""
    try:
        index = JournalWriter(directory / "index.jsonl")
    except DataError:
        return _restart(directory)
    rows = _end(index.records)
    for name, column in columns.items():
        path = _path(directory, name, column)
        if rows and (not path.exists() or path.stat().st_size < rows * column.row_bytes):
            index.close()
            return _restart(directory)
    return index


def _restart(directory: Path) -> JournalWriter:
    for path in directory.iterdir():
        if path.name != "lock":
            path.unlink() if path.is_file() else shutil.rmtree(path)
    return JournalWriter(directory / "index.jsonl")


def _append(
    directory: Path, columns: Mapping[str, Column], entries: Iterable[StoreEntry], compute: Compute, start: int
) -> list[dict[str, Any]]:
    """Write the episodes' rows from row `start` on, durably, and return their index records."""
    records: list[dict[str, Any]] = []
    paths = {name: _path(directory, name, column) for name, column in columns.items()}
    with storage_errors("write", directory), ExitStack() as stack:
        files = {n: stack.enter_context(path.open("r+b" if path.exists() else "w+b")) for n, path in paths.items()}
        for name, file in files.items():
            file.seek(start * columns[name].row_bytes)
        for entry in entries:
            count = 0
            for name, rows in compute(entry).items():
                files[name].write(np.ascontiguousarray(rows, columns[name].dtype).data)
                count = len(rows)
            records.append({"id": entry.episode_id, "crc": entry.crc, "start": start, "count": count})
            start += count
        # The rows are synced before the index names them; else a crash could leave records of rows that are not there.
        for file in files.values():
            file.flush()
            os.fsync(file.fileno())
    return records


def _map(path: Path, rows: int, column: Column) -> NDArray[Any]:
    shape = (rows, *column.shape)
    if not rows:
        return np.zeros(shape, column.dtype)
    with storage_errors("read", path):
        return np.memmap(path, column.dtype, "r", shape=shape).view(np.ndarray)
