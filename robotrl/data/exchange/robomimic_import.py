"""robomimic's HDF5 as episodes: our own exactly as they were, others as far as they say what happened."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import get_args

from robotrl.data.episode_file import meta_from_json
from robotrl.data.exchange.foreign import task_name
from robotrl.data.exchange.hdf5 import Demo, DemoFile, attribute, json_attribute, open_demos
from robotrl.data.exchange.imports import ImportReport, Pending, import_episodes
from robotrl.data.exchange.robomimic_export import CHUNK_ARRAYS, EPISODE_ARRAYS, FORMAT
from robotrl.data.exchange.robomimic_foreign import ForeignDemos
from robotrl.data.frames import EncodedFrames, FrameCodec
from robotrl.errors import DataError
from robotrl.specs import EnvironmentSpec, spec_from_json
from robotrl.types import CameraFrames, ChunkTable, Episode, EpisodeMeta, Outcome


def import_robomimic(
    path: Path,
    root: Path,
    progress: Callable[[int, int], None],
    *,
    task: str | None = None,
    outcome: Outcome | None = None,
) -> ImportReport:
    """Import the HDF5 file into the store at `root`, which is created where it is missing.

    Episodes that are there already are skipped, so that an interrupted import goes on when it is repeated.

    Args:
        path: the file.
        root: the directory of the store.
        progress: called with (done, total) episodes.
        task: name of the task of a foreign file; by default its `env_name`.
        outcome: the outcome of foreign demos whose rewards do not say it.

    Raises:
        ConfigurationError: h5py (extra `hdf5`) is missing.
        DataError: the file is damaged, has no demos or nothing to learn from, or the store is of another environment.
            Episodes that were committed before are kept.
        StorageError: the disk is full or cannot be written to.
    """
    with open_demos(path) as file:
        total = len(file.demos)
        if file.format is not None:
            spec = _own_spec(file)
            return import_episodes(root, {spec.fingerprint: spec}, _own(file, spec), total, progress)
        foreign = ForeignDemos(file, task_name(task or str(file.arguments.get("env_name") or path.stem)), outcome)
        environments = {foreign.spec.fingerprint: foreign.spec}
        report = import_episodes(root, environments, foreign.episodes(), total, progress)
        return replace(report, ignored=foreign.ignored)


def _own_spec(file: DemoFile) -> EnvironmentSpec:
    if file.format != FORMAT:
        raise DataError(f"{file.path}: this version of robotrl reads format {FORMAT}, got {file.format}")
    try:
        return spec_from_json(json.dumps(file.arguments["env_kwargs"]["robotrl"]))
    except (KeyError, TypeError, DataError) as error:
        raise DataError(f"{file.path}: 'env_args' has no environment that robotrl can read ({error})") from error


def _own(file: DemoFile, spec: EnvironmentSpec) -> Iterator[Pending]:
    for demo in file.demos:
        meta = meta_from_json(json_attribute(demo.group, "robotrl"), f"{file.path}: {demo.name}")
        yield Pending(spec.fingerprint, meta.episode_id, partial(_restore, demo, meta))


def _restore(demo: Demo, meta: EpisodeMeta) -> Episode:
    chunks = ChunkTable(**{name: demo.array(f"robotrl/chunks/{name}") for name in CHUNK_ARRAYS})
    arrays = {name: demo.array(f"robotrl/{name}") for name in EPISODE_ARRAYS}
    cameras = {name: _camera(demo, name) for name in demo.keys("robotrl/cameras")}
    return Episode(meta=meta, chunks=chunks, cameras=cameras, **arrays)


def _camera(demo: Demo, name: str) -> CameraFrames:
    """The pictures as they were encoded."""
    stored = f"robotrl/cameras/{name}"
    content, ends = demo.array(f"{stored}/content"), demo.array(f"{stored}/ends").tolist()
    codec = attribute(demo.group[stored], "codec")
    if codec not in get_args(FrameCodec):
        raise DataError(f"{demo.path}: '{demo.name}/{stored}' has the codec {codec!r}; expected one of {FrameCodec}")
    height, width = demo.shape(f"obs/{name}_image")[1:3]
    chunks = [content[start:stop] for start, stop in pairwise([0, *ends])]
    frames = EncodedFrames(f"{demo.path}: {demo.name}/{stored}", codec, (height, width), chunks)
    return CameraFrames(demo.array(f"{stored}/tick"), frames)
