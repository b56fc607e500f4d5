from dataclasses import replace

import numpy as np
import pytest

from robotrl.data import cache as cache_module
from robotrl.data.cache import SOURCES, TrainingCache, tick_sources
from robotrl.data.store import EpisodeStore
from robotrl.errors import DataError
from robotrl.types import ControlMode
from tests import builders
from tests.contracts.store import EPISODES


@pytest.fixture
def store(tmp_path):
    return EpisodeStore.create(tmp_path / "store", builders.spec())


def commit(store: EpisodeStore, *places: int) -> None:
    with store.writer() as writer:
        for place in places:
            writer.on_episode(EPISODES[place])


def index_of(store: EpisodeStore):
    (path,) = store.root.glob("cache/*/index.jsonl")
    return path


def assert_holds(cache: TrainingCache, places: list[int]) -> None:
    assert cache.ids == tuple(EPISODES[p].meta.episode_id for p in places)
    for i, place in enumerate(places):
        episode = EPISODES[place]
        assert cache.length[i] == episode.length
        rows = slice(cache.start[i], cache.start[i] + episode.length)
        np.testing.assert_array_equal(cache.state[cache.start[i] :][: episode.length + 1], episode.state)
        np.testing.assert_array_equal(cache.action[rows], episode.action_requested)
        np.testing.assert_array_equal(cache.source[rows], tick_sources(episode))


def test_the_cache_holds_the_episodes_in_the_order_of_ids(store):
    commit(store, 2, 0, 3, 1)
    assert_holds(TrainingCache.build(store, store.snapshot()), [0, 1, 2, 3])


def test_only_new_episodes_are_read(store, monkeypatch):
    commit(store, 1, 3)
    TrainingCache.build(store, store.snapshot())
    commit(store, 0, 2)
    read = []
    rows = cache_module._rows
    monkeypatch.setattr(cache_module, "_rows", lambda episode: (read.append(episode.meta.seed), rows(episode))[1])
    assert_holds(TrainingCache.build(store, store.snapshot()), [0, 1, 2, 3])
    assert sorted(read) == [EPISODES[0].meta.seed, EPISODES[2].meta.seed]
    TrainingCache.build(store, store.snapshot())
    assert len(read) == 2


def test_selections_share_the_cache_and_see_their_own_episodes(store):
    commit(store, 0, 1, 2, 3)
    snapshot = store.snapshot()
    assert_holds(TrainingCache.build(store, snapshot.select(snapshot.ids[2:])), [2, 3])
    assert_holds(TrainingCache.build(store, snapshot.filter(source="takeover")), [1, 3])
    assert_holds(TrainingCache.build(store, snapshot), [0, 1, 2, 3])
    assert len(list(store.root.glob("cache/*"))) == 1


def test_an_empty_selection_gives_an_empty_cache(store):
    cache = TrainingCache.build(store, store.snapshot())
    assert (cache.ids, cache.state.shape, cache.action.shape) == ((), (0, 11), (0, 4))


def test_rows_left_by_an_interrupted_build_are_written_over(store):
    commit(store, 0, 1)
    TrainingCache.build(store, store.snapshot())
    path = index_of(store)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:30])
    commit(store, 2)
    assert_holds(TrainingCache.build(store, store.snapshot()), [0, 1, 2])


@pytest.mark.parametrize("name", ["state.f4", "action.f4", "source.u1", "index.jsonl"])
@pytest.mark.parametrize("damage", ["remove", "cut"])
def test_a_damaged_cache_is_built_again(store, name, damage):
    commit(store, 0, 1)
    TrainingCache.build(store, store.snapshot())
    path = index_of(store).with_name(name)
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:10])
    assert_holds(TrainingCache.build(store, store.snapshot()), [0, 1])


def test_a_bit_flipped_in_the_index_rebuilds_the_cache(store):
    commit(store, 0, 1)
    TrainingCache.build(store, store.snapshot())
    path = index_of(store)
    path.write_bytes(path.read_bytes().replace(b'"start":0', b'"start":9'))
    assert_holds(TrainingCache.build(store, store.snapshot()), [0, 1])


def test_an_episode_that_was_replaced_is_read_again(store):
    commit(store, 0)
    TrainingCache.build(store, store.snapshot())
    changed = replace(EPISODES[0], action_requested=EPISODES[0].action_requested + 1)
    other = EpisodeStore.create(store.root.parent / "other", store.spec)
    with other.writer() as writer:
        writer.on_episode(changed)
    cache = TrainingCache.build(other, other.snapshot(), root=store.root / "cache")
    np.testing.assert_array_equal(cache.action[cache.start[0] :][: changed.length], changed.action_requested)


def test_a_damaged_episode_is_an_error_and_leaves_the_cache_usable(store):
    commit(store, 0, 1)
    good = store.snapshot().select([EPISODES[0].meta.episode_id])
    bad = store.snapshot().entries[1].path
    bad.write_bytes(bad.read_bytes()[:-1])
    with pytest.raises(DataError, match=bad.name):
        TrainingCache.build(store, store.snapshot())
    assert_holds(TrainingCache.build(store, good), [0])


def test_ticks_are_told_apart_by_who_acted():
    episode = builders.episode(10, takeover=(4, 7))
    mode = episode.control_mode.copy()
    mode[5] = ControlMode.RECOVERY
    names = [SOURCES[s] for s in tick_sources(replace(episode, control_mode=mode))]
    assert names == ["autonomous"] * 4 + ["correction", "recovery", "correction"] + ["autonomous"] * 3
    demonstration = replace(episode, meta=replace(episode.meta, source="demonstration"))
    assert {SOURCES[s] for s in tick_sources(demonstration)} == {"demonstration"}
