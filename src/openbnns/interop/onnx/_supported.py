"""The table of operators that can be read."""

from __future__ import annotations

from . import operators  # noqa: F401  (which fill the table)
from ._file import COMPOSED
from ._operator import OPERATORS

_ORDER = (
    "convolutions and poolings", "normalizations", "products", "sequences", "activations", "arithmetic", "reductions", "shapes",
    "parts and joints", "masks and types", "quantized numbers", "control flow", "sizes that depend on numbers",
    "sequences of tensors", "samples of images", "signals", "random numbers", "onnxruntime's own",
)  # fmt: skip


def supported() -> dict[str, tuple[str, ...]]:
    """Names of the operators that :func:`openbnns.nn.from_onnx` reads, by kind.

    >>> from openbnns import nn
    >>> "LSTM" in nn.onnx.supported()["sequences"], "Loop" in nn.onnx.supported()["control flow"]
    (True, True)
    """
    kinds = {kind: tuple(sorted(name for name, known in OPERATORS.items() if known.group == kind)) for kind in _ORDER}
    return kinds | {"made of others": COMPOSED}


def table() -> str:
    """The same in Markdown, as the documentation has it."""
    lines = ["| kind | operators |", "|---|---|"]
    lines += [f"| {group} | {' '.join(f'`{name}`' for name in names)} |" for group, names in supported().items()]
    return "\n".join(lines)
