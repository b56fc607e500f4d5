"""Packing: the episodes of a writer that does not live move from files of their own into segments.

Their bytes do not change, and readers see no difference: a snapshot whose files have moved finds them through the
journal. For each segment: staged, synced, renamed, the directory synced; then one journal line that moves its
episodes, synced; and only then are the old files removed. Whatever stops it in between leaves the old or the new bytes
or both; the next to open the directory goes on from there.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from robotrl.data.directory import WriterDirectory
from robotrl.data.durable import ensure_directory, storage_errors, sync_directory
from robotrl.data.entry import StoreEntry, entry_bytes
from robotrl.data.episode_file import SUFFIX
from robotrl.data.index import StoreIndex, segment_record, writer_names
from robotrl.data.recover import Progress
from robotrl.data.repair import WriterRepair
from robotrl.data.segment import directory_lacks, write_segment
from robotrl.data.store import EpisodeStore
from robotrl.errors import DataError, RobotRLError, RunBusyError

SEGMENT_BYTES = 256 << 20
_ZIP_LIMIT = (1 << 31) - 1  # a larger member would need other zip headers; such an episode stays a file of its own


@dataclass(frozen=True)
class PackReport:
    """What was packed: episodes moved, segments written, and by how many bytes the store is smaller.

    `busy` names the writers that live and were left alone; `failed` names writers of which something stayed as it
    was, and why.
    """

    episodes: int
    segments: int
    freed_bytes: int
    busy: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]


def pack_store(
    store: EpisodeStore, *, segment_bytes: int = SEGMENT_BYTES, progress: Progress | None = None
) -> PackReport:
    """Pack every directory whose writer does not live, and free the bytes of removed episodes.

    Args:
        store: the store.
        segment_bytes: size at which a segment is full; larger episodes stay files of their own.
        progress: called with the episodes moved so far, and how many there are to move in this directory.

    Raises `DataError`, before anything is changed, when a journal is damaged.
    """
    index = StoreIndex(store.root)
    index.refresh()
    index.check()
    done: list[_Packing] = []
    busy: list[str] = []
    failed: list[tuple[str, str]] = []
    for name in writer_names(store.root / "writers"):
        try:
            with closing(WriterDirectory(store.root, name)) as held:
                done.append(_Packing(store, name, held, segment_bytes))
                done[-1].run(progress)
        except RunBusyError:
            busy.append(name)
        except RobotRLError as error:
            failed.append((name, str(error)))
    return PackReport(
        episodes=sum(packing.episodes for packing in done),
        segments=sum(packing.segments for packing in done),
        freed_bytes=sum(packing.freed_bytes for packing in done),
        busy=tuple(busy),
        failed=(*(f for packing in done for f in packing.failed), *failed),
    )


class _Packing:
    """Packs one directory that is held; the attributes without underscore are for the report."""

    def __init__(self, store: EpisodeStore, name: str, held: WriterDirectory, segment_bytes: int) -> None:
        self.episodes, self.segments, self.freed_bytes = 0, 0, 0
        self.failed: list[tuple[str, str]] = []
        self._name, self._held = name, held
        self._limit = min(segment_bytes, _ZIP_LIMIT)
        WriterRepair(held.path, store.spec, held.index, held.entries, held).run()

    def run(self, progress: Progress | None) -> None:
        """Write the segments, then free what no live episode needs."""
        moving = self._moving()
        for batch in self._batches(moving):
            self._write(batch)
            if progress is not None:
                progress(self.episodes, len(moving))
        self._free()

    def _moving(self) -> dict[int, StoreEntry]:
        """Episodes in files of their own, and in segments that hold removed ones, are damaged, or less than half full.

        A lone segment that is only small stays as it is, or packing twice would write it twice.
        """
        live = self._held.index.live(self._name)
        segments: dict[Path, dict[int, StoreEntry]] = {}
        for line, entry in self._held.entries.entries.items():
            if entry.packed:
                segments.setdefault(entry.path, {})[line] = entry
        poor = {
            path for path, entries in segments.items() if not entries.keys() <= live.keys() or _lacks(path, entries)
        }
        small = {path for path, entries in segments.items() if sum(e.size for e in entries.values()) < self._limit // 2}
        loose = {i: e for i, e in live.items() if not e.packed and e.size <= self._limit}
        if loose or len(small) > 1:
            poor |= small
        return {line: entry for line, entry in live.items() if line in loose or entry.path in poor}

    def _batches(self, moving: dict[int, StoreEntry]) -> Iterator[dict[int, StoreEntry]]:
        """The episodes of one segment after the other, in the order of their commits; damaged ones stay."""
        batch: dict[int, StoreEntry] = {}
        size = 0
        for line, entry in sorted(moving.items()):
            try:
                _require_undamaged(entry)
            except RobotRLError as error:
                self.failed.append((self._name, f"episode {entry.episode_id} stays where it is: {error}"))
                continue
            if batch and size + entry.size > self._limit:
                yield batch
                batch, size = {}, 0
            batch[line] = entry
            size += entry.size
        if batch:
            yield batch

    def _write(self, batch: dict[int, StoreEntry]) -> None:
        directory = ensure_directory(self._held.path / "segments")
        # Where its journal line will begin is a number that no segment had before: an older snapshot that still
        # looks for an episode under an earlier number must not find another one there.
        final = directory / f"{self._held.journal.end:012d}.zip"
        staged = self._held.staging / final.name
        starts = write_segment(staged, ((f"{e.episode_id}{SUFFIX}", entry_bytes(e)) for e in batch.values()))
        with storage_errors("write", final):
            staged.replace(final)
            sync_directory(directory)
        record = segment_record(f"segments/{final.name}", list(zip(batch, starts, strict=True)))
        self._held.append(record)
        self.episodes += len(batch)
        self.segments += 1
        self.freed_bytes -= final.stat().st_size

    def _free(self) -> None:
        """Remove the files that hold only bytes that were moved, or of episodes that were removed."""
        needed = {entry.path for entry in self._held.index.live(self._name).values()}
        for directory, suffix in ((self._held.episodes, SUFFIX), (self._held.path / "segments", ".zip")):
            with storage_errors("clean up", directory):
                unneeded = [path for path in directory.glob(f"*{suffix}") if path not in needed]
                for path in unneeded:
                    self.freed_bytes += path.stat().st_size
                    path.unlink()
                if unneeded:
                    sync_directory(directory)


def _lacks(segment: Path, entries: dict[int, StoreEntry]) -> bool:
    return directory_lacks(segment, {(e.offset, e.size, e.crc) for e in entries.values()}) > 0


def _require_undamaged(entry: StoreEntry) -> None:
    if crc32(entry_bytes(entry)) != entry.crc:
        raise DataError(f"{entry.path} is damaged (its CRC-32 is wrong): see `robotrl data recover`")
