"""`verify`, `recover` and `pack`: whether a store is whole, and putting it in order."""

import shlex
from argparse import Namespace
from collections.abc import Sequence

from robotrl.data.commands.locate import open_store
from robotrl.data.pack import pack_store
from robotrl.data.recover import RecoveryReport, recover_store
from robotrl.data.verify import verify_store
from robotrl.errors import DataError
from robotrl.progress import bar
from robotrl.terminal.output import as_json, hint, pairs, require_yes, table
from robotrl.terminal.parser import Parser, Subcommand


def _verify_arguments(parser: Parser) -> None:
    parser.store()
    parser.json()


def _verify(options: Namespace) -> None:
    store = open_store(options.store)
    with bar("verify", 0) as report:
        findings = verify_store(store, progress=report)
    errors = sum(finding.severity == "error" for finding in findings)
    if options.json:
        as_json(findings)
    else:
        for finding in findings:
            print(f"  {finding.severity:<8}{finding.path}\n          {finding.problem}\n          -> {finding.advice}")
        counts = f"{errors} errors, {len(findings) - errors} warnings"
        print(f"  {counts}" if findings else "  every byte is what was committed")
    if errors:
        raise DataError(f"{store.root}: {errors} errors, listed above with what to do")


def _recover_arguments(parser: Parser) -> None:
    parser.store()
    parser.yes()
    parser.json()


def _recover(options: Namespace) -> None:
    root = open_store(options.store).root
    with bar("look", 0) as report:
        planned = recover_store(root, dry_run=True, progress=report)
    done = planned
    if planned.repairs and options.yes:
        with bar("repair", 0) as report:
            done = recover_store(root, progress=report)
    if options.json:
        as_json(done)
    else:
        _print_repairs(done)
    _require_all(done.failed)
    if planned.repairs:
        require_yes(options.yes, "repair it")
    if not options.json:
        hint(f"robotrl data verify {shlex.quote(str(options.store))}")


def _print_repairs(report: RecoveryReport) -> None:
    for repair in report.repairs:
        print(f"  {repair.path}\n          {repair.action}")
    _print_left_alone(report.busy, report.failed)
    if not report.repairs:
        print("  nothing to repair")


def _print_left_alone(busy: Sequence[str], failed: Sequence[tuple[str, str]]) -> None:
    """Writers that live, and what went wrong with others."""
    table(
        ("writer", "left alone because"),
        [*((name, "a process is writing to it") for name in busy), *failed],
    )


def _require_all(failed: Sequence[tuple[str, str]]) -> None:
    if failed:
        raise DataError(f"{len(failed)} writers could not be put in order: {'; '.join(why for _, why in failed)}")


def _pack_arguments(parser: Parser) -> None:
    parser.store()
    parser.json()


def _pack(options: Namespace) -> None:
    store = open_store(options.store)
    with bar("pack", 0) as progress:
        report = pack_store(store, progress=progress)
    if options.json:
        as_json(report)
    else:
        pairs(
            {
                "episodes moved": report.episodes,
                "segments written": report.segments,
                "smaller by": f"{report.freed_bytes / 1e6:.1f} MB",
            }
        )
        _print_left_alone(report.busy, report.failed)
    _require_all(report.failed)
    if not options.json:
        hint(f"robotrl data verify {shlex.quote(str(options.store))}")


VERIFY = Subcommand("check every CRC and every array, and say what is wrong", _verify_arguments, "runs/mine", _verify)
RECOVER = Subcommand("put a store in order after a crash or damage", _recover_arguments, "runs/mine --yes", _recover)
PACK = Subcommand("compact episodes into larger files; free removed ones", _pack_arguments, "runs/mine", _pack)
