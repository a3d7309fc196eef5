"""Numbers of things, for people."""

from __future__ import annotations


def plural(number: int, noun: str) -> str:
    """So many of something.

    >>> plural(1, "row"), plural(1234, "row"), plural(3, "category")
    ('1 row', '1,234 rows', '3 categories')
    >>> plural(2, "class"), plural(0, "mismatch"), plural(9, "epoch")
    ('2 classes', '0 mismatches', '9 epochs')
    """
    if number == 1:
        return f"1 {noun}"
    many = (
        f"{noun[:-1]}ies"
        if noun[-1] == "y" and noun[-2] not in "aeo"
        else f"{noun}{'es' if noun.endswith(('s', 'tch')) else 's'}"
    )
    return f"{number:,} {many}"
