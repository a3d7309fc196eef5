"""What a network computes, without memory and without a batch size.

Calling modules on a :class:`Value` records :class:`Operation` objects in a :class:`Graph`, in the order in which they
run. A program (``_program.py``) then binds the free sizes, gives every value memory and runs the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import engines
from ..graph.sizes import AnySize, FreeSizes, Size
from ._calls import Calls
from ._value import FLOAT32, INT64, Array, Value
from .parameter import Parameter

if TYPE_CHECKING:
    from typing_extensions import Self

    from .module import Module

NO_MEMORY: Array = np.empty(0, np.float32)
_MADE = 8  # layers that an operation keeps, each for other sizes


class FunctionCall(NamedTuple):
    """A call of a function on values; ``number`` tells it from all others."""

    name: str
    number: int


class Operation:
    """One step of a network: ``outputs`` from ``inputs`` and parameters, and the gradients of both.

    ``keeps_inputs`` and ``keeps_output`` say what the backward pass reads of the forward one; all else may be
    overwritten as soon as the forward pass is through with it.
    """

    keeps_inputs = True
    keeps_output = False
    random = False  # draws random numbers in training
    stops_gradient = False  # its inputs get no gradient from it
    only_trains = False  # it is the identity except in training
    takes_integers = False  # its inputs may be whole numbers wherever numbers are meant
    is_mask = False  # its output is 1 where something holds, else 0
    moves = False  # its outputs are elements of its inputs, whole numbers or others
    repeatable = False  # its output may be computed a second time rather than kept: cheap, from what is kept anyway

    made_with: tuple[tuple[Any, ...], dict[str, Any]]  # the arguments of its class, for files

    def __new__(cls, *given: Any, **named: Any) -> Self:
        operation = super().__new__(cls)
        operation.made_with = given, named
        return operation

    def __init__(
        self, inputs: Sequence[Value], outputs: Value | Sequence[Value], parameters: Sequence[Parameter] = ()
    ) -> None:
        self.inputs = list(inputs)
        self.outputs = [outputs] if isinstance(outputs, Value) else list(outputs)
        self.parameters = list(parameters)
        self.modules: list[Module] = []  # whose work this is; several once fused
        # Of the program, and scratch of the direction, that are being made.
        self.scratch = self.kept = NO_MEMORY
        self.bound_sizes: Mapping[str, int] = {}
        self.functions: list[FunctionCall | None] = []  # that these modules made for it
        self.trains = False  # whether its module is in training mode while the network is not

    @property
    def output(self) -> Value:
        """The first output, which for most operations is the only one."""
        return self.outputs[0]

    def prepare(self) -> None:
        """Make what does not depend on free sizes, once all fusing is done."""

    def made(self, key: Any, make: Callable[[], Any]) -> Any:
        """The result of ``make``, such as a layer for certain sizes; the latest ones are kept."""
        kept: dict[Any, Any] = self.__dict__.setdefault("_kept_layers", {})
        if key not in kept:
            while len(kept) >= _MADE:
                del kept[next(iter(kept))]
            kept[key] = make()
        return kept[key]

    def all_made(self) -> Iterable[Any]:
        """All that ``made`` keeps."""
        return tuple(self.__dict__.get("_kept_layers", {}).values())

    def reseed(self, seed: int, step: int, index: int) -> None:
        """Make the next forward pass draw what follows from these numbers, if the operation draws at all."""

    def passed_on(self) -> Sequence[int]:
        """Numbers of the inputs whose gradient is that of the output as it is, element by element."""
        return ()

    def reads_where_told(self) -> bool:
        """Whether ``backward`` reads inputs from the arrays it is given, wherever those of ``forward`` were."""
        return False

    def fuse(self, following: Operation) -> bool:
        """Take over the work of the operation that alone reads this one's output; False if that cannot be."""
        return False

    def scratch_size(self, sizes: Mapping[str, int], backward: bool) -> int:
        """Numbers of ``scratch``, memory that holds nothing from one call to the next, for each of the two directions."""
        return 0

    def kept_size(self, sizes: Mapping[str, int]) -> int:
        """Numbers of ``kept``, memory that holds in training what a forward pass leaves for the backward pass."""
        return 0

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        """What to call for a forward pass on these arrays, which stay where they are."""
        raise NotImplementedError

    def repeat(self, x: list[Array], y: Array) -> Calls:
        """What to call to compute the output of the latest forward pass again, into another array, if it is repeatable."""
        return self.forward(x, y, True)

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        """What to call for a backward pass: writes the gradients that are not ``None``.

        ``dp`` holds one array per parameter. Arrays of forward values that are not kept must not be read.
        """
        raise NotImplementedError

    def forward_all(self, x: list[Array], y: list[Array], training: bool) -> Calls:
        """:meth:`forward` with all outputs, for operations that have several."""
        return self.forward(x, y[0], training)

    def backward_all(
        self, x: list[Array], y: list[Array], dy: list[Array | None], dx: list[Array | None], dp: list[Array | None]
    ) -> Calls:
        """:meth:`backward` with all outputs; the gradient of one that nothing depends on is None, but never all."""
        assert dy[0] is not None
        return self.backward(x, y[0], dy[0], dx, dp)


