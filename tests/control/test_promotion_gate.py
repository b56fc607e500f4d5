import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robotrl.control.gate import GateConfig, decide
from robotrl.errors import ConfigurationError


def run_gate(champion: np.ndarray, challenger: np.ndarray, iteration: int = 1, config: GateConfig | None = None):
    config = config or GateConfig()
    for look, n in enumerate(config.looks):
        verdict = decide(champion[:n], challenger[:n], look, iteration, config)
        if verdict.decision != "extend":
            return verdict
    raise AssertionError("the last look extended")


def seeds_of(rng: np.random.Generator, rate: float, gain: float = 0.0, n: int = 800):
    """Outcomes of champion and challenger: some seeds are hard for both, draws are independent."""
    ease = rng.beta(4 * rate, 4 * (1 - rate), n)
    better = ease + gain * (1 - ease) / (1 - rate)
    return rng.random(n) < ease, rng.random(n) < better


@pytest.mark.parametrize("rate", [0.3, 0.6, 0.9])
def test_a_copy_of_the_champion_is_refused(rate: float):
    rng = np.random.default_rng(1)
    refused = sum(run_gate(*seeds_of(rng, rate)).decision == "refuse" for _ in range(400))
    assert refused >= 0.95 * 400


@pytest.mark.parametrize("rate", [0.3, 0.6, 0.75])
@pytest.mark.parametrize("iteration", [1, 3])
def test_twenty_points_more_are_promoted(rate: float, iteration: int):
    rng = np.random.default_rng(2)
    promoted = sum(run_gate(*seeds_of(rng, rate, 0.2), iteration).decision == "promote" for _ in range(100))
    assert promoted >= 95


def test_a_copy_is_rarely_promoted_over_many_iterations():
    rng = np.random.default_rng(3)
    fooled = sum(any(run_gate(*seeds_of(rng, 0.6), i).decision == "promote" for i in (1, 2, 3, 4)) for _ in range(150))
    assert fooled <= 0.05 * 150


def test_a_worse_challenger_is_refused_at_the_first_look():
    rng = np.random.default_rng(4)
    better, worse = seeds_of(rng, 0.5, 0.2)[::-1]
    verdict = run_gate(better, worse)
    assert (verdict.decision, verdict.look) == ("refuse", 0)


def test_the_budget_is_never_overspent():
    config = GateConfig(alpha=0.05)
    spent = sum(config.budget(look, iteration) for iteration in range(1, 3000) for look in range(3))
    assert 0.04 < spent <= 0.05


def test_identical_outcomes_are_refused_with_p_one():
    outcomes = np.arange(200) % 2 == 0
    verdict = decide(outcomes, outcomes, 0, 1)
    assert (verdict.decision, verdict.p_value, verdict.gained, verdict.lost) == ("refuse", 1.0, 0, 0)


def test_a_verdict_is_repeated_from_its_outcomes_and_is_json():
    champion, challenger = seeds_of(np.random.default_rng(5), 0.6, 0.1, 200)
    first = decide(champion.tolist(), challenger.tolist(), 0, 2)
    assert first == decide(champion, challenger, 0, 2)
    assert first.to_json()["reason"] == first.reason


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=200), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_the_order_of_seeds_does_not_matter(pairs: list[tuple[bool, bool]], iteration: int):
    a, b = np.array(pairs).T
    shuffled = np.random.default_rng(0).permutation(len(a))
    assert decide(a, b, 0, iteration) == decide(a[shuffled], b[shuffled], 0, iteration)


@pytest.mark.parametrize(
    "changes",
    [{"alpha": 0.0}, {"looks": ()}, {"looks": (400, 200, 800)}, {"shares": (0.5, 0.5)}, {"shares": (1, 1, -1)}],
)
def test_an_impossible_plan_is_named(changes: dict):
    with pytest.raises(ConfigurationError, match="gate"):
        GateConfig(**changes)


def test_outcomes_that_do_not_fit_the_look_are_refused():
    with pytest.raises(ConfigurationError, match="compares 200 pairs, got 201"):
        decide(np.ones(201, bool), np.ones(201, bool), 0, 1)
    with pytest.raises(ConfigurationError, match="equal lengths"):
        decide(np.ones(10, bool), np.ones(9, bool), 0, 1)
    with pytest.raises(ConfigurationError, match="equal lengths"):
        decide([], [], 0, 1)
    with pytest.raises(ConfigurationError, match="look 3"):
        decide([True], [True], 3, 1)


def test_a_small_true_gain_is_not_given_up_on_the_trend_of_the_first_look():
    champion, challenger = np.ones(200, bool), np.ones(200, bool)
    champion[:13], challenger[13:22] = False, False
    champion[22:26] = challenger[22:26] = False
    assert decide(champion, challenger, 0, 2).decision == "extend"


@pytest.mark.parametrize("gain", [0.06, 0.1])
def test_a_strong_champion_gives_way_to_a_few_points_more(gain: float):
    rng = np.random.default_rng(6)
    promoted = sum(run_gate(*seeds_of(rng, 0.88, gain), iteration=2).decision == "promote" for _ in range(100))
    assert promoted >= (90 if gain == 0.1 else 55)
