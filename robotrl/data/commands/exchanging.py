"""`import` and `export`: episodes from and to the formats of others."""

import shlex
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from robotrl.data.commands.filters import add_filters, filtered
from robotrl.data.commands.locate import open_store
from robotrl.data.corrections import read_corrections
from robotrl.data.exchange.lerobot_export import LeRobotExport, export_lerobot
from robotrl.data.exchange.lerobot_import import import_lerobot
from robotrl.data.exchange.robomimic_export import RobomimicExport, export_robomimic
from robotrl.data.exchange.robomimic_import import import_robomimic
from robotrl.data.exchange.selection import Selection
from robotrl.errors import ConfigurationError
from robotrl.progress import bar
from robotrl.terminal.output import as_json, hint, pairs, shown
from robotrl.terminal.parser import Parser, Subcommand, one_of
from robotrl.types import Outcome

_IMPORTS = {"lerobot": import_lerobot, "robomimic": import_robomimic}
_OUTCOMES: dict[str, Outcome] = {"success": "success", "failure": "failure"}


def _add_format(parser: Parser) -> None:
    parser.add_argument(
        "--format",
        type=one_of("format", _IMPORTS),
        help="lerobot (LeRobotDataset v3) or robomimic (HDF5); by default robomimic for .hdf5 and .h5",
    )


def _format(options: Namespace, path: Path) -> str:
    return options.format or ("robomimic" if path.suffix in (".hdf5", ".h5") else "lerobot")


def _export_arguments(parser: Parser) -> None:
    parser.add_argument("stores", metavar="STORE", nargs="+", type=Path, help="stores or run directories")
    parser.add_argument("target", metavar="TARGET", type=Path, help="the directory, or HDF5 file, to create")
    _add_format(parser)
    add_filters(parser)
    parser.json()


def _export(options: Namespace) -> None:
    selections: list[Selection] = []
    corrected: list[str] = []
    for path in options.stores:
        store = open_store(path)
        corrections = read_corrections(store)
        snapshot = filtered(store.snapshot(), corrections, options)
        selections.append(Selection(store.spec, snapshot, corrections))
        corrected += [i for i in snapshot.ids if i in corrections.by_id]
    done = _write(_format(options, options.target), selections, options.target)
    if options.json:
        as_json(done)
        return
    pairs({"written": options.target, "episodes": done.episodes, "ticks": done.ticks})
    if corrected:
        print(f"  outcome and instruction as corrected were written of {shown(corrected)}")
    hint(f"robotrl data import {shlex.quote(str(options.target))} stores/again")


def _write(format: str, selections: Sequence[Selection], target: Path) -> LeRobotExport | RobomimicExport:
    if format == "robomimic" and len(selections) > 1:
        raise ConfigurationError("a robomimic file holds one environment: export the stores one by one, or merge them")
    with bar("export", 0) as report:
        if format == "robomimic":
            return export_robomimic(selections[0], target, report)
        return export_lerobot(selections, target, report)


def _import_arguments(parser: Parser) -> None:
    parser.add_argument("source", metavar="SOURCE", type=Path, help="a LeRobotDataset v3, or a robomimic HDF5 file")
    parser.store("the store to import into; made if it is missing")
    _add_format(parser)
    parser.add_argument("--task", help="name of the task of a data set that robotrl did not export")
    parser.add_argument(
        "--outcome", type=one_of("outcome", _OUTCOMES), help="of episodes that do not say it: success or failure"
    )
    parser.json()


def _import(options: Namespace) -> None:
    inside = options.store / "store"
    root = inside if (inside / "store.json").exists() else options.store
    function = _IMPORTS[_format(options, options.source)]
    outcome = None if options.outcome is None else _OUTCOMES[options.outcome]
    with bar("import", 0) as report:
        done = function(options.source, root, report, task=options.task, outcome=outcome)
    if options.json:
        as_json(done)
        return
    stores = ", ".join(map(str, done.stores))
    pairs({"stores": stores, "imported": done.imported, "there before": done.present, "ignored": shown(done.ignored)})
    hint(f"robotrl data stats {shlex.quote(str(done.stores[0]))}")


EXPORT = Subcommand(
    "write a LeRobotDataset v3 or a robomimic file", _export_arguments, "runs/mine /data/mine --format lerobot", _export
)
IMPORT = Subcommand("read one into a store", _import_arguments, "/data/pusht stores/pusht --format lerobot", _import)
