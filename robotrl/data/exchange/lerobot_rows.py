"""The ticks and pictures of a LeRobot data set, an episode at a time and in order, so that each file is read once."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.exchange.lerobot_layout import LeRobotEpisode, LeRobotLayout
from robotrl.data.exchange.optional import require_module
from robotrl.data.exchange.tables import column_values, read_table
from robotrl.data.exchange.video import VideoReader
from robotrl.data.frames import EncodedFrames, encode_frame
from robotrl.errors import DataError
from robotrl.types import UInt8


class EpisodeRows:
    """The rows of one episode."""

    def __init__(self, table: Any, where: Path, episode: LeRobotEpisode) -> None:
        self._table, self._where, self.episode = table, where, episode

    def column(self, feature: str) -> NDArray[Any]:
        """(T,) or (T, D); `DataError` when the feature is missing or has gaps."""
        return column_values(self._table, feature, self._where)

    def matrix(self, feature: str) -> NDArray[np.float32]:
        """(T, D) float32; `DataError` when a value is not finite."""
        values = self.column(feature).reshape(self.episode.length, -1).astype(np.float32)
        if not np.isfinite(values).all():
            frame = int(np.argwhere(~np.isfinite(values))[0][0])
            raise DataError(
                f"{self._where}: '{feature}' is not finite in episode {self.episode.index}, frame {frame}: "
                "remove the episode from the data set, or repair it"
            )
        return values

    def images(self, feature: str) -> Iterator[UInt8]:
        """The pictures of a feature that is kept as image files in the table, (H, W, 3)."""
        image = require_module("PIL.Image", "lerobot")
        for row, cell in enumerate(self._table.column(feature)):
            content = cell.as_py()
            try:
                yield np.asarray(image.open(io.BytesIO(content["bytes"])).convert("RGB"))
            except (TypeError, KeyError, OSError) as error:
                where = f"{self._where}: '{feature}', episode {self.episode.index}, frame {row}"
                raise DataError(f"{where}: not a readable picture ({error})") from error


class LeRobotReader:
    """Reads the episodes of a data set; in order, each data and video file is opened once."""

    def __init__(self, layout: LeRobotLayout) -> None:
        self._layout = layout
        self._file: tuple[Path | None, Any] = (None, None)
        self._videos = {key: VideoReader() for key in layout.cameras}

    def rows(self, episode: LeRobotEpisode) -> EpisodeRows:
        """The rows of the episode; `DataError` unless its indices are as the metadata say."""
        path = episode.data
        if self._file[0] != path:
            self._file = (path, read_table(path))
        table = self._file[1]
        offset = episode.first - int(column_values(table.slice(0, 1), "index", path)[0]) if len(table) else -1
        found = EpisodeRows(table.slice(max(0, offset), episode.length), path, episode)
        ticks = np.arange(episode.length)
        expected = {"episode_index": np.full_like(ticks, episode.index), "index": ticks + episode.first}
        for name, values in {**expected, "frame_index": ticks}.items():
            if offset < 0 or not np.array_equal(found.column(name), values):
                raise DataError(
                    f"{path}: '{name}' of episode {episode.index} is not {values[0]} … {values[-1]}: the rows do not "
                    "fit meta/episodes; repair the data set first"
                )
        return found

    def frames(self, rows: EpisodeRows, feature: str, ticks: Sequence[int]) -> EncodedFrames:
        """The camera's pictures at some ticks, ascending; encoded as they come, so that few are in memory."""
        episode = rows.episode
        if feature in episode.videos:
            path, start_s = episode.videos[feature]
            pictures = self._videos[feature].pictures(path, start_s, episode.length, self._layout.fps)
        else:
            pictures = rows.images(feature)
        wanted, chunks, size = set(ticks), list[bytes](), (0, 0)
        for tick, picture in enumerate(pictures):
            if tick in wanted:
                chunks.append(encode_frame(picture))
                size = (picture.shape[0], picture.shape[1])
        return EncodedFrames(f"{self._layout.root}: {feature}", "jpeg", size, chunks)
