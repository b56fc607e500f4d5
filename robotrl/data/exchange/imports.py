"""Taking episodes from elsewhere into stores: each whole or not at all, and none twice."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from robotrl.data.names import require_name
from robotrl.data.store import EpisodeStore
from robotrl.specs import EnvironmentSpec
from robotrl.types import Episode


@dataclass(frozen=True)
class ImportReport:
    """What an import did.

    Attributes:
        stores: where the episodes are.
        imported: episodes that were committed; `present`: that were there already.
        present: see above.
        ignored: what the source has that robotrl has no place for.
    """

    stores: tuple[Path, ...]
    imported: int
    present: int
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pending:
    """An episode of the environment with this fingerprint, not yet read as a whole."""

    environment: str
    episode_id: str
    read: Callable[[], Episode]


def import_episodes(
    root: Path,
    environments: Mapping[str, EnvironmentSpec],
    episodes: Iterable[Pending],
    total: int,
    progress: Callable[[int, int], None],
) -> ImportReport:
    """Commit the episodes that are not there yet.

    Args:
        root: directory of the store; of several stores, by task, where there are several environments.
        environments: fingerprint → environment.
        episodes: what to import; read only when it is missing.
        total: how many they are.
        progress: called with (done, total).
    """
    stores = {f: EpisodeStore.create(path, environments[f]) for f, path in _places(root, environments).items()}
    known = {fingerprint: set(store.snapshot().ids) for fingerprint, store in stores.items()}
    imported = done = 0
    with ExitStack() as stack:
        writers = {fingerprint: stack.enter_context(store.writer()) for fingerprint, store in stores.items()}
        for done, pending in enumerate(episodes, 1):
            if pending.episode_id not in known[pending.environment]:
                writers[pending.environment].on_episode(pending.read())
                known[pending.environment].add(pending.episode_id)
                imported += 1
            progress(done, total)
    return ImportReport(tuple(store.root for store in stores.values()), imported, done - imported)


def _places(root: Path, environments: Mapping[str, EnvironmentSpec]) -> dict[str, Path]:
    if len(environments) == 1:
        return dict.fromkeys(environments, root)
    tasks = [spec.task for spec in environments.values()]
    return {
        fingerprint: root
        / require_name("task", spec.task if tasks.count(spec.task) == 1 else f"{spec.task}-{fingerprint}")
        for fingerprint, spec in environments.items()
    }
