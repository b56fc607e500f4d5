"""`show`: everything about one episode."""

import shlex
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

import numpy as np

from robotrl.data.annotations import list_annotations
from robotrl.data.commands.locate import open_store, policies_of
from robotrl.data.corrections import read_corrections
from robotrl.data.lineage import trained_on
from robotrl.data.store import EpisodeStore
from robotrl.data.summary import takeovers
from robotrl.errors import RobotRLError
from robotrl.terminal.output import as_json, heading, hint, pairs, table
from robotrl.terminal.parser import Parser, Subcommand
from robotrl.types import Episode


@dataclass(frozen=True)
class _Array:
    """One array of the episode."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class _Found:
    """What is shown.

    `recorded` holds the metadata as committed, `metadata` as corrected; `takeovers` are stretches [start, stop) of
    ticks; `annotations` kind/version → column → mean; `policies` version → the trainings through which it learned.
    """

    path: str
    offset: int
    size: int
    crc: str
    metadata: Mapping[str, object]
    recorded: Mapping[str, object]
    arrays: tuple[_Array, ...]
    chunks: Mapping[str, object]
    takeovers: tuple[tuple[int, int], ...]
    annotations: Mapping[str, Mapping[str, float]]
    policies: Mapping[str, tuple[str, ...]]


def _arguments(parser: Parser) -> None:
    parser.store()
    parser.add_argument("id", metavar="ID", help="of the episode, or a beginning that fits only one")
    parser.json()


def _show(options: Namespace) -> None:
    found = _find(open_store(options.store), options.id)
    if options.json:
        as_json(found)
    else:
        _print(found)
        hint(f"robotrl data ls {shlex.quote(str(options.store))}")


def _find(store: EpisodeStore, word: str) -> _Found:
    snapshot = store.snapshot()
    entry = snapshot.select(snapshot.resolve([word])).entries[0]
    episode = snapshot.read(entry)
    return _Found(
        path=str(entry.path),
        offset=entry.offset,
        size=entry.size,
        crc=f"{entry.crc:08x}",
        metadata=asdict(read_corrections(store).meta(entry.meta)),
        recorded=asdict(entry.meta),
        arrays=tuple(_arrays(episode)),
        chunks=_chunks(episode),
        takeovers=tuple(takeovers(episode)),
        annotations=_annotations(store, entry.episode_id),
        policies=_policies(store, entry.episode_id),
    )


def _print(found: _Found) -> None:
    changed = {n: f"{v}   (recorded: {found.recorded[n]})" for n, v in found.metadata.items() if v != found.recorded[n]}
    place = {"file": found.path, "from byte": found.offset, "bytes": found.size, "crc": found.crc}
    pairs({**found.metadata, **changed, **place})
    heading("arrays")
    table(("array", "shape", "type"), [(a.name, " x ".join(map(str, a.shape)), a.dtype) for a in found.arrays])
    heading("chunks")
    pairs(found.chunks)
    heading("takeovers")
    print("  " + (", ".join(f"ticks {start}-{stop}" for start, stop in found.takeovers) or "none"))
    heading("annotations, with the mean of each column")
    pairs({name: ", ".join(f"{c} {m:.4g}" for c, m in columns.items()) for name, columns in found.annotations.items()})
    heading("policies trained on it")
    pairs({v: "directly" if v in via else f"through {', '.join(via)}" for v, via in found.policies.items()})
    print()


def _arrays(episode: Episode) -> list[_Array]:
    parts = [(f.name, getattr(episode, f.name)) for f in fields(episode)]
    parts += [(f"chunks/{f.name}", getattr(episode.chunks, f.name)) for f in fields(episode.chunks)]
    arrays = [_Array(name, part.shape, part.dtype.name) for name, part in parts if isinstance(part, np.ndarray)]
    cameras = episode.cameras.items()
    return arrays + [_Array(f"cameras/{name}", tuple(camera.frames.shape), "uint8") for name, camera in cameras]


def _chunks(episode: Episode) -> dict[str, object]:
    chunks, delay = episode.chunks, episode.delay_ticks[episode.delay_ticks >= 0]
    return {
        "proposed": len(chunks.start_tick),
        "executed": int((chunks.start_tick >= 0).sum()),
        "length": chunks.actions.shape[1],
        "policy versions": ", ".join(map(str, np.unique(chunks.policy_version))),
        "mean delay in ticks": round(float(delay.mean()), 2) if delay.size else None,
        "starved ticks": int(episode.starved.sum()),
        "clamped ticks": int((episode.clamped > 0).sum()),
    }


def _annotations(store: EpisodeStore, episode_id: str) -> dict[str, dict[str, float]]:
    covering: dict[str, dict[str, float]] = {}
    for kind, version in list_annotations(store.root / "annotations"):
        columns = store.annotations(kind, version, [episode_id]).columns.get(episode_id)
        if columns is not None:
            covering[f"{kind}/{version}"] = {name: float(column.mean()) for name, column in columns.items()}
    return covering


def _policies(store: EpisodeStore, episode_id: str) -> dict[str, tuple[str, ...]]:
    """As `trained_on`; a lineage that does not read must not hide the episode."""
    try:
        return trained_on(store, policies_of(store), episode_id)
    except RobotRLError as error:
        return {"unknown": (str(error),)}


SHOW = Subcommand("everything about one episode", _arguments, "runs/mine 3f2a91c0", _show)
