import json
import math
import re
from dataclasses import fields, replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from robotrl.errors import RobotRLError
from robotrl.stats import PairedDifference
from robotrl.view.markup import VOID
from robotrl.view.report import headline, report_html, write_report
from robotrl.view.report_data import IterationPoint, Rate, ReportData, StageTime, summary
from tests.view import reports

COMPLETE = reports.complete()
EMPTY = ReportData(task="insert", robot="panda", run="runs/peg")


class Checker(HTMLParser):
    """Collects elements and text; raises when tags do not nest."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data

    def sections(self) -> int:
        return sum(tag == "section" for tag, _ in self.tags)


def test_a_complete_report_is_well_formed_and_has_every_section() -> None:
    page = Checker(report_html(COMPLETE))
    assert page.sections() == 9


def test_a_report_without_results_is_well_formed_and_says_so() -> None:
    page = Checker(report_html(EMPTY))
    assert page.sections() == 0
    assert "no final evaluation" in page.text


@pytest.mark.parametrize("field", [f.name for f in fields(ReportData) if f.name not in ("task", "robot", "run")])
def test_each_part_may_be_missing(field: str) -> None:
    Checker(report_html(replace(COMPLETE, **{field: getattr(EMPTY, field)})))


def test_the_report_refers_to_nothing_outside_itself() -> None:
    page = report_html(COMPLETE)
    assert not re.search(r"https?:|//[a-z]|url\(|@import", page.replace("http-equiv", ""))
    assert not {tag for tag, _ in Checker(page).tags} & {"script", "link", "img", "iframe", "object"}
    assert not any(key in ("src", "href") or key.startswith("on") for _, attrs in Checker(page).tags for key in attrs)


def test_all_text_is_escaped() -> None:
    page = report_html(replace(COMPLETE, task=reports.HOSTILE, run=reports.HOSTILE))
    checked = Checker(page)
    assert reports.HOSTILE in checked.text
    assert "<script" not in page


def test_intervals_of_all_three_policies_are_written_out() -> None:
    text = Checker(report_html(COMPLETE)).text
    first = COMPLETE.comparisons[0]
    for rate in (first.before, first.control, first.after):
        assert rate is not None
        assert f"{100 * rate.low:.1f}".removesuffix(".0") in text
        assert f"{100 * rate.high:.1f}".removesuffix(".0") in text


def test_every_look_of_the_gate_is_shown_with_its_reason() -> None:
    text = Checker(report_html(COMPLETE)).text
    for looks in COMPLETE.gates:
        assert looks[-1].reason[1:] in text
    assert "Promoted." in text
    assert "Not promoted." in text


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [(0.01, 0.2, "The new data is worth"), (-0.02, 0.1, "cannot be told from chance"), (-0.2, -0.1, "did harm")],
)
def test_the_headline_says_no_more_than_the_interval_allows(low: float, high: float, says: str) -> None:
    gain = PairedDifference(400, 10, 5, (low + high) / 2, low, high)
    assert says in headline(replace(COMPLETE, comparisons=(replace(reports.comparison(), over_control=gain),)))


def test_without_a_control_the_headline_says_what_that_means() -> None:
    alone = replace(reports.comparison(), control=None, over_control=None)
    assert "no control" in headline(replace(COMPLETE, comparisons=(alone,)))


def test_values_that_are_not_finite_never_reach_a_drawing() -> None:
    bad = Rate(math.nan, math.nan, math.nan, 0)
    broken = replace(
        COMPLETE,
        comparisons=(replace(reports.comparison(), before=bad),),
        iterations=(IterationPoint(0, bad, 0, 0.0), *COMPLETE.iterations[1:]),
        stages=(StageTime("train", math.nan, math.inf), StageTime("gate", 1.0, 1.0)),
    )
    page = report_html(broken)
    Checker(page)
    assert "nan" not in page.lower().replace("tenance", "")
    assert not re.search(r'="-?inf', page)


def test_the_report_is_written_whole_and_again(tmp_path: Path) -> None:
    path = write_report(tmp_path / "run" / "report.html", EMPTY)
    write_report(path, COMPLETE)
    assert path.read_text(encoding="utf-8") == report_html(COMPLETE)
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]


def test_a_report_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RobotRLError, match="file"):
        write_report(tmp_path / "file" / "report.html", EMPTY)


def test_the_summary_has_the_promised_keys() -> None:
    figures = summary(COMPLETE)
    selectors = [
        f"{key}{suffix}"
        for suffix in ("", "_single_draw")
        for key in ("before", "control", "after", "over_control", "over_control_low", "over_control_high")
    ]
    assert set(figures) == {*selectors, "n", "operator_s", "watch_s", "control_steps", "cpu_s", "wall_s"}
    assert figures["after"] == pytest.approx(377 / 400)
    assert figures["after_single_draw"] == pytest.approx(362 / 400)
    assert figures["operator_s"] == pytest.approx(236.2)
    assert figures["n"] == 400


def test_the_summary_of_an_unfinished_run_is_json_without_nan() -> None:
    figures = json.loads(json.dumps(summary(EMPTY), allow_nan=False))
    assert figures["after"] is None
    assert figures["wall_s"] is None
