import dataclasses
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.flow import FlowPolicy
from policies.normalizer import ActionNormalizer
from policies.selectors.average import AverageSelector
from robotrl import seeds
from robotrl.errors import ConfigurationError, DataError, RobotRLError
from robotrl.learn.blocks import torch_threads
from tests.contracts.policy import PolicyContract
from tests.policies.builders import ACTION, LENGTH, STATE, policy, spec, windows


class TestFlowPolicy(PolicyContract):
    def make_policy(self):
        return policy(version=3), spec()


class TestFlowPolicyWithHistory(PolicyContract):
    def make_policy(self):
        return policy(history=3), spec()


class TestAverageSelector(PolicyContract):
    def make_policy(self):
        return AverageSelector(policy(), draws=5), spec()


@pytest.mark.parametrize("draws", [1, 16])
def test_threads_change_no_bit(draws: int):
    made, contract = policy(), PolicyContract()
    chosen = AverageSelector(made, draws)
    one = contract.propose(chosen, spec(), 64)[0].actions
    made.threads = 2
    two = contract.propose(chosen, spec(), 64)[0].actions
    np.testing.assert_array_equal(one, two)


def test_threads_inside_an_operation_change_no_bit():
    made, contract = policy(), PolicyContract()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        two = contract.propose(made, spec(), 64)[0].actions
        assert torch.get_num_threads() == 2
        torch.set_num_threads(1)
        one = contract.propose(made, spec(), 64)[0].actions
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(one, two)


def test_the_average_of_one_draw_is_the_draw_and_of_many_their_mean():
    made, contract = policy(), PolicyContract()
    single = contract.propose(made, spec(), 6)[0]
    np.testing.assert_array_equal(contract.propose(AverageSelector(made, 1), spec(), 6)[0].actions, single.actions)
    states = contract.observe(made, spec(), range(6), 6).state
    noise = np.stack([made.noise(seeds.generator(world, "chunk", 0), 3) for world in range(6)])
    np.testing.assert_array_equal(noise[:, 0], single.noise)
    draws = np.stack([made.sample(made.context(states, {}), noise[:, k]) for k in range(3)])
    mean = contract.propose(AverageSelector(made, 3), spec(), 6)[0].actions
    np.testing.assert_allclose(mean, draws.mean(axis=0), atol=1e-6)


def test_temperature_scales_the_starting_noise_and_at_zero_all_draws_are_one():
    made, contract = policy(), PolicyContract()
    cold = [contract.propose(AverageSelector(made, draws, 0.0), spec(), 6)[0].actions for draws in (1, 5)]
    np.testing.assert_allclose(cold[0], cold[1], atol=1e-6)
    halves = [contract.propose(AverageSelector(made, 1, t), spec(), 6)[0].actions for t in (0.5, 1.0)]
    alone = contract.propose(made, spec(), 6)[0]
    np.testing.assert_array_equal(halves[1], alone.actions)
    spread = [np.abs(actions - cold[0]).mean() for actions in halves]
    assert 0 < spread[0] < spread[1]


def test_the_loss_ignores_actions_that_are_no_targets():
    made, batch = policy(), windows(32)
    garbage = np.where(batch.mask[..., None], batch.actions, batch.actions + 0.5).astype(np.float32)
    full = replace(batch, mask=np.ones_like(batch.mask))

    def loss(w):
        made.network.inlet.weight.data[:, -32 - LENGTH * ACTION.size : -32] = 0  # blind to the noisy chunk
        return made.loss(w, torch.Generator().manual_seed(1)).detach().numpy()

    np.testing.assert_allclose(loss(batch), loss(replace(batch, actions=garbage)), rtol=1e-5)
    assert not np.allclose(loss(full), loss(replace(full, actions=garbage)), rtol=1e-2)
    assert loss(batch).shape == (32,)


def test_a_window_without_targets_costs_nothing():
    made, batch = policy(), windows(4)
    nothing = replace(batch, mask=np.zeros_like(batch.mask))
    np.testing.assert_array_equal(made.loss(nothing, torch.Generator()).detach().numpy(), 0)


