"""Operations on whole tensors, without memory and without numbers for the sizes that are free.

Functions of a :class:`Tensor` record :class:`Operation` objects in its :class:`Graph`, in the order in which they run. A
program (``program.py``) then binds the free sizes, gives every value memory and runs the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import count
from typing import Any, ClassVar, Self

import numpy as np

from .. import engines
from .operation import CalledFunction, Convert, Operation
from .parameter import Parameter
from .passes import drop_unused, fuse, share_equal, take_apart
from .sizes import AnySize, FreeSizes, Size
from .tensor import FLOAT32, INT64, Array, Tensor, inexact, recorded_graph

_EXAMPLES = 32  # of numbers that runs compute, that a recording begins with


class TooManyExamples(RuntimeError):
    """Recording ends early: it would rely on too many examples of numbers that are not known yet."""


class InBranch(Exception):
    """Recording of a branch fails: it would compute numbers that sizes depend on, which only the graph around it can."""


class Graph:
    """Operations in the order in which they run.

    Subclasses override what it knows of a network: the parameters that belong to it, the arrays that its modules hold, and
    their modes.
    """

    passes: ClassVar[list[Callable[[Sequence[Operation], Sequence[Tensor]], list[Operation]]]] = [
        drop_unused, take_apart, share_equal, fuse,
    ]  # fmt: skip
    """The passes over a recorded graph, in the order in which they run."""

    def __init__(
        self,
        generator: np.random.RandomState,
        *,
        sizes: FreeSizes | None = None,
        frozen: bool = False,
        training: bool = False,
    ) -> None:
        self.sizes = FreeSizes({}) if sizes is None else sizes
        self.frozen = frozen  # for inference only, on parameters and buffers that do not change
        self.training = training  # the mode of the passes that it is for, unless it serves both
        self.asked_for_mode = (
            False  # True once what is recorded has read a mode: it may do something else in the other one
        )
        # Numbers that runs compute, of sizes and conditions, for this recording: those that are known, in their order.
        self.known_numbers: Sequence[int] = ()
        self._latest_numbers: dict[str, int] = {}  # of these, by place
        self.is_branch = False  # of an operation of another graph
        # For a file: it holds all ways that runs may take. The graph of a program has the one that its numbers tell.
        self.every_way = False
        self.unfinished: Exception | None = None  # why ``forward`` ends early for numbers that are only examples
        self.arithmetic = engines.arithmetic()  # that of the layers that programs make
        self.generator = generator  # for the parameters that are made while the graph is recorded
        self.parameters: list[Parameter] = []  # parameters that the operations use, each once
        self.inputs: list[Tensor] = []
        self.added_to_scores: set[Tensor] = set()  # inputs that attention reads as numbers, which booleans are not
        self.operations: list[Operation] = []
        self.outputs: list[Tensor] = []
        self.modules: list[Any] = []  # modules being called, outermost first
        self.function: CalledFunction | None = None  # the one that the latest module is in, without those that it calls
        self._calls = count()
        # The maker of a replacement for batch normalizations, if any.
        self.batch_normalization: Callable[..., Operation] | None = None
        self._leaves: dict[
            object, tuple[object, Tensor]
        ] = {}  # parameters and constants as values, by identity or place
        self._held: set[int] | None = None  # arrays that modules hold, and what was made of them, by identity
        self.followed: list[tuple[Array, Array, Callable[[Array], Array]]] = []

    # Networks.

    @property
    def own_mode(self) -> bool | None:
        """The mode of the module being called, if that is not the mode of the graph; else None."""
        return None

    def mode_of(self, module: object) -> bool:
        """The mode of a module, for ``forward`` to know: true in training."""
        return self.training

    def require_parts(self, module: object) -> None:
        """Refuse a module with parameters that do not belong to the network."""

    def require_own(self, parameter: Parameter) -> None:
        """Refuse a parameter that does not belong to the network."""

    def held_arrays(self) -> Iterable[Array]:
        """The arrays that modules hold, whose numbers may change from pass to pass."""
        return ()

    @property
    def output(self) -> Tensor:
        """The first output, which for most networks is the only one."""
        return self.outputs[0]

    def sizes_for(self, samples: int) -> dict[str, int]:
        """The free sizes for a number of samples, the first axis of inputs; other sizes are as they were recorded."""
        names = {name for v in self.inputs if v.shape and isinstance(v.shape[0], Size) for name in v.shape[0].names()}
        return {name: samples if name in names else number for name, number in self.sizes.numbers.items()}

    def input(self, shape: Sequence[AnySize], dtype: np.dtype[Any] = FLOAT32) -> Tensor:
        value = Tensor(self, shape, dtype)
        self.inputs.append(value)
        return value

    # Numbers that runs compute.

    def computed_size(self, example: int) -> AnySize:
        """A whole number that runs compute: the known one, or an example if it is not known yet.

        An example is the latest number of the same place, such as the condition of a loop that goes on. There are at most as
        many examples as known numbers, so that recordings of longer and longer loops together cost as much as the last one.
        """
        if self.is_branch and not self.every_way:
            raise InBranch
        number, known = len(self.sizes.computed), self.known_numbers
        if number - len(known) >= max(_EXAMPLES, len(known)) and not self.every_way:
            raise TooManyExamples(f"{number} numbers that sizes or paths depend on are not known yet")
        place = str(self.sizes.place)
        size = known[number] if number < len(known) else self._latest_numbers.get(place, example)
        self._latest_numbers[place] = size
        return self.sizes.computed_size(size)

    @property
    def has_examples(self) -> bool:
        """True if it relies on examples of numbers that runs compute."""
        return self.has_more(self.known_numbers)

    def has_more(self, numbers: Sequence[int]) -> bool:
        """True if runs compute more numbers than these."""
        return len(self.sizes.computed) > len(numbers)

    def part(self, inputs: Sequence[Tensor], operations: Sequence[Operation], outputs: Sequence[Tensor]) -> Self:
        """A graph of some of its operations, which are ready to run."""
        made = copy(self)
        made.inputs, made.operations, made.outputs = list(inputs), list(operations), list(outputs)
        made.parameters = made._used_parameters()
        return made

    def branch(self, sizes: FreeSizes | None = None) -> Graph:
        """A graph without operations for an operation of this one, with the same sizes unless others are given."""
        made = self.part([], [], [])
        made.sizes = self.sizes if sizes is None else sizes
        made.modules, made.is_branch, made._leaves = list(self.modules), True, {}
        return made

    # Recording.

    def is_fresh_input(self, value: Tensor) -> bool:
        """True for an input that no operation reads yet."""
        given = any(value is one for one in self.inputs)
        return given and not any(v.storage is value for op in self.operations for v in op.inputs)

    def adds_to_scores(self, mask: Tensor) -> None:
        """Note that attention adds a value to its scores: an input that it was moved out of takes no booleans."""
        storage = mask.storage
        while storage.producer is not None and storage.producer.moves and not mask.is_number:
            mask = storage.producer.inputs[0]
            storage = mask.storage
        if not mask.is_number and any(storage is one for one in self.inputs):
            self.added_to_scores.add(storage)

    def make_whole(self, value: Tensor) -> bool:
        """Turn a value and the inputs that it was moved out of into whole numbers; False if it was computed otherwise.

        Operations that have computed with them get them as float32, as before.
        """
        whole: dict[Tensor, None] = {}
        left = [value.storage]
        while left:
            storage = left.pop()
            if storage in whole or storage.dtype.kind == "i":
                continue
            producer = storage.producer
            if not (producer.moves if producer is not None else any(storage is v for v in self.inputs)):
                return False
            whole[storage] = None
            if producer is not None:
                left += [*(v.storage for v in producer.inputs), *producer.outputs]
        for operation in self.operations:
            read = [v.storage for v in operation.inputs]
            if operation.moves and read and all(v in whole or v.dtype.kind == "i" for v in read):
                # Not those that are whole already: operations that read them as such must not get them as float32.
                whole |= dict.fromkeys(v for v in operation.outputs if v.dtype.kind != "i")
        self.operations = take_apart(self.operations, ())  # which are then converted one by one
        for operation in list(self.operations):
            if not (operation.takes_integers or any(v in whole for v in operation.outputs)):
                self._convert(operation, whole)
        for storage in whole:
            storage._dtype = INT64
        return True

    def _convert(self, operation: Operation, whole: Mapping[Tensor, None]) -> None:
        """Put a conversion to float32 in front of an operation for each input that is to be whole numbers."""
        for number, value in enumerate(operation.inputs):
            if value.storage in whole:
                made = Convert(value, whole=False, who=operation.title)
                made.output.producer = made
                made.modules, made.functions, made.trains = operation.modules, operation.functions, operation.trains
                self.operations.insert(next(i for i, op in enumerate(self.operations) if op is operation), made)
                operation.inputs[number] = made.output
                given, named = operation.made_with
                operation.made_with = (
                    tuple(_exchanged(one, value, made.output) for one in given),
                    {name: _exchanged(one, value, made.output) for name, one in named.items()},
                )

    def parameter(self, parameter: Parameter, *, own: bool = True) -> Tensor:
        """A parameter as a value; it must belong to the network, unless it stands for a constant (``own=False``)."""
        if id(parameter) not in self._leaves:
            if own:
                self.use(parameter)
            value = Tensor(self, parameter.shape, leaf=parameter)
            self._leaves[id(parameter)] = parameter, value
        return self._leaves[id(parameter)][1]

    def use(self, parameter: Parameter) -> None:
        """Take a parameter, which must belong to the network, for an operation."""
        self.require_own(parameter)
        if not parameter.used:
            parameter.make(parameter.shape, self.generator)
            parameter.used = True

    def constant(self, array: Any) -> Tensor:
        """An array as a value; contiguous float32 arrays, such as buffers, are read where they lie.

        Views of the same memory in the same order are one value.
        """
        given = np.asarray(array)
        contiguous = given.flags.c_contiguous
        key = id(given) if contiguous else (given.ctypes.data, given.shape, given.strides, given.dtype)
        if key not in self._leaves:
            numbers = given if contiguous and given.dtype in (FLOAT32, INT64) else self.following(given, _plain)
            self._leaves[key] = given, Tensor(self, numbers.shape, numbers.dtype, leaf=numbers)
        return self._leaves[key][1]

    def own_constant(self, array: Array) -> Tensor:
        """An array that nothing else has, and that never changes, as a value."""
        array.flags.writeable = False
        return self.constant(array)

    def size(self, size: Size) -> Tensor:
        """A size as a number to compute with, which is known when sizes are bound."""
        return Tensor(self, (), leaf=size)

    def following(self, source: Array, convert: Callable[[Array], Array]) -> Array:
        """An array in another form; if a module holds it, every pass converts what it holds then."""
        if self._held is None:
            self._held = set(map(id, self.held_arrays()))
        made = np.asarray(convert(source))  # NumPy makes a plain number of an array without axes
        if id(source) in self._held or (source.base is not None and id(source.base) in self._held):
            self._held.add(id(made))
            self.followed.append((made, source, convert))
        elif made is not source and made.base is None:
            made.flags.writeable = False
        return made

    def read_arrays(self) -> None:
        """Convert the arrays that modules hold once more; their numbers may have changed."""
        for made, source, convert in self.followed:
            np.copyto(made, convert(source))

    def value(self, given: Any) -> Any:
        """Convert an argument of a module to a value if it is an array or a parameter."""
        if isinstance(given, np.ndarray):
            return self.constant(given)
        return self.parameter(given) if isinstance(given, Parameter) else given

    def calling(self, *, module: object = None, function: str = "") -> _Calling:
        """In the block, attribute recorded operations to a module, or to a function that the latest module calls."""
        return _Calling(self, module, function)

    def append(self, operation: Operation) -> Tensor:
        """Record an operation; gives its first output."""
        mode = self.own_mode
        if operation.only_trains and (mode is False or (self.frozen and mode is None)):
            return operation.inputs[0]
        operation.trains = mode is True
        operation.modules = self.modules[-1:]
        operation.functions = [self.function] * len(operation.modules)
        for value in operation.outputs:
            value.producer = operation
        self.operations.append(operation)
        return operation.outputs[0]

    def close(self, outputs: Sequence[Tensor]) -> None:
        """End the recording."""
        self.outputs = list(outputs)
        self.parameters = self._used_parameters()

    def finish(self, outputs: Sequence[Tensor]) -> None:
        """Close the graph, run the passes, and make the layers."""
        self.close(outputs)
        for run in self.passes:
            self.operations = run(self.operations, self.outputs)
        for operation in self.operations:
            operation.prepare()
        self.parameters = self._used_parameters()

    def _used_parameters(self) -> list[Parameter]:
        used = [p for operation in self.operations for p in operation.parameters]
        read = [v.storage.leaf for operation in self.operations for v in operation.inputs]
        read += [v.storage.leaf for v in self.outputs]
        used += [leaf for leaf in read if isinstance(leaf, Parameter)]
        return list(dict.fromkeys(used))


class _Calling:
    """The block of :meth:`Graph.calling`; a class, because the generator of ``contextmanager`` takes three times as long."""

    __slots__ = ("before", "function", "graph", "module")

    def __init__(self, graph: Graph, module: object, function: str) -> None:
        self.graph, self.module, self.function, self.before = graph, module, function, graph.function

    def __enter__(self) -> None:
        graph = self.graph
        if self.module is not None:
            graph.modules.append(self.module)
            graph.function = None
        elif self.before is None:
            graph.function = CalledFunction(self.function, next(graph._calls))

    def __exit__(self, *_: object) -> None:
        self.graph.function = self.before
        if self.module is not None:
            self.graph.modules.pop()


def _exchanged(given: Any, old: Tensor, new: Tensor) -> Any:
    """An argument with one value in place of another."""
    if isinstance(given, (list, tuple)) and not hasattr(given, "_fields"):
        return type(given)(_exchanged(one, old, new) for one in given)
    return new if given is old else given


def _plain(array: Array) -> Array:
    """Numbers as networks compute with them: float32, or int64 for whole numbers."""
    if array.dtype.kind not in "fiub":
        raise TypeError(f"forward: an array of {array.dtype} stands in an expression. Use an array of numbers.")
    if array.dtype == np.uint64 and (large := inexact(array, INT64)) is not None:
        raise ValueError(f"forward: an array holds {large}, which int64 does not. Use integers below 2^63.")
    return np.array(array, FLOAT32 if array.dtype.kind == "f" else INT64, order="C")


@contextmanager
def recording(graph: Graph) -> Iterator[None]:
    """Record in the graph what functions compute in the block, expressions of parameters alone included."""
    token = recorded_graph.set(graph)
    try:
        yield
    finally:
        recorded_graph.reset(token)


@contextmanager
def not_recording() -> Iterator[None]:
    """Compute what functions of arrays in the block give at once, while a graph is recorded: constants that are folded."""
    token = recorded_graph.set(None)
    try:
        yield
    finally:
        recorded_graph.reset(token)


def current_graph() -> Graph | None:
    """The graph that is being recorded, if any."""
    return recorded_graph.get()
