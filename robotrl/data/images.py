"""Camera frames of training windows: decoded from the episodes on demand, or raw from a memory-mapped cache."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robotrl.data.cache import cache_directory
from robotrl.data.entry import StoreEntry
from robotrl.data.frames import decode_frames, encode_frames
from robotrl.data.names import require_name
from robotrl.data.rows import Column, cached_rows
from robotrl.data.snapshot import StoreSnapshot
from robotrl.data.store import EpisodeStore
from robotrl.errors import DataError
from robotrl.specs import CameraSpec
from robotrl.types import CameraFrames, Int64, UInt8

CameraSource = Callable[[StoreEntry], Mapping[str, CameraFrames]]
"""Where an episode's camera frames come from: `recorded`, or a layer that was rendered later."""
_OPEN_EPISODES = 16_384  # a process may have 65,530 mappings


class Images(Protocol):
    """Frames of one camera in E episodes; `ids` are these, in order."""

    @property
    def ids(self) -> tuple[str, ...]:
        """E episode ids."""
        ...

    def gather(self, episode: Int64, tick: Int64) -> UInt8:
        """At each state row `tick` (B, L) of `episode` (B,) the latest frame until then, (B, L, H, W, 3).

        Before the first frame of an episode it is the first.
        """
        ...


def recorded(snapshot: StoreSnapshot) -> CameraSource:
    """The frames in the episodes themselves."""
    return lambda entry: snapshot.read(entry, verify=False).cameras


class StoredImages:
    """Frames as they are stored, decoded on demand; an episode is opened when it is first drawn."""

    def __init__(self, snapshot: StoreSnapshot, camera: str, source: CameraSource | None = None) -> None:
        self.ids = snapshot.ids
        self._entries, self._name, self._source = snapshot.entries, camera, source or recorded(snapshot)
        self._camera = lru_cache(_OPEN_EPISODES)(self._open)

    def gather(self, episode: Int64, tick: Int64) -> UInt8:
        """See `Images`; `DataError` names the frame that is damaged, or the episode that lacks the camera."""
        cameras = [self._camera(int(e)) for e in episode]
        rows = [np.maximum(np.searchsorted(c.tick, t, "right") - 1, 0) for c, t in zip(cameras, tick, strict=True)]
        encoded = [encode_frames(camera.frames) for camera in cameras]
        size = encoded[0].size
        odd = next((frames for frames in encoded if frames.size != size), None)
        if odd is not None:
            raise DataError(f"{odd.name}: frames of {odd.size} (height, width) pixels; others have {size}")
        out = np.empty((*tick.shape, *size, 3), np.uint8)
        jobs = [(frames, int(i)) for frames, row in zip(encoded, rows, strict=True) for i in row]
        decode_frames(jobs, out.reshape(-1, *size, 3))
        return out

    def _open(self, episode: int) -> CameraFrames:
        return _camera_of(self._source, self._entries[episode], self._name)


class CachedImages:
    """Raw frames in a memory-mapped file: as fast as memory, at H · W · 3 bytes a frame of disk.

    `ids` are E episodes, `count` (E,) the number of their frames.
    """

    def __init__(self, ids: tuple[str, ...], start: Int64, count: Int64, columns: Mapping[str, NDArray[Any]]) -> None:
        """The cached rows (`start`, `count`, `columns` "tick" and "frames") of the episodes `ids`; see `build`."""
        self.ids, self.count = ids, count
        self._frames = columns["frames"]
        self._offset = start - (np.cumsum(count) - count)
        rows = np.repeat(self._offset, count) + np.arange(count.sum())
        # Ascending, since episodes follow each other and ticks ascend: one search finds episode and tick.
        self._keys = (np.repeat(np.arange(len(ids)), count) << 32) + columns["tick"][rows]
        self._first = np.cumsum(count) - count

    @property
    def size(self) -> tuple[int, int]:
        """(H, W) pixels."""
        height, width = self._frames.shape[1:3]
        return height, width

    @classmethod
    def build(
        cls,
        store: EpisodeStore,
        snapshot: StoreSnapshot,
        camera: str,
        *,
        layer: str = "recorded",
        source: CameraSource | None = None,
        root: Path | None = None,
    ) -> "CachedImages":
        """Decode the frames of the snapshot's episodes that no earlier call decoded, and map them.

        Args:
            store: the store that the snapshot is of.
            snapshot: at least one episode; all have the camera, with frames of one size.
            camera: its name.
            layer: what the frames are called in the cache.
            source: where they come from; the recorded ones by default.
            root: where caches lie; by default in the store.

        Raises:
            DataError: an episode lacks the camera, is damaged, or has frames of another size.
        """
        if not snapshot.entries:
            raise DataError("there are no episodes to train on: collect some, or widen the selection")
        frames_of = source or recorded(snapshot)
        shape = tuple(_camera_of(frames_of, snapshot.entries[0], camera).frames.shape[1:])

        def rows(entry: StoreEntry) -> dict[str, NDArray[Any]]:
            found = _camera_of(frames_of, entry, camera)
            if tuple(found.frames.shape[1:]) != shape:
                raise DataError(
                    f"episode {entry.episode_id}: camera '{camera}' has frames of {found.frames.shape[1:]}, "
                    f"expected {shape} as in episode {snapshot.ids[0]}"
                )
            return {"tick": found.tick, "frames": found.frames[:]}

        directory = cache_directory(store, root) / "frames" / require_name("camera layer", layer)
        size = "x".join(map(str, shape[:2]))
        columns = {"tick": Column((), "i4"), "frames": Column(shape, "u1")}
        cached = cached_rows(directory / f"{require_name('camera', camera)}-{size}", columns, snapshot.entries, rows)
        return cls(snapshot.ids, cached.start, cached.count, cached.columns)

    def gather(self, episode: Int64, tick: Int64) -> UInt8:
        """See `Images`."""
        place = np.searchsorted(self._keys, (episode[:, None].astype(np.int64) << 32) + tick, "right") - 1
        place = np.maximum(place, self._first[episode][:, None])
        return self._frames.take(place + self._offset[episode][:, None], axis=0)


def _camera_of(source: CameraSource, entry: StoreEntry, name: str) -> CameraFrames:
    cameras = source(entry)
    if name not in cameras or not len(cameras[name].tick):
        raise DataError(
            f"episode {entry.episode_id} has no frames of camera '{name}'; it has {sorted(cameras)}. Select the "
            "episodes that have it, or render it into a layer"
        )
    return cameras[name]


def images_of_every_tick(
    store: EpisodeStore, snapshot: StoreSnapshot, cameras: Sequence[CameraSpec], layer: str, source: CameraSource
) -> dict[str, CachedImages]:
    """Camera → the pictures of the snapshot's episodes, with one of every state row, as `CachedImages.build` has them.

    A policy acts on pictures of the tick it is at, so it must not learn from older ones: `DataError` where an episode
    has pictures of some ticks only, or of another size.
    """
    images = {c.name: CachedImages.build(store, snapshot, c.name, layer=layer, source=source) for c in cameras}
    for camera in cameras:
        found = images[camera.name]
        if found.size != (camera.height, camera.width):
            raise DataError(f"expected pictures of camera {camera}, the episodes have {found.size} (height, width)")
        for entry, count in zip(snapshot.entries, found.count, strict=True):
            if count != entry.length + 1:
                raise DataError(
                    f"episode {entry.episode_id} has {count} pictures of camera '{camera.name}' for {entry.length + 1} "
                    "states; training needs one of every state: collect with camera_every=1"
                )
    return images
