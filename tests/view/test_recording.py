"""Recordings are read back from the file, as a viewer would."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rerun.chunk import Chunk, RrdReader

from robotrl.errors import ConfigurationError, DataError, RobotRLError
from robotrl.specs import SceneSpec
from robotrl.types import CameraFrames, ControlMode, Episode
from robotrl.view.rerun_signals import chunk_lanes
from robotrl.view.rerun_sink import RerunSink, every, few_of_each, write_recording
from tests import builders

SPEC = builders.spec()
EPISODE = builders.episode(ticks=120, takeover=(50, 70))


class Read:
    """All chunks of a recording by entity, its own bookkeeping left out."""

    def __init__(self, path: Path) -> None:
        reader = RrdReader(path)
        self.recordings = reader.recordings()
        self.blueprints = reader.blueprints()
        self.chunks: dict[str, list[Chunk]] = {}
        for chunk in reader.stream():
            self.chunks.setdefault(chunk.entity_path, []).append(chunk)

    def temporal(self, entity: str) -> pa.RecordBatch:
        (found,) = (c for c in self.chunks[entity] if not c.is_static)
        assert set(found.timeline_names) == {"tick", "time"}
        return found.to_record_batch()

    def values(self, entity: str, component: str) -> list:
        batch = self.temporal(entity)
        (name,) = (n for n in batch.schema.names if n.endswith(component))
        return batch.column(name).to_pylist()

    def ticks(self, entity: str) -> list[int]:
        return self.temporal(entity).column("tick").to_pylist()


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    columns = {"weight": np.ones(120, np.float32), "value": np.linspace(0, 1, 121, dtype=np.float32)}
    return Read(write_recording(EPISODE, SPEC, tmp_path_factory.mktemp("view") / "deep" / "episode.rrd", columns))


def test_a_recording_is_one_recording_with_the_episodes_id_and_a_blueprint(read: Read) -> None:
    (entry,) = read.recordings
    assert (entry.application_id, entry.recording_id) == ("robotrl-insert", EPISODE.meta.episode_id)
    assert len(read.blueprints) == 1


def test_every_action_element_has_one_row_a_tick_and_its_executed_values(read: Read) -> None:
    for column, element in enumerate(SPEC.action.elements):
        entity = f"/actions/{element}/executed"
        assert read.ticks(entity) == list(range(120))
        values = np.array(read.values(entity, "scalars")).ravel()
        np.testing.assert_array_equal(values, EPISODE.action[:, column].astype(np.float64))


def test_seconds_agree_with_the_episodes_clock(read: Read) -> None:
    seconds = read.temporal("/critic/probability").column("time").cast(pa.int64()).to_pylist()
    assert seconds == EPISODE.time_ns[:120].tolist()


def test_every_proposed_action_is_on_the_tick_it_belongs_to(read: Read) -> None:
    drawn: dict[int, list[float]] = {}
    lanes = [entity for entity in read.chunks if entity.startswith("/actions/joint.1/proposed/")]
    for entity in lanes:
        for tick, (value,) in zip(read.ticks(entity), read.values(entity, "scalars"), strict=True):
            drawn.setdefault(tick, []).append(value)
    for start, actions in zip(EPISODE.chunks.observed_tick, EPISODE.chunks.actions, strict=True):
        for row, action in enumerate(actions[:, 1]):
            if start + row < 120:
                assert float(action) in drawn[int(start) + row]


def test_chunks_of_one_line_are_separated_by_a_gap(read: Read) -> None:
    values = np.array(read.values("/actions/joint.0/proposed/0", "scalars")).ravel()
    in_first_line = chunk_lanes(EPISODE.chunks, 120)[0]
    assert np.isnan(values).sum() == len(in_first_line)
    assert np.isnan(values[16])


def test_the_mode_lane_changes_where_the_person_takes_over_and_hands_back(read: Read) -> None:
    assert read.ticks("/control/mode") == [0, 50, 70, 120]
    states = [word for (word,) in read.values("/control/mode", "state")]
    assert states == ["autonomous", "correction", "autonomous", ""]


def test_starved_and_success_lanes_say_when(read: Read) -> None:
    assert read.ticks("/control/starved") == [0, 30, 31, 120]
    assert read.ticks("/control/success") == [0, 110, 120]


def test_lanes_that_would_stay_empty_are_left_out(tmp_path: Path) -> None:
    read = Read(write_recording(builders.episode(ticks=20, takeover=None, outcome="failure"), SPEC, tmp_path / "e.rrd"))
    assert {e for e in read.chunks if e.startswith("/control/")} == {"/control/mode", "/control/chunk"}


def test_moving_frames_have_a_pose_a_state_and_still_ones_a_single_pose(read: Read) -> None:
    assert read.ticks("/scene/link1") == list(range(121))
    assert read.ticks("/scene/tool") == list(range(121))
    assert all(chunk.is_static for chunk in read.chunks["/scene/table"])


def test_every_frame_with_shapes_has_them_as_rerun_primitives(read: Read) -> None:
    names = [frame.name for frame in SPEC.scene.frames] + ["world"]  # index −1
    shapes = {(names[p.frame], p.shape) for p in SPEC.scene.primitives}
    assert {f"/scene/{frame}/{shape}" for frame, shape in shapes} <= set(read.chunks)


def test_the_planned_tool_path_is_that_of_the_acting_chunk_and_none_while_a_person_drives(read: Read) -> None:
    shown = dict(zip(read.ticks("/scene/planned_path"), read.values("/scene/planned_path", "strips"), strict=True))
    assert sorted(shown) == [0, 8, 16, 24, 32, 40, 48, 50, 70, 72, 80, 88, 96, 104, 112]
    assert shown[50] == []
    assert [len(strip) for strip in shown[8]] == [16]


def test_columns_may_have_a_value_a_tick_or_a_value_a_state(read: Read) -> None:
    assert len(read.ticks("/columns/weight")) == 120
    assert len(read.ticks("/columns/value")) == 121


def test_what_happened_is_told_in_words(read: Read) -> None:
    said = [word for (word,) in read.values("/happenings", "text")]
    assert "correction for 20 ticks, called by alarm" in said
    assert "handed back to the policy" in said
    assert said[-1] == "end: success"


def test_an_episode_of_300_ticks_is_written_in_under_a_second(tmp_path: Path) -> None:
    episode = builders.episode(ticks=300)
    write_recording(episode, SPEC, tmp_path / "warm.rrd")
    start = time.perf_counter()
    write_recording(episode, SPEC, tmp_path / "episode.rrd")
    assert time.perf_counter() - start < 1.0


def test_values_that_are_not_finite_are_left_out_of_poses_and_gaps_in_plots(tmp_path: Path) -> None:
    physics, action = EPISODE.physics.copy(), EPISODE.action.copy()
    physics[60:], action[60:] = np.nan, np.nan
    broken = replace(EPISODE, physics=physics, action=action, probability=np.full(120, np.nan, np.float32))
    read = Read(write_recording(broken, SPEC, tmp_path / "broken.rrd"))
    assert read.ticks("/scene/link1") == list(range(60))
    assert np.isnan(np.array(read.values("/actions/joint.0/executed", "scalars")).ravel()[60:]).all()
    assert "/critic/probability" not in read.chunks


def test_an_episode_without_chunks_or_a_person_is_recorded(tmp_path: Path) -> None:
    episode = builders.episode(ticks=1, takeover=None, outcome=None)
    none = replace(
        episode.chunks,
        actions=np.zeros((0, 0, 4), np.float32),
        observed_tick=np.zeros(0, np.int32),
        start_tick=np.zeros(0, np.int32),
    )
    no_chunk = np.full(1, -1, np.int32)
    episode = replace(episode, chunks=none, chunk_id=no_chunk, chunk_row=no_chunk)
    read = Read(write_recording(episode, SPEC, tmp_path / "short.rrd"))
    assert read.ticks("/actions/joint.0/executed") == [0]
    assert not any("/proposed/" in entity or "/human" in entity for entity in read.chunks)


def test_every_control_mode_can_be_recorded(tmp_path: Path) -> None:
    modes = np.repeat(np.array(list(ControlMode), np.uint8), 20)
    read = Read(write_recording(replace(EPISODE, control_mode=modes), SPEC, tmp_path / "modes.rrd"))
    states = [word for (word,) in read.values("/control/mode", "state")]
    assert states == [mode.name.lower() for mode in ControlMode] + [""]


@pytest.mark.parametrize(
    ("episode", "says"),
    [
        (builders.episode(ticks=0, takeover=None), "no ticks"),
        (replace(EPISODE, physics=np.zeros((121, 5))), "expected a physics state of 12 values"),
        (replace(EPISODE, chunk_id=np.full(120, 99, np.int32)), "tick of chunk 99, but there are 15 chunks"),
        (replace(EPISODE, action=np.zeros((120, 7), np.float32)), "expected 4 action elements"),
    ],
)
def test_an_episode_that_cannot_be_drawn_is_refused(tmp_path: Path, episode: Episode, says: str) -> None:
    with pytest.raises(DataError, match=says):
        write_recording(episode, SPEC, tmp_path / "no.rrd")
    assert list(tmp_path.iterdir()) == []


def test_a_column_of_the_wrong_length_is_refused_and_leaves_no_recording(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"column 'weight'.*expected \(120,\) or \(121,\)"):
        write_recording(EPISODE, SPEC, tmp_path / "no.rrd", {"weight": np.ones(7, np.float32)})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RobotRLError, match="file"):
        write_recording(EPISODE, SPEC, tmp_path / "file" / "episode.rrd")


def test_a_sink_records_every_chosen_episode_under_a_telling_name(tmp_path: Path) -> None:
    sink = RerunSink(tmp_path, SPEC, every(2))
    for seed in range(3):
        sink.on_episode(builders.episode(ticks=20, seed=seed, takeover=None, stage="round-1/rollouts"))
    sink.close()
    sink.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"round-1-rollouts-success-100000{s}-00000000.rrd" for s in (0, 2)]


def test_a_few_of_each_kind_are_chosen() -> None:
    choose = few_of_each(1)
    kinds = [("success", None), ("success", None), ("failure", None), ("success", (2, 4)), ("failure", None)]
    episodes = [builders.episode(ticks=10, outcome=outcome, takeover=takeover) for outcome, takeover in kinds]
    assert [choose(i, e) for i, e in enumerate(episodes)] == [True, False, True, True, False]


def test_a_sink_passes_over_an_episode_without_ticks(tmp_path: Path) -> None:
    RerunSink(tmp_path, SPEC, every(1)).on_episode(builders.episode(ticks=0, takeover=None))
    assert list(tmp_path.iterdir()) == []


def test_recording_every_zeroth_episode_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least 1"):
        every(0)


def test_a_simulator_that_tells_no_scene_is_shown_by_its_cameras(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).integers(0, 255, (3, 16, 24, 3), np.uint8)
    cameras = {"corner": CameraFrames(np.array([0, 60, 120], np.int32), frames)}
    spec = replace(SPEC, scene=SceneSpec((), ()), tool_frame="")
    read = Read(write_recording(replace(EPISODE, cameras=cameras), spec, tmp_path / "e.rrd"))
    assert read.ticks("/cameras/corner") == [0, 60, 120]
    assert not any(entity.startswith("/scene") for entity in read.chunks)
    assert len(read.blueprints) == 1
