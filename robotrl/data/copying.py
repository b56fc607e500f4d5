"""Bringing stores together and taking them apart. Episodes keep their ids and bytes, and their corrections come along.

Other annotations stay behind: they were made for the episodes of one store (weights sum to one over them), and are
made again for the new one. A copy that was interrupted goes on when it is repeated.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from robotrl.data.corrections import Correction, Corrections, read_corrections, write_corrections
from robotrl.data.entry import StoreEntry
from robotrl.data.snapshot import StoreSnapshot
from robotrl.data.store import EpisodeStore
from robotrl.errors import ConfigurationError, DataError

Progress = Callable[[int, int], None]
"""Called with (done, total) episodes."""
By = Literal["source", "stage", "outcome"]


@dataclass(frozen=True)
class CopyReport:
    """What a copy into the store at `target` did: episodes it took, and those that were there already."""

    target: Path
    copied: int
    present: int


def merge_stores(sources: Sequence[Path], target: Path, progress: Progress) -> CopyReport:
    """Copy the episodes of all `sources` into `target`, a store of the same environment or a new one.

    Where two sources correct one episode differently, the later source wins.

    Raises:
        DataError: two environments, or one id with different content. Nothing was copied.
    """
    first = EpisodeStore.open(sources[0])
    stores = [first, *(EpisodeStore.open(source, first.spec) for source in sources[1:])]
    if any(store.root.resolve() == target.resolve() for store in stores):
        raise ConfigurationError(f"{target} is a source and the target: name a third directory, or leave it out above")
    there = _open_target(target, first)
    parts = [(store.snapshot(), store) for store in stores]
    _require_agreement([*(snapshot for snapshot, _ in parts), there])
    wanted = {entry.episode_id: (entry, snapshot) for snapshot, _ in parts for entry in snapshot.entries}
    corrections: dict[str, Correction] = {}
    for _, store in parts:
        found = read_corrections(store).by_id
        corrections |= {i: c.over(corrections.get(i, Correction())) for i, c in found.items()}
    return _copy(list(wanted.values()), EpisodeStore.create(target, first.spec), corrections, progress)


def split_by(store: EpisodeStore, by: By) -> dict[str, StoreSnapshot]:
    """The store's episodes by what their metadata, as corrected, say: name of the part → its episodes."""
    corrections = read_corrections(store)
    snapshot = store.snapshot()
    values = {entry.episode_id: _value(entry, by, corrections) for entry in snapshot.entries}
    parts: dict[str, str] = {}
    for value in sorted(set(values.values())):
        part = re.sub(r"[^A-Za-z0-9._-]+", "-", value).strip("-.") or "none"
        if part in parts:
            raise ConfigurationError(f"{by} '{value}' and '{parts[part]}' would both be written to '{part}'")
        parts[part] = value
    return {part: snapshot.select(i for i, v in values.items() if v == value) for part, value in parts.items()}


def split_by_share(store: EpisodeStore, share: float, seed: int) -> dict[str, StoreSnapshot]:
    """Parts "train", with the expected `share` in (0, 1) of the episodes, and "held-out".

    Where an episode goes depends on its id and `seed` alone, so it stays as the store grows.
    """
    if not 0 < share < 1:
        raise ConfigurationError(f"share={share:g}: expected a number between 0 and 1, as share=0.9")
    snapshot = store.snapshot()
    inside = {i for i in snapshot.ids if _fraction(i, seed) < share}
    outside = set(snapshot.ids) - inside
    return {"train": snapshot.select(inside), "held-out": snapshot.select(outside)}


def write_parts(
    store: EpisodeStore, parts: Mapping[str, StoreSnapshot], target: Path, progress: Progress
) -> list[CopyReport]:
    """Write each part as a store of its own, `target`/<part>.

    Raises `DataError`, and copies nothing, where such a directory is a store of another environment or holds an
    episode with other content.
    """
    for part, snapshot in parts.items():
        _require_agreement([snapshot, _open_target(target / part, store)])
    corrections, total = read_corrections(store).by_id, sum(len(snapshot) for snapshot in parts.values())
    reports: list[CopyReport] = []
    done = 0
    for part, snapshot in parts.items():
        entries = [(entry, snapshot) for entry in snapshot.entries]
        own = {i: corrections[i] for i in snapshot.ids if i in corrections}
        before = done
        created = EpisodeStore.create(target / part, store.spec)
        reports.append(_copy(entries, created, own, lambda n, _, before=before: progress(before + n, total)))
        done += len(snapshot)
    return reports


def _open_target(target: Path, like: EpisodeStore) -> StoreSnapshot:
    """What the target holds already; empty when it does not exist."""
    if (target / "store.json").exists():
        return EpisodeStore.open(target, like.spec).snapshot()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DataError(f"{target} exists and is no episode store: choose another path")
    return StoreSnapshot((), {})


def _require_agreement(snapshots: Sequence[StoreSnapshot]) -> None:
    """Raise `DataError` where an id stands for different episodes; ids are hashes, so these come from changed code."""
    known: dict[str, StoreEntry] = {}
    for snapshot in snapshots:
        for entry in snapshot.entries:
            other = known.setdefault(entry.episode_id, entry)
            if (other.crc, other.size) != (entry.crc, entry.size):
                raise DataError(
                    f"episode {entry.episode_id} has different content in {other.path} and {entry.path}: remove one "
                    "of them with `robotrl data rm`. Nothing was copied."
                )


def _copy(
    wanted: Sequence[tuple[StoreEntry, StoreSnapshot]],
    target: EpisodeStore,
    corrections: Mapping[str, Correction],
    progress: Progress,
) -> CopyReport:
    there = set(target.snapshot().ids)
    copied = 0
    with target.writer() as writer:
        for done, (entry, snapshot) in enumerate(wanted, 1):
            if entry.episode_id not in there:
                writer.on_episode(snapshot.read(entry))
                copied += 1
            progress(done, len(wanted))
    held, ids = read_corrections(target).by_id, {entry.episode_id for entry, _ in wanted}
    new = {i: c for i, c in corrections.items() if i in ids and c.over(held.get(i, Correction())) != held.get(i)}
    if new:
        write_corrections(target, new, "copied with the episodes")
    return CopyReport(target.root, copied, len(wanted) - copied)


def _value(entry: StoreEntry, by: By, corrections: Corrections) -> str:
    meta = corrections.meta(entry.meta)
    return {"source": meta.source, "stage": meta.stage, "outcome": meta.outcome or "cut"}[by]


def _fraction(episode_id: str, seed: int) -> float:
    return int.from_bytes(hashlib.sha256(f"{seed}\0{episode_id}".encode()).digest()[:8]) / 2**64
