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
    """A table that scrolls sideways on a narrow screen; columns from `numeric_from` on are set as figures."""
    classes = [{} if i < numeric_from else {"class": "figure"} for i in range(len(head))]
    top = tag("tr", {}, *(tag("th", {"scope": "col", **c}, text) for c, text in zip(classes, head, strict=True)))
    body = [tag("tr", {}, *(tag("td", c, text) for c, text in zip(classes, row, strict=True))) for row in rows]
    return tag("div", {"class": "scroll"}, tag("table", {}, tag("thead", {}, top), tag("tbody", {}, *body)))
