from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robotrl.data.cache import SOURCES
from robotrl.data.draws import Prioritised, Proportional, Stratified
from robotrl.data.sum_tree import SumTree
from robotrl.data.windows import WindowSampler
from robotrl.errors import ConfigurationError, DataError
from tests.data.test_windows import labels_of, make_cache

MASS = np.array([0, 3, 1, 0, 4, 2, 0, 5], np.float32)
SOURCE = np.array([1, 1, 0, 0, 1, 2, 3, 2], np.uint8)


@given(data=st.data(), values=st.lists(st.integers(0, 9), min_size=1, max_size=70).filter(any))
@settings(max_examples=80, deadline=None)
def test_the_sum_tree_agrees_with_cumulative_sums(data, values):
    tree, reference = SumTree(np.zeros(len(values))), np.zeros(len(values))
    tree.update(np.arange(len(values)), np.array(values, float))
    reference[:] = values
    for _ in range(3):
        index = np.array(data.draw(st.lists(st.integers(0, len(values) - 1), max_size=6)), np.int64)
        new = np.array(data.draw(st.lists(st.integers(1, 9), min_size=len(index), max_size=len(index))), float)
        tree.update(index, new)
        for i, value in zip(index, new, strict=True):
            reference[i] = value
        assert tree.total == reference.sum()
        share = np.linspace(0, 1, 40, endpoint=False)
        expected = np.searchsorted(np.cumsum(reference), share * tree.total, side="right")
        np.testing.assert_array_equal(tree.find(share), expected)
    np.testing.assert_array_equal(tree[np.arange(len(tree))], SumTree(reference)[np.arange(len(tree))])


@given(values=st.lists(st.floats(0, 1e6), min_size=1, max_size=50).filter(any), share=st.floats(0, 1, exclude_max=True))
@settings(max_examples=200, deadline=None)
def test_the_sum_tree_never_finds_a_zero(values, share):
    tree = SumTree(np.array(values))
    found = tree.find(np.array([0.0, share, np.nextafter(1, 0)]))
    assert all(values[i] > 0 for i in found)


@pytest.mark.parametrize("sampling", [Proportional(), Prioritised(alpha=1.0, epsilon=1e-9)])
def test_frequencies_match_mass(sampling):
    ticks, _ = sampling.prepare(MASS, SOURCE)(40_000, np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(ticks, minlength=8) / 40_000, MASS / MASS.sum(), atol=0.01)


def test_each_batch_has_the_shares_of_the_sources_and_mass_counts_within_one():
    shares = {"demonstration": 0.25, "autonomous": 0.25, "correction": 0.5, "recovery": 0.0}
    draw, rng = Stratified(shares).prepare(MASS, SOURCE), np.random.default_rng(0)
    batches = np.stack([draw(64, rng)[0] for _ in range(400)])
    counts = np.stack([np.bincount(SOURCE[batch], minlength=4) for batch in batches])
    assert (abs(counts - [16, 16, 32, 0]) <= 1).all()
    frequency = np.bincount(batches.ravel(), minlength=8) / batches.size
    np.testing.assert_allclose(
        frequency, [0, 0.25 * 3 / 7, 0.25, 0, 0.25 * 4 / 7, 0.5 * 2 / 7, 0, 0.5 * 5 / 7], atol=0.01
    )


@given(
    mass=st.lists(st.floats(0, 100, width=32), min_size=1, max_size=30).filter(any),
    share=st.lists(st.floats(0.01, 1), min_size=4, max_size=4),
    seed=st.integers(0, 100),
)
@settings(max_examples=60, deadline=None)
def test_no_sampling_draws_a_tick_without_mass(mass, share, seed):
    weights = np.array(mass, np.float32)
    source = np.random.default_rng(seed).integers(0, 4, len(mass)).astype(np.uint8)
    for sampling in (Proportional(), Stratified(dict(zip(SOURCES, share, strict=True))), Prioritised()):
        ticks, importance = sampling.prepare(weights, source)(100, np.random.default_rng(seed))
        assert (weights[ticks] > 0).all()
        assert ((importance > 0) & (importance <= 1)).all()


