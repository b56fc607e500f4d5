"""The training cache: flat memory-mapped arrays over episodes, derived from the store and disposable.

    cache/<key>/state.f32 action.f32 source.u8   one row a state; T + 1 rows an episode
    cache/<key>/index.jsonl                      where each episode lies; written after its rows are durable

The key changes with the environment spec and with this format. Episodes are appended in the order in which they are
first asked for; that order never shows, because readers go by the snapshot's order of ids.
"""

import hashlib
import os
import shutil
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.durable import FileLock, ensure_directory, storage_errors
from robotrl.data.journal import JournalWriter
from robotrl.data.snapshot import StoreEntry, StoreSnapshot
from robotrl.data.store import EpisodeStore
from robotrl.errors import DataError
from robotrl.types import ControlMode, Episode, Float32, Int64, UInt8

SOURCES = ("demonstration", "autonomous", "correction", "recovery")
"""Where a tick comes from: a demonstration, the policy, or a person who corrects or recovers."""
_FORMAT = 1
_FILES: dict[str, np.dtype[Any]] = {
    "state": np.dtype("<f4"),
    "action": np.dtype("<f4"),
    "source": np.dtype("u1"),
}


@dataclass(frozen=True)
class TrainingCache:
    """Rows of E episodes, R in all. Row `start[e] + t` holds tick t; row T repeats the last action and source.

    Attributes:
        ids: E episode ids, in order.
        start, length: (E,) int64 first row and T of every episode.
        state: (R, S) float32, `action` (R, A) float32, `source` (R,) uint8 index into `SOURCES`; read-only.
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
        key = hashlib.sha256(f"{_FORMAT} {store.spec.fingerprint}".encode()).hexdigest()[:12]
        directory = ensure_directory((root or store.root / "cache") / key)
        widths = {"state": store.spec.state.size, "action": store.spec.action.size, "source": 1}
        with FileLock(directory / "lock", wait=True), _open_index(directory, widths) as index:
            known = {raw["id"]: raw for raw in index.records}
            missing = [e for e in snapshot.entries if e.episode_id not in known or known[e.episode_id]["crc"] != e.crc]
            rows = _end(index.records)
            if missing:
                added = _append(directory, widths, snapshot, missing, rows)
                index.extend(added)
                known |= {raw["id"]: raw for raw in added}
                rows = _end(added)
        flat = {name: _map(directory / _file_name(name), rows, width, _FILES[name]) for name, width in widths.items()}
        return cls(
            ids=snapshot.ids,
            start=np.array([known[i]["start"] for i in snapshot.ids], np.int64),
            length=np.array([entry.length for entry in snapshot.entries], np.int64),
            state=flat["state"],
            action=flat["action"],
            source=flat["source"][:, 0],
        )


def tick_sources(episode: Episode) -> UInt8:
    """The source of every tick, (T,) index into `SOURCES`."""
    if episode.meta.source == "demonstration":
        return np.zeros(episode.length, np.uint8)
    person = np.where(episode.control_mode == ControlMode.RECOVERY, 3, 2)
    return np.where(episode.intervention, person, 1).astype(np.uint8)


def _file_name(name: str) -> str:
    return f"{name}.{_FILES[name].str[1:]}"


def _end(records: Iterable[dict[str, Any]]) -> int:
    return max((raw["start"] + raw["length"] + 1 for raw in records), default=0)


def _open_index(directory: Path, widths: dict[str, int]) -> JournalWriter:
    """The index, emptied together with the rows when it is damaged or the rows do not reach as far as it says."""
    path = directory / "index.jsonl"
    try:
        index = JournalWriter(path)
    except DataError:
        return _restart(directory)
    rows = _end(index.records)
    for name, width in widths.items():
        file = directory / _file_name(name)
        if rows and (not file.exists() or file.stat().st_size < rows * width * _FILES[name].itemsize):
            index.close()
            return _restart(directory)
    return index


def _restart(directory: Path) -> JournalWriter:
    for path in directory.iterdir():
        if path.name != "lock":
            path.unlink() if path.is_file() else shutil.rmtree(path)
    return JournalWriter(directory / "index.jsonl")


def _append(
    directory: Path, widths: dict[str, int], snapshot: StoreSnapshot, entries: list[StoreEntry], start: int
) -> list[dict[str, Any]]:
    """Write the episodes' rows from row `start` on, durably, and return their index records."""
    records: list[dict[str, Any]] = []
    paths = {name: directory / _file_name(name) for name in widths}
    with storage_errors("write", directory), ExitStack() as stack:
        files = {n: stack.enter_context(path.open("r+b" if path.exists() else "w+b")) for n, path in paths.items()}
        for name, file in files.items():
            file.seek(start * widths[name] * _FILES[name].itemsize)
        for entry in entries:
            episode = snapshot.read(entry)
            for name, rows in _rows(episode).items():
                files[name].write(np.ascontiguousarray(rows, _FILES[name]).data)
            records.append({"id": entry.episode_id, "crc": entry.crc, "start": start, "length": episode.length})
            start += episode.length + 1
        # The rows are synced before the index names them; else a crash could leave records of rows that are not there.
        for file in files.values():
            file.flush()
            os.fsync(file.fileno())
    return records


def _rows(episode: Episode) -> dict[str, NDArray[Any]]:
    held = np.minimum(np.arange(episode.length + 1), episode.length - 1)
    return {"state": episode.state, "action": episode.action_requested[held], "source": tick_sources(episode)[held]}


def _map(path: Path, rows: int, width: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    if not rows:
        return np.zeros((0, width), dtype)
    with storage_errors("read", path):
        return np.memmap(path, dtype, "r", shape=(rows, width)).view(np.ndarray)
