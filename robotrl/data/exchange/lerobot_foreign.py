"""Episodes out of a LeRobot data set that robotrl did not make: its state, actions, cameras and flags.

There is no state after the last action: the last state stands in for it. Bounds are those that occur in the data, units
are unknown ("1"). All tasks are instructions of one environment.
"""

import hashlib
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.exchange.features import ACTION, IMAGES, SCALARS, STATE, VECTORS
from robotrl.data.exchange.foreign import OPTIONAL, ForeignEpisode, complete, foreign_spec, measured_spec
from robotrl.data.exchange.imports import Pending
from robotrl.data.exchange.lerobot_layout import LeRobotEpisode, LeRobotLayout
from robotrl.data.exchange.lerobot_rows import EpisodeRows, LeRobotReader
from robotrl.errors import DataError
from robotrl.specs import ArraySpec, CameraSpec, EnvironmentSpec
from robotrl.types import CameraFrames, Episode, Int64, Outcome

_INDICES = {"timestamp", "frame_index", "episode_index", "index", "task_index", "next.done"}
_SLACK_S = 1e-4
"""LeRobot's own tolerance: times that are so near to multiples of the control period are these multiples."""


class ForeignDataset:
    """A data set of others, seen as one environment.

    Raises `DataError` when there is no state or no action to learn from, or one is not finite.
    """

    def __init__(self, layout: LeRobotLayout, task: str, outcome: Outcome | None) -> None:
        self._layout = layout
        self._outcome: Outcome | None = outcome
        self._reader = LeRobotReader(layout)
        vectors = [key for key in layout.features if key.startswith("observation.") and _is_vector(layout, key)]
        self._state = sorted(vectors, key=lambda key: (key != STATE, key))
        if not self._state or ACTION not in layout.features or not _is_vector(layout, ACTION):
            raise DataError(
                f"{layout.root}: nothing to learn from: expected '{ACTION}' and '{STATE}' (or other vectors called "
                f"'observation.…'), got {', '.join(layout.features)}"
            )
        known = {feature: field for feature, field in (VECTORS | SCALARS).items() if field in OPTIONAL}
        self._known = {feature: field for feature, field in known.items() if self._fits(feature)}
        self.spec = self._environment(task)

    @property
    def ignored(self) -> tuple[str, ...]:
        """Features that nothing is made of."""
        used = {*self._state, ACTION, *self._known, *self._layout.cameras, *_INDICES}
        return tuple(key for key in self._layout.features if key not in used)

    def episodes(self) -> Iterator[Pending]:
        """All episodes, in order."""
        fingerprint = self.spec.fingerprint
        for episode in self._layout.episodes:
            rows = self._reader.rows(episode)
            identity = _identity(episode, rows.matrix(ACTION), rows.matrix(self._state[0]))
            yield Pending(fingerprint, identity, partial(self._read, episode, identity))

    def _read(self, episode: LeRobotEpisode, identity: str) -> Episode:
        rows = self._reader.rows(episode)
        state = self._states(rows)
        known = {field: _shaped(rows.column(f), f in VECTORS) for f, field in self._known.items()}
        ticks = np.arange(episode.length, dtype=np.int32)
        frames = {key: self._reader.frames(rows, key, range(episode.length)) for key in self._layout.cameras}
        cameras = {camera_name(key): CameraFrames(ticks, camera) for key, camera in frames.items()}
        found = ForeignEpisode(
            episode_id=identity,
            instruction=episode.instruction,
            state=np.concatenate([state, state[-1:]]),
            action=rows.matrix(ACTION),
            time_ns=_clock(rows.column("timestamp").astype(np.float64), self._layout.fps),
            physics=np.zeros((episode.length + 1, 0)),
            known=known,
            cameras=cameras,
        )
        return complete(found, self.spec, self._outcome)

    def _states(self, rows: EpisodeRows) -> NDArray[np.float32]:
        return np.concatenate([rows.matrix(key) for key in self._state], axis=1)

    def _fits(self, feature: str) -> bool:
        declared = self._layout.features.get(feature)
        width = self._layout.features[ACTION]["shape"] if feature in VECTORS else (1,)
        return declared is not None and declared["shape"] == width

    def _environment(self, task: str) -> EnvironmentSpec:
        layout = self._layout
        ranges = [self._range(episode) for episode in layout.episodes]
        low = [np.min([r[i] for r in ranges], axis=0) for i in (0, 2)]
        high = [np.max([r[i] for r in ranges], axis=0) for i in (1, 3)]
        cameras = {camera_name(key): _picture_size(layout, key) for key in layout.cameras}
        return foreign_spec(
            task=task,
            robot=layout.robot,
            state=self._array("state", self._state, low[0], high[0]),
            action=self._array("action", [ACTION], low[1], high[1]),
            physics_size=0,
            control_hz=layout.fps,
            horizon=max(episode.length for episode in layout.episodes),
            instructions=(episode.instruction for episode in layout.episodes),
            cameras=[CameraSpec(name, *size) for name, size in cameras.items()],
        )

    def _range(self, episode: LeRobotEpisode) -> tuple[NDArray[Any], ...]:
        rows = self._reader.rows(episode)
        state, action = self._states(rows), rows.matrix(ACTION)
        return state.min(0), state.max(0), action.min(0), action.max(0)

    def _array(self, name: str, features: list[str], low: NDArray[Any], high: NDArray[Any]) -> ArraySpec:
        elements = [element for key in features for element in _elements(key, self._layout.features[key])]
        return measured_spec(name, elements, low, high)


