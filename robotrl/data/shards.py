"""Camera frames as a Zarr v3 array with the codec `sharding_indexed`, written and read without zarr-python.

One inner chunk is one frame. A shard holds up to 1024 frames, one after the other, and ends in its index: offset and
size of every frame as little-endian uint64 pairs, and the CRC-32C of these.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from robotrl.data.frames import JPEG_QUALITY, JPEG_SUBSAMPLING, ZSTD_LEVEL, EncodedFrames, FrameCodec
from robotrl.data.journal import JSON
from robotrl.types import UInt8

SHARD_FRAMES = 1024
_PAIR = np.dtype("<u8")
_ABSENT = 2**64 - 1
_CRC: dict[str, JSON] = {"name": "crc32c"}
_BYTES: dict[str, JSON] = {"name": "bytes", "configuration": {"endian": "little"}}
_PIPELINES: dict[FrameCodec, list[dict[str, JSON]]] = {
    "jpeg": [
        {"name": "robotrl.jpeg", "configuration": {"quality": JPEG_QUALITY, "subsampling": JPEG_SUBSAMPLING}},
        _CRC,
    ],
    "zstd": [_BYTES, {"name": "zstd", "configuration": {"level": ZSTD_LEVEL, "checksum": False}}, _CRC],
    "raw": [_BYTES, _CRC],
}


def frames_node(frames: EncodedFrames) -> dict[str, JSON]:
    """The array's `zarr.json`."""
    height, width = frames.size
    sharding: dict[str, JSON] = {
        "chunk_shape": [1, height, width, 3],
        "codecs": _PIPELINES[frames.codec],
        "index_codecs": [_BYTES, _CRC],
        "index_location": "end",
    }
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(frames.shape),
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [_capacity(frames), height, width, 3]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
        "attributes": {},
    }


def shard_members(path: str, count: int, capacity: int) -> list[str]:
    """Names of the shards of the array at `path`, which has `count` frames, `capacity` a shard."""
    return [f"{path}/c/{shard}/0/0/0" for shard in range(-(-count // capacity))]


def encode_shards(path: str, frames: EncodedFrames) -> dict[str, bytes]:
    """Name → content of the shards of the array at `path`; the last is filled up with absent frames."""
    capacity = _capacity(frames)
    names = shard_members(path, len(frames), capacity)
    return {name: _shard(frames.chunks, i * capacity, capacity) for i, name in enumerate(names)}


def _capacity(frames: EncodedFrames) -> int:
    return max(1, min(len(frames), SHARD_FRAMES))


def _shard(chunks: Sequence[bytes | UInt8], start: int, capacity: int) -> bytes:
    parts = [bytes(chunks[i]) for i in range(start, min(start + capacity, len(chunks)))]
    sizes = np.array([len(part) for part in parts], _PAIR)
    index = np.full((capacity, 2), _ABSENT, _PAIR)
    index[: len(parts), 0], index[: len(parts), 1] = np.cumsum(sizes) - sizes, sizes
    table = index.tobytes()
    return b"".join([*parts, table, google_crc32c.value(table).to_bytes(4, "little")])


def read_frames(name: str, path: str, node: Mapping[str, Any], members: Mapping[str, UInt8]) -> EncodedFrames:
    """The frames of the array at `path` with this `zarr.json`, still encoded and in place.

    `name` begins the errors of frames that turn out damaged. Raises `ValueError` or `KeyError` for what is no such
    array.
    """
    count, height, width, _ = node["shape"]
    capacity = node["chunk_grid"]["configuration"]["chunk_shape"][0]
    sharding = node["codecs"][0]["configuration"]
    if sharding["chunk_shape"] != [1, height, width, 3] or sharding["index_location"] != "end":
        raise ValueError(f"array '{path}': expected one frame a chunk and the index at the end of the shard")
    steps = tuple(codec["name"] for codec in sharding["codecs"])
    known: dict[tuple[JSON, ...], FrameCodec] = {tuple(s["name"] for s in p): codec for codec, p in _PIPELINES.items()}
    if steps not in known:
        raise ValueError(f"array '{path}': frames are encoded by {' and '.join(steps)}; expected one of {list(known)}")
    shards = [members[member] for member in shard_members(path, count, capacity)]
    chunks = _Shards(count, [_read_shard(path, shard, capacity) for shard in shards])
    return EncodedFrames(name, known[steps], (height, width), chunks)


@dataclass(frozen=True)
class _Shards(Sequence[UInt8]):
    """`total` encoded frames in (bytes, index (n, 2) of offset and size) of each shard."""

    total: int
    shards: Sequence[tuple[UInt8, NDArray[np.uint64]]]

    def __len__(self) -> int:
        return self.total

    @overload
    def __getitem__(self, index: int) -> UInt8: ...
    @overload
    def __getitem__(self, index: slice) -> list[UInt8]: ...
    def __getitem__(self, index: int | slice) -> UInt8 | list[UInt8]:
        if isinstance(index, slice):
            return [self[i] for i in range(self.total)[index]]
        shard, place = divmod(range(self.total)[index], len(self.shards[0][1]))
        data, pairs = self.shards[shard]
        offset, size = int(pairs[place, 0]), int(pairs[place, 1])
        if offset + size > len(data):
            raise ValueError("it is absent from its shard")
        return data[offset : offset + size]


def _read_shard(path: str, data: UInt8, capacity: int) -> tuple[UInt8, NDArray[np.uint64]]:
    size = capacity * 2 * _PAIR.itemsize
    table, crc = data[-size - 4 : -4], data[-4:]
    if len(table) != size or google_crc32c.value(table.tobytes()) != int.from_bytes(crc.tobytes(), "little"):
        raise ValueError(f"array '{path}': the index of a shard is damaged")
    return data[: -size - 4], table.view(_PAIR).reshape(capacity, 2)
