"""How the tools print: aligned tables for people, JSON for programs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from robotrl.errors import ConfigurationError


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under headers; columns of numbers but the first are aligned to the right."""
    cells = [[_printable(cell) for cell in row] for row in rows]
    if not cells:
        return
    widths = [max(len(row[i]) for row in [list(headers), *cells]) for i in range(len(headers))]
    right = [i > 0 and all(_is_number(row[i]) for row in cells) for i in range(len(headers))]
    for row in [headers, *cells]:
        padded = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True))
        print(f"  {'  '.join(padded).rstrip()}")


def pairs(values: Mapping[str, object]) -> None:
    """Print `name  value` lines; empty values are left out."""
    shown = {name: value for name, value in values.items() if value not in ("", None)}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        print(f"  {name:<{width}}  {_printable(value)}")


def heading(text: str) -> None:
    """Print a line that begins a section."""
    print(f"\n{text}")


def hint(text: str) -> None:
    """Print what to run next."""
    print(f"  next    {text}")


def as_json(value: object) -> None:
    """Print a dataclass or plain value as JSON; what is not finite becomes null."""
    print(json.dumps(_plain(value), indent=2, allow_nan=False))


def require_yes(yes: bool, what: str) -> None:
    """Raise `ConfigurationError`, after the plan was shown, unless it was confirmed."""
    if not yes:
        raise ConfigurationError(f"nothing was changed: repeat the command with --yes to {what}")


def percent(share: float) -> str:
    """0.123 → "12.3%"."""
    return f"{share:.1%}" if isfinite(share) else "-"


def shown(names: Sequence[str], limit: int = 5) -> str:
    """The first names, and how many more there are."""
    rest = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {rest} more" if rest > 0 else "")


def _printable(value: object) -> str:
    """Its text; characters that would steer the terminal, as a foreign data set may hold them, become escapes."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(value))


def _is_number(cell: str) -> bool:
    return cell.rstrip("%").replace(".", "").replace("-", "").replace("e", "").replace("+", "").isdecimal() or not cell


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
