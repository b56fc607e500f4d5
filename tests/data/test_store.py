import errno
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robotrl.data import durable, journal
from robotrl.data.episode_file import meta_to_json
from robotrl.data.store import EpisodeStore
from robotrl.errors import DataError, RunBusyError, StorageError
from robotrl.types import Episode
from tests import builders
from tests.contracts.store import EPISODES, StoreContract, assert_same

REPOSITORY = Path(__file__).parents[2]


class TestEpisodeStore(StoreContract):
    def create(self, root):
        return EpisodeStore.create(root, builders.spec())

    def open(self, root):
        return EpisodeStore.open(root)


@pytest.fixture
def store(tmp_path):
    return EpisodeStore.create(tmp_path / "store", builders.spec())


def committing(root: Path, count: int, file_limit: str = "") -> subprocess.Popen:
    command = [sys.executable, "-m", "tests.data.committing_process", str(root), str(count), file_limit]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_sigkill_loses_nothing_acknowledged(store):
    rng = np.random.default_rng(0)
    acknowledged = set()
    for _ in range(4):
        process = committing(store.root, 100_000)
        acknowledged.add(process.stdout.readline().strip())
        time.sleep(float(rng.uniform(0, 0.15)))
        process.send_signal(signal.SIGKILL)
        acknowledged.update(process.stdout.read().split())
        process.wait()
        snapshot = store.snapshot()
        assert acknowledged <= set(snapshot.ids)
        assert sum(1 for _ in snapshot.episodes()) == len(snapshot)
    store.writer().close()
    assert not list(store.root.glob("writers/w0/staging/*"))
    assert not (store.root / "writers/w0/quarantine").exists()
    assert len(list(store.root.glob("writers/w0/episodes/*"))) == len(store.snapshot())


class Killed(BaseException):
    """Ends the process at a system call; no handler of the code under test sees it."""


def fail_at(monkeypatch, call: int, error: BaseException) -> None:
    """Make the `call`-th durable system call from now raise `error`, after a write has done half its work."""
    left = [call]

    def wrap(function, name):
        def counted(*arguments, **named):
            left[0] -= 1
            if left[0] == -1:
                if name == "write":
                    function(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                raise error
            return function(*arguments, **named)

        return counted

    for name in ("fsync", "write"):
        monkeypatch.setattr(journal.os, name, wrap(getattr(os, name), name))
    monkeypatch.setattr(durable.Path, "replace", wrap(Path.replace, "replace"))
    monkeypatch.setattr(durable, "sync_directory", wrap(durable.sync_directory, "sync_directory"))


COMMIT_CALLS = 8


@pytest.mark.parametrize("call", range(COMMIT_CALLS))
@pytest.mark.parametrize(
    "error", [Killed(), OSError(errno.ENOSPC, "No space left on device")], ids=["kill", "full disk"]
)
def test_a_commit_that_stops_at_any_system_call_leaves_all_or_nothing(store, monkeypatch, call, error):
    writer = store.writer()
    writer.on_episode(EPISODES[0])
    with monkeypatch.context() as patch:
        fail_at(patch, call, error)
        try:
            writer.on_episode(EPISODES[1])
        except (Killed, StorageError) as stopped:
            acknowledged = EPISODES[:1]
            assert isinstance(stopped, Killed) or "disk is full" in str(stopped)
        else:
            acknowledged = EPISODES[:2]
    writer.close()
    snapshot = store.snapshot()
    assert {e.meta.episode_id for e in acknowledged} <= set(snapshot.ids)
    assert sum(1 for _ in snapshot.episodes()) == len(snapshot)
    with store.writer() as resumed:
        for episode in EPISODES:
            resumed.on_episode(episode)
    assert len(store.snapshot()) == len(EPISODES)
    for episode, stored in zip(EPISODES, store.snapshot().episodes(), strict=True):
        assert_same(episode, stored)


def test_the_calls_above_cover_a_whole_commit(store, monkeypatch):
    with store.writer() as writer:
        fail_at(monkeypatch, COMMIT_CALLS - 1, Killed())
        writer.on_episode(EPISODES[0])


def test_a_file_renamed_but_not_journalled_is_taken_up(store):
    with store.writer() as writer:
        for episode in EPISODES:
            writer.on_episode(episode)
    path = store.root / "writers/w0/journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    assert len(store.snapshot()) == len(EPISODES) - 1
    store.writer().close()
    assert len(store.snapshot()) == len(EPISODES)
    assert path.read_bytes() == b"".join(lines)


def test_an_unreadable_file_without_journal_line_is_quarantined(store, caplog):
    caplog.set_level(logging.INFO)
    store.writer().close()
    foreign = store.root / "writers/w0/episodes/foreign.zarr.zip"
    foreign.write_bytes(b"not an episode")
    store.writer().close()
    assert not foreign.exists()
    assert (store.root / "writers/w0/quarantine/foreign.zarr.zip").read_bytes() == b"not an episode"
    assert "foreign.zarr.zip" in caplog.text
    assert len(store.snapshot()) == 0


def test_staging_is_swept_when_the_writer_opens(store):
    store.writer().close()
    left = store.root / "writers/w0/staging/half.zarr.zip"
    left.write_bytes(b"half")
    store.writer().close()
    assert not left.exists()


def test_another_process_is_refused_and_told_who_writes(store):
    process = committing(store.root, 100_000)
    process.stdout.readline()
    with pytest.raises(RunBusyError, match=f"in use by process {process.pid}"):
        store.writer("w0")
    process.kill()
    process.communicate()
    store.writer("w0").close()


# The first limit is below the size of an episode, the others are reached by the journal, within a line.
@pytest.mark.parametrize(("limit", "at_least"), [(5_000, 0), (22_000, 20), (22_333, 20)])
def test_a_full_disk_is_a_clear_error_and_keeps_what_was_committed(store, limit, at_least):
    process = committing(store.root, 1000, str(limit))
    out, error = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "cannot" in error and "What was committed is safe" in error
    assert "Traceback" not in error
    assert set(store.snapshot().ids) == set(out.split())
    assert len(out.split()) >= at_least
    assert sum(1 for _ in store.snapshot().episodes()) == len(out.split())
    process = committing(store.root, 60)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert len(store.snapshot()) >= 60


def test_a_file_where_a_directory_belongs_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="A file stands where a directory is expected"):
        EpisodeStore.create(tmp_path / "file" / "store", builders.spec())
    store = EpisodeStore.create(tmp_path / "store", builders.spec())
    (store.root / "writers").write_text("")
    with pytest.raises(StorageError, match="A file stands where a directory is expected"):
        store.writer()


