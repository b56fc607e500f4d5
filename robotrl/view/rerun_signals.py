"""The signals of an episode over its ticks: actions as executed and as proposed, control, critic, outcome, words."""

import numpy as np
import rerun as rr
from numpy.typing import NDArray

from robotrl.interfaces import Columns
from robotrl.specs import EnvironmentSpec
from robotrl.types import ChunkTable, ControlMode, Episode, Float32, Trigger
from robotrl.view.rerun_scene import MODE_COLOURS
from robotrl.view.rerun_time import Timeline, runs

_EXECUTED = (76, 139, 245)
_HUMAN = (46, 178, 120)
_PROPOSED = ((242, 174, 46), (226, 110, 60), (214, 150, 120))
_CRITIC = (171, 113, 219)


def _scalars(recording: rr.RecordingStream, path: str, timeline: Timeline, values: NDArray[np.generic]) -> None:
    """One number a tick from tick 0 on; NaN rows stay, as they are the gaps of the line."""
    columns = rr.Scalars.columns(scalars=values.astype(np.float64))
    recording.send_columns(path, timeline.at(np.arange(len(values))), columns, strict=True)


def _line(
    recording: rr.RecordingStream, path: str, name: str, colour: tuple[int, int, int], width: float, held: bool = False
) -> None:
    """How the series at `path` is drawn; `held` values keep until the next tick, as a command does."""
    shape = rr.components.InterpolationMode.StepAfter if held else rr.components.InterpolationMode.Linear
    style = rr.SeriesLines(colors=[colour], widths=[width], names=[name], interpolation_mode=shape)
    recording.log(path, style, static=True, strict=True)


def chunk_lanes(chunks: ChunkTable, length: int) -> list[list[int]]:
    """Share chunks out over as few lines as show each chunk whole, with a gap of at least a tick between two.

    Returns:
        For every line the indices of its chunks in order of `observed_tick`. Chunks observed outside [0, `length`)
        are left out.
    """
    horizon = chunks.actions.shape[1]
    lanes: list[list[int]] = []
    free_from: list[int] = []
    for index in np.argsort(chunks.observed_tick, kind="stable").tolist():
        start = int(chunks.observed_tick[index])
        if not 0 <= start < length or horizon == 0:
            continue
        lane = next((i for i, free in enumerate(free_from) if start > free), len(lanes))
        if lane == len(lanes):
            lanes.append([])
            free_from.append(0)
        lanes[lane].append(index)
        free_from[lane] = start + horizon
    return lanes


def _lane_rows(chunks: ChunkTable, lane: list[int], length: int) -> tuple[NDArray[np.int64], Float32]:
    """Ticks (R,) and proposed actions (R, A) of one line: the chunks' rows up to the episode's end, NaN after each."""
    horizon = chunks.actions.shape[1]
    ticks: list[NDArray[np.int64]] = []
    values: list[Float32] = []
    gap = np.full((1, chunks.actions.shape[2]), np.nan, np.float32)
    for index in lane:
        start = int(chunks.observed_tick[index])
        stop = min(start + horizon, length)
        ticks.append(np.arange(start, stop + 1))
        values.extend((chunks.actions[index, : stop - start], gap))
    return np.concatenate(ticks), np.concatenate(values)


def log_actions(recording: rr.RecordingStream, spec: EnvironmentSpec, episode: Episode, timeline: Timeline) -> None:
    """Log under `actions/<element>` what was executed, what the person commanded, and every chunk's proposal."""
    lanes = [_lane_rows(episode.chunks, lane, episode.length) for lane in chunk_lanes(episode.chunks, episode.length)]
    by_hand = bool(np.isfinite(episode.action_human).any())
    for column, element in enumerate(spec.action.elements):
        base = rr.new_entity_path(["actions", element])
        for lane, (ticks, proposed) in enumerate(lanes):
            path = f"{base}/proposed/{lane}"
            _line(recording, path, f"chunks {lane}", _PROPOSED[lane % len(_PROPOSED)], 1.0)
            values = rr.Scalars.columns(scalars=proposed[:, column].astype(np.float64))
            recording.send_columns(path, timeline.at(ticks), values, strict=True)
        _line(recording, f"{base}/executed", "executed", _EXECUTED, 1.6, held=True)
        _scalars(recording, f"{base}/executed", timeline, episode.action[:, column])
        if by_hand:
            _line(recording, f"{base}/human", "person", _HUMAN, 1.6, held=True)
            _scalars(recording, f"{base}/human", timeline, episode.action_human[:, column])


def log_chunks(recording: rr.RecordingStream, episode: Episode, timeline: Timeline) -> None:
    """Log which chunk and which of its rows acted at every tick, and the delay in ticks; −1 where none did."""
    signals = {"id": episode.chunk_id, "row": episode.chunk_row, "delay_ticks": episode.delay_ticks}
    for name, values in signals.items():
        _line(recording, f"chunks/{name}", name, _PROPOSED[0], 1.0, held=True)
        _scalars(recording, f"chunks/{name}", timeline, values)
    _line(recording, "chunks/policy_version", "policy version", _CRITIC, 1.0, held=True)
    _scalars(recording, "chunks/policy_version", timeline, episode.policy_version)


def log_scores(recording: rr.RecordingStream, episode: Episode, timeline: Timeline, columns: Columns) -> None:
    """Log the critic's probability, the reward, and annotation columns of (T,) or (T + 1,) values each."""
    if np.isfinite(episode.probability).any():
        _line(recording, "critic/probability", "probability of success", _CRITIC, 2.0)
        _scalars(recording, "critic/probability", timeline, episode.probability)
    _line(recording, "critic/reward", "reward", _HUMAN, 1.0, held=True)
    _scalars(recording, "critic/reward", timeline, episode.reward)
    for name, values in columns.items():
        _scalars(recording, rr.new_entity_path(["columns", name]), timeline, values)


def _states(recording: rr.RecordingStream, lane: str, timeline: Timeline, words: list[str], length: int) -> None:
    """A lane of the state timeline: `words` (T,) logged where they change ("" is a gap), closed at tick `length`."""
    starts = [start for start, _ in runs(np.array(words))]
    states = [*(words[start] for start in starts), ""]
    where = timeline.at(np.array([*starts, length]))
    recording.send_columns(f"control/{lane}", where, rr.StateChange.columns(state=states), strict=True)


def log_control(recording: rr.RecordingStream, episode: Episode, timeline: Timeline) -> None:
    """Log who moved the robot and why, which chunk acted, starvation and success, as lanes; empty ones are left out."""
    lanes = {
        "mode": [ControlMode(int(m)).name.lower() for m in episode.control_mode],
        "called_by": [Trigger(int(t)).name.lower() if t else "" for t in episode.trigger],
        "chunk": [str(c) if c >= 0 else "" for c in episode.chunk_id.tolist()],
        "starved": ["starved" if s else "" for s in episode.starved],
        "success": ["success" if s else "" for s in episode.success],
    }
    names = [mode.name.lower() for mode in MODE_COLOURS]
    style = rr.StateConfiguration(values=names, labels=names, colors=list(MODE_COLOURS.values()))
    recording.log("control/mode", style, static=True, strict=True)
    for lane, words in lanes.items():
        if any(words):
            _states(recording, lane, timeline, words, episode.length)
