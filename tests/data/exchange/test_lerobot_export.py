import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from robotrl.data.exchange.lerobot_export import export_lerobot
from robotrl.data.exchange.lerobot_import import import_lerobot
from robotrl.data.store import EpisodeStore
from robotrl.errors import DataError, RunBusyError, StorageError
from tests import builders
from tests.data.exchange.stores import (
    TASKS,
    assert_stores_equal,
    environment,
    episode,
    filled,
    psnr,
    quiet,
    selections,
)

SLOW_HZ = 0.1
"""At this rate a video file holds 100 ticks, so that a small export has several files."""


@pytest.fixture(scope="module")
def three_tasks(tmp_path_factory):
    """Three stores, and the data set they were exported to."""
    root = tmp_path_factory.mktemp("three")
    stores = [filled(root / f"store-{task}", environment(task), 2, every=k + 1) for k, task in enumerate(TASKS)]
    report = export_lerobot(selections(*stores), root / "dataset", quiet)
    assert (report.episodes, report.ticks, report.instructions, report.cameras) == (6, 6 * 30 + 3, 3, 2)
    return stores, root / "dataset"


def test_three_tasks_with_two_cameras_and_interventions_come_back_exactly(three_tasks, tmp_path):
    stores, dataset = three_tasks
    report = import_lerobot(dataset, tmp_path / "back", quiet)
    assert report.imported == 6
    assert report.stores == tuple(tmp_path / "back" / task for task in TASKS)
    for store, back in zip(stores, report.stores, strict=True):
        assert_stores_equal(store, EpisodeStore.open(back))
    assert any(e.intervention.any() for e in EpisodeStore.open(report.stores[0]).snapshot().episodes())


def test_pictures_come_back_at_the_ticks_that_the_camera_saw(three_tasks, tmp_path):
    stores, dataset = three_tasks
    report = import_lerobot(dataset, tmp_path / "back", quiet)
    for store, back in zip(stores, report.stores, strict=True):
        pairs = zip(store.snapshot().episodes(), EpisodeStore.open(back).snapshot().episodes(), strict=True)
        for ours, theirs in pairs:
            assert theirs.cameras.keys() == ours.cameras.keys() == {"front", "wrist"}
            for name, camera in ours.cameras.items():
                np.testing.assert_array_equal(camera.tick, theirs.cameras[name].tick)
                for i in range(len(camera.tick)):
                    assert psnr(camera.frames[i], theirs.cameras[name].frames[i]) > 24


def test_the_picture_after_the_last_action_is_kept_as_it_was(tmp_path):
    store = filled(tmp_path / "store", environment(), 1, every=1)
    export_lerobot(selections(store), tmp_path / "dataset", quiet)
    import_lerobot(tmp_path / "dataset", tmp_path / "back", quiet)
    ours, theirs = (next(EpisodeStore.open(tmp_path / name).snapshot().episodes()) for name in ("store", "back"))
    np.testing.assert_array_equal(ours.cameras["front"].frames[-1], theirs.cameras["front"].frames[-1])


def test_an_export_without_cameras_gives_the_same_bytes_back(tmp_path):
    store = filled(tmp_path / "store", environment(), 3)
    export_lerobot(selections(store), tmp_path / "dataset", quiet)
    import_lerobot(tmp_path / "dataset", tmp_path / "back", quiet)
    assert EpisodeStore.open(tmp_path / "back").snapshot().fingerprint == store.snapshot().fingerprint


def test_nothing_is_exported_from_an_empty_store(tmp_path):
    store = EpisodeStore.create(tmp_path / "store", environment())
    with pytest.raises(DataError, match="no episodes to export"):
        export_lerobot(selections(store), tmp_path / "dataset", quiet)
    assert [p.name for p in tmp_path.iterdir()] == ["store"]


def test_what_is_at_the_target_is_never_overwritten(tmp_path):
    store = filled(tmp_path / "store", environment(), 1)
    (tmp_path / "dataset").write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        export_lerobot(selections(store), tmp_path / "dataset", quiet)
    assert (tmp_path / "dataset").read_text() == "mine"


def test_a_target_that_cannot_be_made_is_refused(tmp_path):
    store = filled(tmp_path / "store", environment(), 1)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="A file stands where a directory is expected"):
        export_lerobot(selections(store), tmp_path / "file" / "dataset", quiet)


def test_tasks_with_other_actions_do_not_share_a_data_set(tmp_path):
    first = filled(tmp_path / "first", environment(), 1)
    spec = environment("stack")
    metres = replace(spec, action=builders.array_spec("action", builders.ELEMENTS, unit="m"))
    second = filled(tmp_path / "second", metres, 1)
    with pytest.raises(DataError, match="differ in action"):
        export_lerobot(selections(first, second), tmp_path / "dataset", quiet)


