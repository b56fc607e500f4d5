"""Round trips through lerobot's own reader and writer."""

import numpy as np
import pytest

from robotrl.data.exchange.features import SCALARS, VECTORS
from robotrl.data.exchange.lerobot_export import export_lerobot
from robotrl.data.exchange.lerobot_import import import_lerobot
from robotrl.data.store import EpisodeStore
from tests.data.exchange.stores import SIZE, TASKS, environment, filled, psnr, quiet, selections
from tests.data.pictures import pictures

FPS = 10


@pytest.fixture(scope="module")
def lerobot_dataset():
    """lerobot's class, kept from asking its hub."""
    patch = pytest.MonkeyPatch()
    patch.setenv("HF_HUB_OFFLINE", "1")
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    yield LeRobotDataset
    patch.undo()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    root = tmp_path_factory.mktemp("peer")
    stores = [filled(root / f"store-{task}", environment(task), 2, every=k + 1) for k, task in enumerate(TASKS)]
    export_lerobot(selections(*stores), root / "dataset", quiet)
    return stores, root / "dataset"


def test_lerobot_opens_what_we_export_and_every_number_is_ours(exported, lerobot_dataset):
    stores, root = exported
    dataset = lerobot_dataset("robotrl/test", root=root)
    episodes = [e for store in stores for e in store.snapshot().episodes()]
    assert (dataset.num_episodes, len(dataset)) == (6, sum(e.length for e in episodes))
    rows = dataset.hf_dataset.with_format("numpy")[:]
    fields = {"observation.state": "state", "action": "action_requested"} | VECTORS | SCALARS
    for feature, field in fields.items():
        ours = np.concatenate([getattr(e, field)[: e.length] for e in episodes])
        np.testing.assert_array_equal(np.asarray(rows[feature], ours.dtype), ours, err_msg=feature)
    done = np.concatenate([e.terminated | e.truncated for e in episodes])
    np.testing.assert_array_equal(rows["next.done"], done)
    spec = stores[0].spec
    assert dataset.meta.features["observation.state"]["names"] == list(spec.state.elements)
    assert dataset.meta.features["action"]["names"] == list(spec.action.elements)
    assert dataset.fps == spec.control_hz


