"""Append-only journals: one JSON object a line, framed by its CRC-32, `crc32hex json\\n`.

A line is in the journal once it is synced. A crash can leave only the last line incomplete; readers stop before it
and the next writer removes it. A complete line whose CRC is wrong is damage, and an error that names it.
Numbers that JSON lacks are written as Python writes them: NaN, Infinity, -Infinity.
"""

import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from robotrl.data.durable import storage_errors, sync_directory
from robotrl.errors import DataError, StorageError

type JSON = bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None


def encode_line(record: Mapping[str, JSON]) -> bytes:
    """The framed line of `record`."""
    body = json.dumps(record, separators=(",", ":"), ensure_ascii=True).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def read_journal(path: Path, start: int = 0, stop: int | None = None) -> tuple[list[dict[str, Any]], int]:
    """The records in bytes [start, stop) of the journal, and the byte after the last whole line.

    A journal that does not exist is empty. `start` and `stop` are ends of lines that an earlier call returned.
    """
    if not path.exists():
        content = b""
    else:
        with storage_errors("read", path), path.open("rb") as file:
            file.seek(start)
            content = file.read() if stop is None else file.read(stop - start)
    end = start + content.rfind(b"\n") + 1
    if stop is not None and end != stop:
        raise DataError(f"{path}: expected whole lines up to byte {stop}, got them up to {end}: it was cut short")
    lines = content[: end - start].split(b"\n")[:-1]
    return [_decode(path, number, line) for number, line in enumerate(lines, 1)], end


def _decode(path: Path, number: int, line: bytes) -> dict[str, Any]:
    body = line[9:]
    if line[:9] != b"%08x " % zlib.crc32(body):
        raise DataError(
            f"{path}: line {number} is damaged (its CRC-32 is wrong). Restore the file from a copy, or delete that "
            "line: episode files that no line names are taken up again when the store is next written to."
        )
    return json.loads(body)


class JournalWriter:
    """Appends to one journal; the caller sees to it that there is no second writer.

    Opening removes an incomplete last line; `records` are those that were there. After a failed append the file is as
    before, and the writer is unusable, because the kernel may have dropped what it could not write. An append that an
    exception interrupts (Ctrl-C) is undone by the next one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records, self._end = read_journal(path)
        with storage_errors("open", path):
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.ftruncate(self._descriptor, self._end)
            os.fsync(self._descriptor)
            sync_directory(path.parent)
        self._usable, self._partial = True, False

    def append(self, record: Mapping[str, JSON]) -> None:
        """Append one record; it is durable on return."""
        self.extend([record])

    def extend(self, records: Iterable[Mapping[str, JSON]]) -> None:
        """Append records under one sync; all are durable on return."""
        if not self._usable:
            raise StorageError(f"{self.path} is closed after an earlier error: run the same command again.")
        content = b"".join(map(encode_line, records))
        with storage_errors("append to", self.path):
            try:
                if self._partial:
                    os.ftruncate(self._descriptor, self._end)
                self._partial = True
                # One unbuffered write: a buffered file would keep what a full disk refused and write it when closed.
                rest = memoryview(content)
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
                os.fsync(self._descriptor)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(self._descriptor, self._end)
                self.close()
                raise
        self._end, self._partial = self._end + len(content), False

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._usable:
            self._usable = False
            os.close(self._descriptor)

    def __enter__(self) -> "JournalWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
