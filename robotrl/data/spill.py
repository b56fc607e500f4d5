"""The ticks of a running episode in an append-only log, so that a crash costs at most the tick being written.

One line as in a journal (format, fingerprint of the spec, metadata, layout of the rows), then frames: CRC-32 of what
follows, length of the payload, kind, payload; all little endian. Kinds: `s` the state row before the first tick, `t`
rows of ticks, each with the state row after it, `c` a proposed chunk: observed tick, policy version, H, whether noise
follows (int32 each), actions and noise (H, A) float32. A frame is in the log when its CRC fits; reading stops at the
first that does not. Each frame is one write, so that the death of the process costs none; the disk is synced
once in `SYNC_INTERVAL_S` from another thread, so that control never waits for it, and power loss costs at most about
twice that.
"""

import logging
import os
import struct
import time
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.durable import ensure_directory, storage_errors, sync_directory
from robotrl.data.episode_file import meta_from_json, meta_to_json
from robotrl.data.journal import decode_line, encode_line
from robotrl.data.names import require_name
from robotrl.errors import DataError
from robotrl.specs import EnvironmentSpec
from robotrl.types import ChunkTable, Episode, EpisodeMeta, Float32

_LOG = logging.getLogger(__name__)
FORMAT = 1
SPILL_SUFFIX = ".spill"
SYNC_INTERVAL_S = 1.0
_FRAME = struct.Struct("<IIc")
_CHUNK = struct.Struct("<iiii")
_STATE_FIELDS = {"state": "<f4", "privileged": "<f4", "physics": "<f8", "time_ns": "<i8"}
_TICK_FIELDS = {
    **dict.fromkeys(("action", "action_requested", "action_policy", "action_human", "reward", "probability"), "<f4"),
    **dict.fromkeys(("control_mode", "trigger", "clamped"), "|u1"),
    **dict.fromkeys(("intervention", "terminated", "truncated", "success", "starved"), "|b1"),
    **dict.fromkeys(("policy_version", "chunk_id", "chunk_row", "delay_ticks"), "<i4"),
}


def spill_layout(spec: EnvironmentSpec) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """The packed rows of a frame `s` and of a frame `t`: fields of `Episode` in order, without gaps."""
    action = (spec.action.size,)
    widths = {"state": (spec.state.size,), "privileged": (spec.privileged.size,), "physics": (spec.physics_size,)}
    widths |= {name: action for name in _TICK_FIELDS if name.startswith("action")}
    state = [(name, kind, widths.get(name, ())) for name, kind in _STATE_FIELDS.items()]
    tick = [(name, kind, widths.get(name, ())) for name, kind in _TICK_FIELDS.items()]
    return np.dtype(state), np.dtype(tick + state)


