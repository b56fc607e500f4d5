"""Corrections of what episodes say of themselves: outcome and instruction, as annotations of the kind "relabel".

A version has two int32 columns with one value over all ticks of an episode: `outcome`, a place in `OUTCOMES`, and
`instruction`, a place in the list `instructions` of the lineage; −1 leaves either as it was. Versions are numbered,
and a later one wins.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from robotrl.data.journal import JSON
from robotrl.data.store import EpisodeStore
from robotrl.errors import ConfigurationError, DataError
from robotrl.provenance import code_fingerprint
from robotrl.types import Episode, EpisodeMeta, Outcome

KIND = "relabel"
OUTCOMES: tuple[Outcome | None, ...] = (None, "failure", "success")
KEEP = "keep"


@dataclass(frozen=True)
class Correction:
    """What is said of an episode instead; `outcome` "keep" and `instruction` None leave the recorded value."""

    outcome: Outcome | Literal["keep"] | None = KEEP
    instruction: str | None = None

    def over(self, earlier: "Correction") -> "Correction":
        """Both corrections, this one winning."""
        outcome = earlier.outcome if self.outcome == KEEP else self.outcome
        return Correction(outcome, earlier.instruction if self.instruction is None else self.instruction)


@dataclass(frozen=True)
class Corrections:
    """All corrections of a store: episode id → what holds now, and the versions that say so."""

    by_id: Mapping[str, Correction]
    versions: tuple[str, ...] = ()

    def meta(self, meta: EpisodeMeta) -> EpisodeMeta:
        """The metadata as corrected."""
        correction = self.by_id.get(meta.episode_id)
        if correction is None:
            return meta
        if correction.outcome != KEEP:
            meta = replace(meta, outcome=correction.outcome)
        return meta if correction.instruction is None else replace(meta, instruction=correction.instruction)

    def episode(self, episode: Episode) -> Episode:
        """The episode with its metadata corrected; its arrays stay what was recorded."""
        meta = self.meta(episode.meta)
        return episode if meta is episode.meta else replace(episode, meta=meta)


def read_corrections(store: EpisodeStore) -> Corrections:
    """What the store's corrections say together."""
    versions = store.annotation_versions(KIND)
    by_id: dict[str, Correction] = {}
    for version in versions:
        annotated = store.annotations(KIND, version)
        try:
            for id_, columns in annotated.columns.items():
                by_id[id_] = _decode(columns, annotated.lineage).over(by_id.get(id_, Correction()))
        except (KeyError, IndexError, TypeError) as error:
            raise DataError(
                f"{store.root}: {KIND}/{version} is no correction ({type(error).__name__}: {error})"
            ) from error
    return Corrections(by_id, versions)


def write_corrections(store: EpisodeStore, corrections: Mapping[str, Correction], reason: str) -> str:
    """Write a new version that says `corrections` of these episodes, durably; returns its name.

    Raises:
        ConfigurationError: nothing would change.
        DataError: an episode is not in the store. Nothing was written.
    """
    if not corrections or all(c == Correction() for c in corrections.values()):
        raise ConfigurationError("nothing to correct: give an outcome or an instruction")
    instructions = sorted({c.instruction for c in corrections.values() if c.instruction is not None})
    lengths = {e.episode_id: e.length for e in store.snapshot().select(corrections).entries}
    columns = {id_: _encode(c, lengths[id_], instructions) for id_, c in corrections.items()}
    lineage: dict[str, JSON] = {
        "made_by": "person", "reason": reason, "instructions": instructions, "code": code_fingerprint()
    }  # fmt: skip
    versions = store.annotation_versions(KIND)
    version = f"{int(versions[-1]) + 1 if versions else 1:06d}"
    store.annotate(KIND, version, columns, lineage)
    return version


def _encode(correction: Correction, length: int, instructions: list[str]) -> dict[str, Any]:
    outcome = -1 if correction.outcome == KEEP else OUTCOMES.index(correction.outcome)
    instruction = -1 if correction.instruction is None else instructions.index(correction.instruction)
    return {"outcome": np.full(length, outcome, np.int32), "instruction": np.full(length, instruction, np.int32)}


def _decode(columns: Mapping[str, Any], lineage: Mapping[str, Any]) -> Correction:
    outcome, instruction = int(columns["outcome"][0]), int(columns["instruction"][0])
    return Correction(
        KEEP if outcome < 0 else OUTCOMES[outcome], None if instruction < 0 else lineage["instructions"][instruction]
    )
