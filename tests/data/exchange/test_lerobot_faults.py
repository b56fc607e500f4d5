"""Data sets that are damaged, incomplete, of another kind, or changed by others."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from robotrl.data.exchange.lerobot_export import export_lerobot
from robotrl.data.exchange.lerobot_import import import_lerobot
from robotrl.data.store import EpisodeStore
from robotrl.errors import DataError
from tests.data.exchange.stores import TASKS, environment, episode, filled, quiet, selections

DATA = "data/chunk-000/file-000.parquet"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
VIDEO = "videos/observation.images.front/chunk-000/file-000.mp4"


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    root = tmp_path_factory.mktemp("pristine")
    store = filled(root / "store", environment(), 3, ticks=12, every=2)
    export_lerobot(selections(store), root / "dataset", quiet)
    return root / "dataset"


@pytest.fixture
def dataset(pristine, tmp_path):
    """A copy to spoil."""
    return shutil.copytree(pristine, tmp_path / "dataset")


@pytest.fixture
def foreign(dataset):
    """The same without what only robotrl understands."""
    shutil.rmtree(dataset / "meta/robotrl")
    return dataset


def edit_info(dataset: Path, **changes) -> None:
    path = dataset / "meta/info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_table(path: Path, name: str, change) -> None:
    """Replace a column by what `change` makes of its values."""
    table = pq.read_table(path)
    column = pa.array(change(table.column(name).to_pylist()), table.column(name).type)
    pq.write_table(table.set_column(table.column_names.index(name), name, column), path)


def cut(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


FAULTS = {
    "no info": (lambda d: (d / "meta/info.json").unlink(), "is not a LeRobot data set"),
    "damaged info": (lambda d: cut(d / "meta/info.json", 0.5), "info.json: damaged"),
    "old version": (lambda d: edit_info(d, codebase_version="v2.1"), "expected LeRobotDataset v3, got v2.1"),
    "no rate": (lambda d: edit_info(d, fps=0), "fps is 0.0; expected a positive number"),
    "no features": (lambda d: edit_info(d, features=None), "describes no LeRobot data set"),
    "fewer episodes": (lambda d: edit_info(d, total_episodes=5), "promises episodes 0 … 4, and meta/episodes has 3"),
    "no data": (lambda d: (d / DATA).unlink(), "file-000.parquet is missing"),
    "no video": (lambda d: (d / VIDEO).unlink(), "file-000.mp4 is missing"),
    "no episodes": (lambda d: (d / EPISODES).unlink(), "has no parquet file"),
    "torn episodes": (lambda d: cut(d / EPISODES, 0.9), "not a readable parquet file"),
    "torn data": (lambda d: cut(d / DATA, 0.9), "not a readable parquet file"),
    "torn video": (lambda d: cut(d / VIDEO, 0.5), "not a readable video"),
    "index gap": (
        lambda d: edit_table(d / EPISODES, "episode_index", lambda values: [0, 2, 3]),
        "wrong from episode 1 on. Every later video would be misaligned",
    ),
    "tick gap": (
        lambda d: edit_table(d / EPISODES, "dataset_from_index", lambda values: [0, 13, 25]),
        "episode 1 has 13 frames from 13 on; expected at least 1 from 12 on",
    ),
    "rows of another episode": (
        lambda d: edit_table(d / DATA, "episode_index", lambda values: [0] * len(values)),
        "'episode_index' of episode 1 is not 1 … 1",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_spoilt_data_set_is_refused_with_its_fault(dataset, tmp_path, fault):
    spoil, message = FAULTS[fault]
    spoil(dataset)
    with pytest.raises(DataError, match=message):
        import_lerobot(dataset, tmp_path / "store", quiet)


@pytest.mark.parametrize("fault", ["no data", "no video", "index gap", "torn episodes"])
def test_what_can_be_seen_beforehand_is_refused_before_a_store_is_made(dataset, tmp_path, fault):
    FAULTS[fault][0](dataset)
    with pytest.raises(DataError):
        import_lerobot(dataset, tmp_path / "store", quiet)
    assert not (tmp_path / "store").exists()


def test_episodes_before_a_torn_video_are_kept_whole(dataset, tmp_path):
    path = dataset / VIDEO
    other = dataset / "videos/observation.images.wrist/chunk-000/file-000.mp4"
    shutil.copy(path, other)
    edit_table(dataset / EPISODES, "videos/observation.images.front/from_timestamp", lambda values: [0.0, 0.6, 99.0])
    with pytest.raises(DataError, match=r"there is no picture at 99\.000 s"):
        import_lerobot(dataset, tmp_path / "store", quiet)
    assert len(EpisodeStore.open(tmp_path / "store").snapshot()) == 2


def test_a_sidecar_that_does_not_fit_is_refused_with_the_way_out(dataset, tmp_path):
    sidecar = dataset / "meta/robotrl/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(sidecar).slice(0, 2), sidecar)
    with pytest.raises(DataError, match="delete meta/robotrl to import it as one robotrl did not make"):
        import_lerobot(dataset, tmp_path / "store", quiet)


def test_a_sidecar_of_another_format_is_refused(dataset, tmp_path):
    path = dataset / "meta/robotrl/environments.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with pytest.raises(DataError, match="reads format 1, got 99"):
        import_lerobot(dataset, tmp_path / "store", quiet)


def test_without_the_sidecar_flags_and_actions_are_still_understood(foreign, tmp_path):
    report = import_lerobot(foreign, tmp_path / "back", quiet, task="insert")
    assert "robotrl.chunk_id" in report.ignored
    back = {e.length: e for e in EpisodeStore.open(tmp_path / "back").snapshot().episodes()}
    for seed in range(3):
        ours = episode(environment(), seed, 12 + seed, 2)
        theirs = back[ours.length]
        for name in ("action", "action_human", "reward", "success", "intervention", "control_mode", "clamped"):
            np.testing.assert_array_equal(getattr(theirs, name), getattr(ours, name), err_msg=name)
        np.testing.assert_array_equal(theirs.state[:-1], ours.state[:-1])
        assert theirs.meta.outcome == ours.meta.outcome
        assert theirs.meta.source == ours.meta.source
        assert theirs.meta.instruction == TASKS["insert"]
        assert (theirs.chunk_id == -1).all()
        assert set(theirs.cameras) == {"front", "wrist"}


@pytest.mark.parametrize("feature", ["observation.state", "action"])
def test_values_that_are_not_finite_are_refused_before_a_store_is_made(foreign, tmp_path, feature):
    def spoil(values):
        values[15][2] = float("nan")
        return values

    edit_table(foreign / DATA, feature, spoil)
    with pytest.raises(DataError, match=f"'{feature}' is not finite in episode 1, frame 3"):
        import_lerobot(foreign, tmp_path / "store", quiet)
    assert not (tmp_path / "store").exists()


def test_a_data_set_without_state_or_action_has_nothing_to_learn_from(foreign, tmp_path):
    info = json.loads((foreign / "meta/info.json").read_text())
    edit_info(foreign, features={k: v for k, v in info["features"].items() if k != "observation.state"})
    with pytest.raises(DataError, match="nothing to learn from"):
        import_lerobot(foreign, tmp_path / "store", quiet)


def test_a_feature_that_the_data_lack_is_named(foreign, tmp_path):
    table = pq.read_table(foreign / DATA)
    pq.write_table(table.drop_columns(["action"]), foreign / DATA)
    with pytest.raises(DataError, match="the column 'action' is missing"):
        import_lerobot(foreign, tmp_path / "store", quiet)


def test_another_data_set_does_not_go_into_the_same_store(foreign, tmp_path):
    other = filled(tmp_path / "other", replace(environment("stack"), control_hz=10.0), 1)
    with pytest.raises(DataError, match="holds episodes of task 'stack'"):
        import_lerobot(foreign, other.root, quiet)
    assert len(other.snapshot()) == 1


def test_an_outcome_that_the_data_do_not_say_can_be_given(foreign, tmp_path):
    info = json.loads((foreign / "meta/info.json").read_text())
    edit_info(foreign, features={k: v for k, v in info["features"].items() if k != "next.success"})
    import_lerobot(foreign, tmp_path / "unknown", quiet)
    import_lerobot(foreign, tmp_path / "given", quiet, outcome="success")
    assert {e.meta.outcome for e in EpisodeStore.open(tmp_path / "unknown").snapshot().entries} == {None}
    assert {e.meta.outcome for e in EpisodeStore.open(tmp_path / "given").snapshot().entries} == {"success"}
