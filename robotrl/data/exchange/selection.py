"""Which episodes are exported, and whether they fit into one data set."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from robotrl.data.corrections import Corrections, read_corrections
from robotrl.data.entry import StoreEntry
from robotrl.data.snapshot import StoreSnapshot
from robotrl.data.store import EpisodeStore
from robotrl.errors import DataError
from robotrl.specs import EnvironmentSpec
from robotrl.types import Episode, EpisodeMeta


@dataclass(frozen=True)
class Selection:
    """Episodes of one environment, and what was said of them since they were recorded."""

    spec: EnvironmentSpec
    snapshot: StoreSnapshot
    corrections: Corrections

    @staticmethod
    def of(store: EpisodeStore) -> "Selection":
        """All episodes of the store at this moment."""
        return Selection(store.spec, store.snapshot(), read_corrections(store))


@dataclass(frozen=True)
class Item:
    """One episode to export."""

    selection: Selection
    entry: StoreEntry

    @property
    def meta(self) -> EpisodeMeta:
        """Its metadata as corrected."""
        return self.selection.corrections.meta(self.entry.meta)

    @property
    def instruction(self) -> str:
        """What the robot was told, or the task's name where nobody told it anything."""
        return self.meta.instruction or self.meta.task

    def read(self, *, verify: bool = True) -> Episode:
        """The episode, its metadata as corrected."""
        return replace(self.selection.snapshot.read(self.entry, verify=verify), meta=self.meta)


@dataclass(frozen=True)
class Export:
    """Episodes that fit into one data set, in order, and what all of them share.

    `cameras`: camera name → (height, width).
    """

    items: tuple[Item, ...]
    cameras: dict[str, tuple[int, int]]

    @property
    def spec(self) -> EnvironmentSpec:
        """The first environment; all have its state, actions and control rate."""
        return self.items[0].selection.spec

    @cached_property
    def environments(self) -> dict[str, EnvironmentSpec]:
        """Fingerprint → environment, of all episodes."""
        specs = {id(item.selection): item.selection.spec for item in self.items}
        return {spec.fingerprint: spec for spec in specs.values()}

    @cached_property
    def instructions(self) -> tuple[str, ...]:
        """All instructions, in the order in which they first occur."""
        return tuple(dict.fromkeys(item.instruction for item in self.items))

    def fingerprint(self, purpose: str) -> str:
        """Hex digits that change with any episode and with `purpose`."""
        lines = [f"{purpose} {' '.join(self.environments)}"]
        lines += [
            f"{item.entry.episode_id} {item.entry.size} {item.entry.crc} {item.meta.outcome} {item.meta.instruction}"
            for item in self.items
        ]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def plan_export(selections: Sequence[Selection]) -> Export:
    """What an export of the selections, in this order, will hold. Opens every episode, so that nothing fails late.

    Raises `DataError` when there are no episodes, or when environments or cameras differ.
    """
    items = tuple(Item(s, entry) for s in selections for entry in s.snapshot.entries)
    if not items:
        raise DataError("there are no episodes to export: choose another store, or widen the selection")
    for other in selections[1:]:
        _require_agreement(selections[0].spec, other.spec)
    cameras = _cameras(items[0])
    for item in items:
        found = _cameras(item)
        if found != cameras:
            raise DataError(
                f"episode {item.entry.episode_id} has the cameras (height, width) {found or 'none'}, and episode "
                f"{items[0].entry.episode_id} {cameras or 'none'}: export episodes with equal cameras only"
            )
    return Export(items, cameras)


def _cameras(item: Item) -> dict[str, tuple[int, int]]:
    cameras = item.read(verify=False).cameras
    for name, camera in cameras.items():
        if not len(camera.tick):
            raise DataError(f"episode {item.entry.episode_id}: camera '{name}' took no picture: leave the episode out")
    return {name: (c.frames.shape[1], c.frames.shape[2]) for name, c in sorted(cameras.items())}


def _require_agreement(first: EnvironmentSpec, other: EnvironmentSpec) -> None:
    ours, theirs = (
        {
            "state": (s.state.elements, s.state.units),
            "action": (s.action.elements, s.action.units),
            "control_hz": s.control_hz,
        }
        for s in (first, other)
    )
    for name, value in ours.items():
        if value != theirs[name]:
            raise DataError(
                f"tasks '{first.task}' and '{other.task}' differ in {name}: {value} and {theirs[name]}. "
                "They cannot share a data set: export them one by one."
            )
