"""The ticks of a running episode in an append-only log, so that a crash costs at most the tick being written.

One line as in a journal (format, fingerprint of the spec, metadata, layout of the rows), then frames: CRC-32 of kind
and payload (uint32), length of the payload (uint32), kind (one byte), payload; all little endian. Kinds:

s   the state row before the first tick
t   rows of ticks, each with the state row after it
c   a proposed chunk: observed tick, policy version, H, whether noise follows (int32 each), actions and noise (H, A)
    float32
p   a camera's JPEG frame: state row (int32), height, width, length of the camera's name (uint16 each), name, JPEG bytes

A frame is in the log when its CRC fits; reading stops at the first that does not. Each frame is one write, so that the
death of the process costs none; the disk is synced once in `SYNC_INTERVAL_S` from another thread, so that control
never waits for it, and power loss costs at most about twice that.
"""

import logging
import os
import struct
import time
import zlib
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.durable import ensure_directory, storage_errors, sync_directory
from robotrl.data.episode_file import meta_to_json
from robotrl.data.frames import TakenFrame
from robotrl.data.journal import encode_line
from robotrl.data.names import require_name
from robotrl.specs import EnvironmentSpec
from robotrl.types import EpisodeMeta, Float32

_LOG = logging.getLogger(__name__)
FORMAT = 1
SPILL_SUFFIX = ".spill"
SYNC_INTERVAL_S = 1.0
FRAME = struct.Struct("<IIc")
CHUNK = struct.Struct("<iiii")
PICTURE = struct.Struct("<iHHH")
STATE_FIELDS = {"state": "<f4", "privileged": "<f4", "physics": "<f8", "time_ns": "<i8"}
TICK_FIELDS = {
    **dict.fromkeys(("action", "action_requested", "action_policy", "action_human", "reward", "probability"), "<f4"),
    **dict.fromkeys(("control_mode", "trigger", "clamped"), "|u1"),
    **dict.fromkeys(("intervention", "terminated", "truncated", "success", "starved"), "|b1"),
    **dict.fromkeys(("policy_version", "chunk_id", "chunk_row", "delay_ticks"), "<i4"),
}


def spill_layout(spec: EnvironmentSpec) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """The packed rows of a frame `s` and of a frame `t`: fields of `Episode` in order, without gaps."""
    action = (spec.action.size,)
    widths = {"state": (spec.state.size,), "privileged": (spec.privileged.size,), "physics": (spec.physics_size,)}
    widths |= {name: action for name in TICK_FIELDS if name.startswith("action")}
    state = [(name, kind, widths.get(name, ())) for name, kind in STATE_FIELDS.items()]
    tick = [(name, kind, widths.get(name, ())) for name, kind in TICK_FIELDS.items()]
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
            "state": describe(self._state),
            "tick": describe(self._tick),
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
            self._file = path.open("wb", buffering=0)
            self._write(header)
            sync_directory(path.parent)

    def ticks(self, rows: Mapping[str, NDArray[Any]]) -> None:
        """Append n ticks: field of `Episode` → (n, …), state fields holding the rows after each tick."""
        self.write(b"t", _pack(rows, self._tick, (len(rows["action"]),)))

    def chunk(self, actions: Float32, noise: Float32 | None, observed_tick: int, policy_version: int) -> None:
        """Append a proposed chunk, `actions` and `noise` (H, A)."""
        head = CHUNK.pack(observed_tick, policy_version, len(actions), noise is not None)
        arrays = (actions,) if noise is None else (actions, noise)
        self.write(b"c", head + b"".join(np.ascontiguousarray(a, "<f4").tobytes() for a in arrays))

    def frame(self, frame: TakenFrame) -> None:
        """Append a camera's frame."""
        name = frame.camera.encode()
        self.write(b"p", PICTURE.pack(frame.tick, *frame.size, len(name)) + name + frame.content)

    def write(self, kind: bytes, payload: bytes) -> None:
        """Append a frame; it survives the process on return, and power loss once it is synced.

        The log is a safety net: when the disk refuses, a warning says that it ends here, and the episode goes on.
        """
        if self._file.closed:
            return
        crc = zlib.crc32(payload, zlib.crc32(kind))
        try:
            self._write(FRAME.pack(crc, len(payload), kind) + payload)
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


def _pack(values: Mapping[str, NDArray[Any]], layout: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    rows = np.zeros(shape, layout)
    for name in layout.names or ():
        rows[name] = values[name]
    return rows.tobytes()


def describe(layout: np.dtype[Any]) -> list[list[Any]]:
    """The fields of rows as JSON: name, type, shape of one value."""
    fields = layout.fields or {}
    return [[name, kind.base.str, list(kind.shape)] for name, (kind, *_) in fields.items()]
