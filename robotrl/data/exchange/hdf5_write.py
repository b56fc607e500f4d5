"""Writing HDF5 files so that no failure is lost.

h5py writes many bytes only when it drops an object, where Python can raise nothing: on a full disk it prints warnings
and goes on. So HDF5 writes through a file of ours, which remembers the first failure and lets us raise it.
"""

import io
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from robotrl.data.durable import storage_errors
from robotrl.data.exchange.optional import require_module


class _Remembering(io.FileIO):
    """An unbuffered file that keeps its first failed write and claims that it and all later ones succeeded."""

    failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest and self.failure is None:
            try:
                rest = rest[super().write(rest) :]
            except OSError as error:
                self.failure = error
        return size


@contextmanager
def new_hdf5(path: Path) -> Generator[tuple[Any, Callable[[], None]]]:
    """A new h5py file, and a function that raises `StorageError` if anything could not be written until now.

    The same is raised at the end of the block; what is in the file then is of no use.
    """
    h5py = require_module("h5py", "hdf5")
    with storage_errors("write", path):
        target = _Remembering(path, "w+")

    def check() -> None:
        if target.failure is not None:
            with storage_errors("write", path):
                raise target.failure

    with target:
        try:
            with h5py.File(target, "w") as file:
                yield file, check
        finally:
            check()
