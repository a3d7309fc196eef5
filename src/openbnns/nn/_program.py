"""A graph with memory for one batch size, ready to run.

Time runs from 0 to 2 n for n operations: operation i works forward at i and backward at 2 n - i. A value lives from the
operation that writes it to the last one that reads it, on either side; its gradient lives from the backward step of its
last reader to that of its writer. ``_memory.plan`` lets buffers share memory accordingly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._graph import Call, Graph, Operation
from ._memory import ALIGNMENT, Block, plan
from ._places import places
from ._steps import Steps, arrays
from ._value import FLOAT32, Array, Value
from .operations import adding
from .parameter import Parameter


class Program:
    """Runs a graph on ``batch`` samples. Inputs are read from ``inputs``, the results stand in ``outputs``.

    ``training`` adds the backward pass: it reads ``output_gradients``, and writes the gradients of the parameters that
    require one when the program is made (``trained``), and with ``input_gradients`` those of the inputs.
    """

    def __init__(self, graph: Graph, batch: int, *, training: bool, input_gradients: bool = False) -> None:
        self.graph, self.batch, self.training = graph, batch, training
        self._steps = graph.operations
        self._last = 2 * len(self._steps)
        self._wanted = self._values_with_gradient(input_gradients) if training else set()
        self._blocks: dict[Value, Block] = {}
        self._gradient_blocks: dict[Value, Block] = {}
        self._place_values()
        if training:
            self._place_gradients()
        self.arena_bytes = self._allocate()
        self._lasting: list[object] = [self._memory]  # arrays that live as long as the program
        for parameter in graph.parameters:
            trained = training and parameter.requires_grad
            self._lasting += [parameter.data, parameter.grad] if trained else [parameter.data]
        self.inputs = [self._array(value) for value in graph.inputs]
        self.outputs = [self._array(value) for value in graph.outputs]
        self._forward = Steps(self._lasting)
        self._forward.calls = [
            step.forward_all(self._arrays(step.inputs), self._arrays(step.outputs), training) for step in self._steps
        ]
        self._random = [step for step in self._steps if step.random]
        self._backward = Steps(self._lasting)
        # Those that are needed if nobody wants the gradients of the inputs.
        self._backward_of_parameters = Steps(self._lasting)
        self.trained: list[Parameter] = []
        self.output_gradients: list[Array | None] = []
        self.input_gradients: list[Array | None] = []
        if training:
            self._bind_backward()
        for steps in (self._forward, self._backward):
            self._lasting += arrays(steps.calls)

    @property
    def output(self) -> Array:
        """The first result, which for most networks is the only one."""
        return self.outputs[0]

    @property
    def output_gradient(self) -> Array | None:
        """Where the gradient of ``output`` is read from; None if nothing that is trained has a part in it."""
        return self.output_gradients[0] if self.output_gradients else None

    # Lives.

    def _values_with_gradient(self, input_gradients: bool) -> set[Value]:
        """Storages of the values that parameters, or the inputs if wanted, have a part in."""
        wanted = {v for v in self.graph.inputs if v.dtype == FLOAT32} if input_gradients else set()
        for step in self._steps:
            if step.stops_gradient:
                continue
            wanted |= {v.storage for v in step.inputs if _is_trained(v.storage.leaf)}
            if any(p.requires_grad for p in step.parameters) or any(v.storage in wanted for v in step.inputs):
                wanted.update(v for v in step.outputs if v.dtype == FLOAT32)
        return wanted

    def _place_values(self) -> None:
        ends: dict[Value, int] = dict.fromkeys(self.graph.inputs, 0)
        starts: dict[Value, int] = dict.fromkeys(self.graph.inputs, 0)
        for i, step in enumerate(self._steps):
            again = self._last - i if self._goes_back(step) else i
            for value in step.outputs:
                starts[value] = i
                ends[value] = again if step.keeps_output else i
            for value in step.inputs:
                if value.storage.leaf is None:
                    ends[value.storage] = max(ends[value.storage], again if step.keeps_inputs else i)
        for value in self.graph.outputs:
            if value.storage.leaf is None:
                ends[value.storage] = self._last  # the caller reads it
        for value in self.graph.inputs:
            ends[value] = self._last  # the caller may run the same input again
        for value, start in starts.items():
            self._blocks[value] = Block(self._bytes(value), start, ends[value])

    def _goes_back(self, step: Operation) -> bool:
        return any(value in self._wanted for value in step.outputs)

    def _place_gradients(self) -> None:
        """The gradient of a value is first written by its last reader, and last read by its writer."""
        first: dict[Value, int] = {}
        for i, step in enumerate(self._steps):
            for value in step.inputs:
                if value.storage in self._wanted and self._goes_back(step):
                    first[value.storage] = self._last - i
        for value in self.graph.outputs:
            if value.storage in self._wanted:
                first[value.storage] = len(self._steps)
        written = {value: self._last - i for i, step in enumerate(self._steps) for value in step.outputs}
        for value, start in first.items():
            if value.leaf is None:  # the gradient of a parameter has a place of its own
                self._gradient_blocks[value] = Block(self._bytes(value), start, written.get(value, self._last))

    def _bytes(self, value: Value) -> int:
        return math.prod(value.concrete(self.batch)) * value.dtype.itemsize

    def _allocate(self) -> int:
        blocks = [*self._blocks.values(), *self._gradient_blocks.values()]
        size = plan(blocks)
        memory = np.empty(size + ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % ALIGNMENT
        self._memory = memory[start : start + size]
        return size

    def _view(self, block: Block, value: Value) -> Array:
        piece = self._memory[block.offset : block.offset + block.size]
        return piece.view(value.dtype).reshape(value.concrete(self.batch))

    def _array(self, value: Value) -> Array:
        leaf = value.storage.leaf
        if leaf is None:
            return self._view(self._blocks[value.storage], value)
        array: Array = leaf.data if isinstance(leaf, Parameter) else leaf
        return array.reshape(value.sample)

    def _arrays(self, values: list[Value]) -> list[Array]:
        return [self._array(value) for value in values]

    def _gradient(self, value: Value) -> Array | None:
        leaf = value.storage.leaf
        if _is_trained(leaf):
            gradient: Array = leaf.grad
            return gradient.reshape(value.sample)
        block = self._gradient_blocks.get(value.storage)
        return None if block is None else self._view(block, value)

    # Backward.

    def _bind_backward(self) -> None:
        self.output_gradients = [self._gradient(value) for value in self.graph.outputs]
        written: set[Any] = {_owner(value) for value in self.graph.outputs}
        needed = self._values_with_gradient(input_gradients=False)
        for step in reversed(self._steps):
            if self._goes_back(step):
                self._bind_step(step, written, needed)
        self.trained = [p for p in self.graph.parameters if p in written]
        self.input_gradients = [self._gradient(value) for value in self.graph.inputs]
        for value, gradient in zip(self.graph.inputs, self.input_gradients, strict=True):
            if gradient is not None and value not in written:  # nothing depends on this input
                gradient[...] = 0

    def _bind_step(self, step: Operation, written: set[Any], needed: set[Value]) -> None:
        """One backward step; a gradient that another step has begun is added to.

        ``needed`` are the storages whose gradients those of the parameters follow from.
        """
        dy = [self._gradient(v) if v in written else None for v in step.outputs]
        if not any(gradient is not None for gradient in dy):  # the result does not depend on it
            return
        targets: list[tuple[Any, Array | None]] = [(_owner(v), self._gradient(v)) for v in step.inputs]
        targets += [(p, p.grad if p.requires_grad else None) for p in step.parameters]
        given: list[Array | None] = []
        sums: list[tuple[Any, Call]] = []
        for key, target in targets:
            if target is not None and key in written:
                part = np.empty_like(target)
                sums.append((key, adding(target, target, part)))
                target = part
            given.append(target)
            if target is not None:
                written.add(key)
        count = len(step.inputs)
        x, y = self._arrays(step.inputs), self._arrays(step.outputs)
        call = step.backward_all(x, y, dy, given[:count], given[count:])
        self._backward.calls += [call, *(addition for _, addition in sums)]
        if any(value in needed for value in step.outputs):
            of_parameters = [addition for key, addition in sums if not isinstance(key, Value) or key in needed]
            self._backward_of_parameters.calls += [call, *of_parameters]

    # Running.

    def fill(self, index: int, samples: Array) -> None:
        """Copy samples into an input. Numbers become float32; lookups, lengths and masks take whole numbers only."""
        target = self.inputs[index]
        if target.dtype.kind == "i" and samples.dtype.kind not in "iub":
            raise ValueError(
                f"input {index} is {samples.dtype}, but the network takes whole numbers from it: rows of a table, lengths or "
                "a mask. Pass integers, e.g. .astype(np.int64), or booleans for a mask."
            )
        np.copyto(target, samples, casting="unsafe")

    def forward(self) -> Array:
        """Compute the outputs from ``inputs``; gives the first."""
        self._forward.run()
        return self.outputs[0]

    def seed(self, seed: int, step: int) -> None:
        """Make the random choices of the next forward pass a function of these two numbers alone."""
        for index, operation in enumerate(self._random):
            operation.reseed(seed, step, index)

    def first_not_finite(self, network: Any) -> str:
        """Path and kind of the first layer that gives NaN or infinity for the present inputs; "" if none does."""
        for step, place, call in zip(self._steps, places(network, self._steps), self._forward.calls, strict=True):
            call()
            if not all(np.isfinite(array).all() for array in self._arrays(step.outputs)):
                return f"{place.path} ({place.kind})"
        return ""

    def backward(self, *, input_gradients: bool = True) -> None:
        """Compute all gradients from ``output_gradients``, or only what those of the parameters take."""
        (self._backward if input_gradients else self._backward_of_parameters).run()


def _owner(value: Value) -> Any:
    """Whose gradient that of a value is: the parameter's that it stands for, or that of the value with the memory."""
    leaf = value.storage.leaf
    return leaf if isinstance(leaf, Parameter) else value.storage


def _is_trained(leaf: Any) -> bool:
    """Whether a value stands for a parameter that requires a gradient."""
    return isinstance(leaf, Parameter) and leaf.requires_grad
