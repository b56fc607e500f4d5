"""Camera frames as they are stored: each is encoded on its own, and decoded when it is asked for.

Every encoded frame ends in the CRC-32C of what is before it (the codec `crc32c` of Zarr), so that damage is found when
the frame is decoded, without reading the rest of the file.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Literal, cast

import google_crc32c
import numpy as np
import simplejpeg
from numcodecs.zstd import Zstd
from numpy.typing import NDArray

from robotrl.errors import DataError
from robotrl.types import FrameArray, UInt8

FrameCodec = Literal["jpeg", "zstd", "raw"]
"""`jpeg` is lossy and needs the Zarr codec `robotrl.jpeg`; `zstd` and `raw` are exact and read by any Zarr library."""
JPEG_QUALITY = 95
JPEG_SUBSAMPLING = "444"
ZSTD_LEVEL = 3
_CRC_SIZE = 4
_FEWEST_A_THREAD = 8  # handing fewer small frames to another thread costs more than it saves
_THREADS = len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class TakenFrame:
    """A JPEG frame of a running episode: its camera, the state row `tick` that it shows, (H, W) pixels, its bytes."""

    camera: str
    tick: int
    size: tuple[int, int]
    content: bytes


@dataclass(frozen=True, eq=False)
class EncodedFrames:
    """Frames of one camera, a `FrameArray` that decodes what is indexed, several frames on several threads.

    Attributes:
        name: what errors call it: the file and the camera.
        codec: how the frames are encoded.
        size: (H, W) pixels.
        chunks: F encoded frames.
    """

    name: str
    codec: FrameCodec
    size: tuple[int, int]
    chunks: Sequence[bytes | UInt8]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(F, H, W, 3)."""
        return (len(self.chunks), *self.size, 3)

    def __len__(self) -> int:
        return len(self.chunks)

    def __getitem__(self, index: Any) -> UInt8:
        """Decoded frames: (H, W, 3) for an integer, (n, H, W, 3) for a slice, list or array of them.

        Raises:
            DataError: a frame is damaged; the message names file, camera and frame.
            IndexError: there is no such frame.
        """
        wanted = np.arange(len(self))[index]
        frames = np.empty((wanted.size, *self.size, 3), np.uint8)
        decode_frames([(self, int(i)) for i in wanted.ravel()], frames)
        return frames.reshape(*wanted.shape, *self.size, 3)

    def decode(self, index: int, out: UInt8) -> None:
        """Write frame `index` to `out` (H, W, 3)."""
        try:
            content = np.frombuffer(self.chunks[index], np.uint8)
            if google_crc32c.value(cast(Any, content[:-_CRC_SIZE])) != int.from_bytes(content[-_CRC_SIZE:], "little"):
                raise ValueError("its CRC-32C is wrong")
            _decode(self.codec, content[:-_CRC_SIZE], out)
        except (ValueError, RuntimeError) as error:
            raise DataError(
                f"{self.name}: frame {index} is damaged ({error}); the other frames and the episode's states are not "
                "affected"
            ) from error


def encode_frames(frames: FrameArray, codec: FrameCodec = "jpeg", name: str = "frames") -> EncodedFrames:
    """Frames (F, H, W, 3) uint8, encoded; those that are encoded already stay as they are, whatever their codec."""
    if isinstance(frames, EncodedFrames):
        return frames
    height, width = frames.shape[1:3]
    chunks = [encode_frame(frames[i], codec) for i in range(len(frames))]
    return EncodedFrames(name, codec, (height, width), chunks)


def encode_frame(frame: UInt8, codec: FrameCodec = "jpeg") -> bytes:
    """The bytes of one frame (H, W, 3), with their CRC."""
    frame = np.ascontiguousarray(frame)
    if codec == "jpeg":
        content = simplejpeg.encode_jpeg(frame, JPEG_QUALITY, colorsubsampling=JPEG_SUBSAMPLING)
    elif codec == "zstd":
        content = Zstd(ZSTD_LEVEL).encode(frame)
    else:
        content = frame.tobytes()
    return bytes(content) + google_crc32c.value(content).to_bytes(_CRC_SIZE, "little")


def decode_frames(jobs: Sequence[tuple[EncodedFrames, int]], out: UInt8) -> None:
    """Write frame i of each (frames, i) to the rows of `out` (n, H, W, 3). The decoders run on all cores."""
    threads = min(_THREADS, len(jobs) // _FEWEST_A_THREAD)
    if threads < 2:
        _decode_part(jobs, out)
        return
    edges = [len(jobs) * k // threads for k in range(threads + 1)]
    parts = [(jobs[a:b], out[a:b]) for a, b in pairwise(edges)]
    for _ in _pool().map(_decode_part, *zip(*parts, strict=True)):
        pass  # the first error is raised here


def _decode_part(jobs: Sequence[tuple[EncodedFrames, int]], out: UInt8) -> None:
    for (frames, index), row in zip(jobs, out, strict=True):
        frames.decode(index, row)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="frames")


def _decode(codec: FrameCodec, content: NDArray[np.uint8], out: UInt8) -> None:
    if codec == "jpeg":
        picture = simplejpeg.decode_jpeg(content, buffer=out)
        if picture.shape != out.shape:
            raise ValueError(f"it has the shape {picture.shape}, expected {out.shape}")
        return
    flat = content if codec == "raw" else np.frombuffer(Zstd().decode(content), np.uint8)
    out[...] = flat.reshape(out.shape)
