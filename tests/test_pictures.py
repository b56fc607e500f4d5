"""Pictures all the way: collected, stored, trained on and evaluated with, by the commands."""

import numpy as np
import pytest

from robotrl.cli import main
from robotrl.configuration import compose_config, plain
from robotrl.data.cache import TrainingCache
from robotrl.data.images import images_of_every_tick, recorded
from robotrl.data.store import EpisodeStore
from robotrl.data.windows import WindowSampler
from robotrl.errors import ConfigurationError, DataError
from robotrl.parts import Parts
from robotrl.specs import CameraSpec

SMALL = ("task=reach", "worlds=4")
TRAIN = ("policy=flow_image", "updates=3", "batch=8", "policy.width=16", "policy.blocks=1", "policy.channels=[4,4]")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with pictures of every tick."""
    path = tmp_path_factory.mktemp("pictures") / "run"
    assert main(["collect", f"run={path}", *SMALL, "cameras=small", "camera_every=1", "episodes=3"]) == 0
    return path


def said(capsys) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_a_policy_that_sees_is_trained_on_a_run_and_evaluated(run, capsys):
    assert main(["train", f"run={run}", *TRAIN]) == 0
    assert main(["evaluate", f"run={run}", "episodes=3", "worlds=2"]) == 0
    assert "n=3 validation seeds, version 0" in capsys.readouterr().out


def test_windows_show_the_tick_that_their_actions_begin_at(run):
    store = EpisodeStore.open(run / "store")
    snapshot = store.snapshot()
    cache = TrainingCache.build(store, snapshot)
    images = images_of_every_tick(store, snapshot, store.spec.cameras, "recorded", recorded(snapshot))
    ones = {
        i: {n: np.ones(t, np.float32) for n in ("weight", "target")}
        for i, t in zip(cache.ids, cache.length, strict=True)
    }
    windows = WindowSampler(cache, ones, history=1, horizon=4, batch=16, seed=0, images=images).sample()
    episodes = list(snapshot.episodes())
    for camera in store.spec.cameras:
        expected = [
            episodes[e].cameras[camera.name].frames[int(t)] for e, t in zip(windows.episode, windows.tick, strict=True)
        ]
        np.testing.assert_array_equal(windows.images[camera.name][:, 0], expected)


def test_pictures_of_some_ticks_or_of_another_size_are_no_training_data(run, tmp_path, capsys):
    sparse = tmp_path / "sparse"
    assert main(["collect", f"run={sparse}", *SMALL, "cameras=small", "camera_every=4", "episodes=2"]) == 0
    assert main(["train", f"run={sparse}", *TRAIN]) == 2
    assert "training needs one of every state: collect with camera_every=1" in said(capsys)
    store = EpisodeStore.open(run / "store")
    with pytest.raises(DataError, match=r"'front' of 32 x 32 pixels, fast, the episodes have \(64, 64\)"):
        images_of_every_tick(
            store, store.snapshot(), [CameraSpec("front", 32, 32, "fast")], "recorded", recorded(store.snapshot())
        )


def test_pictures_that_were_rendered_later_are_training_data_too(tmp_path, capsys):
    path = tmp_path / "later"
    assert main(["collect", f"run={path}", *SMALL, "cameras=small", "episodes=2"]) == 0
    assert main(["train", f"run={path}", *TRAIN]) == 2
    assert "has no frames of camera 'front'" in said(capsys)
    assert main(["data", "render", str(path), "v1"]) == 0
    assert main(["train", f"run={path}", *TRAIN, "pictures=v1"]) == 0


def test_a_run_without_the_cameras_that_a_policy_sees_is_refused(tmp_path, capsys):
    path = tmp_path / "blind"
    assert main(["collect", f"run={path}", *SMALL, "episodes=2"]) == 0
    assert main(["train", f"run={path}", *TRAIN]) == 2
    assert "expected a camera 'wrist', the environment has 'front' of 240 x 320 pixels, full" in said(capsys)


def test_the_policys_configuration_brings_the_cameras_and_hides_where_the_ball_is():
    parts = Parts(compose_config("improve", ["task=reach", "policy=flow_image"]))
    policy = parts.policy(seed=0)
    assert parts.sees and policy.cameras == parts.spec.cameras
    assert [camera.name for camera in policy.cameras] == ["front", "wrist"]
    assert "joint1" in policy.elements and "gripper" in policy.elements and "tool.x" in policy.elements
    assert not [e for e in policy.elements if "ball" in e]
    assert not Parts(compose_config("improve", ["task=reach"])).sees


def test_a_robot_of_two_arms_has_small_cameras_of_its_own():
    hands = ["cameras=small_two_arms", "policy.cameras=[front,left_wrist,right_wrist]"]
    parts = Parts(compose_config("improve", ["task=handover", "policy=flow_image", *hands]))
    assert parts.policy(seed=0).cameras == parts.spec.cameras and len(parts.spec.cameras) == 3
    with pytest.raises(ConfigurationError, match=r"no camera is called 'wrist'\. Did you mean 'left_wrist'"):
        _ = Parts(compose_config("improve", ["task=handover", "policy=flow_image"])).spec


def test_without_pictures_a_configuration_says_nothing_of_cameras_so_that_identities_stay():
    for command in ("improve", "collect"):
        values = plain(compose_config(command, ["task=reach"]))
        assert "cameras" not in values and "cameras" not in values["task"]["environment"]
