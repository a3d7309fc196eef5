"""``openbnns export``: a trained model in a form that other programs read."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._plural import plural
from . import model_formats
from .arguments import OK, Commands, add_output, count, print_json, rate, show

if TYPE_CHECKING:
    from ..nn import Module

_NETWORKS = ("onnx", "c", "swift", "coreml")
_WEIGHTS = {"npz": ".npz", "safetensors": ".safetensors"}


def add(commands: Commands) -> None:
    export = commands.add_parser(
        "export", help="write a trained model in a form that other programs read",
        description="Write the weights of a model for other programs: npz for NumPy, safetensors for PyTorch and any other "
        "reader of it; or the whole network: an ONNX file, an ML program, C or Swift code that calls BNNS.",
        examples=(
            "openbnns export out/model.safetensors --to npz -o weights.npz",
            "openbnns export out/model.safetensors --to safetensors             # for safetensors.torch.load_file",
            "openbnns export out/model.safetensors --to onnx                    # needs onnx",
            "openbnns export out/model.safetensors --to coreml -o net.mlpackage",
            "openbnns export out/model.safetensors --to c -o code --name digits # digits.c, digits.h, digits.weights",
            "openbnns export model.onnx --to coreml                             # or --to c, --to swift",
        ),
    )  # fmt: skip
    export.add_argument("model", metavar="MODEL", type=Path, help=model_formats.MODEL_FILE)
    forms = (*_WEIGHTS, *_NETWORKS)
    export.add_argument("--to", choices=forms, required=True, metavar="FORM", help=", ".join(forms))
    where = "file to write, or folder for code (default: beside the model)"
    export.add_argument("-o", "--output", type=Path, default=None, metavar="FILE", help=where)
    model_formats.add_sizes(export)
    _add_options(export)
    add_output(export)
    export.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if options.to in _NETWORKS:
        return _export_network(options)
    from ..files import safetensors as weights
    from ..interop import weight_files

    suffix = _WEIGHTS[options.to]
    path = options.output or options.model.with_name(f"{options.model.stem}-weights{suffix}")
    if path.resolve() == options.model.resolve():
        raise ValueError(f"{path} is the model itself. Give another name: -o FILE.")
    if model_formats.format_of(options.model) is None:
        arrays = weights.load(options.model)
    else:
        arrays = model_formats.opened(options.model, options).state_dict()
    if not weight_files.write(path, arrays, suffix):
        weights.save(path, arrays)
    total = sum(array.size for array in arrays.values())
    if options.json:
        shapes = {name: list(array.shape) for name, array in arrays.items()}
        print_json({"model": str(options.model), "to": options.to, "written": [str(path)], "arrays": shapes})
    elif not options.quiet:
        show(("array", "elements", "shape"), [(name, str(a.dtype), str(a.shape)) for name, a in arrays.items()])
        print(f"{plural(len(arrays), 'array')} with {plural(total, 'number')}.\nWritten: {path}")
    return OK


def _add_options(export: argparse.ArgumentParser) -> None:
    code = export.add_argument_group("networks", "options of --to c and --to swift; --batch-size also of --to coreml")
    code.add_argument("--name", default="network", help="prefix of the names in the code (default: %(default)s)")
    code.add_argument(
        "--batch-size", type=count, default=None, help="samples in a call (default: 1; 32 with --training)"
    )
    code.add_argument("--training", action="store_true", help="also a training step, with --loss and --optimizer")
    code.add_argument("--loss", default=None, help="of the training step (default: by the model's task)")
    code.add_argument("--optimizer", default="adam", help="of the training step (default: %(default)s)")
    code.add_argument("--learning-rate", type=rate, default=None, help="of the optimizer (default: its own)")
    package = export.add_argument_group("Core ML", "options of --to coreml")
    package.add_argument("--precision", choices=("float32", "float16"), default="float32", help="of weights and values")


def _export_network(options: argparse.Namespace) -> int:
    from .. import nn

    if options.output is not None and options.output.resolve() == options.model.resolve():
        raise ValueError(f"{options.output} is the model itself. Give another name: -o FILE.")
    network = model_formats.opened(options.model, options)
    if options.to == "onnx":
        path = options.output or options.model.with_suffix(".onnx")
        _report(options, nn.onnx.to_onnx(network, path), [path], ("layer", "operation", "becomes"))
        return OK
    if options.to == "coreml":
        path = options.output or options.model.with_suffix(".mlpackage")
        package = network.to_coreml(path, precision=options.precision, batch_size=options.batch_size)
        _report(options, package.rows, [package.path])
        return OK
    folder = options.output or options.model.with_name(f"{options.model.stem}-{options.to}")
    write = {"c": network.to_c, "swift": network.to_swift}[options.to]
    training = _training(network, options) if options.training else {}
    written = write(folder, options.training, name=options.name, batch_size=options.batch_size, **training)
    _report(options, written.rows, written.paths)
    return OK


def _training(network: Module, options: argparse.Namespace) -> dict[str, Any]:
    from .. import nn
    from ..nn.arguments import choose
    from ..nn.optimizers import NAMED

    card = network.model_card
    loss = options.loss or {"regression": "mse", "multilabel": "bce_with_logits"}.get(
        "" if card is None else str(card.task), "cross_entropy"
    )
    kind = type(choose(options.optimizer, NAMED, nn.Optimizer, "--optimizer"))
    given = {} if options.learning_rate is None else {"lr": options.learning_rate}
    return {"loss": loss, "optimizer": kind(**given)}


def _report(
    options: argparse.Namespace,
    rows: Sequence[Sequence[str]],
    paths: Sequence[Path],
    titles: Sequence[str] = ("layer", "becomes"),
) -> None:
    """Print the form that each layer has been given, and the files."""
    if options.json:
        converted = [dict(zip(titles, row, strict=True)) for row in rows]
        print_json({
            "model": str(options.model), "to": options.to, "written": [str(path) for path in paths], "converted": converted,
        })  # fmt: skip
    elif not options.quiet:
        show(titles, rows)
        print(f"Written: {', '.join(map(str, paths))}")
