"""The commit protocol of one writer's directory.

    lock            held while the writer lives
    staging/        invisible; swept when the writer opens
    episodes/       <id>.zarr.zip, immutable
    journal.jsonl   one line a committed episode
    quarantine/     files of `episodes/` that no journal line names and that do not read

An episode exists once its journal line is whole: stage, sync, rename, sync the directory, append the line, sync.
A crash between rename and line leaves a complete file without a line; as it was synced before it got its name, the
next writer takes it up. It was never acknowledged, so taking it up or not are both right, and keeping data is better.
"""

import logging
import zlib
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from robotrl.data.durable import FileLock, ensure_directory, storage_errors, sync_directory, write_durable
from robotrl.data.episode_file import SUFFIX, encode_episode, read_episode
from robotrl.data.journal import JournalWriter
from robotrl.data.names import require_name
from robotrl.data.snapshot import StoreEntry
from robotrl.errors import DataError
from robotrl.specs import EnvironmentSpec
from robotrl.types import Episode

_LOG = logging.getLogger(__name__)


class EpisodeWriter:
    """A `Sink` that commits episodes into its own directory. One process has it at a time; not for several threads."""

    def __init__(self, directory: Path, spec: EnvironmentSpec) -> None:
        self._spec, self._fingerprint = spec, spec.fingerprint
        self._staging = ensure_directory(directory / "staging")
        self._episodes = ensure_directory(directory / "episodes")
        self._quarantine = directory / "quarantine"
        self._lock = FileLock(directory / "lock")
        with ExitStack() as undo:
            undo.callback(self._lock.release)
            self._sweep()
            self._journal = JournalWriter(directory / "journal.jsonl")
            undo.callback(self._journal.close)
            entries = (StoreEntry.from_json(raw, self._episodes) for raw in self._journal.records)
            self._entries = {entry.episode_id: entry for entry in entries}
            self._adopt()
            undo.pop_all()

    def on_episode(self, episode: Episode) -> None:
        """Commit the episode; it is durable on return.

        An episode that is here already with equal content is left alone, so a stage may run again from its start.

        Raises:
            DataError: arrays of wrong type, length or width, states or actions that are not finite, an episode of
                another environment, or other content under the same id. Nothing was committed.
            StorageError: the disk is full or cannot be written to. Nothing was committed.
        """
        name = require_name("episode id", episode.meta.episode_id)
        self._require_environment(episode)
        content = encode_episode(episode)
        if name in self._entries:
            self._require_equal(self._entries[name], episode, content)
            return
        final = self._episodes / f"{name}{SUFFIX}"
        write_durable(self._staging / final.name, final, content)
        self._record(StoreEntry(final, episode.length, len(content), zlib.crc32(content), episode.meta))

    def close(self) -> None:
        """Give the directory up. Idempotent."""
        self._journal.close()
        self._lock.release()

    def __enter__(self) -> "EpisodeWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _record(self, entry: StoreEntry) -> None:
        self._journal.append(entry.to_json())
        self._entries[entry.episode_id] = entry

    def _sweep(self) -> None:
        with storage_errors("sweep", self._staging):
            for path in self._staging.iterdir():
                _LOG.info("removed %s, which was never committed", path)
                path.unlink()

    def _adopt(self) -> None:
        for path in sorted(self._episodes.glob(f"*{SUFFIX}")):
            if path.name.removesuffix(SUFFIX) in self._entries:
                continue
            try:
                episode = read_episode(path)
                self._require_environment(episode)
            except DataError as error:
                with storage_errors("move", path):
                    path.rename(ensure_directory(self._quarantine) / path.name)
                    sync_directory(self._episodes)
                _LOG.warning("moved an episode file that was never committed to %s: %s", self._quarantine, error)
                continue
            content = path.read_bytes()
            self._record(StoreEntry(path, episode.length, len(content), zlib.crc32(content), episode.meta))
            _LOG.info("took up %s, whose commit was interrupted", path)

    def _require_environment(self, episode: Episode) -> None:
        spec, meta, where = self._spec, episode.meta, f"episode {episode.meta.episode_id}"
        if meta.task != spec.task or meta.environment not in ("", self._fingerprint):
            raise DataError(
                f"{where} is of task '{meta.task}' ({meta.environment or 'no fingerprint'}); "
                f"the store holds '{spec.task}' ({self._fingerprint})"
            )
        if not episode.length:
            raise DataError(f"{where} has no ticks; an episode needs at least one")
        spec.state.require(episode.state)
        spec.action.require(episode.action)
        widths = {
            "privileged": (episode.privileged, spec.privileged.size),
            "physics": (episode.physics, spec.physics_size),
        }
        for name, (array, width) in widths.items():
            if array.shape[1:] != (width,):
                raise DataError(f"{where}: '{name}' has the shape {array.shape}; expected {width} columns")

    def _require_equal(self, entry: StoreEntry, episode: Episode, content: bytes) -> None:
        with storage_errors("read", entry.path):
            if entry.path.read_bytes() == content:
                return
        raise DataError(
            f"{entry.path} was committed before with other content (stage '{episode.meta.stage}', seed "
            f"{episode.meta.seed}). The stage did not repeat itself, perhaps because the code or the machine changed: "
            "start a new run directory."
        )
