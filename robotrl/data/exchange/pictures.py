"""Pictures at the control rate, where a camera was slower."""

from collections.abc import Iterator

import numpy as np

from robotrl.types import CameraFrames, UInt8


def one_a_row(camera: CameraFrames, rows: int) -> Iterator[UInt8]:
    """At every state row the latest picture until then (H, W, 3); before the first one, that. Each is decoded once."""
    places = np.maximum(np.searchsorted(camera.tick, np.arange(rows), side="right") - 1, 0)
    picture, shown = camera.frames[0], 0
    for place in places:
        if place != shown:
            picture, shown = camera.frames[int(place)], place
        yield picture
