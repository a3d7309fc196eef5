"""Models of other programs on the command line: a table of formats, by the ending of the file.

A format opens its files as networks, and describes them even if they cannot run. All commands go through :data:`FORMATS`;
a new format is a line there.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from .._elsewhere import refuse_file
from . import core_ml_programs
from .arguments import FAILED, OK, print_json


@dataclass
class Port:
    """An input or output: sizes that are not numbers are names."""

    name: str
    kind: str
    shape: Sequence[int | str | None] | None

    def __str__(self) -> str:
        sizes = "" if self.shape is None else f" ({', '.join('?' if n is None else str(n) for n in self.shape)})"
        return f"{self.name}: {self.kind}{sizes or ', of any shape'}"


@dataclass
class Contents:
    """The contents of a file, and the problems that keep it from running."""

    title: str
    inputs: list[Port]
    outputs: list[Port]
    operations: Counter[str]
    numbers: int
    """Numbers in all weights."""
    problems: list[str] = field(default_factory=list)

    @property
    def free_sizes(self) -> list[str]:
        return list(dict.fromkeys(n for port in self.inputs for n in port.shape or () if isinstance(n, str)))


MODEL_FILE = "a model file: one that openbnns train or net.save_model wrote, or an ONNX or Core ML model"
"""How commands that take a model of any format say so."""

WEIGHTS = (".npz",)
"""Endings of files of weights that belong to a network of this library."""

Table = tuple[tuple[str, ...], Sequence[tuple[str, ...]]]


class Format(NamedTuple):
    """The functions of commands for files of one kind; sizes are numbers for some of the free ones, by name."""

    open: Callable[[Path, argparse.Namespace], Any]
    converted: Callable[[Any], Table]
    """Titles and rows of a table of what each part of the model became."""
    inspect: Callable[[Path, argparse.Namespace], int]
    """The function that prints the contents, and fails if they cannot run."""
    predict: Callable[[argparse.Namespace], int] | None = None
    """The function that runs a file without making a network of it; None if its network is run."""


def size(text: str) -> tuple[str, int]:
    """NAME=NUMBER."""
    name, _, number = text.rpartition("=")
    if not name or not number.isascii() or not number.isdigit() or not 0 < int(number) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NUMBER, such as T=128")
    return name, int(number)


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """Numbers for free sizes of a model of another program."""
    parser.add_argument(
        "--size", action="append", type=size, default=[], metavar="NAME=NUMBER", dest="sizes",
        help="the number of a size that the file leaves free, such as T=128; openbnns inspect lists them",
    )  # fmt: skip


def without_network(path: Path) -> ValueError:
    """The error for a file of weights in place of a model."""
    return ValueError(
        f"{path}: has weights, but not the network that they belong to. openbnns import {path} --network MODEL makes a model "
        "file of them and the network of another model file."
    )


def format_of(path: Path) -> Format | None:
    """The format of a file; None for our own."""
    refuse_file(path)
    suffix = path.suffix.lower()
    if suffix in WEIGHTS:
        raise without_network(path)
    # Files of the same ending may hold either.
    if suffix == ".mlmodel" and core_ml_programs.is_program(path):
        return _PROGRAM
    return FORMATS.get(suffix)


def opened(path: Path, options: argparse.Namespace) -> Any:
    """The network of a model file of ours, or of another program."""
    from .. import nn

    known = format_of(path)
    if known is not None:
        return known.open(path, options)
    if options.sizes:
        raise ValueError("--size is for ONNX models. Leave it out.")
    return nn.load_model(path)


def _show(read: Callable[[Path, argparse.Namespace], Contents], path: Path, options: argparse.Namespace) -> int:
    """Print the contents of a file; fails if they cannot run."""
    contents = read(path, options)
    if options.json:
        ports = {
            end: [{"name": p.name, "type": p.kind, "shape": None if p.shape is None else list(p.shape)} for p in listed]
            for end, listed in (("inputs", contents.inputs), ("outputs", contents.outputs))
        }
        print_json({
            "model": str(path), "format": contents.title, **ports, "free_sizes": contents.free_sizes,
            "operations": dict(contents.operations.most_common()), "parameters": contents.numbers, "runs": not contents.problems,
            "problems": contents.problems,
        })  # fmt: skip
        return FAILED if contents.problems else OK
    if not options.quiet:
        for title, lines in (
            ("format", [contents.title]),
            ("inputs", list(map(str, contents.inputs))),
            ("outputs", list(map(str, contents.outputs))),
            ("free sizes", [", ".join(contents.free_sizes)] if contents.free_sizes else ["none"]),
            ("numbers in weights", [f"{contents.numbers:,}"]),
            ("operations", [f"{count:5d}  {name}" for name, count in contents.operations.most_common()]),
            ("cannot run", contents.problems),
        ):  # fmt: skip
            for i, line in enumerate(lines):
                print(f"{'' if i else title:18s} {line}")
        if not contents.problems:
            print(f"{'runs':18s} yes: openbnns predict {path} DATA")
    return FAILED if contents.problems else OK


# ONNX.

_KINDS = {"f": "numbers", "i": "whole numbers", "b": "booleans"}


def _open_onnx(path: Path, options: argparse.Namespace) -> Any:
    from .. import nn

    shapes: dict[str, Sequence[int]] = dict(getattr(options, "shape", []))
    axis = None if getattr(options, "one_sample", False) else 0
    if options.sizes:
        axis, shapes = None, shapes | _sized(path, dict(options.sizes))
    return nn.from_onnx(path, batch_axis=axis, input_shapes=shapes)


def _sized(path: Path, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Shapes of the inputs that have some of these sizes; other sizes of theirs stay free."""
    from ..interop.onnx.contents import contents

    said = contents(path)
    for name in sizes:
        if name not in said.free_sizes:
            free = ", ".join(said.free_sizes)
            has = f"Its free sizes are {free}" if free else "It has no free sizes with names"
            raise ValueError(f"--size {name}={sizes[name]}: {path} has no free size {name!r}. {has}.")
    return said.shapes_with(sizes)


