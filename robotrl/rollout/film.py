"""Camera frames of running episodes. They are encoded as they come, since raw ones of many worlds exceed memory."""

from dataclasses import dataclass, field

import numpy as np

from robotrl.data.frames import EncodedFrames, TakenFrame, encode_frame
from robotrl.errors import ConfigurationError
from robotrl.types import Bool, CameraFrames, Int64, Observation


@dataclass
class _Reel:
    """The frames of one episode so far: state rows, and camera → encoded frames and (H, W)."""

    ticks: list[int] = field(default_factory=list[int])
    chunks: dict[str, list[bytes]] = field(default_factory=dict[str, list[bytes]])
    size: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])


class Film:
    """Keeps the frames of every `every`-th state row of N running episodes."""

    def __init__(self, worlds: int, every: int) -> None:
        if every < 1:
            raise ConfigurationError(f"camera frames of every {every} ticks: expected at least 1")
        self._every = every
        self._reels = [_Reel() for _ in range(worlds)]
        self._first = np.zeros(worlds, np.int64)

    def begin(self, rows: Int64, tick: Int64) -> None:
        """The worlds `rows` (n,) begin episodes at `tick` (n,) since reset, whose state is the row 0."""
        self._first[rows] = tick

    def ticks_to_frame(self, tick: Int64, mask: Bool) -> int:
        """Ticks from `tick` (N,) until the next frame of any world in `mask` (N,) is due."""
        return int((self._every - (tick - self._first)[mask] % self._every).min(initial=self._every))

    def due(self, tick: Int64, mask: Bool) -> Bool:
        """Which worlds (N,) in `mask` (N,) have a frame due at their `tick` (N,)."""
        return mask & ((tick - self._first) % self._every == 0)

    def take(self, observation: Observation, mask: Bool) -> list[tuple[int, TakenFrame]]:
        """Keep the frames of the worlds in `mask` (N,) that are due at the observation's tick; repeats are left out.

        Returns the frames that were kept, each with its world.
        """
        taken: list[tuple[int, TakenFrame]] = []
        for row in np.flatnonzero(self.due(observation.tick, mask)):
            reel, tick = self._reels[row], int(observation.tick[row] - self._first[row])
            if tick in reel.ticks[-1:]:
                continue
            reel.ticks.append(tick)
            for name, images in observation.images.items():
                frame = TakenFrame(name, tick, (images.shape[1], images.shape[2]), encode_frame(images[row]))
                reel.size[name] = frame.size
                reel.chunks.setdefault(name, []).append(frame.content)
                taken.append((int(row), frame))
        return taken

    def finish(self, row: int) -> dict[str, CameraFrames]:
        """The frames of the episode that ended in world `row`, which begins a new one."""
        reel, self._reels[row] = self._reels[row], _Reel()
        tick = np.array(reel.ticks, np.int32)
        return {
            name: CameraFrames(tick, EncodedFrames(f"camera '{name}'", "jpeg", reel.size[name], chunks))
            for name, chunks in reel.chunks.items()
        }
