"""A directory that a reader, or a crash, sees whole or not at all."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from robotrl.data.durable import ensure_directory, storage_errors, sync_directory, write_atomic
from robotrl.errors import DataError


def write_directory(directory: Path, files: Mapping[str, bytes], replace: bool = False) -> None:
    """Make `directory` hold exactly `files` (name → content): staged beside it, synced, renamed into place.

    One that exists already is an error unless `replace` is set.
    """
    if directory.exists() and not replace:
        raise DataError(f"{directory} exists already: a saved version is not overwritten; choose another version")
    ensure_directory(directory.parent)
    staging = directory.with_name(f".{directory.name}.{os.getpid()}.tmp")
    with storage_errors("write", directory):
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        for name, content in files.items():
            write_atomic(staging / name, content)
        if directory.exists():
            shutil.rmtree(directory)
        staging.rename(directory)
        sync_directory(directory.parent)
