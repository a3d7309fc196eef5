"""The network: its layers with their sizes and times."""

from __future__ import annotations

from ..._plural import plural
from ..charts import bars
from ..markup import Markup, Panel, Section, folded, hint, join, table
from ..number_text import count, percent, seconds, sides
from ..run_facts import Facts

_FEW = 14


def section(facts: Facts) -> Section | None:
    if not facts.layers:
        return None
    size = f"{plural(len(facts.layers), 'step')}, {count(facts.parameters)} parameters ({4 * facts.parameters / 1e6:.2f} MB). "
    rows = [(f"{layer.path} {layer.kind}", sides(layer.shape), count(layer.parameters)) for layer in facts.layers]
    listed = table(("layer", "output", "parameters"), rows)
    said = hint(f"{size}Layers that run as one step share a row; outputs are those of one sample.")
    panels = [Panel("Layers", join(said, listed if len(rows) <= 2 * _FEW else folded(f"All {len(rows)}", listed)))]
    if facts.profile is not None:
        panels.append(Panel("Time per layer", _times(facts)))
    return Section("network", "Network", panels)


def _times(facts: Facts) -> Markup:
    profile = facts.profile
    assert profile is not None
    rows = []
    for row in profile.rows:
        text = f"{seconds((row.forward_ms + row.backward_ms) / 1e3)} ({percent(row.share)})"
        rows.append((f"{row.layer} {row.computes}", [row.forward_ms, row.backward_ms], text))
    mode, whole = "inference", f"forward {seconds(profile.forward_ms / 1e3)}"
    if profile.training:
        mode, whole = "a training step", f"{whole}, backward {seconds(profile.backward_ms / 1e3)}"
    said = hint(
        f"Of {mode} with {plural(profile.batch, 'sample')} on {plural(profile.threads, 'thread')}, medians of "
        f"{plural(profile.runs, 'run')}. Layers are timed one by one, without loss and optimizer. Whole passes: {whole}."
    )
    words, header = ["forward", "backward"] if profile.training else ["forward"], ("layer", "", "time")
    if len(rows) <= _FEW:
        return join(said, bars(header, rows, words))
    slowest = sorted(rows, key=lambda row: -sum(row[1]))[:_FEW]
    shown = bars(header, slowest, words, caption=f"The {_FEW} slowest of {len(rows)}")
    return join(said, shown, folded("All in their order", bars(header, rows, words)))
