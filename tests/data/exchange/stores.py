"""Stores to exchange: three tasks on one robot, two cameras, people who intervene."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from robotrl.data.exchange.selection import Selection
from robotrl.data.store import EpisodeStore
from robotrl.specs import CameraSpec, EnvironmentSpec
from robotrl.types import Episode
from tests import builders
from tests.contracts.store import assert_same
from tests.data.pictures import with_cameras

TASKS = {"insert": "put the peg into the hole", "stack": "stack the peg on the cube", "sort": "sort the pegs by colour"}
SIZE = (48, 64)


def quiet(done: int, total: int) -> None:
    """A progress that nobody looks at."""


def environment(task: str = "insert", control_hz: float = 20.0) -> EnvironmentSpec:
    cameras = (CameraSpec("front", *SIZE), CameraSpec("wrist", *SIZE))
    return replace(builders.spec(task), cameras=cameras, instructions=(TASKS[task],), control_hz=control_hz)


def episode(spec: EnvironmentSpec, seed: int, ticks: int = 30, every: int = 0) -> Episode:
    """Odd seeds have a takeover; the cameras see every `every`-th state, or nothing when 0."""
    made = builders.episode(ticks, seed, "failure" if seed % 3 == 2 else "success", (5, 12) if seed % 2 else None)
    meta = replace(
        made.meta,
        task=spec.task,
        instruction=TASKS[spec.task],
        environment=spec.fingerprint,
        operator_s=float("nan"),
        control_hz=spec.control_hz,
    )
    made = replace(made, meta=meta, privileged=np.full_like(made.privileged, seed))
    return with_cameras(made, every, SIZE) if every else made


def filled(root: Path, spec: EnvironmentSpec, count: int, ticks: int = 30, every: int = 0) -> EpisodeStore:
    store = EpisodeStore.create(root, spec)
    with store.writer() as writer:
        for seed in range(count):
            writer.on_episode(episode(spec, seed, ticks + seed, every))
    return store


def selections(*stores: EpisodeStore) -> list[Selection]:
    return [Selection.of(store) for store in stores]


def psnr(left: np.ndarray, right: np.ndarray) -> float:
    """Decibel."""
    error = np.mean((left.astype(np.float64) - right) ** 2)
    return float(10 * np.log10(255**2 / max(error, 1e-9)))


def assert_stores_equal(left: EpisodeStore, right: EpisodeStore) -> None:
    """The same episodes to the bit, but for pictures."""
    assert left.spec == right.spec
    assert left.snapshot().ids == right.snapshot().ids
    for ours, theirs in zip(left.snapshot().episodes(), right.snapshot().episodes(), strict=True):
        assert_same(
            replace(ours, cameras={}, meta=_comparable(ours)), replace(theirs, cameras={}, meta=_comparable(theirs))
        )


def _comparable(episode: Episode):
    return replace(episode.meta, operator_s=-1.0 if np.isnan(episode.meta.operator_s) else episode.meta.operator_s)
