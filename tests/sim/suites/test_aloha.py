"""gym-aloha behind the environment contract, and against gym-aloha itself."""

import numpy as np
import pytest

from robotrl.errors import ConfigurationError
from sim.suites.aloha import aloha
from sim.suites.base import SuiteEnvironment
from sim.suites.packages import suite_module
from tests.contracts.environment import EnvironmentContract
from tests.sim.suites.needs import needs

pytestmark = needs("gym_aloha")

ONE = np.ones(1, np.bool_)


class TestTransferCube(EnvironmentContract):
    def make_environment(self, worlds: int) -> SuiteEnvironment:
        return aloha("transfer_cube", worlds)


class TestInsertion(EnvironmentContract):
    def make_environment(self, worlds: int) -> SuiteEnvironment:
        return aloha("insertion", worlds)


@pytest.mark.parametrize("name", ["transfer_cube", "insertion"])
def test_a_seed_starts_and_goes_on_as_in_gym_aloha_to_the_bit(name: str):
    environment = aloha(name, 1)
    start = environment.reset(np.array([11]), ONE)
    theirs = suite_module("gym_aloha.env").AlohaEnv(name, obs_type="pixels_agent_pos")
    expected, _ = theirs.reset(seed=11)
    np.testing.assert_array_equal(start.state[0, :14], expected["agent_pos"].astype(np.float32))
    moves = np.random.default_rng(2).normal(0.0, 0.05, (1, 4, 14))
    actions = environment.spec.action.clip(start.state[:, None, :14] + moves)
    found = environment.step(actions, ONE)
    for k in range(4):
        expected, reward, *_ = theirs.step(actions[0, k])
        np.testing.assert_array_equal(found.state[0, k, :14], expected["agent_pos"].astype(np.float32))
        assert found.reward[0, k] == reward


def test_the_pose_in_which_arms_start_can_be_held():
    environment = aloha("transfer_cube", 1)
    state = environment.reset(np.array([1]), ONE).state
    held = environment.step(np.repeat(state[:, None, :14], 20, axis=1), ONE)
    assert not held.clamped.any()
    assert np.abs(held.state[0, -1, :14] - state[0, :14]).max() < 0.05


def test_an_unknown_task_is_answered_with_those_there_are():
    with pytest.raises(ConfigurationError, match="Did you mean 'insertion'"):
        aloha("insert", 1)
