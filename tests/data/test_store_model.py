"""Any sequence of what writers, crashes and repairs do leaves a store equal to a simple model in memory."""

import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from robotrl.data import durable, journal, segment
from robotrl.data.pack import pack_store
from robotrl.data.recover import recover_store
from robotrl.data.store import EpisodeStore
from robotrl.data.verify import verify_store
from robotrl.errors import DataError
from robotrl.types import Episode
from tests import builders
from tests.contracts.store import LINEAGE, assert_same

NAMES = ("one", "two")
SEEDS = st.integers(0, 5)
VARIANTS = {
    (seed, variant): replace(episode, reward=episode.reward + np.float32(variant))
    for seed in range(6)
    for episode in [builders.episode(2 + seed, seed=seed, takeover=None)]
    for variant in range(2)
}


class Killed(BaseException):
    """Ends the process at a change of the disk; no handler of the code under test sees it."""


class DyingAt:
    """Within it the `call`-th change of the disk, and every later one, raises `Killed`: nothing is undone."""

    def __init__(self, call: int) -> None:
        self._left = call
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> None:
        for name in ("fsync", "write", "ftruncate"):
            self._patch.setattr(journal.os, name, self._wrap(getattr(os, name)))
        for name in ("replace", "unlink", "rename"):
            self._patch.setattr(durable.Path, name, self._wrap(getattr(Path, name)))
        self._patch.setattr(segment.zipfile.ZipFile, "writestr", self._wrap(segment.zipfile.ZipFile.writestr))

    def __exit__(self, *_: object) -> None:
        self._patch.undo()

    def _wrap(self, function):
        def counted(*arguments, **named):
            self._left -= 1
            if self._left < 0:
                raise Killed
            return function(*arguments, **named)

        return counted


class StoreModel(RuleBasedStateMachine):
    """`shown` is what readers must see; `limbo` what a crash left between committed and not."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="store-model-"))
        self.store = EpisodeStore.create(self.root / "store", builders.spec())
        self.writers = {}
        self.shown: dict[str, Episode] = {}
        self.limbo: dict[str, Episode] = {}
        self.pinned = []
        self.annotated: dict[str, tuple[str, ...]] = {}

    def teardown(self) -> None:
        for writer in self.writers.values():
            writer.close()
        shutil.rmtree(self.root)

    def settle(self) -> None:
        """Find out which way episodes in limbo went, once somebody has put things in order."""
        ids = EpisodeStore.open(self.store.root).snapshot().ids
        self.shown |= {i: e for i, e in self.limbo.items() if i in ids}
        if not set(NAMES) - self.writers.keys():
            self.limbo.clear()

    def writer(self, name: str):
        if name not in self.writers:
            self.writers[name] = self.store.writer(name)
        return self.writers[name]

    @rule(name=st.sampled_from(NAMES), seed=SEEDS, variant=st.integers(0, 1))
    def commit(self, name, seed, variant):
        episode = VARIANTS[seed, variant]
        id_ = episode.meta.episode_id
        writer = self.writer(name)
        self.settle()
        known = self.shown.get(id_)
        if known is not None and known is not episode:
            with pytest.raises(DataError, match="other content"):
                writer.on_episode(episode)
            return
        writer.on_episode(episode)
        self.shown[id_] = episode
        self.limbo.pop(id_, None)

    @rule(name=st.sampled_from(NAMES), seed=SEEDS, call=st.integers(0, 7))
    def crash_in_a_commit(self, name, seed, call):
        episode = VARIANTS[seed, 0]
        id_ = episode.meta.episode_id
        writer = self.writer(name)
        self.settle()
        if id_ in self.shown or id_ in self.limbo:
            return
        acknowledged = False
        with DyingAt(call), suppress(Killed):
            writer.on_episode(episode)
            acknowledged = True
        (self.shown if acknowledged else self.limbo)[id_] = episode
        self.writers.pop(name).close()

    @rule(name=st.sampled_from(NAMES))
    def close(self, name):
        if name in self.writers:
            self.writers.pop(name).close()

    @rule(seed=SEEDS)
    def remove(self, seed):
        id_ = VARIANTS[seed, 0].meta.episode_id
        self.settle()
        if id_ not in self.shown:
            return
        self.store.remove([id_], "not wanted")
        del self.shown[id_]

    @rule()
    def recover(self):
        report = recover_store(self.store.root)
        assert report.failed == ()
        self.settle()

    @rule(segment_bytes=st.sampled_from([10_000, 1 << 20]))
    def pack(self, segment_bytes):
        assert pack_store(self.store, segment_bytes=segment_bytes).failed == ()
        self.settle()

    @rule(call=st.integers(0, 25))
    def crash_in_packing(self, call):
        with DyingAt(call), suppress(Killed):
            pack_store(self.store, segment_bytes=10_000)
        self.settle()

    @precondition(lambda self: self.shown)
    @rule()
    def annotate(self):
        self.settle()
        version = str(len(self.annotated))
        columns = {i: {"weight": np.full(e.length, e.meta.seed, np.float32)} for i, e in self.shown.items()}
        self.store.annotate("labels", version, columns, LINEAGE)
        self.annotated[version] = tuple(columns)

    @rule()
    def pin(self):
        snapshot = self.store.snapshot()
        self.pinned.append((snapshot.offsets, snapshot.ids))

    @invariant()
    def readers_see_the_model(self):
        snapshot = self.store.snapshot()
        assert set(self.shown) <= set(snapshot.ids) <= set(self.shown) | set(self.limbo)
        for episode in snapshot.episodes():
            id_ = episode.meta.episode_id
            assert_same(episode, self.shown.get(id_) or self.limbo[id_])

    @invariant()
    def nothing_is_wrong_with_the_store(self):
        assert [f for f in verify_store(self.store) if f.severity == "error"] == []

    @invariant()
    def pinned_snapshots_stay(self):
        for offsets, ids in self.pinned:
            assert self.store.snapshot(offsets).ids == ids

    @invariant()
    def annotations_stay(self):
        for version, ids in self.annotated.items():
            assert tuple(self.store.annotations("labels", version).columns) == tuple(sorted(ids))


TestStoreModel = StoreModel.TestCase
TestStoreModel.settings = settings(max_examples=12, stateful_step_count=20, deadline=None)