def camera_name(feature: str) -> str:
    """What we call the camera of a feature."""
    return feature.removeprefix(IMAGES).removeprefix("observation.").replace(".", "_")


def _is_vector(layout: LeRobotLayout, key: str) -> bool:
    feature = layout.features[key]
    return len(feature["shape"]) == 1 and feature["shape"][0] > 0 and feature["dtype"].startswith(("float", "int"))


def _picture_size(layout: LeRobotLayout, key: str) -> tuple[int, int]:
    shape = layout.features[key]["shape"]
    if len(shape) != 3 or 3 not in (shape[0], shape[2]):
        raise DataError(f"{layout.root}: camera '{key}' has the shape {shape}; expected (height, width, 3)")
    return (shape[0], shape[1]) if shape[2] == 3 else (shape[1], shape[2])


def _elements(key: str, feature: Mapping[str, Any]) -> list[str]:
    """The names that the data set gives, or numbers; beyond `observation.state` and `action` with the feature's."""
    count, names = feature["shape"][0], feature.get("names")
    if isinstance(names, dict):  # some recorders write {"motors": [...]}
        names = next(iter(names.values()), None)
    short, given = key.removeprefix("observation."), [str(n) for n in names] if isinstance(names, list) else []
    if len(given) != count or len(set(given)) != count:
        return [f"{short}.{i}" for i in range(count)]
    return [name if key in (STATE, ACTION) else f"{short}.{name}" for name in given]


def _shaped(column: NDArray[Any], vector: bool) -> NDArray[Any]:
    return column.reshape(len(column), -1) if vector else column.reshape(len(column))


def _identity(episode: LeRobotEpisode, action: NDArray[Any], state: NDArray[Any]) -> str:
    """Sixteen hex digits from place and content, so that importing again finds the episode."""
    content = f"{episode.index}\0{episode.instruction}\0".encode() + state.tobytes() + action.tobytes()
    return hashlib.sha256(content).hexdigest()[:16]


def _clock(seconds: NDArray[np.float64], fps: float) -> Int64:
    """(T + 1,) ns."""
    ideal = np.arange(len(seconds) + 1) / fps
    if not np.allclose(seconds, ideal[:-1], rtol=0, atol=_SLACK_S):
        ideal = np.append(seconds, seconds[-1] + 1 / fps)
    return np.round(ideal * 1e9).astype(np.int64)
