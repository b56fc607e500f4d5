"""What a LeRobot data set has no place for, so that our import gives back exactly what was exported.

meta/robotrl/environments.json         format, and the environments by fingerprint
meta/robotrl/chunk-…/file-….parquet    one row an episode: metadata, the rows after the last tick, privileged state,
                                       physics, clock, chunk table, and which ticks each camera really saw
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.durable import storage_errors
from robotrl.data.episode_file import meta_from_json, meta_to_json
from robotrl.data.frames import EncodedFrames, encode_frame
from robotrl.errors import DataError
from robotrl.specs import EnvironmentSpec, spec_from_json
from robotrl.types import ChunkTable, Episode, EpisodeMeta, FrameArray

FORMAT = 1
DIRECTORY = "meta/robotrl"
_ENVIRONMENTS = f"{DIRECTORY}/environments.json"
_ROWS = {"privileged": np.float32, "physics": np.float64, "time_ns": np.int64}
"""Fields of T + 1 rows that are kept here whole."""
_CHUNKS = {
    "actions": np.float32,
    "observed_tick": np.int32,
    "start_tick": np.int32,
    "policy_version": np.int32,
    "noise": np.float32,
}


def environments_to_json(environments: Mapping[str, EnvironmentSpec]) -> bytes:
    """The content of `environments.json`."""
    specs = {fingerprint: json.loads(spec.to_json()) for fingerprint, spec in environments.items()}
    return json.dumps({"format": FORMAT, "environments": specs}, indent=1).encode()


def read_environments(root: Path) -> dict[str, EnvironmentSpec] | None:
    """Fingerprint → environment; None where the data set is not ours. `DataError` for another format or damage."""
    path = root / _ENVIRONMENTS
    if not path.exists():
        return None
    try:
        with storage_errors("read", path):
            raw = json.loads(path.read_bytes())
        if raw["format"] != FORMAT:
            raise DataError(f"{path}: this version of robotrl reads format {FORMAT}, got {raw['format']!r}")
        return {name: spec_from_json(json.dumps(spec)) for name, spec in raw["environments"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: damaged ({type(error).__name__}: {error})") from error


def sidecar_row(episode: Episode, episode_index: int, environment: str) -> dict[str, Any]:
    """The row of one episode; arrays are flat, and the number of rows of each follows from T and C."""
    row: dict[str, Any] = {
        "episode_index": episode_index,
        "environment": environment,
        "meta": json.dumps(meta_to_json(episode.meta)),
        "state": episode.state[-1],
        **{name: getattr(episode, name).ravel() for name in _ROWS},
        **{f"chunks.{f.name}": getattr(episode.chunks, f.name).ravel() for f in fields(ChunkTable)},
        "chunks.shapes": np.array([*episode.chunks.actions.shape, *episode.chunks.noise.shape], np.int64),
    }
    for name, camera in episode.cameras.items():
        after = len(camera.tick) > 0 and camera.tick[-1] == episode.length
        row[f"camera.{name}.tick"] = camera.tick
        row[f"camera.{name}.last"] = _encoded(camera.frames) if after else None
    return row


def _encoded(frames: FrameArray) -> bytes:
    """The last frame, as it is encoded where it is JPEG."""
    if isinstance(frames, EncodedFrames) and frames.codec == "jpeg":
        return bytes(frames.chunks[-1])
    return encode_frame(frames[len(frames) - 1])


def camera_names(row: Mapping[str, Any]) -> list[str]:
    """The cameras that the row is about."""
    return [key[len("camera.") : -len(".tick")] for key in row if key.startswith("camera.") and key.endswith(".tick")]


def restored_meta(row: Mapping[str, Any], where: str) -> EpisodeMeta:
    """The metadata of the episode; `DataError`, beginning with `where`, when they are damaged."""
    try:
        return meta_from_json(json.loads(row["meta"]), where)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{where}: {DIRECTORY} is damaged ({type(error).__name__}: {error})") from error


def restored_fields(row: Mapping[str, Any], before: NDArray[np.float32], where: str) -> dict[str, Any]:
    """`meta`, `chunks` and the arrays of T + 1 rows; `before` (T, S) are the states before each action."""
    rows = len(before) + 1
    chunks: dict[str, Any] = {}
    try:
        shapes = [int(n) for n in row["chunks.shapes"]]
        chunks |= {name: np.asarray(row[f"chunks.{name}"], dtype) for name, dtype in _CHUNKS.items()}
        chunks["actions"] = chunks["actions"].reshape(shapes[:3])
        chunks["noise"] = chunks["noise"].reshape(shapes[3:])
        arrays = {name: np.asarray(row[name], dtype) for name, dtype in _ROWS.items()}
        if len(arrays["time_ns"]) != rows:
            raise ValueError(f"it is about {len(arrays['time_ns']) - 1} ticks, the data have {len(before)}")
        wide = {name: arrays[name].reshape(rows, arrays[name].size // rows) for name in ("privileged", "physics")}
        state = np.concatenate([before, np.asarray(row["state"], np.float32)[None]])
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{where}: {DIRECTORY} does not fit the data ({error}). If another program changed the data set, delete "
            f"{DIRECTORY} to import it as one that robotrl did not make."
        ) from error
    meta = restored_meta(row, where)
    return {"meta": meta, "chunks": ChunkTable(**chunks), "state": state, "time_ns": arrays["time_ns"], **wide}
