"""`robotrl data render`, with the real simulator and its real renderer."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from robotrl.cli import main
from robotrl.configuration import compose_config, plain
from robotrl.data.camera_layers import layer_frames
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


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run of the insertion task with two episodes that stand still at their starts."""
    run = tmp_path_factory.mktemp("render") / "run"
    config = compose_config("collect", [f"run={run}"])
    environment = Parts(config).environment(2)
    physics = environment.reset(np.array([1, 2]), np.ones(2, bool)).physics
    environment.close()
    with EpisodeStore.create(run / "store", environment.spec).writer() as writer:
        for seed in (0, 1):
            writer.on_episode(standing(environment.spec, physics[seed], seed))
    (run / "config.yaml").write_text(yaml.safe_dump(plain(config)))
    return run


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
