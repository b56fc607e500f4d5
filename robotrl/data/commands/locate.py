"""From what is typed to stores, runs and episodes."""

import difflib
from collections.abc import Iterable
from pathlib import Path

from robotrl.data.snapshot import StoreSnapshot
from robotrl.data.store import EpisodeStore
from robotrl.errors import DataError, unknown_name


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


def resolve_ids(snapshot: StoreSnapshot, words: Iterable[str]) -> list[str]:
    """Episode ids, in the order given and each once, from ids or from beginnings that fit one id only."""
    return list(dict.fromkeys(_resolve(snapshot.ids, word) for word in words))


def _resolve(ids: tuple[str, ...], word: str) -> str:
    if word in ids:
        return word
    begun = [i for i in ids if word and i.startswith(word)]
    if len(begun) > 1:
        raise DataError(f"'{word}' is the beginning of {len(begun)} ids, among them {begun[0]} and {begun[1]}")
    if not begun:
        raise unknown_name("episode", word, ids)
    return begun[0]


def _missing(path: Path) -> DataError:
    """The error for a store that does not exist, with the nearest name beside it."""
    parent = path.parent
    names = [p.name for p in parent.iterdir() if p.is_dir()] if parent.is_dir() else []
    near = difflib.get_close_matches(path.name, names, n=1)
    return DataError(
        f"{path} does not exist." + (f" Did you mean '{parent / near[0]}'?" if near else " Check the path.")
    )
