import json
import math
import zipfile
from dataclasses import fields, replace
from typing import get_type_hints

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from robotrl.data.episode_file import encode_episode, meta_from_json, meta_to_json, read_episode
from robotrl.errors import DataError
from robotrl.types import ChunkTable, Episode, EpisodeMeta
from tests import builders
from tests.contracts.store import assert_same

VALUES = np.array([0.0, -0.0, 1.5, np.nan, np.inf, -np.inf, 1e-40, 255.0])


def random_array(rng: np.random.Generator, like: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Any values that the type of `like` can hold, special floats among them."""
    if like.dtype.kind == "f":
        return rng.choice(VALUES, shape).astype(like.dtype)
    return rng.integers(0, 2 if like.dtype == bool else 256, shape).astype(like.dtype)


@st.composite
def metas(draw: st.DrawFn) -> EpisodeMeta:
    kinds = {str: st.text(), int: st.integers(), float: st.floats(allow_nan=False)}
    hints = get_type_hints(EpisodeMeta)
    outcome = st.sampled_from(["success", "failure", None])
    return EpisodeMeta(**{f.name: draw(kinds.get(hints[f.name], outcome)) for f in fields(EpisodeMeta)})


@st.composite
def episodes(draw: st.DrawFn) -> Episode:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    ticks, chunks, width, length = (draw(st.integers(0, n)) for n in (12, 3, 5, 4))
    model = builders.episode(8)
    longer = {"state", "privileged", "physics", "time_ns"}
    arrays = {}
    for field in fields(Episode):
        like = getattr(model, field.name)
        if isinstance(like, np.ndarray):
            arrays[field.name] = random_array(rng, like, (ticks + (field.name in longer), *[width] * (like.ndim - 1)))
    table = ChunkTable(
        **{
            f.name: random_array(rng, like, (chunks, *[length, width][: like.ndim - 1]))
            for f in fields(ChunkTable)
            for like in [getattr(model.chunks, f.name)]
        }
    )
    return Episode(meta=draw(metas()), chunks=table, **arrays)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("episodes") / "e.zarr.zip"


@given(episode=episodes())
@settings(max_examples=60, deadline=None)
def test_any_episode_is_read_back_bit_exactly(scratch, episode):
    scratch.write_bytes(encode_episode(episode))
    assert_same(read_episode(scratch), episode)


@given(share=st.floats(0, 1, exclude_max=True))
@settings(max_examples=40, deadline=None)
def test_any_truncation_is_detected(scratch, share):
    content = encode_episode(builders.episode(20, takeover=(5, 9)))
    scratch.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=str(scratch)):
        read_episode(scratch)


@given(share=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
@settings(max_examples=150, deadline=None)
def test_a_flipped_bit_is_detected_or_harmless(scratch, share, bit):
    episode = builders.episode(3, takeover=None)
    content = bytearray(encode_episode(episode))
    content[int(share * len(content))] ^= 1 << bit
    scratch.write_bytes(content)
    try:
        stored = read_episode(scratch)
    except DataError as error:
        assert str(scratch) in str(error)
    else:
        assert_same(stored, episode)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_metadata_that_is_not_finite_survives_strict_json(tmp_path, value):
    episode = builders.episode(5, takeover=None)
    path = tmp_path / "e.zarr.zip"
    path.write_bytes(encode_episode(replace(episode, meta=replace(episode.meta, watch_s=value))))
    np.testing.assert_equal(read_episode(path).meta.watch_s, value)
    with zipfile.ZipFile(path) as archive:
        strict = json.loads(archive.read("zarr.json"), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert float(strict["attributes"]["meta"]["operator_s"]) == 0.0


def test_numpy_numbers_in_metadata_become_plain_ones():
    meta = replace(builders.episode(2).meta, seed=np.int64(7), operator_s=np.float32(0.5))
    assert meta_to_json(meta)["seed"] == 7
    assert meta_from_json(meta_to_json(meta), "here") == meta


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": "7"}, "'seed' has the value '7'"),
        ({"outcome": "won"}, "'outcome'"),
        ({"watch_s": "long"}, "'watch_s'"),
    ],
)
def test_metadata_of_wrong_type_is_refused(change, message):
    raw = meta_to_json(builders.episode(2).meta) | change
    with pytest.raises(DataError, match=f"here: .*{message}"):
        meta_from_json(raw, "here")


def test_metadata_may_lack_what_has_a_default_and_nothing_else():
    raw = meta_to_json(builders.episode(2, takeover=None).meta)
    assert meta_from_json({k: v for k, v in raw.items() if k != "watch_s"}, "here").watch_s == 0.0
    with pytest.raises(DataError, match="lacks 'task'"):
        meta_from_json({k: v for k, v in raw.items() if k != "task"}, "here")


def test_zarr_reads_every_array_of_the_file(tmp_path):
    episode = builders.episode(30, takeover=(5, 9))
    path = tmp_path / "e.zarr.zip"
    path.write_bytes(encode_episode(episode))
    group = zarr.open_group(zarr.storage.ZipStore(path), mode="r")
    for name, array in group.arrays():
        np.testing.assert_array_equal(array[...], getattr(episode, name), err_msg=name)
        assert array.dtype == getattr(episode, name).dtype
    for name, array in group["chunks"].arrays():
        np.testing.assert_array_equal(array[...], getattr(episode.chunks, name), err_msg=name)
    assert group.attrs["meta"]["episode_id"] == episode.meta.episode_id


def test_zarr_reads_arrays_without_elements(tmp_path):
    episode = builders.episode(0, takeover=None)
    path = tmp_path / "e.zarr.zip"
    path.write_bytes(encode_episode(episode))
    group = zarr.open_group(zarr.storage.ZipStore(path), mode="r")
    assert group["action"][...].shape == (0, 4)
    assert_same(read_episode(path), episode)


def test_arrays_are_mapped_in_place_aligned_and_read_only(tmp_path):
    path = tmp_path / "e.zarr.zip"
    path.write_bytes(encode_episode(builders.episode(30)))
    episode = read_episode(path)
    for array in (episode.state, episode.physics, episode.chunks.noise):
        assert array.ctypes.data % 64 == 0
        assert not array.flags.owndata
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_equal_episodes_give_equal_bytes_whatever_the_memory_layout():
    episode = builders.episode(30)
    strided = replace(episode, state=np.asfortranarray(episode.state), reward=np.repeat(episode.reward, 2)[::2])
    assert encode_episode(strided) == encode_episode(episode)


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip file at all" * 100])
def test_a_foreign_file_is_named_in_the_error(tmp_path, content):
    path = tmp_path / "e.zarr.zip"
    path.write_bytes(content)
    with pytest.raises(DataError, match=str(path)):
        read_episode(path)


def test_a_zarr_group_that_is_no_episode_is_refused(tmp_path):
    path = tmp_path / "e.zarr.zip"
    with zarr.storage.ZipStore(path, mode="w") as store:
        zarr.create_group(store)
    with pytest.raises(DataError, match="expected a robotrl episode of format 1, got None"):
        read_episode(path)


def test_a_damaged_array_is_named(tmp_path):
    episode = builders.episode(30)
    path = tmp_path / "e.zarr.zip"
    content = encode_episode(episode)
    path.write_bytes(content.replace(episode.state.tobytes(), bytes(episode.state.nbytes)))
    with pytest.raises(DataError, match="'state/c/0/0' is damaged"):
        read_episode(path)
    assert not read_episode(path, verify=False).state.any()