def test_the_velocity_at_the_right_answer_has_the_losss_error():
    """loss = ‖velocity(x_τ, τ) − (x₁ − x₀)‖² with the same noise."""
    made, batch = policy(), windows(8)
    whole = replace(batch, mask=np.ones_like(batch.mask))
    generator = torch.Generator().manual_seed(5)
    states = torch.from_numpy(whole.states)
    target = made.normalizer.encode(torch.from_numpy(whole.actions), states[:, -1])
    noise = torch.randn(target.shape, generator=generator)
    tau = torch.rand(8, generator=generator)
    x = (1 - tau[:, None, None]) * noise + tau[:, None, None] * target
    expected = (made.velocity(made.encode(states), x, tau) - (target - noise)).square().mean(dim=(1, 2))
    torch.testing.assert_close(made.loss(whole, torch.Generator().manual_seed(5)), expected)


def test_training_learns_the_task():
    made = policy()
    optimizer, generator = torch.optim.Adam(made.parameters(), 3e-3), torch.Generator().manual_seed(0)
    with torch_threads(1):
        for step in range(400):
            optimizer.zero_grad()
            made.loss(windows(128, seed=step + 1), generator).mean().backward()
            optimizer.step()
    test = windows(64, seed=99_999)
    found = made.sample(made.context(test.states, {}), np.zeros_like(test.actions))
    error = np.abs(found - ACTION.clip(test.actions))
    assert error[..., :2].mean() < 0.03
    assert error[..., 2].mean() < 0.008


@given(seed=st.integers(0, 1000), scale=st.floats(0.01, 3.0))
@settings(max_examples=25, deadline=None)
def test_decoding_undoes_encoding(seed: int, scale: float):
    normalizer, batch = ActionNormalizer(STATE, ACTION, LENGTH), windows(64, seed)
    normalizer.fit(batch.states[:, -1], batch.actions * np.float32(scale), batch.mask)
    newest, actions = torch.from_numpy(batch.states[:, -1]), torch.from_numpy(batch.actions)
    torch.testing.assert_close(normalizer.decode(normalizer.encode(actions, newest), newest), actions)


def test_only_joints_are_relative_to_what_was_measured():
    normalizer, batch = ActionNormalizer(STATE, ACTION, LENGTH), windows(64)
    normalizer.fit(batch.states[:, -1], batch.actions, np.ones_like(batch.mask))
    newest, chunk = torch.from_numpy(batch.states[:1, -1]), torch.zeros(1, LENGTH, ACTION.size)
    moved = newest + 0.1
    shift = normalizer.decode(chunk, moved) - normalizer.decode(chunk, newest)
    torch.testing.assert_close(shift[0, 0], torch.tensor([0.1, 0.1, 0.0]), atol=1e-6, rtol=0)


def test_constant_elements_stay_tame():
    made, batch = policy(), windows(16)
    frozen = replace(batch, actions=np.full_like(batch.actions, 0.02))
    made.fit_normalizer(frozen)
    assert torch.isfinite(made.loss(frozen, torch.Generator().manual_seed(0))).all()
    assert made.features.scale[4] == 1.0
    assert torch.isfinite(made.features(torch.full((1, 5), 2.0))).all()


def test_unusable_data_and_configurations_are_named():
    batch = windows(8)
    poisoned = replace(batch, states=np.full_like(batch.states, np.nan))
    with pytest.raises(DataError, match="all finite"):
        policy(fitted=False).fit_normalizer(poisoned)
    with pytest.raises(DataError, match="no window reaches row 3"):
        policy(fitted=False).fit_normalizer(replace(batch, mask=batch.mask & (np.arange(LENGTH) < 3)))
    with pytest.raises(RobotRLError, match="no normaliser"):
        policy(fitted=False).loss(batch, torch.Generator())
    for bad in ({"euler_steps": 1}, {"width": 0}, {"history": 0}, {"block_rows": 0}):
        with pytest.raises(ConfigurationError, match=next(iter(bad))):
            FlowPolicy(STATE, ACTION, **bad)
    with pytest.raises(ConfigurationError, match="draws=0"):
        AverageSelector(policy(), 0)
    with pytest.raises(ConfigurationError, match="temperature=-1"):
        AverageSelector(policy(), 1, -1.0)


def test_the_noise_is_kept_with_the_chunk():
    made, contract = policy(), PolicyContract()
    chunk, observation = contract.propose(made, spec(), 3)
    np.testing.assert_array_equal(made.sample(made.context(observation.state, {}), chunk.noise), chunk.actions)
    assert dataclasses.is_dataclass(chunk)
