"""Checking a whole store: every byte that was committed, every array, and everything that lies there besides."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from robotrl.data.admission import oddities, require_admissible
from robotrl.data.annotations import list_annotations
from robotrl.data.camera_layers import check_layers, check_pictures
from robotrl.data.durable import lock_is_held
from robotrl.data.entry import JOURNAL, StoreEntry, read_entry
from robotrl.data.episode_file import SUFFIX
from robotrl.data.index import Commit, StoreIndex, WriterJournal
from robotrl.data.journal import scan_journal
from robotrl.data.names import is_name
from robotrl.data.recover import Progress
from robotrl.data.segment import directory_lacks
from robotrl.data.spill import SPILL_SUFFIX
from robotrl.data.store import EpisodeStore
from robotrl.errors import DataError, RobotRLError
from robotrl.specs import EnvironmentSpec

_IN_STORE = frozenset({"store.json", "writers", "annotations", "cameras", "cache"})
_IN_WRITER = frozenset({"lock", "staging", "episodes", "segments", "spills", JOURNAL, "quarantine"})
_RECOVER = "run `robotrl data recover`"
_PACK = "run `robotrl data pack`, which writes it anew; the store itself reads by the journal"
_RENDER = "delete the file, and `robotrl data render` the layer again where the episode is there"
_FOREIGN = "move it away; the store never reads it"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or odd: which file, what, and what to do about it."""

    severity: Literal["error", "warning"]
    path: Path
    problem: str
    advice: str


def verify_store(store: EpisodeStore, *, progress: Progress | None = None) -> list[Finding]:
    """Everything that is wrong in the store; never stops at the first. An intact store gives an empty list.

    Errors are damage, loss and contradictions; warnings are what a crash left, foreign files and odd values. What a
    live writer is busy with is not reported. The store is only read.
    """
    index = StoreIndex(store.root)
    index.refresh()
    journals = {name: _tolerant(store.root / "writers" / name) for name in index.journals}
    findings = [*_foreign(store.root, _IN_STORE), *_annotations(store), *_conflicts(index), *_removals(journals)]
    removed = {commit for journal in journals.values() for commit in journal.removed}
    live = {(name, line) for name, j in journals.items() for line in j.entries if Commit(name, line) not in removed}
    writers, fingerprint = store.root / "writers", store.spec.fingerprint
    for path in sorted(writers.iterdir()) if writers.is_dir() else ():
        if path.is_dir() and is_name(path.name):
            findings += _writer(path, journals.get(path.name, WriterJournal(path)))
        else:
            findings.append(Finding("warning", path, "it is no writer's directory", _FOREIGN))
    for count, (name, line) in enumerate(sorted(live), 1):
        findings += _episode(journals[name].entries[line], store.spec, fingerprint)
        if progress is not None:
            progress(count, len(live))
    pictures = check_layers(store.root, (journals[name].entries[line] for name, line in sorted(live)))
    return [*findings, *(Finding("error", path, problem, _RENDER) for path, problem in pictures)]


def _tolerant(directory: Path) -> WriterJournal:
    journal = WriterJournal(directory)
    journal.refresh(tolerant=True)
    return journal


def _foreign(directory: Path, known: frozenset[str]) -> Iterator[Finding]:
    for name in sorted(os.listdir(directory)):
        if name not in known:
            yield Finding("warning", directory / name, "it is no part of a store", _FOREIGN)


def _annotations(store: EpisodeStore) -> Iterator[Finding]:
    for kind, version in list_annotations(store.root / "annotations"):
        try:
            store.annotations(kind, version)
        except RobotRLError as error:
            path = store.root / "annotations" / kind / f"{version}{SUFFIX}"
            yield Finding("error", path, str(error), "move it away and make this version again, as its lineage says")


def _conflicts(index: StoreIndex) -> Iterator[Finding]:
    for found in index.conflicts():
        others = " and ".join(str(entry.path) for entry in found[1:])
        problem = f"episode {found[0].episode_id} was committed with different content as {others}; this one is shown"
        yield Finding("error", found[0].path, problem, f"`robotrl data rm {found[0].episode_id}`, and record it again")


def _removals(journals: dict[str, WriterJournal]) -> Iterator[Finding]:
    for journal in journals.values():
        for writer, line in sorted(journal.removed):
            if writer not in journals or line not in journals[writer].entries:
                problem = f"it removes the episode of byte {line} in the journal of '{writer}', where there is none"
                yield Finding("warning", journal.directory / JOURNAL, problem, "nothing: the episode is gone anyway")


def _writer(path: Path, journal: WriterJournal) -> Iterator[Finding]:
    """The journal, and the files that it does not name. What a live writer may just be writing is left out."""
    yield from _foreign(path, _IN_WRITER)
    scan = scan_journal(path / JOURNAL)
    for start, stop in scan.damaged:
        yield Finding("error", path / JOURNAL, f"the line in bytes {start} to {stop} is damaged", _RECOVER)
    if journal.error is not None:
        yield Finding("error", path / JOURNAL, str(journal.error), "restore it from a copy")
    yield from _segments(journal)
    if lock_is_held(path / "lock"):
        return
    if (path / JOURNAL).exists() and (path / JOURNAL).stat().st_size > scan.end:
        yield Finding("warning", path / JOURNAL, f"the line from byte {scan.end} on was never finished", _RECOVER)
    named = {entry.path for entry in journal.entries.values()}
    for folder, suffix in (("staging", ""), ("episodes", SUFFIX), ("segments", ".zip"), ("spills", SPILL_SUFFIX)):
        directory = path / folder
        for file in sorted(directory.iterdir()) if directory.is_dir() else ():
            if not file.name.endswith(suffix):
                yield Finding("warning", file, "it is no part of a store", _FOREIGN)
            elif file not in named:
                spilled = folder == "spills"
                problem = "ticks of an episode that a crash cut short" if spilled else "no journal line names it"
                yield Finding("warning", file, problem, _RECOVER)


def _segments(journal: WriterJournal) -> Iterator[Finding]:
    """Whether a segment's own directory agrees with the journal: unzip tools go by it."""
    places: dict[Path, set[tuple[int, int, int]]] = {}
    for entry in journal.entries.values():
        if entry.packed and entry.path.exists():
            places.setdefault(entry.path, set()).add((entry.offset, entry.size, entry.crc))
    for path, expected in sorted(places.items()):
        missing = directory_lacks(path, expected)
        if missing:
            yield Finding("error", path, f"its directory lacks {missing} of {len(expected)} episodes", _PACK)


def _episode(entry: StoreEntry, spec: EnvironmentSpec, fingerprint: str) -> Iterator[Finding]:
    """Its bytes, its arrays, whether it is what the journal says, and odd values."""
    try:
        episode = read_entry(entry)
        require_admissible(episode, spec, fingerprint)
        # By their text, in which NaN equals itself.
        stored, named = (episode.meta.episode_id, episode.length), (entry.episode_id, entry.length)
        if stored != named or repr(episode.meta) != repr(entry.meta):
            raise DataError(f"{entry.path}: its journal line says something else of the episode than its file")
        check_pictures(episode.cameras)
    except RobotRLError as error:
        advice = f"restore it from a copy, or {_RECOVER}, which hides it"
        yield Finding("error", entry.path, f"episode {entry.episode_id}: {error}", advice)
        return
    for oddity in oddities(episode, spec):
        yield Finding("warning", entry.path, f"episode {entry.episode_id}: {oddity}", "look at it: `robotrl data show`")
