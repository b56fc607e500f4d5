"""From what is typed to stores and runs."""

import difflib
from pathlib import Path

from robotrl.data.store import EpisodeStore
from robotrl.errors import DataError


def open_store(path: Path) -> EpisodeStore:
    """The store at `path`, or the one of the run directory `path`."""
    if not (path / "store.json").exists() and (path / "store" / "store.json").exists():
        return EpisodeStore.open(path / "store")
    if not path.exists():
        raise _missing(path)
    return EpisodeStore.open(path)


def policies_of(store: EpisodeStore) -> Path:
    """Where the run that the store belongs to keeps its policies; need not exist."""
    return store.root.parent / "policies"


def _missing(path: Path) -> DataError:
    """The error for a store that does not exist, with the nearest name beside it."""
    parent = path.parent
    names = [p.name for p in parent.iterdir() if p.is_dir()] if parent.is_dir() else []
    near = difflib.get_close_matches(path.name, names, n=1)
    return DataError(
        f"{path} does not exist." + (f" Did you mean '{parent / near[0]}'?" if near else " Check the path.")
    )
