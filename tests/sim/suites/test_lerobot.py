"""LeRobot's own environments; Meta-World is the one that needs no assets."""

import numpy as np
import pytest

from robotrl.errors import ConfigurationError
from sim.suites.lerobot import lerobot
from tests.sim.suites.needs import needs

pytestmark = needs("metaworld")

SMALL = {"obs_type": "pixels_agent_pos"}
ONE = np.ones(1, np.bool_)


def test_a_task_of_lerobot_has_its_state_words_and_pictures():
    environment = lerobot("drawer-open-v3", 1, "metaworld", options=SMALL)
    spec = environment.spec
    assert (spec.state.size, spec.action.size, spec.control_hz) == (4, 4, 80.0)
    assert "drawer" in spec.instructions[0].lower()
    assert [camera.name for camera in spec.cameras] == ["pixels"]
    environment.reset(np.array([4]), ONE)
    moved = environment.step(np.ones((1, 2, 4), np.float32), ONE, ONE)
    assert moved.valid.all()
    assert moved.observation.images["pixels"].std() > 0
    environment.close()


def test_a_seed_gives_the_same_way_whatever_was_before():
    environment = lerobot("drawer-open-v3", 1, "metaworld")
    actions = np.random.default_rng(0).uniform(-1, 1, (1, 5, 4)).astype(np.float32)
    ways = []
    for seed in (4, 5, 4):
        environment.reset(np.array([seed]), ONE)
        ways.append(environment.step(actions, ONE).state)
    np.testing.assert_array_equal(ways[0], ways[2])
    environment.close()


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("drawer-open-v3", "metawrld", "Did you mean 'metaworld'"),
        ("AlohaInsertion-v0", "aloha", "suites/aloha"),
        ("no-such-task-v3", "metaworld", "lerobot cannot make 'no-such-task-v3'"),
        ("libero_spatial", "libero", "lerobot cannot make 'libero_spatial' of 'libero'"),
    ],
)
def test_what_cannot_be_made_says_why(name: str, kind: str, message: str):
    with pytest.raises(ConfigurationError, match=message):
        lerobot(name, 1, kind)
