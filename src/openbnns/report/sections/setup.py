"""Instructions to reproduce the run: command, settings, seed, machine and versions."""

from __future__ import annotations

from ..markup import Panel, Section, facts_list, tag
from ..run_facts import Facts


def section(facts: Facts) -> Section:
    panels = []
    if facts.command:
        code = tag("pre", tag("code", facts.command), tabindex=0, aria_label="Command", role="region")
        panels.append(Panel("Command", code, wide=True))
    if facts.settings:
        panels.append(Panel("Settings", facts_list((name, str(value)) for name, value in facts.settings.items())))
    panels.append(Panel("Machine and versions", facts_list(facts.machine.items())))
    return Section("setup", "How to reproduce", panels)
