"""Networks as their ``forward`` was recorded, and the programs that run them.

``forward`` is recorded for a mode and for shapes of inputs, and again when a part of the network has changed. Other packages
ask for the graph with :func:`recorded_graph` and :func:`recording_of`, and record one of their own with
:func:`separate_graph`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .. import engines
from ..graph import recordings
from ..graph.graph import Graph, recording
from ..graph.operations import Normalization
from ..graph.parameter import Parameter, making
from ..graph.recordings import Shapes as Shapes
from ..graph.seeds import next_seed
from ..graph.structure import Structure, flatten
from ..graph.tensor import Array, Tensor

if TYPE_CHECKING:
    from .module import Module

_RECORDINGS = 16  # recordings that a network keeps, for different modes of its parts and shapes of its inputs
_IDLE_SHAPES = 8  # shapes of inputs whose programs for inference are kept, of all recordings
_KNOWN_SHAPES = 256  # shapes of inputs whose recording is found without a search


class NetworkGraph(Graph):
    """The graph that ``forward`` of a network is recorded in; ``modes`` are the modules in another mode than the graph."""

    def __init__(
        self,
        generator: np.random.RandomState,
        parts: Iterable[Module],
        *,
        frozen: bool,
        training: bool,
        modes: frozenset[Module],
    ) -> None:
        super().__init__(generator, frozen=frozen, training=training)
        self.parts = set(parts)  # the modules of the network, whose parameters are trained and saved
        self._own: set[int] = set()  # identities of their parameters
        self.modes = modes

    def mode_of(self, module: Any) -> bool:
        """The mode of a module, for ``forward`` to know: true in training."""
        self.asked_for_mode = True
        return self.training != (self._part(module) in self.modes)

    @property
    def own_mode(self) -> bool | None:
        """The mode of the module being called, if it differs from the network's; else None."""
        return not self.training if self.modes and self._part() in self.modes else None

    def _part(self, module: Module | None = None) -> Module | None:
        """The module, or the one being called, if it is a part of the network; else the innermost part that calls it."""
        called = [*self.modules, *([] if module is None else [module])]
        return next((one for one in reversed(called) if one in self.parts), None)

    def require_parts(self, module: Any) -> None:
        if module in self.parts:
            return
        strays = [part for part in module.modules() if part not in self.parts and part.has_state()]
        if strays:
            raise TypeError(_describe_stray(strays[0], module, self.modules))

    def require_own(self, parameter: Parameter) -> None:
        if id(parameter) not in self._own:
            self._own = {id(own) for part in self.parts for own in part._parameters.values()}
        if id(parameter) not in self._own:
            raise TypeError(_describe_parameter(parameter, self.modules))

    def held_arrays(self) -> Iterable[Array]:
        return (array for part in self.parts for array in vars(part).values() if isinstance(array, np.ndarray))


Recording: TypeAlias = recordings.Recording[NetworkGraph]


# Modules that run in a network that does not hold them: their parameters would be neither trained nor saved.

_DEPTH = 3  # how far lists in lists are looked through


def _describe_stray(stray: Module, called: Module, callers: Sequence[Module]) -> str:
    """A message on a module that the network does not hold. ``callers`` are the modules whose forward runs, outermost first.

    ``called`` is the module that was called: that module itself, or one that holds it.
    """
    what = type(stray).__name__
    harm = "so the network would run it, but neither train nor save its parameters."
    for caller in reversed(callers):
        who = type(caller).__name__
        for name, value in vars(caller).items():
            if name not in ("_children", "_parameters", "_buffers") and _holds(value, {stray, called}, _DEPTH):
                use = "nn.ModuleDict({...})" if isinstance(value, Mapping) else "nn.ModuleList([...])"
                if isinstance(value, (list, tuple, set, frozenset, Mapping)):
                    return (
                        f"{who}.{name} is a {type(value).__name__} that holds a {what}, {harm} Use self.{name} = {use}."
                    )
        if called in caller.children():
            return (
                f"{who}.forward puts a new {what} into the network each time it is recorded, {harm} Make it in __init__; sizes "
                "that are not known there may be left out."
            )
    who = type(callers[-1]).__name__ if callers else what
    return (
        f"{who}.forward runs a {what} that was made inside forward, or that is kept outside the network, {harm} Make it in "
        f"__init__ and keep it as an attribute: self.{what.lower()} = nn.{what}(...)."
    )


