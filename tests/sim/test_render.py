"""Pictures, and what is said when there is no driver for them."""

import os
import subprocess
import sys

import numpy as np
import pytest

from robotrl.configuration import compose_config
from robotrl.errors import ConfigurationError
from robotrl.parts import Parts
from robotrl.seeds import seed_range
from robotrl.specs import CameraSpec, spec_from_json
from sim.environment import MujocoEnvironment
from sim.graphics import detected
from sim.randomisation import Randomisation
from sim.render import SceneRenderer, render
from sim.tasks.insert import Insert

SMALL = CameraSpec("front", 48, 64)
EVERYONE = np.ones(2, np.bool_)

needs_gl = pytest.mark.skipif(os.environ.get("MUJOCO_GL") != "egl", reason="no EGL driver on this machine")


def started(**options: object) -> tuple[MujocoEnvironment, np.ndarray]:
    """Two worlds at their starts, and the states (2, X) of these."""
    env = MujocoEnvironment(Insert(), 2, **options)
    return env, env.reset(seed_range("train").block(2), EVERYONE).physics


@needs_gl
def test_stored_states_become_pictures_in_which_something_moves():
    env, physics = started()
    pictures = render(env.model, physics, CameraSpec("front", 60, 80))
    assert pictures.shape == (2, 60, 80, 3)
    assert pictures.dtype == np.uint8
    assert (pictures[0] != pictures[1]).any()


@needs_gl
def test_a_step_renders_the_worlds_that_it_is_asked_to_and_no_others():
    env = MujocoEnvironment(Insert(), 2, cameras=[SMALL])
    start = env.reset(seed_range("train").block(2), EVERYONE)
    assert start.images == {}
    actions = start.state[:, None, :8]
    assert env.step(actions, EVERYONE).observation.images == {}
    assert env.step(actions, EVERYONE, ~EVERYONE).observation.images == {}
    both = env.step(actions, ~EVERYONE, EVERYONE).observation.images["front"]
    assert both.shape == (2, 48, 64, 3)
    second = env.step(actions, ~EVERYONE, np.array([False, True])).observation.images["front"]
    env.close()
    np.testing.assert_array_equal(second[1], both[1])
    assert not second[0].any()


@needs_gl
def test_a_fast_picture_shows_nearly_what_a_full_one_does():
    env, physics = started()
    full, fast = (render(env.model, physics, CameraSpec("front", 96, 128, p)).astype(int) for p in ("full", "fast"))
    assert 0 < np.abs(full - fast).mean() < 12
    # The orange peg is in the same places.
    peg = [p[..., 0] - p[..., 2] > 70 for p in (full, fast)]
    assert (peg[0] & peg[1]).sum() > 0.7 * (peg[0] | peg[1]).sum() > 20


@needs_gl
def test_drawing_leaves_the_physics_alone():
    env, physics = started()
    before = env.model.geom_type.copy(), env.model.geom_size.copy(), env.model.light_castshadow.copy()
    render(env.model, physics, CameraSpec("front", 20, 20, "fast"))
    for old, now in zip(before, (env.model.geom_type, env.model.geom_size, env.model.light_castshadow), strict=True):
        np.testing.assert_array_equal(old, now)


@needs_gl
@pytest.mark.parametrize("profile", ["full", "fast"])
def test_a_world_with_looks_of_its_own_is_drawn_with_them(profile: str):
    camera = CameraSpec("front", 48, 64, profile)
    env, physics = started(randomisation=Randomisation(colour=0.3, light=0.5, camera_m=0.05), cameras=[camera])
    still = np.zeros((2, 1, env.spec.action.size), np.float32)
    images = env.step(still, ~EVERYONE, EVERYONE).observation.images["front"]
    env.close()
    own = env._variants.of(np.arange(2))
    assert own is not None
    with SceneRenderer(env.model, camera) as renderer:
        for world in range(2):
            plain = renderer.frame(physics[world])
            assert np.abs(images[world].astype(int) - plain).mean() > 3
            # The variant's looks don't stay behind.
            np.testing.assert_array_equal(images[world], renderer.frame(physics[world], own[world]))
            np.testing.assert_array_equal(plain, renderer.frame(physics[world]))
            np.testing.assert_array_equal(images[world], render(own[world], physics[world : world + 1], camera)[0])


