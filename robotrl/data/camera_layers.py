"""Camera layers: frames rendered later from the physics that episodes keep, versioned beside them.

    cameras/<layer>/<episode id>.zarr.zip     the cameras of one episode, laid out as in the episode itself

A file says which episode content it belongs to, and is immutable. Where a simulated episode has no frames, or others
are wanted, a layer gives them without touching the episode.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from robotrl.data.durable import ensure_directory, write_atomic
from robotrl.data.entry import StoreEntry
from robotrl.data.episode_file import SUFFIX, camera_group, cameras_of, check_camera
from robotrl.data.frames import FrameCodec, encode_frames
from robotrl.data.images import CameraSource
from robotrl.data.names import require_name
from robotrl.data.snapshot import StoreSnapshot
from robotrl.data.store import EpisodeStore
from robotrl.data.zarr_zip import ZarrGroup, encode_group, read_group
from robotrl.errors import DataError, RobotRLError
from robotrl.specs import CameraSpec
from robotrl.types import CameraFrames, Float32, Float64, Int32, UInt8

FORMAT = 1
Renderer = Callable[[Float64, Float32], Mapping[str, UInt8]]
"""Draws physics states (F, X) stored with privileged vectors (F, P): camera → (F, H, W, 3) uint8."""


def render_layer(
    store: EpisodeStore,
    snapshot: StoreSnapshot,
    layer: str,
    cameras: Sequence[CameraSpec],
    renderer: Renderer,
    *,
    every: int = 1,
    codec: FrameCodec = "jpeg",
) -> int:
    """Render the episodes that the layer lacks, one at a time; an interrupted call made again goes on.

    Args:
        store: the store that the snapshot is of.
        snapshot: the episodes to render.
        layer: its name; give another one when cameras, their sizes or their visual profiles change.
        cameras: what the renderer draws.
        renderer: draws physics states.
        every: every so many state rows get a frame.
        codec: how frames are stored.

    Returns:
        The number of episodes rendered.

    Raises:
        DataError: an episode is damaged, or a file of the layer belongs to other content or shows it otherwise.
    """
    directory = ensure_directory(store.root / "cameras" / require_name("camera layer", layer))
    rendered = 0
    for entry in snapshot.entries:
        path = directory / f"{entry.episode_id}{SUFFIX}"
        tick = np.arange(0, entry.length + 1, every, dtype=np.int32)
        if path.exists():
            _require_same(path, entry, cameras, tick)
            continue
        episode = snapshot.read(entry)
        pictures = renderer(episode.physics[tick], episode.privileged[tick])
        drawn = {name: CameraFrames(tick, encode_frames(frames, codec)) for name, frames in pictures.items()}
        for name, camera in drawn.items():
            check_camera(camera, entry.length, f"layer '{layer}': camera '{require_name('camera', name)}'")
        profiles = {camera.name: camera.profile for camera in cameras}
        root = {"robotrl_cameras": FORMAT, "episode": entry.episode_id, "crc": entry.crc, "profiles": profiles}
        group = camera_group(drawn)
        write_atomic(path, encode_group(replace(group, attributes={"": root, **group.attributes})))
        rendered += 1
    return rendered


def layer_frames(store: EpisodeStore, layer: str) -> CameraSource:
    """The frames of the layer, for `StoredImages` and `CachedImages`; `DataError` for an episode that it lacks."""
    directory = store.root / "cameras" / require_name("camera layer", layer)

    def read(entry: StoreEntry) -> Mapping[str, CameraFrames]:
        path = directory / f"{entry.episode_id}{SUFFIX}"
        if not path.exists():
            raise DataError(f"the camera layer '{layer}' lacks episode {entry.episode_id}: render it first")
        return _read(path, entry)

    return read


def check_pictures(cameras: Mapping[str, CameraFrames]) -> None:
    """Decode every picture, one in memory at a time; raises `DataError` for a damaged one."""
    for camera in cameras.values():
        for at in range(len(camera.frames)):
            camera.frames[at]


def check_layers(store: Path, entries: Iterable[StoreEntry]) -> Iterator[tuple[Path, str]]:
    """The files of all layers that are no whole pictures of one of the episodes, and what is wrong with each."""
    known = {entry.episode_id: entry for entry in entries}
    for path in sorted((store / "cameras").glob(f"*/*{SUFFIX}")):
        try:
            entry = known.get(path.name.removesuffix(SUFFIX))
            if entry is None:
                raise DataError(f"{path}: the store has no such episode")
            check_pictures(_read(path, entry))
        except RobotRLError as error:
            yield path, str(error)


def _require_same(path: Path, entry: StoreEntry, cameras: Sequence[CameraSpec], tick: Int32) -> None:
    """Raise `DataError` unless the file shows the state rows `tick` (F,) of the episode through these cameras."""
    group = _group(path, entry)
    profiles = group.attributes[""].get("profiles", {})
    there = cameras_of(group)
    found = {_named(name, c.frames.shape, profiles.get(name, "full")) for name, c in there.items()}
    asked = {_named(c.name, (len(tick), c.height, c.width, 3), c.profile) for c in cameras}
    if found != asked:
        raise DataError(f"{path}: has {', '.join(sorted(found))}, not {', '.join(sorted(asked))}: choose another layer")
    if any(not np.array_equal(camera.tick, tick) for camera in there.values()):
        raise DataError(f"{path}: has pictures of other ticks than those asked for: choose another layer")


def _named(name: str, shape: tuple[int, ...], profile: str) -> str:
    """A camera's F pictures (F, H, W, 3) in words."""
    return f"{shape[0]} pictures of {shape[1]} x {shape[2]} of camera '{name}', {profile}"


def _read(path: Path, entry: StoreEntry) -> dict[str, CameraFrames]:
    return cameras_of(_group(path, entry))


def _group(path: Path, entry: StoreEntry) -> ZarrGroup:
    """What the file holds: cameras whose frames fit the episode that it must belong to."""
    group = read_group(path, verify=False)  # every frame has a CRC of its own
    root = group.attributes[""]
    belongs = (root.get("robotrl_cameras"), root.get("episode"), root.get("crc"))
    if belongs != (FORMAT, entry.episode_id, entry.crc):
        raise DataError(
            f"{path}: expected cameras of format {FORMAT} for episode {entry.episode_id} with CRC {entry.crc}, got "
            f"{belongs}: delete the file and render it again, or choose another layer"
        )
    missing = [p for p in group.frames if p.replace("/frames", "/tick") not in group.arrays]
    if missing:
        raise DataError(f"{path}: {', '.join(missing)} lacks its array 'tick'")
    for name, camera in cameras_of(group).items():
        check_camera(camera, entry.length, f"{path}: camera '{name}'")
    return group
