from dataclasses import replace

import numpy as np
import pytest

from robotrl.data.cache import TrainingCache
from robotrl.data.frames import encode_frames
from robotrl.data.images import CachedImages, StoredImages
from robotrl.data.store import EpisodeStore
from robotrl.data.windows import WindowSampler
from robotrl.errors import DataError
from robotrl.types import CameraFrames
from tests import builders
from tests.data.pictures import pictures, with_cameras
from tests.data.test_windows import labels_of

EVERY = (1, 3, 5)


def episodes():
    made = [with_cameras(builders.episode(20 + i, seed=i, takeover=None), every) for i, every in enumerate(EVERY)]
    # The first camera frame of an episode need not show its first state.
    late = {name: replace(camera, tick=camera.tick + 2) for name, camera in made[1].cameras.items()}
    cut = {n: CameraFrames(c.tick[:-1], c.frames[:-1]) for n, c in late.items()}
    return [made[0], replace(made[1], cameras=cut), made[2]]


@pytest.fixture
def store(tmp_path):
    store = EpisodeStore.create(tmp_path / "store", builders.spec())
    with store.writer() as writer:
        for episode in episodes():
            writer.on_episode(episode)
    return store


def sampler_of(store, images, batch=16):
    snapshot = store.snapshot()
    cache = TrainingCache.build(store, snapshot)
    return WindowSampler(cache, labels_of(cache), history=3, horizon=2, batch=batch, seed=0, images=images)


@pytest.mark.parametrize("raw", [False, True])
def test_every_window_shows_the_latest_frame_of_each_of_its_states(store, raw):
    snapshot = store.snapshot()
    images = CachedImages.build(store, snapshot, "wrist") if raw else StoredImages(snapshot, "wrist")
    sampler = sampler_of(store, {"wrist": images})
    windows = sampler.gather(np.arange(sampler.ticks))
    assert windows.images["wrist"].shape == (sampler.ticks, 3, 32, 40, 3)
    stored = [episode.cameras["wrist"] for episode in snapshot.episodes()]
    decoded = [camera.frames[:] for camera in stored]
    for i, (place, tick) in enumerate(zip(windows.episode, windows.tick, strict=True)):
        for row in range(3):
            shown = max(tick - 2 + row, 0)
            earlier = [k for k, t in enumerate(stored[place].tick) if t <= shown]
            expected = decoded[place][earlier[-1] if earlier else 0]
            np.testing.assert_array_equal(windows.images["wrist"][i, row], expected)


def test_the_raw_cache_decodes_only_what_is_new(store):
    first = CachedImages.build(store, store.snapshot(), "front")
    (path,) = store.root.glob("cache/*/frames/recorded/front-32x40/frames.u1")
    size = path.stat().st_size
    with store.writer() as writer:
        writer.on_episode(with_cameras(builders.episode(9, seed=7, takeover=None)))
    second = CachedImages.build(store, store.snapshot(), "front")
    assert path.stat().st_size == size + 10 * 32 * 40 * 3
    place, tick = np.array([0, 2]), np.array([[3], [8]])
    np.testing.assert_array_equal(first.gather(place, tick), second.gather(place, tick))


@pytest.mark.parametrize("raw", [False, True])
def test_an_episode_without_the_camera_is_named(store, raw):
    with store.writer() as writer:
        writer.on_episode(builders.episode(9, seed=7, takeover=None))
    with pytest.raises(DataError, match=f"episode {7:016x} has no frames of camera 'front'"):
        gather_one_of_each(store, raw)


def gather_one_of_each(store, raw):
    snapshot = store.snapshot()
    images = CachedImages.build(store, snapshot, "front") if raw else StoredImages(snapshot, "front")
    images.gather(np.arange(len(snapshot)), np.zeros((len(snapshot), 1), np.int64))


@pytest.mark.parametrize("raw", [False, True])
def test_frames_of_several_sizes_are_refused(store, raw):
    with store.writer() as writer:
        writer.on_episode(with_cameras(builders.episode(9, seed=7, takeover=None), size=(16, 16)))
    with pytest.raises(DataError, match=r"\(16, 16"):
        gather_one_of_each(store, raw)


def test_a_damaged_frame_is_named_while_training_reads_it(store):
    snapshot = store.snapshot()
    path = snapshot.entries[0].path
    chunk = encode_frames(snapshot.read(snapshot.entries[0]).cameras["front"].frames).chunks[4]
    content = bytearray(path.read_bytes())
    content[content.index(bytes(chunk)) + 40] ^= 1
    path.write_bytes(content)
    images = StoredImages(snapshot, "front")
    images.gather(np.array([0]), np.array([[3, 5]]))
    with pytest.raises(DataError, match=rf"{path.name}: 'cameras/front/frames': frame 4 is damaged"):
        images.gather(np.array([0]), np.array([[3, 4]]))


def test_images_of_other_episodes_than_the_cache_are_refused(store):
    snapshot = store.snapshot()
    with pytest.raises(DataError, match="of other episodes than the cache"):
        sampler_of(store, {"front": StoredImages(snapshot.select(snapshot.ids[:2]), "front")})


def test_lossless_frames_arrive_bit_exactly_in_a_batch(tmp_path):
    store = EpisodeStore.create(tmp_path / "store", builders.spec())
    frames = pictures(11)
    camera = CameraFrames(np.arange(11, dtype=np.int32), encode_frames(frames, "zstd"))
    with store.writer() as writer:
        writer.on_episode(replace(builders.episode(10, takeover=None), cameras={"front": camera}))
    sampler = sampler_of(store, {"front": StoredImages(store.snapshot(), "front")})
    windows = sampler.sample()
    np.testing.assert_array_equal(windows.images["front"][:, -1], frames[windows.tick])
