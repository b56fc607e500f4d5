"""The report's evidence: what the gate decided, whether the critic can be believed, and what was learned from."""

import math

from robotrl.control.gate import Verdict
from robotrl.view import charts, words
from robotrl.view.charts import Interval
from robotrl.view.markup import Markup, join, table, tag
from robotrl.view.report_data import CriticReport, Mixture, ReportData
from robotrl.view.report_parts import figure, section, verdict


def gate_section(report: ReportData) -> Markup:
    """Every look of the promotion test, and what came of it."""
    if not report.gates:
        return Markup("")
    note = (
        "A challenger replaces the champion only if a one-sided paired test says so. "
        "The allowed error is shared out over all looks and iterations."
    )
    return section("What the gate decided", note, *(_gate_verdict(looks) for looks in report.gates if looks))


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
    said = verdict(promoted, "Promoted." if promoted else "Not promoted.")
    title = tag("h3", {}, f"Iteration {last.iteration}")
    return join(title, tag("p", {}, said, f" {words.sentence(last.reason)}"), table(head, rows))


def _probability(value: float) -> str:
    return "< 0.0001" if 0 <= value < 1e-4 else words.number(value, 4)


def critic_section(report: ReportData) -> Markup:
    """Calibration of every critic, and whether its weights were used."""
    if not report.critics:
        return Markup("")
    note = (
        "Among held-out states given a probability, how many led to success. On the diagonal the critic can be "
        "believed. Its gate decides whether the weights that it makes may be used."
    )
    return section("Can the critic be believed?", note, *map(_critic_report, report.critics))


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
    if critic.improvement is not None and math.isfinite(critic.improvement.value):
        gain = critic.improvement
        interval = f"{words.points(gain.low, False)} to {words.points(gain.high, False)}"
        figures.append(("estimated gain", f"{words.points(gain.value)} ({interval})"))
    if critic.effective_share == critic.effective_share:
        figures.append(("effective samples", words.percent(critic.effective_share)))
    said = verdict(critic.used, "Weights used." if critic.used else "Weights not used.")
    counts = [b.count for b in critic.bins]
    chart = charts.reliability(bins, counts, "Observed success by predicted probability") if bins else Markup("")
    pair = tag(
        "div",
        {"class": "many"},
        figure("Observed success", chart),
        figure("On held-out episodes", table((), figures)),
    )
    title = tag("h3", {}, f"Iteration {critic.iteration}")
    return join(title, tag("p", {}, said, f" {words.sentence(critic.reason)}"), pair)


def data_section(report: ReportData) -> Markup:
    """Where the sampling mass of every training came from."""
    if not report.mixtures:
        return Markup("")
    note = (
        "Where the sampled ticks of each training round came from. "
        "The share of ticks that led to failure predicts loss, so it is limited."
    )
    return section("What it learned from", note, *map(_mixture, report.mixtures))


def _mixture(mixture: Mixture) -> Markup:
    parts = [(name, mass, words.percent(mass)) for name, mass in mixture.sources]
    limits = f"warned of above {words.percent(mixture.warn_share)}, refused above {words.percent(mixture.refuse_share)}"
    said = (
        f"{words.count(mixture.ticks)} ticks, an effective sample of {words.percent(mixture.effective_share)} of them. "
        f"Failures hold {words.percent(mixture.failure_share)} of the mass ({limits})."
    )
    bars = charts.shares(parts, "Share of the sampling mass by source")
    weights = charts.histogram(mixture.weights, "weight, as a multiple of the mean", "Ticks by weight")
    title = tag("h3", {}, f"Iteration {mixture.iteration}" if mixture.iteration else "Base")
    return join(title, bars, tag("p", {}, said), figure("Ticks by weight", weights))
