"""The report's sections, each a heading with a note beside a figure or a table. A section without data is absent."""

import shlex

from robotrl.view import charts, words
from robotrl.view.charts import Interval
from robotrl.view.markup import Markup, table, tag
from robotrl.view.report_data import IterationPoint, OperatorUse, Rate, ReportData
from robotrl.view.report_evidence import critic_section, data_section, gate_section
from robotrl.view.report_parts import figure, section

_RECORDINGS_SHOWN = 12


def sections(report: ReportData) -> list[Markup]:
    """All sections that have something to show, in reading order."""
    found = (
        _outcome(report),
        _learning(report),
        _operator(report),
        gate_section(report),
        critic_section(report),
        data_section(report),
        _time(report),
        _recordings(report),
        _reproduction(report),
    )
    return [part for part in found if part]


def _mark(rate: Rate, label: str, tone: str) -> Interval:
    low, high = words.percent(rate.low), words.percent(rate.high)
    hint = f"{label}: {words.percent(rate.value)}, {low} to {high}, n = {rate.n}"
    return Interval(rate.value, rate.low, rate.high, label=label, tone=tone, hint=hint)


def _outcome(report: ReportData) -> Markup:
    if not report.comparisons:
        return Markup("")
    blocks: list[Markup] = []
    for comparison in report.comparisons:
        rates = {"before": comparison.before, "control": comparison.control, "after": comparison.after}
        rows = [_mark(rate, name, name) for name, rate in rates.items() if rate is not None]
        gain = comparison.over_control
        caption = f"{comparison.selector.capitalize()}, n = {words.count(comparison.after.n)}"
        if gain is not None:
            low, high = words.points(gain.low, False), words.points(gain.high, False)
            caption += f". After over control: {words.points(gain.difference)} ({low} to {high})"
        description = f"{comparison.selector}: " + "; ".join(row.hint for row in rows)
        blocks.append(figure(caption, charts.forest(rows, description)))
    note = (
        "Success on the final starts, each with its 95 % interval. The control separates new data from more training."
    )
    return section("Before, control, after", note, *blocks)


def _learning(report: ReportData) -> Markup:
    points = report.iterations
    if len(points) < 2:
        return Markup("")
    control = report.comparisons[0].control if report.comparisons else None
    reference = None if control is None else _mark(control, "control", "control")
    axes = (
        ("By iteration", "iteration", [float(p.iteration) for p in points], True),
        ("By rollout", "rollouts", [float(p.rollouts) for p in points], False),
        ("By operator minute", "minutes of driving", [p.operator_s / 60 for p in points], False),
    )
    figures = [
        figure(title, charts.curve(_at(points, xs), axis, f"Success {title.lower()}", reference, whole))
        for title, axis, xs, whole in axes
    ]
    note = "Success of the policy in use after each iteration, and what it had cost by then."
    return section("Learning", note, tag("div", {"class": "many"}, *figures))


def _at(points: tuple[IterationPoint, ...], xs: list[float]) -> list[Interval]:
    return [
        Interval(
            point.success.value, point.success.low, point.success.high, x,
            hint=f"iteration {point.iteration}: {words.percent(point.success.value)}, n = {point.success.n}",
        )
        for point, x in zip(points, xs, strict=True)
    ]  # fmt: skip


def _operator(report: ReportData) -> Markup:
    if not report.operator:
        return Markup("")
    uses = list(report.operator)
    if len(uses) > 1:
        columns = zip(
            *((u.episodes, u.takeovers, u.driving_s, u.orientation_s, u.watching_s) for u in uses), strict=True
        )
        episodes, takeovers, driving, orientation, watching = map(sum, columns)
        uses.append(OperatorUse("in all", int(episodes), int(takeovers), driving, orientation, watching))
    rows = [
        (
            use.stage,
            words.count(use.episodes),
            words.count(use.takeovers),
            words.seconds(use.driving_s),
            words.seconds(use.orientation_s),
            words.seconds(use.watching_s),
        )
        for use in uses
    ]
    head = ("stage", "episodes", "takeovers", "driving", "turning to it", "watching")
    note = "Driving, turning to a robot that calls, and watching are different kinds of work and are counted apart."
    return section("The person", note, table(head, rows))


def _time(report: ReportData) -> Markup:
    if not report.stages:
        return Markup("")
    parts = [(s.name, s.wall_s, f"{words.seconds(s.wall_s)} ({words.seconds(s.cpu_s)})") for s in report.stages]
    return section(
        "Time by stage", "Wall clock, and in brackets the processor time of all threads.", charts.shares(parts, "Time")
    )


def _recordings(report: ReportData) -> Markup:
    if not report.recordings:
        return Markup("")
    shown = report.recordings[:_RECORDINGS_SHOWN]
    items = [tag("li", {}, name) for name in shown]
    if len(shown) < len(report.recordings):
        items.append(tag("li", {}, f"and {len(report.recordings) - len(shown)} more"))
    command = tag("pre", {}, f"robotrl view {shlex.quote(report.run)}")
    note = "Episodes to look at: the scene, actions as executed and as proposed, control and critic over time."
    return section("Recordings", note, command, tag("ul", {"class": "names"}, *items))


def _reproduction(report: ReportData) -> Markup:
    how = report.reproduction
    if how is None:
        return Markup("")
    rows = [*how.seeds, *how.versions]
    note = "The same command with the same versions gives the same figures."
    content = [tag("pre", {}, how.command)] + ([table((), rows, numeric_from=2)] if rows else [])
    return section("How to reproduce", note, *content)
