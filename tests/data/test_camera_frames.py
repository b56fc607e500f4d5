import zipfile
from dataclasses import replace

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from robotrl.data import shards
from robotrl.data.episode_file import encode_episode, read_episode
from robotrl.data.frames import EncodedFrames, encode_frames
from robotrl.data.jpeg_codec import JpegCodec
from robotrl.errors import DataError
from robotrl.types import CameraFrames
from tests import builders
from tests.data.pictures import pictures, with_cameras

CODECS = ("jpeg", "zstd", "raw")


@pytest.fixture(autouse=True, scope="module")
def codec_registered():
    zarr.registry.register_codec("robotrl.jpeg", JpegCodec)


def episode_with(codec: str, count: int = 21):
    frames = encode_frames(pictures(count), codec)
    camera = CameraFrames(np.arange(count, dtype=np.int32), frames)
    return replace(builders.episode(max(count - 1, 1), takeover=None), cameras={"front": camera})


def psnr(left: np.ndarray, right: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / np.mean((left.astype(float) - right.astype(float)) ** 2)))


@pytest.mark.parametrize("codec", ["zstd", "raw"])
def test_exact_codecs_give_every_bit_back(tmp_path, codec):
    path = tmp_path / "e.zarr.zip"
    path.write_bytes(encode_episode(episode_with(codec)))
    np.testing.assert_array_equal(read_episode(path).cameras["front"].frames[:], pictures(21))


def test_plain_arrays_are_stored_as_jpeg_that_is_hard_to_tell_from_them(tmp_path):
    episode = with_cameras(builders.episode(20, takeover=None), every=3)
    path = tmp_path / "e.zarr.zip"
    path.write_bytes(encode_episode(episode))
    stored = read_episode(path)
    assert list(stored.cameras) == ["front", "wrist"]
    for name, camera in episode.cameras.items():
        np.testing.assert_array_equal(stored.cameras[name].tick, camera.tick)
        assert stored.cameras[name].frames.shape == camera.frames.shape
        assert psnr(stored.cameras[name].frames[:], camera.frames[:]) > 36


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 17])
def test_zarr_python_reads_the_same_frames(tmp_path, monkeypatch, codec, count):
    monkeypatch.setattr(shards, "SHARD_FRAMES", 8)
    path = tmp_path / "e.zarr.zip"
    path.write_bytes(encode_episode(episode_with(codec, count)))
    group = zarr.open_group(zarr.storage.ZipStore(path), mode="r")
    ours = read_episode(path).cameras["front"].frames[:]
    assert ours.shape == (count, 32, 40, 3)
    np.testing.assert_array_equal(group["cameras/front/frames"][:], ours)
    np.testing.assert_array_equal(group["cameras/front/tick"][:], np.arange(count))


def test_what_zarr_python_writes_with_the_codec_is_read_by_zarr_python(tmp_path):
    array = zarr.create_array(
        tmp_path / "a.zarr",
        shape=(5, 32, 40, 3),
        chunks=(1, 32, 40, 3),
        dtype="u1",
        serializer=JpegCodec(),
        compressors=(),
    )
    array[:] = pictures(5)
    assert psnr(zarr.open_array(tmp_path / "a.zarr")[:], pictures(5)) > 36


def test_stored_frames_are_stored_again_without_loss(tmp_path):
    path = tmp_path / "e.zarr.zip"
    for codec in CODECS:
        content = encode_episode(episode_with(codec))
        path.write_bytes(content)
        assert encode_episode(read_episode(path)) == content


@given(data=st.data(), codec=st.sampled_from(CODECS))
@settings(max_examples=30, deadline=None)
def test_any_index_selects_as_numpy_does(data, codec):
    frames = encode_frames(pictures(20, 8, 8), codec)
    whole = frames[:]
    index = data.draw(
        st.one_of(
            st.integers(-20, 19),
            st.lists(st.integers(-20, 19), max_size=40).map(lambda i: np.array(i, np.int64)),
            st.slices(20),
            st.lists(st.lists(st.integers(0, 19), min_size=2, max_size=2), min_size=1, max_size=9).map(np.array),
        )
    )
    np.testing.assert_array_equal(frames[index], whole[index])


@pytest.mark.parametrize("index", [20, -21, [3, 20]])
def test_a_frame_that_does_not_exist_is_an_index_error(index):
    with pytest.raises(IndexError):
        encode_frames(pictures(20, 8, 8))[index]


@pytest.mark.parametrize("codec", CODECS)
def test_a_damaged_frame_is_named_and_the_others_are_read(tmp_path, codec):
    path = tmp_path / "e.zarr.zip"
    content = bytearray(encode_episode(episode_with(codec)))
    encoded = encode_frames(pictures(21), codec).chunks[13]
    content[content.index(encoded) + len(encoded) // 2] ^= 4
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"cameras/front/frames/c/0/0/0/0' is damaged"):
        read_episode(path)
    frames = read_episode(path, verify=False).cameras["front"].frames
    with pytest.raises(DataError, match=r"e\.zarr\.zip: 'cameras/front/frames': frame 13 is damaged"):
        frames[:]
    assert len(frames[:13]) == 13


def test_a_damaged_shard_index_is_an_error(tmp_path):
    path = tmp_path / "e.zarr.zip"
    content = encode_episode(episode_with("raw"))
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive:
        shard = archive.read("cameras/front/frames/c/0/0/0/0")
    place = content.index(shard[-40:])
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(DataError, match="the index of a shard is damaged"):
        read_episode(path, verify=False)


@pytest.mark.parametrize(
    ("tick", "frames", "message"),
    [
        (np.array([0, 1], np.int64), pictures(2), "'tick': expected 2 rows of int32"),
        (np.array([0, 1], np.int32), pictures(3), "'tick': expected 3 rows of int32"),
        (np.array([1, 1], np.int32), pictures(2), "ascend within 0 and 10"),
        (np.array([0, 11], np.int32), pictures(2), "ascend within 0 and 10"),
        (np.array([-1, 0], np.int32), pictures(2), "ascend within 0 and 10"),
        (np.array([0, 1], np.int32), pictures(2)[..., 0], "expected frames"),
        (np.array([0, 1], np.int32), pictures(2)[..., :1], "expected frames"),
        (np.array([0, 1], np.int32), pictures(2).astype(np.float32), "frames of uint8, got float32"),
    ],
)
def test_frames_that_do_not_fit_are_refused(tick, frames, message):
    episode = replace(builders.episode(10, takeover=None), cameras={"front": CameraFrames(tick, frames)})
    with pytest.raises(DataError, match=message):
        encode_episode(episode)


def test_a_camera_name_that_would_leave_the_group_is_refused():
    camera = CameraFrames(np.array([0], np.int32), pictures(1))
    with pytest.raises(DataError, match="no valid camera"):
        encode_episode(replace(builders.episode(10, takeover=None), cameras={"../front": camera}))


def test_a_picture_of_another_size_than_the_array_says_is_damage():
    frames = encode_frames(pictures(1, 16, 16))
    for size in ((8, 8), (32, 32)):
        with pytest.raises(DataError, match="frame 0 is damaged"):
            EncodedFrames("there", "jpeg", size, frames.chunks)[0]