def test_lerobot_items_have_our_task_and_our_pictures(exported, lerobot_dataset):
    stores, root = exported
    dataset = lerobot_dataset("robotrl/test", root=root, return_uint8=True)
    first = 0
    for store in stores:
        for episode in store.snapshot().episodes():
            for tick in (0, 1, episode.length // 2, episode.length - 1):
                item = dataset[first + tick]
                assert item["task"] == episode.meta.instruction
                assert (int(item["frame_index"]), float(item["timestamp"])) == (tick, pytest.approx(tick / 20))
                for name, camera in episode.cameras.items():
                    shown = camera.frames[int(np.searchsorted(camera.tick, tick, side="right")) - 1]
                    picture = item[f"observation.images.{name}"].numpy().transpose(1, 2, 0)
                    assert psnr(shown, picture) > 24
            first += episode.length


def test_our_statistics_are_lerobots(exported, lerobot_dataset):
    stores, root = exported
    from lerobot.datasets.compute_stats import aggregate_stats, get_feature_stats

    meta = lerobot_dataset("robotrl/test", root=root).meta
    for feature, field in {"observation.state": "state", "action": "action_requested", "next.reward": "reward"}.items():
        values = [getattr(e, field)[: e.length] for store in stores for e in store.snapshot().episodes()]
        theirs = [{feature: get_feature_stats(v.reshape(len(v), -1), axis=0, keepdims=False)} for v in values]
        expected = aggregate_stats(theirs)[feature]
        for name in ("min", "max", "mean", "std", "count"):
            np.testing.assert_allclose(
                meta.stats[feature][name], expected[name], rtol=1e-4, atol=5e-4
            )  # theirs is in float32
    assert meta.stats["observation.images.front"]["mean"].shape == (3, 1, 1)
    assert not set(meta.stats) & set(VECTORS)


def test_lerobot_takes_only_state_action_and_cameras_for_a_policy(exported, lerobot_dataset):
    from lerobot.utils.feature_utils import dataset_to_policy_features

    features = dataset_to_policy_features(lerobot_dataset("robotrl/test", root=exported[1]).meta.features)
    cameras = {"observation.images.front", "observation.images.wrist"}
    assert set(features) == {"observation.state", "action", *cameras}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, lerobot_dataset):
    """What plain lerobot records: two tasks, a video and an image camera, success, one extra vector."""
    root = tmp_path_factory.mktemp("recorded") / "pick and place"
    motors = ["shoulder", "elbow", "gripper"]
    vector = {"dtype": "float32", "shape": (3,), "names": motors}
    camera = {"shape": (*SIZE, 3), "names": ["height", "width", "channels"]}
    features = {
        "observation.state": vector,
        "action": vector,
        "observation.force": {"dtype": "float32", "shape": (2,), "names": None},
        "observation.images.top": {"dtype": "video", **camera},
        "observation.images.hand": {"dtype": "image", **camera},
        "next.success": {"dtype": "bool", "shape": (1,), "names": None},
        "note": {"dtype": "int64", "shape": (1,), "names": None},
    }
    dataset = lerobot_dataset.create("someone/data", FPS, features, root=root, robot_type="so101")
    rng = np.random.default_rng(0)
    episodes = []
    for index in range(3):
        length = 12 + index
        top, hand = pictures(length, *SIZE, seed=index), pictures(length, *SIZE, seed=10 + index)
        state, action = rng.normal(size=(2, length, 3)).astype(np.float32)
        force = rng.normal(size=(length, 2)).astype(np.float32)
        for t in range(length):
            dataset.add_frame(
                {
                    "observation.state": state[t],
                    "action": action[t],
                    "observation.force": force[t],
                    "observation.images.top": top[t],
                    "observation.images.hand": hand[t],
                    "next.success": np.array([t == length - 1 and index != 1]),
                    "note": np.array([t]),
                    "task": ("pick", "place", "pick")[index],
                }
            )
        dataset.save_episode()
        episodes.append((state, action, force, top, hand))
    dataset.finalize()
    return root, episodes


def test_what_lerobot_recorded_becomes_episodes(recorded, tmp_path):
    root, episodes = recorded
    report = import_lerobot(root, tmp_path / "store", quiet)
    assert (report.imported, report.ignored) == (3, ("note",))
    store = EpisodeStore.open(tmp_path / "store")
    spec = store.spec
    assert (spec.task, spec.robot, spec.control_hz, spec.horizon) == ("pick_and_place", "so101", FPS, 14)
    assert spec.state.elements == ("shoulder", "elbow", "gripper", "force.0", "force.1")
    assert (spec.action.elements, set(spec.state.units)) == (("shoulder", "elbow", "gripper"), {"1"})
    assert spec.instructions == ("pick", "place")
    assert {(c.name, c.height, c.width) for c in spec.cameras} == {("top", *SIZE), ("hand", *SIZE)}
    by_length = {episode.length: episode for episode in store.snapshot().episodes()}
    for state, action, force, top, hand in episodes:
        episode = by_length[len(action)]
        np.testing.assert_array_equal(episode.state[:-1], np.concatenate([state, force], axis=1))
        np.testing.assert_array_equal(episode.state[-1], episode.state[-2])
        np.testing.assert_array_equal(episode.action, action)
        np.testing.assert_array_equal(episode.time_ns, np.arange(len(action) + 1) * 10**9 // FPS)
        assert psnr(top, episode.cameras["top"].frames[:]) > 22
        assert psnr(hand, episode.cameras["hand"].frames[:]) > 30
    outcomes = [by_length[length].meta.outcome for length in (12, 13, 14)]
    assert outcomes == ["success", "failure", "success"]
    assert [by_length[length].meta.instruction for length in (12, 13, 14)] == ["pick", "place", "pick"]
    assert {e.meta.source for e in by_length.values()} == {"demonstration"}


def test_importing_again_adds_nothing(recorded, tmp_path):
    import_lerobot(recorded[0], tmp_path / "store", quiet)
    report = import_lerobot(recorded[0], tmp_path / "store", quiet)
    assert (report.imported, report.present) == (0, 3)
