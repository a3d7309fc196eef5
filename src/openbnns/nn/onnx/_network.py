"""The network that an ONNX model becomes: its weights under their names, and the nodes that its forward runs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from .. import memory_limit
from .._graph import current_graph
from .._value import Array
from ..converted.parts import ForeignPart
from ..converted.sizes import Size
from ..converted.tensors import Misfit
from ..parameter import Parameter
from . import _numpy
from ._call import Call
from ._file import Node, Port
from ._tensor import Tensor, by_numpy
from ._weights import Weights
from .errors import all_refused
from .operators import OPERATORS

# Operators whose handlers take whole numbers as well.
_TAKES_ALL = {
    "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Shape", "Size", "Identity", "Cast", "CastLike", "ConstantOfShape", "OneHot",
    "Dropout", "MaxPool", "MaxUnpool",
}  # fmt: skip
# Attributes that say nothing, or nothing that matters here.
_NO_DIFFERENCE: dict[str, tuple[str, ...]] = {
    "MaxPool": ("storage_order",), "Dropout": ("seed",), "Cast": ("saturate", "round_mode"),
    "LayerNormalization": ("stash_type",),
    "GroupNormalization": ("stash_type",), "RMSNormalization": ("stash_type",), "CastLike": ("saturate", "round_mode"),
    "BatchNormalization": ("momentum", "training_mode"), "Reshape": ("allowzero",), "GRU": ("linear_before_reset", "layout"),
    "LSTM": ("input_forget",), "Split": ("num_outputs",), "ConvTranspose": ("auto_pad", "pads", "output_padding"),
    "Resize": (
        "extrapolation_value", "cubic_coeff_a", "exclude_outside", "nearest_mode", "antialias", "keep_aspect_ratio_policy",
        "coordinate_transformation_mode",
    ),
    "Attention": ("q_num_heads", "kv_num_heads"), "AveragePool": ("count_include_pad",), "Hardmax": ("axis",),
}  # fmt: skip
_FILLING = {"Expand", "Tile", "ConstantOfShape"}  # whose result may have the size of the batch
_NEVER_FOLDED = {"MaxPool", "MaxUnpool", "Dropout"}

ERRORS = (
    Misfit,
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    AssertionError,
    MemoryError,
)
"""What a node that is not as it should be may raise here."""


class OnnxPart(ForeignPart):
    """Weights of an ONNX model whose names begin with the same words."""

    def forward(self, *inputs: Any) -> Any:
        raise NotImplementedError(
            f"{self._kind} holds weights of a network from ONNX, whose nodes run as a whole. Call the network."
        )


class Network(OnnxPart):
    """A network from ONNX. It is called, trained, saved and looked at like any other one here."""

    def __init__(
        self, title: str, nodes: Sequence[Node], inputs: Sequence[Port], outputs: Sequence[str], opset: int,
        batch_axes: Mapping[str, int | None], weights: Weights, batch: int | None,
    ) -> None:  # fmt: skip
        super().__init__(title)
        self._nodes, self._ports, self._results = list(nodes), list(inputs), list(outputs)
        self._opset, self._batch_axes, self._batch = opset, dict(batch_axes), batch
        self._constants, self._cells = weights.constants, weights.cells
        self._named: dict[str, Parameter | Array] = {}
        self._named |= weights.parameters
        self._named |= weights.buffers
        for name, part in self._named.items():
            self._put(name, part)

    def _put(self, name: str, part: Any) -> None:
        """Hold a weight under its name, in parts by the dots of it if that is possible."""
        *path, last = name.split(".")
        home: Any = self
        for step in path:
            if not step or not last or step in home._parameters or step in home._buffers:
                home = None
                break
            if step not in home._children:
                home.place(step, OnnxPart(step))
            home = home._children[step]
        if home is None or last in home._children:
            table: dict[str, Any] = self._parameters if isinstance(part, Parameter) else self._buffers
            table[name] = part
        else:
            home.place(last, part)

    def forward(self, *inputs: Any) -> Any:
        if len(inputs) != len(self._ports):
            raise TypeError(f"{self._kind}: takes {len(self._ports)} inputs, not {len(inputs)}.")
        held = {port.name: self._input(port, value) for port, value in zip(self._ports, inputs, strict=True)}
        for name, part in self._named.items():
            held[name] = Tensor(part)
        for name, array in self._constants.items():
            held[name] = Tensor(
                array, None, "b" if array.dtype == np.bool_ else "f" if array.dtype.kind == "f" else "i"
            )
        problems: list[str] = []
        self._folded = 0
        for node in self._nodes:
            if all(not name or name in held for name in node.inputs):  # else it follows one that is refused
                try:
                    self._take(node, held)
                except ERRORS as error:
                    problems.append(f"{node}: {str(error).rstrip('.') or type(error).__name__}")
        for name in self._results:
            x = held.get(name)
            if x is not None and x.batch is not None and x.shape[x.batch].front > 1:
                problems.append(f"output {name!r}: its samples are not one axis, {x.shape}")
        if problems:
            raise all_refused("from_onnx", self._kind, problems)
        results = [held[name] for name in self._results]
        values = [x.value if x.kind != "f" else x.batched for x in results]
        return values[0] if len(values) == 1 else tuple(values)

    def converted(self) -> list[tuple[str, str, str]]:
        """What the nodes became: their names, the operation here, and the shape of its result for a sample."""
        assert self._graph is not None
        rows = []
        for operation in self._graph.operations:
            names = [call.name for call in operation.functions if call is not None]
            rows.append((", ".join(dict.fromkeys(names)), type(operation).__name__, str(operation.output.sample)))
        return rows

    def _input(self, port: Port, value: Any) -> Tensor:
        if port.kind != "f":
            value.as_indices(self._kind)
        axis = self._batch_axes[port.name]
        shape: list[Any] = list(value.sample)
        if axis is not None:
            shape.insert(axis, Size(1))
        return Tensor(value, shape, port.kind)

    def _take(self, node: Node, held: dict[str, Tensor]) -> None:
        graph = current_graph()
        assert graph is not None
        call = Call(node, self._opset, self._batch, self._cells.get(node.index))
        tensors = [held[name] if name else None for name in node.inputs]
        while tensors and tensors[-1] is None:
            tensors.pop()
        with graph.calling(function=node.name or node.op):
            results = _result(call, tensors)
        call.ignored(*_NO_DIFFERENCE.get(node.op, ()))
        call.require_all_asked()
        for name, tensor in zip(node.outputs, results, strict=False):
            if name:
                held[name] = tensor
                self._account(tensor)
        missing = [name for name in node.outputs[len(results) :] if name]
        if missing:
            raise Misfit(f"its output {missing[0]!r} has no counterpart here")

    def _account(self, tensor: Tensor) -> None:
        """Refuse constants that together take too much memory."""
        if isinstance(tensor.held, np.ndarray):
            self._folded += tensor.held.nbytes
            weights = sum(array.nbytes for array in self._constants.values())
            memory_limit.check(self._folded, "what is computed from constants up to here", Misfit, weights)

    def _bound(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> inspect.BoundArguments:
        """Inputs by the names that they have in the model, as far as these are names in Python."""
        names = [p.name if p.name.isidentifier() else f"input_{i}" for i, p in enumerate(self._ports)]
        if len(set(names)) != len(names):
            names = [f"input_{i}" for i in range(len(names))]
        taken = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        try:
            return inspect.Signature(taken).bind(*inputs, **named)
        except TypeError as error:
            raise TypeError(f"{self._kind}: {error}. It takes {', '.join(names)}.") from None


def _result(call: Call, tensors: list[Tensor | None]) -> tuple[Tensor, ...]:
    given = [x for x in tensors if x is not None]
    by_batch = call.op in _FILLING and any(x.held.dtype == object for x in given if x.constant)
    if call.op in _numpy.TABLE and call.op not in _NEVER_FOLDED and all(x.constant for x in given) and not by_batch:
        _require(call, tensors)
        arrays = _numpy.compute(call, [None if x is None else x.held for x in tensors])
        return tuple(Tensor(array, None, _kind(array)) for array in arrays)
    changing = {x.kind for x in given if not x.constant}
    of_numbers = any(x.kind == "f" for x in given[: 3 if call.op == "Where" else 1])
    if (
        call.op in _numpy.TABLE
        and call.op not in _TAKES_ALL
        and changing
        and changing <= {"i", "b"}
        and not (call.op in ("Gather", "Where", "GatherElements") and of_numbers)
        and not (call.op == "Transpose" and _only_the_batch_moves(call, given[0]))
    ):
        _require(call, tensors)
        return by_numpy(call, tensors)
    _require(call, tensors)
    results = OPERATORS[call.op](call, *tensors)
    return results if isinstance(results, tuple) else (results,)


def _only_the_batch_moves(call: Call, x: Tensor) -> bool:
    order = call.integers("perm", tuple(range(x.rank))[::-1])
    rest = [axis for axis in order if axis != x.batch]
    return x.batch is not None and sorted(order) == list(range(x.rank)) and rest == sorted(rest)


def _kind(array: Array) -> str:
    return "b" if array.dtype == np.bool_ else "f" if array.dtype.kind == "f" else "i"


@cache
def _arity(op: str) -> tuple[int, float]:
    """How many inputs an operator needs, and takes."""
    parameters = list(inspect.signature(OPERATORS[op]).parameters.values())[1:]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 0 if op in ("Constant", "Range", "EyeLike") else 1, float("inf")
    return sum(p.default is p.empty for p in parameters), float(len(parameters))


def _require(call: Call, tensors: list[Tensor | None]) -> None:
    least, most = _arity(call.op)
    if len(tensors) < least or len(tensors) > most or any(x is None for x in tensors[:least]):
        raise Misfit(f"has {len(tensors)} input(s), or one of them left out, but needs {least}")
