import errno
import os
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from robotrl.data import journal, segment
from robotrl.data.pack import pack_store
from robotrl.data.store import EpisodeStore
from robotrl.data.verify import verify_store
from robotrl.errors import DataError, StorageError
from tests import builders
from tests.contracts.store import EPISODES, assert_same

IDS = [e.meta.episode_id for e in EPISODES]


@pytest.fixture
def store(tmp_path):
    store = EpisodeStore.create(tmp_path / "store", builders.spec())
    with store.writer() as writer:
        for episode in EPISODES:
            writer.on_episode(episode)
    return store


def files(store: EpisodeStore) -> list[str]:
    return sorted(path.name for path in store.root.glob("writers/*/*/*.zip"))


def assert_holds(store: EpisodeStore, places: list[int]) -> None:
    snapshot = EpisodeStore.open(store.root).snapshot()
    assert snapshot.ids == tuple(IDS[p] for p in places)
    for place, stored in zip(places, snapshot.episodes(), strict=True):
        assert_same(EPISODES[place], stored)


def test_packing_moves_all_episodes_into_one_file_that_reads_the_same(store):
    size = sum(entry.size for entry in store.snapshot().entries)
    fingerprint = store.snapshot().fingerprint
    report = pack_store(store)
    assert (report.episodes, report.segments, report.failed) == (4, 1, ())
    assert len(files(store)) == 1
    assert_holds(store, [0, 1, 2, 3])
    assert store.snapshot().fingerprint == fingerprint
    assert -report.freed_bytes < 0.05 * size


def test_any_unzip_tool_gives_the_episodes_back(store, tmp_path):
    originals = {path.name: path.read_bytes() for path in store.root.glob("writers/*/episodes/*")}
    pack_store(store)
    (path,) = store.root.glob("writers/*/segments/*")
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == originals


def test_arrays_in_segments_are_mapped_in_place_and_aligned(store):
    pack_store(store)
    for episode in store.snapshot().episodes():
        assert not episode.state.flags.owndata
        assert episode.state.ctypes.data % 64 == episode.physics.ctypes.data % 64 == 0


def test_older_snapshots_read_what_was_packed_since_even_twice(store):
    before = store.snapshot()
    pack_store(store)
    between = store.snapshot()
    store.remove(IDS[:1], "blurred")
    pack_store(store)
    for snapshot in (before, between):
        for entry, episode in list(zip(snapshot.entries, EPISODES, strict=True))[1:]:
            assert_same(snapshot.read(entry), episode)
        with pytest.raises(DataError, match="is missing although it was committed"):
            snapshot.read(snapshot.entries[0])
    assert store.snapshot(before.offsets).ids == before.ids


def test_packing_frees_the_bytes_of_removed_episodes(store):
    store.remove(IDS[:1], "blurred")
    pack_store(store)
    store.remove(IDS[1:2], "blurred")
    needle = EPISODES[1].state.tobytes()
    assert any(needle in path.read_bytes() for path in store.root.rglob("*.zip"))
    report = pack_store(store)
    assert report.freed_bytes > len(needle)
    assert not any(needle in path.read_bytes() for path in store.root.rglob("*.zip"))
    assert_holds(store, [2, 3])


def test_packing_twice_changes_nothing_and_small_segments_are_merged(store):
    pack_store(store)
    before = files(store)
    assert pack_store(store).segments == 0
    assert files(store) == before
    with store.writer() as writer:
        for seed in (10, 11):
            writer.on_episode(builders.episode(5, seed=seed, takeover=None))
    pack_store(store)
    assert len(files(store)) == 1 and files(store) != before
    assert len(store.snapshot()) == 6


def test_segments_are_as_large_as_asked_and_larger_episodes_stay_files(store):
    sizes = [entry.size for entry in store.snapshot().entries]
    pack_store(store, segment_bytes=sizes[2] + sizes[3])
    assert len(files(store)) == 2
    assert_holds(store, [0, 1, 2, 3])
    with store.writer() as writer:
        writer.on_episode(builders.episode(300, seed=50, takeover=None))
    pack_store(store, segment_bytes=sizes[2] + sizes[3])
    assert len(list(store.root.glob("writers/*/episodes/*"))) == 1


def test_a_directory_whose_writer_lives_is_left_alone(store):
    with store.writer() as writer:
        report = pack_store(store)
        assert (report.busy, report.episodes) == (("w0",), 0)
        writer.on_episode(builders.episode(5, seed=10, takeover=None))
    assert pack_store(store).episodes == 5


def test_a_damaged_episode_stays_where_it_is_and_is_reported(store):
    path = store.snapshot().entries[1].path
    content = path.read_bytes()
    path.write_bytes(content[:3000] + bytes([content[3000] ^ 1]) + content[3001:])
    report = pack_store(store)
    assert report.episodes == 3
    assert [(name, IDS[1] in text) for name, text in report.failed] == [("w0", True)]
    assert path.exists()


class Killed(BaseException):
    """Ends the process at a system call; no handler of the code under test sees it."""


def fail_at(monkeypatch, call: int, error: BaseException) -> None:
    """Make the `call`-th change to the disk from now on raise `error`."""
    left = [call]

    def wrap(function):
        def counted(*arguments, **named):
            left[0] -= 1
            if left[0] == -1:
                raise error
            return function(*arguments, **named)

        return counted

    for name in ("fsync", "write"):
        monkeypatch.setattr(journal.os, name, wrap(getattr(os, name)))
    for name in ("replace", "unlink", "rename"):
        monkeypatch.setattr(Path, name, wrap(getattr(Path, name)))
    monkeypatch.setattr(segment.zipfile.ZipFile, "writestr", wrap(zipfile.ZipFile.writestr))


PACK_CALLS = 29


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("call", "error"),
    [*((call, Killed()) for call in range(0, PACK_CALLS, 2)), *((call, FULL) for call in range(1, PACK_CALLS, 4))],
)
def test_packing_that_stops_at_any_change_of_the_disk_loses_nothing(store, monkeypatch, call, error):
    before = store.snapshot()
    pack_store(store, segment_bytes=30_000)
    store.remove(IDS[:1], "blurred")
    with monkeypatch.context() as patch:
        fail_at(patch, call, error)
        with suppress(Killed, StorageError):
            pack_store(store)
    assert_holds(store, [1, 2, 3])
    for entry, episode in list(zip(before.entries, EPISODES, strict=True))[1:]:
        assert_same(before.read(entry), episode)
    pack_store(store)
    assert len(files(store)) == 1
    assert verify_store(store) == []
    assert_holds(store, [1, 2, 3])


def test_the_calls_above_cover_a_whole_packing(store, monkeypatch):
    pack_store(store, segment_bytes=30_000)
    store.remove(IDS[:1], "blurred")
    fail_at(monkeypatch, PACK_CALLS, Killed())
    pack_store(store)
    with pytest.raises(Killed):
        fail_at(monkeypatch, 0, Killed())
        pack_store(store)
