from dataclasses import replace

import numpy as np
import pytest
import torch

from robotrl.critics.calibration import Calibration
from robotrl.critics.ensemble import EnsembleMLP
from robotrl.critics.experience import Experience, autonomous_runs
from robotrl.critics.success import SuccessCritic
from robotrl.errors import ConfigurationError, DataError, RobotRLError
from robotrl.types import Episode
from tests.builders import episode, spec, without_outcome


def rollouts(count: int, seed: int = 0) -> list[Episode]:
    """Episodes in which the peg drifts to one side when they fail."""
    rng = np.random.default_rng(seed)
    made: list[Episode] = []
    for index in range(count):
        good = bool(rng.random() < 0.6)
        ticks = int(rng.integers(30, 60))
        plain = episode(ticks, 1000 * seed + index, "success" if good else "failure", takeover=None)
        state = plain.state.copy()
        drift = (0.0 if good else 0.3) * np.linspace(0, 1, ticks + 1)
        state[:, 4] += drift + 0.05 * rng.normal() + 0.01 * rng.normal(size=ticks + 1)
        made.append(replace(plain, state=state.astype(np.float32)))
    return made


def critic(**changes) -> SuccessCritic:
    return SuccessCritic(spec().state, **{"width": 32, "updates": 150, "refresh": 50, "batch": 128, **changes})


@pytest.fixture(scope="module")
def fitted() -> tuple[SuccessCritic, dict, list[Episode]]:
    made, episodes = critic(), rollouts(80)
    return made, dict(made.fit(episodes)), episodes


def test_it_tells_coming_failure_from_success_on_episodes_it_has_not_seen(fitted):
    made, figures, _ = fitted
    assert figures["auc"] > 0.75
    assert figures["brier"] < 0.21
    assert figures["count"] == 80 * 20
    fresh = rollouts(40, seed=1)
    ends = np.array([made.score(e)["value"][-1] for e in fresh])
    assert ends[[e.succeeded for e in fresh]].mean() > 0.8
    assert ends[[not e.succeeded for e in fresh]].mean() < 0.2


def test_scores_have_a_value_a_state_between_zero_and_one(fitted):
    made, _, episodes = fitted
    for scores in (made.score(episodes[0]), made.cross_fit_scores(episodes[:1])[0]):
        assert scores["value"].shape == (episodes[0].length + 1,)
        assert ((scores["value"] > 0) & (scores["value"] < 1)).all()


def test_a_value_does_not_depend_on_its_companions(fitted):
    made, _, episodes = fitted
    states = np.concatenate([e.state for e in episodes])[:200]
    together = made.value(states)
    for n in (1, 7, 64):
        np.testing.assert_array_equal(made.value(states[:n]), together[:n])


def test_equal_seeds_give_equal_bits():
    episodes = rollouts(12)
    a, b, other = critic(updates=5), critic(updates=5), critic(updates=5, seed=1)
    for made in (a, b, other):
        made.fit(episodes)
    np.testing.assert_array_equal(a.score(episodes[0])["value"], b.score(episodes[0])["value"])
    assert not np.array_equal(a.score(episodes[0])["value"], other.score(episodes[0])["value"])


def test_held_out_members_never_saw_the_episode():
    """Turning one episode's outcome around changes the members in use, but not those that score it."""
    episodes = rollouts(12)
    turned = replace(
        episodes[3], meta=replace(episodes[3].meta, outcome="failure" if episodes[3].succeeded else "success")
    )
    a, b = critic(updates=20), critic(updates=20)
    a.fit(episodes)
    b.fit([*episodes[:3], turned, *episodes[4:]])
    np.testing.assert_array_equal(
        a.cross_fit_scores(episodes[3:4])[0]["value"], b.cross_fit_scores([turned])[0]["value"]
    )
    assert not np.array_equal(a.score(episodes[3])["value"], b.score(turned)["value"])


