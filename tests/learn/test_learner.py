from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from robotrl.errors import ConfigurationError, DataError, RobotRLError
from robotrl.learn.learner import LearnerConfig, fit, fit_normalizer
from robotrl.learn.objectives import WeightedRegression
from tests.policies.builders import RepeatingSampler, policy, windows

CONFIG = LearnerConfig(updates=30, warmup=5, threads=1, checkpoint_every=10)


def weights(trained) -> dict[str, np.ndarray]:
    return {name: t.numpy().copy() for name, t in trained.state_dict().items()}


def assert_same(a, b):
    for name, value in weights(a).items():
        np.testing.assert_array_equal(value, weights(b)[name], err_msg=name)


class Interrupted(Exception):
    pass


def stop_at(update: int):
    def progress(done: int, total: int, loss: float):
        if done == update:
            raise Interrupted

    return progress


def test_the_loss_falls_and_the_policy_given_is_not_touched(tmp_path):
    start, reports = policy(), []
    before = weights(start)
    config = replace(CONFIG, updates=200, learning_rate=3e-3)
    result = fit(start, WeightedRegression(), RepeatingSampler(), config, tmp_path, lambda *r: reports.append(r))
    assert result.metrics["loss_last"] < 0.7 * result.loss[:10].mean()
    assert [r[:2] for r in reports] == [(i + 1, 200) for i in range(200)]
    assert result.loss.shape == (200,)
    for name, value in before.items():
        np.testing.assert_array_equal(value, weights(start)[name])


@pytest.mark.parametrize("at", [10, 17, 30])
def test_an_interrupted_training_ends_with_the_bits_of_an_undisturbed_one(tmp_path, at):
    whole = fit(policy(), WeightedRegression(), RepeatingSampler(), CONFIG, tmp_path / "whole")
    with pytest.raises(Interrupted):
        fit(policy(), WeightedRegression(), RepeatingSampler(), CONFIG, tmp_path / "cut", stop_at(at))
    resumed = fit(policy(), WeightedRegression(), RepeatingSampler(), CONFIG, tmp_path / "cut")
    assert_same(whole.policy, resumed.policy)
    np.testing.assert_array_equal(whole.loss, resumed.loss)


def test_equal_trainings_give_equal_bits_and_seeds_differ(tmp_path):
    one, two, other = (
        fit(policy(), WeightedRegression(), RepeatingSampler(), replace(CONFIG, seed=s), tmp_path / str(i)).policy
        for i, s in enumerate((0, 0, 1))
    )
    assert_same(one, two)
    assert not np.array_equal(weights(one)["network.inlet.weight"], weights(other)["network.inlet.weight"])


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    fit(policy(), WeightedRegression(), RepeatingSampler(), CONFIG, tmp_path)
    with pytest.raises(DataError, match="another training"):
        fit(policy(), WeightedRegression(), RepeatingSampler(), replace(CONFIG, learning_rate=1e-4), tmp_path)
    with pytest.raises(DataError, match="another training"):
        fit(policy(seed=1), WeightedRegression(), RepeatingSampler(), CONFIG, tmp_path)


def test_a_damaged_checkpoint_is_named(tmp_path):
    fit(policy(), WeightedRegression(), RepeatingSampler(), CONFIG, tmp_path)
    path = tmp_path / "training.safetensors"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(DataError, match="not a whole safetensors file"):
        fit(policy(), WeightedRegression(), RepeatingSampler(), CONFIG, tmp_path)


class PoisonedSampler(RepeatingSampler):
    def sample(self):
        batch = super().sample()
        return replace(batch, actions=np.full_like(batch.actions, np.nan)) if self.drawn == 13 else batch


def test_a_loss_that_is_not_finite_keeps_the_batch_and_the_champion(tmp_path):
    champion = policy()
    before = weights(champion)
    with pytest.raises(RobotRLError, match=r"diverged at update 12.*diverged_at_12\.safetensors"):
        fit(champion, WeightedRegression(), PoisonedSampler(), CONFIG, tmp_path)
    assert np.isnan(load_file(tmp_path / "diverged_at_12.safetensors")["actions"].numpy()).all()
    for name, value in before.items():
        np.testing.assert_array_equal(value, weights(champion)[name])


def test_the_number_of_threads_is_put_back(tmp_path):
    before = torch.get_num_threads()
    fit(policy(), WeightedRegression(), RepeatingSampler(), replace(CONFIG, updates=2, threads=2), tmp_path)
    assert torch.get_num_threads() == before


def test_the_normaliser_is_fitted_from_the_sampler():
    made = policy(fitted=False)
    fit_normalizer(made, RepeatingSampler(), batches=3)
    assert made.features.fitted
    assert made.normalizer.fitted
    seen = np.concatenate([windows(64, seed=i).states[:, -1, 0] for i in (1, 2, 3)])
    assert float(made.features.mean[0]) == pytest.approx(seen.mean(), abs=1e-6)


def test_the_rate_rises_then_falls():
    config = LearnerConfig(updates=1000, warmup=100, learning_rate=1e-3, final_fraction=0.1)
    rates = [config.rate(u) for u in range(1000)]
    assert rates[0] == pytest.approx(1e-5, rel=0.01)
    assert max(rates) == pytest.approx(1e-3, rel=0.05)
    assert rates[-1] == pytest.approx(1e-4, rel=0.01)


def test_the_objective_weighs_samples():
    made, batch = policy(), windows(16)
    weights_of = torch.zeros(16)
    weights_of[3] = 2.0
    loss, _ = WeightedRegression()(made, None, batch, weights_of, torch.Generator().manual_seed(0))
    torch.testing.assert_close(loss, made.loss(batch, torch.Generator().manual_seed(0))[3])


@pytest.mark.parametrize("bad", [{"updates": 0}, {"learning_rate": -1.0}, {"ema": 1.0}, {"threads": 0}, {"clip": 0.0}])
def test_impossible_values_are_named(bad):
    with pytest.raises(ConfigurationError, match=next(iter(bad))):
        LearnerConfig(**bad)
