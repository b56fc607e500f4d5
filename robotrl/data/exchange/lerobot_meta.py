"""The metadata of an exported LeRobot data set: a row an episode, statistics, tasks and `info.json`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.durable import write_atomic
from robotrl.data.exchange.features import IMAGES, declared_features
from robotrl.data.exchange.groups import DATA, EPISODES, FILES_PER_CHUNK, VIDEO, Group
from robotrl.data.exchange.selection import Export, Item
from robotrl.data.exchange.sidecar import DIRECTORY, environments_to_json
from robotrl.data.exchange.statistics import Statistic, merge_statistics
from robotrl.data.exchange.tables import parquet, write_tasks
from robotrl.data.exchange.video import pixel_format

VERSION = "v3.0"
_DATA_MB, _VIDEO_MB = 100, 200


def episode_row(
    item: Item, group: Group, index: int, first: int, hz: float, plan: Export, statistics: dict[str, Statistic]
) -> dict[str, Any]:
    """The row of `meta/episodes` for the episode with the place `index`, whose first tick has the place `first`."""
    length, place = item.entry.length, group.place
    row: dict[str, Any] = {
        "episode_index": index,
        "tasks": [item.instruction],
        "length": length,
        **{f"data/{name}": number for name, number in place.items()},
        "dataset_from_index": first,
        "dataset_to_index": first + length,
        **{f"meta/episodes/{name}": number for name, number in place.items()},
    }
    for name in plan.cameras:
        video = f"videos/{IMAGES}{name}"
        row |= {f"{video}/{key}": number for key, number in place.items()}
        row[f"{video}/from_timestamp"] = (first - group.first_tick) / hz
        row[f"{video}/to_timestamp"] = (first + length - group.first_tick) / hz
    for feature, statistic in statistics.items():
        row |= {f"stats/{feature}/{name}": value.tolist() for name, value in statistic.items()}
    return row


def write_meta(root: Path, plan: Export, groups: Sequence[Group]) -> None:
    """Write what is about the whole data set; `info.json` last."""
    write_tasks(root / "meta/tasks.parquet", plan.instructions)
    statistics = _merged_statistics([group.path(root, EPISODES) for group in groups])
    write_atomic(root / "meta/stats.json", json.dumps(statistics, indent=1).encode())
    write_atomic(root / DIRECTORY / "environments.json", environments_to_json(plan.environments))
    robots = dict.fromkeys(spec.robot for spec in plan.environments.values())
    info = {
        "codebase_version": VERSION,
        "robot_type": "+".join(robots),
        "total_episodes": len(plan.items),
        "total_frames": sum(group.ticks for group in groups),
        "total_tasks": len(plan.instructions),
        "chunks_size": FILES_PER_CHUNK,
        "data_files_size_in_mb": _DATA_MB,
        "video_files_size_in_mb": _VIDEO_MB,
        "fps": int(plan.spec.control_hz) if plan.spec.control_hz.is_integer() else plan.spec.control_hz,
        "splits": {"train": f"0:{len(plan.items)}"},
        "data_path": DATA,
        "video_path": VIDEO if plan.cameras else None,
        "features": declared_features(plan.spec, {name: _camera_feature(plan, name) for name in plan.cameras}),
    }
    write_atomic(root / "meta/info.json", json.dumps(info, indent=1).encode())


def _camera_feature(plan: Export, name: str) -> dict[str, Any]:
    height, width = plan.cameras[name]
    info = {
        "video.height": height,
        "video.width": width,
        "video.codec": "h264",
        "video.pix_fmt": pixel_format(height, width),
        "video.fps": plan.spec.control_hz,
        "video.channels": 3,
        "is_depth_map": False,
        "has_audio": False,
    }
    return {"dtype": "video", "shape": [height, width, 3], "names": ["height", "width", "channels"], "info": info}


def _merged_statistics(files: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Feature → statistic over the data set, from the episodes' statistics."""
    parts: dict[str, list[Statistic]] = {}
    for file in files:
        for row in parquet().read_table(file).to_pylist():
            found: dict[str, dict[str, NDArray[Any]]] = {}
            for key in (key for key in row if key.startswith("stats/")):
                _, feature, name = key.split("/")
                found.setdefault(feature, {})[name] = np.array(row[key])
            for feature, statistic in found.items():
                parts.setdefault(feature, []).append(statistic)
    merged = {feature: merge_statistics(statistics) for feature, statistics in parts.items()}
    return {feature: {name: value.tolist() for name, value in merged[feature].items()} for feature in merged}