def test_a_saved_critic_comes_back_to_the_bit(fitted, tmp_path):
    made, _, episodes = fitted
    made.save(tmp_path / "critic.safetensors")
    loaded = critic()
    loaded.load(tmp_path / "critic.safetensors")
    np.testing.assert_array_equal(loaded.value(episodes[0].state), made.value(episodes[0].state))
    np.testing.assert_array_equal(
        loaded.cross_fit_scores(episodes[:1])[0]["value"], made.cross_fit_scores(episodes[:1])[0]["value"]
    )
    with pytest.raises(DataError, match="width 32, expected 16"):
        critic(width=16).load(tmp_path / "critic.safetensors")
    (tmp_path / "critic.safetensors").write_bytes(b"")
    with pytest.raises(DataError, match="not a whole"):
        loaded.load(tmp_path / "critic.safetensors")


def test_without_rollouts_or_a_fit_it_says_so():
    demo = episode(takeover=None)
    demo = replace(demo, meta=replace(demo.meta, source="demonstration"))
    for nothing in ([], [demo], [without_outcome(episode(takeover=None))], [episode(takeover=(100, 120))]):
        with pytest.raises(DataError, match="needs rollouts"):
            critic().fit(nothing)
    with pytest.raises(RobotRLError, match="not been fitted"):
        critic().value(np.zeros((1, spec().state.size), np.float32))
    with pytest.raises(ConfigurationError, match="folds=1"):
        critic(folds=1)


def test_one_kind_of_outcome_is_survived():
    good = [e for e in rollouts(20) if e.succeeded]
    figures = critic(updates=20).fit(good)
    assert np.isnan(figures["auc"])
    assert np.isfinite(figures["brier"])
    assert np.isfinite(critic(updates=3).fit(good[:1])["brier"])


def test_no_outcome_crosses_a_takeover():
    rescued = episode(100, outcome="success", takeover=(40, 60))
    assert autonomous_runs(rescued) == [(0, 40), (60, 100)]
    experience = Experience.of([rescued])
    np.testing.assert_array_equal(experience.length, [41, 41])
    np.testing.assert_array_equal(experience.outcome, [np.nan, 1.0])
    values = np.full((1, 82), 0.25, np.float32)
    targets = experience.targets(values, trace=1.0)
    np.testing.assert_allclose(targets[0, :41], 0.25)
    np.testing.assert_allclose(targets[0, 41:], 1.0)


def test_targets_are_lambda_returns():
    plain = episode(6, outcome="failure", takeover=None)
    values = np.random.default_rng(0).random((2, 7)).astype(np.float32)
    found = Experience.of([plain]).targets(values, trace=0.7)
    expected = np.zeros((2, 7))
    for t in range(5, -1, -1):
        expected[:, t] = 0.3 * values[:, t + 1] + 0.7 * expected[:, t + 1]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_member_of_the_ensemble_is_what_it_would_be_alone():
    network = EnsembleMLP(3, 5, 8, torch.Generator().manual_seed(0))
    x = torch.randn(3, 4, 5)
    network(x).square().sum(dim=1)[1].backward()
    gradient = network.weights[0].grad
    assert gradient[1].abs().sum() > 0
    assert gradient[0].abs().sum() == gradient[2].abs().sum() == 0
    torch.testing.assert_close(network(x[1], 1, 1)[0], network(x)[1])


def test_calibration_of_a_perfect_and_a_useless_forecast():
    rng = np.random.default_rng(0)
    p = rng.random(20_000).astype(np.float32)
    honest = Calibration.of(p, rng.random(20_000) < p)
    assert honest.ece < 0.02
    assert sum(b.count for b in honest.bins) == honest.count
    boastful = Calibration.of(np.full(100, 0.95, np.float32), np.arange(100) < 50)
    assert (boastful.ece, boastful.auc) == (pytest.approx(0.45), 0.5)
    assert len(boastful.bins) == 1
