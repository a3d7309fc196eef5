"""``openbnns import``: a model from elsewhere as a model file."""

from __future__ import annotations

import argparse
from pathlib import Path

from .arguments import OK, Commands, add_output, print_json


def add(commands: Commands) -> None:
    parser = commands.add_parser(
        "import", help="make a model file from an ONNX model",
        description="Read an ONNX model and write it as a model file, which openbnns predict, evaluate, info and export take, "
        "and nn.load_model in Python, to go on training. Prints what became what.",
        examples=(
            "openbnns import model.onnx                       # writes model.safetensors",
            "openbnns import model.onnx -o out/model.safetensors",
            "openbnns import model.onnx --shape input=3,224,224   # where the file leaves sizes open",
        ),
    )  # fmt: skip
    parser.add_argument("model", metavar="MODEL", type=Path, help="an ONNX file")
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
        help="the shape of an input without the batch, as numbers with commas",
    )  # fmt: skip
    parser.add_argument(
        "--one-sample", action="store_true", help="the model describes one sample: no axis of its inputs is a batch"
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
    from .. import nn
    from .onnx_files import show

    path = options.output or options.model.with_suffix(".safetensors")
    if path.resolve() == options.model.resolve():
        raise ValueError(f"{path} is the model itself. Give another name: -o FILE.")
    try:
        network = nn.from_onnx(
            options.model, batch_axis=None if options.one_sample else 0, input_shapes=dict(options.shape)
        )
    except ImportError as error:
        raise RuntimeError(str(error)) from None
    network.save_model(path)
    rows = network.converted()
    trained = sum(p.size for p in network.parameters() if p.requires_grad)
    if options.json:
        layers = [{"nodes": nodes, "operation": operation, "output": shape} for nodes, operation, shape in rows]
        shapes = {name: list(p.shape) for name, p in network.named_parameters()}
        print_json({"model": str(options.model), "written": str(path), "converted": layers, "parameters": shapes})
    elif not options.quiet:
        show(("ONNX node", "operation", "output of a sample"), rows)
        print(f"{trained:,} numbers to train, in {len(list(network.named_parameters()))} arrays; written to {path}")
    return OK