class SpillDirectory:
    """The logs of one writer's running episodes; for one thread."""

    def __init__(self, directory: Path, spec: EnvironmentSpec) -> None:
        self._directory, self._spec = directory, spec
        self._state, self._tick = spill_layout(spec)
        self._logs: dict[str, SpillLog] = {}
        self._sync = ThreadPoolExecutor(1, "spill-sync")

    def begin(self, meta: EpisodeMeta, first: Mapping[str, NDArray[Any]]) -> "SpillLog":
        """Start the log of an episode: what is known of it, and its first state row (field → value)."""
        name = require_name("episode id", meta.episode_id)
        path = ensure_directory(self._directory) / f"{name}{SPILL_SUFFIX}"
        header = {
            "robotrl_spill": FORMAT,
            "fingerprint": self._spec.fingerprint,
            "meta": meta_to_json(meta),
            "state": _describe(self._state),
            "tick": _describe(self._tick),
        }
        self.discard(name)
        log = SpillLog(path, encode_line(header), self._tick, self._sync)
        self._logs[name] = log
        log.write(b"s", _pack(first, self._state, ()))
        return log

    def discard(self, episode_id: str) -> None:
        """Delete the episode's log, where there is one: it was committed, or nobody wants it."""
        log = self._logs.pop(episode_id, None)
        if log is not None:
            log.finish()
            with storage_errors("remove", log.path):
                log.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close all logs; those that were not discarded stay, to be salvaged. Idempotent."""
        for log in self._logs.values():
            log.finish()
        self._logs.clear()
        self._sync.shutdown()


class SpillLog:
    """The log of one running episode."""

    def __init__(self, path: Path, header: bytes, tick: np.dtype[Any], sync: ThreadPoolExecutor) -> None:
        self.path = path
        self._tick, self._executor = tick, sync
        self._syncing: Future[None] | None = None
        self._due = time.monotonic() + SYNC_INTERVAL_S
        with storage_errors("write", path):
            self._file = path.open("xb", buffering=0)
            self._write(header)
            sync_directory(path.parent)

    def ticks(self, rows: Mapping[str, NDArray[Any]]) -> None:
        """Append n ticks: field of `Episode` → (n, …), state fields holding the rows after each tick."""
        self.write(b"t", _pack(rows, self._tick, (len(rows["action"]),)))

    def chunk(self, actions: Float32, noise: Float32 | None, observed_tick: int, policy_version: int) -> None:
        """Append a proposed chunk, `actions` and `noise` (H, A)."""
        head = _CHUNK.pack(observed_tick, policy_version, len(actions), noise is not None)
        arrays = (actions,) if noise is None else (actions, noise)
        self.write(b"c", head + b"".join(np.ascontiguousarray(a, "<f4").tobytes() for a in arrays))

    def write(self, kind: bytes, payload: bytes) -> None:
        """Append a frame; it survives the process on return, and power loss once it is synced.

        The log is a safety net: when the disk refuses, a warning says that it ends here, and the episode goes on.
        """
        if self._file.closed:
            return
        crc = zlib.crc32(payload, zlib.crc32(kind))
        try:
            self._write(_FRAME.pack(crc, len(payload), kind) + payload)
            if time.monotonic() >= self._due and (self._syncing is None or self._syncing.done()):
                if self._syncing is not None:
                    self._syncing.result()
                self._due = time.monotonic() + SYNC_INTERVAL_S
                self._syncing = self._executor.submit(os.fsync, self._file.fileno())
        except OSError as error:
            _LOG.warning("%s ends here, and a crash would lose later ticks: %s", self.path, error.strerror)
            self.finish()

    def finish(self) -> None:
        """Close the log; the episode is about to be committed. Idempotent."""
        if self._syncing is not None:
            wait([self._syncing])  # its descriptor must not be closed, and perhaps used for another file, meanwhile
        self._file.close()

    def _write(self, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            rest = rest[self._file.write(rest) :]


@dataclass
class _Chunks:
    observed: list[int] = field(default_factory=list[int])
    version: list[int] = field(default_factory=list[int])
    actions: list[Float32] = field(default_factory=list[Float32])
    noise: list[Float32] = field(default_factory=list[Float32])


def read_spill(path: Path, spec: EnvironmentSpec) -> Episode:
    """The whole ticks of a log, possibly none, as an episode without outcome whose reason is "salvaged".

    Raises `DataError` for a log that does not begin as one of this environment.
    """
    state, tick = spill_layout(spec)
    with storage_errors("read", path):
        content = path.read_bytes()
    header = content[: content.find(b"\n") + 1]
    meta = _read_header(path, header, spec)
    states: list[NDArray[Any]] = []
    ticks: list[NDArray[Any]] = [np.zeros(0, tick)]
    chunks = _Chunks()
    for kind, payload in _frames(content, len(header)):
        if kind == b"s":
            states.append(np.frombuffer(payload, state))
        elif kind == b"t":
            ticks.append(np.frombuffer(payload, tick))
        else:
            _read_chunk(payload, spec.action.size, chunks)
    if not states:
        states = [np.zeros(1, state)]  # not even the first state is whole; there is no tick after it either
    return _episode(meta, states[0], np.concatenate(ticks), chunks, spec.action.size)


def _read_header(path: Path, line: bytes, spec: EnvironmentSpec) -> EpisodeMeta:
    record = decode_line(line.rstrip(b"\n"))
    if record is None or record.get("robotrl_spill") != FORMAT or not isinstance(record.get("meta"), dict):
        raise DataError(f"{path}: expected a log of spilled ticks of format {FORMAT}, and its first line is none")
    layout = [_describe(rows) for rows in spill_layout(spec)]
    if record.get("fingerprint") != spec.fingerprint or [record.get("state"), record.get("tick")] != layout:
        raise DataError(f"{path}: holds ticks of another environment ({record.get('fingerprint')}) than the store's")
    return meta_from_json(record["meta"], str(path))


def _frames(content: bytes, at: int) -> Iterator[tuple[bytes, bytes]]:
    while at + _FRAME.size <= len(content):
        crc, length, kind = _FRAME.unpack_from(content, at)
        payload = content[at + _FRAME.size : at + _FRAME.size + length]
        if len(payload) != length or zlib.crc32(payload, zlib.crc32(kind)) != crc:
            return
        yield kind, payload
        at += _FRAME.size + length


def _read_chunk(payload: bytes, width: int, chunks: _Chunks) -> None:
    observed, version, length, noisy = _CHUNK.unpack_from(payload)
    arrays = np.frombuffer(payload, "<f4", offset=_CHUNK.size).reshape(1 + noisy, length, width)
    chunks.observed.append(observed)
    chunks.version.append(version)
    chunks.actions.append(arrays[0])
    chunks.noise.extend(arrays[1:])


def _episode(meta: EpisodeMeta, first: NDArray[Any], ticks: NDArray[Any], chunks: _Chunks, width: int) -> Episode:
    arrays: dict[str, Any] = {n: np.concatenate([first[n], ticks[n]]) for n in _STATE_FIELDS}
    arrays |= {n: np.ascontiguousarray(ticks[n]) for n in _TICK_FIELDS}
    human = arrays["intervention"]
    source = "takeover" if meta.source == "autonomous" and human.any() else meta.source
    meta = replace(
        meta, outcome=None, reason="salvaged", source=source, operator_s=float(human.sum()) / meta.control_hz
    )
    count = len(chunks.observed)
    started = [np.flatnonzero(arrays["chunk_id"] == i) for i in range(count)]
    table = ChunkTable(
        actions=np.array(chunks.actions, np.float32) if count else np.zeros((0, 0, width), np.float32),
        observed_tick=np.array(chunks.observed, np.int32),
        start_tick=np.array([at[0] if at.size else -1 for at in started], np.int32),
        policy_version=np.array(chunks.version, np.int32),
        noise=np.array(chunks.noise, np.float32) if chunks.noise else np.zeros((count, 0, 0), np.float32),
    )
    return Episode(meta=meta, chunks=table, **arrays)


def _pack(values: Mapping[str, NDArray[Any]], layout: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    rows = np.zeros(shape, layout)
    for name in layout.names or ():
        rows[name] = values[name]
    return rows.tobytes()


def _describe(layout: np.dtype[Any]) -> list[list[Any]]:
    """The fields as JSON: name, type, shape of one value."""
    fields = layout.fields or {}
    return [[name, kind.base.str, list(kind.shape)] for name, (kind, *_) in fields.items()]
