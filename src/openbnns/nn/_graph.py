"""What a network computes, without memory and without a batch size.

Calling modules on a :class:`Value` records :class:`Operation` objects in a :class:`Graph`, in the order in which they
run. A program (``_program.py``) then gives every value memory for one batch size and runs the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .module import Module
    from .parameter import Parameter

Array = NDArray[Any]
Call = Callable[[], object]
FLOAT32: np.dtype[Any] = np.dtype(np.float32)


class Value:
    """A tensor of a network while it is put together: the shape of one sample, without the batch axis.

    Modules take values and give values; ``a + b`` adds two of the same shape.

    >>> from openbnns import nn
    >>> class Show(nn.Module):
    ...     def forward(self, x):
    ...         print(type(x).__name__, x.shape)
    ...         return x + x
    >>> net = Show().build((3, 8, 8))
    Value (3, 8, 8)
    """

    def __init__(
        self, graph: Graph, shape: Sequence[int], dtype: np.dtype[Any] = FLOAT32, source: Value | None = None
    ) -> None:
        self.graph = graph
        self.shape = tuple(int(n) for n in shape)
        self.dtype = dtype
        self.source = source  # the value whose memory this one shows in another shape

    @property
    def storage(self) -> Value:
        """The value that owns the memory."""
        return self if self.source is None else self.source.storage

    @property
    def count(self) -> int:
        """Elements of one sample."""
        return int(np.prod(self.shape, dtype=np.int64))

    def reshape(self, *shape: int) -> Value:
        """The same elements in another shape; one size may be -1. The batch axis stays as it is."""
        sizes = list(shape)
        if sizes.count(-1) == 1:
            known = int(np.prod([n for n in sizes if n != -1], dtype=np.int64))
            if known and self.count % known == 0:
                sizes[sizes.index(-1)] = self.count // known
        if min(sizes, default=1) < 0 or int(np.prod(sizes, dtype=np.int64)) != self.count:
            raise ValueError(
                f"reshape: a sample of shape {self.shape} has {self.count} elements, which do not fill {tuple(shape)}. "
                "Sizes must multiply to that number, and at most one may be -1."
            )
        return Value(self.graph, sizes, self.dtype, source=self)

    def __add__(self, other: Value) -> Value:
        from .operations import Add

        if not isinstance(other, Value):
            return NotImplemented
        return self.graph.append(Add(self.graph, self, other))

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            "forward() joins modules once, before there are numbers, so NumPy and operators other than + do not act on a Value. "
            "Use modules (nn.Tanh(), nn.Linear(10), ...), x + y and x.reshape(...)."
        )

    __array_ufunc__ = __array_function__ = __array__ = _refuse
    __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = __pow__ = __neg__ = _refuse
    __getitem__ = __bool__ = __float__ = __lt__ = __gt__ = __le__ = __ge__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"A Value has no {name!r}, because forward() joins modules once, before there are numbers. Use a module for it "
            f"(nn.ReLU(), nn.Flatten(), ...)."
        )

    def __repr__(self) -> str:
        return f"Value(shape={self.shape})"


class Operation:
    """One step of a network: ``output`` from ``inputs`` and parameters, and the gradients of both.

    ``keeps_inputs`` and ``keeps_output`` say what the backward pass reads of the forward one; all else may be
    overwritten as soon as the forward pass is through with it.
    """

    keeps_inputs = True
    keeps_output = False
    random = False  # draws random numbers in training

    def __init__(self, inputs: Sequence[Value], output: Value, parameters: Sequence[Parameter] = ()) -> None:
        self.inputs = list(inputs)
        self.output = output
        self.parameters = list(parameters)
        self.modules: list[Module] = []  # whose work this is; several once fused

    def prepare(self) -> None:
        """Make what does not depend on the batch size, once all fusing is done."""

    def reseed(self, seed: int, step: int, index: int) -> None:
        """Make the next forward pass draw what follows from these numbers, if the operation draws at all."""

    def fuse(self, following: Operation) -> bool:
        """Take over the work of the operation that alone reads this one's output; False if that cannot be."""
        return False

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        """What to call for a forward pass on these arrays, which stay where they are."""
        raise NotImplementedError

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        """What to call for a backward pass: writes the gradients that are not ``None``.

        ``dp`` holds one array per parameter. Arrays of forward values that are not kept must not be read.
        """
        raise NotImplementedError


class Graph:
    """Operations in the order in which they run."""

    def __init__(self, generator: np.random.RandomState, parts: Iterable[Module] = ()) -> None:
        self.generator = generator  # for the parameters that modules make while the graph is recorded
        self.parts = set(parts)  # the modules of the network, whose parameters are trained and saved
        self.parameters: list[Parameter] = []  # those of the operations, each once
        self.inputs: list[Value] = []
        self.operations: list[Operation] = []
        self.output: Value | None = None
        self.modules: list[Module] = []  # those being called, outermost first

    def input(self, shape: Sequence[int], dtype: np.dtype[Any] = FLOAT32) -> Value:
        value = Value(self, shape, dtype)
        self.inputs.append(value)
        return value

    def append(self, operation: Operation) -> Value:
        """Record an operation; gives its output."""
        operation.modules = self.modules[-1:]
        self.operations.append(operation)
        return operation.output

    def finish(self, output: Value) -> None:
        """Close the graph: fuse what can be fused, and make the layers."""
        self.output = output
        self._drop_unused()
        self._fuse()
        for operation in self.operations:
            operation.prepare()
        self.parameters = list(dict.fromkeys(p for operation in self.operations for p in operation.parameters))

    def require_parts(self, module: Module) -> None:
        """Refuse to record a module with parameters that the network does not know of."""
        strays = [part for part in module.modules() if part not in self.parts and part._has_state()]
        if strays:
            from ._strays import describe

            raise TypeError(describe(strays[0], module, self.modules))

    def _drop_unused(self) -> None:
        assert self.output is not None
        used = {self.output.storage}
        kept = []
        for operation in reversed(self.operations):
            if operation.output in used:
                kept.append(operation)
                used.update(value.storage for value in operation.inputs)
        self.operations = kept[::-1]

    def _fuse(self) -> None:
        """Join an operation and the only reader of its output where one layer does the work of both."""
        done: list[Operation] = []
        producers: dict[Value, Operation] = {}
        readers: dict[Value, int] = {}
        assert self.output is not None
        readers[self.output.storage] = 1
        for operation in self.operations:
            for value in operation.inputs:
                readers[value.storage] = readers.get(value.storage, 0) + 1
        for operation in self.operations:
            first = operation.inputs[0]
            producer = producers.get(first) if len(operation.inputs) == 1 else None
            if producer is not None and readers[first] == 1 and producer.fuse(operation):
                producer.output = operation.output
                producer.modules += operation.modules
                producers[operation.output] = producer
                continue
            producers[operation.output] = operation
            done.append(operation)
        self.operations = done
