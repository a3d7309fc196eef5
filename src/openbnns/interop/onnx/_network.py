"""The network that an ONNX model becomes: its weights under their names, and the nodes that its forward runs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..._plural import plural
from ...files import memory_limit
from ...graph.graph import Graph as RecordedGraph
from ...graph.graph import current_graph
from ...graph.parameter import Parameter
from ...graph.sizes import AnySize, FreeSizes, Size
from ...graph.tensor import Array, Tensor
from ...nn.containers import ForeignPart
from ...nn.recording import Recording, Shapes, recorded_graph, recording_of
from ..converted.control import Steps
from ..converted.samples import Fixed, NotProven, Samples
from ..converted.tensors import NODE_ERRORS, ForeignTensor, Misfit, TensorList, without_elements
from ._call import Call
from ._file import Graph, Node, Port
from ._operator import OPERATORS
from ._weights import Weights
from .apply import result_of
from .errors import all_refused
from .tensor import check_memory

BATCH = "N"  # the first axis of an input without a shape
SOME_SAMPLES = 7  # to record with where the number is not known: one that other sizes rarely have
_KEEP = (
    "A file has to serve all numbers that runs compute. Read the model with inputs that decide as constants, or keep the network "
    "with save_model."
)


class OnnxPart(ForeignPart):
    """Weights of an ONNX model whose names begin with the same words."""

    def forward(self, *inputs: Any) -> Any:
        raise NotImplementedError(
            f"{self._kind} holds weights of a network from ONNX, whose nodes run as a whole. Call the network."
        )


class Network(OnnxPart):
    """A network from ONNX. It is called, trained, saved and inspected like any other network here.

    Inputs have the shapes of the file: numbers, and names of sizes that are free. ``written`` are the numbers that the file has
    for some of these, and ``fixed`` tells why a size that could be free is not.
    """

    _names_nodes = True

    def __init__(
        self, title: str, nodes: Sequence[Node], inputs: Sequence[Port], outputs: Sequence[str], opset: int,
        weights: Weights, written: Mapping[str, int], fixed: Fixed | None = None,
    ) -> None:  # fmt: skip
        super().__init__(title)
        self._nodes, self._ports, self._results = list(nodes), list(inputs), list(outputs)
        self._opset, self._written, self._fixed = opset, dict(written), fixed
        if fixed is not None and fixed.number == 1:
            self._most_samples, self._why_few = 1, str(fixed)
        self._constants, self._cells = weights.constants, weights.cells
        self._named: dict[str, Parameter | Array] = {}
        self._named |= weights.parameters
        self._named |= weights.buffers
        for name, part in self._named.items():
            self._put(name, part)

    def _put(self, name: str, part: Any) -> None:
        """Hold a weight under its name, whose dots are paths of submodules if that is possible."""
        *path, last = name.split(".")
        home: Any = self
        for step in path:
            if not step or not last or step in home._parameters or step in home._buffers:
                home = None
                break
            if home.module(step) is None:
                home.place(step, OnnxPart(step))
            home = home.module(step)
        if home is None or home.module(last) is not None:
            table: dict[str, Any] = self._parameters if isinstance(part, Parameter) else self._buffers
            table[name] = part
        else:
            home.place(last, part)

    def build(self, *input_shapes: Sequence[int] | int, seed: int | None = None) -> Network:
        """Record the nodes for inputs of these shapes, which are given without their first axis."""
        samples = [(s,) if isinstance(s, int) else tuple(s) for s in input_shapes]
        shapes = []
        for port, sample in zip(self._ports, samples, strict=True):
            first = SOME_SAMPLES if port.shape is None else port.shape[0] if port.shape else None
            shapes.append(() if first is None else (first if isinstance(first, int) else SOME_SAMPLES, *sample))
        recording_of(self, self._training, tuple(shapes))
        return self

    def _with_free_sizes(self, shapes: Shapes, free: FreeSizes) -> list[Sequence[AnySize]]:
        """The shapes of inputs with the names of the file in place of numbers; a name may stand for several numbers."""
        if len(shapes) != len(self._ports):
            raise TypeError(f"{self._kind}: takes {plural(len(self._ports), 'input')}, not {len(shapes)}.")
        all_sizes: list[Sequence[AnySize]] = []
        for port, shape in zip(self._ports, shapes, strict=True):
            wanted = (BATCH, *shape[1:])[: len(shape)] if port.shape is None else port.shape
            fits = len(wanted) == len(shape)
            if not fits or any(isinstance(n, int) and n != m for n, m in zip(wanted, shape, strict=True)):
                cure = f" {self._fixed}" if fits and self._fixed is not None else ""
                raise ValueError(
                    f"{self._kind}: input {port.name!r} has shape {shape}, but the model takes {shown_shape(wanted)}.{cure}"
                )
            sizes: list[AnySize] = []
            for axis, (name, number) in enumerate(zip(wanted, shape, strict=True)):
                if isinstance(name, int) or number == 0:
                    sizes.append(number)
                    continue
                assert isinstance(name, str)
                own = name if free.numbers.get(name, number) == number else f"{name}_{port.name}_{axis}"
                free.numbers[own] = number
                sizes.append(free.size(own))
            all_sizes.append(sizes)
        return all_sizes

    def _input_array(self, x: Any, index: int) -> Array:
        array = np.asarray(x)
        wanted = self._ports[index].shape if index < len(self._ports) else None
        if wanted is not None and array.dtype.kind in "fiub" and (wanted == () == array.shape or 0 in wanted):
            return array  # a single number, or nothing
        return super()._input_array(x, index)

    def _misfit(self, built: Recording, shapes: Shapes, error: Exception) -> str:
        """The message for inputs that do not fit: the sizes that the file fixes, and where."""
        free = FreeSizes({})
        try:
            self._with_free_sizes(shapes, free)
        except (ValueError, TypeError):
            return str(error)
        known = built.graph.sizes
        guard = known.failing(free.numbers) if free.numbers.keys() >= known.numbers.keys() else None
        fixed = "" if guard is None else f" For the sizes that it was made with, {guard}."
        return f"{self._kind}: does not take inputs of shape {', '.join(map(str, shapes))}. {error}{fixed}"

    def forward(self, *inputs: Any) -> Any:
        graph = current_graph()
        assert graph is not None
        if len(inputs) != len(self._ports):
            raise TypeError(f"{self._kind}: takes {plural(len(self._ports), 'input')}, not {len(inputs)}.")
        held: dict[str, Any] = {
            port.name: without_elements(_input(port, value, self._kind))
            for port, value in zip(self._ports, inputs, strict=True)
        }
        held |= {name: ForeignTensor(part) for name, part in (self._named | self._constants).items()}
        freed = self._freed(graph, inputs)
        self._folded = 0
        problems = self._run_nodes(self._nodes, held, freed, Steps())
        graph.sizes.place = None
        if problems:
            known = self._built is not None  # for other sizes it can
            refused = all_refused("from_onnx", self._kind, problems)
            refused.wanted = dict(graph.sizes.wanted)
            error = ValueError(f"{'; '.join(problems)}.") if known else refused
            if graph.every_way:
                raise all_refused("to_onnx", self._kind, problems, _KEEP)
            if not graph.has_examples:
                raise error
            graph.unfinished = error  # which may be because of examples of numbers
            values = [graph.constant(np.zeros(1, np.float32)) for _ in self._results]
        else:
            values = [_output(name, held[name]) for name in self._results]
            reason = freed.unproven(values) if isinstance(freed, Samples) else None
            if reason is not None:
                raise NotProven(reason)
        return values[0] if len(values) == 1 else tuple(values)

    def _freed(self, graph: RecordedGraph, inputs: Sequence[Tensor]) -> Mapping[int, Size]:
        """The number of samples, if it is free although the file has a number for it."""
        if BATCH not in self._written or BATCH not in graph.sizes.numbers:
            return {}
        size = graph.sizes.size(BATCH)
        starts = {
            x: axis for x in inputs for axis, n in enumerate(x.shape) if isinstance(n, Size) and n.names() == {BATCH}
        }
        return Samples(graph, self._written[BATCH], size, starts)

    def _run_nodes(
        self, nodes: Sequence[Node], held: dict[str, Any], freed: Mapping[int, Size], steps: Steps
    ) -> list[str]:
        """Add the results of nodes to the tensors by name; gives what is wrong with each node."""
        graph, problems = current_graph(), []
        assert graph is not None
        for node in nodes:
            if all(not name or name in held for name in node.reads):  # else it follows one that is refused
                graph.sizes.place = str(node)
                try:
                    self._take(node, held, freed, steps)
                except NODE_ERRORS as error:
                    problems.append(f"{node}: {str(error).rstrip('.') or type(error).__name__}")
        return problems

    def _run_graph(self, inner: Graph, given: Mapping[str, Any], freed: Mapping[int, Size], steps: Steps) -> list[Any]:
        """The results of a graph of a node, on tensors by name."""
        graph = current_graph()
        assert graph is not None
        held, freed = dict(given), freed.inside(graph) if isinstance(freed, Samples) else freed
        problems = self._run_nodes(inner.nodes, held, freed, steps)
        if problems:
            raise Misfit("; ".join(problems))
        return [held[port.name] for port in inner.outputs]

    def converted(self) -> list[tuple[str, str, str]]:
        """The nodes as they run: their names, the operation here, and the shape of its result."""
        rows = []
        for operation in recorded_graph(self).operations:
            names = [call.name for call in operation.functions if call is not None]
            rows.append((", ".join(dict.fromkeys(names)), type(operation).__name__, str(operation.output.shape)))
        return rows

    def _take(self, node: Node, held: dict[str, Any], freed: Mapping[int, Size], steps: Steps) -> None:
        graph = current_graph()
        assert graph is not None

        def run(inner: Graph, given: Mapping[str, Any]) -> list[Any]:
            return self._run_graph(inner, given, freed, steps)

        call = Call(node, self._opset, freed, self._cells.get(node.index), held, run, steps)
        tensors = [held[name] if name else None for name in node.inputs]
        while tensors and tensors[-1] is None:
            tensors.pop()
        with graph.calling(function=node.name or node.op):
            results = tuple(map(without_elements, result_of(call, tensors)))
        call.ignored(*OPERATORS[node.op].ignores)
        call.require_all_asked()
        for name, tensor in zip(node.outputs, results, strict=False):
            if name:
                held[name] = tensor
                self._account(tensor)
        missing = [name for name in node.outputs[len(results) :] if name]
        if missing:
            raise Misfit(f"its output {missing[0]!r} has no counterpart here")

    def _account(self, tensor: ForeignTensor) -> None:
        """Refuse tensors, and constants that together take too much memory."""
        if isinstance(tensor, TensorList):
            return
        if tensor.constant:
            self._folded += tensor.held.nbytes
            weights = sum(array.nbytes for array in self._constants.values())
            memory_limit.check(self._folded, "what is computed from constants up to here", Misfit, weights)
        elif isinstance(tensor.held, Tensor):
            check_memory(tensor.held.shape)

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


def _output(name: str, x: Any) -> Tensor:
    if isinstance(x, TensorList):
        raise Misfit(f"output {name!r} is a sequence of tensors, which networks do not give")
    value: Tensor = x.value if x.kind != "f" else x.numbers
    return value


def _input(port: Port, value: Any, who: str) -> ForeignTensor:
    if port.kind != "f":
        value.as_indices(who)
    return ForeignTensor(value, port.kind, whole_type=np.dtype(port.whole_type))


def shown_shape(shape: Sequence[Any]) -> str:
    """A shape for people; sizes that have no name are shown as ?."""
    return f"({', '.join('?' if n is None else str(n) for n in shape)})"
