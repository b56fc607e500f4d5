"""Episodes as a LeRobotDataset v3, written without lerobot.

lerobot's own writer keeps its files open until the end, so that a killed one leaves a data set that does not open.
Here episodes are grouped beforehand: each group becomes a data file, a video file a camera, a file of episode metadata
and a sidecar, in this order. A group whose sidecar has its name is whole; an interrupted export goes on behind it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from robotrl.data.durable import storage_errors
from robotrl.data.exchange.features import IMAGES, WITHOUT_STATISTICS, tick_columns
from robotrl.data.exchange.groups import DATA, EPISODES, SIDECAR, VIDEO, Group, grouped
from robotrl.data.exchange.lerobot_meta import VERSION, episode_row, write_meta
from robotrl.data.exchange.optional import require_module
from robotrl.data.exchange.partial import partial_directory, require_absent, sync_file
from robotrl.data.exchange.pictures import one_a_row
from robotrl.data.exchange.selection import Export, Selection, plan_export
from robotrl.data.exchange.sidecar import sidecar_row
from robotrl.data.exchange.statistics import Statistic, picture_statistic, vector_statistic
from robotrl.data.exchange.tables import TableFile, made, write_rows
from robotrl.data.exchange.video import VideoWriter
from robotrl.types import Episode


@dataclass(frozen=True)
class LeRobotExport:
    """What an export wrote: where, and how many episodes, ticks, instructions and cameras."""

    path: Path
    episodes: int
    ticks: int
    instructions: int
    cameras: int


def export_lerobot(selections: Sequence[Selection], path: Path, progress: Callable[[int, int], None]) -> LeRobotExport:
    """Write the episodes as a LeRobotDataset v3 that lerobot opens, and that `import_lerobot` turns back exactly.

    Low-dimensional data are exact. Cameras become H.264, one picture a tick: where a camera was slower, its latest.
    The data set appears at `path` once it is whole. After an interruption the same call goes on where it was.

    Args:
        selections: episodes of one or more environments whose states, actions and control rate agree.
        path: the directory to create.
        progress: called with (done, total) episodes.

    Raises:
        ConfigurationError: a package of the extra `lerobot` is missing.
        DataError: there are no episodes, they do not fit together, or `path` exists.
        StorageError: the disk is full or cannot be written to.
        RunBusyError: another process is exporting to `path`.
    """
    for module in ("pyarrow.parquet", "av"):
        require_module(module, "lerobot")
    require_absent(path)
    plan = plan_export(selections)
    groups = grouped(plan)
    with partial_directory(path, plan.fingerprint(VERSION)) as root:
        for group in groups:
            if not group.path(root, SIDECAR).exists():
                _write_group(root, plan, group, progress)
            progress(group.first_episode + len(group.items), len(plan.items))
        write_meta(root, plan, groups)
    ticks = sum(group.ticks for group in groups)
    return LeRobotExport(path, len(plan.items), ticks, len(plan.instructions), len(plan.cameras))


def _write_group(root: Path, plan: Export, group: Group, progress: Callable[[int, int], None]) -> None:
    hz = plan.spec.control_hz
    data = TableFile(group.path(root, DATA))
    pictures = {name: made(group.path(root, VIDEO, f"{IMAGES}{name}")) for name in plan.cameras}
    videos = {name: VideoWriter(pictures[name], *size, hz) for name, size in plan.cameras.items()}
    metadata: list[dict[str, Any]] = []
    sidecar: list[dict[str, Any]] = []
    first = group.first_tick
    for index, item in enumerate(group.items, group.first_episode):
        episode = item.read()
        columns = tick_columns(episode, hz, index, first, plan.instructions.index(item.instruction))
        data.write(columns)
        for name, video in videos.items():
            for picture in one_a_row(episode.cameras[name], episode.length):
                video.write(picture)
        metadata.append(episode_row(item, group, index, first, hz, plan, _statistics(columns, episode)))
        sidecar.append(sidecar_row(episode, index, item.selection.spec.fingerprint))
        first += episode.length
        progress(index + 1, len(plan.items))
    for file in (data, *videos.values()):
        file.close()
    write_rows(group.path(root, EPISODES), metadata)
    partial = group.path(root, SIDECAR).with_suffix(".partial")
    write_rows(partial, sidecar)
    for file in (partial, group.path(root, DATA), group.path(root, EPISODES), *pictures.values()):
        sync_file(file)
    with storage_errors("write", partial):
        partial.rename(group.path(root, SIDECAR))


def _statistics(columns: dict[str, NDArray[Any]], episode: Episode) -> dict[str, Statistic]:
    vectors = {key: vector_statistic(column) for key, column in columns.items() if key not in WITHOUT_STATISTICS}
    pictures = {f"{IMAGES}{name}": picture_statistic(camera.frames) for name, camera in episode.cameras.items()}
    return vectors | pictures
