"""Which data commands there are, and the call of one."""

from collections.abc import Mapping, Sequence

from robotrl.data.commands.changing import RELABEL, RM
from robotrl.data.commands.comparing import DIFF, LINEAGE
from robotrl.data.commands.exchanging import EXPORT, IMPORT
from robotrl.data.commands.health import PACK, RECOVER, VERIFY
from robotrl.data.commands.listing import LS
from robotrl.data.commands.moving import MERGE, SPLIT
from robotrl.data.commands.parser import Parser, Subcommand
from robotrl.data.commands.rendering import RENDER
from robotrl.data.commands.showing import SHOW
from robotrl.data.commands.statistics import STATS
from robotrl.errors import unknown_name

SUBCOMMANDS: Mapping[str, Subcommand] = {
    "ls": LS,
    "show": SHOW,
    "stats": STATS,
    "verify": VERIFY,
    "lineage": LINEAGE,
    "diff": DIFF,
    "import": IMPORT,
    "export": EXPORT,
    "merge": MERGE,
    "split": SPLIT,
    "relabel": RELABEL,
    "rm": RM,
    "render": RENDER,
    "pack": PACK,
    "recover": RECOVER,
}
_HELP = ("-h", "--help")


def data(arguments: Sequence[str]) -> None:
    """Run `robotrl data` with these arguments; without any it says what there is."""
    if not arguments or arguments[0] in (*_HELP, "help"):
        print(_usage())
        return
    name, *rest = arguments
    if name not in SUBCOMMANDS:
        raise unknown_name("command of 'robotrl data'", name, SUBCOMMANDS)
    command = SUBCOMMANDS[name]
    parser = Parser(f"robotrl data {name}", command.summary, f"example:\n  robotrl data {name} {command.example}")
    command.arguments(parser)
    if any(word in _HELP for word in rest):
        print(parser.format_help(), end="")
    else:
        command.run(parser.read(rest))


def _usage() -> str:
    rows = "\n".join(f"  {name:<10}{command.summary}" for name, command in SUBCOMMANDS.items())
    return (
        "robotrl data: looks at episode stores, checks them, and changes what may be changed\n\n"
        f"usage: robotrl data <command> STORE ... [options]\n\n{rows}\n\n"
        "STORE is an episode store, or a run directory that has one.\n"
        "  robotrl data <command> --help   its arguments\n\nstart with: robotrl data ls runs/mine"
    )
