from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robotrl.data.corrections import Correction, Corrections, read_corrections, write_corrections
from robotrl.data.frozen import frozen_cameras
from robotrl.data.ranges import RunningRange
from robotrl.data.store import EpisodeStore
from robotrl.data.summary import summarise
from robotrl.errors import ConfigurationError, DataError
from robotrl.types import CameraFrames
from tests import builders

SPEC = builders.array_spec("x", ("p", "q"), bound=1.0)


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(0, 1000))
def test_ranges_of_many_episodes_are_those_of_all_rows_together(lengths, seed):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(3.0, 2.0, (n, 2)).astype(np.float32) for n in lengths]
    rows = np.concatenate(parts).astype(np.float64)
    running = RunningRange(SPEC)
    for part in parts:
        running.add(part)
    for i, element in enumerate(running.elements()):
        if not len(rows):
            assert np.isnan([element.minimum, element.maximum, element.mean, element.std]).all()
            continue
        expected = [rows[:, i].min(), rows[:, i].max(), rows[:, i].mean(), rows[:, i].std()]
        np.testing.assert_allclose([element.minimum, element.maximum, element.mean, element.std], expected, atol=1e-9)
        assert element.at_high == pytest.approx((rows[:, i] >= 1).mean())


def test_values_at_bounds_not_finite_ones_and_jumps_are_counted():
    running = RunningRange(SPEC)
    running.add(np.array([[-1, 0], [1, np.nan], [1, 0.1]], np.float32))
    running.add(np.array([[0.3, 0]], np.float32))
    p, q = running.elements()
    assert (p.at_low, p.at_high, p.jumps, p.jump_episodes) == (0.25, 0.5, 1, 1)
    assert (q.not_finite, q.jumps, q.maximum) == (1, 0, pytest.approx(0.1))


def test_an_element_without_bounds_is_measured_by_what_it_covers():
    running = RunningRange(replace(SPEC, low=(-np.inf, -np.inf), high=(np.inf, np.inf)))
    steps = np.arange(11, dtype=np.float32)
    running.add(np.stack([steps, np.where(steps > 5, 100.0, 0.0)], axis=1))
    assert [element.jumps for element in running.elements()] == [0, 1]
    assert [element.at_high for element in running.elements()] == [0, 0]


def seen(episode, changes_until: int):
    """The episode with a camera that shows every state row, and stands still from the row `changes_until` on."""
    rows = np.minimum(np.arange(episode.length + 1), changes_until)
    frames = np.broadcast_to(rows[:, None, None, None], (len(rows), 4, 4, 3)).astype(np.uint8)
    return replace(episode, cameras={"wrist": CameraFrames(np.arange(len(rows), dtype=np.int32), frames)})


def test_a_camera_that_stands_still_while_the_robot_moves_is_found():
    (found,) = frozen_cameras(seen(builders.episode(60, takeover=None), changes_until=20))
    assert (found.camera, found.start, found.stop) == ("wrist", 20, 60)
    assert frozen_cameras(seen(builders.episode(60, takeover=None), changes_until=45)) == []


def test_a_camera_may_stand_still_while_the_robot_does():
    episode = builders.episode(60, takeover=None)
    still = replace(episode, state=np.repeat(episode.state[:1], 61, axis=0))
    assert frozen_cameras(seen(still, changes_until=0)) == []


def summary_of(tmp_path, episodes):
    store = EpisodeStore.create(tmp_path / "store", builders.spec())
    with store.writer() as writer:
        for episode in episodes:
            writer.on_episode(episode)
    return summarise(store.snapshot(), store.spec, read_corrections(store), lambda done, total: None)


def named(episode, name: str):
    return replace(episode, meta=replace(episode.meta, episode_id=name))


def test_duplicates_are_told_from_equal_actions(tmp_path):
    one = builders.episode(20, 1, takeover=None)
    replayed = replace(one, state=one.state + np.float32(0.01))
    found = summary_of(
        tmp_path, [named(one, "a"), named(one, "b"), named(replayed, "c"), builders.episode(20, 2, takeover=None)]
    )
    assert found.equal_content == (("a", "b"),)
    assert found.equal_actions == (("a", "b", "c"),)


def test_ticks_that_starved_were_clamped_dropped_or_ran_backwards_are_counted(tmp_path):
    episode = builders.episode(40, 1, takeover=(5, 9))
    time_ns = episode.time_ns.copy()
    time_ns[10:] += 150_000_000  # three ticks are missing
    time_ns[20] = time_ns[19]
    clamped = (np.arange(40) < 2).astype(np.uint8)
    tally = summary_of(tmp_path, [replace(episode, time_ns=time_ns, clamped=clamped)]).tally
    assert (tally.starved_ticks, tally.clamped_ticks, tally.clock_ticks, tally.dropped_ticks) == (1, 2, 1, 4)
    assert (tally.takeovers, tally.human_ticks, tally.seconds) == (1, 4, 2.0)


def test_corrections_are_laid_over_each_other_and_the_later_wins(tmp_path):
    summary_of(tmp_path, [builders.episode(20, i, takeover=None) for i in range(3)])
    store = EpisodeStore.open(tmp_path / "store")
    a, b, c = store.snapshot().ids
    assert write_corrections(store, {a: Correction("failure"), b: Correction(None, "lift")}, "r") == "000001"
    assert write_corrections(store, {a: Correction(instruction="push")}, "r") == "000002"
    assert write_corrections(store, {b: Correction("success")}, "r") == "000003"
    found = read_corrections(store)
    metas = [found.meta(entry.meta) for entry in store.snapshot().entries]
    assert [(m.outcome, m.instruction) for m in metas] == [
        ("failure", "push"), ("success", "lift"), ("success", "put the peg into the hole")
    ]  # fmt: skip
    assert c not in found.by_id
    with pytest.raises(ConfigurationError, match="nothing to correct"):
        write_corrections(store, {a: Correction()}, "r")
    with pytest.raises(DataError, match="not in the store"):
        write_corrections(store, {"gone": Correction("failure")}, "r")


def test_a_correction_changes_metadata_and_no_array():
    episode = builders.episode(20, 1)
    corrections = Corrections({episode.meta.episode_id: Correction("failure")})
    corrected = corrections.episode(episode)
    assert corrected.meta == replace(episode.meta, outcome="failure")
    assert corrected.success is episode.success
    assert corrections.episode(builders.episode(20, 2)).meta.outcome == "success"
