"""Segments: many episodes in one file, an uncompressed zip whose members are the episodes' own zips, unchanged.

Members begin at multiples of 64 bytes, as arrays do in an episode, so that these stay aligned and are still mapped
in place. Any unzip tool gives the episodes' files back.
"""

import os
import struct
import zipfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from robotrl.data.durable import storage_errors
from robotrl.data.stored_zip import LOCAL_HEADER, padding
from robotrl.errors import DataError

_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class SegmentMember:
    """A file in a segment: `size` bytes from byte `start` on, with this CRC-32."""

    name: str
    start: int
    size: int
    crc: int


def write_segment(path: Path, members: Iterable[tuple[str, NDArray[np.uint8]]]) -> list[int]:
    """Write (name, bytes) to a new segment and sync it; returns the byte at which each member begins."""
    starts: list[int] = []
    with storage_errors("write", path):
        try:
            with path.open("wb") as file:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                    for name, content in members:
                        info = _aligned(name, file.tell())
                        starts.append(file.tell() + LOCAL_HEADER.size + len(name) + len(info.extra))
                        archive.writestr(info, content.data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):
                path.unlink()
            raise
    return starts


def _aligned(name: str, header: int) -> zipfile.ZipInfo:
    """A member whose local header begins at byte `header` and whose bytes begin at a multiple of 64."""
    info = zipfile.ZipInfo(name, _DATE)
    info.extra = padding(header + LOCAL_HEADER.size + len(name))
    return info


def segment_members(path: Path) -> list[SegmentMember]:
    """The segment's directory; `DataError` when the file is damaged or no zip."""
    with storage_errors("read", path):
        try:
            with zipfile.ZipFile(path) as archive, path.open("rb") as file:
                return [_member(info, file) for info in archive.infolist()]
        except (zipfile.BadZipFile, struct.error) as error:
            raise DataError(f"{path}: no readable segment ({error})") from error


def directory_lacks(path: Path, members: set[tuple[int, int, int]]) -> int:
    """How many of the members (start, size, CRC-32) the segment's directory does not list; all when it is damaged."""
    try:
        return len(members - {(m.start, m.size, m.crc) for m in segment_members(path)})
    except DataError:
        return len(members)


def _member(info: zipfile.ZipInfo, file: BinaryIO) -> SegmentMember:
    file.seek(info.header_offset)
    header = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
    start = info.header_offset + LOCAL_HEADER.size + header[9] + header[10]
    return SegmentMember(info.filename, start, info.file_size, info.CRC)
