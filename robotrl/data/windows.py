"""Training windows: an observation history and the action chunk that follows, drawn in proportion to a weight."""

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np

from robotrl import seeds
from robotrl.data.cache import SOURCES, TrainingCache
from robotrl.errors import ConfigurationError, DataError
from robotrl.interfaces import Columns
from robotrl.types import Bool, Float32, Int64, Windows

__all__ = ["SOURCES", "WindowSampler", "run_lengths", "validation_split"]


def validation_split(ids: Iterable[str], share: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Training and validation ids, in order. Where an id goes depends on it alone, so it stays as the store grows.

    `share` in [0, 1) is the expected part of `validation`.
    """
    if not 0 <= share < 1:
        raise ConfigurationError(f"the validation share is {share}; expected 0 <= share < 1")
    ordered = sorted(ids)
    held_out = {i for i in ordered if int.from_bytes(hashlib.sha256(i.encode()).digest()[:8]) < share * 2**64}
    return tuple(i for i in ordered if i not in held_out), tuple(i for i in ordered if i in held_out)


def run_lengths(target: Bool, end: Int64) -> Int64:
    """For every tick of concatenated episodes, (T,), the number of consecutive targets from it on, within its episode.

    Args:
        target: (T,) whether the action of the tick may be imitated.
        end: (T,) the tick after the last of the episode that the tick belongs to.
    """
    ticks = np.arange(len(target))
    misses = np.where(target, len(target), ticks)
    next_miss = np.minimum.accumulate(misses[::-1])[::-1]
    return np.minimum(next_miss, end) - ticks


class WindowSampler:
    """Draws windows from a cache.

    A window at tick t has the states t − L + 1 … t (the first state repeats before the episode's beginning) and the
    actions t … t + H − 1. `mask[h]` is true while all of t … t + h are targets of this episode; later actions repeat
    the last that is. The i-th batch depends on the seed, i, and the data, so that a number is all the state there is.
    """

    def __init__(
        self,
        cache: TrainingCache,
        labels: Mapping[str, Columns],
        *,
        history: int,
        horizon: int,
        batch: int,
        seed: int,
    ) -> None:
        """Prepare the draw.

        Args:
            cache: the episodes to draw from.
            labels: columns of at least these episodes: `weight` ≥ 0, the sampling mass of the window at a tick;
                `target`, 0 or 1; all of them come along in `Windows.columns`.
            history: L.
            horizon: H.
            batch: B, windows a draw.
            seed: of the draws.

        Raises:
            DataError: no episodes, missing columns, values that are not finite, or no weight at all.
            ConfigurationError: history, horizon or batch below 1.
        """
        if min(history, horizon, batch) < 1:
            raise ConfigurationError(f"history {history}, horizon {horizon} and batch {batch} must be at least 1")
        self.ids = cache.ids
        self._cache, self._batch, self._seed, self._drawn = cache, batch, seed, 0
        self._columns = _flatten(cache, labels)
        end = np.cumsum(cache.length)
        self._episode = np.repeat(np.arange(len(cache.ids), dtype=np.int32), cache.length)
        self._tick = (np.arange(end[-1]) - (end - cache.length)[self._episode]).astype(np.int32)
        self._row = cache.start[self._episode] + self._tick
        self._run = np.minimum(run_lengths(self._columns["target"] > 0, end[self._episode]), horizon)
        self._mass = np.cumsum(self._columns["weight"], dtype=np.float64)
        self._past = np.arange(history - 1, -1, -1)
        self._ahead = np.arange(horizon)

    @property
    def ticks(self) -> int:
        """Number of ticks of all episodes, the windows there are."""
        return len(self._row)

    def sample(self) -> Windows:
        """The next batch."""
        # side="right" finds the first tick whose cumulative mass exceeds the draw: never one without weight.
        rng = seeds.generator(self._seed, "windows", self._drawn)
        self._drawn += 1
        return self.gather(np.searchsorted(self._mass, rng.random(self._batch) * self._mass[-1], side="right"))

    def gather(self, ticks: Int64) -> Windows:
        """The windows at `ticks` (B,) of the concatenated episodes, 0 ≤ tick < `self.ticks`."""
        row, run, tick = self._row[ticks], self._run[ticks], self._tick[ticks]
        past = row[:, None] - np.minimum(self._past, tick[:, None])
        ahead = row[:, None] + np.minimum(self._ahead, np.maximum(run - 1, 0)[:, None])
        return Windows(
            states=self._cache.state.take(past, axis=0),
            actions=self._cache.action.take(ahead, axis=0),
            mask=self._ahead < run[:, None],
            next_states=self._cache.state.take(row + run, axis=0),
            columns={name: column[ticks] for name, column in self._columns.items()},
            episode=self._episode[ticks],
            tick=tick,
            source=self._cache.source[row],
        )

    def state_dict(self) -> dict[str, int]:
        """What `load_state` needs to go on with the next batch, as JSON."""
        return {"seed": self._seed, "drawn": self._drawn}

    def load_state(self, state: Mapping[str, int]) -> None:
        """Go on where the sampler that gave `state` was."""
        self._seed, self._drawn = state["seed"], state["drawn"]


def _flatten(cache: TrainingCache, labels: Mapping[str, Columns]) -> dict[str, Float32]:
    """The columns of all episodes in the cache's order, concatenated and checked."""
    if not cache.ids:
        raise DataError("there are no episodes to train on: collect some, or widen the selection")
    unlabelled = [i for i in cache.ids if i not in labels]
    if unlabelled:
        raise DataError(f"{len(unlabelled)} of {len(cache.ids)} episodes have no labels, the first is {unlabelled[0]}")
    names = sorted({"weight", "target", *labels[cache.ids[0]]})
    sizes = dict(zip(cache.ids, cache.length, strict=True))
    columns = {name: np.concatenate([_column(labels, i, name, sizes[i]) for i in cache.ids]) for name in names}
    weight, target = columns["weight"], columns["target"]
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise DataError("column 'weight' has values that are negative or not finite; expected a mass of 0 or more")
    if not ((target == 0) | (target == 1)).all():
        raise DataError("column 'target' has values other than 0 and 1")
    if not weight.any():
        raise DataError("all weights are zero: the labels leave nothing to train on")
    return columns


def _column(labels: Mapping[str, Columns], episode: str, name: str, length: int) -> Float32:
    if name not in labels[episode]:
        raise DataError(f"the labels of episode {episode} lack '{name}'; they have {sorted(labels[episode])}")
    column = np.asarray(labels[episode][name], np.float32)
    if column.shape != (length,):
        raise DataError(f"column '{name}' of episode {episode} has the shape {column.shape}; expected ({length},)")
    return column
