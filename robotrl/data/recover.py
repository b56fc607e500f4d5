"""Repair of a whole store after crashes and damage: nothing that a live writer holds is touched."""

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from robotrl.data.directory import WriterDirectory
from robotrl.data.durable import FileLock, ensure_directory, lock_is_held, storage_errors, write_atomic
from robotrl.data.entry import JOURNAL, StoreEntry, entry_bytes, read_entry
from robotrl.data.episode_file import SUFFIX
from robotrl.data.index import Commit, StoreIndex, WriterJournal, removal_record
from robotrl.data.journal import JournalScan, blank_lines, scan_journal
from robotrl.data.names import is_name
from robotrl.data.repair import Repair, WriterRepair
from robotrl.data.store import EpisodeStore
from robotrl.errors import DataError, RobotRLError, RunBusyError

Progress = Callable[[int, int], None]
"""Called with how many episodes were looked at, and of how many."""


@dataclass(frozen=True)
class RecoveryReport:
    """What was done, or in a dry run would be done, and which writers were left alone because they live.

    `repairs` in the order in which they were made; `busy` and `failed` name writers, the latter with the reason.
    """

    repairs: tuple[Repair, ...]
    busy: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]


def recover_store(root: Path, *, dry_run: bool = False, progress: Progress | None = None) -> RecoveryReport:
    """Put every directory in order whose writer does not live.

    Staging is swept, a torn line cut, a damaged one set aside, interrupted commits and packs are taken up, spilled
    ticks salvaged, and every committed episode is read: what is damaged goes to quarantine and is hidden.

    Raises `DataError` when there is no store or its `store.json` is damaged. What is wrong with one writer is in
    the report and does not stop the others.
    """
    store = EpisodeStore.open(root)
    repairs: list[Repair] = []
    busy: list[str] = []
    failed: list[tuple[str, str]] = []
    for name in _writer_directories(root):
        try:
            repairs += _look(store, name, progress) if dry_run else _recover(store, name, progress)
        except RunBusyError:
            busy.append(name)
        except RobotRLError as error:
            failed.append((name, str(error)))
    return RecoveryReport(tuple(repairs), tuple(busy), tuple(failed))


def _writer_directories(root: Path) -> list[str]:
    directory = root / "writers"
    if not directory.is_dir():
        return []
    with storage_errors("read", directory):
        return sorted(path.name for path in directory.iterdir() if is_name(path.name) and path.is_dir())


def _look(store: EpisodeStore, name: str, progress: Progress | None) -> list[Repair]:
    """What `_recover` would do, as far as it can be told without doing it."""
    path = store.root / "writers" / name
    if lock_is_held(path / "lock"):
        raise RunBusyError(f"{path} is in use")
    repairs = _journal_repairs(path / JOURNAL, scan_journal(path / JOURNAL))
    journal = WriterJournal(path)
    journal.refresh(tolerant=True)
    if journal.error is not None:
        raise journal.error
    index = StoreIndex(store.root)
    index.refresh()
    repairs += WriterRepair(path, store.spec, index, journal, None).run()
    removed = {commit.line for commit in index.removed if commit.writer == name}
    live = {line: entry for line, entry in journal.entries.items() if line not in removed}
    return repairs + [_hiding(entry, error) for entry, error in _damaged(live, progress).values()]


def _recover(store: EpisodeStore, name: str, progress: Progress | None) -> list[Repair]:
    path = store.root / "writers" / name
    with FileLock(path / "lock"):
        scan = scan_journal(path / JOURNAL)
        repairs = _journal_repairs(path / JOURNAL, scan)
        _set_aside(path, scan)
    with closing(WriterDirectory(store.root, name)) as held:
        repairs += WriterRepair(path, store.spec, held.index, held.entries, held).run()
        damaged = _damaged(held.index.live(name), progress)
        if damaged:
            for entry, _ in damaged.values():
                _quarantine(held, entry)
            held.append(removal_record([Commit(name, line) for line in damaged], "damaged"))
        return repairs + [_hiding(entry, error) for entry, error in damaged.values()]


def _journal_repairs(path: Path, scan: JournalScan) -> list[Repair]:
    advice = "what it committed is taken up again; if it was a removal, remove again"
    found = [Repair(path, f"moved the damaged line at byte {at} to quarantine: {advice}") for at, _ in scan.damaged]
    torn = path.stat().st_size - scan.end if path.exists() else 0
    if any(at == scan.end for at, _ in scan.damaged):
        return found  # the end is among them
    return [*found, Repair(path, f"cut {torn} bytes of a line that was never finished")] if torn else found


def _set_aside(path: Path, scan: JournalScan) -> None:
    """Copy damaged lines of the journal to quarantine, then blank them; a removal among them has to be made again."""
    if scan.damaged:
        content = (path / JOURNAL).read_bytes()
        for start, stop in scan.damaged:
            write_atomic(ensure_directory(path / "quarantine") / f"journal-{start}.txt", content[start:stop])
        blank_lines(path / JOURNAL, scan.damaged)


def _damaged(entries: dict[int, StoreEntry], progress: Progress | None) -> dict[int, tuple[StoreEntry, str]]:
    """The entries whose bytes are missing or not what was committed, and what is wrong with each."""
    found: dict[int, tuple[StoreEntry, str]] = {}
    for count, (line, entry) in enumerate(entries.items(), 1):
        try:
            read_entry(entry)
        except DataError as error:  # a disk that refuses to be read is no reason to hide an episode, and is raised
            found[line] = (entry, str(error))
        if progress is not None:
            progress(count, len(entries))
    return found


def _hiding(entry: StoreEntry, error: str) -> Repair:
    return Repair(entry.path, f"moved to quarantine and hidden: episode {entry.episode_id}: {error}")


def _quarantine(held: WriterDirectory, entry: StoreEntry) -> None:
    """Move the file away, or copy the damaged member of a segment, which holds other episodes too."""
    if not entry.path.exists():
        return
    if not entry.packed:
        held.quarantine(entry.path)
    else:
        with suppress(DataError):  # a segment that is cut short has no bytes to keep
            target = ensure_directory(held.path / "quarantine") / f"{entry.episode_id}{SUFFIX}"
            write_atomic(target, entry_bytes(entry).tobytes())
