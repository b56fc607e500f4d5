"""What the sections of the report are made of."""

from robotrl.view.markup import Markup, tag


def section(title: str, note: str, *content: str) -> Markup:
    """A section: heading and note beside its content."""
    heading = tag("header", {}, tag("h2", {}, title), tag("p", {}, note))
    return tag("section", {}, heading, tag("div", {}, *content))


def figure(caption: str, chart: Markup) -> Markup:
    """A chart or table under its caption; nothing when the chart is empty."""
    return tag("figure", {}, tag("figcaption", {}, caption), chart) if chart else Markup("")


def verdict(good: bool, said: str) -> Markup:
    """A decision in one or two words, in the colour of good or bad."""
    return tag("span", {"class": f"verdict {'good' if good else 'bad'}"}, said)
