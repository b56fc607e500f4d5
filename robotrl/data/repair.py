"""Putting one writer's directory in order after its writer died. Whoever holds the directory may do it."""

import logging
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from robotrl.data.admission import require_admissible
from robotrl.data.directory import WriterDirectory
from robotrl.data.durable import storage_errors
from robotrl.data.entry import StoreEntry
from robotrl.data.episode_file import SUFFIX, encode_episode, read_episode
from robotrl.data.index import StoreIndex, WriterJournal, segment_record
from robotrl.data.salvage import read_spill
from robotrl.data.segment import SegmentMember, segment_members
from robotrl.data.spill import SPILL_SUFFIX
from robotrl.errors import DataError
from robotrl.specs import EnvironmentSpec
from robotrl.types import Episode

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Repair:
    """One thing that was, or would be, put in order: the file, and what was done to it."""

    path: Path
    action: str


class WriterRepair:
    """Repairs one directory, or with `held` None only says what it would do.

    Args:
        path: the writer's directory.
        spec: the store's environment.
        index: the whole store, to tell what is committed elsewhere.
        journal: what this writer's journal says.
        held: the directory, where repairs are wanted.
    """

    def __init__(
        self,
        path: Path,
        spec: EnvironmentSpec,
        index: StoreIndex,
        journal: WriterJournal,
        held: WriterDirectory | None,
    ) -> None:
        self._path, self._spec, self._index, self._journal, self._held = path, spec, index, journal, held
        self._fingerprint = spec.fingerprint
        self.repairs: list[Repair] = []

    def run(self) -> list[Repair]:
        """Sweep staging; take up files that no line names; finish interrupted packing; salvage spilled ticks."""
        for path in self._files("staging", ""):
            self._do(path, "removed: it was never committed", lambda _, path=path: path.unlink())
        for path in self._files("segments", ".zip"):
            self._segment(path)
        self._episodes()
        for path in self._files("spills", SPILL_SUFFIX):
            self._spill(path)
        return self.repairs

    def _files(self, folder: str, suffix: str) -> list[Path]:
        directory = self._path / folder
        if not directory.is_dir():
            return []
        with storage_errors("read", directory):
            return [directory / name for name in sorted(os.listdir(directory)) if name.endswith(suffix)]

    def _do(self, path: Path, action: str, function: Callable[[WriterDirectory], None]) -> None:
        self.repairs.append(Repair(path, action))
        if self._held is not None:
            with storage_errors("repair", path):
                function(self._held)
            _LOG.info("%s: %s", path, action)

    def _episodes(self) -> None:
        """Take up episode files that no line names; remove those whose bytes were packed."""
        entries = self._journal.entries.values()
        here = {entry.file for entry in entries}
        packed = {f"{entry.episode_id}{SUFFIX}": entry for entry in entries if entry.packed}
        for path in self._files("episodes", SUFFIX):
            if f"episodes/{path.name}" in here:
                continue
            entry = packed.get(path.name)
            if entry is not None and entry.path.exists() and path.stat().st_size == entry.size:
                self._do(path, f"removed: it was packed into {entry.path.name}", lambda _, path=path: path.unlink())
            else:
                self._adopt_file(path)

    def _adopt_file(self, path: Path) -> None:
        try:
            episode = read_episode(path)
            self._require_new(episode)
        except DataError as error:
            self._do(path, f"moved to quarantine: {error}", lambda held: held.quarantine(path))
            return
        member = SegmentMember(path.name, 0, path.stat().st_size, _crc(path))
        self._do(path, "taken up: its commit was interrupted", lambda held: _adopt(held, path, member, episode))

    def _segment(self, path: Path) -> None:
        """Take up what no line names of a segment, or remove it where all its episodes still lie elsewhere."""
        file = f"segments/{path.name}"
        here = {entry.offset for entry in self._journal.entries.values() if entry.file == file}
        if here and path not in self._journal.orphaned:
            return
        try:
            members = segment_members(path)
        except DataError as error:
            self._do(path, f"moved to quarantine: {error}", lambda held: held.quarantine(path))
            return
        lines = {(e.size, e.crc): line for line, e in self._journal.entries.items()}
        lost = [m for m in members if m.start not in here and not self._is_whole(lines.get((m.size, m.crc)))]
        if not lost and not here:
            self._do(path, "removed: packing was interrupted and will begin again", lambda _: path.unlink())
        moved = [(lines[m.size, m.crc], m.start) for m in lost if (m.size, m.crc) in lines]
        if moved:
            record = segment_record(file, moved)
            self._do(path, f"taken up again with {len(moved)} episodes", lambda held: held.append(record))
        for member in lost:
            if (member.size, member.crc) not in lines:
                self._adopt_member(path, member)

    def _is_whole(self, line: int | None) -> bool:
        return line is not None and self._journal.entries[line].path.exists()

    def _adopt_member(self, path: Path, member: SegmentMember) -> None:
        try:
            episode = read_episode(path, offset=member.start, size=member.size)
            self._require_new(episode)
        except DataError as error:
            self.repairs.append(Repair(path, f"left alone: the member {member.name} is not taken up: {error}"))
            return
        self._do(path, f"taken up its {member.name}", lambda held: _adopt(held, path, member, episode))

    def _require_new(self, episode: Episode) -> None:
        require_admissible(episode, self._spec, self._fingerprint)
        others = self._index.find(episode.meta.episode_id)
        if others:
            raise DataError(f"episode {episode.meta.episode_id} was committed meanwhile as {others[0].path}")

    def _spill(self, path: Path) -> None:
        """Commit the whole ticks of an episode that was running, under an id of its own."""
        try:
            spilled = read_spill(path, self._spec)
            if spilled.length:
                require_admissible(spilled, self._spec, self._fingerprint)
        except DataError as error:
            self._do(path, f"moved to quarantine: {error}", lambda held: held.quarantine(path))
            return
        salvaged_id = f"{spilled.meta.episode_id[:80]}-salvaged-{_crc(path):08x}"
        if self._index.find(spilled.meta.episode_id) or self._index.find(salvaged_id):
            self._do(path, "removed: the episode was committed", lambda _: path.unlink())
        elif not spilled.length:
            self._do(path, "removed: no tick was whole", lambda _: path.unlink())
        else:
            episode = replace(spilled, meta=replace(spilled.meta, episode_id=salvaged_id))
            self._do(
                path, f"salvaged {episode.length} ticks as {salvaged_id}", lambda held: _salvage(held, path, episode)
            )


def _adopt(held: WriterDirectory, path: Path, member: SegmentMember, episode: Episode) -> None:
    file = f"{path.parent.name}/{path.name}"
    entry = StoreEntry.of(episode, held.path, file, member.size, member.crc, member.start)
    held.append(entry.to_json())


def _salvage(held: WriterDirectory, path: Path, episode: Episode) -> None:
    held.commit(episode, encode_episode(episode))
    path.unlink()


def _crc(path: Path) -> int:
    with storage_errors("read", path):
        return zlib.crc32(path.read_bytes())
