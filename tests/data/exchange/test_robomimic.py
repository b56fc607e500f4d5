import json
import sys
from dataclasses import replace

import h5py
import numpy as np
import pytest

from robotrl.data.exchange.robomimic_export import export_robomimic
from robotrl.data.exchange.robomimic_import import import_robomimic
from robotrl.data.exchange.selection import Selection
from robotrl.data.store import EpisodeStore
from robotrl.errors import ConfigurationError, DataError
from tests import builders
from tests.data.exchange.stores import SIZE, environment, filled, quiet


@pytest.fixture
def store(tmp_path):
    return filled(tmp_path / "store", environment(), 4, every=3)


@pytest.fixture
def exported(store, tmp_path):
    report = export_robomimic(Selection.of(store), tmp_path / "demos.hdf5", quiet, valid_share=0.5)
    assert (report.episodes, report.ticks) == (4, 4 * 30 + 6)
    return report.path


def read_as_robomimic_does(path, mask: str) -> dict[str, dict[str, np.ndarray]]:
    """The documented access pattern: demos of a filter key, by number, each with all that a sequence is cut from."""
    demos = {}
    with h5py.File(path, "r", swmr=True, libver="latest") as file:
        names = [name.decode("utf-8") for name in file[f"mask/{mask}"][:]]
        for name in sorted(names, key=lambda name: int(name[5:])):
            demo = file[f"data/{name}"]
            found = {key: demo[key][()] for key in ("actions", "rewards", "dones", "states")}
            for group in ("obs", "next_obs"):
                found |= {f"{group}/{key}": demo[f"{group}/{key}"][()] for key in demo[group]}
            assert all(len(values) == demo.attrs["num_samples"] for values in found.values())
            demos[name] = found
        assert file["data"].attrs["total"] == sum(file[f"data/{d}"].attrs["num_samples"] for d in file["data"])
    return demos


def test_robomimic_finds_its_layout_and_our_values(store, exported):
    train, valid = (read_as_robomimic_does(exported, mask) for mask in ("train", "valid"))
    demos = train | valid
    assert len(train) + len(valid) == len(demos) == 4
    for number, episode in enumerate(store.snapshot().episodes()):
        demo = demos[f"demo_{number}"]
        np.testing.assert_array_equal(demo["obs/state"], episode.state[:-1])
        np.testing.assert_array_equal(demo["next_obs/state"], episode.state[1:])
        np.testing.assert_array_equal(demo["states"], episode.physics[:-1])
        np.testing.assert_array_equal(demo["rewards"], episode.reward)
        assert demo["dones"].tolist() == [0] * (episode.length - 1) + [1]
        camera = episode.cameras["front"]
        assert demo["obs/front_image"].shape == (episode.length, *SIZE, 3)
        np.testing.assert_array_equal(demo["obs/front_image"][4], camera.frames[1])
        np.testing.assert_array_equal(demo["next_obs/front_image"][2], camera.frames[1])


def test_actions_are_within_one_and_the_file_says_how_to_undo_it(store, exported):
    with h5py.File(exported, "r") as file:
        arguments = json.loads(file["data"].attrs["env_args"])
        action = arguments["env_kwargs"]["action"]
        low, high = np.array(action["low"]), np.array(action["high"])
        for number, episode in enumerate(store.snapshot().episodes()):
            scaled = file[f"data/demo_{number}/actions"][()]
            assert (np.abs(scaled) <= 1).all()
            np.testing.assert_allclose(low + (scaled + 1) / 2 * (high - low), episode.action_requested, atol=1e-6)
    assert (arguments["env_name"], arguments["env_type"]) == ("insert", 2)


def test_our_own_file_comes_back_to_the_byte_pictures_included(store, exported, tmp_path):
    report = import_robomimic(exported, tmp_path / "back", quiet)
    assert (report.imported, report.stores) == (4, (tmp_path / "back",))
    back = EpisodeStore.open(tmp_path / "back")
    assert back.spec == store.spec
    assert back.snapshot().fingerprint == store.snapshot().fingerprint
    again = import_robomimic(exported, tmp_path / "back", quiet)
    assert (again.imported, again.present) == (0, 4)


def test_nothing_is_exported_from_an_empty_store_or_over_a_file(store, tmp_path):
    empty = EpisodeStore.create(tmp_path / "empty", environment())
    with pytest.raises(DataError, match="no episodes to export"):
        export_robomimic(Selection.of(empty), tmp_path / "demos.hdf5", quiet)
    (tmp_path / "demos.hdf5").write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        export_robomimic(Selection.of(store), tmp_path / "demos.hdf5", quiet)
    assert (tmp_path / "demos.hdf5").read_text() == "mine"


def test_an_interrupted_export_is_invisible_and_begins_afresh(store, tmp_path):
    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_robomimic(Selection.of(store), tmp_path / "demos.hdf5", stop)
    assert not (tmp_path / "demos.hdf5").exists()
    export_robomimic(Selection.of(store), tmp_path / "demos.hdf5", quiet)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["demos.hdf5", "store"]
    import_robomimic(tmp_path / "demos.hdf5", tmp_path / "back", quiet)
    assert EpisodeStore.open(tmp_path / "back").snapshot().fingerprint == store.snapshot().fingerprint


def test_actions_without_bounds_cannot_be_scaled(tmp_path):
    spec = environment()
    open_ended = replace(spec, action=builders.array_spec("action", builders.ELEMENTS, bound=float("inf")))
    store = filled(tmp_path / "store", open_ended, 1)
    with pytest.raises(DataError, match=r"action 'joint\.0' has the bounds \[-inf, inf\]"):
        export_robomimic(Selection.of(store), tmp_path / "demos.hdf5", quiet)


