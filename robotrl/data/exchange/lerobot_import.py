"""A LeRobotDataset v3 as episodes: our own exactly as they were, others as far as they say what happened."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from robotrl.data.exchange.foreign import task_name
from robotrl.data.exchange.imports import ImportReport, import_episodes
from robotrl.data.exchange.lerobot_foreign import ForeignDataset
from robotrl.data.exchange.lerobot_layout import read_layout
from robotrl.data.exchange.lerobot_own import own_episodes
from robotrl.data.exchange.sidecar import read_environments
from robotrl.types import Outcome


def import_lerobot(
    path: Path,
    root: Path,
    progress: Callable[[int, int], None],
    *,
    task: str | None = None,
    outcome: Outcome | None = None,
) -> ImportReport:
    """Import the data set in the directory `path` into the store at `root`, which is created where it is missing.

    What robotrl exported from several environments goes into the stores `root`/<task>. Episodes that are there already
    are skipped, so that an interrupted import goes on when it is repeated.

    Args:
        path: the directory that has `meta/info.json`.
        root: the directory of the store.
        progress: called with (done, total) episodes.
        task: name of the task of a foreign data set; by default that of its directory.
        outcome: the outcome of foreign episodes that do not say it.

    Raises:
        ConfigurationError: a package of the extra `lerobot` is missing.
        DataError: the data set is damaged, incomplete, of another version or has nothing to learn from, or the store
            is of another environment. Episodes that were committed before are kept.
        StorageError: the disk is full or cannot be written to.
    """
    layout = read_layout(path)
    environments = read_environments(path)
    total = len(layout.episodes)
    if environments is not None:
        return import_episodes(root, environments, own_episodes(layout, environments), total, progress)
    dataset = ForeignDataset(layout, task_name(task or path.resolve().name), outcome)
    report = import_episodes(root, {dataset.spec.fingerprint: dataset.spec}, dataset.episodes(), total, progress)
    return replace(report, ignored=dataset.ignored)
