"""Which episodes of a store a command is about."""

from argparse import Namespace

from robotrl.data.corrections import Corrections
from robotrl.data.snapshot import StoreSnapshot
from robotrl.errors import unknown_name
from robotrl.terminal.parser import Parser, one_of
from robotrl.types import EpisodeMeta

_SOURCES = ("demonstration", "autonomous", "takeover")
_OUTCOMES = ("success", "failure", "cut")


def add_filters(parser: Parser) -> None:
    """Add --stage, --source, --outcome and --task."""
    parser.add_argument("--stage", help="only of this stage")
    parser.add_argument("--source", type=one_of("source", _SOURCES), help=f"only {', '.join(_SOURCES)}")
    parser.add_argument("--outcome", type=one_of("outcome", _OUTCOMES), help=f"only {', '.join(_OUTCOMES)}")
    parser.add_argument("--task", help="only of this task or instruction")


def filtered(snapshot: StoreSnapshot, corrections: Corrections, options: Namespace) -> StoreSnapshot:
    """The episodes that match by their corrected metadata; a stage or task that no episode has is an error."""
    metas = [corrections.meta(entry.meta) for entry in snapshot.entries]
    stages = {meta.stage for meta in metas}
    if options.stage is not None and options.stage not in stages:
        raise unknown_name("stage", options.stage, stages)
    tasks = {word for meta in metas for word in (meta.task, meta.instruction)}
    if options.task is not None and options.task not in tasks:
        raise unknown_name("task or instruction", options.task, tasks)
    return snapshot.select(meta.episode_id for meta in metas if _matches(meta, options))


def _matches(meta: EpisodeMeta, options: Namespace) -> bool:
    return (
        options.stage in (None, meta.stage)
        and options.source in (None, meta.source)
        and options.outcome in (None, meta.outcome or "cut")
        and options.task in (None, meta.task, meta.instruction)
    )
