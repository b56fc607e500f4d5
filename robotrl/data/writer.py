"""The sink that commits episodes into a directory of its own."""

import zlib
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from robotrl.data.admission import require_admissible, warn_of_oddities
from robotrl.data.directory import WriterDirectory
from robotrl.data.entry import StoreEntry
from robotrl.data.episode_file import encode_episode
from robotrl.data.index import Commit, removal_record
from robotrl.data.names import require_name
from robotrl.data.repair import WriterRepair
from robotrl.data.spill import SpillDirectory
from robotrl.errors import DataError
from robotrl.specs import EnvironmentSpec
from robotrl.types import Episode


class EpisodeWriter:
    """A `Sink` that commits episodes into its own directory. One process has it at a time; not for several threads.

    What a dead writer of the same name left is put in order first. `DataError` when the journal is damaged.
    """

    def __init__(self, store: Path, name: str, spec: EnvironmentSpec) -> None:
        self.name = require_name("writer", name)
        self._spec, self._fingerprint = spec, spec.fingerprint
        self._directory = WriterDirectory(store, name)
        self._index = self._directory.index
        try:
            WriterRepair(self._directory.path, spec, self._index, self._directory.entries, self._directory).run()
        except BaseException:
            self._directory.close()
            raise
        self.spills = SpillDirectory(self._directory.path / "spills", spec)

    def on_episode(self, episode: Episode) -> None:
        """Commit the episode; it is durable on return.

        An episode that any writer committed with equal content is left alone, so a stage may run again from its
        start. One that was removed since is committed again.

        Raises:
            DataError: arrays of wrong type, length or width, states or actions that are not finite, an episode of
                another environment, or other content under the same id. Nothing was committed.
            StorageError: the disk is full or cannot be written to. Nothing was committed.
        """
        name = require_name("episode id", episode.meta.episode_id)
        require_admissible(episode, self._spec, self._fingerprint)
        content = encode_episode(episode)
        self._index.refresh()
        known = self._index.find(name)
        if known:
            self._require_equal(known, episode, content)
        else:
            warn_of_oddities(episode, self._spec)
            self._directory.commit(episode, content)
        self.spills.discard(name)

    def remove(self, ids: list[str], reason: str) -> None:
        """Hide the episodes from new snapshots, durably; all must be in the store."""
        self._index.refresh()
        self._index.check()
        unknown = [i for i in ids if not self._index.find(i)]
        if unknown:
            raise DataError(f"{len(unknown)} of {len(ids)} episodes are not in the store: {', '.join(unknown[:5])}")
        commits: list[Commit] = [commit for i in ids for commit in self._index.commits(i)]
        self._directory.append(removal_record(commits, reason))

    def close(self) -> None:
        """Give the directory up; ticks of episodes that still run stay spilled. Idempotent."""
        self.spills.close()
        self._directory.close()

    def __enter__(self) -> "EpisodeWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_equal(self, known: list[StoreEntry], episode: Episode, content: bytes) -> None:
        for entry in known:
            expected = content
            if entry.meta.code != episode.meta.code:  # other code that does the same is no contradiction
                expected = encode_episode(replace(episode, meta=replace(episode.meta, code=entry.meta.code)))
            if (entry.size, entry.crc) == (len(expected), zlib.crc32(expected)):
                return
        raise DataError(
            f"{known[0].path} was committed before with other content (stage '{episode.meta.stage}', seed "
            f"{episode.meta.seed}), and now comes from writer '{self.name}'. The stage did not repeat itself, perhaps "
            "because the code or the machine changed: start a new run directory."
        )
