"""Episodes as one HDF5 file in robomimic's layout.

data/demo_<i>/{obs,next_obs}/{state, <camera>_image}   states and pictures before and after each action
data/demo_<i>/{actions, rewards, dones, states}        actions in [-1, 1]; states are the physics
data/demo_<i>/robotrl/…                                every array of the episode as it is, for our import
mask/{train, valid}                                    names of demos

robomimic wants actions in [-1, 1]: what was requested is scaled by the bounds in `env_args`, and clipped to them.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.episode_file import meta_to_json
from robotrl.data.exchange.hdf5_write import new_hdf5
from robotrl.data.exchange.optional import require_module
from robotrl.data.exchange.partial import partial_file, require_absent
from robotrl.data.exchange.pictures import one_a_row
from robotrl.data.exchange.selection import Export, Item, Selection, plan_export
from robotrl.data.frames import encode_frames
from robotrl.data.windows import validation_split
from robotrl.errors import DataError
from robotrl.specs import ArraySpec
from robotrl.types import CameraFrames, ChunkTable, Episode

FORMAT = 1
EPISODE_ARRAYS = tuple(f.name for f in fields(Episode) if f.name not in ("meta", "chunks", "cameras"))
CHUNK_ARRAYS = tuple(f.name for f in fields(ChunkTable))
_DEMO = "S16"
_GYM = 2
"""robomimic's number for environments that are not robosuite's; it makes one only to roll a policy out."""


@dataclass(frozen=True)
class RobomimicExport:
    """What an export wrote: where, and how many demos, ticks, and demos for validation."""

    path: Path
    episodes: int
    ticks: int
    valid: int


def export_robomimic(
    selection: Selection, path: Path, progress: Callable[[int, int], None], *, valid_share: float = 0.1
) -> RobomimicExport:
    """Write the episodes of one environment as robomimic's HDF5, which `import_robomimic` turns back exactly.

    The file appears at `path` once it is whole; an interrupted export begins afresh.

    Args:
        selection: the episodes; a file holds one environment.
        path: the file to create.
        progress: called with (done, total) episodes.
        valid_share: expected part of the demos in `mask/valid`; which they are depends on their ids alone.

    Raises:
        ConfigurationError: h5py (extra `hdf5`) is missing.
        DataError: there are no episodes, their cameras differ, or `path` exists.
        StorageError: the disk is full or cannot be written to.
    """
    require_module("h5py", "hdf5")
    require_absent(path)
    plan = plan_export([selection])
    _require_bounds(plan.spec.action)
    demos = {item.entry.episode_id: f"demo_{number}" for number, item in enumerate(plan.items)}
    train, valid = validation_split(demos, valid_share)
    ticks = sum(item.entry.length for item in plan.items)
    with partial_file(path) as partial, new_hdf5(partial) as (file, check):
        data = file.create_group("data")
        data.attrs["total"] = ticks
        data.attrs["env_args"] = _environment(plan)
        data.attrs["robotrl"] = FORMAT
        for done, item in enumerate(plan.items, 1):
            _write_demo(data.create_group(demos[item.entry.episode_id]), item, plan.spec.action)
            check()
            progress(done, len(plan.items))
        for name, ids in (("train", train), ("valid", valid)):
            file.create_dataset(f"mask/{name}", data=np.array([demos[i].encode() for i in ids], _DEMO))
    return RobomimicExport(path, len(demos), ticks, len(valid))


def _require_bounds(action: ArraySpec) -> None:
    for element, low, high in zip(action.elements, action.low, action.high, strict=True):
        if not np.isfinite(high - low):
            raise DataError(
                f"action '{element}' has the bounds [{low:g}, {high:g}]: robomimic wants actions in [-1, 1], which "
                "takes finite bounds. Export to LeRobot instead."
            )


def _environment(plan: Export) -> str:
    """`env_args`; the bounds with which a policy's output becomes an action again are in `env_kwargs`."""
    action = {"elements": plan.spec.action.elements, "low": plan.spec.action.low, "high": plan.spec.action.high}
    settings = {"action": action, "control_freq": plan.spec.control_hz, "robotrl": json.loads(plan.spec.to_json())}
    return json.dumps({"env_name": plan.spec.task, "env_type": _GYM, "env_kwargs": settings})


def _write_demo(demo: Any, item: Item, action: ArraySpec) -> None:
    episode = item.read()
    demo.attrs["num_samples"] = episode.length
    demo.attrs["robotrl"] = json.dumps(meta_to_json(episode.meta))
    demo["obs/state"], demo["next_obs/state"] = episode.state[:-1], episode.state[1:]
    demo["actions"] = _normalised(episode, action)
    demo["rewards"] = episode.reward
    demo["dones"] = (episode.terminated | episode.truncated).astype(np.int64)
    demo["states"] = episode.physics[:-1]
    for name in EPISODE_ARRAYS:
        demo[f"robotrl/{name}"] = getattr(episode, name)
    for name in CHUNK_ARRAYS:
        demo[f"robotrl/chunks/{name}"] = getattr(episode.chunks, name)
    for name, camera in episode.cameras.items():
        _write_frames(demo.create_group(f"robotrl/cameras/{name}"), camera)
        _write_pictures(demo, f"{name}_image", camera, episode.length)


def _normalised(episode: Episode, action: ArraySpec) -> NDArray[np.float32]:
    """(T, A) in [-1, 1]: what was requested, or executed where nothing was."""
    wanted = np.where(np.isfinite(episode.action_requested), episode.action_requested, episode.action)
    low, span = np.array(action.low), np.array(action.high) - np.array(action.low)
    scaled = 2 * (wanted - low) / np.where(span > 0, span, 1) - 1
    return np.clip(np.where(span > 0, scaled, 0), -1, 1).astype(np.float32)


def _write_frames(group: Any, camera: CameraFrames) -> None:
    """The pictures as they are encoded in the store, end to end."""
    frames = encode_frames(camera.frames)
    group.attrs["codec"] = frames.codec
    group["tick"] = camera.tick
    group["ends"] = np.cumsum([len(chunk) for chunk in frames.chunks], dtype=np.int64)
    group["content"] = np.frombuffer(b"".join(map(bytes, frames.chunks)), np.uint8)


def _write_pictures(demo: Any, key: str, camera: CameraFrames, length: int) -> None:
    shape = (length, *camera.frames.shape[1:])
    before, after = (demo.create_dataset(f"{group}/{key}", shape, np.uint8) for group in ("obs", "next_obs"))
    for row, picture in enumerate(one_a_row(camera, length + 1)):
        if row < length:
            before[row] = picture
        if row > 0:
            after[row - 1] = picture
