"""The contents of an ONNX file, without running it: inputs, outputs, operators."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ._file import Port, read


@dataclass(frozen=True)
class Contents:
    """Inputs and outputs have numbers for sizes, names for free ones, and None for those that have none."""

    opset: int
    inputs: list[Port]
    outputs: list[Port]
    operators: Counter[str]
    numbers: int
    """Numbers in all weights."""

    @property
    def free_sizes(self) -> list[str]:
        return list(dict.fromkeys(n for port in self.inputs for n in port.shape or () if isinstance(n, str)))

    def shapes_with(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        """``input_shapes`` for ``from_onnx`` that give free sizes these numbers, and leave others as they are."""
        named = [port for port in self.inputs if set(port.shape or ()) & set(sizes)]
        return {port.name: tuple(sizes.get(str(n), n) for n in port.shape or ()) for port in named}


def contents(path: str | os.PathLike[str]) -> Contents:
    """The contents of an ONNX file; raises OnnxError for any other file."""
    model = read(path)
    operators = Counter(node.op for node in model.nodes)
    return Contents(
        model.opset, model.inputs, model.outputs, operators, sum(a.size for a in model.initializers.values())
    )
