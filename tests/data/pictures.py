"""Camera frames that look like rendered ones: a moving box and disc on a gradient."""

from dataclasses import replace

import numpy as np

from robotrl.types import CameraFrames, Episode


def pictures(count: int, height: int = 32, width: int = 40, seed: int = 0) -> np.ndarray:
    """(count, height, width, 3) uint8."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    background = np.stack([60 + 120 * y / height, 90 + 80 * x / width, np.full_like(x, 140)], -1)
    frames = np.repeat(background[None], count, 0)
    phase = np.arange(count)[:, None, None] / 15 + rng.uniform(0, 6)
    centre = height / 2 + height / 3 * np.sin(phase), width / 2 + width / 3 * np.cos(1.3 * phase)
    box = (abs(y - centre[0]) < height / 8) & (abs(x - centre[1]) < width / 6)
    disc = (y - centre[1]) ** 2 + (x - centre[0]) ** 2 < (height / 7) ** 2
    frames[box], frames[disc] = rng.integers(0, 255, 3), rng.integers(0, 255, 3)
    return frames.astype(np.uint8)


def with_cameras(episode: Episode, every: int = 1, size: tuple[int, int] = (32, 40)) -> Episode:
    """The episode with cameras "front" and "wrist" that show every `every`-th state."""
    tick = np.arange(0, episode.length + 1, every, dtype=np.int32)
    seed = 2 * episode.meta.seed
    return replace(
        episode,
        cameras={
            "front": CameraFrames(tick, pictures(len(tick), *size, seed)),
            "wrist": CameraFrames(tick, pictures(len(tick), *size, seed + 1)),
        },
    )
