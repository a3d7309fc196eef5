"""Operations of one's own, written in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import operations
from ._graph import current_graph
from ._value import FLOAT32, INT64, Value
from .operations.function import Context, as_list
from .parameter import Parameter

_TRIES = (2, 3)  # batch sizes that tell which axis of a result is the batch


class Function:
    """An operation with a forward and a backward pass in NumPy, as PyTorch's ``torch.autograd.Function``.

    Subclass it with two static methods: ``forward(ctx, *arrays)`` gives an array or several, ``backward(ctx, *gradients)``
    the gradient of each argument, or None. Use it in ``forward`` of a module by ``apply``; arguments that are no tensors
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

    @staticmethod
    def forward(ctx: Context, *given: Any) -> Any:
        """The results from the arguments of ``apply``, where tensors are arrays."""
        raise NotImplementedError("A Function needs a static method forward(ctx, *arrays).")

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        """The gradients of the arguments from those of the results."""
        raise NotImplementedError("A Function needs a static method backward(ctx, *gradients) to be trained through.")

    @classmethod
    def apply(cls, *given: Any) -> Any:
        """Record the operation on values; on arrays, outside of a network, run it at once."""
        graph = current_graph()
        if graph is None:
            return cls.forward(Context(tuple(False for _ in given), False), *given)
        arguments = [graph.value(x) if isinstance(x, (np.ndarray, Parameter)) else x for x in given]
        inputs = [x for x in arguments if isinstance(x, Value)]
        if not inputs:
            raise TypeError(f"{cls.__name__}.apply: there is no value among its arguments.")
        outputs, several = cls._outputs(arguments, inputs)
        with graph.calling(function=cls.__name__):
            graph.append(operations.CustomFunction(cls, arguments, inputs, outputs))
        return tuple(outputs) if several else outputs[0]

    @classmethod
    def _outputs(cls, arguments: list[Any], inputs: list[Value]) -> tuple[list[Value], bool]:
        """Values for the results of a trial, in batches of two sizes, and whether there are several."""
        found = []
        for batch in _TRIES:
            trial = [
                np.ones(x.concrete(batch), x.dtype) if isinstance(x, Value) else x for x in arguments
            ]  # ones, because zeros have no logarithm
            try:
                with np.errstate(all="ignore"):
                    results = cls.forward(Context(tuple(False for _ in arguments), False), *trial)
            except NotImplementedError:
                raise
            except Exception as error:
                shapes = ", ".join(str(x.shape) for x in inputs)
                raise type(error)(f"{cls.__name__}.forward on {shapes}, tried with {batch} samples: {error}") from error
            found.append(results)
        first, second = (as_list(results) for results in found)
        graph = inputs[0].graph
        outputs = []
        for one, other in zip(first, second, strict=True):
            a, b = np.asarray(one), np.asarray(other)
            rows = 0
            if a.shape != b.shape:
                batched = a.shape and b.shape and a.shape[0] % _TRIES[0] == b.shape[0] % _TRIES[1] == 0
                if a.shape[1:] != b.shape[1:] or not batched or a.shape[0] // _TRIES[0] != b.shape[0] // _TRIES[1]:
                    raise ValueError(
                        f"{cls.__name__}.forward gives {a.shape} for {_TRIES[0]} samples and {b.shape} for {_TRIES[1]}. The "
                        "batch must be the first axis of a result, or none of them."
                    )
                rows = a.shape[0] // _TRIES[0]
            sample = a.shape[1:] if rows else a.shape
            outputs.append(Value(graph, sample, INT64 if a.dtype.kind in "iub" else FLOAT32, rows=rows))
        return outputs, isinstance(found[0], (tuple, list))
