"""`merge` and `split`: bring stores together and take them apart."""

import shlex
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from robotrl.data.commands.locate import open_store
from robotrl.data.copying import By, CopyReport, merge_stores, split_by, split_by_share, write_parts
from robotrl.errors import ConfigurationError
from robotrl.progress import bar
from robotrl.terminal.output import as_json, hint, table
from robotrl.terminal.parser import Parser, Subcommand, one_of


def _merge_arguments(parser: Parser) -> None:
    parser.add_argument("sources", metavar="SRC", nargs="+", type=Path, help="stores or run directories")
    parser.add_argument("target", metavar="DST", type=Path, help="the store to copy into; made if it is missing")
    parser.json()


def _merge(options: Namespace) -> None:
    sources = [open_store(source).root for source in options.sources]
    inside = options.target / "store"
    target = inside if (inside / "store.json").exists() else options.target
    with bar("merge", 0) as report:
        done = merge_stores(sources, target, report)
    _print_copies([done], options.json)


def _split_arguments(parser: Parser) -> None:
    parser.store()
    parser.add_argument("target", metavar="DST", type=Path, help="directory in which each part becomes a store")
    parser.add_argument("--by", required=True, help="source, stage, outcome, or share=0.9")
    parser.add_argument("--seed", type=int, default=0, help="of the draw of a share (0)")
    parser.json()


def _split(options: Namespace) -> None:
    store = open_store(options.store)
    by, _, value = options.by.partition("=")
    one_of("way to split", ("source", "stage", "outcome", "share"))(by)
    if by == "share":
        parts = split_by_share(store, _number(value), options.seed)
    elif value:
        raise ConfigurationError(f"--by {options.by}: only share takes a number; filter with 'robotrl data ls'")
    else:
        parts = split_by(store, cast(By, by))
    if not parts:
        raise ConfigurationError(f"{store.root} has no episodes to split")
    with bar("split", 0) as report:
        done = write_parts(store, parts, options.target, report)
    _print_copies(done, options.json)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"'{text}': expected a number between 0 and 1, as share=0.9") from None


def _print_copies(reports: Sequence[CopyReport], json: bool) -> None:
    if json:
        as_json(list(reports))
        return
    table(("store", "copied", "there before"), [(r.target, r.copied, r.present) for r in reports])
    hint(f"robotrl data stats {shlex.quote(str(reports[0].target))}")


MERGE = Subcommand("copy episodes of several stores into one", _merge_arguments, "runs/a runs/b stores/all", _merge)
SPLIT = Subcommand("take a store apart", _split_arguments, "runs/mine stores/parts --by share=0.9", _split)
