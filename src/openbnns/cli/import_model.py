"""``openbnns import``: a model from elsewhere as a model file."""

from __future__ import annotations

import argparse
from pathlib import Path

from .._plural import plural
from . import model_formats
from .arguments import OK, Commands, add_output, print_json, show


def add(commands: Commands) -> None:
    parser = commands.add_parser(
        "import", help="make a model file from an ONNX or Core ML model",
        description="Read an ONNX model, or a neural network of Core ML, and write it as a model file, which openbnns "
        "predict, evaluate, info and export take, and nn.load_model in Python, to go on training. Prints what became what.",
        examples=(
            "openbnns import model.onnx                       # writes model.safetensors",
            "openbnns import model.onnx -o out/model.safetensors",
            "openbnns import model.onnx --size T=128          # fix a size that the file leaves free",
            "openbnns import model.onnx --shape input=3,224,224   # fix all sizes of an input",
            "openbnns import model.mlmodel",
        ),
    )  # fmt: skip
    parser.add_argument("model", metavar="MODEL", type=Path, help="an .onnx or .mlmodel file")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=None,
        metavar="FILE",
        help="where to (default: beside the model, .safetensors)",
    )
    parser.add_argument(
        "--shape", action="append", type=_shape, default=[], metavar="NAME=SIZES",
        help="the shape of an input, as numbers with commas; without the batch, that stays free",
    )  # fmt: skip
    model_formats.add_sizes(parser)
    parser.add_argument(
        "--one-sample",
        action="store_true",
        help="leave the numbers of the file as they are: no axis is a batch of any size",
    )
    add_output(parser)
    parser.set_defaults(run=run)


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, sizes = text.rpartition("=")
    try:
        return name, tuple(int(n) for n in sizes.split(",") if n)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=SIZES, such as input=3,224,224") from None


def run(options: argparse.Namespace) -> int:
    path = options.output or options.model.with_suffix(".safetensors")
    if path.resolve() == options.model.resolve():
        raise ValueError(f"{path} is the model itself. Give another name: -o FILE.")
    known = model_formats.format_of(options.model)
    if known is None:
        raise ValueError(f"{options.model}: is none of {', '.join(model_formats.FORMATS)}, which can be imported.")
    network = known.open(options.model, options)
    titles, rows = known.converted(network)
    try:
        network.save_model(path)
    except TypeError as error:
        raise ValueError(f"{options.model}: cannot be written as a model file. {error}") from None
    named = dict(network.named_parameters())
    trained = sum(p.size for p in named.values() if p.requires_grad)
    if options.json:
        converted = [dict(zip(titles, row, strict=True)) for row in rows]
        shapes = {name: list(p.shape) for name, p in named.items()}
        print_json({"model": str(options.model), "written": [str(path)], "converted": converted, "parameters": shapes})
    elif not options.quiet:
        show(titles, rows)
        print(f"{trained:,} numbers to train, in {plural(len(named), 'array')}.\nWritten: {path}")
    return OK
