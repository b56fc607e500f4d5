"""Real writers and packers killed at random moments, and many writers at once with a live reader."""

import multiprocessing
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from robotrl.data.exchange.lerobot_import import import_lerobot
from robotrl.data.recover import recover_store
from robotrl.data.store import EpisodeStore
from robotrl.data.verify import verify_store
from tests import builders
from tests.contracts.store import assert_same
from tests.data.crashing import episode, export, exports_of, fill, persist, tidy, write


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 2 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", place], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"mounting a small file system is not permitted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


# A server that has imported everything forks the processes, so that starting one costs milliseconds, not a second.
FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["tests.data.crashing"])
WORK = (tidy, export, write, write)


def run_and_kill(root: Path, trial: str, rng: np.random.Generator) -> dict[str, list[str]]:
    """Two writers, one that packs and one that exports, killed together at a random moment; returns what each did."""
    done = {f"{trial}-{place}": root.parent / f"{trial}-{place}" for place in range(len(WORK))}
    processes = [
        FORKSERVER.Process(target=work, args=(root, name, path))
        for work, (name, path) in zip(WORK, done.items(), strict=True)
    ]
    for process in processes:
        process.start()
    deadline = time.monotonic() + 30
    while not any(path.exists() and path.stat().st_size for path in done.values()) and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(float(rng.uniform(0, 0.15)))
    EpisodeStore.open(root).snapshot()
    for process in processes:
        process.kill()
    for process in processes:
        process.join()
        assert process.exitcode == -9
    return {name: path.read_text().split() if path.exists() else [] for name, path in done.items()}


def said(done: dict[str, list[str]], kind: str) -> set[str]:
    return {line[1:] for lines in done.values() for line in lines if line[0] == kind}


def check_exports(root: Path, done: dict[str, list[str]]) -> None:
    """Every data set that has its name is whole, and each that was acknowledged is there."""
    there = {path.name for path in exports_of(root).glob("[!.]*")}
    assert said(done, "=") <= there
    for name in there:
        back = root.parent / f"back-{name}"
        import_lerobot(exports_of(root) / name, back, lambda *_: None)
        imported = list(EpisodeStore.open(back).snapshot().episodes())
        assert imported
        for one in imported:
            maker, _, number = one.meta.episode_id.rpartition("-")
            assert_same(one, episode(maker, int(number)))


def check(root: Path, done: dict[str, list[str]]) -> None:
    """Every acknowledged episode is there and verifies, at most one more of each process is, and nothing in part."""
    committed, doubtful, removed = (said(done, kind) for kind in "+?-")
    for step in ("as it is", "recovered"):
        snapshot = EpisodeStore.open(root).snapshot()
        ids = set(snapshot.ids)
        assert committed - doubtful <= ids, step
        assert not removed & ids, step
        extra = [id_.rpartition("-")[0] for id_ in ids - committed]
        assert len(extra) == len(set(extra)), step
        for stored in snapshot.episodes():
            name, _, number = stored.meta.episode_id.rpartition("-")
            assert_same(stored, episode(name, int(number)))
        assert [f for f in verify_store(EpisodeStore.open(root)) if f.severity == "error"] == []
        assert recover_store(root).failed == ()
    assert verify_store(EpisodeStore.open(root)) == []


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=pytest.mark.slow)])
def test_processes_killed_at_random_moments_lose_nothing_acknowledged(tmp_path, kills):
    rng = np.random.default_rng(kills)
    killed = 0
    while killed < kills:
        root = tmp_path / f"{killed}" / "store"
        EpisodeStore.create(root, builders.spec())
        done: dict[str, list[str]] = {}
        for trial in range(4):
            done |= run_and_kill(root, f"t{trial}", rng)
            check(root, done)
            killed += len(WORK)
            if killed >= kills:
                break
        check_exports(root, done)


@pytest.mark.parametrize("count", [12, pytest.param(100, marks=pytest.mark.slow)])
def test_processes_on_a_disk_that_keeps_failing_lose_nothing_acknowledged(tmp_path, count):
    store = EpisodeStore.create(tmp_path / "store", builders.spec())
    done = {f"p{place}": tmp_path / f"p{place}" for place in range(3)}
    processes = [
        FORKSERVER.Process(target=persist, args=(store.root, name, path, count, place))
        for place, (name, path) in enumerate(done.items())
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    lines = {name: path.read_text().split() for name, path in done.items()}
    assert said(lines, "!")
    assert said(lines, "+") >= {f"{name}-{number}" for name in done for number in range(count) if number % 4 != 3}
    recover_store(store.root)
    check(store.root, lines)


def test_a_disk_that_is_full_keeps_what_was_acknowledged_and_goes_on_with_space(small_disk):
    store = EpisodeStore.create(small_disk / "store", builders.spec())
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(500_000))
    done = {name: small_disk.parent / name for name in ("full", "space")}
    for name, path in done.items():
        process = FORKSERVER.Process(target=fill, args=(store.root, name, path))
        process.start()
        process.join()
        assert process.exitcode == 0
        assert "!" in path.read_text()
        ballast.unlink(missing_ok=True)
    lines = {name: path.read_text().split() for name, path in done.items()}
    assert min(sum(line[0] == "+" for line in found) for found in lines.values()) >= 5
    shown = store.snapshot()
    assert said(lines, "+") <= set(shown.ids) <= said(lines, "+") | said(lines, "!")
    for stored in shown.episodes():
        name, _, number = stored.meta.episode_id.rpartition("-")
        assert_same(stored, episode(name, int(number)))
    assert [f for f in verify_store(store) if f.severity == "error"] == []


def test_four_writers_and_a_live_reader_see_each_episode_once(tmp_path):
    store = EpisodeStore.create(tmp_path / "store", builders.spec())
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=write, args=(store.root, f"p{n}", tmp_path / f"{n}", 50)) for n in range(4)]
    for process in writers:
        process.start()
    seen: list[str] = []
    for entries in store.follow(interval_s=0.02):
        seen += [entry.episode_id for entry in entries]
        if not entries and not any(process.is_alive() for process in writers):
            break
    for entries in store.follow():
        assert len(entries) == 200
        break
    assert [process.exitcode for process in writers] == [0] * 4
    expected = {f"p{n}-{number}" for n in range(4) for number in range(50)}
    assert set(seen) <= expected and len(seen) == len(set(seen))
    assert set(store.snapshot().ids) == expected
    assert sum(1 for _ in store.snapshot().episodes()) == 200
    assert verify_store(store) == []
