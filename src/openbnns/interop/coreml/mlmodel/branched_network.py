"""Layers of a file as modules and functions of values, run in their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ....graph.parameter import Parameter
from ....graph.tensor import Array, Tensor
from ....nn.containers import ModuleDict
from ....nn.module import Module


class Affine(Module):
    """scale x + bias, with numbers for every channel, or for all."""

    def __init__(self, scale: Array | None, bias: Array | None) -> None:
        super().__init__()
        self.scale = None if scale is None else Parameter(scale)
        self.bias = None if bias is None else Parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        y = x if self.scale is None else x * self.scale
        return y if self.bias is None else y + self.bias


class CoreMLNetwork(Module):
    """A network with branches: ``layers`` by name, each on the values that it names."""

    def __init__(self, steps: list[Step], inputs: list[str], outputs: list[str]) -> None:
        super().__init__()
        self.layers = ModuleDict({step.path: step.module for step in steps if step.module is not None})
        self._recipe, self._names_in, self._names_out = steps, inputs, outputs

    def forward(self, *inputs: Tensor) -> Any:
        values: dict[str, Tensor] = dict(zip(self._names_in, inputs, strict=True))
        for step in self._recipe:
            given = [values[name] for name in step.inputs]
            if step.module is not None:
                result = self.layers[step.path](*given)
            else:
                assert step.function is not None
                result = step.function(*given)
            values[step.output] = result
        results = [values[name] for name in self._names_out]
        return results[0] if len(results) == 1 else tuple(results)


@dataclass
class Step:
    """A layer of the file: a module, or a function of values."""

    name: str
    path: str
    inputs: list[str]
    output: str
    module: Module | None = None
    function: Callable[..., Tensor] | None = None
    weights: dict[str, Array] = field(default_factory=dict)  # of the module, by path
