"""`robotrl data render`, with the real simulator and its real renderer."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from robotrl.cli import main
from robotrl.configuration import compose_config, plain
from robotrl.data.camera_layers import layer_frames
from robotrl.data.frames import encode_frames
from robotrl.data.store import EpisodeStore
from robotrl.parts import Parts
from tests import builders


def standing(spec, physics: np.ndarray, seed: int, ticks: int = 4):
    """An episode in which nothing moves from the physics state (X,) on."""
    episode = builders.episode(ticks, seed, takeover=None)

    def rows(array: np.ndarray, width: int) -> np.ndarray:
        return np.zeros((len(array), width), np.float32)

    wide = ("action", "action_requested", "action_policy", "action_human")
    return replace(
        episode,
        meta=replace(episode.meta, task=spec.task, environment=spec.fingerprint),
        state=rows(episode.state, spec.state.size),
        privileged=rows(episode.privileged, spec.privileged.size),
        physics=np.repeat(physics[None], ticks + 1, axis=0),
        **{name: rows(episode.action, spec.action.size) for name in wide},
    )


def made(run: Path, *overrides: str) -> Path:
    """A run of the insertion task with two episodes that stand still at their starts."""
    config = compose_config("collect", [f"run={run}", *overrides])
    environment = Parts(config).environment(2)
    start = environment.reset(np.array([1, 2]), np.ones(2, bool))
    environment.close()
    with EpisodeStore.create(run / "store", environment.spec).writer() as writer:
        for seed in (0, 1):
            episode = standing(environment.spec, start.physics[seed], seed)
            recorded = np.repeat(start.privileged[seed][None], len(episode.privileged), axis=0)
            writer.on_episode(replace(episode, privileged=recorded))
    (run / "config.yaml").write_text(yaml.safe_dump(plain(config)))
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return made(tmp_path_factory.mktemp("render") / "run")


def files(run: Path, layer: str) -> dict[str, bytes]:
    """The bytes of the layer's files."""
    return {path.name: path.read_bytes() for path in (run / "store" / "cameras" / layer).iterdir()}


def test_a_layer_has_a_picture_of_every_second_state_and_is_rendered_once(capsys, run):
    assert main(["data", "render", str(run), "v1", "--every", "2"]) == 0
    assert "rendered  2" in capsys.readouterr().out
    store = EpisodeStore.open(run / "store")
    (camera,) = store.spec.cameras
    first, second = (layer_frames(store, "v1")(entry)[camera.name] for entry in store.snapshot().entries)
    assert first.frames.shape == (3, camera.height, camera.width, 3)
    np.testing.assert_array_equal(first.tick, [0, 2, 4])
    assert first.frames[0].std() > 5
    assert not np.array_equal(first.frames[0], second.frames[0])
    assert main(["data", "render", str(run), "v1", "--every", "2"]) == 0
    assert "rendered      0" in capsys.readouterr().out
    assert main(["data", "verify", str(run)]) == 0


def test_verify_finds_a_damaged_picture_of_a_layer_and_one_of_no_episode(capsys, run):
    assert main(["data", "render", str(run), "hurt", "--every", "4"]) == 0
    first, second = sorted((run / "store" / "cameras" / "hurt").iterdir())
    content = bytearray(first.read_bytes())
    content[content.index(b"\xff\xd8") + 200] ^= 0xFF
    first.write_bytes(content)
    second.rename(second.with_name("0123456789abcdef.zarr.zip"))
    capsys.readouterr()
    assert main(["data", "verify", str(run)]) == 2
    told = capsys.readouterr().out
    assert "its CRC-32C is wrong" in told and "no such episode" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["../escape"], "no valid camera layer"),
        (["v2", "--every", "0"], "at least 1"),
        (["v2", "--stage", "generate-2"], "Did you mean 'generate-1'"),
        ([], "required: LAYER"),
        (["v2", "--camera", "fornt", "--height", "9", "--width", "9"], "Did you mean 'front'"),
        (["v2", "--camera", "wrist"], "camera 'wrist' is not one of the run's (front): give --height and --width"),
        (["v2", "--profile", "fats"], "Did you mean 'fast'"),
        (["v2", "--height", "5000"], "picture of 5000 x 320 pixels: expected 1 x 1 to 960 x 1280"),
        (["v2", "--workers", "0"], "at least 1"),
    ],
)
def test_a_mistake_renders_nothing(capsys, run, words, told):
    assert main(["data", "render", str(run), *words]) == 2
    assert told in capsys.readouterr().err
    assert not (run / "store" / "cameras" / "v2").exists()


