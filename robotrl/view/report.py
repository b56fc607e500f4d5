"""`report.html`: one self-contained file that says what a run did and whether it helped.

Styles and charts are inline; nothing is fetched and nothing is executed, which the page's own security policy enforces.
"""

from importlib import resources
from pathlib import Path

from robotrl.data.durable import ensure_directory, write_atomic
from robotrl.view import words
from robotrl.view.markup import Markup, join, tag
from robotrl.view.report_data import Comparison, Rate, ReportData
from robotrl.view.report_sections import sections

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def write_report(path: str | Path, report: ReportData) -> Path:
    """Write the report; the file appears whole or not at all. Parts that `report` lacks are left out."""
    path = Path(path)
    ensure_directory(path.parent)
    write_atomic(path, report_html(report).encode())
    return path


def report_html(report: ReportData) -> str:
    """The whole page as text."""
    css = resources.files("robotrl.view").joinpath("report.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        {},
        tag("meta", {"charset": "utf-8"}),
        tag("meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY}),
        tag("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        tag("title", {}, f"{report.task}: {report.run}"),
        tag("style", {}, Markup(css)),
    )
    body = tag("main", {}, _opening(report), *sections(report), _closing(report))
    return "<!DOCTYPE html>\n" + tag("html", {"lang": "en"}, head, tag("body", {}, body)) + "\n"


def _opening(report: ReportData) -> Markup:
    first = report.comparisons[0] if report.comparisons else None
    kicker = " · ".join(filter(None, (report.task, report.robot, report.run, report.finished)))
    parts = [tag("p", {"class": "kicker"}, kicker), _title(report, first)]
    parts.append(tag("p", {"class": "lead"}, headline(report)))
    parts.append(_facts(report, first))
    if report.warnings:
        items = [tag("li", {}, warning) for warning in report.warnings]
        parts.append(tag("div", {"class": "notice", "role": "note"}, tag("ul", {}, *items)))
    return tag("div", {"class": "opening"}, *parts)


def _title(report: ReportData, first: Comparison | None) -> Markup:
    if first is None:
        return tag("h1", {}, report.task)
    before, after = words.percent(first.before.value, 0), words.percent(first.after.value, 0)
    return tag(
        "h1",
        {"aria-label": f"{report.task}: from {before} to {after} success"},
        tag("span", {"class": "from"}, before),
        tag("span", {"class": "arrow"}, " → "),
        after,
    )


def headline(report: ReportData) -> str:
    """The run in sentences: before and after, what the control explains, the paired difference, and the caveats."""
    if not report.comparisons:
        state = "has ended" if report.complete else "is not complete"
        return f"This run {state}; it has no final evaluation, so nothing can be said about its gain yet."
    first = report.comparisons[0]
    said = [
        f"On {words.count(first.after.n)} starts of “{report.task}” that training never saw, executing "
        f"{first.selector}, success went from {_with_interval(first.before)} to {_with_interval(first.after)}."
    ]
    if first.control is not None:
        said.append(
            f"The control, trained for as many updates on no new data, reaches {_with_interval(first.control)}."
        )
    said.append(_verdict(first))
    if report.driving_s > 0:
        said.append(f"It took {words.seconds(report.driving_s)} of a person's driving, the demonstrations apart.")
    return " ".join(filter(None, said))


def row(comparison: Comparison) -> str:
    """One selector's figures in a line."""
    rates = {"before": comparison.before, "control": comparison.control, "after": comparison.after}
    said = [f"{name} {words.percent(rate.value)}" for name, rate in rates.items() if rate is not None]
    gain = comparison.over_control
    if gain is not None:
        low, high = words.points(gain.low, False), words.points(gain.high, False)
        said.append(f"over the control {words.points(gain.difference)} ({low} to {high})")
    return f"{comparison.selector}: {', '.join(said)}"


def _with_interval(rate: Rate) -> str:
    return f"{words.percent(rate.value)} ({words.percent(rate.low)} to {words.percent(rate.high)})"


def _verdict(comparison: Comparison) -> str:
    gain = comparison.over_control
    if gain is None:
        return "There is no control to compare with, so the gain may come from training longer."
    amount = (
        f"{words.points(gain.difference)} over the control "
        f"(paired {words.percent(0.95)} interval {words.points(gain.low, False)} to {words.points(gain.high, False)})"
    )
    if gain.low > 0:
        return f"The new data is worth {amount}."
    if gain.high < 0:
        return f"The loop did harm: {amount}."
    return f"The difference, {amount}, cannot be told from chance."


def _facts(report: ReportData, first: Comparison | None) -> Markup:
    facts: list[tuple[str, str]] = []
    if first is not None and first.over_control is not None:
        facts.append(("over the control", words.points(first.over_control.difference)))
    if report.operator:
        facts.append(("driving", words.seconds(report.driving_s)))
        facts.append(("watching", words.seconds(report.watching_s)))
    if report.control_steps:
        facts.append(("control steps", words.count(report.control_steps)))
    facts.extend(
        (name, words.seconds(value))
        for name, value in (("wall clock", report.wall_s), ("processor", report.cpu_s))
        if value == value
    )
    rows = [tag("div", {}, tag("dt", {}, name), tag("dd", {}, value)) for name, value in facts]
    return tag("dl", {"class": "facts"}, *rows) if rows else Markup("")


def _closing(report: ReportData) -> Markup:
    note = (
        "Intervals are Wilson 95 % intervals; differences are paired by start. "
        "Before, control and after use the same selector on the same starts."
    )
    return join(tag("footer", {}, tag("p", {}, note)))
