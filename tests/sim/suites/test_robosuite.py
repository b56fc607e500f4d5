"""robosuite behind the environment contract, and against robosuite itself."""

import random

import numpy as np
import pytest

from robotrl.errors import ConfigurationError
from robotrl.specs import CameraSpec
from sim.suites.base import SuiteEnvironment
from sim.suites.packages import suite_module
from sim.suites.robosuite import robosuite
from tests.contracts.environment import EnvironmentContract
from tests.sim.suites.needs import needs

pytestmark = needs("robosuite")

ONE = np.ones(1, np.bool_)


class TestLift(EnvironmentContract):
    def make_environment(self, worlds: int) -> SuiteEnvironment:
        return robosuite("Lift", worlds, horizon=20, cameras=())


def test_a_seed_starts_and_goes_on_as_in_robosuite_to_the_bit():
    environment = robosuite("Lift", 1)
    theirs = suite_module("robosuite").make(
        "Lift", robots="Panda", has_renderer=False, has_offscreen_renderer=False, use_camera_obs=False
    )
    np.random.seed(11)  # noqa: NPY002
    random.seed(11)
    expected = theirs.reset()
    cube = environment.spec.state.slice("cube_pos")
    np.testing.assert_array_equal(
        environment.reset(np.array([11]), ONE).state[0, cube], expected["cube_pos"].astype(np.float32)
    )
    actions = np.random.default_rng(2).uniform(-1, 1, (1, 10, 7)).astype(np.float32)
    found = environment.step(actions, ONE)
    hand = environment.spec.state.slice("robot0_eef_pos")
    for k in range(10):
        expected, reward, *_ = theirs.step(actions[0, k].astype(float))
        np.testing.assert_array_equal(found.state[0, k, hand], expected["robot0_eef_pos"].astype(np.float32))
        assert found.reward[0, k] == np.float32(reward)


def test_lift_succeeds_when_the_cube_is_lifted():
    environment = robosuite("Lift", 1)
    spec, state = environment.spec, environment.reset(np.array([3]), ONE).state[0]
    cube, hand, fingers = (spec.state.slice(key) for key in ("cube_pos", "robot0_eef_pos", "robot0_gripper_qpos"))
    found = None
    for _ in range(150):
        way = state[cube] - state[hand]
        there = np.abs(way).max() < 0.01
        held = there and state[fingers][0] < 0.025
        step = [0, 0, 1] if held else 10 * way * [1, 1, np.abs(way[:2]).max() < 0.01]
        action = spec.action.clip(np.array([*step, 0, 0, 0, 1 if there else -1]))
        found = environment.step(action[None, None], ONE)
        state = found.state[0, 0]
        if found.terminated.any():
            break
    assert found is not None
    assert found.success.all()
    assert found.failure == ("",)


@pytest.mark.parametrize(
    ("name", "task", "arms"), [("Square", "NutAssemblySquare", 1), ("Transport", "TwoArmTransport", 2)]
)
def test_tasks_have_the_names_of_robomimic_too_and_as_many_arms_as_they_need(name: str, task: str, arms: int):
    spec = robosuite(name, 1).spec
    assert (spec.task, spec.action.size) == (task, 7 * arms)
    assert set(spec.action.elements) - set(spec.momentary) == {f"robot{i}.right_gripper.0" for i in range(arms)}


def test_a_camera_sees_every_start_though_each_has_a_model_of_its_own():
    environment = robosuite("Lift", 1, cameras=(CameraSpec("agentview", 60, 80),))
    images = []
    for seed in (1, 2):
        environment.reset(np.array([seed]), ONE)
        still = np.zeros((1, 1, 7), np.float32)
        images.append(environment.step(still, ~ONE, ONE).observation.images["agentview"][0])
    environment.close()
    assert images[0].shape == (60, 80, 3)
    assert (images[0] != images[1]).any()


def test_unknown_tasks_and_robots_are_answered_with_the_nearest():
    with pytest.raises(ConfigurationError, match="Did you mean 'Lift'"):
        robosuite("Lft", 1)
    with pytest.raises(ConfigurationError, match="Did you mean 'Panda'"):
        robosuite("Lift", 1, robot="Pandaa")
