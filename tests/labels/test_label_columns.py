import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robotrl.labels.advantages import n_step_advantage, value_gain
from robotrl.labels.credit import after_last_takeover, credit
from robotrl.labels.returns import discounted_return, time_to_go
from tests.builders import episode, without_outcome

floats = st.floats(-2, 2, width=32)


@given(st.lists(floats, min_size=1, max_size=30), st.floats(0, 1))
def test_returns_obey_their_recursion(rewards: list[float], discount: float):
    reward = np.array(rewards, np.float32)
    found = discounted_return(reward, discount)
    assert found.shape == reward.shape
    np.testing.assert_allclose(found[:-1], reward[:-1] + discount * found[1:], atol=1e-3)
    assert found[-1] == reward[-1]


def test_time_to_go_counts_down_in_seconds():
    np.testing.assert_allclose(time_to_go(4, 20.0), [0.2, 0.15, 0.1, 0.05])
    assert time_to_go(0, 20.0).shape == (0,)


@given(st.lists(st.floats(0, 1, width=32), min_size=2, max_size=40), st.integers(1, 50), st.sampled_from([0.0, 1.0]))
def test_one_tick_gains_telescope_to_the_outcome(values: list[float], ticks: int, outcome: float):
    value = np.array(values, np.float32)
    assert value_gain(value, 1, outcome).sum() == pytest.approx(outcome - value[0], abs=1e-4)
    longer = value_gain(value, ticks, outcome)
    assert longer.shape == (len(value) - 1,)
    np.testing.assert_allclose(longer[-1], outcome - value[-2], atol=1e-6)


def test_without_an_outcome_the_last_value_stands_in():
    value = np.array([0.5, 0.6, 0.4], np.float32)
    np.testing.assert_allclose(value_gain(value, 8), [-0.1, -0.2], atol=1e-6)


@given(st.integers(1, 20), st.integers(1, 25), st.floats(0.5, 1))
def test_n_step_advantages_match_their_definition(total: int, ticks: int, discount: float):
    rng = np.random.default_rng(total)
    reward, value = rng.normal(size=total).astype(np.float32), rng.normal(size=total + 1).astype(np.float32)
    found = n_step_advantage(reward, value, ticks, discount, terminal=0.0)
    for t in range(total):
        m = min(ticks, total - t)
        after = 0.0 if t + m == total else value[t + m]
        expected = sum(discount**k * reward[t + k] for k in range(m)) + discount**m * after - value[t]
        assert found[t] == pytest.approx(expected, abs=1e-3)


def test_credit_stops_at_takeovers():
    rescued = episode(100, outcome="success", takeover=(40, 60))
    np.testing.assert_array_equal(np.flatnonzero(credit(rescued)), np.arange(60, 100))
    assert credit(episode(50, takeover=None)).all()
    assert not credit(episode(50, takeover=(30, 50))).any()
    cut = without_outcome(episode(50, takeover=None))
    assert not credit(cut).any()
    assert after_last_takeover(cut).all()
    assert credit(episode(0, takeover=None)).shape == (0,)
