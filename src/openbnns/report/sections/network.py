"""The network: its drawing, and the time of its steps."""

from __future__ import annotations

from ..._plural import plural
from ..charts import bars
from ..drawing import architecture
from ..facts import Facts
from ..markup import Markup, Panel, Section, folded, join, tag
from ..numbers import milliseconds, percent

_FEW = 14


def section(facts: Facts) -> Section | None:
    if not facts.layers:
        return None
    panels = [Panel("Architecture", architecture(facts.layers, facts.inputs, facts.parameters))]
    if facts.profile is not None:
        panels.append(Panel("Time per layer", _times(facts)))
    return Section("network", "Network", panels)


def _times(facts: Facts) -> Markup:
    profile = facts.profile
    assert profile is not None
    rows = [
        (
            f"{row.layer} {row.computes}", [row.forward_ms, row.backward_ms],
            f"{milliseconds(row.forward_ms + row.backward_ms)} ({percent(row.share)})",
        )
        for row in profile.rows
    ]  # fmt: skip
    mode = "a training step" if profile.training else "inference"
    whole = f"forward {milliseconds(profile.forward_ms)}"
    if profile.training:
        whole += f", backward {milliseconds(profile.backward_ms)}"
    hint = tag(
        "p",
        f"Of {mode} with {plural(profile.batch, 'sample')} on {plural(profile.threads, 'thread')}, medians of "
        f"{plural(profile.runs, 'run')}, without loss and optimizer. Whole passes: {whole}.",
        class_="hint",
    )
    layers = sum(row.forward_ms + row.backward_ms for row in profile.rows)
    passes = profile.forward_ms + (profile.backward_ms if profile.training else 0.0)
    if passes > 0:
        more = passes - layers
        why = (
            "the rest is the time between layers" if more >= 0
            else "layers are timed one by one, which takes longer than a pass that runs them together"
        )  # fmt: skip
        hint = join(
            hint,
            tag("p", f"The layers add up to {milliseconds(layers)} of {milliseconds(passes)}: {why}.", class_="hint"),
        )
    words = ["forward", "backward"] if profile.training else ["forward"]
    header = ("layer", "", "time")
    slowest = sorted(rows, key=lambda row: -sum(row[1]))
    if len(rows) <= _FEW:
        return join(hint, bars(header, rows, words))
    shown = bars(header, slowest[:_FEW], words, caption=f"The {_FEW} slowest of {len(rows)}")
    return join(hint, shown, folded("All in their order", bars(header, rows, words)))