def test_without_h5py_the_error_says_what_to_install(store, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'robotrl\[hdf5\]'"):
        export_robomimic(Selection.of(store), tmp_path / "demos.hdf5", quiet)
    with pytest.raises(ConfigurationError, match=r"pip install 'robotrl\[hdf5\]'"):
        import_robomimic(tmp_path / "demos.hdf5", tmp_path / "back", quiet)


@pytest.fixture
def foreign(tmp_path):
    """What robosuite's scripts leave: doubles, several observations, a camera, a sparse reward, no word of ours."""
    rng = np.random.default_rng(0)
    path = tmp_path / "lift.hdf5"
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps(
            {"env_name": "Lift", "env_type": 1, "env_kwargs": {"robots": ["Panda"], "control_freq": 25}}
        )
        for number, length in ((0, 9), (2, 11), (10, 13)):
            demo = data.create_group(f"demo_{number}")
            demo.attrs["num_samples"] = length
            arm, cube = rng.normal(size=(length + 1, 3)), rng.normal(size=(length + 1, 2))
            for group, rows in (("obs", slice(0, -1)), ("next_obs", slice(1, None))):
                demo[f"{group}/robot0_eef_pos"], demo[f"{group}/object"] = arm[rows], cube[rows]
            demo["obs/agentview_image"] = rng.integers(0, 255, (length, 24, 32, 3), dtype=np.uint8)
            demo["obs/agentview_depth"] = rng.random((length, 24, 32, 1))
            demo["actions"] = rng.uniform(-1, 1, (length, 4))
            demo["states"] = rng.normal(size=(length, 7))
            demo["rewards"] = (np.arange(length) == length - 1).astype(float) * (number != 2)
            demo["dones"] = np.arange(length) == length - 1
    return path


def test_a_foreign_file_becomes_episodes(foreign, tmp_path):
    report = import_robomimic(foreign, tmp_path / "store", quiet, outcome="failure")
    assert (report.imported, report.ignored) == (3, ("obs/agentview_depth",))
    store = EpisodeStore.open(tmp_path / "store")
    spec = store.spec
    assert (spec.task, spec.robot, spec.control_hz, spec.horizon, spec.physics_size) == ("Lift", "Panda", 25, 13, 7)
    assert spec.state.elements[:3] == ("object.0", "object.1", "robot0_eef_pos.0")
    by_length = {e.length: e for e in store.snapshot().episodes()}
    assert {length: e.meta.outcome for length, e in by_length.items()} == {9: "success", 11: "failure", 13: "success"}
    with h5py.File(foreign, "r") as file:
        demo = file["data/demo_10"]
        episode = by_length[13]
        np.testing.assert_array_equal(episode.action, demo["actions"][()].astype(np.float32))
        np.testing.assert_array_equal(episode.state[:-1, :2], demo["obs/object"][()].astype(np.float32))
        np.testing.assert_array_equal(episode.state[-1, 2:], demo["next_obs/robot0_eef_pos"][-1].astype(np.float32))
        np.testing.assert_array_equal(episode.physics[:-1], demo["states"][()])
    assert episode.cameras["agentview"].frames.shape == (13, 24, 32, 3)


def edit(path, change) -> None:
    with h5py.File(path, "r+") as file:
        change(file)


def _replace(file, key, values) -> None:
    del file[key]
    file[key] = values


FAULTS = {
    "no demos": (lambda f: f.pop("data"), "has no demos"),
    "no observations": (lambda f: f["data/demo_0"].pop("obs"), "no observations of numbers under 'obs'"),
    "one without actions": (lambda f: f["data/demo_2"].pop("actions"), "'demo_2/actions' is missing"),
    "one key less": (lambda f: f["data/demo_2/obs"].pop("object"), "'demo_2/obs/object' is missing"),
    "rows missing": (
        lambda f: _replace(f, "data/demo_2/actions", np.zeros((5, 4))),
        r"'demo_2/actions' has the shape \(5, 4\); expected 11 rows",
    ),
    "another width": (lambda f: _replace(f, "data/demo_2/actions", np.zeros((11, 3))), "differ in the width"),
    "nan": (
        lambda f: f["data/demo_2/actions"].__setitem__((6, 1), np.nan),
        "'demo_2/actions' is not finite at row 6",
    ),
    "no samples": (
        lambda f: _replace(f, "data/demo_0/actions", np.zeros((0, 4))) or f["data/demo_0"].attrs.clear(),
        "0 samples",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_spoilt_file_is_refused_before_a_store_is_made(foreign, tmp_path, fault):
    spoil, message = FAULTS[fault]
    edit(foreign, spoil)
    with pytest.raises(DataError, match=message):
        import_robomimic(foreign, tmp_path / "store", quiet)
    assert not (tmp_path / "store").exists()


def test_a_file_that_is_cut_short_or_none_at_all_is_refused(foreign, tmp_path):
    foreign.write_bytes(foreign.read_bytes()[:3000])
    with pytest.raises(DataError, match="not a readable HDF5 file, or cut short"):
        import_robomimic(foreign, tmp_path / "store", quiet)
    with pytest.raises(DataError, match="is not a file"):
        import_robomimic(tmp_path, tmp_path / "store", quiet)


def test_our_own_file_that_lost_a_part_is_refused(exported, tmp_path):
    edit(exported, lambda file: file["data/demo_1/robotrl"].pop("time_ns"))
    with pytest.raises(DataError, match="'demo_1/robotrl/time_ns' is missing"):
        import_robomimic(exported, tmp_path / "back", quiet)
    assert len(EpisodeStore.open(tmp_path / "back").snapshot()) == 1
