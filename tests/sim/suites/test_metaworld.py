"""Meta-World behind the environment contract, against Meta-World itself, and through the command line."""

import numpy as np
import pytest

from robotrl.cli import main
from robotrl.configuration import compose_config
from robotrl.data.store import EpisodeStore
from robotrl.errors import ConfigurationError
from robotrl.parts import Parts
from robotrl.rollout.loop import Execution, Origin, Rollout
from robotrl.specs import CameraSpec
from sim.experts import ExpertPolicy
from sim.suites.base import SuiteEnvironment
from sim.suites.instructions import META_WORLD
from sim.suites.metaworld import ScriptedExpert, meta_world
from sim.suites.packages import suite_module
from tests.contracts.environment import EnvironmentContract
from tests.sim.suites.needs import needs

pytestmark = needs("metaworld")

ONE = np.ones(1, np.bool_)
HELD_OUT = np.array([2_000_000_011, 2_000_000_012, 2_000_000_013])


class TestDrawerOpen(EnvironmentContract):
    def make_environment(self, worlds: int) -> SuiteEnvironment:
        return meta_world("drawer-open-v3", worlds)


class TestPickPlaceBehindAWall(EnvironmentContract):
    def make_environment(self, worlds: int) -> SuiteEnvironment:
        return meta_world("pick-place-wall-v3", worlds)


def test_every_task_has_words_and_a_scripted_policy():
    tasks, scripts = suite_module("metaworld.env_dict").ALL_V3_ENVIRONMENTS, suite_module("metaworld.policies")
    assert META_WORLD.keys() == tasks.keys() == scripts.ENV_POLICY_MAP.keys()
    assert len(set(META_WORLD.values())) == len(META_WORLD)


@pytest.mark.parametrize("name", META_WORLD)
def test_a_seed_starts_and_goes_on_as_in_meta_world_to_the_bit(name: str):
    environment = meta_world(name, 1)
    seed = 2_000_000_011
    environment.reset(np.array([seed + 1]), ONE)  # what was before makes no difference
    environment.step(np.ones((1, 5, 4), np.float32), ONE)
    kind = suite_module("metaworld.env_dict").ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE[f"{name}-goal-observable"]
    theirs = kind(seed=seed)
    expected, _ = theirs.reset()
    np.testing.assert_array_equal(environment.reset(np.array([seed]), ONE).state[0], expected.astype(np.float32))
    actions = np.random.default_rng(4).uniform(-1, 1, (1, 40, 4)).astype(np.float32)
    found = environment.step(actions, ONE)
    for k in range(int(found.valid.sum())):
        state, reward, *_, info = theirs.step(actions[0, k])
        np.testing.assert_array_equal(found.state[0, k], state.astype(np.float32))
        assert found.reward[0, k] == np.float32(reward)
        assert found.success[0, k] == bool(info["success"])


@pytest.mark.parametrize("name", ["drawer-open-v3", "pick-place-v3", "door-close-v3", "hammer-v3", "window-open-v3"])
def test_the_scripted_policy_solves_what_it_solves_in_meta_world(name: str):
    environment = meta_world(name, 3)
    policy = ExpertPolicy(ScriptedExpert(environment.spec, 3))
    episodes = Rollout(environment, policy, Execution(execute=1), Origin("", "test")).run(HELD_OUT)
    assert [e.meta.outcome for e in episodes] == ["success"] * 3


def test_a_start_leaves_the_generator_that_the_process_shares_as_it_was():
    environment = meta_world("reach-v3", 1)
    before = np.random.get_state()[1]  # noqa: NPY002
    environment.reset(np.array([8]), ONE)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_pictures_of_a_camera_show_the_start_of_the_seed():
    environment = meta_world("drawer-open-v3", 2, cameras=(CameraSpec("corner", 60, 80), CameraSpec("topview", 60, 80)))
    both = np.ones(2, np.bool_)
    observation = environment.reset(np.array([5, 6]), both)
    assert observation.physics is not None
    images = environment.step(np.zeros((2, 1, 4), np.float32), ~both, both).observation.images
    assert images["corner"].shape == images["topview"].shape == (2, 60, 80, 3)
    assert (images["corner"][0] != images["corner"][1]).any()
    film = environment.film(5, np.repeat(observation.physics[:1], 2, axis=0))
    assert np.abs(film[0].astype(int) - images["corner"][0]).mean() < 2
    environment.close()


def test_demonstrations_are_collected_trained_on_and_evaluated_from_the_command_line(capsys, tmp_path):
    run = f"run={tmp_path}"
    assert main(["collect", "task=suites/metaworld", "task.name=window-close-v3", "episodes=4", "worlds=2", run]) == 0
    assert "4 of 4 episodes succeeded" in capsys.readouterr().out
    entries = EpisodeStore.open(tmp_path / "store").snapshot().entries
    assert {e.meta.instruction for e in entries} == {"slide the window shut"}
    assert main(["train", run, "updates=5", "policy.width=32", "policy.blocks=1"]) == 0
    assert main(["evaluate", run, "episodes=2", "worlds=2"]) == 0
    assert "n=2 validation seeds" in capsys.readouterr().out


def test_a_simulated_person_drives_it_unless_they_must_compare_what_is_not_measured():
    task = "task=suites/metaworld"
    assert Parts(compose_config("improve", [task, "operator=alarm"])).operator(2, 0) is not None
    with pytest.raises(ConfigurationError, match="operator=alarm"):
        Parts(compose_config("improve", [task, "operator=self"])).operator(2, 0)


def test_a_mistyped_task_is_answered_with_the_nearest(capsys, tmp_path):
    code = main(["collect", "task=suites/metaworld", "task.name=drawr-open-v3", f"run={tmp_path}"])
    assert code == 2
    assert "Did you mean 'drawer-open-v3'" in capsys.readouterr().err
    with pytest.raises(ConfigurationError, match="corner"):
        meta_world("reach-v3", 1, cameras=(CameraSpec("cornr", 60, 80),))
