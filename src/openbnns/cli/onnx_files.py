"""Models as ONNX files, for ``openbnns export`` and ``openbnns import``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from .arguments import OK, print_json


def export_onnx(options: argparse.Namespace) -> int:
    """Write a model file as an ONNX file."""
    from .. import nn

    path = options.output or options.model.with_suffix(".onnx")
    if path.resolve() == options.model.resolve():
        raise ValueError(f"{path} is the model itself. Give another name: -o FILE.")
    network = nn.load_model(options.model)
    try:
        table = nn.onnx.to_onnx(network, path)
    except ImportError as error:
        raise RuntimeError(str(error)) from None
    if options.json:
        layers = [{"layer": layer, "operation": operation, "onnx": ops} for layer, operation, ops in table]
        print_json({"model": str(options.model), "to": "onnx", "written": str(path), "converted": layers})
    elif not options.quiet:
        show(("layer", "operation", "ONNX"), table)
        print(f"{len(table)} operations written to {path}")
    return OK


def show(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on the screen."""
    widths = [max(len(row[i]) for row in (titles, *rows)) for i in range(len(titles))]
    for row in (titles, ["-" * width for width in widths], *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
