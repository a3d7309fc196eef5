"""Branches, loops, and sequences of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....graph import functions as F
from ....graph.sizes import AnySize, Size, agree
from ...converted.control import branch, holds
from ...converted.every_way import is_for_file, repeated, tried
from ...converted.tensors import ForeignTensor, Misfit, TensorList
from .._call import Call
from .._file import Graph, Port
from .._numpy import limited
from .._operator import operator
from ..tensor import numbers_of, plain_numbers
from .shapes import concat, in_shape

CONTROL = "control flow"
LISTS = "sequences of tensors"
_UNLIMITED = 2**63 - 1


@operator(CONTROL, "If")
def choose(call: Call, condition: ForeignTensor) -> Any:
    graphs = call.graph("then_branch"), call.graph("else_branch")
    if any(graph.inputs for graph in graphs) or len(graphs[0].outputs) != len(graphs[1].outputs):
        raise Misfit("its branches must have no inputs, and as many outputs as each other")
    captured = {name: call.scope[name] for graph in graphs for name in graph.captured}

    def way(graph: Graph) -> Any:
        return lambda given: call.run_graph(graph, (), given)

    return tuple(branch(condition, captured, dict(zip(("then_branch", "else_branch"), map(way, graphs), strict=True))))


@operator(CONTROL, "Loop")
def repeat(call: Call, most: Any = None, condition: Any = None, *state: Any) -> Any:
    """Unrolled, step by step, or one loop in a graph for a file if only a run knows the number of steps."""
    body = call.graph("body")
    if len(body.inputs) != 2 + len(state) or len(body.outputs) <= len(state):
        raise Misfit(f"its body takes {len(body.inputs)} inputs and gives {len(body.outputs)}, for {len(state)} states")
    goes_on = _TRUE if condition is None else condition
    if is_for_file() and not _is_counted(call, body, most, goes_on, state):
        return _loop(call, body, most, condition, state)
    steps = _UNLIMITED if most is None else (plain_numbers(most, "the number of steps") or [0])[0]
    carried, collected = list(state), [list[ForeignTensor]() for _ in body.outputs[1 + len(state) :]]
    step = 0
    while step < steps and holds(goes_on):
        call.steps.next()
        goes_on, *rest = call.run_graph(body, [ForeignTensor(np.array(step, np.int64)), goes_on, *carried])
        carried = rest[: len(state)]
        for stack, part in zip(collected, rest[len(state) :], strict=True):
            stack.append(part)
        step += 1
    ports = body.outputs[1 + len(state) :]
    return (*carried, *(_stacked(parts, 0, port) for parts, port in zip(collected, ports, strict=True)))


@operator(CONTROL, "Scan")
def scan(call: Call, *given: ForeignTensor) -> Any:
    """Unrolled, step by step, or one loop in a graph for a file if the number of steps is free."""
    body, count = call.graph("body"), call.integer("num_scan_inputs")
    if call.opset < 9:
        raise Misfit("Scan is read from version 9 of ONNX's operators on")
    if not 1 <= count <= len(given):
        raise Misfit(f"num_scan_inputs is {count}, but there are {len(given)} inputs")
    state, sequences = list(given[: len(given) - count]), given[len(given) - count :]
    outputs = len(body.outputs) - len(state)
    axes = [x.axis(a) for x, a in zip(sequences, call.integers("scan_input_axes", [0] * count), strict=True)]
    backward = call.integers("scan_input_directions", [0] * count)
    places, turned = (call.integers(f"scan_output_{name}", [0] * outputs) for name in ("axes", "directions"))
    sizes = [x.shape[axis] for x, axis in zip(sequences, axes, strict=True)]
    same = len(backward) == len(axes) == count and len(places) == len(turned) == outputs
    if is_for_file() and same and any(isinstance(n, Size) for n in sizes) and all(agree(sizes[0], n) for n in sizes):
        ordered = [_moved(x, axis, 0, bool(back)) for x, axis, back in zip(sequences, axes, backward, strict=True)]
        ends, stacks = _scan_loop(call, body, sizes[0], state, ordered)
        pairs = zip(stacks, places, turned, strict=True)
        return (*ends, *(_moved(x, 0, place % x.rank, bool(back)) for x, place, back in pairs))
    lengths = set(map(int, sizes))
    if len(lengths) != 1 or not same:
        raise Misfit(
            f"its sequences have the lengths {sorted(lengths)}, or its lists of axes have others than its tensors"
        )
    (length,) = lengths
    collected = [list[ForeignTensor]() for _ in range(outputs)]
    for step in range(length):
        call.steps.next()
        parts = [
            _part(x, axis, length - 1 - step if back else step)
            for x, axis, back in zip(sequences, axes, backward, strict=True)
        ]
        results = call.run_graph(body, [*state, *parts])
        state = results[: len(state)]
        for stack, part in zip(collected, results[len(state) :], strict=True):
            stack.append(part)
    ports = body.outputs[len(state) :]
    packed = zip(collected, places, turned, ports, strict=True)
    return (*state, *(_stacked(parts[::-1] if back else parts, place, port) for parts, place, back, port in packed))


def _scan_loop(
    call: Call, body: Graph, length: AnySize, state: Sequence[Any], sequences: Sequence[ForeignTensor]
) -> tuple[list[Any], list[ForeignTensor]]:
    """A loop over the entries of sequences as it is, in a graph for a file."""
    captured: dict[Any, Any] = {name: call.scope[name] for name in body.captured} | dict(enumerate(sequences))

    def step(around: Mapping[Any, Any], number: ForeignTensor, states: Sequence[Any]) -> Any:
        rows = number.value.reshape((1,))
        whole = [around[i] for i in range(len(sequences))]
        parts = [
            in_shape(ForeignTensor(F.index_select(x.elements, 0, rows), x.kind), x.shape[1:]) for x in whole
        ]  # fmt: skip
        with call.steps.apart():
            results = call.run_graph(body, [*states, *parts], around)
        return _TRUE, results[: len(state)], results[len(state) :]

    return repeated(length, None, state, captured, step)


def _moved(x: ForeignTensor, axis: int, place: int, back: bool) -> ForeignTensor:
    """The axis in another place, and if wanted its entries in the other order."""
    order = [i for i in range(x.rank) if i != axis]
    order.insert(place, axis)
    value = F.permute(x.elements, *order) if axis != place else x.elements
    return ForeignTensor(F.flip(value, place) if back else value, x.kind)


_TRUE = ForeignTensor(np.array(True))


def _is_counted(
    call: Call, body: Graph, most: ForeignTensor | None, goes_on: ForeignTensor, state: Sequence[Any]
) -> bool:
    """True if the number of steps is known: the bound is, and a step does not compute whether another one follows."""
    if not goes_on.constant or (most is not None and not (most.constant and most.held.dtype != object)):
        return False
    if not goes_on.held.all() or (most is not None and not most.held.any()):
        return True  # there are none
    with tried() as take, call.steps.apart():
        around = {name: take(call.scope[name]) for name in body.captured}
        given = [ForeignTensor(np.array(0, np.int64)), goes_on, *map(take, state)]
        known: bool = call.run_graph(body, given, around)[0].constant
        return known
    return True  # it fails, with a message when it is recorded


def _loop(
    call: Call, body: Graph, most: ForeignTensor | None, condition: ForeignTensor | None, state: Sequence[Any]
) -> tuple[Any, ...]:  # fmt: skip
    """A loop as it is, in a graph for a file."""
    read = {name for node in body.nodes for name in node.reads} | {port.name for port in body.outputs}
    unread = {i for i, port in enumerate(body.inputs[2:]) if port.name not in read}
    unused = {
        i for i in unread if not "".join(call.node.outputs[i : i + 1])
    }  # neither are these when the loop has ended

    def step(around: Mapping[str, Any], number: ForeignTensor, states: Sequence[Any]) -> Any:
        with call.steps.apart():
            goes_on, *results = call.run_graph(body, [number, _TRUE, *states], around)
        following = [x if i in unused else y for i, (x, y) in enumerate(zip(states, results, strict=False))]
        return goes_on, following, results[len(state) :]

    if any(isinstance(x, TensorList) for x in state):
        unread = set()  # numbers of states are others then
    bound = most if most is None or not most.constant else (numbers_of(most, "the number of steps") or [0])[0]
    begins = None if condition is None or condition.constant else condition
    states, parts = repeated(bound, begins, state, {name: call.scope[name] for name in body.captured}, step, unread)
    return (*states, *parts)


def _part(x: ForeignTensor, axis: int, index: int) -> ForeignTensor:
    """An entry along an axis."""
    if x.constant:
        return ForeignTensor(np.take(x.held, index, axis), x.kind)
    return ForeignTensor(F.select(x.value, axis, index), x.kind)


def _stacked(parts: Sequence[ForeignTensor], axis: int, port: Port) -> ForeignTensor:
    """Tensors as entries along a new axis."""
    if not parts:
        if port.shape is None or not all(isinstance(n, int) for n in port.shape):
            raise Misfit(f"it does nothing here, and the file does not say which shape {port.name!r} has")
        dtype = {"f": np.float32, "i": np.dtype(port.whole_type), "b": np.bool_}[port.kind]
        return ForeignTensor(np.zeros(limited((0, *port.shape)), dtype), port.kind)
    if all(x.constant for x in parts):
        return ForeignTensor(np.stack([x.held for x in parts], axis), parts[0].kind)
    values = [x.numbers if x.kind == "f" else x.value for x in parts]
    return ForeignTensor(F.stack(values, axis), parts[0].kind)


# Sequences whose length is known.


def _listed(given: Any) -> TensorList:
    if not isinstance(given, TensorList):
        raise Misfit("its first input must be a sequence of tensors")
    return given


def _place(given: ForeignTensor | None, count: int, default: int, most: int) -> int:
    place = default if given is None else (plain_numbers(given, "position") or [0])[0]
    if not -count <= place <= most:
        raise Misfit(f"there is no position {place} in a sequence of {count}")
    return place + count if place < 0 else place


@operator(LISTS, "SequenceEmpty", ignores=("dtype",))
def empty(call: Call) -> TensorList:
    return TensorList(())


@operator(LISTS, "SequenceConstruct")
def construct(call: Call, *given: ForeignTensor) -> TensorList:
    return TensorList(given)


@operator(LISTS, "SequenceAt", whole_type=None)
def at(call: Call, given: Any, position: ForeignTensor) -> ForeignTensor:
    listed = _listed(given)
    element: ForeignTensor = listed[_place(position, len(listed), 0, len(listed) - 1)]
    return element


@operator(LISTS, "SequenceInsert")
def insert(call: Call, given: Any, x: ForeignTensor, position: ForeignTensor | None = None) -> TensorList:
    listed = _listed(given)
    place = _place(position, len(listed), len(listed), len(listed))
    return TensorList((*listed[:place], x, *listed[place:]))


@operator(LISTS, "SequenceErase")
def erase(call: Call, given: Any, position: ForeignTensor | None = None) -> TensorList:
    listed = _listed(given)
    place = _place(position, len(listed), len(listed) - 1, len(listed) - 1)
    return TensorList((*listed[:place], *listed[place + 1 :]))


@operator(LISTS, "SequenceLength", whole_type="int64")
def length_of(call: Call, given: Any) -> ForeignTensor:
    return ForeignTensor(np.array(len(_listed(given)), np.int64))


@operator(LISTS, "ConcatFromSequence", whole_type=None)
def joined(call: Call, given: Any) -> ForeignTensor:
    listed = _listed(given)
    if not listed:
        raise Misfit("a sequence without tensors cannot be joined")
    if call.integer("new_axis", 0):
        rank = listed[0].rank + 1
        axis = call.integer("axis")
        if not -rank <= axis < rank:
            raise Misfit(f"there is no axis {axis} in {rank}")
        return _stacked(listed, axis % rank, Port("", "f", None))
    if all(x.constant for x in listed):
        return ForeignTensor(np.concatenate([x.held for x in listed], call.integer("axis")), listed[0].kind)
    if any(x.kind != "f" for x in listed):
        return ForeignTensor(F.cat([x.value for x in listed], listed[0].axis(call.integer("axis"))), listed[0].kind)
    whole: ForeignTensor = concat(call, *listed)
    return whole


@operator(LISTS, "SplitToSequence")
def split_to_list(call: Call, x: ForeignTensor, sizes: ForeignTensor | None = None) -> TensorList:
    axis = x.axis(call.integer("axis", 0))
    total = int(x.shape[axis])
    keeps = bool(call.integer("keepdims", 1)) or sizes is not None
    given = plain_numbers(sizes, "split")
    if given is None:
        parts = [1] * total
    elif sizes is not None and sizes.rank == 0:
        if given[0] < 1:
            raise Misfit(f"parts of {given[0]} are not possible")
        parts = [min(given[0], total - i) for i in range(0, total, given[0])]
    else:
        parts = given
    if sum(parts) != total or min(parts, default=0) < 0:
        raise Misfit(f"parts of {parts} do not make up {total}")
    elements, start = [], 0
    for size in parts:
        call.steps.next()
        part = ForeignTensor(
            np.take(x.held, range(start, start + size), axis)
            if x.constant
            else F.narrow(x.value, axis, start, size), x.kind, whole_type=x.whole_type
        )  # fmt: skip
        elements.append(part if keeps else in_shape(part, [n for i, n in enumerate(part.shape) if i != axis]))
        start += size
    return TensorList(elements)


@operator(LISTS, "Optional", "OptionalGetElement", whole_type=None)
def optional(call: Call, x: Any) -> Any:
    return x


@operator(LISTS, "OptionalHasElement")
def has_element(call: Call, x: Any = None) -> ForeignTensor:
    return ForeignTensor(np.array(x is not None))
