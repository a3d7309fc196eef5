"""Trees of ``ai.onnx.ml``, in the one form that all its operators with trees become."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from ....graph import operations
from ....graph.operations import Forest
from ...converted.tensors import ForeignTensor, Misfit
from .._call import Call
from .._classical import DOMAIN, TREES
from .._operator import operator


@operator("", f"{DOMAIN}.{TREES}")
def trees(call: Call, x: ForeignTensor, said: ForeignTensor) -> ForeignTensor:
    """Totals of what leaves say; ``said`` are the numbers of their entries."""
    if x.rank != 2:
        raise Misfit(f"{x.shape} are not samples in rows")
    tables = {field.name: call.tensor(field.name) for field in fields(Forest)}
    forest = Forest(**{name: np.empty(0) if table is None else table for name, table in tables.items()})
    total, columns = call.text("total", "sum"), call.integer("results")
    value = operations.Trees(x.numbers, said.value, forest, columns, total)
    return ForeignTensor(x.numbers.graph.append(value))
