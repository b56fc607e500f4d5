"""What is written under a hidden name beside its target, and gets its own name once it is whole and durable."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from robotrl.data.durable import FileLock, ensure_directory, storage_errors, sync_directory, write_atomic
from robotrl.errors import DataError

_REQUEST, _LOCK = "request", "lock"


@contextmanager
def partial_directory(path: Path, request: str) -> Generator[Path]:
    """A directory to fill, which becomes `path` when the block ends without an error.

    Otherwise it stays, and the next call with an equal `request` goes on with what is in it; another request empties
    it first.

    Raises:
        DataError: `path` exists.
        RunBusyError: another process is filling the same directory.
        StorageError: the disk is full or cannot be written to.
    """
    with _held(path, request) as partial:
        yield partial
        with storage_errors("finish", path):
            for name in (_REQUEST, _LOCK):  # the lock itself is held until the end: it is on the open file
                (partial / name).unlink()
            _sync_tree(partial)
            require_absent(path)
            partial.rename(path)
            sync_directory(path.parent)


@contextmanager
def partial_file(path: Path) -> Generator[Path]:
    """The name of a file to write, which becomes `path` when the block ends without an error.

    What an interrupted call left is begun afresh. Raises as `partial_directory` does.
    """
    with _held(path, "") as directory:
        partial = directory / path.name
        with storage_errors("write", path):
            partial.unlink(missing_ok=True)
        yield partial
        with storage_errors("finish", path):
            sync_file(partial)
            require_absent(path)
            partial.rename(path)
            sync_directory(path.parent)
            shutil.rmtree(directory)


def require_absent(path: Path) -> None:
    """Raise `DataError` if something is at `path`: nothing is ever overwritten."""
    if path.exists() or path.is_symlink():
        raise DataError(f"{path} exists already: choose another path, or move it away")


@contextmanager
def _held(path: Path, request: str) -> Generator[Path]:
    require_absent(path)
    partial = ensure_directory(path.with_name(f".{path.name}.partial"))
    with FileLock(partial / _LOCK):
        marker = partial / _REQUEST
        with storage_errors("write", partial):
            if not marker.exists() or marker.read_text() != request:
                for leftover in partial.iterdir():
                    if leftover.is_dir():
                        shutil.rmtree(leftover)
                    elif leftover.name != _LOCK:
                        leftover.unlink()
        write_atomic(marker, request.encode())
        yield partial


def _sync_tree(root: Path) -> None:
    for directory, _, files in os.walk(root):
        for name in files:
            sync_file(Path(directory, name))
        sync_directory(Path(directory))


def sync_file(path: Path) -> None:
    """Make the bytes of the file, and its name, durable."""
    with storage_errors("write", path), path.open("rb") as file:
        os.fsync(file.fileno())
        sync_directory(path.parent)
