"""What the metadata of a LeRobotDataset v3 say, checked before anything is imported."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from robotrl.data.durable import storage_errors
from robotrl.data.exchange.tables import column_values, read_table
from robotrl.errors import DataError

_MAJOR = "v3."


@dataclass(frozen=True)
class LeRobotEpisode:
    """One episode: its place and that of its first tick, and where its ticks and videos are.

    `videos`: feature → (file, second at which the episode begins in it).
    """

    index: int
    length: int
    first: int
    instruction: str
    data: Path
    videos: Mapping[str, tuple[Path, float]]


@dataclass(frozen=True)
class LeRobotLayout:
    """A data set: `features` as in `meta/info.json`, and its episodes in order."""

    root: Path
    fps: float
    robot: str
    features: Mapping[str, Mapping[str, Any]]
    episodes: tuple[LeRobotEpisode, ...]

    @property
    def cameras(self) -> tuple[str, ...]:
        """Features that are pictures."""
        return tuple(key for key, feature in self.features.items() if feature["dtype"] in ("video", "image"))


def read_layout(root: Path) -> LeRobotLayout:
    """Read and check the metadata in the directory.

    Raises `DataError` when it is no LeRobot data set, is of another version, has gaps, or lacks files.
    """
    info = _info(root / "meta/info.json")
    try:
        features = {str(key): dict(feature) for key, feature in info["features"].items()}
        for feature in features.values():
            feature["dtype"], feature["shape"] = str(feature["dtype"]), tuple(int(n) for n in feature["shape"])
        episodes = tuple(_episodes(root, info, [k for k, f in features.items() if f["dtype"] == "video"]))
        layout = LeRobotLayout(root, float(info["fps"]), str(info.get("robot_type") or "unknown"), features, episodes)
        total = int(info["total_episodes"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise DataError(f"{root}/meta describes no LeRobot data set ({type(error).__name__}: {error})") from error
    if not layout.fps > 0:
        raise DataError(f"{root}/meta/info.json: fps is {layout.fps}; expected a positive number")
    _require_contiguous(layout, total)
    for path in dict.fromkeys(path for e in episodes for path in (e.data, *(video for video, _ in e.videos.values()))):
        if not path.exists():
            raise DataError(f"{path} is missing: the data set is incomplete, copy it again")
    return layout


def _info(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise DataError(f"{path.parent.parent} is not a LeRobot data set (no meta/info.json): check the path")
    with storage_errors("read", path):
        content = path.read_bytes()
    try:
        info = json.loads(content)
        version = str(info["codebase_version"])
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: damaged ({type(error).__name__}: {error})") from error
    if not version.startswith(_MAJOR):
        raise DataError(
            f"{path}: expected LeRobotDataset v3, got {version}. Convert it with lerobot's own script "
            "`python -m lerobot.scripts.convert_dataset_v21_to_v30`, then import the result."
        )
    return info


def _episodes(root: Path, info: Mapping[str, Any], videos: list[str]) -> Iterator[LeRobotEpisode]:
    files = sorted((root / "meta/episodes").glob("*/*.parquet"))
    if not files:
        raise DataError(f"{root}/meta/episodes has no parquet file: the data set is empty or was never finalised")
    numbers = ["episode_index", "length", "dataset_from_index", "data/chunk_index", "data/file_index"]
    for key in videos:
        numbers += [f"videos/{key}/{name}" for name in ("chunk_index", "file_index", "from_timestamp")]
    for file in files:
        table = read_table(file, [*numbers, "tasks"])
        columns = {name: column_values(table, name, file).tolist() for name in numbers}
        for row, tasks in enumerate(table.column("tasks").to_pylist()):
            values = {name: column[row] for name, column in columns.items()}
            yield LeRobotEpisode(
                index=int(values["episode_index"]),
                length=int(values["length"]),
                first=int(values["dataset_from_index"]),
                instruction="; ".join(tasks),
                data=root / info["data_path"].format(**_place(values, "data")),
                videos={key: _video(root, info["video_path"], key, values) for key in videos},
            )


def _video(root: Path, template: str, key: str, values: Mapping[str, Any]) -> tuple[Path, float]:
    path = root / template.format(video_key=key, **_place(values, f"videos/{key}"))
    return path, float(values[f"videos/{key}/from_timestamp"])


def _place(values: Mapping[str, Any], prefix: str) -> dict[str, int]:
    return {name: int(values[f"{prefix}/{name}"]) for name in ("chunk_index", "file_index")}


def _require_contiguous(layout: LeRobotLayout, total: int) -> None:
    indices = [episode.index for episode in layout.episodes]
    if indices != list(range(total)):
        gap = next((i for i, index in enumerate(indices) if i != index), len(indices))
        raise DataError(
            f"{layout.root}: meta/info.json promises episodes 0 … {total - 1}, and meta/episodes has {len(indices)}, "
            f"wrong from episode {gap} on. Every later video would be misaligned; repair the data set first."
        )
    firsts = np.cumsum([0, *(episode.length for episode in layout.episodes)])
    for episode, first in zip(layout.episodes, firsts[:-1], strict=True):
        if episode.first != first or episode.length < 1:
            raise DataError(
                f"{layout.root}: episode {episode.index} has {episode.length} frames from {episode.first} on; expected "
                f"at least 1 from {first} on. The indices have gaps; repair the data set first."
            )
