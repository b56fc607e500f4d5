"""HTML and SVG from nested calls in which all text is escaped unless it is already `Markup`."""

import html
from collections.abc import Mapping

VOID = frozenset({"meta", "br", "hr", "img", "input", "link"})
"""HTML elements that have no content and no end tag."""

Attributes = Mapping[str, str | int | float]


class Markup(str):
    """Text that is already HTML or SVG."""

    __slots__ = ()


def join(*parts: str) -> Markup:
    """Parts one after the other; those that are not `Markup` are escaped."""
    return Markup("".join(part if isinstance(part, Markup) else html.escape(part) for part in parts))


def tag(name: str, attributes: Attributes | None = None, *children: str) -> Markup:
    """An element. Children that are not `Markup` are escaped, and so are attribute values."""
    written = "".join(f' {key}="{html.escape(_plain(value))}"' for key, value in (attributes or {}).items())
    if name in VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")


def _plain(value: str | int | float) -> str:
    """Floats with at most two decimals: a hundredth of a pixel or of a percent is enough to draw with."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]], numeric_from: int = 1) -> Markup:
    """A table that scrolls sideways on a narrow screen; columns from `numeric_from` on are set as figures.

    Without a `head` the first column names the rows.
    """
    body = [tag("tr", {}, *_cells(row, numeric_from, named=not head)) for row in rows]
    top: list[Markup] = []
    if head:
        cells = [tag("th", {"scope": "col", **_figure(i, numeric_from)}, text) for i, text in enumerate(head)]
        top.append(tag("thead", {}, tag("tr", {}, *cells)))
    return tag("div", {"class": "scroll"}, tag("table", {}, *top, tag("tbody", {}, *body)))


def _cells(row: tuple[str, ...], numeric_from: int, named: bool) -> list[Markup]:
    cells = [tag("td", _figure(i, numeric_from), text) for i, text in enumerate(row)]
    return [tag("th", {"scope": "row"}, row[0]), *cells[1:]] if named else cells


def _figure(column: int, numeric_from: int) -> dict[str, str]:
    return {"class": "figure"} if column >= numeric_from else {}
