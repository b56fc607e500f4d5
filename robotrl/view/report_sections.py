"""The report's sections, each a heading with a note beside a figure or a table. A section without data is absent."""

from robotrl.control.gate import Verdict
from robotrl.view import charts, words
from robotrl.view.charts import Interval
from robotrl.view.markup import Markup, join, table, tag
from robotrl.view.report_data import (
    Comparison,
    CriticReport,
    IterationPoint,
    Mixture,
    OperatorUse,
    Rate,
    ReportData,
)


def sections(report: ReportData) -> list[Markup]:
    """All sections that have something to show, in reading order."""
    found = (
        _outcome(report),
        _learning(report),
        _operator(report),
        _gate(report),
        _critic(report),
        _data(report),
        _time(report),
        _recordings(report),
        _reproduction(report),
    )
    return [section for section in found if section]


def _section(title: str, note: str, *content: str) -> Markup:
    heading = tag("header", {}, tag("h2", {}, title), tag("p", {}, note))
    return tag("section", {}, heading, tag("div", {}, *content))


def _figure(caption: str, chart: Markup) -> Markup:
    return tag("figure", {}, tag("figcaption", {}, caption), chart) if chart else Markup("")


def _verdict(good: bool, said: str) -> Markup:
    return tag("span", {"class": f"verdict {'good' if good else 'bad'}"}, said)


def _mark(rate: Rate, label: str, tone: str) -> Interval:
    low, high = words.percent(rate.low), words.percent(rate.high)
    hint = f"{label}: {words.percent(rate.value)}, {low} to {high}, n = {rate.n}"
    return Interval(rate.value, rate.low, rate.high, label=label, tone=tone, hint=hint)


def _selector(comparison: Comparison) -> str:
    return "Single draw" if comparison.draws == 1 else f"Average of {comparison.draws} draws"


def _outcome(report: ReportData) -> Markup:
    if not report.comparisons:
        return Markup("")
    blocks: list[Markup] = []
    for comparison in report.comparisons:
        rates = {"before": comparison.before, "control": comparison.control, "after": comparison.after}
        rows = [_mark(rate, name, name) for name, rate in rates.items() if rate is not None]
        gain = comparison.over_control
        caption = f"{_selector(comparison)}, n = {words.count(comparison.after.n)}"
        if gain is not None:
            low, high = words.points(gain.low, False), words.points(gain.high, False)
            caption += f". After over control: {words.points(gain.difference)} ({low} to {high})"
        description = f"{_selector(comparison)}: " + "; ".join(row.hint for row in rows)
        blocks.append(_figure(caption, charts.forest(rows, description)))
    note = (
        "Success on the final starts, each with its 95 % interval. The control separates new data from more training."
    )
    return _section("Before, control, after", note, *blocks)


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
        _figure(title, charts.curve(_at(points, xs), axis, f"Success {title.lower()}", reference, whole))
        for title, axis, xs, whole in axes
    ]
    note = "Success of the policy in use after each iteration, and what it had cost by then."
    return _section("Learning", note, tag("div", {"class": "many"}, *figures))


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
    return _section("The person", note, table(head, rows))


def _gate(report: ReportData) -> Markup:
    if not report.gates:
        return Markup("")
    note = (
        "A challenger replaces the champion only if a one-sided paired test says so. "
        "The allowed error is shared out over all looks and iterations."
    )
    return _section("What the gate decided", note, *(_gate_verdict(looks) for looks in report.gates if looks))


def _gate_verdict(looks: tuple[Verdict, ...]) -> Markup:
    head = ("starts", "champion", "challenger", "difference", "95 % interval", "p", "allowed", "decision")
    rows = [
        (
            words.count(look.n),
            words.percent(look.champion),
            words.percent(look.challenger),
            words.points(look.difference, False),
            f"{words.points(look.low, False)} to {words.points(look.high, False)}",
            _probability(look.p_value),
            _probability(look.budget),
            look.decision,
        )
        for look in looks
    ]
    last = looks[-1]
    promoted = last.decision == "promote"
    said = _verdict(promoted, "Promoted." if promoted else "Not promoted.")
    title = tag("h3", {}, f"Iteration {last.iteration}")
    return join(title, tag("p", {}, said, f" {last.reason[:1].upper()}{last.reason[1:]}."), table(head, rows))


