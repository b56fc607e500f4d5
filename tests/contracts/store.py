"""What every episode store promises. Inherit, and say how a store is made and opened again."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from robotrl.data.store import EpisodeStore
from robotrl.errors import DataError, RobotRLError, RunBusyError
from robotrl.types import ChunkTable, Episode
from tests import builders

# The episodes of `builders` have ids that ascend with their seed.
EPISODES = [builders.episode(ticks=20 + seed, seed=seed, takeover=(5, 9) if seed % 2 else None) for seed in range(4)]


def assert_same(left: Episode, right: Episode) -> None:
    """Equal metadata, and arrays equal in type, shape and every bit."""
    assert left.meta == right.meta
    pairs = [(f.name, left, right) for f in fields(Episode) if f.name not in ("meta", "chunks", "cameras")]
    pairs += [(f.name, left.chunks, right.chunks) for f in fields(ChunkTable)]
    for name, ours, theirs in pairs:
        a, b = getattr(ours, name), getattr(theirs, name)
        assert (a.dtype, a.shape) == (b.dtype, b.shape), name
        assert a.tobytes() == b.tobytes(), name
    assert left.cameras.keys() == right.cameras.keys()
    for name, camera in left.cameras.items():
        np.testing.assert_array_equal(camera.tick, right.cameras[name].tick)
        np.testing.assert_array_equal(camera.frames[:], right.cameras[name].frames[:])


LINEAGE = {"made_by": "test", "code": "none"}


def ones(episode: Episode) -> dict[str, np.ndarray]:
    return {"weight": np.ones(episode.length, np.float32), "target": np.ones(episode.length, np.float32)}


class StoreContract:
    def create(self, root: Path) -> EpisodeStore:
        """A new store of `builders.spec()` at `root`, or the one that is there."""
        raise NotImplementedError

    def open(self, root: Path) -> EpisodeStore:
        """The existing store at `root`."""
        raise NotImplementedError

    @pytest.fixture
    def filled(self, tmp_path):
        store = self.create(tmp_path / "store")
        with store.writer() as writer:
            for episode in EPISODES:
                writer.on_episode(episode)
        return store

    def test_what_was_committed_is_read_back_bit_exactly_after_reopening(self, filled):
        snapshot = self.open(filled.root).snapshot()
        assert len(snapshot) == len(EPISODES)
        for episode, stored in zip(EPISODES, snapshot.episodes(), strict=True):
            assert_same(episode, stored)

    def test_episodes_are_visible_as_soon_as_they_are_committed(self, tmp_path):
        store = self.create(tmp_path / "store")
        with store.writer() as writer:
            for count, episode in enumerate(EPISODES, 1):
                writer.on_episode(episode)
                assert len(self.open(store.root).snapshot()) == count

    def test_order_is_by_id_whatever_the_order_of_commits(self, tmp_path):
        store = self.create(tmp_path / "store")
        with store.writer() as writer:
            for place in (2, 0, 3, 1):
                writer.on_episode(EPISODES[place])
        assert store.snapshot().ids == tuple(e.meta.episode_id for e in EPISODES)

    def test_a_snapshot_stays_as_it_was_and_can_be_had_again(self, tmp_path):
        store = self.create(tmp_path / "store")
        with store.writer() as writer:
            writer.on_episode(EPISODES[1])
            before = store.snapshot()
            writer.on_episode(EPISODES[0])
        assert before.ids == (EPISODES[1].meta.episode_id,)
        assert store.snapshot(before.offsets) == before
        assert store.snapshot(before.offsets).fingerprint == before.fingerprint != store.snapshot().fingerprint

    def test_an_empty_store_has_an_empty_snapshot(self, tmp_path):
        assert len(self.create(tmp_path / "store").snapshot()) == 0

    def test_listing_gives_length_and_metadata(self, filled):
        for entry, episode in zip(filled.snapshot().entries, EPISODES, strict=True):
            assert (entry.length, entry.meta) == (episode.length, episode.meta)

    def test_filters_combine(self, tmp_path):
        store = self.create(tmp_path / "store")
        variants = [("a", "success"), ("a", "failure"), ("b", None)]
        with store.writer() as writer:
            for seed, (stage, outcome) in enumerate(variants):
                writer.on_episode(builders.episode(20, seed, outcome, None, stage=stage))
        snapshot = store.snapshot()
        assert len(snapshot.filter(stage="a")) == 2
        assert len(snapshot.filter(stage="a", outcome="failure")) == 1
        assert [e.meta.stage for e in snapshot.filter(outcome="cut").entries] == ["b"]
        assert len(snapshot.filter(source="demonstration")) == 0
        assert snapshot.select(snapshot.ids[1:]).ids == snapshot.ids[1:]
        with pytest.raises(DataError, match="nobody"):
            snapshot.select(["nobody"])

    def test_committing_the_same_again_changes_nothing(self, filled):
        before = filled.snapshot()
        with filled.writer() as writer:
            for episode in EPISODES:
                writer.on_episode(episode)
        assert filled.snapshot() == before

    def test_other_content_under_a_known_id_is_refused(self, filled):
        changed = replace(EPISODES[0], reward=EPISODES[0].reward + 1)
        with filled.writer() as writer, pytest.raises(DataError, match="other content"):
            writer.on_episode(changed)
        assert_same(next(filled.snapshot().episodes()), EPISODES[0])

    def test_a_second_writer_is_refused_until_the_first_closes(self, filled):
        with filled.writer("one"), pytest.raises(RunBusyError, match="in use by process"):
            filled.writer("one")
        filled.writer("one").close()

    def test_writers_without_a_name_take_the_first_that_is_free(self, filled):
        with filled.writer() as first, filled.writer() as second, filled.writer("w2"), filled.writer() as fourth:
            assert [first.name, second.name, fourth.name] == ["w0", "w1", "w3"]
        with filled.writer() as again:
            assert again.name == "w0"

    def test_writers_of_different_names_live_side_by_side(self, tmp_path):
        store = self.create(tmp_path / "store")
        with store.writer("one") as one, store.writer("two") as two:
            one.on_episode(EPISODES[0])
            two.on_episode(EPISODES[1])
            two.on_episode(EPISODES[0])
        assert store.snapshot().ids == tuple(e.meta.episode_id for e in EPISODES[:2])

    def test_content_that_differs_from_another_writers_is_refused(self, filled):
        changed = replace(EPISODES[0], reward=EPISODES[0].reward + 1)
        with (
            filled.writer("other") as writer,
            pytest.raises(DataError, match=r"w0/episodes.*now comes from writer 'other'"),
        ):
            writer.on_episode(changed)
        assert_same(next(filled.snapshot().episodes()), EPISODES[0])

    def test_removed_episodes_are_hidden_from_new_snapshots_only(self, filled):
        before = filled.snapshot()
        filled.remove(before.ids[:2], "blurred")
        assert filled.snapshot().ids == before.ids[2:]
        assert filled.snapshot(before.offsets) == before
        for episode, stored in zip(EPISODES, before.episodes(), strict=True):
            assert_same(episode, stored)

    def test_removal_needs_every_id_to_be_there(self, filled):
        with pytest.raises(DataError, match="1 of 2 episodes are not in the store: nobody"):
            filled.remove([EPISODES[0].meta.episode_id, "nobody"], "blurred")
        assert len(filled.snapshot()) == len(EPISODES)

    def test_a_removed_episode_may_be_committed_again_changed_or_not(self, filled):
        changed = replace(EPISODES[0], reward=EPISODES[0].reward + 1)
        filled.remove([e.meta.episode_id for e in EPISODES[:2]], "to be recorded again")
        with filled.writer() as writer:
            writer.on_episode(changed)
            writer.on_episode(EPISODES[1])
        for expected, stored in zip(
            [changed, *EPISODES[1:]], self.open(filled.root).snapshot().episodes(), strict=True
        ):
            assert_same(expected, stored)

    def test_a_follower_sees_each_episode_once(self, filled):
        seen = filled.follow(interval_s=0)
        assert [e.episode_id for e in next(seen)] == [e.meta.episode_id for e in EPISODES]
        assert next(seen) == ()
        extra = builders.episode(9, seed=9, takeover=None)
        with filled.writer("one") as one, filled.writer("two") as two:
            for writer in (one, two):
                writer.on_episode(extra)
                writer.on_episode(EPISODES[0])
        assert [e.episode_id for e in next(seen)] == [extra.meta.episode_id]
        assert next(seen) == ()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"reward": np.zeros(3, np.float32)}, "'reward': expected 20 rows"),
            ({"state": EPISODES[0].state.astype(np.float64)}, "'state': expected 21 rows of float32"),
            ({"state": EPISODES[0].state[:, :5]}, "state: expected 11 elements"),
            ({"state": np.full_like(EPISODES[0].state, np.nan)}, "'joint.0' is not finite"),
            ({"action": np.full_like(EPISODES[0].action, np.inf)}, "'joint.0' is not finite"),
            ({"physics": EPISODES[0].physics[:, :3]}, "'physics' has the shape"),
            ({"meta": replace(EPISODES[0].meta, task="pick_place")}, "is of task 'pick_place'"),
            ({"meta": replace(EPISODES[0].meta, episode_id="../../escape")}, "is no valid episode id"),
        ],
    )
    def test_a_bad_episode_is_refused_and_nothing_is_committed(self, tmp_path, change, message):
        store = self.create(tmp_path / "store")
        with store.writer() as writer:
            with pytest.raises(DataError, match=message):
                writer.on_episode(replace(EPISODES[0], **change))
            assert len(store.snapshot()) == 0
            writer.on_episode(EPISODES[0])
        assert len(store.snapshot()) == 1

    def test_an_episode_without_ticks_is_refused(self, tmp_path):
        with self.create(tmp_path / "store").writer() as writer, pytest.raises(DataError, match="no ticks"):
            writer.on_episode(builders.episode(0, takeover=None))

    def test_an_episode_of_one_tick_is_kept(self, tmp_path):
        store = self.create(tmp_path / "store")
        episode = builders.episode(1, takeover=None)
        with store.writer() as writer:
            writer.on_episode(episode)
        assert_same(next(store.snapshot().episodes()), episode)

    def test_a_store_of_another_task_is_not_opened(self, filled):
        other = builders.spec(task="pick_place")
        for way in (EpisodeStore.create, EpisodeStore.open):
            with pytest.raises(
                DataError, match=r"holds episodes of task 'insert'.*expected 'pick_place'.*differ in task"
            ):
                way(filled.root, other)
        assert len(filled.snapshot()) == len(EPISODES)

    def test_annotations_are_read_back_with_their_lineage(self, filled):
        rng = np.random.default_rng(0)
        columns = {
            e.meta.episode_id: {n: rng.random(e.length, np.float32) for n in ("value", "weight")} for e in EPISODES[:3]
        }
        filled.annotate("labels", "round-1", columns, LINEAGE | {"critic": "c1", "thresholds": [0.35, np.nan]})
        stored = self.open(filled.root).annotations("labels", "round-1")
        assert stored.lineage == LINEAGE | {"critic": "c1", "thresholds": [0.35, "NaN"]}
        assert stored.columns.keys() == columns.keys()
        for episode, named in columns.items():
            for name, column in named.items():
                np.testing.assert_array_equal(stored.columns[episode][name], column)
        assert filled.annotation_versions("labels") == ("round-1",)
        assert filled.annotation_versions("values") == ()

    def test_annotations_are_immutable_but_may_be_written_again_alike(self, filled):
        columns = {e.meta.episode_id: ones(e) for e in EPISODES}
        filled.annotate("labels", "1", columns, LINEAGE)
        filled.annotate("labels", "1", dict(reversed(columns.items())), LINEAGE)
        with pytest.raises(DataError, match="immutable"):
            filled.annotate("labels", "1", columns, LINEAGE | {"critic": "another"})
        filled.annotate("labels", "2", columns, LINEAGE | {"critic": "another"})
        assert filled.annotations("labels", "1").lineage == LINEAGE

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({}, "covers no episode"),
            ({"nobody": {"weight": np.ones(3, np.float32)}}, "not in the store: nobody"),
            (
                {EPISODES[0].meta.episode_id: {"weight": np.ones(3, np.float32)}},
                r"has the shape \(3,\); expected \(20,\)",
            ),
            ({EPISODES[0].meta.episode_id: ones(EPISODES[0]), EPISODES[1].meta.episode_id: {}}, "has the columns"),
        ],
    )
    def test_bad_annotations_are_refused(self, filled, columns, message):
        with pytest.raises(DataError, match=message):
            filled.annotate("labels", "1", columns, LINEAGE)
        assert filled.annotation_versions("labels") == ()

    def test_annotations_that_do_not_exist_are_named_with_the_nearest(self, filled):
        filled.annotate("labels", "round-1", {EPISODES[0].meta.episode_id: ones(EPISODES[0])}, LINEAGE)
        with pytest.raises(RobotRLError, match="Did you mean 'round-1'"):
            filled.annotations("labels", "round1")