class Graph:
    """Operations in the order in which they run."""

    def __init__(
        self,
        generator: np.random.RandomState,
        parts: Iterable[Module] = (),
        *,
        sizes: FreeSizes | None = None,
        frozen: bool = False,
        training: bool = False,
        modes: frozenset[Module] = frozenset(),
    ) -> None:
        self.sizes = FreeSizes({}) if sizes is None else sizes
        self.frozen = frozen  # for inference only, on parameters and buffers that nobody will change
        self.training = training  # the mode of the passes that it is for, unless it serves both
        self.modes = modes  # the modules that are in the other mode
        self.asked_for_mode = (
            False  # whether ``forward`` has read a mode, so that it may do something else in the other one
        )
        self.accuracy = engines.accuracy()  # of the layers that programs make
        self.generator = generator  # for the parameters that modules make while the graph is recorded
        self.parts = set(parts)  # the modules of the network, whose parameters are trained and saved
        self.parameters: list[Parameter] = []  # those that the operations use, each once
        self.inputs: list[Value] = []
        self.operations: list[Operation] = []
        self.outputs: list[Value] = []
        self.modules: list[Module] = []  # those being called, outermost first
        self.function: FunctionCall | None = None  # the one that the latest module is in, without those that it calls
        self._calls = count()
        # What is recorded in place of a batch normalization, if anything.
        self.batch_normalization: Callable[..., Operation] | None = None
        self._leaves: dict[int, tuple[object, Value]] = {}  # parameters and constants as values, by identity
        self._held: set[int] | None = None  # arrays that modules hold, and what was made of them, by identity
        self._followed: list[tuple[Array, Array, Callable[[Array], Array]]] = []

    @property
    def output(self) -> Value:
        """The first output, which for most networks is the only one."""
        return self.outputs[0]

    def sizes_for(self, samples: int) -> dict[str, int]:
        """The free sizes with so many samples: those of the first axes of inputs; others as they were recorded."""
        names = {name for v in self.inputs if v.shape and isinstance(v.shape[0], Size) for name in v.shape[0].names()}
        return {name: samples if name in names else number for name, number in self.sizes.numbers.items()}

    def input(self, shape: Sequence[AnySize], dtype: np.dtype[Any] = FLOAT32) -> Value:
        value = Value(self, shape, dtype)
        self.inputs.append(value)
        return value

    def is_fresh_input(self, value: Value) -> bool:
        """Whether it is an input that no operation reads yet."""
        given = any(value is one for one in self.inputs)
        return given and not any(v.storage is value for op in self.operations for v in op.inputs)

    def make_whole(self, value: Value) -> bool:
        """Let inputs, and what was moved out of them, be whole numbers; False if this value is none of these.

        Operations that have computed with them get them as float32, as before.
        """
        found: dict[Value, None] = {}
        left = [value.storage]
        while left:
            storage = left.pop()
            if storage in found or storage.dtype.kind == "i":
                continue
            producer = storage.producer
            if not (producer.moves if producer is not None else any(storage is v for v in self.inputs)):
                return False
            found[storage] = None
            if producer is not None:
                left += [*(v.storage for v in producer.inputs), *producer.outputs]
        for operation in self.operations:
            read = [v.storage for v in operation.inputs]
            if operation.moves and read and all(v in found or v.dtype.kind == "i" for v in read):
                found |= dict.fromkeys(operation.outputs)
        for operation in list(self.operations):
            if not (operation.takes_integers or any(v in found for v in operation.outputs)):
                self._convert(operation, found)
        for storage in found:
            storage._dtype = INT64
        return True

    def _convert(self, operation: Operation, whole: Mapping[Value, None]) -> None:
        """Put a conversion to float32 in front of an operation for each input that is to be whole numbers."""
        from .operations.integers import Convert

        for number, value in enumerate(operation.inputs):
            if value.storage in whole:
                made = Convert(value, whole=False)
                made.output.producer = made
                made.modules, made.functions, made.trains = operation.modules, operation.functions, operation.trains
                self.operations.insert(next(i for i, op in enumerate(self.operations) if op is operation), made)
                operation.inputs[number] = made.output
                given, named = operation.made_with
                operation.made_with = (
                    tuple(_exchanged(one, value, made.output) for one in given),
                    {name: _exchanged(one, value, made.output) for name, one in named.items()},
                )

    def parameter(self, parameter: Parameter) -> Value:
        """A parameter as a value."""
        if id(parameter) not in self._leaves:
            if not any(parameter is own for part in self.parts for own in part._parameters.values()):
                from ._strays import describe_parameter

                raise TypeError(describe_parameter(parameter, self.modules))
            parameter.make(parameter.shape, self.generator)
            parameter.used = True
            value = Value(self, parameter.shape, leaf=parameter)
            self._leaves[id(parameter)] = parameter, value
        return self._leaves[id(parameter)][1]

    def constant(self, array: Any) -> Value:
        """An array as a value; contiguous float32 arrays, such as buffers, are read where they lie."""
        given = np.asarray(array)
        if id(given) not in self._leaves:
            numbers = given if given.dtype in (FLOAT32, INT64) else self.following(given, _plain)
            self._leaves[id(given)] = given, Value(self, numbers.shape, numbers.dtype, leaf=numbers)
        return self._leaves[id(given)][1]

    def size(self, size: Size) -> Value:
        """A size as a number to compute with, which is known when sizes are bound."""
        return Value(self, (), leaf=size)

    def following(self, source: Array, convert: Callable[[Array], Array]) -> Array:
        """An array in another form; if a module holds it, every pass converts what it holds then."""
        if self._held is None:
            self._held = {
                id(array) for part in self.parts for array in vars(part).values() if isinstance(array, np.ndarray)
            }
        made = convert(source)
        if id(source) in self._held or (source.base is not None and id(source.base) in self._held):
            self._held.add(id(made))
            self._followed.append((made, source, convert))
        return made

    def read_arrays(self) -> None:
        """Convert the arrays that modules hold once more; their numbers may have changed."""
        for made, source, convert in self._followed:
            np.copyto(made, convert(source))

    def value(self, given: Any) -> Any:
        """What a module is called with as a value, if it is a tensor."""
        if isinstance(given, np.ndarray):
            return self.constant(given)
        return self.parameter(given) if isinstance(given, Parameter) else given

    @contextmanager
    def calling(self, *, module: Module | None = None, function: str = "") -> Iterator[None]:
        """While this lasts, operations are the work of a module, or of a function that the latest one calls."""
        before = self.function
        if module is not None:
            self.modules.append(module)
            self.function = None
        elif before is None:
            self.function = FunctionCall(function, next(self._calls))
        try:
            yield
        finally:
            self.function = before
            if module is not None:
                self.modules.pop()

    def mode_of(self, module: Module) -> bool:
        """The mode of a module, for ``forward`` to know: true in training."""
        self.asked_for_mode = True
        return self.training != (self._part(module) in self.modes)

    @property
    def own_mode(self) -> bool | None:
        """The mode of the module being called, if that is not the mode of the network; else None."""
        return not self.training if self.modes and self._part() in self.modes else None

    def _part(self, module: Module | None = None) -> Module | None:
        """The module, or the one being called, if it is a part of the network; else the innermost part that calls it."""
        called = [*self.modules, *([] if module is None else [module])]
        return next((one for one in reversed(called) if one in self.parts), None)

    def append(self, operation: Operation) -> Value:
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

    def finish(self, outputs: Sequence[Value]) -> None:
        """Close the graph: fuse what can be fused, and make the layers."""
        self.outputs = list(outputs)
        self._drop_unused()
        self._fuse()
        for operation in self.operations:
            operation.prepare()
        used = [p for operation in self.operations for p in operation.parameters]
        read = [v.storage.leaf for operation in self.operations for v in operation.inputs]
        read += [v.storage.leaf for v in self.outputs]
        used += [leaf for leaf in read if isinstance(leaf, Parameter)]
        self.parameters = list(dict.fromkeys(used))

    def require_parts(self, module: Module) -> None:
        """Refuse to record a module with parameters that the network does not know of."""
        strays = [part for part in module.modules() if part not in self.parts and part._has_state()]
        if strays:
            from ._strays import describe

            raise TypeError(describe(strays[0], module, self.modules))

    def _drop_unused(self) -> None:
        used = {value.storage for value in self.outputs}
        kept = []
        for operation in reversed(self.operations):
            if any(output in used for output in operation.outputs):
                kept.append(operation)
                used.update(value.storage for value in operation.inputs)
        self.operations = kept[::-1]

    def _fuse(self) -> None:
        """Join an operation and the only reader of its output where one layer does the work of both."""
        done: list[Operation] = []
        producers: dict[Value, Operation] = {}
        readers: dict[Value, int] = {}
        for value in self.outputs:
            readers[value.storage] = readers.get(value.storage, 0) + 1
        for operation in self.operations:
            for value in operation.inputs:
                readers[value.storage] = readers.get(value.storage, 0) + 1
        for operation in self.operations:
            producer = producers.get(operation.inputs[0]) if len(operation.inputs) == 1 else None
            if (
                producer is not None
                and len(producer.outputs) == len(operation.outputs) == 1
                and readers[producer.output] == 1
                and producer.fuse(operation)
            ):
                producer.outputs = operation.outputs
                producer.modules += operation.modules
                producer.functions += operation.functions
                producers[operation.output] = producer
                continue
            producers |= dict.fromkeys(operation.outputs, operation)
            done.append(operation)
        self.operations = done


def _exchanged(given: Any, old: Value, new: Value) -> Any:
    """An argument with one value in place of another."""
    if isinstance(given, (list, tuple)) and not hasattr(given, "_fields"):
        return type(given)(_exchanged(one, old, new) for one in given)
    return new if given is old else given


def _plain(array: Array) -> Array:
    """Numbers as networks compute with them: float32, or int64 for whole numbers."""
    if array.dtype.kind not in "fiub":
        raise TypeError(f"forward: an array of {array.dtype} stands in an expression. Use an array of numbers.")
    return np.array(array, FLOAT32 if array.dtype.kind == "f" else INT64, order="C")


_recording: ContextVar[Graph | None] = ContextVar("recording", default=None)


@contextmanager
def recording(graph: Graph) -> Iterator[None]:
    """While this lasts, expressions of parameters alone belong to the graph."""
    token = _recording.set(graph)
    try:
        yield
    finally:
        _recording.reset(token)


def current_graph() -> Graph | None:
    """The graph that is being recorded, if any."""
    return _recording.get()
