"""Training windows: an observation history, with pictures where wanted, and the action chunk that follows."""

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np

from robotrl import seeds
from robotrl.data.cache import TrainingCache
from robotrl.data.draws import PriorityDraw, Proportional, Sampling
from robotrl.data.images import Images
from robotrl.errors import ConfigurationError, DataError
from robotrl.interfaces import Columns
from robotrl.types import Bool, Float32, Int64, Windows

_PROPORTIONAL = Proportional()


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
    the last that is. The i-th batch depends on the seed, i, and the data, so that a number is all the state there is;
    with `Prioritised` it depends on the priorities too, which are not part of that state.
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
        sampling: Sampling = _PROPORTIONAL,
        images: Mapping[str, Images] | None = None,
    ) -> None:
        """Prepare the draw.

        Args:
            cache: the episodes to draw from.
            labels: columns of at least these episodes: `weight` ≥ 0, the sampling mass of the window at a tick;
                `target`, 0 or 1; all of them come along in `Windows.columns`, beside `importance` in (0, 1].
            history: L.
            horizon: H.
            batch: B, windows a draw.
            seed: of the draws.
            sampling: how windows are drawn.
            images: camera → its frames in the same episodes; they come along in `Windows.images`.

        Raises:
            DataError: no episodes, missing columns, values that are not finite, no weight at all, or images of other
                episodes.
            ConfigurationError: history, horizon or batch below 1.
        """
        if min(history, horizon, batch) < 1:
            raise ConfigurationError(f"history {history}, horizon {horizon} and batch {batch} must be at least 1")
        self._horizon, self._batch, self._seed, self._drawn = horizon, batch, seed, 0
        self._past = np.arange(history - 1, -1, -1)
        self._ahead = np.arange(horizon)
        self._sampling = sampling
        self._use(cache, labels, images or {})

    def _use(self, cache: TrainingCache, labels: Mapping[str, Columns], images: Mapping[str, Images]) -> None:
        columns = _flatten(cache, labels)
        for name, frames in images.items():
            if frames.ids != cache.ids:
                raise DataError(f"the images of camera '{name}' are of other episodes than the cache: build both anew")
        end = np.cumsum(cache.length)
        source = np.concatenate([cache.source[a : a + t] for a, t in zip(cache.start, cache.length, strict=True)])
        self._draw = self._sampling.prepare(columns["weight"], source)
        lasting = run_lengths(columns["target"] > 0, np.repeat(end, cache.length))
        self._run = np.minimum(lasting, self._horizon).astype(np.int32)
        self._cache, self._columns, self._images, self._end = cache, columns, images, end
        self._offset = cache.start - (end - cache.length)

    @property
    def ids(self) -> tuple[str, ...]:
        """The episodes that windows are drawn from."""
        return self._cache.ids

    @property
    def ticks(self) -> int:
        """Number of ticks of all episodes, the windows there are."""
        return len(self._run)

    def sample(self) -> Windows:
        """The next batch."""
        rng = seeds.generator(self._seed, "windows", self._drawn)
        self._drawn += 1
        ticks, importance = self._draw(self._batch, rng)
        return self.gather(ticks, importance)

    def gather(self, ticks: Int64, importance: Float32 | None = None) -> Windows:
        """The windows at `ticks` (B,) of the concatenated episodes, 0 ≤ tick < `self.ticks`."""
        episode = np.searchsorted(self._end, ticks, "right")
        row, run = ticks + self._offset[episode], self._run[ticks]
        tick = row - self._cache.start[episode]
        back = np.minimum(self._past, tick[:, None])
        ahead = row[:, None] + np.minimum(self._ahead, np.maximum(run - 1, 0)[:, None])
        columns = {name: column[ticks] for name, column in self._columns.items()}
        shown = tick[:, None] - back
        return Windows(
            states=self._cache.state.take(row[:, None] - back, axis=0),
            actions=self._cache.action.take(ahead, axis=0),
            mask=self._ahead < run[:, None],
            next_states=self._cache.state.take(row + run, axis=0),
            columns=columns | {"importance": np.ones(len(ticks), np.float32) if importance is None else importance},
            episode=episode.astype(np.int32),
            tick=tick.astype(np.int32),
            source=self._cache.source[row],
            images={name: frames.gather(episode, shown) for name, frames in self._images.items()},
        )

    def prioritise(self, windows: Windows, priority: Float32) -> None:
        """Set the priorities (B,) of windows that were drawn; `ConfigurationError` unless sampling is `Prioritised`."""
        draw = self._draw
        if not isinstance(draw, PriorityDraw):
            raise ConfigurationError(f"{type(self._sampling).__name__} has no priorities: sample with Prioritised")
        draw.update(self._end[windows.episode] - self._cache.length[windows.episode] + windows.tick, priority)

    def refresh(
        self, cache: TrainingCache, labels: Mapping[str, Columns], images: Mapping[str, Images] | None = None
    ) -> None:
        """Go on with the data of a newer snapshot, at the same place.

        Batches are those of a sampler made with this data and brought to this place by `load_state`. Priorities of
        episodes that were there stay; the new ones begin with the largest of them.
        """
        before, known, first = self._draw, self._cache, self._end - self._cache.length
        self._use(cache, labels, images or {})
        if isinstance(before, PriorityDraw) and isinstance(self._draw, PriorityDraw):
            old = {i: slice(a, a + t) for i, a, t in zip(known.ids, first, known.length, strict=True)}
            largest = before.priority.max()
            kept = [
                before.priority[old[i]] if i in old else np.full(t, largest)
                for i, t in zip(cache.ids, cache.length, strict=True)
            ]
            self._draw.update(np.arange(self.ticks), np.concatenate(kept))

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
    if "importance" in names:
        raise DataError("a column cannot be called 'importance': the sampler gives one of that name")
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
