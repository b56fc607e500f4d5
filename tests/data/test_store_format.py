"""docs/store.md is enough to read a store: what a foreign reader finds is what ours finds."""

import re
import zipfile
from dataclasses import asdict, fields, replace
from pathlib import Path

import numpy as np
import pytest
import zarr

from robotrl.data.frames import encode_frames
from robotrl.data.jpeg_codec import JpegCodec
from robotrl.data.pack import pack_store
from robotrl.data.store import EpisodeStore
from robotrl.types import CameraFrames, ChunkTable, Episode, EpisodeMeta
from tests import builders
from tests.data import store_reader
from tests.data.pictures import pictures, with_cameras
from tests.data.store_reader import read_store

EPISODES = [builders.episode(20 + i, i, takeover=(5, 9) if i % 2 else None) for i in range(6)]
EPISODES[2] = with_cameras(EPISODES[2], every=3)
IDS = [e.meta.episode_id for e in EPISODES]
DOCUMENT = (Path(__file__).parents[2] / "docs" / "store.md").read_text()


@pytest.fixture(scope="module", autouse=True)
def codec_registered():
    """As the entry point of an installed robotrl does."""
    zarr.registry.register_codec("robotrl.jpeg", JpegCodec)


@pytest.fixture
def store(tmp_path) -> EpisodeStore:
    """Two writers, an episode that both committed, one that was removed, one removed and committed again."""
    store = EpisodeStore.create(tmp_path / "store", builders.spec())
    with store.writer() as one, store.writer() as two:
        for episode in EPISODES[:4]:
            one.on_episode(episode)
        for episode in EPISODES[2:]:
            two.on_episode(episode)
    store.remove([IDS[1], IDS[4]], "test")
    with store.writer() as writer:
        writer.on_episode(EPISODES[4])
    return store


def assert_read_alike(store: EpisodeStore) -> None:
    theirs = read_store(store.root)
    snapshot = store.snapshot()
    assert tuple(theirs) == snapshot.ids == (IDS[0], *IDS[2:])
    for episode in snapshot.episodes():
        group = theirs[episode.meta.episode_id]
        assert group.attrs["meta"] == asdict(episode.meta)
        pairs = [
            (f.name, getattr(episode, f.name)) for f in fields(Episode) if f.name not in ("meta", "chunks", "cameras")
        ]
        pairs += [(f"chunks/{f.name}", getattr(episode.chunks, f.name)) for f in fields(ChunkTable)]
        for name, camera in episode.cameras.items():
            pairs += [(f"cameras/{name}/tick", camera.tick), (f"cameras/{name}/frames", camera.frames[:])]
        for name, ours in pairs:
            array = group[name]
            assert isinstance(array, zarr.Array)
            found = np.asarray(array[...])
            assert (found.dtype, found.shape, found.tobytes()) == (ours.dtype, ours.shape, ours.tobytes()), name


def test_a_reader_of_forty_lines_reads_a_whole_store(store):
    assert_read_alike(store)
    assert len(Path(store_reader.__file__).read_text().splitlines()) <= 40


def test_it_reads_a_packed_store(store):
    pack_store(store)
    assert not list(store.root.glob("writers/*/episodes/*"))
    assert_read_alike(store)


def test_it_reads_a_store_that_was_packed_in_between(store):
    pack_store(store)
    store.remove([IDS[0]], "test")
    with store.writer() as writer:
        writer.on_episode(EPISODES[0])
    assert_read_alike(store)
    pack_store(store)
    assert_read_alike(store)


def test_unzip_gives_the_episodes_of_a_segment_back(store, tmp_path):
    before = {p.name: p.read_bytes() for p in store.root.glob("writers/*/episodes/*")}
    pack_store(store)
    for path in store.root.glob("writers/*/segments/*.zip"):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path / "out")
    unpacked = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    assert unpacked == {name: before[name] for name in unpacked}
    assert {name.partition(".")[0] for name in unpacked} == {IDS[0], *IDS[2:]}


@pytest.mark.parametrize("codec", ["zstd", "raw"])
def test_exact_pictures_need_no_codec_of_ours(tmp_path, codec):
    store, frames, tick = EpisodeStore.create(tmp_path, builders.spec()), pictures(5), np.arange(5, dtype=np.int32)
    camera = CameraFrames(tick, encode_frames(frames, codec))
    with store.writer() as writer:
        writer.on_episode(replace(EPISODES[0], cameras={"front": camera}))
    found = read_store(store.root)[IDS[0]]["cameras/front/frames"]
    np.testing.assert_array_equal(np.asarray(found[...]), frames)


def test_annotations_are_read_with_zarr_alone(store):
    columns = {e.meta.episode_id: {"weight": np.arange(e.length, dtype=np.float32)} for e in EPISODES[2:4]}
    store.annotate("labels", "1", columns, {"made_by": "test", "code": "0"})
    group = zarr.open_group(zarr.storage.ZipStore(store.root / "annotations/labels/1.zarr.zip", mode="r"), mode="r")
    offsets = np.asarray(group["offsets"][...])
    for place, episode in enumerate(group.attrs["episodes"]):
        found = np.asarray(group["weight"][...])[offsets[place] : offsets[place + 1]]
        np.testing.assert_array_equal(found, columns[episode]["weight"])
    assert group.attrs["lineage"] == {"made_by": "test", "code": "0"}


@pytest.mark.parametrize("kind", [Episode, ChunkTable, EpisodeMeta])
def test_the_document_names_every_field(kind):
    named = set(re.findall(r"`([a-z_]+)`", DOCUMENT))
    assert {f.name for f in fields(kind)} - {"meta", "chunks", "cameras"} <= named
