import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from robotrl.errors import ConfigurationError
from robotrl.stats import auc, effective_sample_size, mcnemar, paired_difference, wilson_interval

bools = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (57, 100), (400, 400), (3, 7)])
def test_wilson_agrees_with_scipy(k: int, n: int):
    expected = binomtest(k, n).proportion_ci(0.95, "wilson")
    assert wilson_interval(k, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


@given(st.integers(1, 500), st.floats(0, 1))
def test_wilson_contains_the_rate_and_stays_inside_zero_and_one(n: int, share: float):
    k = round(share * n)
    low, high = wilson_interval(k, n)
    assert 0 <= low <= k / n <= high <= 1


def test_mcnemar_agrees_with_an_exact_sign_test():
    assert mcnemar(15, 5) == pytest.approx(binomtest(15, 20, alternative="greater").pvalue)
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(0, 9) == 1.0


@pytest.mark.parametrize(
    ("table", "interval"), [((36, 12, 2, 0), (0.0569, 0.3404)), ((20, 12, 2, 16), (0.0562, 0.3292))]
)
def test_paired_difference_matches_newcombes_worked_examples(table: tuple, interval: tuple):
    both, gained, lost, neither = table
    first = np.repeat([True, False, True, False], table)
    second = np.repeat([True, True, False, False], (both, gained, lost, neither))
    found = paired_difference(first, second)
    assert (found.gained, found.lost, found.difference) == (12, 2, pytest.approx(0.2))
    assert (found.low, found.high) == pytest.approx(interval, abs=1e-4)


@given(bools)
def test_swapping_the_series_mirrors_the_interval(pairs: list[tuple[bool, bool]]):
    a, b = np.array(pairs).T
    there, back = paired_difference(a, b), paired_difference(b, a)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.low - 1e-12 <= there.difference <= there.high + 1e-12


def test_the_paired_interval_covers_the_truth():
    rng, covered = np.random.default_rng(0), 0
    for _ in range(500):
        ease = rng.beta(3, 2, 200)
        a, b = rng.random(200) < ease, rng.random(200) < np.clip(ease + 0.1, 0, 1)
        truth = float(np.clip(ease + 0.1, 0, 1).mean() - ease.mean())
        found = paired_difference(a, b)
        covered += found.low <= truth <= found.high
    assert covered >= 0.93 * 500


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40))
def test_auc_counts_ordered_pairs(items: list[tuple[int, bool]]):
    scores, labels = np.array([i[0] for i in items]), np.array([i[1] for i in items])
    positive, negative = scores[labels], scores[~labels]
    if len(positive) == 0 or len(negative) == 0:
        assert math.isnan(auc(scores, labels))
        return
    ordered = (positive[:, None] > negative).mean() + 0.5 * (positive[:, None] == negative).mean()
    assert auc(scores, labels) == pytest.approx(ordered)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=50))
def test_effective_sample_size_is_between_one_and_n(weights: list[float]):
    assert 1 - 1e-9 <= effective_sample_size(weights) <= len(weights) + 1e-9


def test_degenerate_weights_and_bad_counts():
    assert effective_sample_size([0.0, 0.0]) == 0.0
    assert effective_sample_size([2.0] * 7) == pytest.approx(7)
    with pytest.raises(ConfigurationError, match="5 successes of 3"):
        wilson_interval(5, 3)
    with pytest.raises(ConfigurationError, match="0 successes of 0"):
        wilson_interval(0, 0)
    with pytest.raises(ConfigurationError, match="equal lengths"):
        paired_difference([True], [True, False])
    with pytest.raises(ConfigurationError, match="one length"):
        auc([1.0], [True, False])