def _onnx_contents(path: Path, options: argparse.Namespace) -> Contents:
    from .. import nn
    from ..interop.onnx.contents import contents
    from ..nn.names import inputs_of, outputs_of

    try:
        said = contents(path)
    except nn.onnx.Unsupported as error:
        return Contents("ONNX", [], [], Counter(), 0, error.problems)
    inputs, outputs = (
        [Port(p.name, _KINDS[p.kind], p.shape) for p in listed] for listed in (said.inputs, said.outputs)
    )
    result = Contents(f"ONNX, opset {said.opset}", inputs, outputs, said.operators, said.numbers)
    try:
        network = _open_onnx(path, options)
    except nn.onnx.Unsupported as error:
        result.problems = error.problems
        return result
    for port, made in zip(result.inputs, inputs_of(network), strict=True):
        port.shape = made.shape
    for port, made in zip(result.outputs, outputs_of(network), strict=True):
        if not made.fixed:
            port.shape = made.shape
    return result


# Neural networks of Core ML.


def _open_mlmodel(path: Path, options: argparse.Namespace) -> Any:
    from .. import nn

    if options.sizes or getattr(options, "shape", None) or getattr(options, "one_sample", False):
        raise ValueError("--size, --shape and --one-sample are for ONNX models. Leave them out.")
    return nn.from_mlmodel(path)


def _layers(network: Any) -> Table:
    return ("layer", "becomes"), [(path, type(layer).__name__) for path, layer in network.named_modules() if path]


def _mlmodel_contents(path: Path, options: argparse.Namespace) -> Contents:
    from ..interop.coreml import mlmodel
    from ..nn.names import inputs_of, outputs_of

    title = "Core ML, a neural network"
    try:
        network = _open_mlmodel(path, options)
    except mlmodel.Unsupported as error:
        refused = Counter(kind for _, kind, _ in error.layers)
        return Contents(title, [], [], refused, 0, [f"{name} ({kind}): {why}" for name, kind, why in error.layers])
    ends = [
        [Port(port.name, _KINDS["i" if port.is_whole else "f"], port.shape) for port in listed]
        for listed in (inputs_of(network), outputs_of(network))
    ]
    layers = [layer for _, layer in network.named_modules() if not list(layer.children())]
    kinds = Counter(type(layer).__name__ for layer in layers)
    return Contents(title, ends[0], ends[1], kinds, sum(p.size for p in network.parameters()))


# ML programs.


def arrays(network: Any) -> Table:
    """The arrays that a network holds."""
    return ("array", "shape"), [(name, str(a.shape)) for name, a in network.state_dict().items()]


_PROGRAM = Format(core_ml_programs.open_network, arrays, core_ml_programs.inspect, core_ml_programs.predict)

FORMATS = {
    ".onnx": Format(
        _open_onnx, lambda network: (("node", "becomes", "output"), network.converted()), partial(_show, _onnx_contents)
    ),
    ".mlmodel": Format(_open_mlmodel, _layers, partial(_show, _mlmodel_contents)),
    ".mlpackage": _PROGRAM,
    ".mlmodelc": _PROGRAM,
    ".mil": _PROGRAM,
}
