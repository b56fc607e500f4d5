"""A Zarr v3 group in one uncompressed zip, written and read without zarr-python.

Every array is a single chunk under the `bytes` codec, little endian, C order, so that its bytes in the file are the
array and it is memory-mapped in place; only camera frames are shards of encoded frames (see `shards`). Chunks start at
multiples of 64 bytes; the gap is a zip extra field.
Equal content gives equal bytes: members are in the order given and carry a fixed date.
zarr-python opens such a file with `zarr.open_group(zarr.storage.ZipStore(path), mode="r")`.
"""

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite, prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.durable import storage_errors
from robotrl.data.frames import EncodedFrames
from robotrl.data.journal import JSON
from robotrl.data.shards import encode_shards, frames_node, read_frames
from robotrl.data.stored_zip import LOCAL_HEADER, StoredZip
from robotrl.errors import DataError

_FILL: dict[str, JSON] = {"bool": False, "uint8": 0, "int32": 0, "int64": 0, "float32": 0.0, "float64": 0.0}


@dataclass(frozen=True)
class ZarrGroup:
    """Arrays by path ("state", "chunks/actions"), read-only, and the attributes of every group ("" is the root).

    `frames` are the arrays that hold encoded camera frames.
    """

    arrays: Mapping[str, NDArray[Any]]
    attributes: Mapping[str, Mapping[str, Any]]
    frames: Mapping[str, EncodedFrames] = field(default_factory=dict[str, EncodedFrames])


def encode_group(group: ZarrGroup) -> bytes:
    """The group as the bytes of a zip file."""
    archive = StoredZip()
    for path, attributes in group.attributes.items():
        node: dict[str, JSON] = {"zarr_format": 3, "node_type": "group", "attributes": _strict(attributes)}
        archive.add(_member(path, "zarr.json"), json.dumps(node, allow_nan=False).encode())
    for path, array in group.arrays.items():
        if array.dtype.name not in _FILL:
            raise DataError(f"array '{path}' has the type {array.dtype}; expected one of {', '.join(_FILL)}")
        archive.add(_member(path, "zarr.json"), _array_node(array.shape, array.dtype.name))
        if array.size:
            content = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data.cast("B")
            archive.add(_chunk_member(path, array.ndim), content, aligned=True)
    for path, frames in group.frames.items():
        archive.add(_member(path, "zarr.json"), json.dumps(frames_node(frames)).encode())
        for member, shard in encode_shards(path, frames).items():
            archive.add(member, memoryview(shard), aligned=True)
    return archive.close()


def _strict(value: JSON) -> JSON:
    """JSON has no NaN and infinities; they become the strings that Zarr uses: "NaN", "Infinity", "-Infinity"."""
    if isinstance(value, float) and not isfinite(value):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return {key: _strict(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(inner) for inner in value]
    return value


def _member(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _chunk_member(path: str, dimensions: int) -> str:
    return "/".join([path, "c", *["0"] * dimensions])


@lru_cache(1024)  # episodes have the same arrays, and JSON would be a good part of the time of a commit
def _array_node(shape: tuple[int, ...], dtype: str) -> bytes:
    node: dict[str, JSON] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [max(1, length) for length in shape]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": _FILL[dtype],
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {},
    }
    return json.dumps(node).encode()


class _Slice(io.RawIOBase):
    """Bytes in memory as the file that `zipfile` wants, without a copy of them."""

    def __init__(self, content: NDArray[np.uint8]) -> None:
        self._content, self._at = content, 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._content)}[whence]
        if at < 0:
            raise zipfile.BadZipFile("it points to before its beginning")
        self._at = at
        return at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        stop = len(self._content) if size < 0 else self._at + size
        data = self._content[self._at : stop].tobytes()
        self._at += len(data)
        return data


def read_group(path: Path, *, verify: bool = True, offset: int = 0, size: int | None = None) -> ZarrGroup:
    """The group in the file, its arrays mapped into memory.

    Args:
        path: the zip file, or a larger one that it lies in.
        verify: compare every member with its CRC-32, which reads all of it.
        offset: byte at which the zip begins, a multiple of 64 for aligned arrays.
        size: bytes of the zip; to the end of the file when None.

    Raises:
        DataError: the file is cut short, damaged, or not such a group; the message names file and member.
    """
    with storage_errors("read", path):
        available = path.stat().st_size - offset
        if available < (size or 1):
            raise DataError(f"{path}: expected {size or 1} bytes from byte {offset} on, got {max(0, available)}")
        content = np.memmap(path, np.uint8, "r", offset, (size or available,)).view(np.ndarray)
    try:
        members = _members(path, content, verify)
        return _parse(path, members)
    except zipfile.BadZipFile as error:
        raise DataError(f"{path}: cut short or damaged ({error})") from error
    except (struct.error, KeyError, TypeError, ValueError, NotImplementedError, EOFError, IndexError) as error:
        raise DataError(f"{path}: not a readable Zarr group ({type(error).__name__}: {error})") from error


def _members(path: Path, content: NDArray[np.uint8], verify: bool) -> dict[str, NDArray[np.uint8]]:
    """Member name → its bytes, in place."""
    members: dict[str, NDArray[np.uint8]] = {}
    with zipfile.ZipFile(_Slice(content)) as archive:
        for info in archive.infolist():
            data = _data_of(info, content)
            if verify and zlib.crc32(data) != info.CRC:
                raise DataError(f"{path}: '{info.filename}' is damaged (its CRC-32 is wrong)")
            members[info.filename] = data
    return members


def _data_of(info: zipfile.ZipInfo, content: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if info.compress_type != zipfile.ZIP_STORED:
        raise zipfile.BadZipFile(f"'{info.filename}' is compressed")
    header = LOCAL_HEADER.unpack_from(content, info.header_offset)
    start = info.header_offset + LOCAL_HEADER.size + header[9] + header[10]
    if header[0] != b"PK\x03\x04" or start + info.file_size > len(content):
        raise zipfile.BadZipFile(f"'{info.filename}' lies outside the file")
    return content[start : start + info.file_size]


def _parse(file: Path, members: Mapping[str, NDArray[np.uint8]]) -> ZarrGroup:
    arrays: dict[str, NDArray[Any]] = {}
    frames: dict[str, EncodedFrames] = {}
    attributes: dict[str, Mapping[str, Any]] = {}
    for name, data in members.items():
        if name.rpartition("/")[2] != "zarr.json":
            continue
        node, path = json.loads(data.tobytes()), name.removesuffix("zarr.json").removesuffix("/")
        if node["node_type"] == "group":
            attributes[path] = dict(node["attributes"])
        elif node["codecs"][0]["name"] == "sharding_indexed":
            frames[path] = read_frames(f"{file}: '{path}'", path, node, members)
        else:
            arrays[path] = _array(path, node, members)
    if "" not in attributes:
        raise ValueError("the root group is missing")
    return ZarrGroup(arrays, attributes, frames)


def _array(path: str, node: Mapping[str, Any], members: Mapping[str, NDArray[np.uint8]]) -> NDArray[Any]:
    shape = tuple(node["shape"])
    dtype = np.dtype(node["data_type"]).newbyteorder("<")
    if prod(shape) == 0:
        return np.zeros(shape, dtype)
    data = members.get(_chunk_member(path, len(shape)))
    if data is None or len(data) != prod(shape) * dtype.itemsize:
        got = "none" if data is None else str(len(data))
        raise ValueError(f"array '{path}' of shape {shape} needs {prod(shape) * dtype.itemsize} bytes, got {got}")
    return np.frombuffer(data, dtype).reshape(shape)
