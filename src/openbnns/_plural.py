"""Numbers of things, for people."""

from __future__ import annotations


def plural(number: int, noun: str) -> str:
    """So many of something.

    >>> plural(1, "row"), plural(1234, "row"), plural(2, "class"), plural(0, "mismatch"), plural(3, "category")
    ('1 row', '1,234 rows', '2 classes', '0 mismatches', '3 categories')
    """
    if number == 1:
        return f"1 {noun}"
    many = (
        f"{noun[:-1]}ies"
        if noun[-1] == "y" and noun[-2] not in "aeo"
        else f"{noun}{'es' if noun.endswith(('s', 'ch')) else 's'}"
    )
    return f"{number:,} {many}"
