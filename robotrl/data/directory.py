"""One writer's directory, and the commit protocol.

    lock            held while the writer lives; the operating system frees it with the process
    staging/        invisible; swept when the directory is opened again
    episodes/       <id>.zarr.zip, immutable
    segments/       <number>.zip, many episodes each, once they are packed
    spills/         <id>.spill, the ticks of running episodes
    journal.jsonl   one line a committed episode, a removal or a segment
    quarantine/     what does not read, kept for a person to look at

An episode exists once its journal line is whole: stage, sync, rename, sync the directory, append the line, sync.
A crash between rename and line leaves a complete file without a line; as it was synced before it got its name, the
next writer takes it up. It was never acknowledged, so taking it up or not are both right, and keeping data is better.
"""

import zlib
from collections.abc import Mapping
from pathlib import Path

from robotrl.data.durable import FileLock, ensure_directory, storage_errors, sync_directory, write_durable
from robotrl.data.entry import JOURNAL, StoreEntry
from robotrl.data.episode_file import SUFFIX
from robotrl.data.index import StoreIndex
from robotrl.data.journal import JSON, JournalWriter
from robotrl.types import Episode


class WriterDirectory:
    """A writer's directory, held by this process until `close`.

    `index` is the whole store, `entries` what this writer's journal says. `RunBusyError` while another process has
    the directory, `DataError` when its journal is damaged.
    """

    def __init__(self, store: Path, name: str) -> None:
        self.path = store / "writers" / name
        self.staging = ensure_directory(self.path / "staging")
        self.episodes = ensure_directory(self.path / "episodes")
        self.index = StoreIndex(store)
        self._lock = FileLock(self.path / "lock")
        try:
            with storage_errors("create", self.path / JOURNAL):
                (self.path / JOURNAL).touch()
            self.index.refresh()
            self.entries = self.index.journals[name]
            if self.entries.error is not None:
                raise self.entries.error
            self.journal = JournalWriter(self.path / JOURNAL, self.entries.end)
        except BaseException:
            self._lock.release()
            raise

    def commit(self, episode: Episode, content: bytes) -> StoreEntry:
        """Commit the episode as its encoded `content`; it is durable on return."""
        final = self.episodes / f"{episode.meta.episode_id}{SUFFIX}"
        write_durable(self.staging / final.name, final, content)
        entry = StoreEntry.of(episode, self.path, f"episodes/{final.name}", len(content), zlib.crc32(content))
        self.append(entry.to_json())
        return entry

    def quarantine(self, path: Path) -> None:
        """Move a file of this directory where nobody takes it for an episode; an earlier one is kept too."""
        target = ensure_directory(self.path / "quarantine") / path.name
        number = 1
        while target.exists():
            number += 1
            target = target.with_name(f"{path.name}.{number}")
        with storage_errors("move", path):
            path.rename(target)
            sync_directory(target.parent)
            sync_directory(path.parent)

    def append(self, record: Mapping[str, JSON]) -> None:
        """Append a line to the journal, durably, and take it in."""
        self.journal.append(record)
        self.index.refresh()

    def close(self) -> None:
        """Give the directory up. Idempotent."""
        self.journal.close()
        self._lock.release()
