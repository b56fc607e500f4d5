"""What a store holds, from one pass over its episodes with one of them in memory at a time."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields

import numpy as np

from robotrl.data.corrections import Corrections
from robotrl.data.frozen import FrozenCamera, frozen_cameras
from robotrl.data.ranges import ElementRange, RunningRange
from robotrl.data.snapshot import StoreSnapshot
from robotrl.errors import RobotRLError
from robotrl.specs import EnvironmentSpec
from robotrl.stats import wilson_interval
from robotrl.types import Episode, EpisodeMeta, Int64


@dataclass(frozen=True)
class Group:
    """Episodes of one task and source: how many succeeded, failed, or were cut without an outcome; `ticks` of all."""

    task: str
    source: str
    successes: int
    failures: int
    cut: int
    ticks: int

    @property
    def episodes(self) -> int:
        """All of them."""
        return self.successes + self.failures + self.cut

    @property
    def interval(self) -> tuple[float, float, float]:
        """Success rate among those with an outcome, and its Wilson 95 % interval; NaN when there are none."""
        n = self.successes + self.failures
        return (self.successes / n, *wilson_interval(self.successes, n)) if n else (np.nan, np.nan, np.nan)


@dataclass(frozen=True)
class Tally:
    """Sums over episodes.

    Attributes:
        seconds: of robot time.
        operator_s, orient_s, watch_s: of a person's driving, turning to a robot, and watching.
        takeovers: times a person took over; `human_ticks`: that they drove.
        starved_ticks: without an action ready; `clamped_ticks`: whose action had to be clamped.
        clock_ticks: at which time did not grow; `dropped_ticks`: missing by the gaps in time.
    """

    seconds: float = 0.0
    operator_s: float = 0.0
    orient_s: float = 0.0
    watch_s: float = 0.0
    takeovers: int = 0
    human_ticks: int = 0
    starved_ticks: int = 0
    clamped_ticks: int = 0
    clock_ticks: int = 0
    dropped_ticks: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Tally)))

    @staticmethod
    def of(episode: Episode) -> "Tally":
        """What one episode adds."""
        meta = episode.meta
        gaps = np.diff(episode.time_ns) * meta.control_hz / 1e9
        return Tally(
            seconds=episode.length / meta.control_hz,
            operator_s=meta.operator_s,
            orient_s=meta.orient_s,
            watch_s=meta.watch_s,
            takeovers=len(takeovers(episode)),
            human_ticks=int(episode.intervention.sum()),
            starved_ticks=int(episode.starved.sum()),
            clamped_ticks=int((episode.clamped > 0).sum()),
            clock_ticks=int((gaps <= 0).sum()),
            dropped_ticks=int(np.maximum(np.round(gaps) - 1, 0).sum()),
        )


@dataclass(frozen=True)
class Summary:
    """What `summarise` found.

    Attributes:
        groups: by task and source.
        tally: sums over all readable episodes.
        elements: ranges of state and action.
        equal_content: groups of ids whose states and actions are equal.
        equal_actions: groups of ids whose actions are equal, while their states differ.
        frozen: cameras that stood still.
        corrected: episodes whose outcome or instruction was corrected; what is counted is what was corrected.
        unreadable: (id, why) of damaged episodes, which are counted nowhere else.
    """

    groups: tuple[Group, ...]
    tally: Tally
    elements: tuple[ElementRange, ...]
    equal_content: tuple[tuple[str, ...], ...]
    equal_actions: tuple[tuple[str, ...], ...]
    frozen: tuple[FrozenCamera, ...]
    corrected: int
    unreadable: tuple[tuple[str, str], ...]

    @property
    def episodes(self) -> int:
        """All readable ones."""
        return sum(group.episodes for group in self.groups)

    @property
    def ticks(self) -> int:
        """Of all readable episodes."""
        return sum(group.ticks for group in self.groups)


def summarise(
    snapshot: StoreSnapshot, spec: EnvironmentSpec, corrections: Corrections, progress: Callable[[int, int], None]
) -> Summary:
    """Read every episode once. A damaged one is named and does not stop the rest."""
    running = _Running(RunningRange(spec.state), RunningRange(spec.action))
    unreadable: list[tuple[str, str]] = []
    for done, entry in enumerate(snapshot.entries, 1):
        try:
            running.add(corrections.episode(snapshot.read(entry)))
        except RobotRLError as error:
            unreadable.append((entry.episode_id, str(error)))
        progress(done, len(snapshot))
    corrected = sum(i in corrections.by_id for i in snapshot.ids)
    return running.summary(corrected, tuple(unreadable))


@dataclass
class _Running:
    """Sums over episodes; only ids and digests grow with their number."""

    state: RunningRange
    action: RunningRange
    groups: dict[tuple[str, str], Int64] = field(default_factory=lambda: defaultdict(lambda: np.zeros(4, np.int64)))
    tally: Tally = Tally()
    by_content: dict[bytes, list[str]] = field(default_factory=lambda: defaultdict(list))
    by_actions: dict[bytes, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    frozen: list[FrozenCamera] = field(default_factory=list[FrozenCamera])

    def add(self, episode: Episode) -> None:
        """Take in one episode."""
        meta = episode.meta
        self.frozen += frozen_cameras(episode)
        self.state.add(episode.state)
        self.action.add(episode.action)
        self.groups[meta.task, meta.source] += [*_outcome(meta), episode.length]
        self.tally += Tally.of(episode)
        actions = hashlib.blake2b(episode.action.tobytes(), digest_size=16)
        content = actions.copy()
        content.update(episode.state.tobytes())
        if content.digest() not in self.by_content:
            self.by_actions[actions.digest()].append(content.digest())
        self.by_content[content.digest()].append(meta.episode_id)

    def summary(self, corrected: int, unreadable: tuple[tuple[str, str], ...]) -> Summary:
        """What was taken in."""
        groups = (Group(*key, *map(int, counts)) for key, counts in sorted(self.groups.items()))
        alike = [[i for d in found for i in self.by_content[d]] for found in self.by_actions.values() if len(found) > 1]
        return Summary(
            groups=tuple(groups),
            tally=self.tally,
            elements=self.state.elements() + self.action.elements(),
            equal_content=_groups(ids for ids in self.by_content.values() if len(ids) > 1),
            equal_actions=_groups(alike),
            frozen=tuple(self.frozen),
            corrected=corrected,
            unreadable=unreadable,
        )


def takeovers(episode: Episode) -> list[tuple[int, int]]:
    """Stretches [start, stop) of ticks that a person drove."""
    edges = np.flatnonzero(np.diff(episode.intervention.astype(np.int8), prepend=0, append=0))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def _outcome(meta: EpisodeMeta) -> tuple[bool, bool, bool]:
    return meta.outcome == "success", meta.outcome == "failure", meta.outcome is None


def _groups(found: Iterable[list[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted(tuple(sorted(ids)) for ids in found))
