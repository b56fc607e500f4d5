"""Every write of an export can fail; the limit on file sizes stands in for a full disk."""

import resource
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from robotrl.data.exchange.lerobot_export import export_lerobot
from robotrl.data.exchange.lerobot_import import import_lerobot
from robotrl.data.exchange.robomimic_export import export_robomimic
from robotrl.data.exchange.robomimic_import import import_robomimic
from robotrl.data.store import EpisodeStore
from robotrl.errors import StorageError
from tests.data.exchange.stores import assert_stores_equal, environment, filled, quiet, selections


@contextmanager
def largest_file(size: int) -> Generator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fails_until_there_is_space(export, target) -> int:
    """Give it more and more space; every attempt but the last must fail cleanly. Returns how many failed."""
    size, failures = 100, 0
    while True:
        try:
            with largest_file(size):
                export()
            return failures
        except StorageError as error:
            assert "File too large" in str(error)
            assert not target.exists()
            failures, size = failures + 1, int(size * 1.5)


def test_a_lerobot_export_fails_cleanly_at_any_write_and_then_succeeds(tmp_path):
    store, target = filled(tmp_path / "store", environment(), 1, every=1), tmp_path / "dataset"
    assert fails_until_there_is_space(lambda: export_lerobot(selections(store), target, quiet), target) > 5
    import_lerobot(target, tmp_path / "back", quiet)
    assert_stores_equal(store, EpisodeStore.open(tmp_path / "back"))


def test_a_robomimic_export_fails_cleanly_at_any_write_and_then_succeeds(tmp_path):
    store, target = filled(tmp_path / "store", environment(), 2, every=1), tmp_path / "demos.hdf5"
    assert fails_until_there_is_space(lambda: export_robomimic(selections(store)[0], target, quiet), target) > 5
    import_robomimic(target, tmp_path / "back", quiet)
    assert EpisodeStore.open(tmp_path / "back").snapshot().fingerprint == store.snapshot().fingerprint


def test_an_import_that_runs_out_of_space_keeps_whole_episodes_and_goes_on(tmp_path):
    store = filled(tmp_path / "store", environment(), 6)
    export_lerobot(selections(store), tmp_path / "dataset", quiet)
    largest = max(entry.size for entry in store.snapshot().entries)
    with pytest.raises(StorageError), largest_file(largest - 1):
        import_lerobot(tmp_path / "dataset", tmp_path / "back", quiet)
    assert len(EpisodeStore.open(tmp_path / "back").snapshot()) < 6
    import_lerobot(tmp_path / "dataset", tmp_path / "back", quiet)
    assert EpisodeStore.open(tmp_path / "back").snapshot().fingerprint == store.snapshot().fingerprint
