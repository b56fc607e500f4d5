"""`rm` and `relabel`: hide episodes, and correct what they say of themselves."""

import shlex
from argparse import Namespace

from robotrl.data.annotations import list_annotations
from robotrl.data.commands.locate import open_store
from robotrl.data.corrections import KEEP, Correction, read_corrections, write_corrections
from robotrl.data.store import EpisodeStore
from robotrl.terminal.output import hint, require_yes, table
from robotrl.terminal.parser import Parser, Subcommand, one_of, said
from robotrl.types import Outcome

_OUTCOMES: dict[str, Outcome | None] = {"success": "success", "failure": "failure", "none": None}


def _rm_arguments(parser: Parser) -> None:
    parser.store()
    parser.episodes("episodes to remove")
    parser.add_argument("--reason", type=said, required=True, help="why; it is kept with the removal")
    parser.yes()


def _rm(options: Namespace) -> None:
    store = open_store(options.store)
    snapshot, corrections = store.snapshot(), read_corrections(store)
    ids = snapshot.resolve(options.ids)
    chosen = snapshot.select(ids)
    metas = [corrections.meta(entry.meta) for entry in chosen.entries]
    rows = [
        (m.episode_id, m.stage, m.source, m.outcome or "cut", e.length)
        for m, e in zip(metas, chosen.entries, strict=True)
    ]
    table(("id", "stage", "source", "outcome", "ticks"), rows)
    covering = _covering(store, ids)
    print(
        f"  to remove: {len(ids)} of {len(snapshot)} episodes"
        + (f", annotated in {', '.join(covering)}" if covering else "")
    )
    require_yes(options.yes, "remove them")
    store.remove(ids, options.reason)
    print("  removed; older snapshots still read them until the store is packed")
    hint(f"robotrl data pack {shlex.quote(str(options.store))}")


def _covering(store: EpisodeStore, ids: list[str]) -> list[str]:
    """kind/version of the annotations that cover any of the episodes; they stay as they are."""
    return [
        f"{kind}/{version}"
        for kind, version in list_annotations(store.root / "annotations")
        if store.annotations(kind, version, ids).columns
    ]


def _relabel_arguments(parser: Parser) -> None:
    parser.store()
    parser.episodes("episodes to correct")
    parser.add_argument("--outcome", type=one_of("outcome", _OUTCOMES), help="success, failure or none")
    parser.add_argument("--instruction", type=said, help="what the robot was asked to do")
    parser.add_argument("--reason", type=said, required=True, help="why; it is kept with the correction")


def _relabel(options: Namespace) -> None:
    store = open_store(options.store)
    ids = store.snapshot().resolve(options.ids)
    outcome = KEEP if options.outcome is None else _OUTCOMES[options.outcome]
    version = write_corrections(store, dict.fromkeys(ids, Correction(outcome, options.instruction)), options.reason)
    print(f"  corrected {len(ids)} episodes as annotation relabel/{version}; the recorded values stay in the episodes")
    hint(f"robotrl data show {shlex.quote(str(options.store))} {ids[0]}")


RM = Subcommand("hide episodes", _rm_arguments, "runs/mine 3f2a91c0 --reason 'camera fell' --yes", _rm)
RELABEL = Subcommand(
    "correct outcome or instruction",
    _relabel_arguments,
    "runs/mine 3f2a91c0 --outcome failure --reason 'slipped'",
    _relabel,
)
