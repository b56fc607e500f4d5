"""`ls`: which episodes there are."""

import shlex
from argparse import Namespace
from dataclasses import dataclass

from robotrl.data.commands.filters import add_filters, filtered
from robotrl.data.commands.locate import open_store
from robotrl.data.corrections import Corrections, read_corrections
from robotrl.data.entry import StoreEntry
from robotrl.data.snapshot import StoreSnapshot
from robotrl.errors import RobotRLError
from robotrl.terminal.output import as_json, hint, table
from robotrl.terminal.parser import Parser, Subcommand, whole


@dataclass(frozen=True)
class _Row:
    """One line of `ls`; `cameras` None when the episode does not read."""

    id: str
    stage: str
    source: str
    outcome: str
    corrected: bool
    reason: str
    ticks: int
    seconds: float
    operator_s: float
    instruction: str
    cameras: tuple[str, ...] | None


def _ls_arguments(parser: Parser) -> None:
    parser.store()
    add_filters(parser)
    parser.add_argument("--limit", type=whole(0), default=100, help="episodes to list, 0 for all (100)")
    parser.json()


def _ls(options: Namespace) -> None:
    store = open_store(options.store)
    snapshot, corrections = store.snapshot(), read_corrections(store)
    found = filtered(snapshot, corrections, options).entries
    found = sorted(found, key=lambda entry: entry.meta.stage)  # stages are named in the order in which they happen
    listed = found[: options.limit or None]
    rows = [_row(snapshot, entry, corrections) for entry in listed]
    if options.json:
        as_json({"total": len(found), "episodes": rows})
        return
    headers = ("id", "stage", "source", "outcome", "reason", "ticks", "seconds", "operator s", "cameras")
    table(headers, map(_cells, rows))
    print(f"\n  {len(rows)} of {len(found)} episodes" + (", --limit 0 lists all" if len(rows) < len(found) else ""))
    if any(row.corrected for row in rows):
        print("  * corrected by `relabel`")
    if rows:
        hint(f"robotrl data show {shlex.quote(str(options.store))} {rows[0].id}")


def _row(snapshot: StoreSnapshot, entry: StoreEntry, corrections: Corrections) -> _Row:
    meta = corrections.meta(entry.meta)
    try:
        cameras = tuple(sorted(snapshot.read(entry, verify=False).cameras))
    except RobotRLError:
        cameras = None
    return _Row(
        id=meta.episode_id,
        stage=meta.stage,
        source=meta.source,
        outcome=meta.outcome or "cut",
        corrected=meta != entry.meta,
        reason=meta.reason,
        ticks=entry.length,
        seconds=entry.length / meta.control_hz,
        operator_s=meta.operator_s,
        instruction=meta.instruction,
        cameras=cameras,
    )


def _cells(row: _Row) -> tuple[object, ...]:
    cameras = "does not read: robotrl data verify" if row.cameras is None else ", ".join(row.cameras) or "-"
    outcome = row.outcome + ("*" if row.corrected else "")
    times = (f"{row.seconds:.1f}", f"{row.operator_s:.1f}")
    return (row.id, row.stage, row.source, outcome, row.reason, row.ticks, *times, cameras)


LS = Subcommand("list episodes", _ls_arguments, "runs/mine --outcome failure", _ls)