def test_episodes_with_and_without_pictures_do_not_share_a_data_set(tmp_path):
    store = filled(tmp_path / "store", environment(), 1)
    with store.writer() as writer:
        writer.on_episode(episode(store.spec, 7, every=1))
    with pytest.raises(DataError, match="export episodes with equal cameras only"):
        export_lerobot(selections(store), tmp_path / "dataset", quiet)
    assert not (tmp_path / "dataset").exists()


def test_a_damaged_episode_stops_the_export_and_the_target_never_appears(tmp_path):
    store = filled(tmp_path / "store", environment(), 2)
    path = store.snapshot().entries[1].path
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=path.name):
        export_lerobot(selections(store), tmp_path / "dataset", quiet)
    assert not (tmp_path / "dataset").exists()


def killed_after(done: int, *arguments) -> list[int]:
    """Run the exporting process until it tells `done`, kill it there, and return what it told."""
    command = [sys.executable, "-m", "tests.data.exchange.exporting_process", *map(str, arguments)]
    told: list[int] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            told.append(int(line))
            if told[-1] >= done:
                process.kill()
                break
            process.stdin.write("\n")
            process.stdin.flush()
    return told


def test_a_killed_export_is_invisible_and_goes_on_where_it_was(tmp_path):
    store = filled(tmp_path / "store", environment(control_hz=SLOW_HZ), 6, every=5)
    killed_after(5, "export", store.root, tmp_path / "dataset")
    assert not (tmp_path / "dataset").exists()
    whole = sorted((tmp_path / ".dataset.partial").rglob("meta/robotrl/*/*.parquet"))
    times = {path: path.stat().st_mtime_ns for path in whole}
    assert times
    export_lerobot(selections(store), tmp_path / "dataset", quiet)
    moved = {tmp_path / "dataset" / p.relative_to(tmp_path / ".dataset.partial"): time for p, time in times.items()}
    assert {path: path.stat().st_mtime_ns for path in moved} == moved
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dataset", "store"]
    import_lerobot(tmp_path / "dataset", tmp_path / "back", quiet)
    assert_stores_equal(store, EpisodeStore.open(tmp_path / "back"))


@pytest.mark.slow
def test_exports_killed_at_random_moments_always_end_whole(tmp_path):
    store = filled(tmp_path / "store", environment(control_hz=SLOW_HZ), 12, every=5)
    command = [sys.executable, "-m", "tests.data.exchange.exporting_process", "export", str(store.root)]
    rng = np.random.default_rng(0)
    for number in range(8):
        target, back = tmp_path / f"dataset-{number}", tmp_path / f"back-{number}"
        with subprocess.Popen([*command, str(target)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdout.readline()  # it has begun
            process.stdin.write(b"\n" * 100)
            process.stdin.flush()
            try:
                process.wait(rng.exponential(0.7))
            except subprocess.TimeoutExpired:
                process.kill()
        if not target.exists():
            export_lerobot(selections(store), target, quiet)
        import_lerobot(target, back, quiet)
        assert_stores_equal(store, EpisodeStore.open(back))


def test_an_interrupted_export_of_other_episodes_begins_afresh(tmp_path):
    store = filled(tmp_path / "store", environment(control_hz=SLOW_HZ), 6, every=5)

    def stop(done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_lerobot(selections(store), tmp_path / "dataset", stop)
    with store.writer() as writer:
        writer.on_episode(episode(store.spec, 8, every=5))
    export_lerobot(selections(store), tmp_path / "dataset", quiet)
    import_lerobot(tmp_path / "dataset", tmp_path / "back", quiet)
    assert_stores_equal(store, EpisodeStore.open(tmp_path / "back"))


def test_a_second_export_to_the_same_place_is_refused_while_one_runs(tmp_path):
    store = filled(tmp_path / "store", environment(), 1)

    def again(done: int, total: int) -> None:
        export_lerobot(selections(store), tmp_path / "dataset", quiet)

    with pytest.raises(RunBusyError, match="in use by process"):
        export_lerobot(selections(store), tmp_path / "dataset", again)


def test_a_killed_import_keeps_whole_episodes_and_goes_on(tmp_path):
    store = filled(tmp_path / "store", environment(), 5)
    export_lerobot(selections(store), tmp_path / "dataset", quiet)
    killed_after(3, "import", tmp_path / "dataset", tmp_path / "back")
    assert len(EpisodeStore.open(tmp_path / "back").snapshot()) == 3
    report = import_lerobot(tmp_path / "dataset", tmp_path / "back", quiet)
    assert (report.imported, report.present) == (2, 3)
    assert EpisodeStore.open(tmp_path / "back").snapshot().fingerprint == store.snapshot().fingerprint
