"""``openbnns import``: a model, or weights, of another program as a model file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._elsewhere import refuse_file
from .._plural import plural
from . import model_formats
from .arguments import OK, Commands, add_output, print_json, show

WEIGHTS = (*model_formats.WEIGHTS, ".safetensors")
KINDS = f"{', '.join(model_formats.FORMATS)}, or, with --network, of {', '.join(WEIGHTS)}"


def add(commands: Commands) -> None:
    parser = commands.add_parser(
        "import", help="make a model file from a model or weights of another program",
        description="Read an ONNX or Core ML model, or weights of PyTorch or NumPy for a network of this library, and "
        "write a model file, which openbnns predict, evaluate, info and export take, and nn.load_model in Python to continue "
        "training. Prints the layers or arrays of the file.",
        examples=(
            "openbnns import model.onnx                       # writes model.safetensors",
            "openbnns import model.onnx -o out/model.safetensors",
            "openbnns import model.onnx --size T=128          # fix a size that the file leaves free",
            "openbnns import model.onnx --shape input=3,224,224   # fix all sizes of an input",
            "openbnns import model.mlpackage                  # also .mlmodelc and .mlmodel",
            "openbnns import weights.npz --network out/model.safetensors  # weights for this network",
            "openbnns import state.safetensors --network out/model.safetensors -o new.safetensors   # of PyTorch",
        ),
    )  # fmt: skip
    parser.add_argument("model", metavar="MODEL", type=Path, help=f"a file of {KINDS}")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=None,
        metavar="FILE",
        help="file to write or replace (default: beside the model, .safetensors, which must not exist yet)",
    )
    parser.add_argument(
        "--network", type=Path, default=None, metavar="MODEL",
        help="for a file of weights: the model file with the network, classes and preprocessing that they belong to",
    )  # fmt: skip
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
    network, card, titles, rows = _opened(options)
    if options.output is None and path.exists():
        raise ValueError(f"{path} is already there, and may have been trained. To write over it, name it: -o {path}.")
    try:
        network.save_model(path, card=card)
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


def _opened(options: argparse.Namespace) -> tuple[Any, Any, Sequence[str], Sequence[Sequence[str]]]:
    """The network of a file and its model card, with titles and rows of a table of what it has become."""

    path, suffix = options.model, options.model.suffix.lower()
    refuse_file(path)
    if suffix not in WEIGHTS and options.network is not None:
        raise ValueError(
            f"--network is for files of weights ({', '.join(WEIGHTS)}), but {path} has a network. Leave it out."
        )
    if suffix in model_formats.WEIGHTS or options.network is not None:
        if options.sizes or options.shape:
            raise ValueError("--size and --shape are for ONNX models. Leave them out.")
        network, card = _with_weights(path, options.network)
        return network, card, *model_formats.arrays(network)
    known = model_formats.format_of(path)
    if known is None:
        raise ValueError(f"{path}: cannot be imported. Give a file of {KINDS}.")
    network = known.open(path, options)
    return network, network.model_card, *known.converted(network)


def _with_weights(path: Path, model: Path | None) -> tuple[Any, Any]:
    """The network of a model file with other weights, and its card without the training and the results of the old ones."""
    from .. import nn

    if model is None:
        raise model_formats.without_network(path)
    network = nn.load_model(model)
    network.load(path)
    return network, replace(network.model_card or nn.ModelCard(), training={}, split={}, results={})
