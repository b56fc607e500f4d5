"""Annotations: versioned columns keyed by (episode, tick), with their lineage; immutable once written.

One file a version, a Zarr group in a zip: each column is one flat array over all episodes in the order of their ids,
`offsets` (E + 1,) int64 says where each begins, `crc` (E,) int64 is the CRC-32 of each episode's rows, column by
column in the order of their names, and the attributes hold the ids and the lineage.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.durable import FileLock, ensure_directory, storage_errors, write_atomic
from robotrl.data.episode_file import SUFFIX
from robotrl.data.journal import JSON
from robotrl.data.names import is_name, require_name
from robotrl.data.zarr_zip import ZarrGroup, encode_group, read_group
from robotrl.errors import DataError, unknown_name

FORMAT = 1
LINEAGE_KEYS = ("made_by", "code")
"""What every lineage says: what made the columns ("labels:corrections", "person", …), and the code's fingerprint."""
_DTYPES = ("float32", "int32", "uint8")
_OWN_ARRAYS = ("offsets", "crc")

TickColumns = Mapping[str, NDArray[Any]]
"""Annotation columns of one episode: name → (T,) float32, int32 or uint8."""


@dataclass(frozen=True)
class Annotations:
    """Columns of a version: episode id → column name → (T,) float32, int32 or uint8, and what they were made from."""

    kind: str
    version: str
    columns: Mapping[str, TickColumns]
    lineage: Mapping[str, JSON]


def write_annotations(root: Path, annotations: Annotations, lengths: Mapping[str, int]) -> None:
    """Write the version below `root`, durably; equal content that is there already is left alone.

    Equal are columns and all of the lineage but `code`: a stage that was interrupted may be repeated by newer code.

    Args:
        root: directory of all annotations of a store.
        annotations: at least one episode; all have the same columns of the same types. The lineage has
            `LINEAGE_KEYS`.
        lengths: ticks T of every episode of the store.

    Raises:
        DataError: an unknown episode, a column of wrong length or type, a lineage that lacks a key, or other content
            under this version.
    """
    path = annotation_path(root, annotations.kind, annotations.version)
    group = _to_group(annotations, lengths)
    content = encode_group(group)
    ensure_directory(path.parent)
    # Two processes may choose the same new version at once: only one of them may find it free.
    with FileLock(path.parent / ".lock", wait=True):
        if path.exists():
            if _but_for_code(read_group(path)) == _but_for_code(group):
                return
            raise DataError(f"{path} exists with other content: annotations are immutable, choose another version")
        write_atomic(path, content)


def read_annotations(root: Path, kind: str, version: str, episodes: Iterable[str] | None = None) -> Annotations:
    """Read a version.

    Args:
        root: directory of all annotations of a store.
        kind: of annotation ("labels").
        version: which one.
        episodes: ids to read, those of them that the version covers; only their rows are touched. All when None.

    Raises:
        ConfigurationError: there is no such version; the message names the nearest.
        DataError: the file is damaged.
    """
    path = annotation_path(root, kind, version)
    if not path.exists():
        raise unknown_name(f"version of the annotation '{kind}'", version, annotation_versions(root, kind))
    group = read_group(path, verify=episodes is None)
    raw = group.attributes[""]
    if raw.get("robotrl_annotations") != FORMAT:
        raise DataError(f"{path}: expected annotations of format {FORMAT}, got {raw.get('robotrl_annotations')!r}")
    missing = [name for name in _OWN_ARRAYS if name not in group.arrays]
    if missing or not {"episodes", "lineage"} <= raw.keys():
        raise DataError(f"{path}: not a readable annotation (it lacks {', '.join(missing) or 'episodes or lineage'})")
    place = {episode: row for row, episode in enumerate(raw["episodes"])}
    wanted = place if episodes is None else [i for i in sorted(set(episodes)) if i in place]
    columns = {episode: _rows(path, group, place[episode]) for episode in wanted}
    return Annotations(kind, version, columns, raw["lineage"])


def annotation_path(root: Path, kind: str, version: str) -> Path:
    """Where the version lies."""
    return root / require_name("kind of annotation", kind) / f"{require_name('version', version)}{SUFFIX}"


def annotation_versions(root: Path, kind: str) -> tuple[str, ...]:
    """Names of the versions that exist, sorted."""
    found = (root / require_name("kind of annotation", kind)).glob(f"[!.]*{SUFFIX}")
    return tuple(sorted(path.name.removesuffix(SUFFIX) for path in found))


