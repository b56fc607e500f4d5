"""What a reader sees of a store: the episodes of the journals, pinned at one moment."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from robotrl.data.entry import StoreEntry, read_entry
from robotrl.data.index import WriterJournal
from robotrl.errors import DataError, RobotRLError, unknown_name
from robotrl.types import Episode

_MOVES = 3  # an episode that moves more often while it is being read is not moving but broken


@dataclass(frozen=True)
class StoreSnapshot:
    """Episodes in the order of their ids, whatever was committed since.

    Attributes:
        entries: the episodes.
        offsets: writer → byte at which its journal was pinned; with them `EpisodeStore.snapshot` gives the same again.
    """

    entries: tuple[StoreEntry, ...]
    offsets: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def ids(self) -> tuple[str, ...]:
        """Episode ids in order."""
        return tuple(entry.episode_id for entry in self.entries)

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits that change with any episode in the snapshot, for lineage."""
        content = "\n".join(f"{entry.episode_id} {entry.crc:08x}" for entry in self.entries)
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    def filter(
        self,
        *,
        stage: str | None = None,
        source: str | None = None,
        outcome: Literal["success", "failure", "cut"] | None = None,
    ) -> "StoreSnapshot":
        """The episodes that match every argument given; `outcome="cut"` are those without one."""
        return self._keep(
            entry
            for entry in self.entries
            if (stage is None or entry.meta.stage == stage)
            and (source is None or entry.meta.source == source)
            and (outcome is None or (entry.meta.outcome or "cut") == outcome)
        )

    def select(self, ids: Iterable[str]) -> "StoreSnapshot":
        """The episodes with these ids, all of which must be here."""
        wanted = set(ids)
        unknown = sorted(wanted.difference(self.ids))
        if unknown:
            raise DataError(f"{len(unknown)} of {len(wanted)} episodes are not in the store: {', '.join(unknown[:5])}")
        return self._keep(entry for entry in self.entries if entry.episode_id in wanted)

    def resolve(self, words: Iterable[str]) -> list[str]:
        """Episode ids, in the order given and each once, from ids or from beginnings that fit one id only."""
        return list(dict.fromkeys(_resolve(self.ids, word) for word in words))

    def _keep(self, entries: Iterable[StoreEntry]) -> "StoreSnapshot":
        return replace(self, entries=tuple(entries))

    def read(self, entry: StoreEntry, *, verify: bool = True) -> Episode:
        """The episode, its arrays mapped into memory; with `verify` the bytes must be exactly what was committed.

        Bytes that were packed since the snapshot was taken are found where they are now.
        """
        for _ in range(_MOVES):
            try:
                return read_entry(entry, verify=verify)
            except RobotRLError:
                moved = locate(entry)
                if moved.path == entry.path:
                    raise
                entry = moved
        return read_entry(entry, verify=verify)

    def episodes(self) -> Iterator[Episode]:
        """Every episode in order, one in memory at a time."""
        for entry in self.entries:
            yield self.read(entry)


def _resolve(ids: tuple[str, ...], word: str) -> str:
    if word in ids:
        return word
    begun = [i for i in ids if word and i.startswith(word)]
    if len(begun) > 1:
        raise DataError(f"'{word}' is the beginning of {len(begun)} ids, among them {begun[0]} and {begun[1]}")
    if not begun:
        raise unknown_name("episode", word, ids)
    return begun[0]


def locate(entry: StoreEntry) -> StoreEntry:
    """The entry with the place where its bytes lie now; unchanged if its writer's journal does not know better."""
    if entry.path.exists():
        return entry
    journal = WriterJournal(entry.writer)
    journal.refresh()
    key = (entry.episode_id, entry.size, entry.crc)
    return next((e for e in reversed(journal.entries.values()) if (e.episode_id, e.size, e.crc) == key), entry)