def test_a_directory_that_cannot_be_written_is_a_clear_error(store, monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(
        StorageError, match=r"cannot create .*writers/w0/staging: Permission denied.*make the directory"
    ):
        store.writer()


def test_importing_the_store_brings_in_nothing_heavy():
    code = "import sys, robotrl.data.store, robotrl.data.verify; print({'torch', 'mujoco', 'zarr'} & set(sys.modules))"
    output = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert output.stdout == "set()\n"


def test_a_path_without_a_store_is_a_clear_error(tmp_path):
    with pytest.raises(DataError, match=r"is not an episode store \(no store.json\)"):
        EpisodeStore.open(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "reads format 1, got format 99"),
        ({"fingerprint": "0"}, "the fingerprint does not fit"),
        ({"environment": {}}, "store.json: not an environment spec"),
    ],
)
def test_a_damaged_description_is_a_clear_error(store, change, message):
    path = store.root / "store.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError, match=message):
        EpisodeStore.open(store.root)
    path.write_text("{")
    with pytest.raises(DataError, match="damaged"):
        EpisodeStore.open(store.root)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:-100], "cut short"),
        (lambda content: content[:5000] + bytes([content[5000] ^ 1]) + content[5001:], "damaged"),
        (lambda content: content[:10] + bytes([content[10] ^ 1]) + content[11:], "damaged"),
    ],
)
def test_a_damaged_episode_is_named(store, damage, message):
    with store.writer() as writer:
        writer.on_episode(EPISODES[0])
    snapshot = store.snapshot()
    path = snapshot.entries[0].path
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=f"{path.name}.*{message}"):
        snapshot.read(snapshot.entries[0])


def test_a_missing_episode_is_named(store):
    with store.writer() as writer:
        writer.on_episode(EPISODES[0])
    snapshot = store.snapshot()
    snapshot.entries[0].path.unlink()
    with pytest.raises(DataError, match="is missing although it was committed"):
        snapshot.read(snapshot.entries[0])


def commit_at_once(store: EpisodeStore, *episodes: Episode) -> None:
    """Each episode by a writer of its own that does not know of the others, as in a race."""
    for number, episode in enumerate(episodes):
        elsewhere = EpisodeStore.create(store.root.with_name(f"elsewhere-{number}"), store.spec)
        with elsewhere.writer(f"racer-{number}") as writer:
            writer.on_episode(episode)
        shutil.copytree(elsewhere.root / "writers", store.root / "writers", dirs_exist_ok=True)


