"""OGBench behind the environment contract, and against OGBench itself."""

import gymnasium
import numpy as np
import pytest

from robotrl.errors import ConfigurationError
from sim.suites.base import SuiteEnvironment
from sim.suites.ogbench import ogbench
from tests.contracts.environment import EnvironmentContract
from tests.sim.suites.needs import needs

pytestmark = needs("ogbench")

CUBE = "cube-single-singletask-task1-v0"
ONE = np.ones(1, np.bool_)


class TestCube(EnvironmentContract):
    def make_environment(self, worlds: int) -> SuiteEnvironment:
        return ogbench(CUBE, worlds, horizon=40)


@pytest.mark.parametrize("name", [CUBE, "scene-singletask-task2-v0", "puzzle-3x3-singletask-task1-v0"])
def test_a_seed_starts_and_goes_on_as_in_ogbench(name: str):
    environment = ogbench(name, 1)
    assert environment.spec.control_hz == 20.0
    environment.reset(np.array([5]), ONE)  # what was before makes no difference
    theirs = gymnasium.make(name)
    expected, _ = theirs.reset(seed=11)
    np.testing.assert_allclose(environment.reset(np.array([11]), ONE).state[0], expected, atol=1e-6)
    actions = np.random.default_rng(2).uniform(-1, 1, (1, 10, 5)).astype(np.float32)
    found = environment.step(actions, ONE)
    for k in range(10):
        expected, reward, *_ = theirs.step(actions[0, k])
        # OGBench itself differs from run to run: it steps under unseeded actions while it resets.
        np.testing.assert_allclose(found.state[0, k], expected, atol=1e-4)
        assert found.reward[0, k] == reward


@pytest.mark.parametrize("name", [CUBE, "scene-singletask-task2-v0", "puzzle-3x3-singletask-task1-v0"])
def test_a_seed_gives_the_same_bits_in_two_worlds_with_different_pasts(name: str):
    environment = ogbench(name, 2)
    both, first = np.ones(2, np.bool_), np.array([True, False])
    actions = np.random.default_rng(2).uniform(-1, 1, (1, 30, 5)).astype(np.float32).repeat(2, axis=0)
    environment.reset(np.array([5, 5]), both)
    environment.step(actions, first)
    environment.reset(np.array([11, 11]), both)
    found = environment.step(actions, both)
    np.testing.assert_array_equal(found.physics[0], found.physics[1])


def test_an_unknown_task_is_answered_with_the_nearest():
    with pytest.raises(ConfigurationError, match=f"Did you mean '{CUBE}'"):
        ogbench(CUBE.replace("cube", "cub"), 1)
