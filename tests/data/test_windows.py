import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robotrl.data.cache import TrainingCache
from robotrl.data.windows import WindowSampler, run_lengths, validation_split
from robotrl.errors import ConfigurationError, DataError

WIDTH, ACTIONS = 3, 2


def make_cache(lengths: list[int], order: list[int], seed: int = 0) -> TrainingCache:
    """Episodes of these lengths, stored in `order`; every row has values of its own."""
    rng = np.random.default_rng(seed)
    start = np.zeros(len(lengths), np.int64)
    row = 0
    for place in order:
        start[place] = row
        row += lengths[place] + 1
    return TrainingCache(
        ids=tuple(f"e{i}" for i in range(len(lengths))),
        start=start,
        length=np.array(lengths, np.int64),
        state=rng.normal(size=(row, WIDTH)).astype(np.float32),
        action=rng.normal(size=(row, ACTIONS)).astype(np.float32),
        source=rng.integers(0, 4, row).astype(np.uint8),
    )


def labels_of(cache: TrainingCache, target: float = 1.0) -> dict[str, dict[str, np.ndarray]]:
    return {
        i: {"weight": np.ones(t, np.float32), "target": np.full(t, target, np.float32)}
        for i, t in zip(cache.ids, cache.length, strict=True)
    }


def naive_window(cache: TrainingCache, target: np.ndarray, place: int, tick: int, history: int, horizon: int):
    """One window by its definition, in loops."""
    length = int(cache.length[place])
    rows = slice(cache.start[place], cache.start[place] + length + 1)
    state, action = cache.state[rows], cache.action[rows]
    states = [state[max(tick - back, 0)] for back in range(history - 1, -1, -1)]
    mask, actions, last = [], [], tick
    for h in range(horizon):
        usable = all(tick + k < length and target[tick + k] for k in range(h + 1))
        mask.append(usable)
        last = tick + h if usable else last
        actions.append(action[last])
    return np.array(states), np.array(actions), np.array(mask), state[tick + sum(mask)]


