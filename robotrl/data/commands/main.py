"""Which data commands there are."""

from collections.abc import Mapping

from robotrl.data.commands.changing import RELABEL, RM
from robotrl.data.commands.comparing import DIFF, LINEAGE
from robotrl.data.commands.exchanging import EXPORT, IMPORT
from robotrl.data.commands.health import PACK, RECOVER, VERIFY
from robotrl.data.commands.listing import LS
from robotrl.data.commands.moving import MERGE, SPLIT
from robotrl.data.commands.rendering import RENDER
from robotrl.data.commands.showing import SHOW
from robotrl.data.commands.statistics import STATS
from robotrl.terminal.parser import Subcommand, Tool

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
data = Tool(
    name="data",
    summary="looks at episode stores, checks them, and changes what may be changed",
    usage="STORE ... [options]",
    remarks="STORE is an episode store, or a run directory that has one.\n"
    "  robotrl data <command> --help   its arguments\n\nstart with: robotrl data ls runs/mine",
    commands=SUBCOMMANDS,
)
"""`robotrl data`."""
