"""File operations that survive a crash, and the lock that keeps a directory to one process.

A file is durable once its bytes are synced, it has its final name, and the directory that holds the name is synced.
"""

import errno
import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from robotrl.errors import RunBusyError, StorageError

_ADVICE = {
    errno.ENOSPC: "The disk is full: free some space and run the same command again.",
    errno.EDQUOT: "The disk quota is used up: free some space and run the same command again.",
    errno.EFBIG: "The file would exceed the size limit of this process (ulimit -f): raise it and run again.",
    errno.EROFS: "The file system is read-only: choose a directory that can be written to.",
    errno.EACCES: "Permission is missing: make the directory writable or choose another one.",
    errno.EPERM: "Permission is missing: make the directory writable or choose another one.",
    errno.ENOTDIR: "A file stands where a directory is expected: move it away or choose another path.",
    errno.EEXIST: "A file stands where a directory is expected: move it away or choose another path.",
    errno.EISDIR: "A directory stands where a file is expected: move it away or choose another path.",
    errno.ENOENT: "It does not exist: check the path.",
}


@contextmanager
def storage_errors(action: str, path: Path) -> Generator[None]:
    """Turn an `OSError` of the block into a `StorageError` that says what to do; `action` is a verb ("write")."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "Check the disk and run the same command again.")
        raise StorageError(f"cannot {action} {path}: {error.strerror}. {advice} What was committed is safe.") from error


def sync_directory(path: Path) -> None:
    """Make the names in the directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def ensure_directory(path: Path) -> Path:
    """Create the directory and its parents durably where they are missing, and return it."""
    with storage_errors("create", path):
        # Each new directory is a name in its parent, and is lost with the power unless the parent is synced too.
        missing = [p for p in (path, *path.parents) if not p.is_dir()]
        for directory in reversed(missing):
            directory.mkdir(exist_ok=True)
            sync_directory(directory.parent)
    return path


def write_durable(staged: Path, final: Path, content: bytes) -> None:
    """Write `content` to `staged`, sync it, rename it to `final` and sync the name.

    Both are on one file system. After an error `final` is as it was and `staged` is gone.
    """
    with storage_errors("write", final):
        try:
            with staged.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            staged.replace(final)
            sync_directory(final.parent)
        except OSError:
            with suppress(OSError):
                staged.unlink()
            raise


def write_atomic(path: Path, content: bytes) -> None:
    """Replace `path` by `content`: a reader, or a crash, sees the old file or the new one, never a part."""
    write_durable(path.with_name(f".{path.name}.{os.getpid()}.tmp"), path, content)


def lock_is_held(path: Path) -> bool:
    """Whether a live process holds the `FileLock` on the file; nothing is changed."""
    if not path.exists():
        return False
    with storage_errors("read", path), path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


class FileLock:
    """An exclusive lock of the operating system on a file, which holds the owner's process id.

    It falls away with the process, however that ends. Another holder means `RunBusyError`, or waiting with `wait`.
    """

    def __init__(self, path: Path, *, wait: bool = False) -> None:
        with storage_errors("lock", path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, str(os.getpid()).encode(), 0)
            except BlockingIOError:
                holder = os.pread(self._descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
                os.close(self._descriptor)
                raise RunBusyError(
                    f"{path.parent} is in use by process {holder}: "
                    "wait for it to end, stop it, or choose another directory."
                ) from None
            except BaseException:  # Ctrl-C too: the lock must not stay behind without an owner
                os.close(self._descriptor)
                raise
        self._held = True

    def release(self) -> None:
        """Give the lock up. Idempotent."""
        if self._held:
            self._held = False
            os.close(self._descriptor)

    def __enter__(self) -> "FileLock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
