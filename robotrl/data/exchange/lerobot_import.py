"""A LeRobotDataset v3 as episodes: our own exactly as they were, others as far as they say what happened.

A foreign data set has no state after the last action: the last state stands in for it. Its bounds are those that occur
in the data, its units unknown ("1"). All its tasks are instructions of one environment.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.exchange.features import ACTION, IMAGES, SCALARS, STATE, VECTORS, episode_fields
from robotrl.data.exchange.foreign import OPTIONAL, ForeignEpisode, complete, foreign_spec, measured_spec, task_name
from robotrl.data.exchange.imports import EpisodeImport, ImportReport
from robotrl.data.exchange.lerobot_layout import LeRobotEpisode, LeRobotLayout, read_layout
from robotrl.data.exchange.lerobot_rows import EpisodeRows, LeRobotReader
from robotrl.data.exchange.sidecar import Sidecar, last_picture, read_environments, restored_fields
from robotrl.errors import DataError
from robotrl.specs import CameraSpec, EnvironmentSpec
from robotrl.types import CameraFrames, Episode, Outcome

_STAGE = "import"
_SLACK_S = 1e-4
"""LeRobot's own tolerance for times: within it they are multiples of the control period."""


def import_lerobot(
    path: Path, store: Path, progress: Callable[[int, int], None], *, task: str | None = None,
    outcome: Outcome | None = None,
) -> ImportReport:
    """Import the data set in the directory `path` into the store at `store`, which is created where it is missing.

    What robotrl exported from several environments goes into the stores `store`/<task>. Episodes that are there
    already are skipped, so that an interrupted import goes on when it is repeated.

    Args:
        path: the directory that has `meta/info.json`.
        store: the directory of the store.
        progress: called with (done, total) episodes.
        task: name of the task of a foreign data set; by default that of its directory.
        outcome: the outcome of foreign episodes that do not say it.

    Raises:
        ConfigurationError: a package of the extra `lerobot` is missing.
        DataError: the data set is damaged, incomplete, of another version or has nothing to learn from, or the store
            is of another environment. Episodes that were whole until then are kept.
        StorageError: the disk is full or cannot be written to.
    """
    layout = read_layout(path)
    environments = read_environments(path)
    source = _Foreign(layout, task, outcome) if environments is None else _Own(layout, environments)
    target = EpisodeImport(store, source.environments)
    for number, episode in enumerate(layout.episodes, 1):
        source.transfer(episode, target)
        progress(number, len(layout.episodes))
    return target.close(source.ignored)