def _describe_parameter(parameter: Parameter, callers: Sequence[Module]) -> str:
    """A message on a parameter that an expression uses and no module holds."""
    who = type(callers[-1]).__name__ if callers else "The network"
    return (
        f"{who}.forward uses {parameter!r}, which no module of the network holds, so it would be neither trained nor saved. Make "
        "it in __init__ and keep it as an attribute: self.scale = nn.Parameter(...)."
    )


def _holds(value: Any, wanted: set[Module], depth: int) -> bool:
    """True if a list, tuple, set or dictionary, nested or not, holds one of these modules."""
    if not isinstance(value, (list, tuple, set, frozenset, Mapping)) or not depth:
        return False
    entries: Iterable[Any] = value.values() if isinstance(value, Mapping) else value
    return any(any(entry is module for module in wanted) or _holds(entry, wanted, depth - 1) for entry in entries)


# The recordings of a network.


def _serves(graph: NetworkGraph, training: bool, modes: frozenset[Module]) -> bool:
    """True if ``forward`` does the same in such a pass.

    If no module has another mode than the pass, and ``forward`` has not asked for one, a graph serves training and inference.
    """
    same = graph.training == training or not (graph.modes or graph.asked_for_mode)
    return same and graph.modes == modes


def recording_of(network: Module, training: bool, shapes: Shapes | None = None, seed: int | None = None) -> Recording:
    """The recording of a pass in this mode on inputs of these shapes, made now if there is none yet.

    Without ``shapes`` they are those that the network was built with; ``seed`` is for the parameters that are made.
    """
    by_shapes, surrounding = network._recordings_by_shapes, engines.arithmetic()
    if shapes is None:
        shapes = input_shapes(network)
    looked_up = by_shapes.get((training, shapes))
    if looked_up is not None and looked_up[0] == surrounding:
        return looked_up[1]
    arithmetic = network._arithmetic(surrounding)
    with making:
        for module in network.modules():
            module._held_by(network)
        version, modes = network._forward_version, modes_of(network, training)
        before = network._built
        current = [r for r in network._recordings if r.version is version and r.arithmetic == arithmetic]
        known = next(
            (r for r in reversed(current) if _serves(r.graph, training, modes) and r.sizes_of(shapes) is not None), None
        )
        if known is None:
            try:
                known = _record(network, training, modes, shapes, seed, version, arithmetic)
            except (ValueError, TypeError, IndexError) as error:
                if before is None or before.sizes_of(shapes) is not None:
                    raise
                raise type(error)(network._misfit(before, shapes, error)) from error
        else:
            current.remove(known)
        network._recordings = [*current, known][-_RECORDINGS:]
        room, budget = _IDLE_SHAPES, recordings.IDLE_BYTES
        for recorded in reversed(network._recordings):
            left, taken = recorded.forget_idle(max(room, 0), budget)
            room, budget = room - left, budget - taken
        if before is None or before not in current:
            network._built = known
    if network._training == training:
        if len(by_shapes) >= _KNOWN_SHAPES:
            by_shapes.clear()
        by_shapes[training, shapes] = surrounding, known  # not read any more if something has changed meanwhile
    return known


def recorded_graph(network: Module) -> NetworkGraph:
    """The graph of a network that is built."""
    return _first_recording(network).graph


def input_shapes(network: Module, samples: int | None = None) -> Shapes:
    """The shapes of the inputs that a network was built with, or with so many samples in place of free sizes."""
    graph = recorded_graph(network)
    numbers = graph.sizes.numbers if samples is None else graph.sizes_for(samples)
    return tuple(value.concrete(numbers) for value in graph.inputs)


def latest_input_shapes(network: Module) -> Shapes:
    """The shapes of the inputs that a network met last."""
    return network._recordings[-1].latest_shapes()


def forget_recordings(network: Module) -> None:
    """Forget everything that was recorded, as if sizes were not known yet."""
    network._forget_recordings()


def _first_recording(network: Module) -> Recording:
    if network._built is None:
        raise RuntimeError(
            f"{network._who}: sizes are not known yet. Call build(sample_shape), or run one batch first."
        )
    return network._built


