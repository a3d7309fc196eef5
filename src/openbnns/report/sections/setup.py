"""Instructions to reproduce the run: command, settings, seed, machine and versions."""

from __future__ import annotations

from ..markup import Panel, Section, facts_list, join, tag
from ..run_facts import Facts


def section(facts: Facts) -> Section:
    panels = []
    if facts.command:
        copied = tag("button", "Copy", type="button", class_="copy", aria_label="Copy the command")
        code = tag("pre", tag("code", facts.command), tabindex=0, aria_label="Command", role="region")
        panels.append(Panel("Command", tag("div", code, copied, class_="command"), wide=True))
    panels.append(Panel("Settings", facts_list((name, str(value)) for name, value in facts.settings.items())))
    panels.append(Panel("Machine and versions", facts_list(facts.machine.items())))
    hint = "The same command on the same data and versions gives the same weights, on any number of threads."
    if facts.history and "seed" in facts.settings:
        panels.append(Panel("Repeatable", join(tag("p", hint), tag("p", f"Seed: {facts.settings['seed']}"))))
    return Section("setup", "How to reproduce", panels)
