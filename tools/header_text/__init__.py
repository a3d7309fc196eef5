"""The words of ``bnns.h``, by section; ``tools/make_header.py`` adds names, numbers and layouts from the facts.

Text is wrapped to the width of the header; a line that starts with four spaces is a formula and is kept as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Section:
    """One part of the header: the enums, structs and further types it declares, and its functions with what they do."""

    title: str
    text: str = ""
    enums: tuple[str, ...] = ()
    structs: tuple[str, ...] = ()
    types: str = ""
    functions: dict[str, str] = field(default_factory=dict)
