"""What gradcheck needs to know about a family of filters, and what the families share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._words import Caller
from ..abi.structs import BNNSNDArrayDescriptor
from ..errors import Problem
from ..filters._base import UnaryFilter
from ..tensors.descriptors import View
from ..tensors.operands import Operand, Parameter

Array = NDArray[np.float64]
BATCH = 3


class Subject(ABC):
    """What gradcheck needs to know about a family of filters. Values are float64 arrays by name, batch axis first."""

    inputs: Sequence[str]
    floor: float = 0.0
    """Share of the largest gradient below which one counts as zero: a bias before a normalization has no effect, and
    what float32 makes of its gradient is rounding."""

    @abstractmethod
    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        """Random inputs in the domain of the function."""

    @abstractmethod
    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        """The caller's inputs, checked."""

    @abstractmethod
    def parameters(self) -> dict[str, Array]:
        """Weights and the like as they are now."""

    @abstractmethod
    def forward(self, values: dict[str, Array]) -> Array:
        """The float64 reference."""

    @abstractmethod
    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        """The gradients that the engine in use computes in float32, by name."""

    def cancelled(self, name: str, gradients: dict[str, Array]) -> float:
        """Size of the terms of a gradient that cancel by nature, which leave rounding errors of that size."""
        return 0.0


def float32_numbers(values: NDArray[Any]) -> Array:
    """Values that float32 holds exactly, so that the engine and the reference work at the same point."""
    return np.asarray(values, np.float32).astype(np.float64)


class Tensor:
    """Memory of an operand in the layout its filter expects."""

    def __init__(self, operand: Operand | Parameter, batch: int) -> None:
        self.operand, self.batch, view = operand, batch, operand.view
        self.memory = np.zeros(view.bytes_of((batch - 1) * view.extent + view.span), np.uint8)

    def fill(self, values: Array) -> np.ndarray[Any, Any]:
        assert isinstance(self.operand, Operand)
        self.operand.bind("gradcheck", self.memory, self.batch, 0, output=True).write(values)
        return self.memory

    def fill_integers(self, values: NDArray[np.int64]) -> None:
        assert isinstance(self.operand, Operand)
        plain = Operand(self.operand.view, self.operand.order)
        plain.bind("gradcheck", self.memory, self.batch, 0, output=True).write_integers(values)

    def descriptor(self) -> BNNSNDArrayDescriptor:
        return describe(self.operand.view, self.memory)

    def read(self) -> Array:
        if isinstance(self.operand, Operand):
            return self.operand.bind("gradcheck", self.memory, self.batch, 0).read(np.float64)
        values: Array = self.operand.bind_delta("gradcheck", self.descriptor()).read(np.float64)[0]
        return values


def describe(view: View, memory: NDArray[Any]) -> BNNSNDArrayDescriptor:
    stride = () if view.layout.blocked32 else [view.steps[axis] for axis in view.layout.stepped]
    return BNNSNDArrayDescriptor(
        layout=view.layout.code, size=view.size, stride=stride, data=memory, data_type=view.element.code
    )


def checked_input(value: Any, shape: tuple[int, ...], name: str, *, batched: bool = True) -> Array:
    array = np.asarray(value, np.float64)
    if array.shape == shape:
        array = array[None]
    elif not batched or array.shape[1:] != shape:
        raise Problem(
            f"gradcheck: {name} has shape {array.shape}, but one sample is {shape}"
            f"{', and a batch has one more axis in front' if batched else ''}."
        )
    return float32_numbers(array)


def random_numbers(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return float32_numbers(random.standard_normal(shape))


CALLER = Caller("gradcheck", {"in": "input", "out": "output"})


class UnarySubject(Subject):
    """Filters with one input and optional weights and bias."""

    inputs = ("input",)

    def __init__(self, filter: UnaryFilter) -> None:
        self.filter = filter

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        return {"input": random_numbers(random, (BATCH, *self.filter.input.shape))}

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        if len(inputs) != 1:
            raise Problem(f"gradcheck: {len(inputs)} inputs are given, but a {self.filter.family} filter has one.")
        return {"input": checked_input(inputs[0], self.filter.input.shape, "input")}

    def parameters(self) -> dict[str, Array]:
        tensors = {"weights": self.filter.weights, "bias": self.filter.bias}
        return {name: tensor.read(np.float64) for name, tensor in tensors.items() if tensor is not None}

    def forward(self, values: dict[str, Array]) -> Array:
        return self.filter.reference_forward(
            values["input"], values.get("weights"), values.get("bias"), self.filter.activation
        )

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        f, batch = self.filter, len(values["input"])
        x, y, dy = Tensor(f.input, batch), Tensor(f.output, batch), Tensor(f.output, batch)
        x.fill(values["input"])
        dy.fill(cotangent.reshape(batch, *f.output.shape))
        gradients = {"input": Tensor(f.input, batch)}
        for name, parameter in (("weights", f.weights), ("bias", f.bias)):
            if parameter is not None:
                gradients[name] = Tensor(parameter, 1)
        deltas = {name: tensor.descriptor() for name, tensor in gradients.items()}
        tensors: dict[str, tuple[Any, int]] = {"in": (x.memory, 0), "out": (y.memory, 0)}
        f.perform("apply", CALLER, batch, tensors)
        tensors |= {"in_delta": (deltas["input"], 0), "out_delta": (dy.descriptor(), 0)}
        tensors |= {"weights_delta": (deltas.get("weights"), 0), "bias_delta": (deltas.get("bias"), 0)}
        f.perform("apply_backward", CALLER, batch, tensors)
        return {name: tensor.read() for name, tensor in gradients.items()}
