"""Numbers of things, for people."""

from __future__ import annotations


def plural(number: int, noun: str) -> str:
    """So many of something.

    >>> plural(1, "row"), plural(1234, "row"), plural(2, "class")
    ('1 row', '1,234 rows', '2 classes')
    """
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"
