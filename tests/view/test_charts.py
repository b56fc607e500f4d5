import math

import pytest

from robotrl.view import words
from robotrl.view.charts import Interval, Scale, curve, forest, histogram, reliability, shares, ticks
from robotrl.view.markup import Markup, tag


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 2, [0, 0.5, 1, 1.5, 2]),
        (0, 790, [0, 200, 400, 600]),
        (0, 3.9, [0, 1, 2, 3]),
        (5, 5, [5]),
        (0, math.nan, [0]),
    ],
)
def test_axis_marks_are_round_and_inside(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high, 4) == expected


def test_a_scale_keeps_values_inside_its_ends() -> None:
    scale = Scale(0, 10, 100, 0)
    assert [scale(v) for v in (-5, 0, 5, 20)] == [100, 100, 50, 0]
    assert Scale(1, 1, 0, 100)(1) == 50


def test_charts_without_data_are_drawn_empty() -> None:
    assert "<circle" not in forest([], "nothing")
    assert "<circle" not in curve([], "x", "nothing")
    assert "<circle" not in reliability([], [], "nothing")
    assert histogram([], "x", "nothing") == ""
    assert shares([("a", 0.0, "0")], "nothing") == ""


def test_a_rate_is_drawn_where_it_is() -> None:
    chart = forest([Interval(0.57, 0.52, 0.62, label="before")], "one")
    assert 'cx="57.00%"' in chart
    assert 'x1="52.00%"' in chart
    assert 'x2="62.00%"' in chart


def test_charts_say_what_they_show_to_those_who_cannot_see_them() -> None:
    assert 'aria-label="a &quot;b&quot;"' in forest([], 'a "b"')


def test_text_is_escaped_once_and_markup_not_at_all() -> None:
    assert tag("p", {"title": 'a"b'}, "<", Markup("<br>")) == '<p title="a&quot;b">&lt;<br></p>'


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (words.percent(0.57), "57\u202f%"),
        (words.percent(0.9425), "94.2\u202f%"),
        (words.percent(0.9425, 0), "94\u202f%"),
        (words.percent(1.0), "100\u202f%"),
        (words.percent(math.nan), "–"),
        (words.points(0.332), "+33.2 points"),
        (words.points(-0.02, unit=False), "−2"),
        (words.points(0.0), "±0 points"),
        (words.count(184320), "184\u202f320"),
        (words.seconds(4.2), "4.2\u202fs"),
        (words.seconds(59.96), "1\u202fmin 00\u202fs"),
        (words.seconds(3720), "1\u202fh 02\u202fmin"),
        (words.seconds(math.inf), "–"),
        (words.sentence("too few episodes"), "Too few episodes."),
        (words.sentence("Enough."), "Enough."),
        (words.span(0.915, 0.961), "91.5–96.1"),
    ],
)
def test_numbers_are_said_as_a_reader_wants_them(said: str, expected: str) -> None:
    assert said == expected
