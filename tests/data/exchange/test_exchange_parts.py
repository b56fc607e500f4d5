from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from robotrl.data.exchange.foreign import task_name
from robotrl.data.exchange.lerobot_export import export_lerobot
from robotrl.data.exchange.lerobot_import import import_lerobot
from robotrl.data.exchange.pictures import one_a_row
from robotrl.data.exchange.statistics import merge_statistics, vector_statistic
from robotrl.data.exchange.video import VideoReader, VideoWriter
from robotrl.data.names import is_name
from robotrl.data.store import EpisodeStore
from robotrl.errors import DataError
from robotrl.specs import EnvironmentSpec
from robotrl.types import CameraFrames, Episode
from tests import builders
from tests.data.exchange.stores import environment, episode, psnr, quiet, selections
from tests.data.pictures import pictures


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(2, 40), st.integers(1, 3)), elements=st.floats(-1e3, 1e3)),
    st.lists(st.integers(1, 39), max_size=4),
)
def test_merged_statistics_are_those_of_all_values(values, cuts):
    edges = sorted({0, len(values), *(cut for cut in cuts if cut < len(values))})
    parts = [vector_statistic(values[a:b]) for a, b in pairwise(edges)]
    merged = merge_statistics(parts)
    np.testing.assert_array_equal(merged["min"], values.min(0))
    np.testing.assert_array_equal(merged["max"], values.max(0))
    np.testing.assert_allclose(merged["mean"], values.mean(0), atol=1e-8)
    np.testing.assert_allclose(merged["std"], values.std(0), atol=1e-6)
    assert merged["count"] == [len(values)]


@given(st.sets(st.integers(0, 30), min_size=1))
def test_every_row_shows_the_latest_picture(ticks):
    tick = np.array(sorted(ticks), np.int32)
    frames = np.zeros((len(tick), 1, 1, 3), np.uint8) + tick[:, None, None, None].astype(np.uint8)
    for row, picture in enumerate(one_a_row(CameraFrames(tick, frames), 31)):
        assert picture[0, 0, 0] == max((t for t in ticks if t <= row), default=min(ticks))


@given(st.text())
def test_any_text_gives_the_name_of_a_task(text):
    assert is_name(task_name(text))


@pytest.mark.parametrize("size", [(48, 64), (31, 33), (17, 16)])
@pytest.mark.parametrize("fps", [20.0, 12.5, 0.1])
def test_a_video_gives_back_its_pictures_from_any_of_them_on(tmp_path, size, fps):
    frames = pictures(12, *size)
    video = VideoWriter(tmp_path / "video.mp4", *size, fps)
    for frame in frames:
        video.write(frame)
    video.close()
    reader = VideoReader()
    for start, count in ((0, 5), (5, 7), (3, 4)):  # the last begins again from the start of the file
        found = list(reader.pictures(tmp_path / "video.mp4", start / fps, count, fps))
        assert len(found) == count
        assert psnr(frames[start : start + count], np.stack(found)) > 22
    with pytest.raises(DataError, match="there is no picture at"):
        list(reader.pictures(tmp_path / "video.mp4", 10 / fps, 5, fps))


def test_vectors_of_one_element_and_episodes_of_one_tick_come_back(tmp_path):
    spec = narrow(environment())
    store = EpisodeStore.create(tmp_path / "store", spec)
    with store.writer() as writer:
        for seed, ticks in ((0, 1), (1, 20)):
            writer.on_episode(narrow_episode(spec, seed, ticks))
    export_lerobot(selections(store), tmp_path / "dataset", quiet)
    import_lerobot(tmp_path / "dataset", tmp_path / "back", quiet)
    assert EpisodeStore.open(tmp_path / "back").snapshot().fingerprint == store.snapshot().fingerprint


def narrow(spec: EnvironmentSpec) -> EnvironmentSpec:
    one = builders.array_spec("action", ("joint.0",))
    return replace(spec, action=one, state=replace(one, name="state"))


def narrow_episode(spec: EnvironmentSpec, seed: int, ticks: int) -> Episode:
    made = episode(environment(), seed, ticks)
    fields = ("state", "action", "action_requested", "action_policy", "action_human")
    arrays = {name: getattr(made, name)[:, :1].copy() for name in fields}
    chunks = replace(made.chunks, actions=made.chunks.actions[..., :1], noise=made.chunks.noise[..., :1])
    return replace(made, meta=replace(made.meta, environment=spec.fingerprint), chunks=chunks, **arrays)
