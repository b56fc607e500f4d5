"""What the journals of a store say so far, read as they grow.

Three kinds of line, told apart by `kind`:

episode   an episode was committed; the writer and the byte at which this line begins identify the commit
remove    commits that are hidden from here on, of any writer: {writer: [byte of the line, …]}, and why
segment   commits of this writer whose bytes lie elsewhere now: [[byte of the line, byte in the file], …]

Lines only ever add something, and a removal names commits and not ids. What they say together therefore does not
depend on the order in which journals are read, and an episode that is committed again after a removal is back.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from robotrl.data.durable import lock_is_held, storage_errors
from robotrl.data.entry import JOURNAL, StoreEntry, file_name
from robotrl.data.episode_file import SUFFIX
from robotrl.data.journal import JSON, damaged_journal, scan_journal
from robotrl.data.names import is_name
from robotrl.errors import DataError, RobotRLError


class Commit(NamedTuple):
    """Which line of which writer's journal committed an episode."""

    writer: str
    line: int


def removal_record(commits: Sequence[Commit], reason: str) -> dict[str, JSON]:
    """The journal record that hides `commits`."""
    lines: dict[str, list[int]] = {}
    for commit in commits:
        lines.setdefault(commit.writer, []).append(commit.line)
    return {"kind": "remove", "commits": lines, "reason": reason}


def segment_record(file: str, members: Sequence[tuple[int, int]]) -> dict[str, JSON]:
    """The journal record that moves commits of this writer into `file`: (line of the commit, byte in the file)."""
    return {"kind": "segment", "file": file, "members": [list(member) for member in members]}


@dataclass
class WriterJournal:
    """What one writer's journal says.

    Attributes:
        stop: commits and removals from this byte on are left out.
        removed: commits of any writer that its lines hide; may be shared with other journals.
        entries: byte of the commit's line → the episode, where it is now.
        orphaned: segments that got an episode whose commit is not here: its line was damaged and set aside.
        end: the byte up to which it was read.
        error: the damage that stopped it, if any: nothing after a damaged line is trusted until it is repaired.
    """

    directory: Path
    stop: int | None = None
    removed: set[Commit] = field(default_factory=set[Commit])
    entries: dict[int, StoreEntry] = field(default_factory=dict[int, StoreEntry])
    orphaned: set[Path] = field(default_factory=set[Path])
    end: int = 0
    error: RobotRLError | None = None

    def refresh(self, *, tolerant: bool = False) -> list[int]:
        """Read what was appended since; returns the new commits' lines. `tolerant` goes on past damaged lines."""
        path = self.directory / JOURNAL
        size = _size(path)
        if self.error is not None or size == self.end:
            return []
        if size < self.end:
            self.error = DataError(f"{path}: expected {self.end} bytes or more, got {size}: it was cut short")
            return []
        try:
            scan = scan_journal(path, self.end)
            if scan.damaged and not tolerant:
                raise damaged_journal(path, scan.damaged[0][0])
            self.end = scan.end
            return [line for line, record in scan.records if self._apply(line, record)]
        except RobotRLError as error:
            self.error = error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self.error = DataError(f"{path}: not a record of this format ({type(error).__name__}: {error})")
        return []

    def _apply(self, line: int, record: Mapping[str, Any]) -> bool:
        """Take in a record; true for a commit. What was written after `stop` counts only where it moves bytes."""
        kind = record.get("kind")
        if kind == "segment":
            self._move(record)
        elif self.stop is not None and line >= self.stop:
            return False
        elif kind == "remove":
            self.removed.update(Commit(name, at) for name, lines in record["commits"].items() for at in lines)
        elif kind != "episode":
            raise DataError(f"{self.directory / JOURNAL}: not a record of this format: {kind!r}")
        else:
            self.entries[line] = StoreEntry.from_json(record, self.directory)
            return True
        return False

    def _move(self, record: Mapping[str, Any]) -> None:
        file = file_name(self.directory, record["file"])
        for line, offset in record["members"]:
            if line in self.entries:
                self.entries[line] = replace(self.entries[line], file=file, offset=offset)
            else:
                self.orphaned.add(self.directory / file)


