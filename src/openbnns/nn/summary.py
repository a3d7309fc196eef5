"""A network as a table."""

from __future__ import annotations

from .module import Module


def summary(network: Module) -> str:
    """One line per step as it runs: its layers (several where they are fused), output shape and parameters."""
    graph = network._graph
    paths = {id(module): path for path, module in network.named_modules()}
    rows: list[tuple[str, ...]] = []
    if graph is not None:
        for operation in graph.operations:
            modules = operation.modules
            names = " + ".join(type(m).__name__ for m in modules) or type(operation).__name__
            where = ", ".join(paths.get(id(m), "") for m in modules)
            count = sum(p.size for p in operation.parameters)
            rows.append((where, names, str(operation.output.sample), f"{count:,}" if count else "-"))
    total = sum(p.size for p in network.parameters())
    return _table(("layer", "computes", "output of a sample", "parameters"), rows) + (
        f"\n{total:,} parameters, {4 * total / 1e6:.2f} MB"
    )


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(row: tuple[str, ...]) -> str:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        return "  ".join([*cells, row[-1].rjust(widths[-1])])

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, rows)])
