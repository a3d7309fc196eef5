"""Networks in which sizes depend on numbers: programs one after the other, with operations between them that find the
sizes.

A recording names sizes that only a run knows (``FreeSizes.computed``), with an example for each. The operations that find
them (``Operation.finds_sizes``) cut its graph into segments. Each segment is a program for the sizes that are known by then; the
operation behind it runs in NumPy. A run that finds numbers that do not meet the guards of the recording goes on with another
recording, in which they are the examples: a condition that comes out differently, a loop with another number of steps.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import engines
from .._table import Table
from .calls import NumpyCall, name_of
from .gradients import is_trained
from .graph import Graph
from .operation import Operation
from .operations.custom_function import FunctionContext, SizedByData
from .parameter import Parameter
from .program import Program, TimedCall
from .sizes import Guard, Size
from .tensor import FLOAT32, Array, Tensor

_PROGRAMS = 8  # of one segment, each for other sizes, that are kept
_PATHS = 32  # recordings for other numbers that are kept
_MOST_TRIES = 10_000  # recordings that one run may ask for
_MET = 64  # numbers that guards are known to be met for


class OtherNumbers(Exception):
    """Signal that a run has computed numbers for which its recording is not valid."""

    def __init__(self, numbers: list[int]) -> None:
        super().__init__(numbers)
        self.numbers = numbers


class Guards:
    """Some guards of a recording, which remember numbers that meet them."""

    def __init__(self, guards: Sequence[Guard]) -> None:
        self.guards = guards
        self.names = sorted({name for guard in guards for name in guard.names()})
        self._met: dict[tuple[int, ...], None] = {}

    def are_met(self, sizes: Mapping[str, int]) -> bool:
        numbers = tuple([sizes[name] for name in self.names])
        if numbers in self._met:
            return True
        if not all(guard.is_met(sizes) for guard in self.guards):
            return False
        if len(self._met) == _MET:
            self._met.clear()
        self._met[numbers] = None
        return True


class ValueSource(NamedTuple):
    """Where a run finds a value: among its arrays, or in what a leaf holds, and the shape that it has there."""

    value: Tensor | None
    leaf: Any  # a parameter or an array if there is no value
    shape: tuple[int, ...]

    def array(self, held: Mapping[Tensor, Array]) -> Array:
        """The array of the value in a run, of which ``held`` has the arrays."""
        array: Array
        if self.value is not None:
            array = held[self.value]
        else:
            array = self.leaf.array if isinstance(self.leaf, Parameter) else self.leaf
        return array if array.shape == self.shape else array.reshape(self.shape)


class BoundSegment(NamedTuple):
    """A segment for known sizes: its program, what that reads and where to, and what the operation behind it reads."""

    program: Program | None
    fed: list[tuple[ValueSource, Array]]
    read: list[ValueSource]


class Segment(NamedTuple):
    """A part of a graph without operations that find sizes, if it computes anything, and the one that follows, if any."""

    graph: Graph | None
    following: SizedByData | None
    bound: OrderedDict[tuple[int, ...], BoundSegment]


def segments_of(graph: Graph) -> list[Segment]:
    """The segments of a graph, in the order in which they run."""
    parts: list[tuple[list[Operation], SizedByData | None]] = [([], None)]
    for operation in graph.operations:
        if isinstance(operation, SizedByData):
            parts[-1] = parts[-1][0], operation
            parts.append(([], None))
        else:
            parts[-1][0].append(operation)
    wanted = {v.storage for v in graph.outputs}
    segments = []
    for operations, following in reversed(parts):
        if following is not None:
            wanted |= {v.storage for v in following.inputs}
        made = {v: None for operation in operations for v in operation.outputs}
        read = {v.storage: None for operation in operations for v in operation.inputs if v.storage.leaf is None}
        outputs = [v for v in made if v in wanted]
        part = graph.part([v for v in read if v not in made], operations, outputs) if outputs else None
        wanted |= read.keys()
        segments.append(Segment(part, following, OrderedDict()))
    return segments[::-1]


class Path:
    """One recording as segments, and what its latest run left for the backward pass."""

    def __init__(self, graph: Graph, training: bool, input_gradients: bool) -> None:
        self.graph, self.training = graph, training
        self.segments = segments_of(graph)
        self._wanted = self._with_gradient(input_gradients) if training else set()
        self._latest: list[tuple[Program | None, FunctionContext | None, list[Array]]] = []
        self._sizes: dict[str, int] = {}
        self._guards: list[Guards] = []  # of each segment: those that its sizes are the last to decide
        self._guarded = -1  # guards of the recording when they were sorted
        self._outputs: dict[tuple[int, ...], list[ValueSource]] = {}  # by the sizes of the run

    def _with_gradient(self, input_gradients: bool) -> set[Tensor]:
        wanted = {v for v in self.graph.inputs if input_gradients and v.dtype == FLOAT32}
        for operation in self.graph.operations:
            trained = any(p.requires_grad for p in operation.parameters) or any(
                v.storage in wanted or is_trained(v.storage.leaf) for v in operation.inputs
            )
            if trained and not operation.stops_gradient:
                wanted.update(v for v in operation.outputs if v.dtype == FLOAT32)
        return wanted

    def run(
        self, inputs: Sequence[Array], sizes: Mapping[str, int], weights: int, seed: tuple[int, int] | None
    ) -> list[Array]:
        """The outputs; raises :class:`OtherNumbers` as soon as a guard is not met."""
        held: dict[Tensor, Array] = dict(zip(self.graph.inputs, inputs, strict=True))
        self._sizes = known = dict(sizes)
        self._latest = []
        self.graph.read_arrays()
        if self._guarded != len(self.graph.sizes.guards):
            self._sort_guards(known)
        for segment, guards in zip(self.segments, self._guards, strict=True):
            program, fed, read = self._bound(segment, known)
            context: FunctionContext | None = None
            results: list[Array] = []
            if program is not None:
                for place, target in fed:
                    target[...] = place.array(held)
                if seed is not None:
                    program.seed(*seed)
                program.forward(weights)
                held.update(zip(program.graph.outputs, program.outputs, strict=True))
            if segment.following is not None:
                arrays = [place.array(held) for place in read]
                results, numbers, context = segment.following.run(arrays, self.training)
                known |= numbers
                if not guards.are_met(known):
                    raise OtherNumbers([known[name] for name in self.graph.sizes.computed if name in known])
                held.update(zip(segment.following.outputs, results, strict=True))
            self._latest.append((program, context, results))
        if self.graph.unfinished is not None:
            raise OtherNumbers([known[name] for name in self.graph.sizes.computed])
        return [place.array(held) for place in self._ends(known)]

    def _sort_guards(self, known: Iterable[str]) -> None:
        """Let each guard wait for the segment behind which all sizes that it compares are known."""
        left = [(guard, guard.names()) for guard in self.graph.sizes.guards]
        self._guarded, names, self._guards = len(left), set(known), []
        for segment in self.segments:
            names.update(() if segment.following is None else segment.following.sizes)
            self._guards.append(Guards([guard for guard, needed in left if needed <= names]))
            left = [(guard, needed) for guard, needed in left if not needed <= names]

    def _bound(self, segment: Segment, known: Mapping[str, int]) -> BoundSegment:
        """A segment for these sizes, made now if none of the latest is for them."""
        key = tuple(known.values())
        bound = segment.bound.pop(key, None)
        if bound is None:
            bound = self._bind(segment, known)
            while len(segment.bound) >= _PROGRAMS:
                segment.bound.popitem(last=False)
        segment.bound[key] = bound
        return bound

    def _bind(self, segment: Segment, known: Mapping[str, int]) -> BoundSegment:
        program, fed = None, []
        if segment.graph is not None:
            gradients = [i for i, v in enumerate(segment.graph.inputs) if v in self._wanted]
            program = Program(segment.graph, known, training=self.training, input_gradients=gradients)
            pairs = zip(segment.graph.inputs, program.inputs, strict=True)
            fed = [(ValueSource(value, None, target.shape), target) for value, target in pairs]
        following = [] if segment.following is None else segment.following.inputs
        return BoundSegment(program, fed, [self._source(value, known) for value in following])

    def _ends(self, known: Mapping[str, int]) -> list[ValueSource]:
        """Where the outputs are for these sizes."""
        key = tuple(known.values())
        places = self._outputs.get(key)
        if places is None:
            if len(self._outputs) == _PROGRAMS:
                self._outputs.clear()
            places = self._outputs[key] = [self._source(value, known) for value in self.graph.outputs]
        return places

    def _source(self, value: Tensor, known: Mapping[str, int]) -> ValueSource:
        leaf, shape = value.storage.leaf, value.concrete(known)
        if isinstance(leaf, Size):
            leaf = np.full((), leaf.expression.value(known), np.float32)
        if leaf is None and value.source is not None:
            return ValueSource(value.storage, None, shape)
        return ValueSource(value if leaf is None else None, leaf, shape)

    def backward(self, output_gradients: Sequence[Array | None], input_gradients: bool) -> list[Array | None]:
        """Gradients of all parameters into their ``grad``; gives those of the inputs."""
        arrived: dict[Tensor, Array] = {}
        begun: set[Parameter] = set()

        def add(value: Tensor, gradient: Array | None) -> None:
            leaf = value.storage.leaf
            if gradient is None or value.dtype != FLOAT32:
                return
            if is_trained(leaf):
                if leaf not in begun:
                    leaf.grad.fill(0)
                leaf.grad += np.asarray(gradient).reshape(leaf.shape)
                begun.add(leaf)
            elif leaf is None and value.storage in self._wanted:
                part = np.asarray(gradient).reshape(value.storage.concrete(self._sizes))
                known = arrived.get(value.storage)
                arrived[value.storage] = np.array(part) if known is None else known + part

        for value, gradient in zip(self.graph.outputs, output_gradients, strict=True):
            add(value, gradient)
        for segment, (program, context, results) in reversed(list(zip(self.segments, self._latest, strict=True))):
            following = segment.following
            if following is not None and context is not None and any(v in arrived for v in following.outputs):
                pairs = zip(following.outputs, results, strict=True)
                gradients = [arrived.pop(v) if v in arrived else np.zeros_like(y) for v, y in pairs]
                for value, gradient in zip(following.inputs, following.run_backward(context, gradients), strict=True):
                    add(value, gradient)
            if program is None or not any(v in arrived for v in program.graph.outputs):
                continue
            program.fill_gradients([arrived.pop(v, None) for v in program.graph.outputs])
            before = [(p, p.grad.copy()) for p in program.trained if p in begun]
            program.backward(input_gradients=bool(program.input_gradients))
            for parameter, gradient in before:
                parameter.grad += gradient
            begun.update(program.trained)
            for value, gradient in zip(program.graph.inputs, program.input_gradients, strict=True):
                add(value, gradient)
        self._latest = []
        for parameter in self.graph.parameters:
            if parameter.requires_grad and parameter not in begun:
                parameter.grad.fill(0)
        if not input_gradients:
            return []
        return [
            None if v.dtype != FLOAT32 else arrived.get(v, np.zeros(v.concrete(self._sizes), FLOAT32))
            for v in self.graph.inputs
        ]

    def timed(self, weights: int) -> Iterator[tuple[str, TimedCall | None]]:
        """The calls of the segments for the sizes of the latest run, and None for what runs in between, with its title."""
        for segment in self.segments:
            program = next(reversed(segment.bound.values())).program if segment.bound else None
            if program is not None:
                for row in program.timed(weights=weights):
                    yield type(row.operation).__name__, row
            if segment.following is not None:
                yield segment.following.title, None


class SegmentedProgram:
    """A graph in segments, with the interface of :class:`Program` for inputs, runs and backward passes.

    Results lie where they are from run to run as long as they have the same shapes, which losses rely on.
    ``again`` gives the graph that is recorded for the numbers that a run has found, and the shapes of its inputs.
    """

    def __init__(
        self, graph: Graph, sizes: Mapping[str, int], *, training: bool, input_gradients: bool = False,
        again: Callable[[list[int], tuple[tuple[int, ...], ...]], Graph], others: list[Graph],
    ) -> None:  # fmt: skip
        self.graph, self.sizes, self.training = graph, dict(sizes), training
        self._input_gradients, self._again, self._others = input_gradients, again, others
        self._paths: dict[int, Path] = {}
        self._path = self._path_of(graph)
        self._seed: tuple[int, int] | None = None
        self.inputs = [np.zeros(v.concrete(sizes), v.dtype) for v in graph.inputs]
        self.shapes = tuple(array.shape for array in self.inputs)
        self._fixed: list[Array] = []  # where results of the usual shapes lie
        if graph.unfinished is None:
            sizes = graph.sizes.numbers | self.sizes
            self._fixed = [np.zeros(v.concrete(sizes), v.dtype) for v in graph.outputs]
        self._bound = False  # True once losses rely on that
        self._results: list[Array] | None = None
        self._gradients: list[Array | None] = []
        self._fixed_gradients = [np.zeros_like(y) for y in self._fixed] if training else []
        self.input_gradients: list[Array | None] = []
        self.arena_bytes = 0
        self.kept_bytes = 1 << 40  # programs for many sizes each, so that those for the latest shapes only are kept

    def _path_of(self, graph: Graph) -> Path:
        if id(graph) not in self._paths:
            kept = {id(known) for known in (self.graph, *self._others)}  # of which other programs may have dropped some
            self._paths = {key: path for key, path in self._paths.items() if key in kept}
            self._paths[id(graph)] = Path(graph, self.training, self._input_gradients)
        return self._paths[id(graph)]

    @property
    def trained(self) -> list[Parameter]:
        """The parameters that have a gradient: of all recordings, of which the latest run has taken one."""
        used = dict.fromkeys(p for graph in [self.graph, *self._others] for p in graph.parameters)
        return [p for p in used if p.requires_grad]

    @property
    def outputs(self) -> list[Array]:
        """Where the results stand."""
        return self._fixed if self._results is None else self._results

    @property
    def output(self) -> Array:
        return self.outputs[0]

    @property
    def output_gradients(self) -> list[Array | None]:
        """Where the gradients of the results are read from."""
        self._bound = True
        return list(self._fixed_gradients)

    def _who(self) -> str:
        titles = [op.title for op in self.graph.operations if isinstance(op, SizedByData)]
        return f"A network with {', '.join(dict.fromkeys(titles))}"

    fill = Program.fill

    fits = Program.fits

    def reads_anywhere(self, given: Sequence[Any]) -> bool:
        """False: inputs are always copied."""
        return False

    def forward_on(self, given: Sequence[Array], weights: int = 0) -> None:
        """Compute the outputs from arrays that ``fits`` takes."""
        for target, samples in zip(self.inputs, given, strict=True):
            target[...] = samples
        self.forward(weights)

    def seed(self, seed: int, step: int) -> None:
        """Make the random choices of the next run a function of these two numbers alone."""
        self._seed = seed, step

    def forward(self, weights: int = 0) -> Array:
        """Compute the outputs from ``inputs``; gives the first."""
        for _ in range(_MOST_TRIES):
            try:
                results = self._path.run(self.inputs, self.sizes, weights, self._seed)
                break
            except OtherNumbers as error:
                self._path = self._path_of(self._graph_for(error.numbers))
        else:
            raise RuntimeError(f"{self._who()} finds other numbers at each of {_MOST_TRIES} runs on the same inputs.")
        self._seed = None
        self._results = None
        if [y.shape for y in results] == [y.shape for y in self._fixed]:
            for target, result in zip(self._fixed, results, strict=True):
                target[...] = result
        elif self._bound:
            raise TypeError(
                f"{self._who()} gives {', '.join(str(y.shape) for y in results)} for a batch for which it gave "
                f"{', '.join(str(y.shape) for y in self._fixed)} before: sizes depend on numbers. Trainers take networks whose "
                "outputs have the same shape for all batches; otherwise call the network, compute a loss, and call backward."
            )
        else:
            self._results = results
        return self.outputs[0]

    def _graph_for(self, numbers: list[int]) -> Graph:
        """A graph that serves the numbers that were found."""
        for graph in reversed([self.graph, *self._others]):
            known = self.sizes | dict(zip(graph.sizes.computed, numbers, strict=False))
            if graph.sizes.failing(known) is None and (graph.unfinished is None or graph.has_more(numbers)):
                return graph
        made = self._again(numbers, self.shapes)
        if made.unfinished is not None and not made.has_more(numbers):
            raise made.unfinished
        self._others.append(made)
        del self._others[:-_PATHS]
        return made

    def fill_gradients(self, gradients: Sequence[Array | None]) -> None:
        """Take the gradients of the outputs; None stands for zeros."""
        self._gradients = list(gradients)

    def backward(self, *, input_gradients: bool = True) -> None:
        """Compute all gradients from those of the outputs."""
        given = self._gradients or self._fixed_gradients
        self.input_gradients = self._path.backward(given, input_gradients)
        for parameter in self.trained:
            if parameter not in self._path.graph.parameters:
                parameter.grad.fill(0)
        self._gradients = []

    # For losses and optimizers that run with it.

    @property
    def calls_forward(self) -> list[Any]:
        return [NumpyCall(self.forward)]

    @property
    def calls_of_parameters(self) -> list[Any]:
        return [NumpyCall(self.backward, input_gradients=False)]

    @property
    def lasting(self) -> list[object]:
        return [*self.inputs, *self._fixed, *self._fixed_gradients]

    @property
    def finished(self) -> dict[Parameter, int]:
        return dict.fromkeys(self.trained, 1)

    def first_not_finite(self) -> Operation | None:
        """None: operations inside of segments are not looked at."""
        return None

    def describe(self) -> Table:
        """The calls of the latest run in their order, and what finds sizes in between."""
        weights = 0 if self.training else engines.new_weights_version()
        self.forward(weights)
        rows = []
        for title, row in self._path.timed(weights):
            if row is None:
                rows.append(("forward", title, "finds sizes", "NumPy", ""))
            else:
                direction = "backward" if row.backward else "forward"
                rows.append((direction, title, name_of(row.call), row.kind, f"{1e3 * row.seconds:.3f}"))
        cuts = sum(segment.following is not None for segment in self._path.segments)
        footer = f"{len(self._path.segments)} programs, between which {cuts} operations find sizes in NumPy"
        return Table(("pass", "operation", "call", "kind", "ms"), rows, footer=footer, words=4)


def is_segmented(graph: Graph) -> bool:
    """True if sizes of a graph depend on numbers."""
    return any(operation.finds_sizes for operation in graph.operations)