class StoreIndex:
    """All journals of a store, merged.

    Args:
        root: the store.
        stops: writer → byte at which to stop, to see the store as it was; every journal to its end when None.

    `journals` holds what each writer's says, `removed` the commits that any of them hides.
    """

    def __init__(self, root: Path, stops: Mapping[str, int] | None = None) -> None:
        self._directory = root / "writers"
        self._stops = stops
        self._commits: dict[str, list[Commit]] = {}
        self.removed: set[Commit] = set()
        self.journals: dict[str, WriterJournal] = {}

    @property
    def offsets(self) -> dict[str, int]:
        """Writer → byte up to which its journal was read, or at which it was stopped."""
        return {name: j.end if j.stop is None else j.stop for name, j in self.journals.items()}

    def refresh(self) -> list[str]:
        """Read what was appended since; returns the ids of episodes that appeared, each once, in order of commit."""
        names = self._stops if self._stops is not None else writer_names(self._directory)
        new: list[tuple[str, Commit]] = []
        for name in names:
            if name not in self.journals:
                stop = None if self._stops is None else self._stops[name]
                self.journals[name] = WriterJournal(self._directory / name, stop, self.removed)
            journal = self.journals[name]
            new += [(journal.entries[line].episode_id, Commit(name, line)) for line in journal.refresh()]
        fresh = [id_ for id_, commit in new if commit not in self.removed and not self.commits(id_)]
        for id_, commit in new:
            self._commits.setdefault(id_, []).append(commit)
        return list(dict.fromkeys(fresh))

    def check(self) -> None:
        """Raise the damage of any journal; what a damaged journal names is otherwise missing."""
        for journal in self.journals.values():
            if journal.error is not None:
                raise journal.error
            if journal.stop is not None and journal.end < journal.stop:
                path = journal.directory / JOURNAL
                raise DataError(f"{path}: expected {journal.stop} bytes or more, got {journal.end}: it was cut short")

    def commits(self, episode_id: str) -> list[Commit]:
        """The commits of the episode that no line removed, in the order of writers' names."""
        commits = self._commits.get(episode_id)
        return sorted(c for c in commits if c not in self.removed) if commits else []

    def find(self, episode_id: str) -> list[StoreEntry]:
        """Entries of `commits`: none, one, or equal ones of several writers; different ones are a conflict."""
        return [self.journals[c.writer].entries[c.line] for c in self.commits(episode_id)]

    def visible(self) -> tuple[StoreEntry, ...]:
        """The episodes in the order of their ids. Of a conflict, that of the first writer by name is shown."""
        return tuple(found[0] for id_ in sorted(self._commits) if (found := self.find(id_)))

    def conflicts(self) -> tuple[tuple[StoreEntry, ...], ...]:
        """Episodes that several writers committed with different content at the same time."""
        several = (self.find(id_) for id_, commits in self._commits.items() if len(commits) > 1)
        return tuple(tuple(found) for found in several if len({entry.crc for entry in found}) > 1)

    def unread(self) -> list[Path]:
        """Directories of writers that have files of episodes, and a journal that names none: it was lost.

        A writer that lives is left out: it journals an episode after it wrote the file.
        """
        known = {name for name, journal in self.journals.items() if journal.entries}
        directories = (self._directory / name for name in _names(self._directory) if name not in known)
        return [d for d in directories if _has_episodes(d) and not lock_is_held(d / "lock")]

    def live(self, writer: str) -> dict[int, StoreEntry]:
        """The entries of one writer that no journal removed: byte of the commit's line → entry."""
        entries = self.journals[writer].entries
        return {line: entry for line, entry in entries.items() if Commit(writer, line) not in self.removed}


def writer_names(directory: Path) -> list[str]:
    """Names of the writers that have a journal, sorted."""
    return [name for name in _names(directory) if os.path.exists(directory / name / JOURNAL)]


def _names(directory: Path) -> list[str]:
    if not directory.is_dir():
        return []
    with storage_errors("read", directory), os.scandir(directory) as found:
        return sorted(entry.name for entry in found if is_name(entry.name))


def _has_episodes(directory: Path) -> bool:
    return any(directory.glob(f"episodes/*{SUFFIX}")) or any(directory.glob("segments/*"))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
