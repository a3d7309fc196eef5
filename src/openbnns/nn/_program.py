"""A graph with memory for one batch size, ready to run.

Time runs from 0 to 2 n for n operations: operation i works forward at i and backward at 2 n - i. A value lives from the
operation that writes it to the last one that reads it, on either side; its gradient lives from the backward step of its
last reader to that of its writer. ``_memory.plan`` lets buffers share memory accordingly.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _strict, engines
from ._graph import Array, Call, Graph, Operation, Value
from ._memory import ALIGNMENT, Block, plan

if TYPE_CHECKING:
    from .parameter import Parameter


class Steps:
    """Calls that are made one after the other, again and again on the same memory.

    The first time, native code keeps what each call of a layer did; from then on, native calls that follow each other
    are one. ``lasting`` are the arrays that such calls may use.
    """

    def __init__(self, lasting: list[object]) -> None:
        self.calls: list[Call] = []
        self._lasting = lasting
        self._parts: list[tuple[Any, list[Call]]] = []  # native calls as a replay, others with None

    def run(self) -> None:
        if not self._parts:
            self._run_first()
            return
        for replay, calls in self._parts:
            done = 0 if replay is None else replay.run()
            while done < len(calls):  # the native call has declined, or there is none
                calls[done]()
                done += 1
                if replay is not None:
                    done = replay.run(done)

    def _run_first(self) -> None:
        if not engines.is_native() or _strict.active():
            for call in self.calls:
                call()
            return
        parts: list[tuple[Any, list[Call]]] = []
        for call in self.calls:
            replay = parts[-1][0] if parts else None
            if not isinstance(call, partial):
                call()
            elif replay is not None and replay.add(call):
                parts[-1][1].append(call)
                continue
            elif replay is None:
                replay = engines._core.Replay(self._lasting)
                if replay.add(call):
                    parts.append((replay, [call]))
                    continue
            parts.append((None, [call]))
        self._parts = parts


class Program:
    """Runs a graph on ``batch`` samples. Inputs are read from ``inputs``, the result stands in ``output``.

    ``training`` adds the backward pass: it reads ``output_gradient``, and writes the gradients of the parameters that
    require one when the program is made (``trained``), and with ``input_gradients`` those of the inputs.
    """

    def __init__(self, graph: Graph, batch: int, *, training: bool, input_gradients: bool = False) -> None:
        assert graph.output is not None
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
            self._lasting += [parameter.data, parameter.grad] if parameter.requires_grad else [parameter.data]
        self.inputs = [self._array(value) for value in graph.inputs]
        self.output = self._array(graph.output)
        self._forward = Steps(self._lasting)
        self._forward.calls = [
            step.forward([self._array(v) for v in step.inputs], self._array(step.output), training)
            for step in self._steps
        ]
        self._random = [step for step in self._steps if step.random]
        self._backward = Steps(self._lasting)
        # Those that are needed if nobody wants the gradients of the inputs.
        self._backward_of_parameters = Steps(self._lasting)
        self.trained: list[Parameter] = []
        self.output_gradient: Array | None = None
        self.input_gradients: list[Array | None] = []
        if training:
            self._bind_backward()

    # Lives.

    def _values_with_gradient(self, input_gradients: bool) -> set[Value]:
        """Storages of the values that parameters, or the inputs if wanted, have a part in."""
        wanted = {v for v in self.graph.inputs if v.dtype == np.float32} if input_gradients else set()
        for step in self._steps:
            if any(p.requires_grad for p in step.parameters) or any(v.storage in wanted for v in step.inputs):
                wanted.add(step.output)
        return wanted

    def _place_values(self) -> None:
        ends: dict[Value, int] = dict.fromkeys(self.graph.inputs, 0)
        starts: dict[Value, int] = dict.fromkeys(self.graph.inputs, 0)
        for i, step in enumerate(self._steps):
            starts[step.output] = ends[step.output] = i
            again = self._last - i if self._goes_back(step) else i
            for value in step.inputs:
                ends[value.storage] = max(ends[value.storage], again if step.keeps_inputs else i)
            if step.keeps_output:
                ends[step.output] = again
        assert self.graph.output is not None
        ends[self.graph.output.storage] = self._last  # the caller reads it
        for value in self.graph.inputs:
            ends[value] = self._last  # the caller may run the same input again
        for value, start in starts.items():
            self._blocks[value] = Block(self._bytes(value), start, ends[value])

    def _goes_back(self, step: Operation) -> bool:
        return step.output in self._wanted

    def _place_gradients(self) -> None:
        """The gradient of a value is first written by its last reader, and last read by its writer."""
        first: dict[Value, int] = {}
        for i, step in enumerate(self._steps):
            for value in step.inputs:
                if value.storage in self._wanted and self._goes_back(step):
                    first[value.storage] = self._last - i
        assert self.graph.output is not None
        if self.graph.output.storage in self._wanted:
            first[self.graph.output.storage] = len(self._steps)
        written = {step.output: self._last - i for i, step in enumerate(self._steps)}
        for value, start in first.items():
            self._gradient_blocks[value] = Block(self._bytes(value), start, written.get(value, self._last))

    def _bytes(self, value: Value) -> int:
        return self.batch * value.count * value.dtype.itemsize

    def _allocate(self) -> int:
        blocks = [*self._blocks.values(), *self._gradient_blocks.values()]
        size = plan(blocks)
        memory = np.empty(size + ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % ALIGNMENT
        self._memory = memory[start : start + size]
        return size

    def _view(self, block: Block, value: Value) -> Array:
        piece = self._memory[block.offset : block.offset + block.size]
        return piece.view(value.dtype).reshape(self.batch, *value.shape)

    def _array(self, value: Value) -> Array:
        return self._view(self._blocks[value.storage], value)

    def _gradient(self, value: Value) -> Array | None:
        block = self._gradient_blocks.get(value.storage)
        return None if block is None else self._view(block, value)

    # Backward.

    def _bind_backward(self) -> None:
        assert self.graph.output is not None
        self.output_gradient = self._gradient(self.graph.output)
        written: set[Any] = {self.graph.output.storage}
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
        x, y = [self._array(v) for v in step.inputs], self._array(step.output)
        dy = self._gradient(step.output)
        if dy is None or step.output not in written:  # the result does not depend on it
            return
        targets: list[tuple[Any, Array | None]] = [(v.storage, self._gradient(v)) for v in step.inputs]
        targets += [(p, p.grad if p.requires_grad else None) for p in step.parameters]
        given: list[Array | None] = []
        sums: list[tuple[Any, Call]] = []
        for key, target in targets:
            if target is not None and key in written:
                part = np.empty_like(target)
                self._lasting.append(part)
                sums.append((key, _addition(target, part)))
                target = part
            given.append(target)
            if target is not None:
                written.add(key)
        count = len(step.inputs)
        call = step.backward(x, y, dy, given[:count], given[count:])
        self._backward.calls += [call, *(addition for _, addition in sums)]
        if step.output in needed:
            of_parameters = [addition for key, addition in sums if key in needed or key in step.parameters]
            self._backward_of_parameters.calls += [call, *of_parameters]

    # Running.

    def fill(self, index: int, samples: Array) -> None:
        """Copy samples into an input. Numbers become float32; a lookup takes whole numbers only."""
        target = self.inputs[index]
        if target.dtype.kind == "i" and samples.dtype.kind not in "iub":
            raise ValueError(
                f"input {index} is {samples.dtype}, but the network looks it up in a table. Pass integers, e.g. "
                ".astype(np.int64)."
            )
        np.copyto(target, samples, casting="unsafe")

    def forward(self) -> Array:
        """Compute ``output`` from ``inputs``."""
        self._forward.run()
        return self.output

    def seed(self, seed: int, step: int) -> None:
        """Make the random choices of the next forward pass a function of these two numbers alone."""
        for index, operation in enumerate(self._random):
            operation.reseed(seed, step, index)

    def first_not_finite(self, network: Any) -> str:
        """Path and kind of the first layer that gives NaN or infinity for the present inputs; "" if none does."""
        paths = {id(module): path for path, module in network.named_modules()}
        for step, call in zip(self._steps, self._forward.calls, strict=True):
            call()
            if not np.isfinite(self._array(step.output)).all():
                return ", ".join(f"{paths.get(id(m), '')} ({type(m).__name__})" for m in step.modules)
        return ""

    def backward(self, *, input_gradients: bool = True) -> None:
        """Compute all gradients from ``output_gradient``, or only what those of the parameters take."""
        (self._backward if input_gradients else self._backward_of_parameters).run()


def _addition(target: Array, part: Array) -> Call:
    return lambda: np.add(target, part, out=target)
