"""An `Episode` as one file: a Zarr v3 group in an uncompressed zip (see `zarr_zip`).

The fields of the dataclasses are the format: every array field of `Episode` is an array of the root group, every
field of `ChunkTable` one of the sub-group `chunks`, and `EpisodeMeta` is the root's attribute `meta`. Every camera is a
sub-group `cameras/<name>` with the arrays `tick` and `frames`.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from robotrl.data.frames import encode_frames
from robotrl.data.journal import JSON
from robotrl.data.names import require_name
from robotrl.data.zarr_zip import ZarrGroup, encode_group, read_group
from robotrl.errors import DataError
from robotrl.types import CameraFrames, ChunkTable, Episode, EpisodeMeta

SUFFIX = ".zarr.zip"
FORMAT = 1
_WITH_LAST_STATE = frozenset({"state", "privileged", "physics", "time_ns"})
"""Arrays with T + 1 rows; all others of `Episode` have T."""


def _dtypes(kind: type) -> dict[str, np.dtype[Any]]:
    """Array fields of the dataclass and the element type that its annotation `NDArray[...]` names."""
    hints = {f.name: get_type_hints(kind)[f.name] for f in fields(kind)}
    return {n: np.dtype(get_args(get_args(h)[1])[0]) for n, h in hints.items() if get_origin(h) is np.ndarray}


_TICKS = _dtypes(Episode)
_CHUNKS = _dtypes(ChunkTable)
_META = get_type_hints(EpisodeMeta)


def encode_episode(episode: Episode) -> bytes:
    """The bytes of the episode's file; equal episodes give equal bytes.

    Frames that are not encoded yet become JPEG. Raises `DataError` for arrays of wrong type or length.
    """
    check_episode(episode, f"episode {episode.meta.episode_id}")
    arrays = {name: getattr(episode, name) for name in _TICKS}
    arrays |= {f"chunks/{name}": getattr(episode.chunks, name) for name in _CHUNKS}
    root = {"robotrl_episode": FORMAT, "meta": meta_to_json(episode.meta)}
    cameras = camera_group(episode.cameras)
    attributes = {"": root, "chunks": {}, **cameras.attributes}
    return encode_group(ZarrGroup(arrays | dict(cameras.arrays), attributes, cameras.frames))


def camera_group(cameras: Mapping[str, CameraFrames]) -> ZarrGroup:
    """The cameras as sub-groups of "cameras", in the order of their names; nothing when there are none."""
    attributes: dict[str, Mapping[str, Any]] = {"cameras": {}} if cameras else {}
    ordered = {f"cameras/{name}": cameras[name] for name in sorted(cameras)}
    return ZarrGroup(
        arrays={f"{path}/tick": camera.tick for path, camera in ordered.items()},
        attributes=attributes | {path: {} for path in ordered},
        frames={f"{path}/frames": encode_frames(camera.frames) for path, camera in ordered.items()},
    )


def cameras_of(group: ZarrGroup) -> dict[str, CameraFrames]:
    """The cameras that `camera_group` put into the group; `KeyError` when one lacks its ticks."""
    names = [path.split("/")[1] for path in group.frames]
    return {n: CameraFrames(group.arrays[f"cameras/{n}/tick"], group.frames[f"cameras/{n}/frames"]) for n in names}


def read_episode(path: Path, *, verify: bool = True, offset: int = 0, size: int | None = None) -> Episode:
    """The episode in the file, its arrays read-only and mapped into memory.

    Args:
        path: a file that `encode_episode` made, or a segment that holds one.
        verify: check every CRC-32 (reads the whole episode).
        offset: byte at which the episode's zip begins.
        size: bytes of the zip; to the end of the file when None.

    Raises:
        DataError: the file is damaged or not an episode; the message names the file and what is wrong.
    """
    group = read_group(path, verify=verify, offset=offset, size=size)
    root = group.attributes[""]
    if root.get("robotrl_episode") != FORMAT or not isinstance(root.get("meta"), dict):
        raise DataError(f"{path}: expected a robotrl episode of format {FORMAT}, got {root.get('robotrl_episode')!r}")
    needed = (*_TICKS, *(f"chunks/{c}" for c in _CHUNKS), *(p.replace("/frames", "/tick") for p in group.frames))
    missing = [name for name in needed if name not in group.arrays]
    if missing:
        raise DataError(f"{path}: arrays are missing: {', '.join(missing)}")
    chunks = ChunkTable(**{name: group.arrays[f"chunks/{name}"] for name in _CHUNKS})
    ticks = {name: group.arrays[name] for name in _TICKS}
    meta = meta_from_json(root["meta"], str(path))
    episode = Episode(meta=meta, chunks=chunks, cameras=cameras_of(group), **ticks)
    check_episode(episode, str(path))
    return episode


def check_episode(episode: Episode, where: str) -> None:
    """Raise `DataError`, beginning with `where`, unless all arrays have their type and agree about T and C."""
    length = len(episode.action)
    for name, dtype in _TICKS.items():
        rows = length + 1 if name in _WITH_LAST_STATE else length
        _check_array(getattr(episode, name), dtype, rows, f"{where}: array '{name}'")
    for name, dtype in _CHUNKS.items():
        rows = len(episode.chunks.start_tick)
        _check_array(getattr(episode.chunks, name), dtype, rows, f"{where}: array 'chunks/{name}'")
    for name, camera in episode.cameras.items():
        check_camera(camera, length, f"{where}: camera '{require_name('camera', name)}'")


def check_camera(camera: CameraFrames, length: int, where: str) -> None:
    """Raise `DataError`, beginning with `where`, unless the camera has a frame of some size for each of its ticks.

    `length` is T of the episode; the ticks must ascend within 0 … T.
    """
    tick, frames = camera.tick, camera.frames
    _check_array(tick, np.dtype(np.int32), len(frames), f"{where}, array 'tick'")
    if len(frames.shape) != 4 or frames.shape[3] != 3 or min(frames.shape[1:]) < 1:
        raise DataError(f"{where}: expected frames (F, height, width, 3), got the shape {frames.shape}")
    if isinstance(frames, np.ndarray) and frames.dtype != np.uint8:
        raise DataError(f"{where}: expected frames of uint8, got {frames.dtype}")
    if len(tick) and (tick[0] < 0 or tick[-1] > length or (np.diff(tick) <= 0).any()):
        raise DataError(f"{where}: expected ticks that ascend within 0 and {length}, got {tick}")


def _check_array(array: NDArray[Any], dtype: np.dtype[Any], rows: int, where: str) -> None:
    if array.dtype != dtype or array.ndim == 0 or len(array) != rows:
        raise DataError(f"{where}: expected {rows} rows of {dtype}, got shape {array.shape} of {array.dtype}")


def meta_to_json(meta: EpisodeMeta) -> dict[str, JSON]:
    """The metadata as plain values; NumPy numbers become Python's."""
    return {n: hint(getattr(meta, n)) if hint in (int, float) else getattr(meta, n) for n, hint in _META.items()}


def meta_from_json(raw: Mapping[str, Any], where: str) -> EpisodeMeta:
    """Read back what `meta_to_json` gave, through JSON or Zarr attributes.

    Fields with a default may be absent; `where` begins the error.
    """
    values: dict[str, Any] = {}
    for field in fields(EpisodeMeta):
        if field.name in raw:
            values[field.name] = _from_json(raw[field.name], field.name, where)
        elif field.default is MISSING:
            raise DataError(f"{where}: the metadata lacks '{field.name}'")
    return EpisodeMeta(**values)


def _from_json(value: Any, name: str, where: str) -> Any:
    hint = _META[name]
    if hint is float and (isinstance(value, float | int) or value in ("NaN", "Infinity", "-Infinity")):
        return float(value)
    if hint in (int, str) and type(value) is hint:
        return value
    if name == "outcome" and value in (None, "success", "failure"):
        return value
    raise DataError(f"{where}: the metadata field '{name}' has the value {value!r}; expected {hint}")
