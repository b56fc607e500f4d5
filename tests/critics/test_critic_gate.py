from dataclasses import replace

import numpy as np
import pytest

from robotrl.critics.gate import CriticGateConfig, judge_critic
from robotrl.errors import DataError
from robotrl.labels.weights import Mixture
from robotrl.types import Episode
from tests.builders import episode


def world(count: int = 150, seed: int = 0) -> tuple[list[Episode], list[np.ndarray]]:
    """Episodes of ten moves with a true success probability that jumps at random; outcomes follow it."""
    rng = np.random.default_rng(seed)
    episodes, truths = [], []
    for index in range(count):
        ticks = 80
        logit = rng.normal(0.5, 0.5) + np.cumsum(rng.normal(0, 1.0, ticks // 8 + 1)).repeat(8)[: ticks + 1]
        truth = np.append(1 / (1 + np.exp(-logit)), 0)[: ticks + 1].astype(np.float32)
        truth[-1] = truth[-2]
        good = bool(rng.random() < truth[-1])
        episodes.append(episode(ticks, index, "success" if good else "failure", takeover=None))
        truths.append(truth)
    return episodes, truths


def scores_of(values: list[np.ndarray], noise: float = 0.0, shared: float = 0.0) -> list[dict[str, np.ndarray]]:
    """Two members' scores: `values` with `noise` of their own, and noise that both share."""
    rng = np.random.default_rng(9)
    both = [v + shared * rng.normal(size=v.shape) for v in values]
    return [{f"value_{m}": (v + noise * rng.normal(size=v.shape)).astype(np.float32) for m in (0, 1)} for v in both]


def labels(episodes: list[Episode]) -> list:
    return list(Mixture({"demonstrations": None, "successes": None}).label(episodes))


CONFIG = CriticGateConfig(effective_share=0.3)


def test_a_critic_that_ranks_actions_may_be_used():
    episodes, truths = world()
    verdict = judge_critic(episodes, scores_of(truths), labels(episodes), CONFIG)
    assert verdict.usable, verdict.reason
    assert 0 < verdict.low < verdict.gain < verdict.high
    assert verdict.episodes == 150
    assert "points" in verdict.reason


@pytest.mark.parametrize("seed", range(5))
def test_a_critic_of_pure_noise_may_not(seed: int):
    episodes, truths = world(seed=seed)
    rng = np.random.default_rng(seed)
    noise = [rng.random(len(t)) for t in truths]
    assert not judge_critic(episodes, scores_of(noise), labels(episodes), CONFIG).usable
    assert not judge_critic(episodes, scores_of(truths, noise=3.0), labels(episodes), CONFIG).usable


def test_noise_does_not_make_a_critic_look_better():
    episodes, truths = world()
    gains = [judge_critic(episodes, scores_of(truths, n), labels(episodes), CONFIG).gain for n in (0.0, 0.2, 0.5)]
    assert gains == sorted(gains, reverse=True)


def test_a_critic_that_only_ranks_episodes_may_not():
    """It knows each episode's end from the start: its AUC is 1, and it says nothing about actions."""
    episodes, _ = world()
    rng = np.random.default_rng(0)
    values = [np.full(81, 0.9 if e.succeeded else 0.1) + rng.normal(0, 0.05) for e in episodes]
    assert not judge_critic(episodes, scores_of(values, noise=0.1), labels(episodes), CONFIG).usable


def test_failures_in_the_sampled_mass_refuse_or_warn():
    episodes, truths = world()
    scores = scores_of(truths)

    def columns(failures: float) -> list:
        good = sum(e.length for e in episodes if e.succeeded)
        bad = sum(e.length for e in episodes if not e.succeeded)
        mass = [(1 - failures) / good if e.succeeded else failures / bad for e in episodes]
        return [{"weight": np.full(e.length, m, np.float32)} for e, m in zip(episodes, mass, strict=True)]

    refused = judge_critic(episodes, scores, columns(0.2), CONFIG)
    assert not refused.usable
    assert refused.failure_share == pytest.approx(0.2, abs=1e-3)
    assert "20%" in refused.reason
    warned = judge_critic(episodes, scores, columns(0.08), CONFIG)
    assert warned.usable
    assert "8%" in warned.warning


def test_a_collapsed_sample_is_refused():
    episodes, truths = world()
    verdict = judge_critic(episodes, scores_of(truths), labels(episodes), replace(CONFIG, effective_share=0.999))
    assert not verdict.usable
    assert "effective share" in verdict.reason


def test_few_episodes_and_demonstrations_prove_nothing():
    episodes, truths = world(60)
    assert (
        "at least 61"
        in judge_critic(episodes, scores_of(truths), labels(episodes), replace(CONFIG, episodes=61)).reason
    )
    demos = [replace(e, meta=replace(e.meta, source="demonstration", outcome="success")) for e in episodes]
    verdict = judge_critic(demos, scores_of(truths), list(Mixture({"demonstrations": None}).label(demos)), CONFIG)
    assert (verdict.usable, verdict.episodes) == (False, 0)


def test_a_verdict_repeats_and_mismatched_inputs_are_named():
    episodes, truths = world(60)
    first, second = (judge_critic(episodes, scores_of(truths), labels(episodes), CONFIG) for _ in range(2))
    assert first.to_json() == second.to_json()
    with pytest.raises(DataError, match="59 scores"):
        judge_critic(episodes, scores_of(truths)[:-1], labels(episodes), CONFIG)
