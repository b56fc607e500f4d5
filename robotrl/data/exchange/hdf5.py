"""Reading HDF5 files in robomimic's layout: each part checked, and named when it is missing or damaged."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robotrl.data.durable import storage_errors
from robotrl.data.exchange.optional import require_module
from robotrl.errors import DataError


@dataclass(frozen=True)
class Demo:
    """One trajectory of T samples; `group` is its node."""

    path: Path
    name: str
    group: Any

    @property
    def length(self) -> int:
        """T; `DataError` unless it is a positive number."""
        length = int(attribute(self.group, "num_samples") or len(self.array("actions")))
        if length < 1:
            raise DataError(f"{self.path}: {self.name} has {length} samples; expected at least 1")
        return length

    def keys(self, group: str) -> tuple[str, ...]:
        """Names of the arrays in one of its groups, sorted; none where the group is missing."""
        return tuple(sorted(self.group[group])) if group in self.group else ()

    def shape(self, key: str) -> tuple[int, ...]:
        """The shape of an array."""
        return tuple(self._node(key).shape)

    def array(self, key: str, rows: int | None = None) -> NDArray[Any]:
        """An array, of `rows` rows if given; `DataError` when it is missing, damaged or of another length."""
        node = self._node(key)
        try:
            values = np.asarray(node[()])
        except (OSError, TypeError) as error:
            raise DataError(f"{self.path}: '{self.name}/{key}' is damaged ({error})") from error
        if rows is not None and (values.ndim == 0 or len(values) != rows):
            raise DataError(f"{self.path}: '{self.name}/{key}' has the shape {values.shape}; expected {rows} rows")
        return values

    def matrix(self, key: str, rows: int) -> NDArray[np.float32]:
        """(rows, D) float32; `DataError` when a value is not finite."""
        values = self.array(key, rows).reshape(rows, -1).astype(np.float32)
        if not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values))[0][0])
            raise DataError(f"{self.path}: '{self.name}/{key}' is not finite at row {row}: remove or repair the demo")
        return values

    def picture(self, key: str, row: int) -> NDArray[np.uint8]:
        """One picture (H, W, 3) of an array of them."""
        try:
            return np.asarray(self._node(key)[row])
        except (OSError, ValueError, IndexError) as error:
            raise DataError(f"{self.path}: '{self.name}/{key}' is damaged at row {row} ({error})") from error

    def _node(self, key: str) -> Any:
        try:
            node = self.group[key]
        except (KeyError, OSError) as error:
            raise DataError(f"{self.path}: '{self.name}/{key}' is missing or damaged") from error
        if not hasattr(node, "shape"):
            raise DataError(f"{self.path}: '{self.name}/{key}' is a group; expected an array")
        return node


@dataclass(frozen=True)
class DemoFile:
    """`demos` by number, the decoded `env_args`, and the format of our own files (None in those of others)."""

    path: Path
    demos: tuple[Demo, ...]
    arguments: Mapping[str, Any]
    format: int | None


@contextmanager
def open_demos(path: Path) -> Generator[DemoFile]:
    """The file, open for reading; `DataError` when it is missing, damaged or has no demos."""
    h5py = require_module("h5py", "hdf5")
    if not path.is_file():
        raise DataError(f"{path} is not a file: check the path")
    with storage_errors("read", path):
        path.open("rb").close()
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise DataError(f"{path}: not a readable HDF5 file, or cut short ({error})") from error
    with file:
        yield _demos(path, file)


def attribute(node: Any, name: str) -> Any:
    """An attribute, or None."""
    try:
        return node.attrs.get(name)
    except OSError:
        return None


def json_attribute(node: Any, name: str) -> Mapping[str, Any]:
    """An attribute that is a JSON object; empty where it is missing or is none."""
    try:
        value = json.loads(attribute(node, name) or "{}")
    except (ValueError, TypeError):
        return {}
    return value if isinstance(value, dict) else {}


def _demos(path: Path, file: Any) -> DemoFile:
    data = file.get("data")
    names = [name for name in data if hasattr(data[name], "keys")] if hasattr(data, "keys") else []
    if not names:
        raise DataError(f"{path} has no demos: expected groups data/demo_0, data/demo_1, …")
    names.sort(key=lambda name: (len(name), name))  # demo_2 comes before demo_10
    demos = tuple(Demo(path, name, data[name]) for name in names)
    own = attribute(data, "robotrl")
    return DemoFile(path, demos, json_attribute(data, "env_args"), None if own is None else int(own))