@given(data=st.data(), history=st.integers(1, 4), horizon=st.integers(1, 6), seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_every_window_is_as_its_definition_says(data, history, horizon, seed):
    lengths = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    cache = make_cache(lengths, data.draw(st.permutations(range(len(lengths)))), seed)
    rng = np.random.default_rng(seed)
    labels = labels_of(cache)
    for columns in labels.values():
        columns["target"] = (rng.random(len(columns["target"])) < 0.7).astype(np.float32)
        columns["advantage"] = rng.normal(size=len(columns["target"])).astype(np.float32)
    sampler = WindowSampler(cache, labels, history=history, horizon=horizon, batch=2, seed=0)
    assert sampler.ticks == sum(lengths)
    windows = sampler.gather(np.arange(sampler.ticks))
    pairs = [(place, tick) for place, length in enumerate(lengths) for tick in range(length)]
    for i, (place, tick) in enumerate(pairs):
        name = cache.ids[place]
        states, actions, mask, after = naive_window(cache, labels[name]["target"], place, tick, history, horizon)
        np.testing.assert_array_equal(windows.states[i], states)
        np.testing.assert_array_equal(windows.actions[i], actions)
        np.testing.assert_array_equal(windows.mask[i], mask)
        np.testing.assert_array_equal(windows.next_states[i], after)
        assert (windows.episode[i], windows.tick[i]) == (place, tick)
        assert windows.columns["advantage"][i] == labels[name]["advantage"][tick]
        assert windows.source[i] == cache.source[cache.start[place] + tick]


def test_where_episodes_lie_does_not_show():
    cache = make_cache([4, 6, 2], [0, 1, 2])
    moved = make_cache([4, 6, 2], [2, 0, 1])
    for place in range(3):
        source = slice(cache.start[place], cache.start[place] + cache.length[place] + 1)
        there = slice(moved.start[place], moved.start[place] + moved.length[place] + 1)
        for name in ("state", "action", "source"):
            getattr(moved, name)[there] = getattr(cache, name)[source]
    first = WindowSampler(cache, labels_of(cache), history=2, horizon=3, batch=8, seed=1).sample()
    second = WindowSampler(moved, labels_of(moved), history=2, horizon=3, batch=8, seed=1).sample()
    np.testing.assert_array_equal(first.states, second.states)
    np.testing.assert_array_equal(first.actions, second.actions)
    np.testing.assert_array_equal(first.tick, second.tick)


def test_windows_are_drawn_in_proportion_to_their_weight():
    cache = make_cache([2, 3], [0, 1])
    labels = labels_of(cache)
    labels["e0"]["weight"][:] = [0.0, 3.0]
    labels["e1"]["weight"][:] = [1.0, 0.0, 4.0]
    windows = WindowSampler(cache, labels, history=1, horizon=2, batch=40_000, seed=3).sample()
    flat = np.where(windows.episode == 0, 0, 2) + windows.tick
    share = np.bincount(flat, minlength=5) / 40_000
    np.testing.assert_allclose(share, [0, 3 / 8, 1 / 8, 0, 4 / 8], atol=0.01)
    assert share[0] == share[3] == 0


def test_drawing_goes_on_where_it_was_after_a_resume():
    cache = make_cache([20, 30], [1, 0])

    def sampler(seed: int) -> WindowSampler:
        return WindowSampler(cache, labels_of(cache), history=2, horizon=4, batch=16, seed=seed)

    undisturbed, resumed = sampler(5), sampler(99)
    for _ in range(3):
        undisturbed.sample()
    resumed.load_state(json.loads(json.dumps(undisturbed.state_dict())))
    for _ in range(3):
        np.testing.assert_array_equal(undisturbed.sample().states, resumed.sample().states)


def test_draws_differ_between_batches_and_seeds():
    cache = make_cache([200], [0])
    first = WindowSampler(cache, labels_of(cache), history=1, horizon=2, batch=32, seed=0)
    other = WindowSampler(cache, labels_of(cache), history=1, horizon=2, batch=32, seed=1)
    a, b, c = first.sample().tick, first.sample().tick, other.sample().tick
    assert not np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_run_lengths_stop_at_episodes_and_at_ticks_that_are_no_targets():
    target = np.array([1, 1, 0, 1, 1, 1, 1], bool)
    end = np.array([5, 5, 5, 5, 5, 7, 7])
    np.testing.assert_array_equal(run_lengths(target, end), [2, 1, 0, 2, 1, 2, 1])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("weight", np.nan, "'weight' has values that are negative or not finite"),
        ("weight", np.inf, "'weight' has values that are negative or not finite"),
        ("weight", -1.0, "'weight' has values that are negative or not finite"),
        ("weight", 0.0, "all weights are zero"),
        ("target", 0.5, "other than 0 and 1"),
        ("target", np.nan, "other than 0 and 1"),
    ],
)
def test_bad_label_values_are_refused(name, value, message):
    cache = make_cache([4], [0])
    labels = labels_of(cache)
    labels["e0"][name][:] = value
    with pytest.raises(DataError, match=message):
        WindowSampler(cache, labels, history=1, horizon=2, batch=2, seed=0)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({}, "1 of 1 episodes have no labels, the first is e0"),
        ({"e0": {"weight": np.ones(4, np.float32)}}, "lack 'target'"),
        ({"e0": {"weight": np.ones(3), "target": np.ones(4)}}, r"has the shape \(3,\); expected \(4,\)"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, message):
    with pytest.raises(DataError, match=message):
        WindowSampler(make_cache([4], [0]), labels, history=1, horizon=2, batch=2, seed=0)


def test_nothing_to_train_on_is_said():
    cache = replace(make_cache([4], [0]), ids=(), start=np.zeros(0, np.int64), length=np.zeros(0, np.int64))
    with pytest.raises(DataError, match="no episodes to train on"):
        WindowSampler(cache, {}, history=1, horizon=2, batch=2, seed=0)


@pytest.mark.parametrize("sizes", [(0, 2, 2), (1, 0, 2), (1, 2, 0)])
def test_sizes_below_one_are_refused(sizes):
    cache = make_cache([4], [0])
    history, horizon, batch = sizes
    with pytest.raises(ConfigurationError, match="at least 1"):
        WindowSampler(cache, labels_of(cache), history=history, horizon=horizon, batch=batch, seed=0)


@given(count=st.integers(0, 40), share=st.floats(0, 0.99))
@settings(max_examples=50, deadline=None)
def test_the_validation_split_parts_the_ids_and_never_moves_one(count, share):
    ids = [f"{i:04x}" for i in range(count)]
    train, validation = validation_split(reversed(ids), share)
    assert sorted((*train, *validation)) == ids
    assert list(train) == sorted(train)
    more_train, more_validation = validation_split([*ids, "zz", "yy"], share)
    assert set(train) <= set(more_train)
    assert set(validation) <= set(more_validation)


def test_the_validation_share_is_about_what_was_asked():
    _, validation = validation_split((str(i) for i in range(2000)), 0.1)
    assert 150 < len(validation) < 250


@pytest.mark.parametrize("share", [-0.1, 1.0, np.nan])
def test_an_impossible_validation_share_is_refused(share):
    with pytest.raises(ConfigurationError, match="0 <= share < 1"):
        validation_split(["a"], share)
