"""Gymnasium environments that need no further package, behind the environment contract."""

import numpy as np
import pytest

from robotrl.errors import ConfigurationError
from robotrl.rollout.loop import Execution, Origin, Rollout
from robotrl.specs import CameraSpec
from robotrl.types import ActionChunk
from sim.suites.base import SuiteEnvironment
from sim.suites.gymnasium import gymnasium_environment
from tests.contracts.environment import EnvironmentContract

ONE = np.ones(1, np.bool_)


class TestPendulum(EnvironmentContract):
    def make_environment(self, worlds: int) -> SuiteEnvironment:
        return gymnasium_environment("Pendulum-v1", worlds, horizon=30)


class TestReacherWithMuJoCo(EnvironmentContract):
    def make_environment(self, worlds: int) -> SuiteEnvironment:
        return gymnasium_environment("Reacher-v5", worlds, horizon=30)


def test_worlds_are_those_of_gymnasium_to_the_bit():
    import gymnasium

    environment = gymnasium_environment("Pendulum-v1", 1)
    theirs = gymnasium.make("Pendulum-v1")
    expected, _ = theirs.reset(seed=7)
    np.testing.assert_array_equal(environment.reset(np.array([7]), ONE).state[0], expected)
    actions = np.random.default_rng(0).uniform(-2, 2, (1, 50, 1)).astype(np.float32)
    found = environment.step(actions, ONE)
    for k in range(50):
        expected, reward, *_ = theirs.step(actions[0, k])
        np.testing.assert_array_equal(found.state[0, k], expected)
        assert found.reward[0, k] == np.float32(reward)


def test_rates_and_limits_are_those_of_the_environment():
    spec = gymnasium_environment("Pendulum-v1", 1).spec
    assert (spec.horizon, spec.control_hz, spec.task) == (200, 20.0, "Pendulum-v1")
    assert gymnasium_environment("Pendulum-v1", 1, horizon=500).spec.horizon == 200


def test_an_end_is_success_where_the_task_says_so_and_a_failure_elsewhere():
    for success, reason in (("termination", ""), ("success", "failed")):
        environment = gymnasium_environment("InvertedPendulum-v5", 1, success=success)
        environment.reset(np.array([3]), ONE)
        found = environment.step(np.full((1, 100, 1), 3.0, np.float32), ONE)
        assert found.terminated.any()
        assert found.failure == (reason,)
        assert found.success.any() == (success == "termination")


class Swings:
    """A policy with nothing to learn."""

    history, chunk_length, cameras, version = 1, 8, (), 0

    def propose(self, observation, rows, committed, rng):
        actions = np.stack([r.uniform(-2, 2, (8, 1)).astype(np.float32) for r in rng])
        return ActionChunk(rows, actions, observation.tick, 0)


def test_the_loop_rolls_out_what_has_no_measured_action():
    environment = gymnasium_environment("Pendulum-v1", 2, horizon=40)
    episodes = list(Rollout(environment, Swings(), Execution(), Origin("", "test")).run([1, 2, 3]))
    assert [e.length for e in episodes] == [40, 40, 40]
    assert {e.meta.reason for e in episodes} == {"timeout"}


def test_a_picture_is_drawn_by_a_camera_of_the_model_or_by_the_environment():
    camera = CameraSpec("track", 48, 64)
    environment = gymnasium_environment("Hopper-v5", 2, cameras=(camera,))
    environment.reset(np.array([1, 2]), np.ones(2, np.bool_))
    still = np.zeros((2, 1, 3), np.float32)
    images = environment.step(still, np.zeros(2, np.bool_), np.array([True, False])).observation.images
    environment.close()
    assert images["track"].shape == (2, 48, 64, 3)
    assert images["track"][0].std() > 0
    assert not images["track"][1].any()


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("Pendulm-v1", {}, "Did you mean 'Pendulum-v1'"),
        ("CartPole-v1", {}, "bounded Box"),
        ("Pendulum-v1", {"package": "nothing_of_that_name"}, r"robotrl\[suites\]"),
        ("Pendulum-v1", {"horizon": 0}, "time limit"),
        ("Hopper-v5", {"cameras": (CameraSpec("tracks", 48, 64),)}, "Did you mean 'track'"),
    ],
)
def test_what_cannot_be_served_says_what_to_do(name, arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        gymnasium_environment(name, 1, **arguments)
