"""Cameras that stood still while the robot did not: a cable, a driver, a full buffer."""

from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from robotrl.data.frames import EncodedFrames
from robotrl.types import CameraFrames, Episode

FROZEN_S = 1.0
_MOVED = 1e-3
"""Change of a state element (m, rad) from which on a camera should see something else."""


@dataclass(frozen=True)
class FrozenCamera:
    """A camera that gave one picture from state row `start` to `stop` of an episode, while the state changed."""

    episode: str
    camera: str
    start: int
    stop: int


def frozen_cameras(episode: Episode) -> list[FrozenCamera]:
    """Where a camera repeats its picture for at least `FROZEN_S`."""
    enough = FROZEN_S * episode.meta.control_hz
    found: list[FrozenCamera] = []
    for name, camera in episode.cameras.items():
        for first, last in _runs(_digests(camera)):
            start, stop = int(camera.tick[first]), int(camera.tick[last])
            moved = np.abs(episode.state[stop] - episode.state[start]).max() > _MOVED
            if stop - start >= enough and moved:
                found.append(FrozenCamera(episode.meta.episode_id, name, start, stop))
    return found


def _digests(camera: CameraFrames) -> NDArray[np.int64]:
    """(F,) a number a picture, equal for equal ones. Equal pictures are equal when encoded, so none is decoded."""
    frames = camera.frames
    pictures = frames.chunks if isinstance(frames, EncodedFrames) else map(frames.__getitem__, range(len(frames)))
    return np.array([crc32(p if isinstance(p, bytes) else np.ascontiguousarray(p)) for p in pictures], np.int64)


def _runs(digests: NDArray[np.int64]) -> list[tuple[int, int]]:
    """(first, last) of all longest runs of equal neighbours with three members or more."""
    edges = np.flatnonzero(np.diff(digests)) + 1
    starts, stops = np.r_[0, edges], np.r_[edges, len(digests)]
    return [(int(a), int(b) - 1) for a, b in zip(starts, stops, strict=True) if b - a >= 3]
