"""A filter as gradcheck sees it. Its declared calls say almost everything; a family adds what no record holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._plural import plural
from .._words import Caller
from ..abi.structs import BNNSNDArrayDescriptor
from ..calls.signature import Argument, Call
from ..errors import Problem
from ..filters.base import Filter
from ..tensors.buffers import Buffer
from ..tensors.descriptors import View
from ..tensors.operands import Bound, Operand, Parameter

Array = NDArray[np.float64]
BATCH = 3
CALLER = Caller("gradcheck", {"in": "input", "out": "output"})
NAMES = {"in": "input", "inA": "input_a", "inB": "input_b", "in[0]": "input_a", "in[1]": "input_b", "in[2]": "input_c"}
"""The report's names for tensors of the C calls."""


class Subject:
    """The subject of a gradient check: the forward call of a filter in float64, and its backward call on the engine in use.

    Values are float64 arrays by the names of the report, inputs with their batch axis, parameters without.
    """

    names: ClassVar[Mapping[str, str]] = {}
    """The report's names for tensors of this family, where they differ from the usual ones."""

    of_layer: ClassVar[bool] = False
    """True if the subject is made from a layer, because the filter declares no calls."""

    def __init__(self, filter: Filter) -> None:
        self.filter = filter
        forward, backward = filter.driving_calls() or (None, None)
        if forward is None or backward is None:
            what = f"a filter of family {filter.family} has no gradient to check"
            raise Problem(f"gradcheck: {what}.", unsupported=True)
        self.calls = forward, backward
        self.forward_call, self.backward_call = (self._declared(*call) for call in self.calls)
        self.inputs = {self.name(a.name): a for a in self.forward_call.arguments if a.required and not a.writes}
        output_gradient = next(a for a in self.backward_call.arguments if a.gradient_of and not a.writes)
        self.output = self.forward_call.by_name[output_gradient.gradient_of]
        self.held = self.parameters_of(self.backward_call)

    def _declared(self, call: str, choice: Any) -> Call:
        record = self.filter.declared(call, self.filter.choose(call, choice, CALLER))
        if record is None:
            raise self.filter.refusal(call, CALLER)
        return record

    # What a family may override.

    def name(self, tensor: str) -> str:
        """The report's name for a tensor."""
        if tensor == "in[0]" and "in[1]" not in self.forward_call.by_name:
            return "input"
        return self.names.get(tensor) or NAMES.get(tensor, tensor)

    def parameters_of(self, backward: Call) -> dict[str, Parameter]:
        """The parameters with a gradient."""
        tensors = {a.gradient_of: a.tensor for a in backward.arguments if a.writes}
        return {self.name(name): p for name, p in tensors.items() if isinstance(p, Parameter)}

    def numbers(self, tensor: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
        """Random numbers for an input, in the domain of the function."""
        return random.standard_normal(shape)

    def moved(self, values: dict[str, Array]) -> dict[str, Array]:
        """The inputs, drawn or given, moved into the domain of the function."""
        return values

    def others(self, batch: int) -> dict[str, NDArray[Any]]:
        """Values, in canonical form, of further tensors that both calls take, by their C names."""
        return {}

    def cancelled(self, name: str, gradients: dict[str, Array]) -> float:
        """Magnitude of terms that always cancel in a gradient, leaving rounding errors relative to that magnitude."""
        return 0.0

    # Values.

    def draw(self, random: np.random.Generator) -> dict[str, Array]:
        """Random inputs."""
        drawn = {}
        for name, a in self.inputs.items():
            assert a.tensor is not None
            shape = (BATCH if a.batched else 1, *a.tensor.shape)
            drawn[name] = float32_numbers(self.numbers(a.name, shape, random))
        return self.moved(drawn)

    def given(self, inputs: Sequence[Any]) -> dict[str, Array]:
        """The caller's inputs, checked."""
        if len(inputs) != len(self.inputs):
            names = ", ".join(self.inputs)
            raise Problem(
                f"gradcheck: {plural(len(inputs), 'input')} {'is' if len(inputs) == 1 else 'are'} given, "
                f"but this {self.filter.family} filter takes {len(self.inputs)}: {names}."
            )
        values = {name: checked_input(v, a, name) for v, (name, a) in zip(inputs, self.inputs.items(), strict=True)}
        if len({len(values[name]) for name, a in self.inputs.items() if a.batched}) > 1:
            counts = ", ".join(f"{name} {len(values[name])}" for name, a in self.inputs.items() if a.batched)
            raise Problem(
                f"gradcheck: the inputs have different numbers of samples ({counts}). Give each the same batch."
            )
        return self.moved(values)

    def parameters(self) -> dict[str, Array]:
        """The current values of weights and other parameters."""
        return {name: held.read(np.float64) for name, held in self.held.items()}

    # Calls.

    def forward(self, values: dict[str, Array]) -> Array:
        """The output by the formulas, in float64 throughout."""
        batch = self._batch(values)
        tensors = {a.name: values[name] for name, a in self.inputs.items()} | self.others(batch)
        bound: dict[str, Bound] = {name: Exact.of(self.forward_call.by_name[name], v) for name, v in tensors.items()}
        samples = batch if self.output.batched else 1
        assert self.output.tensor is not None
        y = bound[self.output.name] = Exact.of(self.output, np.zeros((samples, *self.output.tensor.shape)))
        with ExitStack() as stack:
            stack.enter_context(self.filter.unchanged())
            for name, held in self.held.items():
                stack.enter_context(held.holding(values[name]))
            self.filter.run_reference(self.forward_call, samples, bound)
        return y.read(np.float64)

    def backward(self, values: dict[str, Array], cotangent: Array) -> dict[str, Array]:
        """The gradients that the engine in use computes in float32."""
        batch = self._batch(values)
        numbers = {a.name: values[name] for name, a in self.inputs.items()} | self.others(batch)
        tensors: dict[str, Any] = {}
        for a in self.forward_call.arguments:
            if a.tensor is not None and (a.name in numbers or (a.writes and not a.described)):
                tensor = OperandMemory(a.tensor, batch if a.batched else 1)
                tensors[a.name] = tensor.fill(numbers[a.name]) if a.name in numbers else tensor.memory
        output_gradient = OperandMemory(self.output.tensor, len(cotangent))
        output_gradient.fill(cotangent.reshape(len(cotangent), *output_gradient.operand.shape))
        gradients = {}
        given = {name: tensors[name] for name in self.backward_call.by_name.keys() & tensors.keys()}
        for a in self.backward_call.arguments:
            name = self.name(a.gradient_of)
            if a.gradient_of and not a.writes:
                given[a.name] = output_gradient.descriptor()
            elif a.tensor is not None and (name in self.inputs or name in self.held):
                gradients[name] = OperandMemory(self.held.get(name, a.tensor), batch if a.batched else 1)
                given[a.name] = gradients[name].descriptor()
        with self.filter.unchanged():
            self.perform(self.forward_call, *self.calls[0], batch, tensors)
            self.perform(self.backward_call, *self.calls[1], batch, given)
        return {name: tensor.read() for name, tensor in gradients.items()}

    def perform(self, record: Call, call: str, choice: Any, batch: int, tensors: Mapping[str, Any]) -> None:
        """Make a call with all checks, on tensors by the names of its record."""
        given = {name: (value, 0) for name, value in tensors.items()}
        for name in record.lists:
            given[name] = [tensors.get(item.name) for item in record.items(name)], 0
        self.filter.perform(call, CALLER, batch, given, choice)

    def _batch(self, values: Mapping[str, Array]) -> int:
        return max(len(values[name]) for name in self.inputs)


@dataclass(frozen=True)
class Exact(Bound):
    """A tensor of a call on the reference engine that holds float64 values, not rounded to an element type."""

    held: list[NDArray[Any]] = field(default_factory=list)

    @staticmethod
    def of(argument: Argument, values: NDArray[Any]) -> Exact:
        operand = argument.tensor
        assert operand is not None
        return Exact(
            operand.view, Buffer(0, None, True, None), len(values), 0, operand.order, operand.shape, held=[values]
        )

    def read(self, dtype: Any) -> NDArray[Any]:
        return self.held[0]

    def write(self, numbers: NDArray[Any]) -> None:
        self.held[0] = numbers.reshape(self.batch, *self.shape)

    def read_raw(self) -> NDArray[Any]:
        return self.held[0]

    def write_raw(self, stored: NDArray[Any]) -> None:
        self.write(stored)


class OperandMemory:
    """Memory of an operand in the layout its filter expects."""

    def __init__(self, operand: Operand | Parameter | None, batch: int) -> None:
        assert operand is not None
        self.operand, self.batch, view = operand, batch, operand.view
        self.memory = np.zeros(view.bytes_of((batch - 1) * view.extent + view.span), np.uint8)

    def fill(self, values: NDArray[Any]) -> NDArray[np.uint8]:
        assert isinstance(self.operand, Operand)
        self.operand.bind(CALLER("memory"), self.memory, self.batch, 0, output=True).write(values)
        return self.memory

    def descriptor(self) -> BNNSNDArrayDescriptor:
        return described(self.operand.view, self.memory)

    def read(self) -> Array:
        if isinstance(self.operand, Operand):
            return self.operand.bind(CALLER("memory"), self.memory, self.batch, 0).read(np.float64)
        values: Array = self.operand.bind_delta(CALLER("memory"), self.descriptor()).read(np.float64)[0]
        return values


def described(view: View, memory: NDArray[Any]) -> BNNSNDArrayDescriptor:
    stride = [] if view.layout.blocked32 else [view.strides[axis] for axis in view.layout.stepped]
    return BNNSNDArrayDescriptor(
        layout=view.layout.code, size=view.size, stride=stride, data=memory, data_type=view.element.code
    )


def float32_numbers(values: Any) -> Array:
    """Values that float32 holds exactly, so that the engine and the reference work at the same point."""
    return np.asarray(values, np.float32).astype(np.float64)


def checked_input(value: Any, argument: Argument, name: str) -> Array:
    array, operand = np.asarray(value, np.float64), argument.tensor
    assert operand is not None
    shape = operand.shape
    if isinstance(operand, Operand) and operand.flat and array.size and array.size % operand.view.count == 0:
        array = array.reshape(-1, *shape)
    if array.shape == shape:
        array = array[None]
    elif not argument.batched or array.shape[1:] != shape:
        raise Problem(
            f"gradcheck: {name} has shape {array.shape}, but one sample is {shape}"
            f"{', and a batch has one more axis in front' if argument.batched else ''}."
        )
    return float32_numbers(array)
