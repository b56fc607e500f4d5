"""Small charts as inline SVG that keeps its text size at every width.

Horizontal positions are percentages and vertical ones pixels, so that a chart stretches without scaling. Margins for
labels are CSS (`svg.plot`), colours are classes of `report.css`.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from robotrl.view import words
from robotrl.view.markup import Markup, join, tag


@dataclass(frozen=True)
class Interval:
    """A value with an interval around it, at `x`; `tone` is its colour class, `hint` appears under the pointer."""

    value: float
    low: float
    high: float
    x: float = 0.0
    label: str = ""
    tone: str = "after"
    hint: str = ""

    @property
    def drawable(self) -> bool:
        """Whether all of its numbers are finite."""
        return all(map(math.isfinite, (self.value, self.low, self.high, self.x)))


@dataclass(frozen=True)
class Scale:
    """A linear map of data in [low, high] to [start, stop]: percent across, pixels down."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """Where `value` is; values outside stay at the edge."""
        span = self.high - self.low
        share = (min(max(value, self.low), self.high) - self.low) / span if span > 0 else 0.5
        return self.start + share * (self.stop - self.start)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most `most` + 1 round values that cover [low, high] from inside, steps of 1, 2 or 5 times a power of ten."""
    span = high - low
    if not span > 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * m for m in (1, 2, 5, 10) if span / (power * m) <= most)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 10) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _across(percentage: float) -> str:
    return f"{percentage:.2f}%"


def line(x1: float, y1: float, x2: float, y2: float, tone: str) -> Markup:
    """A straight line between (x percent, y px) points."""
    ends = {"x1": _across(x1), "y1": y1, "x2": _across(x2), "y2": y2}
    return tag("line", {**ends, "class": tone})


def text(x: float, y: float, words_: str, anchor: str = "middle", dx: float = 0, tone: str = "label") -> Markup:
    """Words at (x percent, y px), shifted by `dx` px."""
    place = {"x": _across(x), "y": y, "dx": dx, "text-anchor": anchor}
    return tag("text", {**place, "class": tone}, words_)


def dot(x: float, y: float, radius: float, tone: str, hint: str = "") -> Markup:
    """A filled circle at (x percent, y px) with words that appear under the pointer."""
    title = [tag("title", {}, hint)] if hint else []
    return tag("circle", {"cx": _across(x), "cy": y, "r": radius, "class": f"dot {tone}"}, *title)


def plot(height: int, description: str, parts: Iterable[Markup], kind: str = "plot") -> Markup:
    """The chart itself; `description` is read aloud in its place."""
    attributes = {"class": kind, "height": height, "role": "img", "aria-label": description}
    return tag("svg", attributes, *parts)


def forest(rows: Sequence[Interval], description: str) -> Markup:
    """Rates in [0, 1] one below the other: a whisker for the interval, a dot for the value, the value in words."""
    rows = [row for row in rows if row.drawable]
    step, top = 40, 8
    bottom = top + step * len(rows)
    across = Scale(0.0, 1.0, 0.0, 100.0)
    parts: list[Markup] = []
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(line(across(value), top, across(value), bottom, "grid"))
        parts.append(text(across(value), bottom + 18, words.percent(value)))
    for index, row in enumerate(rows):
        y = top + step * (index + 0.5)
        parts.append(line(across(row.low), y, across(row.high), y, f"whisker {row.tone}"))
        parts.append(dot(across(row.value), y, 6, row.tone, row.hint))
        parts.append(text(0, y + 4, row.label, "end", -12, "name"))
        parts.append(text(100, y - 1, words.percent(row.value), "start", 12, "value"))
        parts.append(text(100, y + 14, words.span(row.low, row.high), "start", 12))
    return plot(bottom + 28, description, parts, "plot forest")


