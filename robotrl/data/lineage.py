"""Which episodes and annotations trained which policy version, and the reverse.

Everything is read from `policies/<version>/lineage.json` and from the lineage of annotations; no weights are loaded.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robotrl.data.durable import storage_errors
from robotrl.data.store import EpisodeStore
from robotrl.data.windows import validation_split
from robotrl.errors import DataError, unknown_name

KIND = "labels"
"""The kind of annotation that training draws from."""


@dataclass(frozen=True)
class Training:
    """One training: what a policy version was made from.

    Attributes:
        version: of the policy; `start`: the version whose weights it began with, None for fresh ones.
        labels: version of the annotation, with its lineage `made_from` (critic, snapshot, stages, code).
        episodes: ids with any weight that it drew from, in order; those held out for validation are not among them.
        recorded: the whole of lineage.json.
    """

    version: str
    start: str | None
    labels: str
    episodes: tuple[str, ...]
    made_from: Mapping[str, Any]
    recorded: Mapping[str, Any]


def policy_versions(policies: Path) -> tuple[str, ...]:
    """The versions saved in the directory, numbers in their order."""
    if not policies.is_dir():
        return ()
    with storage_errors("read", policies):
        names = [p.name for p in policies.iterdir() if (p / "lineage.json").is_file() and not p.name.startswith(".")]
    return tuple(sorted(names, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name)))


def trace(store: EpisodeStore, policies: Path, version: str) -> tuple[Training, ...]:
    """The training of `version` and of its ancestors, the youngest first.

    Raises:
        ConfigurationError: no such version; the message names the nearest.
        DataError: a lineage that is damaged, lacks what it must say, or goes round in a circle.
    """
    trainings: list[Training] = []
    following: str | None = version
    while following is not None:
        if any(following == t.version for t in trainings):
            raise DataError(f"{policies}: the lineage of version {version} comes back to version {following}")
        trainings.append(_training(store, policies, following))
        following = trainings[-1].start
    return tuple(trainings)


def trained_on(store: EpisodeStore, policies: Path, episode_id: str) -> dict[str, tuple[str, ...]]:
    """Policy version → which of its trainings (its own, its ancestors') drew from the episode; only those that did."""
    trainings = {version: _training(store, policies, version) for version in policy_versions(policies)}
    direct = {version for version, training in trainings.items() if episode_id in training.episodes}
    found = {v: tuple(a for a in _ancestry(v, trainings) if a in direct) for v in trainings}
    return {version: through for version, through in found.items() if through}


def _ancestry(version: str, trainings: Mapping[str, Training]) -> list[str]:
    chain: list[str] = []
    following: str | None = version
    while following is not None and following in trainings and following not in chain:
        chain.append(following)
        following = trainings[following].start
    return chain


def _training(store: EpisodeStore, policies: Path, version: str) -> Training:
    path = policies / version / "lineage.json"
    if version not in policy_versions(policies):
        raise unknown_name("policy version", version, policy_versions(policies))
    with storage_errors("read", path):
        content = path.read_bytes()
    try:
        raw = json.loads(content)
        labels, start, share = str(raw["labels"]), raw["start"], float(raw["validation"])
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: expected 'labels', 'start' and 'validation' ({type(error).__name__}: {error}); "
            "the version was not made by a training of this release"
        ) from error
    annotated = store.annotations(KIND, labels)
    ids = validation_split(annotated.columns, share)[0]
    if any("weight" not in columns for columns in annotated.columns.values()):
        raise DataError(f"{store.root}: {KIND}/{labels} has no column 'weight', so nothing was trained on it")
    weighted = tuple(i for i in ids if annotated.columns[i]["weight"].any())
    return Training(version, None if start is None else str(start), labels, weighted, annotated.lineage, raw)
