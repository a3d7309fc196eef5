"""The one table of operators."""

from __future__ import annotations

from ...converted.registry import Registry

_TABLE = Registry()

OPERATORS, GROUPS = _TABLE.handlers, _TABLE.groups
"""By the name of the operator. A handler takes the call and its tensors, None for those left out, and gives one or several."""

operator, add = _TABLE.register, _TABLE.add