def _record(
    network: Module,
    training: bool,
    modes: frozenset[Module],
    shapes: Shapes,
    seed: int | None,
    version: object,
    arithmetic: engines.Arithmetic,
) -> Recording:
    if network._built is None and seed is None:
        for parameter in network.parameters():
            if parameter.sized:
                parameter.make(parameter.shape)
    if seed is None:
        # From the generator of the first recording: its seed decides all later draws, and none is repeated.
        built = network._built
        seed = next_seed() if built is None else int(built.graph.generator.randint(2**32, dtype=np.uint32))
    structures: list[Structure] = []

    def record(numbers: Sequence[int], shapes: Shapes = shapes) -> NetworkGraph:
        graph, outputs, structure = trace(network, shapes, seed, training=training, modes=modes, numbers=numbers)
        graph.arithmetic = arithmetic
        with making, engines.using_arithmetic(arithmetic):
            graph.finish(outputs)
        structures.append(structure)
        return graph

    graph = record(())
    for parameter in network.parameters():
        parameter.reseed(graph.generator)  # for parameters that forward does not use

    def again(numbers: Sequence[int], met: Shapes) -> NetworkGraph:
        made = record(numbers, met)  # other numbers may come with other sizes, which alone they are possible with
        same = [str(v.shape) for v in made.inputs] == [str(v.shape) for v in graph.inputs]
        return made if same else record(numbers)

    return Recording(graph, structures[0], version=version, arithmetic=arithmetic, again=again)


def separate_graph(
    network: Module, shapes: Shapes, *, training: bool, batch_normalization: Any = None
) -> tuple[NetworkGraph, Structure]:
    """Record ``forward`` on inputs of these shapes, with layers of its own, and how it gives its values.

    The network itself stays as it is, but for parameters that are made now. ``batch_normalization`` takes the place of the
    operation of that name.
    """
    with making:
        graph, outputs, structure = trace(network, shapes, training=training, batch_normalization=batch_normalization)
        graph.arithmetic = network._arithmetic(engines.arithmetic())
        with engines.using_arithmetic(graph.arithmetic):
            graph.finish(outputs)
    return graph, structure


def trace(
    network: Module,
    shapes: Shapes,
    seed: int = 0,
    *,
    training: bool,
    modes: frozenset[Module] | None = None,
    numbers: Sequence[int] = (),
    batch_normalization: Any = None,
    every_way: bool = False,
) -> tuple[NetworkGraph, list[Tensor], Structure]:
    """The same before anything is fused, without layers; and the values that ``forward`` gives.

    ``numbers`` are known ones of those that runs compute, in their order. With ``every_way`` the graph is for a file, and holds
    all ways that runs may take.
    """
    with making:
        modes = modes_of(network, training) if modes is None else modes
        graph = NetworkGraph(
            np.random.RandomState(seed), network.modules(), frozen=network._frozen, training=training, modes=modes
        )
        graph.known_numbers, graph.every_way = numbers, every_way
        if batch_normalization is not None:
            graph.batch_normalization = batch_normalization
        values = [graph.input(shape) for shape in network._with_free_sizes(shapes, graph.sizes)]
        with recording(graph):
            output = network(*values)
    outputs, structure = flatten(output)
    wrong = next((type(value).__name__ for value in outputs if not isinstance(value, Tensor)), None)
    if wrong or not outputs:
        raise TypeError(
            f"{network._who}.forward returned a {wrong or type(output).__name__}, but it must return the value that its last "
            "module returned, or a tuple, list or dictionary of values."
        )
    return graph, outputs, structure


def modes_of(network: Module, training: bool) -> frozenset[Module]:
    """The modules that are in another mode than the network in a pass of this mode.

    A network in that mode is taken as it is. One in the other mode would first have to be put into it, with ``train()`` or
    ``eval()``, and is taken as these would leave it.
    """
    modules = list(network.modules())
    if network._training == training:
        return frozenset(module for module in modules if module._training != training)
    if not any(module._chooses_modes() for module in modules):
        return frozenset()
    before = [module._training for module in modules]
    try:
        network.train(training)
        return modes_of(network, training) if network._training == training else frozenset()
    finally:
        for module, mode in zip(modules, before, strict=True):
            module.training = mode


# Runs that leave a network as it is.


@contextmanager
def untouched(network: Module, dtype: type[np.floating[Any]] = np.float32) -> Iterator[None]:
    """In the block, parameters have gradients of their own, and data of this type."""
    with ExitStack() as stack:
        for parameter in network.parameters():
            stack.enter_context(parameter.apart(dtype))
        yield


@contextmanager
def same_statistics(graph: Graph) -> Iterator[None]:
    """Put the moving statistics back after the block."""
    normalizations = [
        op if isinstance(op, Normalization) else getattr(op, "normalization", None) for op in graph.operations
    ]
    arrays = [
        a
        for n in normalizations
        if n is not None
        for a in (n.type.moving_mean, n.type.moving_variance)
        if a is not None
    ]
    before = [array.copy() for array in arrays]
    try:
        yield
    finally:
        for array, numbers in zip(arrays, before, strict=True):
            array[...] = numbers
