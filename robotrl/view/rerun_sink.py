"""One Rerun recording (`.rrd`) for an episode: scene, actions, control, critic and words, written column by column."""

from collections.abc import Callable
from pathlib import Path

import rerun as rr

from robotrl.data.durable import ensure_directory, storage_errors
from robotrl.errors import ConfigurationError, DataError
from robotrl.interfaces import Columns
from robotrl.specs import EnvironmentSpec
from robotrl.types import Episode
from robotrl.view.blueprint import episode_blueprint
from robotrl.view.rerun_cameras import log_camera
from robotrl.view.rerun_scene import log_motion, log_planned_paths, log_shapes, log_tool_path
from robotrl.view.rerun_signals import log_actions, log_chunks, log_control, log_scores
from robotrl.view.rerun_text import log_text
from robotrl.view.rerun_time import Timeline

Choice = Callable[[int, Episode], bool]
"""Whether to record the episode that finished as the i-th, counted from 0."""


def write_recording(episode: Episode, spec: EnvironmentSpec, path: str | Path, columns: Columns | None = None) -> Path:
    """Write `episode` as a Rerun recording; the file appears whole or not at all.

    Args:
        episode: at least one tick. Values that are not finite show as gaps.
        spec: the environment it was recorded in; its scene is drawn, where it is known.
        path: where to write, usually ending in `.rrd`; missing folders are made.
        columns: annotation columns to plot, name → (T,) or (T + 1,) float32.

    Returns:
        The path written.
    """
    _require_drawable(episode, spec, columns or {})
    path = Path(path)
    staged = path.with_name(path.name + ".part")
    recording = rr.RecordingStream(application(spec), recording_id=episode.meta.episode_id)
    if not recording.is_enabled():
        raise ConfigurationError("Rerun is switched off by the environment variable RERUN=off; unset it to record")
    ensure_directory(path.parent)
    try:
        with storage_errors("write", path):
            staged.touch()  # Rerun would hide why a file cannot be made
            recording.save(staged, default_blueprint=episode_blueprint(spec, bool(columns), tuple(episode.cameras)))
            _log(recording, spec, episode, columns or {})
            recording.disconnect()
            staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)
    return path


def application(spec: EnvironmentSpec) -> str:
    """Rerun's application id: a viewer keeps one layout for each, and the layout depends on the task."""
    return f"robotrl-{spec.task}"


def _require_drawable(episode: Episode, spec: EnvironmentSpec, columns: Columns) -> None:
    name = f"episode {episode.meta.episode_id}"
    if episode.length == 0:
        raise DataError(f"{name} has no ticks; there is nothing to record")
    if episode.action.shape[1] != spec.action.size:
        raise DataError(
            f"{name}: expected {spec.action.size} action elements of '{spec.task}', got {episode.action.shape[1]}"
        )
    if episode.physics.shape[1] != spec.physics_size:
        raise DataError(
            f"{name}: expected a physics state of {spec.physics_size} values for '{spec.task}', "
            f"got {episode.physics.shape[1]}; was it recorded in another environment?"
        )
    if episode.chunk_id.max() >= len(episode.chunks.actions):
        raise DataError(
            f"{name}: tick of chunk {episode.chunk_id.max()}, but there are {len(episode.chunks.actions)} chunks"
        )
    for column, values in columns.items():
        if values.shape not in ((episode.length,), (episode.length + 1,)):
            raise DataError(
                f"{name}: column '{column}': expected ({episode.length},) or ({episode.length + 1},) values, "
                f"got shape {values.shape}; label the episode again"
            )


def _log(recording: rr.RecordingStream, spec: EnvironmentSpec, episode: Episode, columns: Columns) -> None:
    timeline = Timeline(episode.time_ns)
    meta = episode.meta
    recording.send_recording_name(f"{meta.stage} · seed {meta.seed} · {meta.outcome or 'cut'}")
    if spec.scene.frames:  # a simulator that others wrote has none to tell
        log_shapes(recording, spec.scene)
        log_motion(recording, spec, episode.physics, timeline)
        log_tool_path(recording, spec, episode)
        log_planned_paths(recording, spec, episode, timeline)
    for name, camera in episode.cameras.items():
        log_camera(recording, name, camera, timeline)
    log_actions(recording, spec, episode, timeline)
    log_chunks(recording, episode, timeline)
    log_scores(recording, episode, timeline, columns)
    log_control(recording, episode, timeline)
    log_text(recording, spec, episode, timeline)


def every(count: int) -> Choice:
    """Choose the first episode and every `count`-th after it."""
    if count <= 0:
        raise ConfigurationError(f"record every {count} episodes: expected at least 1")
    return lambda index, episode: index % count == 0


def few_of_each(count: int) -> Choice:
    """Choose the first `count` episodes of every (stage, outcome, with or without a person) that comes by."""
    if count < 0:
        raise ConfigurationError(f"record {count} episodes of each kind: expected 0 or more")
    seen: dict[tuple[str, str | None, bool], int] = {}

    def choose(index: int, episode: Episode) -> bool:
        kind = (episode.meta.stage, episode.meta.outcome, bool(episode.intervention.any()))
        seen[kind] = seen.get(kind, 0) + 1
        return seen[kind] <= count

    return choose


def recording_name(episode: Episode) -> str:
    """File name of an episode's recording: stage, outcome, seed and the start of its id."""
    meta = episode.meta
    stage = "".join(c if c.isalnum() or c in "-_" else "-" for c in meta.stage)
    return f"{stage}-{meta.outcome or 'cut'}-{meta.seed}-{meta.episode_id[:8]}.rrd"


class RerunSink:
    """A `Sink` that writes a recording of every chosen episode into one folder."""

    def __init__(self, directory: str | Path, spec: EnvironmentSpec, choose: Choice) -> None:
        self._directory = Path(directory)
        self._spec = spec
        self._choose = choose
        self._finished = 0

    def on_episode(self, episode: Episode) -> None:
        """Record the episode if it is chosen; one without ticks never is."""
        index, self._finished = self._finished, self._finished + 1
        if episode.length > 0 and self._choose(index, episode):
            write_recording(episode, self._spec, self._directory / recording_name(episode))

    def close(self) -> None:
        """Nothing to flush: every recording is complete when `on_episode` returns."""
