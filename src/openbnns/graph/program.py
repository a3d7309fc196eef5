"""A graph with its sizes bound and memory for all values, ready to run.

Time runs from 0 to 2 n for n operations: operation i works forward at i and backward at 2 n - i. A value lives from the
operation that writes it to the last one that reads it, on either side; its gradient lives from the backward step of its
last reader to that of its writer. ``memory.plan`` lets buffers share memory accordingly, and ``gradients.py`` says which
gradients are the same numbers. A value that is cheap to compute and that the backward pass needs once is not kept: it is
computed again.

Steps that depend on parameters and constants alone are settled: for inference they run when a parameter has changed, not in
every run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from .. import BinaryArithmeticLayer, engines
from .._table import Table
from ..tensors import wide
from .calls import Call, CallList, adding, arrays, clearing, in_turn, listed, make_on_weights, name_of
from .gradients import BackwardStep, backward_steps, is_trained, owner, share
from .graph import Graph
from .memory import Arena, Block, plan
from .operation import NO_MEMORY, Operation
from .parameter import Parameter, making
from .sizes import Size
from .tensor import FLOAT32, Array, Tensor, inexact

_CALL_BYTES = 4096  # roughly what a call holds: arrays, arguments, its native form


class TimedCall(NamedTuple):
    """A call of a program and the time that it took by itself.

    ``kind`` is "native", "Python" for one that needs it, or "settled" for one that is made only when a parameter has changed.
    """

    operation: Operation
    call: Call
    kind: str
    backward: bool
    seconds: float


class Program:
    """A graph ready to run on inputs of certain ``sizes``: numbers by the names of free sizes, which must meet all guards.

    Inputs are read from ``inputs``, the results stand in ``outputs``.

    ``training`` adds the backward pass: it reads ``output_gradients``, and writes the gradients of the parameters that
    require one when the program is made (``trained``), and with ``input_gradients`` those of the inputs, of all or of some by
    number. Values lie in memory of their own, or in an ``arena`` with those of programs that run at other times. ``outside``
    says of the first inputs where they lie already, and where their gradients go, if anywhere; None for
    one that needs memory.

    Made in a block of ``float64_memory``, it has float64 in place of float32, and no two values share memory.
    """

    def __init__(
        self,
        graph: Graph,
        sizes: Mapping[str, int],
        *,
        training: bool,
        input_gradients: bool | Sequence[int] = False,
        outside: Sequence[tuple[Array, Array | None] | None] = (),
        arena: Arena | None = None,
    ) -> None:
        self.graph, self.sizes, self.training = graph, dict(sizes), training
        self._concrete_shapes: dict[Tensor, tuple[int, ...]] = {}
        sized = next((operation for operation in graph.operations if operation.finds_sizes), None)
        if sized is not None:
            raise TypeError(
                f"{sized.title!r} gives results whose sizes depend on the numbers of its operands, so that the "
                "network is not one program. Call it, net(x), or net.predict(x); go back with net.backward."
            )
        with making, engines.using_arithmetic(graph.arithmetic):
            self._make(input_gradients, outside, arena or Arena())

    def _make(
        self,
        input_gradients: bool | Sequence[int],
        outside: Sequence[tuple[Array, Array | None] | None],
        arena: Arena,
    ) -> None:
        graph, training = self.graph, self.training
        self._wide = wide.active()
        self._number = np.dtype(np.float64) if self._wide else FLOAT32  # the element type of all values but integers
        self._steps = graph.operations
        self._last = 2 * len(self._steps)
        self._outside = {value: pair for value, pair in zip(graph.inputs, outside, strict=False) if pair is not None}
        numbers = range(len(graph.inputs)) if input_gradients is True else input_gradients or ()
        self._wanted = self._values_with_gradient([graph.inputs[i] for i in numbers]) if training else set()
        self.value_blocks: dict[Tensor, Block] = {}
        self.gradient_blocks: dict[Tensor, Block] = {}
        self.added_blocks: dict[tuple[int, int], Block] = {}  # by step and target
        self._backward_steps = backward_steps(graph, self._wanted)
        # By the step that reads it on the way back: where it lies then, and the number of the step that computes it.
        self._repeated: dict[tuple[int, Tensor], tuple[Block, int]] = {}
        if not self._wide:
            self._find_repeated()
        self._settled = set() if training or self._wide else self._settled_steps()
        self._place()
        self.arena_bytes = self._allocate(arena)
        self._sums: dict[int, BinaryArithmeticLayer] = {}  # layers that add gradients, by their size
        self._numbers_of_sizes: dict[int, Array] = {}
        self._lasting: list[object] = [self._memory]  # arrays that live as long as the program
        self._lasting += [array for pair in self._outside.values() for array in pair if array is not None]
        for parameter in graph.parameters:
            trained = training and parameter.requires_grad
            self._lasting += [parameter.array, parameter.grad] if trained else [parameter.array]
        self.inputs = [self._array(value) for value in graph.inputs]
        self.shapes = tuple(array.shape for array in self.inputs)
        self._only_input = self.inputs[0] if len(self.inputs) == 1 else None
        self.outputs = [self._array(value) for value in graph.outputs]
        # Roughly what the program takes while it does not run: memory, weights in the form of its layers, calls.
        self.kept_bytes = self.arena_bytes
        self._forward = CallList(self._lasting)
        self._settling = CallList(self._lasting)  # the calls of settled steps
        self._settled_for = 0  # the version of the parameters that they ran for
        self.forward_calls: list[tuple[Operation, list[Call]]] = []  # in the order in which they run
        settled = frozenset(value for i in self._settled for value in self._steps[i].outputs)
        for i in range(len(self._steps)):
            self._bind_forward(i, settled)
        self._random = [step for step in self._steps if step.random]
        self._shows_inputs = any(v.storage is given for v in graph.outputs for given in graph.inputs)
        self.backward_calls: list[tuple[Operation, list[Call]]] = []
        self._backward = CallList(self._lasting)
        # The backward calls without those that only gradients of the inputs need.
        self._backward_of_parameters = CallList(self._lasting)
        self.trained: list[Parameter] = []
        self.output_gradients: list[Array | None] = []
        self.input_gradients: list[Array | None] = []
        if training:
            self._bind_backward()
        for step in self._steps:
            step.scratch = step.kept = NO_MEMORY  # lives as long as the program
        lists = (self._settling, self._forward, self._backward, self._backward_of_parameters)
        self._lasting += arrays(call for steps in lists for call in steps.calls)
        self.kept_bytes += _CALL_BYTES * sum(len(steps.calls) for steps in lists)

    def _bind_forward(self, i: int, settled: frozenset[Tensor]) -> None:
        """One step of the forward pass."""
        step = self._steps[i]
        step.bound_sizes, step.settled = self.sizes, settled
        step.scratch, step.kept = self._piece(self.scratch_blocks[i], self._number), self._kept(i)
        before = step.all_made()
        arrays = self.arrays(step.inputs), self.arrays(step.outputs)
        calls = listed(step.forward_all(*arrays, self.training or step.trains))
        if not before or step.all_made() != before:  # layers of its own, which may keep weights in another form
            self.kept_bytes += sum(p.array.nbytes for p in step.parameters)
        self.forward_calls.append((step, calls))
        (self._settling if i in self._settled else self._forward).calls += calls

    @property
    def output(self) -> Array:
        """The first result, which for most networks is the only one."""
        return self.outputs[0]

    @property
    def output_gradient(self) -> Array | None:
        """The array that the gradient of ``output`` is read from; None if ``output`` does not depend on trained parameters."""
        return self.output_gradients[0] if self.output_gradients else None

    # Lives.

    def _values_with_gradient(self, inputs: Sequence[Tensor]) -> set[Tensor]:
        """Storages of the values that depend on parameters or on these inputs."""
        without = {value for value, (_, gradient) in self._outside.items() if gradient is None}
        wanted = {v for v in inputs if v.dtype == FLOAT32 and v not in without}
        for step in self._steps:
            if step.stops_gradient:
                continue
            wanted |= {v.storage for v in step.inputs if is_trained(v.storage.leaf)}
            if any(p.requires_grad for p in step.parameters) or any(v.storage in wanted for v in step.inputs):
                wanted.update(v for v in step.outputs if v.dtype == FLOAT32)
        return wanted

    def _settled_steps(self) -> set[int]:
        """The steps that read nothing but parameters, constants, sizes, and results of such steps."""
        settled: set[int] = set()
        known: set[Tensor] = set()
        for i, step in enumerate(self._steps):
            pure = step.is_pure and not step.parameters and not step.trains
            if pure and all(v.storage in known or is_settled(v.storage.leaf) for v in step.inputs):
                settled.add(i)
                known.update(step.outputs)
        return settled

    def _place(self) -> None:
        """Determine when each piece of memory is in use."""
        self.gradient_blocks.clear()
        self.added_blocks.clear()
        self._place_values()
        if self.training:
            self._place_gradients()
        self.scratch_blocks = self._place_scratch()
        self._kept_blocks = self._place_kept()
        for (index, value), (block, _) in self._repeated.items():
            block.size, block.start, block.end = self._bytes(value), self._last - index, self._last - index

    def _place_values(self) -> None:
        ends: dict[Tensor, int] = dict.fromkeys(self.graph.inputs, 0)
        starts: dict[Tensor, int] = dict.fromkeys(self.graph.inputs, 0)
        for i, step in enumerate(self._steps):
            again = self._last - i if self._goes_back(step) else i
            for value in step.outputs:
                starts[value] = i
                ends[value] = again if step.keeps_output else i
            for value in step.inputs:
                if value.storage.leaf is None:
                    end = again if step.keeps_inputs and (i, value.storage) not in self._repeated else i
                    ends[value.storage] = max(ends[value.storage], end)
        for value in self.graph.outputs:
            if value.storage.leaf is None:
                ends[value.storage] = self._last  # the caller reads it
        for value in self.graph.inputs:
            ends[value] = self._last  # the caller may run the same input again
        for i in self._settled:
            for value in self._steps[i].outputs:
                starts[value], ends[value] = 0, self._last
        for value, start in starts.items():
            if value not in self._outside:
                lives = (0, self._last) if self._wide else (start, ends[value])
                self.value_blocks[value] = Block(self._bytes(value), *lives)

    def _find_repeated(self) -> None:
        """Values of repeatable operations of which one step keeps its input, for a backward pass that reads it anywhere."""
        producers = {value: i for i, step in enumerate(self._steps) for value in step.outputs if step.repeatable}
        keepers: dict[Tensor, list[int]] = {}
        for back in self._backward_steps:
            for value in {v.storage for v in back.operation.inputs if back.operation.keeps_inputs}:
                keepers.setdefault(value, []).append(back.index)
        for value in producers.keys() & keepers.keys() - {v.storage for v in self.graph.outputs}:
            index, *others = keepers[value]
            goes_back = self._goes_back(self._steps[producers[value]])
            if not others and goes_back and self._steps[index].reads_where_told():
                now = self._last - index
                self._repeated[index, value] = Block(self._bytes(value), now, now), producers[value]

    def _goes_back(self, step: Operation) -> bool:
        """True if the backward pass runs this step."""
        return any(value in self._wanted for value in step.outputs)

    def _place_gradients(self) -> None:
        """The gradient of a value is first written by its last reader, and last read by its writer."""
        written = {value: self._last - i for i, step in enumerate(self._steps) for value in step.outputs}
        for value in (v.storage for v in self.graph.outputs):
            if value in self._wanted and value.leaf is None:
                block = Block(self._bytes(value), len(self._steps), written.get(value, self._last))
                self.gradient_blocks[value] = block
        for step in self._backward_steps:
            now = self._last - step.index
            for number, target in enumerate(step.targets):
                if target.wanted and target.adds:
                    self.added_blocks[step.index, number] = Block(self._bytes(target.owner), now, now)
                elif target.wanted and isinstance(target.owner, Tensor) and target.owner not in self._outside:
                    # Gradients of parameters, and of inputs outside the program, have memory of their own.
                    block = Block(self._bytes(target.owner), now, written.get(target.owner, self._last))
                    self.gradient_blocks[target.owner] = block
        read = {value.storage for step in self._steps if self._goes_back(step) for value in step.inputs}
        for value in self.graph.inputs:
            if value in self._wanted & read - self.gradient_blocks.keys() - self._outside.keys():
                # Nothing depends on it: always zeros.
                self.gradient_blocks[value] = Block(self._bytes(value), 0, self._last)
        share(self.graph, self._backward_steps, self._join)

    def _place_scratch(self) -> dict[int, Block]:
        """The scratch memory of operations, by the time of the call that uses it."""
        times = [(i, i, False) for i in range(len(self._steps))]
        times += [(self._last - step.index, step.index, True) for step in self._backward_steps]
        size = self._number.itemsize
        return {
            time: Block(size * self._steps[i].scratch_size(self.sizes, backward), time, time)
            for time, i, backward in times
        }

    def _place_kept(self) -> dict[int, Block]:
        """The memory in which operations keep results for their backward steps, by operation."""
        size = self._number.itemsize
        return {
            i: Block(size * step.kept_size(self.sizes), i, self._last - i if self._goes_back(step) else i)
            for i, step in enumerate(self._steps)
            if self.training or step.trains
        }

    def _kept(self, index: int) -> Array:
        return self._piece(self._kept_blocks[index], self._number) if index in self._kept_blocks else NO_MEMORY

    def _join(self, part: Tensor, whole: Tensor) -> None:
        """Place the gradients of both in the same memory."""
        block, other = self.gradient_blocks[whole], self.gradient_blocks[part]
        block.start, block.end = min(block.start, other.start), max(block.end, other.end)
        self.gradient_blocks[part] = block

    def _concrete(self, value: Tensor) -> tuple[int, ...]:
        """The shape of a value for the sizes of the program."""
        shape = self._concrete_shapes.get(value)
        if shape is None:
            shape = self._concrete_shapes[value] = value.concrete(self.sizes)
        return shape

    def _stored(self, value: Tensor) -> np.dtype[Any]:
        """The type of the memory of a value."""
        return self._number if value.dtype == FLOAT32 else value.dtype

    def _bytes(self, value: Tensor | Parameter) -> int:
        if isinstance(value, Parameter):
            return value.array.nbytes
        return math.prod(self._concrete(value)) * self._stored(value).itemsize

    def _blocks(self) -> list[Block]:
        """All pieces of memory, each once."""
        blocks = [*self.value_blocks.values(), *self.gradient_blocks.values(), *self.added_blocks.values()]
        blocks += [block for block, _ in self._repeated.values()]
        blocks += [block for block in (*self.scratch_blocks.values(), *self._kept_blocks.values()) if block.size]
        return list({id(block): block for block in blocks}.values())

    def _allocate(self, arena: Arena) -> int:
        size = plan(self._blocks())
        self._memory = arena.take(size)
        return size

    def _view(self, block: Block, value: Tensor) -> Array:
        return self._piece(block, self._stored(value)).reshape(self._concrete(value))

    def _piece(self, block: Block, dtype: np.dtype[Any]) -> Array:
        return self._memory[block.offset : block.offset + block.size].view(dtype)

    def _array(self, value: Tensor) -> Array:
        leaf = value.storage.leaf
        if value.storage in self._outside:
            return self._outside[value.storage][0].reshape(self._concrete(value))
        if leaf is None:
            return self._view(self.value_blocks[value.storage], value)
        if isinstance(leaf, Size):
            return self._size(leaf).reshape(self._concrete(value))
        array: Array = leaf.array if isinstance(leaf, Parameter) else leaf
        return array.reshape(self._concrete(value))

    def _size(self, size: Size) -> Array:
        """A size as a number in memory."""
        number = size.expression.value(self.sizes)
        if number not in self._numbers_of_sizes:
            self._numbers_of_sizes[number] = np.full((), number, self._number)
        return self._numbers_of_sizes[number]

    def arrays(self, values: list[Tensor]) -> list[Array]:
        """The arrays of values."""
        return [self._array(value) for value in values]

    def _gradient(self, value: Tensor) -> Array | None:
        leaf = value.storage.leaf
        if is_trained(leaf):
            gradient: Array = leaf.grad
            return gradient.reshape(self._concrete(value))
        if value.storage in self._outside:
            outside = self._outside[value.storage][1] if value.storage in self._wanted else None
            return None if outside is None else outside.reshape(self._concrete(value))
        block = self.gradient_blocks.get(value.storage)
        return None if block is None else self._view(block, value)

    # Backward.

    def _bind_backward(self) -> None:
        self.output_gradients = [self._gradient(value) for value in self.graph.outputs]
        needed = self._values_with_gradient([])
        for step in self._backward_steps:
            self._bind_step(step, needed)
        written = {owner(value) for value in self.graph.outputs}
        written.update(target.owner for step in self._backward_steps for target in step.targets if target.wanted)
        self.trained = [p for p in self.graph.parameters if p in written]
        self.input_gradients = [self._gradient(value) for value in self.graph.inputs]
        for value, gradient in zip(self.graph.inputs, self.input_gradients, strict=True):
            if gradient is not None and value not in written:  # nothing depends on this input
                # At every run: other programs may write to this memory in between, those of other sizes share it.
                self._backward.calls.append(clearing(gradient))

    def _bind_step(self, step: BackwardStep, needed: set[Tensor]) -> None:
        """One backward step. ``needed`` are the storages that gradients of the parameters follow from."""
        operation, count = step.operation, len(step.operation.inputs)
        places = [self._gradient(v) for v in operation.inputs]
        places += [p.grad if p.requires_grad else None for p in operation.parameters]
        sums: list[tuple[Any, Call]] = []
        shared = [number for number, target in enumerate(step.targets) if target.shared]
        for number, (target, place) in enumerate(zip(step.targets, places, strict=True)):
            if target.shared:
                # One of those that are changed is written, for all of them.
                places[number] = place if operation.changes_gradient and number == shared[0] else None
            elif target.adds and place is not None:
                part = self._piece(self.added_blocks[step.index, number], place.dtype).reshape(place.shape)
                sums.append((target.owner, adding(place, place, part, layers=self._sums)))
                places[number] = part
        if all(place is None for place in places):
            return
        dy = [self._gradient(v) if v in self.gradient_blocks else None for v in operation.outputs]
        x, y, repeated = self._values_for(step)
        operation.scratch = self._piece(self.scratch_blocks[self._last - step.index], self._number)
        own = listed(operation.backward_all(x, y, dy, places[:count], places[count:]))
        calls = [*repeated, *own, *(addition for _, addition in sums)]
        self.backward_calls.append((operation, calls))
        self._backward.calls += calls
        if not any(value in needed for value in operation.outputs):
            return
        used = [isinstance(target.owner, Parameter) or target.owner in needed for target in step.targets]
        for number in shared[:1]:
            used[number] = any(used[i] for i in shared)
        fewer = [place if is_used else None for place, is_used in zip(places, used, strict=True)]
        if any(place is not None for place in fewer):
            if any(place is not other for place, other in zip(places, fewer, strict=True)):
                own = listed(operation.backward_all(x, y, dy, fewer[:count], fewer[count:]))
            of_parameters = [addition for key, addition in sums if not isinstance(key, Tensor) or key in needed]
            self._backward_of_parameters.calls += [*repeated, *own, *of_parameters]

    def _values_for(self, step: BackwardStep) -> tuple[list[Array], list[Array], list[Call]]:
        """The inputs and the outputs that a backward step reads, and the calls that compute some of them again."""
        operation, calls = step.operation, list[Call]()
        x, y = self.arrays(operation.inputs), self.arrays(operation.outputs)
        for number, value in enumerate(operation.inputs):
            if (step.index, value.storage) in self._repeated:
                block, producing = self._repeated[step.index, value.storage]
                producer = self._steps[producing]
                x[number], again = self._view(block, value), self._view(block, value.storage)
                calls += listed(producer.repeat(self.arrays(producer.inputs), again))
        return x, y, calls

    def wanted_gradients(self, operation: Operation) -> list[bool]:
        """True for the inputs of an operation that get a gradient in the backward pass."""
        return [self._gradient(value) is not None for value in operation.inputs]

    # Running.

    def fill(self, index: int, samples: Array) -> None:
        """Copy samples into an input. Numbers become float32; lookups, lengths and masks take whole numbers only."""
        target = self.inputs[index]
        if target.dtype.kind == "i" and samples.dtype.kind not in "iub":
            raise ValueError(
                f"input {index} is {samples.dtype}, but the network takes whole numbers from it: rows of a table, lengths or "
                "a mask. Pass integers, e.g. .astype(np.int64), or booleans for a mask."
            )
        if samples.dtype.kind == "b" and self.graph.inputs[index] in self.graph.added_to_scores:
            raise ValueError(
                f"input {index} is boolean, but the network adds it to scores of attention, as numbers. Write "
                "attn_mask=mask.bool() in forward, if true stands for positions that take part; or pass numbers, 0 and -inf."
            )
        if samples.dtype.kind in "iu" and samples.itemsize > 2:
            lost = inexact(samples, target.dtype)
            if lost is not None:
                cure = (
                    "it would be rounded. Pass float32 numbers, or smaller integers; those of inputs that are indices are exact."
                    if target.dtype == np.float32
                    else "pass integers below 2^63."
                )
                raise ValueError(f"input {index} holds {lost}, which {target.dtype} does not: {cure}")
        target[...] = samples

    def fits(self, given: Sequence[Any]) -> bool:
        """True for arrays of the shapes of the inputs and of their kinds of numbers, so that nothing has to be checked."""
        targets = self.inputs
        if len(given) != len(targets):
            return False
        for samples, target in zip(given, targets, strict=True):
            if type(samples) is not np.ndarray or samples.shape != target.shape:
                return False
            if samples.dtype != target.dtype and samples.dtype.kind != target.dtype.kind:
                return False
        return True

    def reads_anywhere(self, given: Sequence[Any]) -> bool:
        """True for one array like the only input, contiguous, which all calls may read where it lies."""
        target = self._only_input
        return (
            target is not None
            and self.fits(given)
            and given[0].dtype == target.dtype
            and not self._shows_inputs
            and not self._outside
            and given[0].flags.c_contiguous
        )

    def _settle(self, weights: int) -> None:
        """Run the settled steps, if a parameter may have changed since."""
        if self._settling.calls and (weights == 0 or weights != self._settled_for):
            self._settling.run(weights)
            self._settled_for = weights

    def forward_on(self, given: Sequence[Array], weights: int = 0) -> None:
        """Compute the outputs from arrays that ``fits`` takes; a single one is read where it lies if possible."""
        self.graph.read_arrays()
        self._settle(weights)
        target = self._only_input
        if target is not None and given[0].dtype == target.dtype and not self._shows_inputs:
            self._forward.run_on(target, given[0], weights)
            return
        for target, samples in zip(self.inputs, given, strict=True):
            target[...] = samples
        self._forward.run(weights)

    def fill_gradients(self, gradients: Sequence[Array | None]) -> None:
        """Copy the gradients of the outputs to where the backward pass reads them; None stands for zeros."""
        begun: set[Tensor] = set()  # several outputs may be the same elements in several shapes
        for value, target, gradient in zip(self.graph.outputs, self.output_gradients, gradients, strict=True):
            if target is None:
                continue
            if value.storage in begun:
                target += 0 if gradient is None else gradient
            else:
                np.copyto(target, 0 if gradient is None else gradient, casting="unsafe")
            begun.add(value.storage)

    def forward(self, weights: int = 0) -> Array:
        """Compute the outputs from ``inputs``; gives the first. For ``weights`` see :meth:`CallList.run`."""
        self.graph.read_arrays()
        self._settle(weights)
        self._forward.run(weights)
        return self.outputs[0]

    def native_calls(self, weights: int) -> Any:
        """A list of native code with all calls of the forward pass, for weights of this version; None if it needs Python."""
        if self.graph.followed or (weights == 0 and self._settling.calls):
            return None
        self._settle(weights)
        return self._forward.in_native_code()

    def seed(self, seed: int, step: int) -> None:
        """Seed the random choices of the next forward pass with these two numbers alone."""
        for index, operation in enumerate(self._random):
            operation.reseed(seed, step, index)

    def first_not_finite(self) -> Operation | None:
        """The first operation that gives NaN or infinity for the present inputs."""
        for operation, calls in self.forward_calls:
            in_turn(calls)
            if not all(np.isfinite(array).all() for array in self.arrays(operation.outputs)):
                return operation
        return None

    def timed(self, cotangents: Sequence[Array | None] | None = None, weights: int = 0) -> list[TimedCall]:
        """Make all calls once, each by itself; in training the backward pass begins with these gradients of the outputs.

        ``weights`` is the version of all parameters that the runs before had, so that these calls prepare no more than theirs.
        """
        rows = self._timed_pass(self.forward_calls, self._forward, weights, backward=False)
        if self.training:
            given = [np.ones_like(y) for y in self.outputs] if cotangents is None else cotangents
            self.fill_gradients(given)
            rows += self._timed_pass(self.backward_calls, self._backward, weights, backward=True)
        return rows

    def _timed_pass(
        self, passes: Sequence[tuple[Operation, Sequence[Call]]], calls: CallList, weights: int, *, backward: bool
    ) -> list[TimedCall]:
        kinds, settling = iter(calls.kinds()), set(map(id, self._settling.calls))
        rows = []
        for operation, own in passes:
            for call in own:
                began = perf_counter()
                make_on_weights(weights, call)
                kind = "settled" if id(call) in settling else next(kinds)
                rows.append(TimedCall(operation, call, kind, backward, perf_counter() - began))
        return rows

    def describe(self) -> Table:
        """The calls of the program in their order: which operation, what it calls, whether Python is needed, the time.

        It runs both passes twice, and once more call by call, on the numbers that are there; whole ones are 1, or 0 where there
        is no entry 1.
        """
        weights = 0 if self.training else engines.new_weights_version()  # steps of training change them
        whole = [array for array in self.inputs if array.dtype.kind in "iub"]
        for number in (1, 0):
            for array in whole:
                array.fill(number)
            try:
                self.forward(weights)
                break
            except (ValueError, IndexError):
                if not whole or number == 0:
                    raise
        for _ in range(2):
            self.forward(weights)
            if self.training:
                self.fill_gradients([np.ones_like(y) for y in self.outputs])
                self.backward()
        rows = self.timed(weights=weights)
        cells = [
            ("backward" if row.backward else "forward", type(row.operation).__name__, name_of(row.call), row.kind,
             f"{1e3 * row.seconds:.3f}") for row in rows
        ]  # fmt: skip
        python = sum(row.kind == "Python" for row in rows)
        footer = f"{len(rows)} calls, {python} of them by Python, {self.arena_bytes / 1e6:.2f} MB for values"
        return Table(("pass", "operation", "call", "kind", "ms"), cells, footer=footer, words=4)

    def backward(self, *, input_gradients: bool = True) -> None:
        """Compute all gradients from ``output_gradients``, or only those needed for the parameters."""
        (self._backward if input_gradients else self._backward_of_parameters).run()

    @property
    def calls_forward(self) -> list[Callable[[], object]]:
        """The forward pass."""
        return self._forward.calls

    @property
    def calls_of_parameters(self) -> list[Callable[[], object]]:
        """The backward pass of the parameters."""
        return self._backward_of_parameters.calls

    @property
    def lasting(self) -> list[object]:
        """Arrays that live as long as the program."""
        return self._lasting


def is_settled(leaf: object) -> bool:
    """True for a parameter, a size, and an array that nothing can write to."""
    if isinstance(leaf, np.ndarray):
        base = leaf.base
        return not leaf.flags.writeable and not (isinstance(base, np.ndarray) and base.flags.writeable)
    return isinstance(leaf, (Parameter, Size))
