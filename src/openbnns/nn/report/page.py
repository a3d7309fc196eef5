"""From facts to the page: one HTML file that holds its style and its script, and asks the network for nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files

from .facts import Facts
from .markup import Markup, Panel, Section, join, tag
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
"""What makes the sections, from top to bottom; the way to reproduce comes last, after sections of others."""


def render(facts: Facts, sections: Iterable[Section] = ()) -> str:
    """The page as text."""
    found = [section for make in _ORDER if (section := make(facts)) is not None]
    found += [*sections, setup.section(facts)]
    head = join(
        tag("meta", charset="utf-8"),
        tag("title", facts.title),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content="OpenBNNS"),
        tag("style", _resource("page.css")),
    )
    listed = tag("ul", [tag("li", tag("a", section.title, href=f"#{section.name}")) for section in found])
    top = tag(
        "header",
        tag("p", "Training report" if facts.history else "Evaluation report", class_="kind"),
        tag("h1", facts.title),
        tag("p", results.lead(facts), class_="lead"),
        tag("nav", listed, aria_label="Sections"),
    )
    end = tag("footer", tag("p", f"Written by OpenBNNS on {facts.written}."))
    body = join(
        tag("a", "Skip to the results", href="#results", class_="skip"),
        top,
        tag("main", [_section(section) for section in found]),
        end,
        tag("div", id="tip", hidden=True, aria_hidden="true"),
        tag("script", _resource("page.js")),
    )
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>{body}</body>\n</html>\n'


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
    odd = small % 2 == 1 and columns > 1  # of which two columns would leave one alone
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
