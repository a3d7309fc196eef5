"""A network as a table."""

from __future__ import annotations

from .._table import Table
from ..graph.parameter import Parameter
from .module import Module
from .step_names import places


class Summary(str):
    """The table of a network as text; notebooks show it as a table."""

    _table: Table

    def __new__(cls, table: Table) -> Summary:
        made = super().__new__(cls, str(table))
        made._table = table
        return made

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self._table.html()


def table(network: Module) -> Table:
    """One line per step as it runs: its layers (several where they are fused), output shape and parameters."""
    operations = network._recording(False).graph.operations if network.built else []
    rows = []
    for operation, place in zip(operations, places(network, operations), strict=True):
        values = [value.storage.leaf for value in operation.inputs]
        count = sum(p.size for p in (*operation.parameters, *values) if isinstance(p, Parameter))
        rows.append((place.path, place.kind, str(operation.output.shape[1:]), f"{count:,}" if count else "-"))
    total = sum(p.size for p in network.parameters())
    header = ("layer", "computes", "output of a sample", "parameters")
    return Table(header, rows, footer=f"{total:,} parameters, {4 * total / 1e6:.2f} MB", words=3)


def summary(network: Module) -> Summary:
    """The table, to print or to look at."""
    return Summary(table(network))
