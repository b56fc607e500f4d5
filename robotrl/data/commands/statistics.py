"""`stats`: what a store holds, as people ask it."""

import shlex
from argparse import Namespace

from robotrl.data.commands.locate import open_store
from robotrl.data.corrections import read_corrections
from robotrl.data.ranges import JUMP_SHARE
from robotrl.data.summary import Summary, summarise
from robotrl.progress import bar
from robotrl.terminal.output import as_json, heading, hint, pairs, percent, shown, table
from robotrl.terminal.parser import Parser, Subcommand


def _arguments(parser: Parser) -> None:
    parser.store()
    parser.json()


def _stats(options: Namespace) -> None:
    store = open_store(options.store)
    snapshot = store.snapshot()
    with bar("read episodes", len(snapshot)) as report:
        summary = summarise(snapshot, store.spec, read_corrections(store), report)
    if options.json:
        intervals = [dict(zip(("rate", "low", "high"), group.interval, strict=True)) for group in summary.groups]
        as_json({"episodes": summary.episodes, "ticks": summary.ticks, "success": intervals, "summary": summary})
        return
    _print_totals(summary)
    _print_groups(summary)
    _print_ranges(summary)
    _print_oddities(summary)
    hint(f"robotrl data verify {shlex.quote(str(options.store))}")


def _print_totals(summary: Summary) -> None:
    tally = summary.tally
    person = f"{tally.operator_s:.1f} s driving, {tally.orient_s:.1f} s turning to, {tally.watch_s:.1f} s watching"
    pairs(
        {
            "episodes": summary.episodes,
            "robot time": f"{tally.seconds / 3600:.2f} h, {summary.ticks} ticks",
            "interventions": f"{tally.takeovers}, {tally.human_ticks} ticks",
            "a person's time": person,
            "corrected": summary.corrected or None,
        }
    )


def _print_groups(summary: Summary) -> None:
    heading("success, of episodes with an outcome")
    rows: list[tuple[object, ...]] = []
    for group in summary.groups:
        rate, low, high = group.interval
        span = f"[{percent(low)}, {percent(high)}]"
        counts = (group.episodes, group.successes, group.failures, group.cut)
        rows.append((group.task, group.source, *counts, percent(rate), span))
    table(("task", "source", "episodes", "success", "failure", "cut", "rate", "Wilson 95%"), rows)


def _print_ranges(summary: Summary) -> None:
    heading("values")
    headers = ("array", "element", "unit", "min", "max", "mean", "std", "at low", "at high", "jumps")
    table(
        headers,
        [
            (e.array, e.element, e.unit, *(f"{v:.4g}" for v in (e.minimum, e.maximum, e.mean, e.std)),
             percent(e.at_low), percent(e.at_high), e.jumps)
            for e in summary.elements
        ],
    )  # fmt: skip


def _print_oddities(summary: Summary) -> None:
    """What deserves a look; silent about what there is none of."""
    tally, jumping = summary.tally, [e for e in summary.elements if e.array == "action" and e.jumps]
    frozen = [f"{f.episode} {f.camera} rows {f.start}-{f.stop}" for f in summary.frozen]
    found = {
        "starved ticks": tally.starved_ticks or None,
        "clamped ticks": tally.clamped_ticks or None,
        "dropped ticks": tally.dropped_ticks or None,
        "clock stood or ran back": f"{tally.clock_ticks} ticks" if tally.clock_ticks else None,
        "not finite": shown([f"{e.element} {e.not_finite}" for e in summary.elements if e.not_finite]),
        "equal episodes": shown([f"{len(ids)} ({shown(ids, 3)})" for ids in summary.equal_content]),
        "equal actions only": shown([f"{len(ids)} ({shown(ids, 3)})" for ids in summary.equal_actions]),
        "frozen cameras": shown(frozen),
        f"action jumps > {JUMP_SHARE:.0%} of range": shown(
            [f"{e.element} {e.jumps} in {e.jump_episodes} episodes" for e in jumping]
        ),
        "do not read": shown([id_ for id_, _ in summary.unreadable]),
    }
    heading("worth a look")
    pairs(found)
    if not any(found.values()):
        print("  nothing")
    print()


STATS = Subcommand("hours, success, interventions, ranges, and what looks odd", _arguments, "runs/mine", _stats)
