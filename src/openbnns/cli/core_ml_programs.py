"""Core ML's programs on the command line: what is in a file, and what it predicts."""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arguments import FAILED, OK, print_json

if TYPE_CHECKING:
    from ..interop.coreml import Model
    from ..interop.protobuf import Message

_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")


def is_program(path: Path) -> bool:
    """True for a file or folder with ML programs, or a neural network that runs as one, for arrays of any rank."""
    from ..interop import coreml
    from ..interop.coreml import mlmodel

    if not path.exists():
        return True
    message = _network_message(coreml.read(path))
    return message is None or mlmodel.takes_any_rank(message)


def _network_message(model: Model) -> Message | None:
    """The message of a neural network of the old kind; None for other models."""
    return model.message if model.kind.startswith("neuralNetwork") else None


def open_network(path: Path, options: argparse.Namespace) -> Any:
    """The network of an ML program."""
    from .. import nn
    from ..interop import coreml

    if options.sizes or getattr(options, "shape", None):
        raise ValueError("--size and --shape are for ONNX models. Leave them out.")
    if path.suffix.lower() == ".mlmodel" and _network_message(coreml.read(path)) is not None:
        if getattr(options, "one_sample", False):
            raise ValueError("--one-sample is for ONNX models and ML programs. Leave it out.")
        return nn.from_mlmodel(path)
    return nn.from_coreml(path, batch_axis=None if getattr(options, "one_sample", False) else 0)


def inspect(path: Path, options: argparse.Namespace) -> int:
    """Print what a model takes, gives and holds; fails if it cannot run."""
    from ..coreml import inspect

    inspection = inspect(path)
    if options.json:
        print_json({**asdict(inspection), "runs": inspection.runs})
    elif not options.quiet:
        for line in inspection.lines():
            print(line)
        if inspection.runs:
            print(f"runs here: openbnns predict {options.model} DATA")
    return OK if inspection.runs else FAILED


def predict(options: argparse.Namespace) -> int:
    """Write the outputs of a model for arrays by the names of its inputs, or for an image."""
    from ..coreml import MLModel

    if options.output is not None and options.output.suffix.lower() != ".npz":
        raise ValueError(f"{options.output}: outputs of a Core ML model are arrays. Give a name that ends in .npz.")
    model = MLModel(options.model)
    outputs = model.predict(_inputs(Path(options.data), list(model.input_description)))
    if options.output is not None:
        _write(options.output, outputs)
    if options.json:
        print_json(
            {"model": str(options.model), "data": options.data, "outputs": {k: _plain(v) for k, v in outputs.items()}}
        )
    elif not options.quiet:
        for name, value in outputs.items():
            about = f" {value.dtype}{list(value.shape)}" if hasattr(value, "dtype") else ""
            print(f"{name}{about}: written to {options.output}" if options.output else f"{name}{about}:\n{value}")
    return OK


def _inputs(path: Path, names: Sequence[str]) -> dict[str, Any]:
    import numpy as np

    from ..files.untrusted import DataError

    if not path.exists():
        raise DataError(f"{path}: there is no such file.")
    suffix = path.suffix.lower()
    if suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            if len(archive.files) == len(names) == 1:
                return {names[0]: archive[archive.files[0]]}
            return {name: archive[name] for name in archive.files}
    if len(names) != 1:
        raise DataError(f"{path}: the model has {len(names)} inputs. Give a .npz file with arrays {', '.join(names)}.")
    if suffix == ".npy":
        return {names[0]: np.load(path, allow_pickle=False)}
    if suffix in _IMAGES:
        from ..nn.data.sources.images import pillow

        with pillow().open(path) as image:
            return {names[0]: image.copy()}
    raise DataError(f"{path}: give a .npz file with an array for each input, a .npy file for one input, or an image.")


def _write(path: Path, outputs: dict[str, Any]) -> None:
    import numpy as np

    from ..files.safetensors import write_atomically

    data = io.BytesIO()
    arrays: dict[str, Any] = {}
    for name, value in outputs.items():
        arrays[name] = np.asarray(list(value.values()) if isinstance(value, dict) else value)
        if isinstance(value, dict):  # numbers by class
            arrays[f"{name}.classes"] = np.asarray(list(value))
    np.savez(data, **arrays)
    write_atomically(path, data.getvalue())


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
