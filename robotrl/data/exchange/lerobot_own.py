"""Episodes out of a LeRobot data set that robotrl exported: what they were, to the bit, but for the pictures."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from robotrl.data.exchange.features import IMAGES, STATE, VECTORS, episode_fields
from robotrl.data.exchange.imports import Pending
from robotrl.data.exchange.lerobot_layout import LeRobotEpisode, LeRobotLayout
from robotrl.data.exchange.lerobot_rows import EpisodeRows, LeRobotReader
from robotrl.data.exchange.sidecar import DIRECTORY, camera_names, restored_fields, restored_meta
from robotrl.data.exchange.tables import read_table, row_values
from robotrl.errors import DataError
from robotrl.specs import EnvironmentSpec
from robotrl.types import CameraFrames, Episode


def own_episodes(layout: LeRobotLayout, environments: Mapping[str, EnvironmentSpec]) -> Iterator[Pending]:
    """The episodes in order; `DataError` where the data set does not fit what we wrote beside it."""
    reader = LeRobotReader(layout)
    for episode, row in zip(layout.episodes, _rows(layout), strict=True):
        where = f"{layout.root}: episode {episode.index}"
        if row["environment"] not in environments:
            raise DataError(f"{where} is of an environment that {DIRECTORY}/environments.json does not have")
        # Metadata alone tell whether the episode is needed; its ticks are read only then.
        meta = restored_meta(row, where)
        yield Pending(row["environment"], meta.episode_id, partial(_restore, reader, episode, row, where))


def _rows(layout: LeRobotLayout) -> Iterator[Mapping[str, Any]]:
    """The sidecar's row of every episode, one file in memory at a time."""
    files = sorted((layout.root / DIRECTORY).glob("*/*.parquet"))
    indices = [i for file in files for i in read_table(file, ["episode_index"]).column(0).to_pylist()]
    if indices != [episode.index for episode in layout.episodes]:
        raise DataError(
            f"{layout.root}/{DIRECTORY} is about {len(indices)} episodes, the data set has {len(layout.episodes)}. If "
            f"another program changed the data set, delete {DIRECTORY} to import it as one robotrl did not make."
        )
    for file in files:
        table = read_table(file)
        for row in range(len(table)):
            yield row_values(table, row)


def _restore(reader: LeRobotReader, episode: LeRobotEpisode, row: Mapping[str, Any], where: str) -> Episode:
    rows = reader.rows(episode)
    ticks = episode_fields(rows.column)
    for field in VECTORS.values():
        ticks[field] = ticks[field].reshape(episode.length, -1)
    cameras = {name: _camera(reader, rows, name, row) for name in camera_names(row)}
    fields: dict[str, Any] = {**restored_fields(row, rows.matrix(STATE), where), **ticks, "cameras": cameras}
    return Episode(**fields)


def _camera(reader: LeRobotReader, rows: EpisodeRows, name: str, row: Mapping[str, Any]) -> CameraFrames:
    """The pictures at the ticks that the camera saw, without those that the export repeated."""
    tick = row[f"camera.{name}.tick"].astype(np.int32)
    during = reader.frames(rows, f"{IMAGES}{name}", tick[tick < rows.episode.length].tolist())
    after = row[f"camera.{name}.last"]
    chunks = during.chunks if after is None else [*during.chunks, after]
    return CameraFrames(tick, replace(during, chunks=chunks))
