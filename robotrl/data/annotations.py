"""Annotations: versioned columns keyed by (episode, tick), with their lineage; immutable once written.

One file a version, a Zarr group in a zip: each column is one flat array over all episodes in the order of their ids,
`offsets` (E + 1,) int64 says where each begins, and the attributes hold the ids and the lineage.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.durable import ensure_directory, storage_errors, write_atomic
from robotrl.data.episode_file import SUFFIX
from robotrl.data.journal import JSON
from robotrl.data.names import require_name
from robotrl.data.zarr_zip import ZarrGroup, encode_group, read_group
from robotrl.errors import DataError, unknown_name
from robotrl.interfaces import Columns
from robotrl.types import Float32

FORMAT = 1


@dataclass(frozen=True)
class Annotations:
    """Columns of a version: episode id → column name → (T,) float32, and what they were made from."""

    kind: str
    version: str
    columns: Mapping[str, Columns]
    lineage: Mapping[str, JSON]


def write_annotations(root: Path, annotations: Annotations, lengths: Mapping[str, int]) -> None:
    """Write the version below `root`, durably; equal content that is there already is left alone.

    Args:
        root: directory of all annotations of a store.
        annotations: at least one episode; all have the same columns.
        lengths: ticks T of every episode of the store.

    Raises:
        DataError: an unknown episode, a column of wrong length, or other content under this version.
    """
    path = annotation_path(root, annotations.kind, annotations.version)
    content = encode_group(_to_group(annotations, lengths))
    if path.exists():
        with storage_errors("read", path):
            if path.read_bytes() == content:
                return
        raise DataError(f"{path} exists with other content: annotations are immutable, choose another version")
    ensure_directory(path.parent)
    write_atomic(path, content)


def read_annotations(root: Path, kind: str, version: str) -> Annotations:
    """Read a version; raises for one that does not exist (naming the nearest) and for a damaged file."""
    path = annotation_path(root, kind, version)
    if not path.exists():
        raise unknown_name(f"version of the annotation '{kind}'", version, annotation_versions(root, kind))
    group = read_group(path)
    raw = group.attributes[""]
    if raw.get("robotrl_annotations") != FORMAT:
        raise DataError(f"{path}: expected annotations of format {FORMAT}, got {raw.get('robotrl_annotations')!r}")
    offsets, names = group.arrays["offsets"], [name for name in group.arrays if name != "offsets"]
    columns = {
        episode: {name: group.arrays[name][offsets[i] : offsets[i + 1]] for name in names}
        for i, episode in enumerate(raw["episodes"])
    }
    return Annotations(kind, version, columns, raw["lineage"])


def annotation_path(root: Path, kind: str, version: str) -> Path:
    """Where the version lies."""
    return root / require_name("kind of annotation", kind) / f"{require_name('version', version)}{SUFFIX}"


def annotation_versions(root: Path, kind: str) -> tuple[str, ...]:
    """Names of the versions that exist, sorted."""
    found = (root / require_name("kind of annotation", kind)).glob(f"[!.]*{SUFFIX}")
    return tuple(sorted(path.name.removesuffix(SUFFIX) for path in found))


def _to_group(annotations: Annotations, lengths: Mapping[str, int]) -> ZarrGroup:
    ids = sorted(annotations.columns)
    if not ids:
        raise DataError(f"annotation '{annotations.kind}/{annotations.version}' covers no episode")
    unknown = [i for i in ids if i not in lengths]
    if unknown:
        raise DataError(f"{len(unknown)} of {len(ids)} episodes are not in the store: {', '.join(unknown[:5])}")
    names = sorted(annotations.columns[ids[0]])
    for name in names:
        require_name("column", name)
    if "offsets" in names:
        raise DataError("a column cannot be called 'offsets'")
    arrays: dict[str, NDArray[Any]] = {}
    for name in names:
        columns = [_column(annotations.columns[i], i, name, names, lengths[i]) for i in ids]
        arrays[name] = np.concatenate(columns)
    arrays["offsets"] = np.cumsum([0, *(lengths[i] for i in ids)], dtype=np.int64)
    root = {"robotrl_annotations": FORMAT, "episodes": ids, "lineage": annotations.lineage}
    return ZarrGroup(arrays, {"": root})


def _column(columns: Columns, episode: str, name: str, names: list[str], length: int) -> Float32:
    if sorted(columns) != names:
        raise DataError(f"episode {episode} has the columns {sorted(columns)}; expected {names} as for the others")
    column = np.asarray(columns[name], np.float32)
    if column.shape != (length,):
        raise DataError(f"column '{name}' of episode {episode} has the shape {column.shape}; expected ({length},)")
    return column
