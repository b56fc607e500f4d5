"""Reading the log of an episode that a crash cut short (see `spill` for its format)."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.durable import storage_errors
from robotrl.data.episode_file import meta_from_json
from robotrl.data.frames import EncodedFrames, TakenFrame
from robotrl.data.journal import decode_line
from robotrl.data.spill import CHUNK, FORMAT, FRAME, PICTURE, STATE_FIELDS, TICK_FIELDS, describe, spill_layout
from robotrl.errors import DataError
from robotrl.specs import EnvironmentSpec
from robotrl.types import CameraFrames, ChunkTable, Episode, EpisodeMeta, Float32


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
    with storage_errors("read", path):
        content = path.read_bytes()
    header = content[: content.find(b"\n") + 1]
    meta = _read_header(path, header, spec)
    try:
        return _parse(meta, content, len(header), spec)
    except (ValueError, struct.error) as error:
        raise DataError(f"{path}: a frame does not fit the layout ({error})") from error


def _parse(meta: EpisodeMeta, content: bytes, start: int, spec: EnvironmentSpec) -> Episode:
    (state, tick), width = spill_layout(spec), spec.action.size
    states: list[NDArray[Any]] = []
    ticks: list[NDArray[Any]] = [np.zeros(0, tick)]
    chunks, pictures = _Chunks(), list[TakenFrame]()
    for kind, payload in _frames(content, start):
        if kind == b"s":
            states.append(np.frombuffer(payload, state))
        elif kind == b"t":
            ticks.append(np.frombuffer(payload, tick))
        elif kind == b"c":
            _read_chunk(payload, width, chunks)
        elif kind == b"p":
            pictures.append(_read_picture(payload))
        else:
            raise ValueError(f"unknown kind {kind!r}")
    if not states:
        states = [np.zeros(1, state)]  # not even the first state is whole; there is no tick after it either
    episode = _episode(meta, states[0], np.concatenate(ticks), chunks, width)
    return replace(episode, cameras=_cameras([p for p in pictures if p.tick <= episode.length]))


def _read_header(path: Path, line: bytes, spec: EnvironmentSpec) -> EpisodeMeta:
    record = decode_line(line.rstrip(b"\n"))
    if record is None or record.get("robotrl_spill") != FORMAT or not isinstance(record.get("meta"), dict):
        raise DataError(f"{path}: expected a log of spilled ticks of format {FORMAT}, and its first line is none")
    layout = [describe(rows) for rows in spill_layout(spec)]
    if record.get("fingerprint") != spec.fingerprint or [record.get("state"), record.get("tick")] != layout:
        raise DataError(f"{path}: holds ticks of another environment ({record.get('fingerprint')}) than the store's")
    return meta_from_json(record["meta"], str(path))


def _frames(content: bytes, at: int) -> Iterator[tuple[bytes, bytes]]:
    while at + FRAME.size <= len(content):
        crc, length, kind = FRAME.unpack_from(content, at)
        payload = content[at + FRAME.size : at + FRAME.size + length]
        if len(payload) != length or zlib.crc32(payload, zlib.crc32(kind)) != crc:
            return
        yield kind, payload
        at += FRAME.size + length


def _read_chunk(payload: bytes, width: int, chunks: _Chunks) -> None:
    observed, version, length, noisy = CHUNK.unpack_from(payload)
    arrays = np.frombuffer(payload, "<f4", offset=CHUNK.size).reshape(1 + noisy, length, width)
    chunks.observed.append(observed)
    chunks.version.append(version)
    chunks.actions.append(arrays[0])
    chunks.noise.extend(arrays[1:])


def _read_picture(payload: bytes) -> TakenFrame:
    tick, height, width, length = PICTURE.unpack_from(payload)
    name = payload[PICTURE.size : PICTURE.size + length].decode()
    return TakenFrame(name, tick, (height, width), payload[PICTURE.size + length :])


def _cameras(pictures: list[TakenFrame]) -> dict[str, CameraFrames]:
    """The frames of every camera; they were logged in the order of their ticks."""
    cameras: dict[str, CameraFrames] = {}
    for name in dict.fromkeys(p.camera for p in pictures):
        own = [p for p in pictures if p.camera == name]
        frames = EncodedFrames(f"camera '{name}'", "jpeg", own[0].size, [p.content for p in own])
        cameras[name] = CameraFrames(np.array([p.tick for p in own], np.int32), frames)
    return cameras


def _episode(meta: EpisodeMeta, first: NDArray[Any], ticks: NDArray[Any], chunks: _Chunks, width: int) -> Episode:
    arrays: dict[str, Any] = {n: np.concatenate([first[n], ticks[n]]) for n in STATE_FIELDS}
    arrays |= {n: np.ascontiguousarray(ticks[n]) for n in TICK_FIELDS}
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
