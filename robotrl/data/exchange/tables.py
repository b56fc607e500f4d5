"""Parquet files: of columns, one row group an episode, and of rows."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from robotrl.data.durable import ensure_directory, storage_errors
from robotrl.data.exchange.optional import require_module
from robotrl.errors import DataError


def arrow() -> Any:
    """The package pyarrow."""
    return require_module("pyarrow", "lerobot")


def parquet() -> Any:
    """The module pyarrow.parquet."""
    return require_module("pyarrow.parquet", "lerobot")


class TableFile:
    """A parquet file with one row group an episode."""

    def __init__(self, path: Path) -> None:
        self._path = made(path)
        self._writer: Any = None

    def write(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Append a row group: name → (T,) or (T, D)."""
        table = arrow().table({key: _arrow_column(column) for key, column in columns.items()})
        with storage_errors("write", self._path):
            self._writer = self._writer or parquet().ParquetWriter(self._path, table.schema)
            self._writer.write_table(table)

    def close(self) -> None:
        """Write the footer, without which the file is unreadable."""
        with storage_errors("write", self._path):
            self._writer.close()


def _arrow_column(column: NDArray[Any]) -> Any:
    """LeRobot keeps a vector of one element as a number."""
    if column.ndim == 1 or column.shape[1] == 1:
        return arrow().array(column.reshape(-1))
    return arrow().FixedSizeListArray.from_arrays(arrow().array(column.reshape(-1)), column.shape[1])


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write a whole file; all rows have the same keys."""
    with storage_errors("write", path):
        parquet().write_table(arrow().Table.from_pylist(list(rows)), made(path))


def write_tasks(path: Path, instructions: Sequence[str]) -> None:
    """Write LeRobot's table of tasks, a pandas frame whose index are the instructions, without importing pandas."""
    column = {"pandas_type": "int64", "numpy_type": "int64", "metadata": None}
    index = {"pandas_type": "unicode", "numpy_type": "object", "metadata": None}
    frame = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [
            {"name": "task_index", "field_name": "task_index", **column},
            {"name": "task", "field_name": "task", **index},
        ],
        "pandas_version": "2.0.0",
    }
    table = arrow().table({"task_index": range(len(instructions)), "task": list(instructions)})
    with storage_errors("write", path):
        parquet().write_table(table.replace_schema_metadata({"pandas": json.dumps(frame)}), made(path))


def read_table(path: Path, columns: Sequence[str] | None = None) -> Any:
    """The table in the file, or some of its columns; `DataError` when it is damaged or lacks one."""
    if not path.exists():
        raise DataError(f"{path} is missing: the data set is incomplete, copy it again")
    with storage_errors("read", path):
        try:
            return parquet().read_table(path, columns=columns, partitioning=None)
        except arrow().ArrowException as error:
            raise DataError(f"{path}: not a readable parquet file ({error})") from error


def column_values(table: Any, name: str, where: Path) -> NDArray[Any]:
    """A column of N rows as (N,), or (N, D) where each row is a list of D numbers."""
    if name not in table.column_names:
        raise DataError(f"{where}: the column '{name}' is missing")
    column = table.column(name).combine_chunks()
    if column.null_count:
        raise DataError(f"{where}: '{name}' has no value in {column.null_count} of {len(column)} rows")
    if not hasattr(column, "flatten") or not arrow().types.is_nested(column.type):
        return column.to_numpy(zero_copy_only=False)
    flat = column.flatten().to_numpy(zero_copy_only=False)
    if len(column) and len(flat) % len(column):
        raise DataError(f"{where}: the rows of '{name}' differ in length")
    return flat.reshape(len(column), len(flat) // max(1, len(column)))


def row_values(table: Any, row: int) -> dict[str, Any]:
    """One row by column name; lists of numbers are arrays."""
    scalars = {name: table.column(name)[row] for name in table.column_names}
    return {
        name: scalar.values.to_numpy(zero_copy_only=False) if hasattr(scalar, "values") else scalar.as_py()
        for name, scalar in scalars.items()
    }


def made(path: Path) -> Path:
    """The path, its directory created."""
    ensure_directory(path.parent)
    return path
