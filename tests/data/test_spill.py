import os
import signal
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robotrl.data.recover import recover_store
from robotrl.data.salvage import read_spill
from robotrl.data.spill import SpillDirectory, spill_layout
from robotrl.data.store import EpisodeStore
from robotrl.data.verify import verify_store
from robotrl.errors import DataError
from robotrl.rollout.loop import Execution, Origin, Rollout
from robotrl.seeds import seed_range
from robotrl.specs import CameraSpec
from robotrl.types import Episode
from sim.environment import MujocoEnvironment
from sim.experts import Expert, ExpertPolicy
from sim.tasks.insert import Insert
from teleop.simulated_operator import OperatorConfig, SimulatedOperator
from tests import builders
from tests.contracts.store import assert_same
from tests.data.spilling_process import Judge

REPOSITORY = Path(__file__).parents[2]
SPEC = builders.spec()
EPISODE = builders.episode(30, takeover=(10, 15), execute=8)
STATES = ("state", "privileged", "physics", "time_ns")
NOT_ROWS = ("meta", "chunks", "cameras")


def rows(episode: Episode, start: int, stop: int) -> dict[str, np.ndarray]:
    """Ticks [start, stop) as the recorder hands them over: states are those after the ticks."""
    names = [f.name for f in fields(Episode) if f.name not in NOT_ROWS]
    return {n: getattr(episode, n)[start + (n in STATES) : stop + (n in STATES)] for n in names}