def test_a_store_without_a_run_cannot_be_rendered(capsys, tmp_path):
    EpisodeStore.create(tmp_path / "store", builders.spec())
    assert main(["data", "render", str(tmp_path / "store"), "v1"]) == 2
    assert "not a run directory" in capsys.readouterr().err


def test_a_layer_has_the_size_and_profile_that_were_asked_for_and_two_processes_draw_the_same(capfd, run):
    small = ["--every", "2", "--height", "48", "--width", "64", "--profile", "fast"]
    assert main(["data", "render", str(run), "small", *small]) == 0
    assert main(["data", "render", str(run), "both", *small, "--workers", "2"]) == 0
    told = capfd.readouterr()
    assert told.out.count("rendered  2") == 2
    assert "Traceback" not in told.err
    store = EpisodeStore.open(run / "store")
    drawn = layer_frames(store, "small")(store.snapshot().entries[0])
    assert drawn["front"].frames.shape == (3, 48, 64, 3)
    assert files(run, "small") == files(run, "both")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--profile", "fast"],
            "front', full, not 3 pictures of 24 x 32 of camera 'front', fast: choose another layer",
        ),
        (["--width", "40"], "3 pictures of 24 x 32 of camera 'front', full, not 3 pictures of 24 x 40"),
        (["--every", "4"], "not 2 pictures of 24 x 32"),
    ],
)
def test_a_layer_is_not_finished_with_pictures_of_another_kind(capsys, run, words, told):
    first = ["--every", "2", "--height", "24", "--width", "32"]
    assert main(["data", "render", str(run), "kept", *first]) == 0
    before = files(run, "kept")
    assert main(["data", "render", str(run), "kept", *first, *words]) == 2
    assert told in capsys.readouterr().err
    assert files(run, "kept") == before


def test_mistakes_that_only_a_worker_meets_come_back_as_errors(capsys, run):
    assert main(["data", "render", str(run), "torn", "--height", "24", "--width", "32"]) == 0
    torn = sorted((run / "store" / "cameras" / "torn").iterdir())[0]
    torn.write_bytes(torn.read_bytes()[:100])
    assert main(["data", "render", str(run), "torn", "--height", "24", "--width", "32", "--workers", "2"]) == 2
    assert torn.name in capsys.readouterr().err
    torn.unlink()


def test_pictures_of_worlds_that_differ_are_drawn_with_what_was_recorded(tmp_path):
    looks = "{_target_: sim.randomisation.Randomisation, colour: 0.3, light: 0.5, camera_m: 0.05}"
    camera = "{_target_: robotrl.specs.CameraSpec, name: front, height: 48, width: 64}"
    words = f"+task.environment.randomisation={looks}", f"+task.environment.cameras=[{camera}]"
    run = made(tmp_path / "run", *words)
    assert main(["data", "render", str(run), "v1", "--every", "4"]) == 0
    environment = Parts(compose_config("collect", list(words))).environment(2)
    environment.reset(np.array([1, 2]), np.ones(2, bool))
    still = np.zeros((2, 1, environment.spec.action.size), np.float32)
    seen = environment.step(still, np.zeros(2, bool), np.ones(2, bool)).observation.images["front"]
    environment.close()
    store = EpisodeStore.open(run / "store")
    for world, entry in enumerate(store.snapshot().entries):
        picture = layer_frames(store, "v1")(entry)["front"].frames[0]
        np.testing.assert_array_equal(picture, encode_frames(seen[world][None])[0])