def list_annotations(root: Path) -> tuple[tuple[str, str], ...]:
    """(kind, version) of everything below `root`, sorted."""
    if not root.is_dir():
        return ()
    with storage_errors("read", root):
        kinds = sorted(path.name for path in root.iterdir() if path.is_dir() and is_name(path.name))
    return tuple((kind, version) for kind in kinds for version in annotation_versions(root, kind))


def _rows(path: Path, group: ZarrGroup, row: int) -> dict[str, NDArray[Any]]:
    """The columns of the episode in place `row`; `DataError` when they are not what was written."""
    start, stop = group.arrays["offsets"][row : row + 2]
    columns = {n: array[start:stop] for n, array in group.arrays.items() if n not in _OWN_ARRAYS}
    if _crc(columns) != group.arrays["crc"][row]:
        raise DataError(f"{path}: the columns of episode {group.attributes['']['episodes'][row]} are damaged")
    return columns


def _to_group(annotations: Annotations, lengths: Mapping[str, int]) -> ZarrGroup:
    ids, name = sorted(annotations.columns), f"annotation '{annotations.kind}/{annotations.version}'"
    if not ids:
        raise DataError(f"{name} covers no episode")
    missing = [key for key in LINEAGE_KEYS if key not in annotations.lineage]
    if missing:
        raise DataError(f"the lineage of {name} lacks {', '.join(missing)}: say what made it, and with which code")
    unknown = [i for i in ids if i not in lengths]
    if unknown:
        raise DataError(f"{len(unknown)} of {len(ids)} episodes are not in the store: {', '.join(unknown[:5])}")
    kinds = {column: _dtype(column, array) for column, array in sorted(annotations.columns[ids[0]].items())}
    rows = [_checked(annotations.columns[i], i, kinds, lengths[i]) for i in ids]
    arrays = {column: np.concatenate([named[column] for named in rows]) for column in kinds}
    arrays["offsets"] = np.cumsum([0, *(lengths[i] for i in ids)], dtype=np.int64)
    arrays["crc"] = np.array([_crc(named) for named in rows], np.int64)
    root = {"robotrl_annotations": FORMAT, "episodes": ids, "lineage": annotations.lineage}
    return ZarrGroup(arrays, {"": root})


def _but_for_code(group: ZarrGroup) -> tuple[dict[str, bytes], JSON]:
    """What two versions must share to count as one: arrays, episodes and all of the lineage but the code."""
    root = dict(group.attributes[""])
    lineage = {key: value for key, value in root.pop("lineage", {}).items() if key != "code"}
    arrays = {name: array.tobytes() for name, array in group.arrays.items()}
    return arrays, json.loads(json.dumps([root, lineage]))


def _dtype(name: str, column: NDArray[Any]) -> np.dtype[Any]:
    """The type that the column is stored as: its own, or what holds it without loss of meaning."""
    require_name("column", name)
    if name in _OWN_ARRAYS:
        raise DataError(f"a column cannot be called '{name}'")
    dtype = np.asarray(column).dtype
    stored = {"float64": "float32", "bool": "uint8"}.get(dtype.name, dtype.name)
    if stored not in _DTYPES:
        raise DataError(f"column '{name}' has the type {dtype}; expected one of {', '.join(_DTYPES)}")
    return np.dtype(stored)


def _checked(columns: TickColumns, episode: str, kinds: Mapping[str, np.dtype[Any]], length: int) -> TickColumns:
    if columns.keys() != kinds.keys():
        raise DataError(
            f"episode {episode} has the columns {sorted(columns)}; expected {list(kinds)} as for the others"
        )
    checked: dict[str, NDArray[Any]] = {}
    for name, kind in kinds.items():
        if _dtype(name, columns[name]) != kind:
            raise DataError(f"column '{name}' of episode {episode} has another type than {kind}, which others have")
        checked[name] = np.asarray(columns[name], kind)
        if checked[name].shape != (length,):
            raise DataError(
                f"column '{name}' of episode {episode} has the shape {checked[name].shape}; expected ({length},)"
            )
    return checked


def _crc(columns: TickColumns) -> int:
    crc = 0
    for name in sorted(columns):
        crc = zlib.crc32(np.ascontiguousarray(columns[name]).data.cast("B") if len(columns[name]) else b"", crc)
    return crc
