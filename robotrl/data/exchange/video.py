"""MP4 files of one camera: written picture by picture, and read from beginning to end, never by seeking."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from robotrl.data.durable import storage_errors
from robotrl.data.exchange.optional import require_module
from robotrl.errors import DataError
from robotrl.types import UInt8

# A key frame every second picture, as LeRobot has it, because training reads at random. Pictures keep their order
# (bf=0), so that the n-th has the time n / fps from the start of the file. CRF 18 is visually lossless.
_OPTIONS = {"g": "2", "crf": "18", "bf": "0", "preset": "veryfast"}
_CODEC = "libx264"


def _av() -> Any:
    return require_module("av", "video")


class VideoWriter:
    """Encodes (H, W, 3) uint8 RGB pictures as H.264 at `fps` pictures a second."""

    def __init__(self, path: Path, height: int, width: int, fps: float) -> None:
        self._path, self._av = path, _av()
        with storage_errors("write", path):
            self._container = self._av.open(str(path), "w")
        rate = Fraction(fps).limit_denominator(1000)
        self._stream = self._container.add_stream(_CODEC, rate=rate, options=_OPTIONS)
        self._stream.width, self._stream.height = width, height
        self._stream.pix_fmt = pixel_format(height, width)

    def write(self, picture: UInt8) -> None:
        """Append one picture."""
        frame = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
        with storage_errors("write", self._path):
            self._container.mux(self._stream.encode(frame))

    def close(self) -> None:
        """Finish the file."""
        with storage_errors("write", self._path):
            self._container.mux(self._stream.encode())
            self._container.close()


def pixel_format(height: int, width: int) -> str:
    """How pixels are encoded: colour at half resolution where the size allows it, as LeRobot expects."""
    return "yuv444p" if height % 2 or width % 2 else "yuv420p"


class VideoReader:
    """Pictures out of video files. Asking in the order of files and times decodes every file once."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._frames: Iterator[tuple[float, Any]] = iter(())
        self._ahead: tuple[float, Any] | None = None

    def pictures(self, path: Path, start_s: float, count: int, fps: float) -> Iterator[UInt8]:
        """`count` pictures (H, W, 3) uint8 RGB from `start_s` on, `fps` a second; `DataError` where one is missing."""
        slack_s = 0.5 / fps
        if self._path != path or self._ahead is None or self._ahead[0] > start_s + slack_s:
            self._path, self._frames = path, _decode(path)
            self._ahead = next(self._frames, None)
        for number in range(count):
            time_s = start_s + number / fps
            while self._ahead is not None and self._ahead[0] < time_s - slack_s:
                self._ahead = next(self._frames, None)
            if self._ahead is None or self._ahead[0] > time_s + slack_s:
                raise DataError(f"{path}: there is no picture at {time_s:.3f} s; the video is cut short or misaligned")
            yield self._ahead[1].to_ndarray(format="rgb24")


def _decode(path: Path) -> Iterator[tuple[float, Any]]:
    """(time in s, frame) of all frames."""
    av = _av()
    try:
        with storage_errors("read", path), av.open(str(path)) as container:
            for frame in container.decode(video=0):
                yield float(frame.pts * frame.time_base), frame
    except (av.FFmpegError, IndexError) as error:
        raise DataError(f"{path}: not a readable video ({error})") from error
