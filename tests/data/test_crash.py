"""Real writers and packers killed at random moments, and many writers at once with a live reader."""

import multiprocessing
import time
from pathlib import Path

import numpy as np
import pytest

from robotrl.data.recover import recover_store
from robotrl.data.store import EpisodeStore
from robotrl.data.verify import verify_store
from tests import builders
from tests.contracts.store import assert_same
from tests.data.crashing import episode, tidy, write

# A server that has imported everything forks the processes, so that starting one costs milliseconds, not a second.
FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(["tests.data.crashing"])
KILLED_AT_ONCE = 3


def run_and_kill(root: Path, trial: str, rng: np.random.Generator) -> dict[str, list[str]]:
    """Two writers and one that packs, killed together at a random moment; returns what each said it had done."""
    done = {f"{trial}-{place}": root.parent / f"{trial}-{place}" for place in range(KILLED_AT_ONCE)}
    processes = [
        FORKSERVER.Process(target=tidy, args=(root, name, path))
        if place == 0
        else FORKSERVER.Process(target=write, args=(root, name, path, 10_000))
        for place, (name, path) in enumerate(done.items())
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


def check(root: Path, done: dict[str, list[str]]) -> None:
    """Every acknowledged episode is there and verifies, at most one more of each process is, and nothing in part."""
    lines = [line for lines in done.values() for line in lines]
    committed, doubtful, removed = ({line[1:] for line in lines if line[0] == kind} for kind in "+?-")
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


@pytest.mark.parametrize("kills", [9, pytest.param(200, marks=pytest.mark.slow)])
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
            killed += KILLED_AT_ONCE
            if killed >= kills:
                break


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