def spill(directory: Path, episode: Episode, step: int = 4) -> Path:
    """Log the whole episode, `step` ticks at a time, each chunk before the tick at which it was asked for."""
    spills = SpillDirectory(directory, SPEC)
    log = spills.begin(episode.meta, {name: getattr(episode, name)[0] for name in STATES})
    chunks = episode.chunks
    for start in range(0, episode.length, step):
        for at in np.flatnonzero(chunks.observed_tick // step == start // step):
            version = int(chunks.policy_version[at])
            log.chunk(chunks.actions[at], chunks.noise[at], int(chunks.observed_tick[at]), version)
        log.ticks(rows(episode, start, min(start + step, episode.length)))
    spills.close()
    return log.path


def cut(episode: Episode, ticks: int, chunks: int) -> Episode:
    """What salvaging must give of the first ticks and chunks."""
    names = [f.name for f in fields(Episode) if f.name not in NOT_ROWS]
    arrays = {n: getattr(episode, n)[: ticks + (n in STATES)] for n in names}
    started = [np.flatnonzero(arrays["chunk_id"] == i) for i in range(chunks)]
    table = replace(
        episode.chunks,
        **{n: getattr(episode.chunks, n)[:chunks] for n in ("actions", "noise", "observed_tick", "policy_version")},
        start_tick=np.array([s[0] if s.size else -1 for s in started], np.int32),
    )
    operator_s = float(arrays["intervention"].sum()) / episode.meta.control_hz
    meta = replace(episode.meta, outcome=None, reason="salvaged", operator_s=operator_s)
    return replace(episode, meta=meta, chunks=table, **arrays)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    return spill(tmp_path_factory.mktemp("spill"), EPISODE).read_bytes()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("scratch") / "e.spill"


def test_the_rows_are_all_fields_of_an_episode():
    names = {f.name for f in fields(Episode)} - set(NOT_ROWS)
    assert set(spill_layout(SPEC)[1].names) == names
    for name in names:
        assert spill_layout(SPEC)[1][name].base == getattr(EPISODE, name).dtype, name


@pytest.mark.parametrize("step", [1, 4, 30])
def test_every_tick_and_chunk_is_read_back(tmp_path, step):
    assert_same(read_spill(spill(tmp_path, EPISODE, step), SPEC), cut(EPISODE, 30, 4))


def test_an_episode_without_noise_or_chunks_is_read_back(tmp_path):
    meta = replace(EPISODE.meta, episode_id="plain")
    spills = SpillDirectory(tmp_path, SPEC)
    log = spills.begin(meta, {name: getattr(EPISODE, name)[0] for name in STATES})
    log.ticks(rows(EPISODE, 0, 3))
    assert read_spill(log.path, SPEC).chunks.actions.shape == (0, 0, 4)
    log.chunk(EPISODE.chunks.actions[0], None, 0, 7)
    assert read_spill(log.path, SPEC).chunks.noise.shape == (1, 0, 0)
    spills.close()


@given(share=st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_a_log_torn_at_any_byte_gives_every_whole_frame(scratch, whole, share):
    header = whole.index(b"\n") + 1
    scratch.write_bytes(whole[: header + int(share * (len(whole) - header))])
    salvaged = read_spill(scratch, SPEC)
    assert salvaged.length % 4 == 0 or salvaged.length == 30
    if salvaged.length:
        assert_same(salvaged, cut(EPISODE, salvaged.length, len(salvaged.chunks.start_tick)))


@given(share=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
@settings(max_examples=80, deadline=None)
def test_a_flipped_bit_ends_the_log_or_is_an_error(scratch, whole, share, bit):
    content = bytearray(whole)
    content[int(share * len(content))] ^= 1 << bit
    scratch.write_bytes(content)
    try:
        salvaged = read_spill(scratch, SPEC)
    except DataError as error:
        assert str(scratch) in str(error)
    else:
        for name in STATES[:3]:
            found = getattr(salvaged, name)[1:]
            np.testing.assert_array_equal(found, getattr(EPISODE, name)[1 : len(found) + 1])


def test_the_log_of_another_environment_is_refused(tmp_path):
    with pytest.raises(DataError, match="ticks of another environment"):
        read_spill(spill(tmp_path, EPISODE), builders.spec(task="pick_place"))


def test_a_committed_episode_leaves_no_log(tmp_path):
    store = EpisodeStore.create(tmp_path / "store", SPEC)
    with store.writer() as writer:
        log = writer.spills.begin(EPISODE.meta, {name: getattr(EPISODE, name)[0] for name in STATES})
        log.ticks(rows(EPISODE, 0, 30))
        log.finish()
        writer.on_episode(EPISODE)
        assert not list(store.root.glob("writers/*/spills/*"))


@pytest.mark.parametrize("reopen", [True, False])
def test_a_log_left_behind_is_salvaged_once(tmp_path, reopen):
    store = EpisodeStore.create(tmp_path / "store", SPEC)
    store.writer().close()
    path = spill(store.root / "writers/w0/spills", EPISODE)
    kept = path.read_bytes()
    for _ in range(2):
        if reopen:
            store.writer().close()
        else:
            recover_store(store.root)
        (entry,) = store.snapshot().entries
        assert entry.episode_id.startswith(f"{EPISODE.meta.episode_id}-salvaged-")
        assert (entry.meta.outcome, entry.meta.reason, entry.length) == (None, "salvaged", 30)
        assert verify_store(store) == []
        path.write_bytes(kept)  # as if the crash had come between the commit and the removal of the log


def test_logs_without_a_tick_or_a_header_are_put_away(tmp_path):
    store = EpisodeStore.create(tmp_path / "store", SPEC)
    store.writer().close()
    path = spill(store.root / "writers/w0/spills", EPISODE)
    header = path.read_bytes().index(b"\n") + 1
    os.truncate(path, header)
    path.with_name("torn.spill").write_bytes(path.read_bytes()[: header // 2])
    planned = recover_store(store.root, dry_run=True).repairs
    assert recover_store(store.root).repairs == planned
    assert [r.action.partition(":")[0] for r in planned] == ["removed", "moved to quarantine"]
    assert len(store.snapshot()) == 0


def test_spilled_ticks_that_a_store_must_not_hold_are_quarantined(tmp_path):
    store = EpisodeStore.create(tmp_path / "store", SPEC)
    store.writer().close()
    state = EPISODE.state.copy()
    state[7, 1] = np.nan
    spill(store.root / "writers/w0/spills", replace(EPISODE, state=state))
    (repair,) = recover_store(store.root).repairs
    assert "moved to quarantine: state: element 'joint.1' is not finite" in repair.action
    assert len(store.snapshot()) == 0
    assert len(list(store.root.glob("writers/w0/quarantine/*"))) == 1


def test_a_full_disk_ends_the_log_with_a_warning_and_not_the_episode(tmp_path, monkeypatch, caplog):
    spills = SpillDirectory(tmp_path, SPEC)
    log = spills.begin(EPISODE.meta, {name: getattr(EPISODE, name)[0] for name in STATES})
    log.ticks(rows(EPISODE, 0, 5))

    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log, "_write", full)
    log.ticks(rows(EPISODE, 5, 10))
    monkeypatch.undo()
    log.ticks(rows(EPISODE, 10, 15))
    spills.close()
    assert "No space left on device" in caplog.text
    assert read_spill(log.path, SPEC).length == 5


def test_a_rollout_spills_exactly_what_it_records(tmp_path):
    world = MujocoEnvironment(Insert(time_limit_s=2.0), worlds=2, cameras=[CameraSpec("front", 24, 32)])
    spills = SpillDirectory(tmp_path, world.spec)
    expert = Expert(world.spec, 2)
    person = SimulatedOperator(world.spec, expert, OperatorConfig(reaction_s=0.2), 2)
    origin = Origin("run", "drive")
    rollout = Rollout(world, ExpertPolicy(expert), Execution(execute=1), origin, person, Judge(), camera_every=10)
    for episode in rollout.run(seed_range("train").block(4), spills):
        spilled = read_spill(tmp_path / f"{episode.meta.episode_id}.spill", world.spec)
        assert (spilled.meta.outcome, spilled.meta.source) == (None, episode.meta.source)
        assert_same(replace(spilled, meta=episode.meta), episode)
        assert spilled.cameras["front"].frames[:].std() > 5
    world.close()
    spills.close()


def test_a_killed_rollout_is_salvaged_up_to_the_last_tick(tmp_path):
    root = tmp_path / "store"
    command = [sys.executable, "-m", "tests.data.spilling_process", str(root)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    acknowledged = {process.stdout.readline().strip()}
    time.sleep(0.7)
    process.send_signal(signal.SIGKILL)
    acknowledged.update(process.stdout.read().split())
    process.wait()
    logs = sorted(root.glob("writers/w0/spills/*"))
    store = EpisodeStore.open(root)
    ticks = [read_spill(path, store.spec).length for path in logs]
    assert ticks and max(ticks) >= 5
    actions = [r.action for r in recover_store(root).repairs]
    assert sum("salvaged" in a for a in actions) == sum(t > 0 for t in ticks)
    snapshot = store.snapshot()
    assert acknowledged <= set(snapshot.ids)
    salvaged = [e for e in snapshot.episodes() if e.meta.reason == "salvaged"]
    assert sorted(e.length for e in salvaged) == sorted(t for t in ticks if t)
    for episode in salvaged:
        assert episode.state.any(axis=1).all() and np.isfinite(episode.action).all()
    assert any(len(episode.chunks.start_tick) for episode in salvaged)
    assert any(episode.intervention.any() for episode in salvaged)
    assert verify_store(store) == []