def test_different_episodes_of_one_id_stay_readable_and_are_reported(store, caplog):
    first, second = (builders.episode(ticks, seed=1, takeover=None) for ticks in (10, 11))
    commit_at_once(store, first, second)
    assert_same(next(store.snapshot().episodes()), first)
    assert "racer-0" in caplog.text and "racer-1" in caplog.text
    store.remove(store.snapshot().ids, "which of them is right is not known")
    assert len(store.snapshot()) == 0


def test_a_stage_that_repeats_itself_under_other_code_commits_nothing_anew(store):
    first, again = (replace(EPISODES[0], meta=replace(EPISODES[0].meta, code=c)) for c in ("0.1.0+g1", "0.1.0+g2"))
    with store.writer() as writer:
        writer.on_episode(first)
        writer.on_episode(again)
        with pytest.raises(DataError, match="other content"):
            writer.on_episode(replace(again, reward=again.reward + 1))
    assert [entry.meta.code for entry in store.snapshot().entries] == ["0.1.0+g1"]


def test_a_repeated_stage_finds_its_own_content_behind_that_of_other_code(store):
    first, again = (replace(EPISODES[0], meta=replace(EPISODES[0].meta, code=c)) for c in ("0.1.0+g1", "0.1.0+g2"))
    # What the first writer committed differs in more than its code.
    commit_at_once(store, replace(first, reward=first.reward + 1), again)
    with store.writer() as writer:
        writer.on_episode(again)
    assert len(store.snapshot()) == 1


def test_equal_episodes_that_race_are_one(store, caplog):
    commit_at_once(store, EPISODES[0], EPISODES[0])
    assert len(store.snapshot()) == 1
    assert not caplog.records


def test_a_damaged_journal_of_another_writer_does_not_stop_one_that_writes(store):
    with store.writer("one") as one, store.writer("two") as two:
        one.on_episode(EPISODES[0])
        path = store.root / "writers/one/journal.jsonl"
        path.write_bytes(path.read_bytes().replace(b'"length":20', b'"length":21'))
        two.on_episode(EPISODES[1])
    with pytest.raises(DataError, match="line 1 is damaged"):
        store.snapshot()


def test_a_snapshot_reads_only_what_was_appended(store, monkeypatch):
    with store.writer() as writer:
        writer.on_episode(EPISODES[0])
        store.snapshot()
        writer.on_episode(EPISODES[1])
    parsed = []
    decode = journal.decode_line
    monkeypatch.setattr(journal, "decode_line", lambda line: (parsed.append(line), decode(line))[1])
    assert len(store.snapshot()) == 2
    assert len(parsed) == 1


RECORD = {
    "kind": "episode",
    "id": "e",
    "file": "episodes/e.zarr.zip",
    "offset": 0,
    "length": 1,
    "size": 1,
    "crc": 1,
} | {"meta": meta_to_json(EPISODES[0].meta)}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"kind": "an event"}, "not a record of this format: 'an event'"),
        ({"kind": "episode"}, "not the record of an episode"),
        ({"kind": "remove"}, "not a record of this format"),
        ({"kind": "remove", "commits": [3]}, "not a record of this format"),
        ({"kind": "segment", "file": "segments/1.zip", "members": [3]}, "not a record of this format"),
        ({"kind": "segment", "file": "segments/../../../1.zip", "members": []}, "is no valid file name"),
        (RECORD | {"file": "../../../etc/passwd"}, "is no valid file name"),
        (RECORD | {"file": "episodes/../../../etc/passwd"}, "is no valid file name"),
        (RECORD | {"size": "big"}, "not the record of an episode"),
    ],
)
def test_a_foreign_journal_is_refused(store, record, message):
    store.writer().close()
    (store.root / "writers/w0/journal.jsonl").write_bytes(journal.encode_line(record))
    for reader in (store.snapshot, store.writer):
        with pytest.raises(DataError, match=message):
            reader()


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\0b", "-x", "x" * 101, ".hidden", "a b"])
def test_names_that_could_leave_the_store_are_refused(store, name):
    with pytest.raises(DataError, match="is no valid"):
        store.writer(name)
    with pytest.raises(DataError, match="is no valid"):
        store.annotations(name, "1")
    with pytest.raises(DataError, match="is no valid"):
        store.annotations("labels", name)
