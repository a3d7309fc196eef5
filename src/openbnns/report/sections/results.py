"""The results: the most important metric beside its baseline, then the others."""

from __future__ import annotations

from ..._plural import plural
from ..markup import Markup, Panel, Section, facts_list, join, sentence_list, tag
from ..number_text import called, count, metric, percent, seconds, short
from ..run_facts import Facts


def section(facts: Facts) -> Section:
    panels = [panel for panel in (_headline(facts), _numbers(facts)) if panel is not None]
    panels.append(
        Panel("What the numbers are about", sentence_list(list(dict.fromkeys([*_explanation(facts), *facts.notes]))))
    )
    return Section("results", "Results", panels)


def lead(facts: Facts) -> str:
    """One sentence under the title."""
    said = str(facts.settings.get("data", "the data"))
    if not facts.history:
        return f"Evaluated on {said}"
    took = seconds(sum(record["seconds"] for record in facts.history))
    return f"{plural(len(facts.history), 'epoch')} on {said} in {took}"


def _headline(facts: Facts) -> Panel | None:
    if facts.classes is not None:
        scored = facts.classes
        low, high = scored.interval
        words = (
            f"{count(scored.right)} of {plural(scored.samples, 'test sample')} are recognized. With other samples of the same "
            f"kind, expect {percent(low)} to {percent(high)}."
        )
        bars = _compared(
            ("this network", scored.accuracy, percent(scored.accuracy)),
            (scored.baseline.words, scored.baseline.value, percent(scored.baseline.value)),
            whole=1.0,
        )
        return Panel("Test accuracy", join(_big(percent(scored.accuracy, 2)), tag("p", words), bars))
    if facts.labels is not None:
        labels = facts.labels
        words = f"All {len(labels.names)} labels are right for this share of {plural(labels.samples, 'test sample')}."
        bars = _compared(
            ("this network", labels.exact, percent(labels.exact)),
            (labels.baseline.words, labels.baseline.value, percent(labels.baseline.value)),
            whole=1.0,
        )
        return Panel("Exact matches in the test", join(_big(percent(labels.exact, 2)), tag("p", words), bars))
    if facts.regressions:
        first = facts.regressions[0]
        of = f" of {first.name}" if len(facts.regressions) > 1 else ""
        words = (
            f"The root of the mean squared error{of} on {plural(len(first.truth), 'test sample')}. The network explains "
            f"{percent(first.r2)} of the variance (R²)."
        )
        bars = _compared(
            ("this network", first.rmse, short(first.rmse)),
            (first.baseline.words, first.baseline.value, short(first.baseline.value)),
        )
        return Panel("Test error", join(_big(short(first.rmse)), tag("p", words), bars))
    return None


def _big(text: str) -> Markup:
    return tag("p", text, class_="big")


def _compared(*rows: tuple[str, float, str], whole: float = 0.0) -> Markup:
    """The network and the baseline as bars, on a scale from 0 to ``whole``, or to the longer of both."""
    longest = whole or max(value for _, value, _ in rows) or 1
    return tag(
        "ul",
        [
            tag(
                "li",
                tag("span", name),
                tag(
                    "span",
                    tag("span", class_=f"bar b{2 * i}", style=f"width:{100 * value / longest:.2f}%"),
                    class_="track",
                ),
                tag("b", text),
            )
            for i, (name, value, text) in enumerate(rows)
        ],
        class_="compared",
    )


def _numbers(facts: Facts) -> Panel | None:
    pairs: list[tuple[str, str]] = []
    scored = facts.classes or facts.labels
    for name, value in (facts.test or {}).items():
        words = scored.f1[0] if name == "f1" and scored is not None else called(name)
        pairs.append((f"test {words}", metric(name, value)))
    if scored is not None and "f1" not in (facts.test or {}):
        pairs.append((scored.f1[0], percent(scored.f1[1], 2)))
    if facts.classes is not None:
        pairs.append(("calibration error", percent(facts.classes.calibration.error)))
    if facts.regressions:
        first = facts.regressions[0]
        of = f" of {first.name}" if len(facts.regressions) > 1 else ""
        for name, value in (("mae", first.mae), ("r2", first.r2)):
            if name not in (facts.test or {}):
                pairs.append((f"{called(name)}{of}", short(value)))
    chosen = facts.chosen
    if chosen is not None:
        pairs += [(called(name), metric(name, chosen[name])) for name in chosen if name.startswith("validation_")]
        pairs.append((f"training loss in epoch {chosen['epoch']}", short(chosen["loss"])))
        pairs.append(("epochs", count(len(facts.history))))
        took = sum(record["seconds"] for record in facts.history)
        pairs.append(("training time", seconds(took)))
        trained = next((part.samples for part in facts.parts if part.name == "training"), 0)
        if trained and took:
            pairs.append(("training samples per second", count(round(trained * len(facts.history) / took))))
    if facts.parameters:
        pairs.append(("parameters", count(facts.parameters)))
    return Panel("In numbers", facts_list(pairs)) if pairs else None


def _explanation(facts: Facts) -> list[str]:
    lines = []
    chosen, best = facts.chosen, facts.best
    if chosen is not None and best is not None:
        which = "the last epoch," if chosen is facts.history[-1] else "epoch"
        if chosen is best:
            lines.append(f"The weights are those of {which} {chosen['epoch']}, which has the lowest validation loss.")
        else:
            lines.append(
                f"The weights are those of {which} {chosen['epoch']}. The validation loss was lowest in epoch {best['epoch']}."
            )
        lines.append(
            "All losses are means over samples. That of training is measured while the epoch trains, with weights that still "
            "change; those of validation and test afterwards, with the weights as they are then."
        )
    tested = facts.test is not None or facts.classes or facts.labels or facts.regressions
    if not tested:
        lines.append("There are no test samples.")
    elif facts.history:
        lines.append("The test samples were looked at once, at the end; nothing was chosen by them.")
    scored = facts.classes
    if scored is not None and scored.accuracy <= scored.baseline.value:
        lines.append(
            "The network does no better than the most frequent class alone: it has learned nothing that helps here."
        )
    if facts.regressions and facts.regressions[0].rmse >= facts.regressions[0].baseline.value:
        lines.append("The network does no better than the mean of the targets: it has learned nothing that helps here.")
    return lines
