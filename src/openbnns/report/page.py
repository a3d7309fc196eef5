"""The page made from facts: one HTML file that contains its style, and loads and runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from .markup import Markup, Panel, Section, join, tag
from .run_facts import Facts
from .sections import classification, data, network, regression, results, setup, training

_ORDER = (
    results.section, data.section, training.section, classification.section, regression.section, classification.mistakes,
    network.section,
)  # fmt: skip


def render(facts: Facts) -> str:
    """The page as text."""
    made = [section for make in _ORDER if (section := make(facts)) is not None]
    made += [*facts.sections, setup.section(facts)]
    kind = "Training report" if facts.history else "Evaluation report"
    return document(kind, facts.title, results.lead(facts), made, f"Written by OpenBNNS on {facts.written}.")


def document(kind: str, title: str, lead: str, sections: Sequence[Section], footer: str) -> str:
    """A page of sections as text, with the look of the report; the first section holds the results.

    >>> page = document("Notes", "Mine", "What was found.", [Section("results", "Results", [])], "Written today.")
    >>> page.startswith("<!doctype html>"), "http" in page, "<script" in page
    (True, False, False)
    """
    head = join(
        tag("meta", charset="utf-8"),
        tag("title", title),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("style", _style()),
    )
    links = tag("ul", [tag("li", tag("a", section.title, href=f"#{section.name}")) for section in sections])
    words = (tag("p", kind, class_="kind"), tag("h1", title), tag("p", lead, class_="lead"))
    body = join(
        tag("a", "Skip to the results", href=f"#{sections[0].name}", class_="skip"),
        tag("header", *words, tag("nav", links, aria_label="Sections")),
        tag("main", map(_section, sections)),
        tag("footer", tag("p", footer)),
    )
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>{body}</body>\n</html>\n'


def _section(section: Section) -> Markup:
    heading = tag("h2", section.title, id=f"{section.name}-title")
    lead = tag("p", section.lead, class_="lead") if section.lead else None
    return tag(
        "section", heading, lead, _panels(section.panels), id=section.name, aria_labelledby=f"{section.name}-title"
    )


def _panels(panels: Sequence[Panel]) -> Markup:
    """Cards in as many columns as leave no gaps."""
    narrow = sum(not panel.wide for panel in panels)
    columns = 3 if any(panel.large for panel in panels) else {0: 1, 1: 1, 2: 2, 4: 2}.get(narrow, 3)
    odd = sum(not (panel.wide or panel.large) for panel in panels) % 2 == 1 and columns > 1  # one would be left alone
    style = f"--columns:{columns};--middle:{min(columns, 2)}"
    return tag("div", map(_panel, panels), class_="panels odd" if odd else "panels", style=style)


def _panel(panel: Panel) -> Markup:
    size = "wide" if panel.wide else "large" if panel.large else None
    return tag("article", tag("h3", panel.title), panel.content, class_=size)


def _style() -> Markup:
    """The style sheet beside this file, which is ours and goes into the page as it is."""
    return Markup(files(__package__).joinpath("page.css").read_text(encoding="utf-8"))
