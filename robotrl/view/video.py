"""An mp4 from rendered frames, through PyAV (the extra `video`)."""

from fractions import Fraction
from pathlib import Path

import numpy as np

from robotrl.data.durable import ensure_directory, storage_errors
from robotrl.errors import ConfigurationError, DataError
from robotrl.types import UInt8


def write_video(frames: UInt8, path: str | Path, fps: float) -> Path:
    """Write H.264 in an mp4 that browsers play; the file appears whole or not at all.

    Args:
        frames: (T, H, W, 3) uint8 RGB, T ≥ 1. An odd height or width loses its last row or column, since the colour
            format needs even ones.
        path: where to write; missing folders are made.
        fps: frames a second.
    """
    if (
        frames.dtype != np.uint8
        or frames.ndim != 4
        or frames.shape[3] != 3
        or 0 in np.array(frames.shape[:3]) // (1, 2, 2)
    ):
        raise DataError(
            f"expected frames (T, H, W, 3) uint8 of at least 2 x 2 pixels, got {frames.shape} {frames.dtype}"
        )
    if not fps > 0:
        raise ConfigurationError(f"expected a positive number of frames a second, got {fps}")
    path = Path(path)
    staged = path.with_name(path.name + ".part")
    ensure_directory(path.parent)
    with storage_errors("write", path):
        _encode(frames, staged, Fraction(fps).limit_denominator(1001))
        staged.replace(path)
    return path


def _encode(frames: UInt8, path: Path, fps: Fraction) -> None:
    try:
        import av  # the main job does not need it
    except ModuleNotFoundError as error:
        raise ConfigurationError("writing videos needs PyAV: pip install 'robotrl[video]'") from error
    with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as container:
        stream = container.add_stream("libx264", rate=fps)
        height, width = frames.shape[1] // 2 * 2, frames.shape[2] // 2 * 2
        stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
        stream.options = {"crf": "20", "preset": "veryfast"}
        for frame in frames[:, :height, :width]:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")))
        container.mux(stream.encode())
