"""Custom operations, written in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from . import operations
from .calls import Calls
from .graph import current_graph
from .operations import FunctionContext, as_list
from .parameter import Parameter
from .sizes import AnySize, Size, bound, number_of
from .tensor import FLOAT32, INT64, Array, Tensor

_TRIES = ((2, 3), (5, 7), (11, 13))  # for the free sizes of the inputs: primes, which tell them apart


class Function:
    """An operation with a forward and a backward pass in NumPy, like PyTorch's ``torch.autograd.Function``.

    Subclass it with two static methods: ``forward(ctx, *arrays)`` gives an array or several, ``backward(ctx, *gradients)``
    the gradient of each argument, or None. Use it in ``forward`` of a module by ``apply``; arguments that are not tensors
    are passed on as they are. The shape of the result is found by trial runs on ones, when the network is built.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> class Cube(nn.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...     @staticmethod
    ...     def backward(ctx, dy):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x**2 * dy
    >>> class Net(nn.Module):
    ...     def forward(self, x):
    ...         return Cube.apply(x)
    >>> net = Net()
    >>> net(np.float32([[2, 3]])).tolist(), net.backward(np.float32([[1, 1]])).tolist()
    ([[8.0, 27.0]], [[12.0, 27.0]])
    """

    is_pure: ClassVar[bool] = False
    """True if the same arguments always give the same results: for inference it then runs on parameters only when one changes."""

    @staticmethod
    def forward(ctx: FunctionContext, *given: Any) -> Any:
        """The results from the arguments of ``apply``, where tensors are arrays."""
        raise NotImplementedError("A Function needs a static method forward(ctx, *arrays).")

    @staticmethod
    def backward(ctx: FunctionContext, *gradients: Any) -> Any:
        """The gradients of the arguments from those of the results."""
        raise NotImplementedError("A Function needs a static method backward(ctx, *gradients) to be trained through.")

    @classmethod
    def _acts_by_element(cls, arguments: Sequence[Any]) -> bool:
        """True if every element of the result follows from the elements of the tensors at its place, broadcast."""
        return False

    @classmethod
    def native_call(cls, given: Sequence[Any], target: Array) -> Calls | None:
        """A native call that stores the only result, whole numbers without a gradient; None if there is none."""
        return None

    @classmethod
    def apply(cls, *given: Any) -> Any:
        """Record the operation on values; on arrays, outside of a network, run it at once."""
        graph = current_graph()
        if graph is None:
            return cls.forward(FunctionContext(tuple(False for _ in given), False), *given)
        arguments = [graph.value(x) if isinstance(x, (np.ndarray, Parameter)) else x for x in given]
        inputs = [x for x in arguments if isinstance(x, Tensor)]
        if not inputs:
            raise TypeError(f"{cls.__name__}.apply: there is no value among its arguments.")
        outputs, several = cls._outputs(arguments, inputs)
        with graph.calling(function=cls.__name__):
            graph.append(operations.CustomFunction(cls, arguments, inputs, outputs))
        return tuple(outputs) if several else outputs[0]

    @classmethod
    def _outputs(cls, arguments: list[Any], inputs: list[Tensor]) -> tuple[list[Tensor], bool]:
        """Values for the results of trials, and whether there are several.

        Trials with two numbers in place of each free size of the inputs tell which sizes of a result are multiples of one, or of
        the product of two; they must hold for the numbers of this recording, too.
        Where that does not say everything, the result is for the sizes of this recording alone.
        """
        graph, shapes = inputs[0].graph, [x.shape for x in inputs]
        free = {str(n): n for shape in shapes for n in shape if isinstance(n, Size)}
        names = sorted({name for n in free.values() for name in n.expression.names()})
        results: list[Any] = []
        if 0 < len(names) <= len(_TRIES):
            numbers = [dict(zip(names, column, strict=False)) for column in zip(*_TRIES, strict=True)]
            trials = []
            try:
                trials = [cls.trial(arguments, each) for each in (*numbers, graph.sizes.numbers)]
            except (ValueError, IndexError, ArithmeticError):
                if len(names) == 1:
                    raise
            sizes: list[Any] = [graph.sizes.size(name) for name in names]
            sizes += [a * b for i, a in enumerate(sizes) for b in sizes[:i]]
            factors = [_Factor(size, *(bound((size,), each)[0] for each in numbers)) for size in sizes]
            results = [
                (_multiples(one.shape, other.shape, present.shape, factors), one.dtype)
                for one, other, present in zip(*map(as_list, trials), strict=True)
            ]
        if not results or any(shape is None for shape, _ in results):
            trials = [cls.trial(arguments, graph.sizes.numbers)]
            for size in free.values():
                int(size)  # leaves a guard
            results = [(one.shape, one.dtype) for one in as_list(trials[0])]
        outputs = [Tensor(graph, shape or (), INT64 if dtype.kind in "iub" else FLOAT32) for shape, dtype in results]
        return outputs, isinstance(trials[0], (tuple, list))

    @classmethod
    def trial(cls, arguments: list[Any], sizes: Mapping[str, int], fill: Callable[..., Any] = np.ones) -> Any:
        """The results of ``forward``, as arrays, for arguments of ones, because zeros have no logarithm."""
        trial = [fill(x.concrete(sizes), x.dtype) if isinstance(x, Tensor) else x for x in arguments]
        try:
            with np.errstate(all="ignore"):
                results = cls.forward(FunctionContext(tuple(False for _ in arguments), False), *trial)
        except NotImplementedError:
            raise
        except Exception as error:
            shapes = ", ".join(str(x.shape) for x in trial if isinstance(x, np.ndarray))
            raise type(error)(f"{cls.__name__}.forward, tried on {fill.__name__} of shape {shapes}: {error}") from error
        return tuple(map(np.asarray, results)) if isinstance(results, (tuple, list)) else np.asarray(results)


class _Factor(NamedTuple):
    """A size that others may be multiples of, and its numbers in two trials."""

    size: AnySize
    one: int
    other: int


def _multiples(
    one: tuple[int, ...], other: tuple[int, ...], present: tuple[int, ...], factors: Sequence[_Factor]
) -> tuple[AnySize, ...] | None:
    """The shape that was ``one``, ``other`` and ``present`` in trials; None if its sizes are not multiples of factors."""
    shape: list[AnySize] = []
    for a, b in zip(one, other, strict=False):
        fitting = [
            f.size * (a // f.one) for f in factors if not a % f.one and not b % f.other and a // f.one == b // f.other
        ]
        if a != b and len(fitting) != 1:
            return None
        shape.append(a if a == b else fitting[0])
    agree = len(one) == len(other) == len(present) and tuple(map(number_of, shape)) == present
    return tuple(shape) if agree else None