def curve(
    points: Sequence[Interval], axis: str, description: str, reference: Interval | None = None, whole: bool = False
) -> Markup:
    """Rates in [0, 1] over a quantity: whiskers, dots, and a line from each to the next.

    Args:
        points: in order of `x`.
        axis: the quantity and its unit, below the axis.
        description: read aloud in place of the chart.
        reference: a rate to draw across as a dashed line, with its label.
        whole: whether only whole numbers make sense on the axis.
    """
    points = [point for point in points if point.drawable]
    height, base, top = 210, 168, 10
    xs = [point.x for point in points] or [0.0]
    across = Scale(min(xs), max(xs), 0.0, 100.0)
    down = Scale(0.0, 1.0, base, top)
    parts = _rate_axis(down)
    marks = ticks(min(xs), max(xs), 4)
    for mark in (m for m in marks if not whole or m == int(m)):
        parts.append(text(across(mark), base + 20, words.number(mark, 0 if mark == int(mark) else 1)))
    parts.append(text(50, base + 40, axis, tone="axis"))
    if reference is not None and reference.drawable:
        y = down(reference.value)
        parts.append(line(0, y, 100, y, f"reference {reference.tone}"))
        parts.append(text(100, y - 6, reference.label, "end", tone=f"label {reference.tone}"))
    for before, after in pairwise(points):
        ends = (across(before.x), down(before.value), across(after.x), down(after.value))
        parts.append(line(*ends, "trend"))
    for point in points:
        x = across(point.x)
        parts.append(line(x, down(point.low), x, down(point.high), f"whisker thin {point.tone}"))
        parts.append(dot(x, down(point.value), 4.5, point.tone, point.hint))
    return plot(height, description, parts)


def _rate_axis(down: Scale) -> list[Markup]:
    parts: list[Markup] = []
    for value in (0.0, 0.5, 1.0):
        parts.append(line(0, down(value), 100, down(value), "grid"))
        parts.append(text(0, down(value) + 4, words.percent(value), "end", -8))
    return parts


def reliability(bins: Sequence[Interval], counts: Sequence[int], description: str) -> Markup:
    """Observed success over predicted probability (`Interval.x`), with the diagonal; dots grow with their count."""
    height, base, top = 250, 208, 10
    across, down = Scale(0.0, 1.0, 0.0, 100.0), Scale(0.0, 1.0, base, top)
    parts = _rate_axis(down)
    parts.append(line(0, base, 100, top, "reference before"))
    for value in (0.0, 0.5, 1.0):
        parts.append(text(across(value), base + 20, words.percent(value)))
    parts.append(text(50, base + 38, "predicted probability", tone="axis"))
    largest = max(counts, default=1) or 1
    for point, count in zip(bins, counts, strict=True):
        if point.drawable and count > 0:
            x = across(point.x)
            parts.append(line(x, down(point.low), x, down(point.high), "whisker thin after"))
            parts.append(dot(x, down(point.value), 3 + 4 * math.sqrt(count / largest), "after", point.hint))
    return plot(height, description, parts)


def histogram(bars: Sequence[tuple[float, float, int]], axis: str, description: str) -> Markup:
    """Counts over [low, high) stretches of a quantity."""
    bars = [bar for bar in bars if all(map(math.isfinite, bar))]
    if not bars:
        return Markup("")
    height, base, top = 130, 88, 8
    across = Scale(bars[0][0], bars[-1][1], 0.0, 100.0)
    down = Scale(0.0, max(max(count for *_, count in bars), 1), base, top)
    parts = [line(0, base, 100, base, "grid")]
    for low, high, count in bars:
        x, y = across(low), down(count)
        box = {"x": _across(x), "y": y, "width": _across(across(high) - x), "height": base - y, "class": "bar after"}
        hint = f"{words.number(low)} to {words.number(high)}: {words.count(count)}"
        parts.append(tag("rect", box, tag("title", {}, hint)))
    parts += [text(across(mark), base + 18, f"{mark:g}") for mark in ticks(bars[0][0], bars[-1][1], 4)]
    parts.append(text(50, base + 36, axis, tone="axis"))
    return plot(height, description, parts)


def shares(parts: Sequence[tuple[str, float, str]], description: str) -> Markup:
    """A bar cut into named parts (name, amount, amount in words), with a legend; nothing when there is no amount."""
    total = sum(amount for _, amount, _ in parts if math.isfinite(amount) and amount > 0)
    if not total > 0:
        return Markup("")
    boxes: list[Markup] = []
    legend: list[Markup] = []
    start = 0.0
    for index, (name, amount, said) in enumerate(parts):
        tone = f"hue{index % 8}"
        if math.isfinite(amount) and amount > 0:
            width = 100 * amount / total
            box = {"x": _across(start), "y": 0, "width": _across(width), "height": 14, "class": f"bar {tone}"}
            boxes.append(tag("rect", box, tag("title", {}, f"{name}: {said}")))
            start += width
        swatch = tag("span", {"class": f"swatch {tone}"})
        legend.append(tag("li", {}, swatch, tag("span", {}, name), tag("span", {"class": "amount"}, said)))
    return join(plot(14, description, boxes, "plot shares"), tag("ul", {"class": "legend"}, *legend))