def _probability(value: float) -> str:
    return "< 0.0001" if 0 <= value < 1e-4 else words.number(value, 4)


def _critic(report: ReportData) -> Markup:
    if not report.critics:
        return Markup("")
    note = (
        "Among held-out states given a probability, how many led to success. On the diagonal the critic can be "
        "believed. Its gate decides whether the weights that it makes may be used."
    )
    return _section("Can the critic be believed?", note, *map(_critic_report, report.critics))


def _critic_report(critic: CriticReport) -> Markup:
    bins = [
        Interval(
            b.observed, b.low, b.high, b.predicted,
            hint=f"predicted {words.percent(b.predicted)}, observed {words.percent(b.observed)}, "
            f"{words.count(b.count)} states",
        )
        for b in critic.bins
    ]  # fmt: skip
    figures = [("AUC", words.number(critic.auc)), ("Brier score", words.number(critic.brier, 3))]
    figures.append(("calibration error", words.number(critic.ece, 3)))
    if critic.improvement is not None:
        gain = critic.improvement
        interval = f"{words.points(gain.low, False)} to {words.points(gain.high, False)}"
        figures.append(("estimated gain", f"{words.points(gain.value)} ({interval})"))
    if critic.effective_share == critic.effective_share:
        figures.append(("effective samples", words.percent(critic.effective_share)))
    said = _verdict(critic.used, "Weights used." if critic.used else "Weights not used.")
    counts = [b.count for b in critic.bins]
    chart = charts.reliability(bins, counts, "Observed success by predicted probability") if bins else Markup("")
    pair = tag(
        "div",
        {"class": "many"},
        _figure("Observed success", chart),
        _figure("On held-out episodes", table((), figures)),
    )
    title = tag("h3", {}, f"Iteration {critic.iteration}")
    return join(title, tag("p", {}, said, f" {critic.reason}"), pair)


def _data(report: ReportData) -> Markup:
    if not report.mixtures:
        return Markup("")
    note = (
        "Where the sampled ticks of each training round came from. "
        "The share of ticks that led to failure predicts loss, so it is limited."
    )
    return _section("What it learned from", note, *map(_mixture, report.mixtures))


def _mixture(mixture: Mixture) -> Markup:
    parts = [(name, mass, words.percent(mass)) for name, mass in mixture.sources]
    limits = f"warned of above {words.percent(mixture.warn_share)}, refused above {words.percent(mixture.refuse_share)}"
    said = (
        f"{words.count(mixture.ticks)} ticks, an effective sample of {words.percent(mixture.effective_share)} of them. "
        f"Failures hold {words.percent(mixture.failure_share)} of the mass ({limits})."
    )
    bars = charts.shares(parts, "Share of the sampling mass by source")
    weights = charts.histogram(mixture.weights, "weight", "Ticks by weight")
    title = tag("h3", {}, f"Iteration {mixture.iteration}" if mixture.iteration else "Base")
    return join(title, bars, tag("p", {}, said), _figure("Ticks by weight", weights))


def _time(report: ReportData) -> Markup:
    if not report.stages:
        return Markup("")
    parts = [(s.name, s.wall_s, f"{words.seconds(s.wall_s)} ({words.seconds(s.cpu_s)})") for s in report.stages]
    return _section(
        "Time by stage", "Wall clock, and in brackets the processor time of all threads.", charts.shares(parts, "Time")
    )


def _recordings(report: ReportData) -> Markup:
    if not report.recordings:
        return Markup("")
    items = [tag("li", {}, name) for name in report.recordings]
    command = tag("pre", {}, f"robotrl view {report.run}")
    note = "Episodes to look at: the scene, actions as executed and as proposed, control and critic over time."
    return _section("Recordings", note, command, tag("ul", {"class": "names"}, *items))


def _reproduction(report: ReportData) -> Markup:
    how = report.reproduction
    if how is None:
        return Markup("")
    rows = [*how.seeds, *how.versions]
    note = "The same command with the same versions gives the same figures."
    content = [tag("pre", {}, how.command)] + ([table((), rows, numeric_from=2)] if rows else [])
    return _section("How to reproduce", note, *content)
