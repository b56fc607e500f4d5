"""Pictures, and what is said when there is no driver for them."""

import os
import subprocess
import sys

import numpy as np
import pytest

from robotrl.errors import ConfigurationError
from robotrl.seeds import seed_range
from sim.environment import MujocoEnvironment
from sim.render import SceneRenderer, render
from sim.tasks.insert import Insert

needs_gl = pytest.mark.skipif(os.environ.get("MUJOCO_GL") != "egl", reason="no EGL driver on this machine")


@needs_gl
def test_stored_states_become_pictures_in_which_something_moves():
    env = MujocoEnvironment(Insert(), 2)
    physics = env.reset(seed_range("train").block(2), np.ones(2, np.bool_)).physics
    pictures = render(env.model, physics, height=60, width=80)
    assert pictures.shape == (2, 60, 80, 3)
    assert pictures.dtype == np.uint8
    assert (pictures[0] != pictures[1]).any()


@needs_gl
def test_a_step_renders_every_world_when_asked():
    env = MujocoEnvironment(Insert(), 2, camera_height=48, camera_width=64)
    start = env.reset(seed_range("train").block(2), np.ones(2, np.bool_))
    assert start.images == {}
    images = env.step(start.state[:, None, :8], np.ones(2, np.bool_), render=True).observation.images
    assert images["front"].shape == (2, 48, 64, 3)
    env.close()


@needs_gl
def test_an_unknown_camera_is_named():
    env = MujocoEnvironment(Insert(), 1)
    with (
        SceneRenderer(env.model, 20, 20) as renderer,
        pytest.raises(ConfigurationError, match=r"no camera is called 'fron'\. Did you mean 'front'"),
    ):
        renderer.frame(np.zeros(env.spec.physics_size), "fron")


@pytest.mark.parametrize("size", [(0, 10), (10, 100_000)])
def test_an_impossible_size_is_refused(size: tuple[int, int]):
    with pytest.raises(ConfigurationError, match="pixels"):
        SceneRenderer(MujocoEnvironment(Insert(), 1).model, *size)


def test_without_a_driver_the_error_says_what_to_install():
    script = """
import numpy as np
from robotrl.errors import ConfigurationError
from sim.environment import MujocoEnvironment
from sim.render import render
from sim.tasks.insert import Insert
env = MujocoEnvironment(Insert(), 1)
try:
    render(env.model, np.zeros((1, env.spec.physics_size)))
except ConfigurationError as error:
    print(error)
"""
    environment = {**os.environ, "MUJOCO_GL": "disable"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert "apt-get install libegl1 libgl1-mesa-dri" in done.stdout
