"""``openbnns predict``: predictions of a trained model for new data."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from pathlib import Path
from typing import Any

from . import data_options, model_formats
from .arguments import OK, Commands, print_json

_SHOWN = 10  # predictions on a terminal


def add(commands: Commands) -> None:
    predict = commands.add_parser(
        "predict", help="predict new data with a trained model",
        description="Read new data, prepare them as the training data were, and write what the model says about each sample, "
        "with probabilities.",
        examples=(
            "openbnns predict out/model.safetensors new.csv                 # a few lines on the terminal",
            "openbnns predict out/model.safetensors new.csv -o answers.csv  # all of them, with probabilities",
            "openbnns predict out/model.safetensors photo.jpg               # an image, or a folder of images",
            "openbnns predict out/model.safetensors new.csv --json",
            "openbnns predict model.onnx inputs.npz -o outputs.npz          # arrays by the names of inputs and outputs",
            "openbnns predict model.onnx photo.jpg --size height=320 --size width=320",
            "openbnns predict model.mlpackage inputs.npz -o outputs.npz     # a Core ML program, arrays by name",
        ),
    )  # fmt: skip
    data_options.add_model_and_data(predict, "new samples")
    predict.add_argument(
        "-o", "--output", type=Path, default=None, metavar="FILE", help="write a .csv file; arrays as .npz"
    )
    predict.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    known = model_formats.format_of(options.model)
    if known is not None and known.predict is not None:
        return known.predict(options)
    network = model_formats.opened(options.model, options)
    card = network.model_card
    if card is None or card.preparation is None:
        return _run_plain(options, network)
    if options.output is not None and options.output.suffix.lower() not in ("", ".csv", ".txt"):
        raise ValueError(f"{options.output}: predictions are written as CSV. Give a name that ends in .csv.")
    samples, _, predictions = data_options.predicted(options, network, with_targets=False)
    head, rows = table(predictions, samples.names)
    if options.output is not None:
        write(options.output, head, rows)
    if options.json:
        print_json({
            "model": str(options.model), "data": options.data, "task": card.task, "samples": len(rows),
            "notes": samples.notes, "columns": head, "predictions": rows,
        })  # fmt: skip
        return OK
    if options.quiet:
        return OK
    for note in samples.notes:
        print(note, file=sys.stderr)
    if options.output is not None:
        print(f"{len(rows):,} predictions written to {options.output}")
        return OK
    show(head, rows, everything=not sys.stdout.isatty())
    return OK


def _run_plain(options: argparse.Namespace, network: Any) -> int:
    """The outputs of a model without a description of its samples, as arrays."""
    from . import plain_inputs

    inputs = plain_inputs.read(network, options.data, options.memory_limit)
    outputs = plain_inputs.call(network, inputs, options.batch_size)
    if options.output is not None:
        _write_arrays(options.output, outputs)
    if options.json:
        listed = {name: {"shape": list(array.shape), "values": array.tolist()} for name, array in outputs.items()}
        print_json({"model": str(options.model), "data": options.data, "outputs": listed})
    elif not options.quiet and options.output is not None:
        print(f"{', '.join(outputs)} written to {options.output}")
    elif not options.quiet:
        for name, array in outputs.items():
            print(f"{name}, {array.shape}:\n{array}")
    return OK


def _write_arrays(path: Path, outputs: dict[str, Any]) -> None:
    import numpy as np

    from ..files.safetensors import write_atomically

    if path.suffix == ".npz":
        data = io.BytesIO()
        np.savez(data, **outputs)
        write_atomically(path, data.getvalue())
        return
    (name, array), *others = outputs.items()
    if path.suffix != ".csv" or others or array.ndim > 2:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in outputs.items())
        raise ValueError(
            f"{path}: outputs are {shapes}. Give a name that ends in .npz, or .csv for a single table of numbers."
        )
    rows = array.reshape(len(array), -1).tolist() if array.ndim else [[float(array)]]
    write(path, [f"{name} {i + 1}" for i in range(len(rows[0]))], [list(map(_short, row)) for row in rows])


def table(predictions: Any, names: list[str]) -> tuple[list[str], list[list[Any]]]:
    """Predictions as a table: names of columns, and a row for each sample."""
    named = list(predictions.classes)
    if predictions.task == "classification":
        width = predictions.probabilities.shape[1]
        head = ["sample", "prediction", "probability", *(named or map(str, range(width)))]
        rows = zip(
            names,
            predictions.labels.tolist(),
            predictions.confidence.tolist(),
            predictions.probabilities.tolist(),
            strict=True,
        )
        return head, [[name, label, _short(p), *map(_short, all_p)] for name, label, p, all_p in rows]
    if predictions.task == "multilabel":
        called = named or [str(i) for i in range(predictions.probabilities.shape[1])]
        head = ["sample", *called, *(f"probability of {name}" for name in called)]
        both = zip(names, predictions.labels.astype(int).tolist(), predictions.probabilities.tolist(), strict=True)
        return head, [[name, *labels, *map(_short, chances)] for name, labels, chances in both]
    import numpy as np

    values = np.asarray(predictions.values).reshape(len(names), -1)
    called = named if len(named) == values.shape[1] else [f"output {i + 1}" for i in range(values.shape[1])]
    return ["sample", *called], [[name, *map(_short, row)] for name, row in zip(names, values.tolist(), strict=True)]


def _short(value: float) -> float:
    """A float32 with as many digits as it holds."""
    return float(f"{value:.7g}")


def write(path: Path, head: list[str], rows: list[list[Any]]) -> None:
    """Write a table as CSV, whole or not at all."""
    from ..files.safetensors import write_atomically

    text = io.StringIO(newline="")
    csv.writer(text).writerows([head, *rows])
    write_atomically(path, text.getvalue().encode())


def show(head: list[str], rows: list[list[Any]], *, everything: bool) -> None:
    """Print a table: all of it as CSV to a pipe, the first rows and columns to people."""
    if everything:
        csv.writer(sys.stdout).writerows([head, *rows])
        return
    shown = [head[:8], *([str(cell) for cell in row[:8]] for row in rows[:_SHOWN])]
    widths = [max(len(row[i]) for row in shown) for i in range(len(shown[0]))]
    for row in shown:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    if len(rows) > _SHOWN:
        print(f"... {len(rows) - _SHOWN:,} more; -o FILE writes all of them")
