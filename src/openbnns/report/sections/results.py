"""The results: the most important metric beside its baseline, then the others, and what has to be known about them."""

from __future__ import annotations

from ..._plural import plural
from ..charts import bars
from ..markup import Panel, Section, facts_list, join, tag
from ..number_text import called, count, metric, percent, seconds, short
from ..run_facts import Facts
from ..scores import Baseline


def section(facts: Facts) -> Section:
    warnings = [tag("li", line, class_="warning") for line in dict.fromkeys([*_warnings(facts), *facts.notes])]
    said = tag("ul", warnings, [tag("li", line) for line in _explanation(facts)], class_="notes")
    panels = [_headline(facts), _numbers(facts), Panel("What the numbers are about", said)]
    return Section("results", "Results", [panel for panel in panels if panel is not None])


def lead(facts: Facts) -> str:
    """One sentence under the title."""
    said = str(facts.settings.get("data", "the data"))
    if not facts.history:
        return f"Evaluated on {said}"
    return f"{plural(len(facts.history), 'epoch')} on {said} in {seconds(facts.seconds)}"


def _headline(facts: Facts) -> Panel | None:
    if facts.classes is not None:
        scored = facts.classes
        low, high = scored.interval
        words = (
            f"{count(scored.right)} of {plural(scored.samples, 'test sample')} are recognized. With other samples of the same "
            f"kind, expect {percent(low)} to {percent(high)}."
        )
        return _beside("Test accuracy", percent(scored.accuracy, 2), words, scored.accuracy, scored.baseline, 1.0)
    if facts.labels is not None:
        labels = facts.labels
        words = f"All {len(labels.names)} labels are right for this share of {plural(labels.samples, 'test sample')}."
        return _beside("Exact matches in the test", percent(labels.exact, 2), words, labels.exact, labels.baseline, 1.0)
    if not facts.regressions:
        return None
    first = facts.regressions[0]
    words = (
        f"The root of the mean squared error{facts.of_first} on {plural(len(first.truth), 'test sample')}. The network explains "
        f"{percent(first.r2)} of the variance (R²)."
    )
    return _beside("Test error", short(first.rmse), words, first.rmse, first.baseline, 0.0)


def _beside(title: str, big: str, words: str, value: float, baseline: Baseline, whole: float) -> Panel:
    """A number in large type, and bars of the network and the baseline, on a scale from 0 to ``whole`` or to the longer."""
    text = percent if whole else short
    rows = [("this network", [value], text(value)), (baseline.words, [0, 0, baseline.value], text(baseline.value))]
    return Panel(title, join(tag("p", big, class_="big"), tag("p", words), bars((), rows, whole=whole)))


def _numbers(facts: Facts) -> Panel | None:
    pairs: list[tuple[str, str]] = []
    scored, test, chosen = facts.classes or facts.labels, facts.test or {}, facts.chosen
    for name, value in test.items():
        words = scored.f1[0] if name == "f1" and scored is not None else called(name)
        pairs.append((f"test {words}", metric(name, value)))
    if scored is not None and "f1" not in test:
        pairs.append((scored.f1[0], percent(scored.f1[1], 2)))
    if facts.classes is not None:
        pairs.append(("calibration error", percent(facts.classes.calibration.error)))
    for first in facts.regressions[:1]:
        measured = {"mae": first.mae, "r2": first.r2}
        pairs += [(called(name) + facts.of_first, short(v)) for name, v in measured.items() if name not in test]
    if chosen is not None:
        pairs += [(called(name), metric(name, chosen[name])) for name in chosen if name.startswith("validation_")]
        pairs.append((f"training loss in epoch {chosen['epoch']}", short(chosen["loss"])))
        pairs += [("epochs", count(len(facts.history))), ("training time", seconds(facts.seconds))]
        trained = next((part.samples for part in facts.parts if part.name == "training"), 0)
        if trained and facts.seconds:
            rate = round(trained * len(facts.history) / facts.seconds)
            pairs.append(("training samples per second", count(rate)))
    if facts.parameters:
        pairs.append(("parameters", count(facts.parameters)))
    return Panel("In numbers", facts_list(pairs)) if pairs else None


def _warnings(facts: Facts) -> list[str]:
    lines = []
    scored, numbers = facts.classes, facts.regressions
    useless = "it has learned nothing that helps here."
    if scored is not None and scored.accuracy <= scored.baseline.value:
        lines.append(f"The network does no better than the most frequent class alone: {useless}")
    if numbers and numbers[0].rmse >= numbers[0].baseline.value:
        lines.append(f"The network does no better than the mean of the targets: {useless}")
    if not facts.tested:
        lines.append("There are no test samples.")
    return lines


def _explanation(facts: Facts) -> list[str]:
    lines = []
    chosen, best = facts.chosen, facts.best
    if chosen is not None and best is not None:
        which = "the last epoch," if chosen is facts.history[-1] else "epoch"
        begin = f"The weights are those of {which} {chosen['epoch']}"
        if chosen is best:
            lines.append(f"{begin}, which has the lowest validation loss.")
        else:
            lines.append(f"{begin}. The validation loss was lowest in epoch {best['epoch']}.")
        lines.append(
            "Losses are means over samples. That of training is measured while the epoch trains, with weights that still "
            "change; that of validation afterwards, with the weights as they are then."
        )
    return lines
