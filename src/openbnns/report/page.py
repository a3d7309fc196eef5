"""The page made from facts: one HTML file that contains its style and its script, and loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from .markup import Markup, Panel, Section, join, tag
from .run_facts import Facts
from .sections import classification, data, network, regression, results, setup, training

_ORDER = (
    results.section,
    data.section,
    training.section,
    classification.section,
    regression.section,
    classification.mistakes,
    training.norms,
    network.section,
)
"""The makers of the sections, from top to bottom; the setup comes last, after additional sections."""


def render(facts: Facts) -> str:
    """The page as text."""
    made = [section for make in _ORDER if (section := make(facts)) is not None]
    made += [*facts.sections, setup.section(facts)]
    kind = "Training report" if facts.history else "Evaluation report"
    return document(kind, facts.title, results.lead(facts), made, f"Written by OpenBNNS on {facts.written}.")


def document(kind: str, title: str, lead: str, sections: Sequence[Section], footer: str) -> str:
    """A page of sections as text, of the look and with the means of the report; the first section holds the results.

    >>> page = document("Notes", "Mine", "What was found.", [Section("results", "Results", [])], "Written today.")
    >>> page.startswith("<!doctype html>"), "http" in page
    (True, False)
    """
    head = join(
        tag("meta", charset="utf-8"),
        tag("title", title),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content="OpenBNNS"),
        tag("style", _resource("page.css")),
    )
    listed = tag("ul", [tag("li", tag("a", section.title, href=f"#{section.name}")) for section in sections])
    top = tag(
        "header",
        tag("p", kind, class_="kind"),
        tag("h1", title),
        tag("p", lead, class_="lead"),
        tag("nav", listed, aria_label="Sections"),
    )
    body = join(
        tag("a", "Skip to the results", href=f"#{sections[0].name}", class_="skip"),
        top,
        tag("main", [_section(section) for section in sections]),
        tag("footer", tag("p", footer)),
        tag("div", id="tip", hidden=True, aria_hidden="true"),
        tag("script", _resource("page.js")),
    )
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>{body}</body>\n</html>\n'


def picture(title: str, content: Markup, width: int, height: int) -> str:
    """A piece of a page as an SVG file of its own, for pages that show it as an image; it follows light and dark as they do.

    >>> picture("Loss", tag("p", "0.1 & less"), 400, 100)[:32]
    '<svg xmlns="http://www.w3.org/20'
    """
    size = f'width="{width}" height="{height}"'
    card = tag("article", tag("h3", title), content, style="height:100%")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}" role="img">{tag("title", title)}'
        f'<foreignObject {size}><div xmlns="http://www.w3.org/1999/xhtml" style="height:100%;font:16px/1.5 system-ui,sans-serif;'
        f'color:var(--ink)">{tag("style", str(_resource("page.css")))}{card}</div></foreignObject></svg>\n'
    )


def _section(section: Section) -> Markup:
    return tag(
        "section",
        tag("h2", section.title, id=f"{section.name}-title"),
        tag("p", section.lead, class_="lead") if section.lead else None,
        _panels(section.panels),
        id=section.name,
        aria_labelledby=f"{section.name}-title",
    )


def _panels(panels: Sequence[Panel]) -> Markup:
    """Cards in as many columns as leave no gaps."""
    narrow = sum(not panel.wide for panel in panels)
    columns = 3 if any(panel.large for panel in panels) else {0: 1, 1: 1, 2: 2, 4: 2}.get(narrow, 3)
    small = sum(not (panel.wide or panel.large) for panel in panels)
    odd = small % 2 == 1 and columns > 1  # two columns would leave one card alone
    style = f"--columns:{columns};--middle:{min(columns, 2)}"
    return tag("div", [_panel(panel) for panel in panels], class_="panels odd" if odd else "panels", style=style)


def _panel(panel: Panel) -> Markup:
    return tag(
        "article",
        tag("h3", panel.title),
        panel.content,
        class_="wide" if panel.wide else "large" if panel.large else None,
    )


def _resource(name: str) -> Markup:
    """A file beside this one, which is ours and goes into the page as it is."""
    return Markup(files(__package__).joinpath(name).read_text(encoding="utf-8"))
