"""Append-only journals: one JSON object a line, framed by its CRC-32, `crc32hex json\\n`.

A line is in the journal once it is synced. A crash can leave only the last line incomplete; readers stop before it
and the next writer removes it. A complete line whose CRC is wrong, or an end that is not the beginning of a line, is
damage, and an error that names it.
Numbers that JSON lacks are written as Python writes them: NaN, Infinity, -Infinity.
"""

import json
import os
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from robotrl.data.durable import storage_errors, sync_directory
from robotrl.errors import DataError, StorageError

# The beginning of a line, as far as a crash let it be written: a power cut may leave zeros in place of bytes.
_TORN = re.compile(rb"([0-9a-f]{0,8}|[0-9a-f]{8} (\{[ -~]*)?)[\0 ]*")

type JSON = bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None


def encode_line(record: Mapping[str, JSON]) -> bytes:
    """The framed line of `record`."""
    body = json.dumps(record, separators=(",", ":"), ensure_ascii=True).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


@dataclass(frozen=True)
class JournalScan:
    """What bytes [start, end) of a journal say.

    Attributes:
        records: (byte at which the line begins, its record), in order.
        damaged: (start, stop) of the bytes of every whole line that does not fit its CRC, and of an end that no
            interrupted writer can have left.
        end: the byte after the last whole line.
    """

    records: list[tuple[int, dict[str, Any]]]
    damaged: list[tuple[int, int]]
    end: int


def scan_journal(path: Path, start: int = 0) -> JournalScan:
    """Read whole lines from byte `start`, the end of a line, and go on past damaged ones.

    A journal that does not exist is empty. Lines of blanks alone are skipped: repair leaves them where damage was.
    """
    scan = JournalScan([], [], start)
    if not path.exists():
        return scan
    with storage_errors("read", path), path.open("rb") as file:
        file.seek(start)
        content = file.read()
    at = start
    *lines, tail = content.split(b"\n")
    for line in lines:
        record = decode_line(line)
        if record is not None:
            scan.records.append((at, record))
        elif line.strip(b" "):
            scan.damaged.append((at, at + len(line)))
        at += len(line) + 1
    if not _TORN.fullmatch(tail):
        scan.damaged.append((at, at + len(tail)))
    return replace(scan, end=at)


def read_journal(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The records of the journal, and the byte after its last whole line; `DataError` names a damaged line."""
    scan = scan_journal(path)
    if scan.damaged:
        raise damaged_journal(path, scan.damaged[0][0])
    return [record for _, record in scan.records], scan.end


def damaged_journal(path: Path, at: int) -> DataError:
    """The error for a line that is damaged at byte `at`."""
    with storage_errors("read", path), path.open("rb") as file:
        number = file.read(at).count(b"\n") + 1
    return DataError(
        f"{path}: line {number} is damaged (its CRC-32 is wrong, at byte {at}). Restore the file from a copy; "
        "in a store, `robotrl data recover` sets the line aside and takes up the episodes again that it named."
    )


def blank_lines(path: Path, ranges: Iterable[tuple[int, int]]) -> None:
    """Overwrite bytes [start, stop) of the journal with blanks, durably and in place: no other line moves."""
    with storage_errors("write", path), path.open("r+b") as file:
        for start, stop in ranges:
            file.seek(start)
            file.write(b" " * (stop - start))
        file.flush()
        os.fsync(file.fileno())


def decode_line(line: bytes) -> dict[str, Any] | None:
    """The record of a line without its end, or None if it is damaged."""
    body = line[9:]
    if line[:9] != b"%08x " % zlib.crc32(body):
        return None
    try:
        record = json.loads(body)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


class JournalWriter:
    """Appends to one journal; the caller sees to it that there is no second writer.

    Opening removes an incomplete last line; `records` are those that were there, if they had to be read. After a failed
    append the file is as before, and the writer is unusable, because the kernel may have dropped what it could not
    write. An append that an exception interrupts (Ctrl-C) is undone by the next one.
    """

    def __init__(self, path: Path, end: int | None = None) -> None:
        """Open the journal; `end` is the byte after its last whole line, where the caller has read it already."""
        self.path = path
        self.records, self._end = read_journal(path) if end is None else ([], end)
        with storage_errors("open", path):
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.ftruncate(self._descriptor, self._end)
            os.fsync(self._descriptor)
            sync_directory(path.parent)
        self._usable, self._partial = True, False

    @property
    def end(self) -> int:
        """The byte at which the next line will begin."""
        return self._end

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