def test_cameras_come_from_the_configuration_and_are_stored_with_the_data():
    camera = "{_target_: robotrl.specs.CameraSpec, name: front, height: 64, width: 48, profile: fast}"
    spec = Parts(compose_config("collect", [f"+task.environment.cameras=[{camera}]"])).spec
    assert spec.cameras == (CameraSpec("front", 64, 48, "fast"),)
    assert spec_from_json(spec.to_json()) == spec


def test_the_full_profile_is_left_out_of_a_spec_so_that_stores_from_before_profiles_still_open():
    spec = MujocoEnvironment(Insert(), 1).spec
    assert spec.cameras == (CameraSpec("front", 240, 320, "full"),)
    assert '"profile"' not in spec.to_json()
    assert spec_from_json(spec.to_json()) == spec
    assert spec.fingerprint == "49e3b414dd86"


@pytest.mark.parametrize(
    ("camera", "told"),
    [
        (CameraSpec("fron", 20, 20), r"no camera is called 'fron'\. Did you mean 'front'"),
        (
            CameraSpec("left_wrist", 20, 20),
            r"no camera is called 'left_wrist'\. Did you mean 'wrist'\? Valid: front, side, wr",
        ),
        (CameraSpec("front", 0, 10), "picture of 0 x 10 pixels: expected 1 x 1 to 960 x 1280"),
        (CameraSpec("front", 10, 100_000), "picture of 10 x 100000 pixels"),
        (CameraSpec("front", 10, 10, "fats"), r"no visual profile is called 'fats'\. Did you mean 'fast'"),
    ],
)
def test_an_impossible_camera_is_refused_before_anything_runs(camera: CameraSpec, told: str):
    with pytest.raises(ConfigurationError, match=told):
        MujocoEnvironment(Insert(), 1, cameras=[camera])
    with pytest.raises(ConfigurationError, match=told):
        SceneRenderer(MujocoEnvironment(Insert(), 1).model, camera)


def test_two_cameras_of_one_name_are_refused():
    with pytest.raises(ConfigurationError, match="expected each name once, got front, front"):
        MujocoEnvironment(Insert(), 1, cameras=[SMALL, SMALL])


@pytest.mark.parametrize(
    ("backend", "fix"),
    [
        ("disable", "drawing was turned off: `apt-get install libegl1 libgl1-mesa-dri` and set MUJOCO_GL=egl"),
        ("osmesa", "`apt-get install libosmesa6` and set MUJOCO_GL=osmesa"),
        ("glfw", "a window system is needed: set DISPLAY"),
    ],
)
def test_without_a_driver_the_error_names_the_backend_and_says_what_to_install(backend: str, fix: str):
    script = """
from robotrl.errors import ConfigurationError
try:
    import numpy as np
    from sim.environment import MujocoEnvironment
    from sim.render import render
    from sim.tasks.insert import Insert
    env = MujocoEnvironment(Insert(), 1)
    render(env.model, np.zeros((1, env.spec.physics_size)))
    print("it drew")
except ConfigurationError as error:
    print(error)
"""
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    environment["MUJOCO_GL"] = backend
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    if backend == "osmesa" and "it drew" in done.stdout:
        pytest.skip("this machine has OSMesa")
    assert f"MUJOCO_GL={backend}" in done.stdout
    assert fix in done.stdout


def test_the_first_backend_whose_libraries_all_load_is_chosen():
    assert detected({"egl": ("libc.so.6", "libno.so.1"), "osmesa": ("libc.so.6",)}) == "osmesa"
    assert detected({"egl": ("libno.so.1",)}) is None
