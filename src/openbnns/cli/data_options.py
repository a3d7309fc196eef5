"""Options about data, and reading data accordingly."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from . import model_formats
from .arguments import add_output, byte_limit, count

SOURCES = (
    "a table of numbers (.csv, .tsv, also .gz), a .npz with arrays x and y, a folder of images by class, a folder of IDX files "
    "such as MNIST's, or digits (built in)"
)


MEANING, FORM = "what the data means", "how files are read"
"""Titles of groups of options."""


def listed(text: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


def size(text: str) -> tuple[int, int]:
    """A number of pixels for both sides, or HEIGHTxWIDTH."""
    parts = text.lower().split("x")
    if len(parts) not in (1, 2) or not all(p.isascii() and p.isdigit() and 0 < int(p) < 2**16 for p in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of pixels such as 64 or 48x64 (height x width)")
    return int(parts[0]), int(parts[-1])


def add_model_and_data(parser: argparse.ArgumentParser, samples: str) -> None:
    """A trained model, data for it, and how many samples it takes at a time."""
    parser.add_argument("model", metavar="MODEL", type=Path, help=model_formats.MODEL_FILE)
    parser.add_argument("data", metavar="DATA", help=f"{samples}, in the form that the model was trained on")
    parser.add_argument("--batch-size", type=count, default=256, help="samples at a time (default: %(default)s)")
    model_formats.add_sizes(parser)
    add_output(parser)
    add_form(parser)


def add_form(parser: argparse.ArgumentParser) -> None:
    """Options about the form of files."""
    group = parser.add_argument_group(FORM)
    group.add_argument("--skip-bad", action="store_true", help="leave out images that cannot be read, and say which")
    group.add_argument(
        "--memory-limit", type=byte_limit, default=None, metavar="BYTES",
        help="limit for the data in memory, such as 8G (default: 1G, or 20 times the size of the file if that is more)",
    )  # fmt: skip


def add_meaning(parser: argparse.ArgumentParser) -> None:
    """Options about what the data means."""
    group = parser.add_argument_group(MEANING)
    group.add_argument(
        "--target", default=None, metavar="NAME",
        help="column to predict, by name or position from 1 on, or several: a,b (default: the last)",
    )  # fmt: skip
    group.add_argument(
        "--task", choices=("classification", "regression", "multilabel"), default=None,
        help="what to predict: a class, numbers, or several labels (default: detected from the target, and printed)",
    )  # fmt: skip
    group.add_argument(
        "--no-standardize", action="store_true", help="leave numbers as they are (default: mean 0 and deviation 1)"
    )
    group.add_argument(
        "--size", type=size, default=None, metavar="N", help="bring images to N x N pixels, or to HEIGHTxWIDTH"
    )


def form(options: argparse.Namespace) -> dict[str, Any]:
    """The values of the options of :func:`add_form`, as arguments of a reader."""
    return {"memory_limit": options.memory_limit, "skip_bad": options.skip_bad}


def predicted(options: argparse.Namespace, network: Any, **wanted: Any) -> tuple[Any, Any, Any]:
    """The samples of :func:`add_model_and_data`, as read and as the network takes them, and its predictions."""
    from ..nn.data import model_data
    from ..nn.files.model_file import fit_inputs, predict_prepared

    samples = model_data.read(network.model_card, options.data, **wanted, **form(options))
    x = fit_inputs(network, samples.x)
    return samples, x, predict_prepared(network, x, options.batch_size)


def load(options: argparse.Namespace) -> Any:
    """The data to train on."""
    from ..nn.data import dataset as datasets

    target: Any = None if options.target is None else listed(options.target)
    loaded = datasets.load(
        options.data, target=target, task=options.task, seed=options.seed, test_share=options.test_share,
        validation_share=options.validation_share, standardize=not options.no_standardize, size=options.size,
        **form(options),
    )  # fmt: skip
    return datasets.with_task(loaded, options.task)


def in_memory(samples: Any) -> Any:
    """Samples that a report may show; None if they would take too much memory."""
    import numpy as np

    size = math.prod(samples.shape) * samples.dtype.itemsize
    return np.asarray(samples) if size <= 2**29 else None
