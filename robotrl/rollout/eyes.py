"""The pictures that a policy proposes from, drawn for the worlds that propose and for no others."""

from collections.abc import Sequence

import numpy as np

from robotrl.specs import CameraSpec
from robotrl.types import Bool, Int64, Observation, UInt8

_NEVER = -1


class Eyes:
    """The newest pictures that `cameras` gave of N worlds; where there is no camera, nothing is ever missing."""

    def __init__(self, worlds: int, cameras: Sequence[CameraSpec]) -> None:
        self._tick = np.full(worlds, _NEVER, np.int64)  # what a world's pictures show, of the episode that runs there
        self._pictures = {c.name: np.zeros((worlds, c.height, c.width, 3), np.uint8) for c in cameras}

    def forget(self, rows: Int64) -> None:
        """The worlds `rows` (n,) begin new episodes."""
        self._tick[rows] = _NEVER

    def missing(self, rows: Int64, tick: Int64) -> Bool:
        """Which worlds (N,) of `rows` (n,) have no picture of the `tick` (N,) at which they are."""
        mask = np.zeros(len(self._tick), np.bool_)
        if self._pictures:
            mask[rows] = self._tick[rows] != tick[rows]
        return mask

    def keep(self, observation: Observation, drawn: Bool) -> None:
        """Take the pictures of the worlds `drawn` (N,), whatever they were drawn for."""
        if not drawn.any():
            return
        for name, pictures in self._pictures.items():
            pictures[drawn] = observation.images[name][drawn]
        self._tick[drawn] = observation.tick[drawn]

    def pictures(self, rows: Int64) -> dict[str, UInt8]:
        """Camera → the newest pictures (n, H, W, 3) of the worlds `rows` (n,)."""
        return {name: pictures[rows] for name, pictures in self._pictures.items()}
