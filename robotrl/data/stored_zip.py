"""Uncompressed zip archives in memory, written directly: `zipfile` takes milliseconds for the members of an episode.

Equal members in equal order give equal bytes, since all carry the same date. Contents may begin at multiples of 64
bytes of the archive, so that mapped arrays are aligned; the gap is an extra field of the local header.
"""

import struct
import zlib

from robotrl.errors import DataError

LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_DIRECTORY_ENTRY = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_EXTRA = struct.Struct("<HH")

_ALIGNMENT = 64
_PADDING_ID = 0xD935  # the extra-field id that zipalign uses for the same purpose
_VERSION, _UNIX = 20, 3 << 8
_UTF8 = 0x800
_FIRST_OF_1980 = 0x21
_OWNER_READS_AND_WRITES = 0o600 << 16
_MOST_BYTES, _MOST_MEMBERS = (1 << 32) - 1, (1 << 16) - 1  # more need ZIP64, which episodes have no use for


class StoredZip:
    """Collects members; `close` returns the archive."""

    def __init__(self) -> None:
        self._parts: list[bytes | memoryview] = []
        self._directory: list[bytes] = []
        self._end = 0

    def add(self, name: str, content: bytes | memoryview, *, aligned: bool = False) -> None:
        """Append a member; `aligned` lets its content begin at a multiple of 64 bytes."""
        path, size, crc = name.encode(), len(content), zlib.crc32(content)
        flags = 0 if name.isascii() else _UTF8
        extra = padding(self._end + LOCAL_HEADER.size + len(path)) if aligned else b""
        if self._end + size > _MOST_BYTES or len(self._directory) == _MOST_MEMBERS:
            raise DataError(
                f"'{name}' would make the archive larger than 4 GiB or {_MOST_MEMBERS} members: record less"
            )
        about = (flags, 0, 0, _FIRST_OF_1980, crc, size, size, len(path))
        header = LOCAL_HEADER.pack(b"PK\3\4", _VERSION, *about, len(extra))
        attributes = (0, 0, 0, 0, _OWNER_READS_AND_WRITES, self._end)
        self._directory.append(_DIRECTORY_ENTRY.pack(b"PK\1\2", _VERSION | _UNIX, _VERSION, *about, *attributes) + path)
        self._parts += [header, path, extra, content]
        self._end += len(header) + len(path) + len(extra) + size

    def close(self) -> bytes:
        """The bytes of the archive."""
        directory, count = b"".join(self._directory), len(self._directory)
        end = _END.pack(b"PK\5\6", 0, 0, count, count, len(directory), self._end, 0)
        return b"".join([*self._parts, directory, end])


def padding(header_end: int) -> bytes:
    """The extra field after which a local header that ends at `header_end` without it ends at a multiple of 64."""
    gap = -(header_end + _EXTRA.size) % _ALIGNMENT
    return _EXTRA.pack(_PADDING_ID, gap) + bytes(gap)