def test_a_source_without_ticks_leaves_its_share_to_the_others():
    draw = Stratified({"demonstration": 0.5, "recovery": 0.5}).prepare(MASS, SOURCE)
    assert set(draw(50, np.random.default_rng(0))[0]) == {2}


def test_shares_of_sources_that_are_absent_are_refused():
    with pytest.raises(ConfigurationError, match=r"only \['demonstration', 'autonomous', 'correction'\] have weight"):
        Stratified({"recovery": 1.0}).prepare(MASS, SOURCE)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"corection": 1.0}, "Did you mean 'correction'"),
        ({"correction": -1.0}, "0 or more"),
        ({"recovery": np.nan}, "0"),
    ],
)
def test_impossible_shares_are_refused(shares, message):
    with pytest.raises(ConfigurationError, match=message):
        Stratified(shares)


@pytest.mark.parametrize("settings_", [{"alpha": -1.0}, {"beta": -0.1}, {"epsilon": 0.0}])
def test_impossible_priority_settings_are_refused(settings_):
    with pytest.raises(ConfigurationError, match="expected alpha >= 0"):
        Prioritised(**settings_)


def test_priorities_shift_the_draw_and_importance_weights_undo_it():
    sampling = Prioritised(alpha=0.5, beta=1.0, epsilon=1e-9)
    draw = sampling.prepare(np.ones(3, np.float32), np.zeros(3, np.uint8))
    draw.update(np.array([0, 1, 2]), np.array([1.0, 4.0, 16.0], np.float32))
    ticks, importance = draw(60_000, np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(ticks) / 60_000, np.array([1, 2, 4]) / 7, atol=0.01)
    for tick, weight in enumerate([1, 1 / 2, 1 / 4]):
        np.testing.assert_allclose(importance[ticks == tick], weight, rtol=1e-5)


@pytest.mark.parametrize("bad", [[np.nan], [-1.0], [np.inf], [1.0, 2.0]])
def test_bad_priorities_are_refused_and_change_nothing(bad):
    draw = Prioritised().prepare(MASS, SOURCE)
    with pytest.raises(DataError, match="priorities must be finite"):
        draw.update(np.array([1]), np.array(bad, np.float32))
    np.testing.assert_array_equal(draw.priority, 1)


def sampler(cache, **options):
    return WindowSampler(cache, labels_of(cache), history=1, horizon=2, batch=64, seed=0, **options)


def test_windows_get_the_priorities_that_they_are_given():
    drawn = sampler(make_cache([20, 30], [1, 0]), sampling=Prioritised(alpha=1.0))
    windows = drawn.sample()
    drawn.prioritise(windows, np.full(64, 1e9, np.float32))
    seen = set(zip(windows.episode, windows.tick, strict=True))
    again = drawn.sample()
    assert set(zip(again.episode, again.tick, strict=True)) <= seen
    np.testing.assert_allclose(again.columns["importance"], 1.0)


def test_priorities_need_prioritised_sampling():
    drawn = sampler(make_cache([20], [0]))
    with pytest.raises(ConfigurationError, match="Proportional has no priorities"):
        drawn.prioritise(drawn.sample(), np.ones(64, np.float32))


def test_priorities_stay_with_their_ticks_when_episodes_arrive():
    old = make_cache([4, 3], [0, 1])
    new = replace(make_cache([2, 4, 3], [0, 1, 2]), ids=("a", "e0", "e1"))
    drawn = sampler(old, sampling=Prioritised(alpha=1.0))
    windows = drawn.gather(np.arange(7))
    drawn.prioritise(windows, np.arange(1, 8, dtype=np.float32))
    drawn.refresh(new, labels_of(new))
    np.testing.assert_array_equal(drawn._draw.priority, [7, 7, 1, 2, 3, 4, 5, 6, 7])


def test_batches_depend_on_seed_place_and_data_alone_when_data_arrives():
    old, new = make_cache([20], [0]), make_cache([20, 30], [1, 0])
    grown = sampler(old)
    for _ in range(3):
        grown.sample()
    grown.refresh(new, labels_of(new))
    fresh = sampler(new)
    fresh.load_state({"seed": 0, "drawn": 3})
    for _ in range(2):
        np.testing.assert_array_equal(grown.sample().states, fresh.sample().states)
