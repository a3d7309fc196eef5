"""Exports of whole networks, as opposed to weights alone: ``openbnns export MODEL --to c`` and its relatives."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arguments import OK, count, print_json, rate, show

if TYPE_CHECKING:
    from ..nn import Module

FORMS = ("onnx", "c", "swift", "coreml", "keras")


def add_options(export: argparse.ArgumentParser) -> None:
    code = export.add_argument_group("networks", "options of --to c and --to swift; --batch-size also of --to coreml")
    code.add_argument("--name", default="network", help="what the names in the code begin with (default: network)")
    code.add_argument(
        "--batch-size", type=count, default=None, help="samples in a call (default: 1; 32 with --training)"
    )
    code.add_argument("--training", action="store_true", help="also a training step, with --loss and --optimizer")
    code.add_argument("--loss", default=None, help="of the training step (default: by the model's task)")
    code.add_argument("--optimizer", default="adam", help="of the training step (default: adam)")
    code.add_argument("--learning-rate", type=rate, default=None, help="of the optimizer (default: its own)")
    package = export.add_argument_group("Core ML", "options of --to coreml, which needs openbnns[coreml]")
    package.add_argument("--precision", choices=("float32", "float16"), default="float32", help="of weights and values")


def run(options: argparse.Namespace) -> int:
    from .. import nn

    if options.output is not None and options.output.resolve() == options.model.resolve():
        raise ValueError(f"{options.output} is the model itself. Give another name: -o FILE.")
    network = nn.load_model(options.model)
    if options.to == "onnx":
        path = options.output or options.model.with_suffix(".onnx")
        _report(options, nn.onnx.to_onnx(network, path), [path], ("layer", "operation", "becomes"))
        return OK
    if options.to == "coreml":
        path = options.output or options.model.with_suffix(".mlpackage")
        package = network.to_coreml(path, precision=options.precision, batch_size=options.batch_size)
        _report(options, package.rows, [package.path])
        return OK
    if options.to == "keras":
        from ..interop import keras as keras_weights

        path = options.output or options.model.with_name(f"{options.model.stem}.weights.h5")
        _report(options, keras_weights.save_from(network, path), [path])
        return OK
    folder = options.output or options.model.with_name(f"{options.model.stem}-{options.to}")
    write = {"c": network.to_c, "swift": network.to_swift}[options.to]
    training = _training(network, options) if options.training else {}
    written = write(folder, options.training, name=options.name, batch_size=options.batch_size, **training)
    _report(options, written.rows, written.paths)
    return OK


def _training(network: Module, options: argparse.Namespace) -> dict[str, Any]:
    from .. import nn
    from ..nn.choose import choose
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
    """What became of which layer, and where it is."""
    if options.json:
        converted = [dict(zip(titles, row, strict=True)) for row in rows]
        print_json({
            "model": str(options.model), "to": options.to, "written": [str(path) for path in paths], "converted": converted,
        })  # fmt: skip
    elif not options.quiet:
        show(titles, rows)
        print(f"Written: {', '.join(map(str, paths))}")
