"""Construction of networks: assignment of parts, sizes of parameters, and recording of ``forward``."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from .. import engines
from .._plural import plural
from ..graph.graph import Graph, current_graph, recording
from ..graph.memory import Arena
from ..graph.parameter import Parameter, making, requiring_gradients
from ..graph.program import Program
from ..graph.seeds import next_seed, seed_number
from ..graph.sizes import AnySize, FreeSizes, is_same_shape
from ..graph.structure import Structure, flatten
from ..graph.tensor import Array, Tensor
from ._state import State
from ._turns import Worker
from .network_graph import NetworkGraph
from .recording import Recording, Shapes

if TYPE_CHECKING:
    from .files.layer_file import ParameterBudget
    from .files.model_file import ModelCard
    from .module import Module, TrainingPass

_SomeBuilding = TypeVar("_SomeBuilding", bound="Building")

_PROGRAMS = 4  # programs for training that one recording keeps
_RECORDINGS = 16  # recordings that a network keeps, for different modes of its parts and shapes of its inputs
_IDLE_SHAPES = 8  # shapes of inputs whose programs for inference are kept
_KNOWN_SHAPES = 256  # shapes of inputs whose recording is found without a search
_SOME_SAMPLES = 7  # the batch size to record with if none is known; other sizes are rarely 7
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def _nothing_built() -> dict[str, Any]:
    """The state of a network that has no recordings and calls yet."""
    return {
        "_built": None,  # the first recording of the present version
        "_recordings": [],  # recordings of the present version, the latest at the end
        "_found_recordings": {},  # the same by training and shapes of the inputs, as long as no mode changes
        "_forward_version": object(),  # replaced as soon as something changes that ``forward`` may have read
        "_latest": None,  # the latest pass in training mode, until its backward pass
        "_overtaken": weakref.WeakKeyDictionary(),  # threads whose pass in training mode another one has ended
        "_arena": Arena(),  # memory of programs for training
        "_calls": [],  # forms of calls other than arrays in a row: _arguments.py
        "_holders": {},  # built networks that contain it, itself included, by identity
    }


_NOT_COPIED = frozenset((*_nothing_built(), "_turn"))
_NEVER_READ = _NOT_COPIED | {"_accuracy", "_card", "_frozen", "_made_with", "_precision", "_programs_kept", "_who"}
"""Attributes that ``forward`` does not read."""


class Building(State):
    """The construction of a module: assignment of parts, sizes of parameters, and recording."""

    _programs_kept = _PROGRAMS
    _frozen = False  # whether it is a copy for inference only: see compile_inference
    _budget: ParameterBudget | None = None  # for the parameters of a network that a file describes
    _names_nodes: ClassVar[bool] = False  # whether its ``forward`` names what it calls, as the nodes of a file
    _is_container: ClassVar[bool] = False  # whether it is nothing but the modules it holds, which may be replaced

    def __init__(self) -> None:
        self.__dict__.update(_children={}, _parameters={}, _buffers={}, _training=True)
        self._begin()
        self._accuracy: str | None = None  # accuracy of its filters; None: that of the process
        self._precision = engines.FLOAT32  # of products in its filters
        self._who = type(self).__name__  # in messages about calls
        self._card: ModelCard | None = None  # what a model file says about it

    def _begin(self) -> None:
        """Forget everything that was built."""
        self.__dict__.update(_nothing_built())

    _training: bool
    _built: Recording | None
    _latest: TrainingPass | None
    _overtaken: weakref.WeakKeyDictionary[Worker, str]
    _arena: Arena
    _calls: list[Any]
    _recordings: list[Recording]
    _found_recordings: dict[tuple[bool, Shapes], Recording]
    _forward_version: object
    _holders: dict[int, weakref.ref[Building]]

    def __setattr__(self, name: str, value: Any) -> None:
        if "_children" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__}.{name}: call super().__init__() first in __init__.")
        old = self.__dict__.get(name, self)
        if name == "training":
            super().__setattr__(name, value)
            return
        if isinstance(value, Parameter):
            self._children.pop(name, None)
            self._replace(self._parameters, name, value)
        elif isinstance(value, State):
            self._parameters.pop(name, None)
            self._replace(self._children, name, value)
        elif name in self._parameters:
            if value is not None:
                raise TypeError(
                    f"{type(self).__name__}.{name} is a Parameter. To change its values, assign to {name}.data; to "
                    "replace it, assign another nn.Parameter."
                )
            self._replace(self._parameters, name, None)
        elif name in self._children:
            if value is not None:
                raise TypeError(
                    f"{type(self).__name__}.{name} is a module, but {value!r} is not. To replace it, assign another module; "
                    "to remove it, None."
                )
            self._replace(self._children, name, None)
        elif name in self._buffers:
            self._buffers[name][...] = value  # filters hold its memory
            return
        super().__setattr__(name, value)
        if self._holders and self._is_read(name) and not _is_same(old, value):
            self._changed()

    def __delattr__(self, name: str) -> None:
        tables: list[dict[str, Any]] = [self._parameters, self._children, self._buffers]
        held = [table for table in tables if name in table]
        for table in held:
            self._replace(table, name, None)
        if name in self.__dict__ or not held:
            super().__delattr__(name)
        self._changed()

    def _is_read(self, name: str) -> bool:
        """True if ``forward`` may read this attribute."""
        ours = type(self).__module__.startswith("openbnns.")
        return not (name.startswith("_") and (ours or name in _NEVER_READ))

    def _replace(self, parts: dict[str, Any], name: str, new: Any) -> None:
        """Put a part in its place, or with None remove it."""
        old = parts.get(name)
        attribute = old is not None and self.__dict__.get(name) is old
        if new is None:
            parts.pop(name, None)
            if attribute:
                del self.__dict__[name]
        else:
            parts[name] = new
            if attribute:
                self.__dict__[name] = new
        if old is not new:
            self._changed()

    def _changed(self) -> None:
        """Let the networks that hold this module record again at their next call."""
        for network in self._networks():
            network.__dict__["_forward_version"] = (
                object()
            )  # first: who then finds a recording, finds that it is an old one
            network.__dict__["_found_recordings"] = {}

    def _mode_changed(self) -> None:
        """Let the networks that hold this module look for the recording of its mode."""
        for network in self._networks():
            network.__dict__["_found_recordings"] = {}

    def _networks(self) -> list[Building]:
        """The networks that a change of this module concerns: none, if their ``forward`` makes it."""
        if not self._holders or current_graph() is not None:
            return []
        return [network for network in (holder() for holder in list(self._holders.values())) if network is not None]

    def _held_by(self, network: Building) -> None:
        """Notify a network of every change from now on."""
        holders, key = self._holders, id(network)
        if key not in holders:
            holders[key] = weakref.ref(network, lambda _: holders.pop(key, None))

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: everything but what was built, which is made again from the shapes of the inputs."""
        state = {name: value for name, value in self.__dict__.items() if name not in _NOT_COPIED}
        return {**state, "_graph": None if self._built is None else self._input_shapes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = dict(state)
        shapes = own.pop("_graph")
        own.setdefault("_training", own.pop("training", True))  # as earlier versions have it
        self.__dict__.update(own)
        self._begin()
        if shapes is not None:
            self._recording(self._training, shapes)

    def register_buffer(self, name: str, array: Array) -> None:
        """Keep an array that is saved with the parameters but not trained, such as a moving mean."""
        self._buffers[name] = array
        super().__setattr__(name, array)

    # Parameters.

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
        """First values of a parameter that this layer has made with ``Parameter.of``."""
        raise NotImplementedError

    def _shape_of(self, name: str) -> tuple[int, ...] | None:
        """The shape of a parameter that this layer has made with ``Parameter.of``; None if sizes are not known yet."""
        return None

    def _fit_optional(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Parameter | None:
        """The parameter, if the layer has it, made now if it has no values yet; refused if it has another shape."""
        parameter = self._parameters.get(name)
        if parameter is None:
            return None
        parameter.make(shape, generator)
        parameter.used = True
        if parameter.shape != shape:
            raise ValueError(
                f"{type(self).__name__}.{name}: has shape {parameter.shape}, but {shape} is needed here. A parameter that layers "
                "share, or that is put in place of another, must fit the sizes of the layer."
            )
        return parameter

    def _fit(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Parameter:
        parameter = self._fit_optional(name, shape, generator)
        if parameter is None:
            raise ValueError(f"{type(self).__name__}.{name}: is None. Assign an nn.Parameter of shape {shape}.")
        return parameter

    # Recording.

    @property
    def built(self) -> bool:
        """True if all sizes are known, so that the module can be run."""
        return self._built is not None

    @property
    def _graph(self) -> Graph | None:
        """The graph of the network; None as long as sizes are not known."""
        return None if self._built is None else self._built.graph

    @property
    def _structure(self) -> Structure | None:
        """The structure of the values that ``forward`` gives."""
        return None if self._built is None else self._built.structure

    def build(self: _SomeBuilding, *input_shapes: Sequence[int] | int, seed: int | None = None) -> _SomeBuilding:
        """Infer all sizes and make the parameters. ``input_shapes`` are those of one sample, without the batch axis.

        With ``seed`` the initial weights are the same on every machine; only those that were read, set or loaded
        before stay as they are. Called on its own by the first call with an array; calling it again with the same
        shapes changes nothing.
        """
        samples = [(s,) if isinstance(s, int) else tuple(s) for s in input_shapes]
        built = self._built
        if built is not None and built.version is self._forward_version:
            known = [value.shape[1:] for value in built.graph.inputs]
            if len(known) == len(samples) and all(map(is_same_shape, known, samples)):
                return self
        number = None if seed is None else seed_number(seed, f"{type(self).__name__}.build: seed")
        self._recording(self._training, tuple((_SOME_SAMPLES, *sample) for sample in samples), number)
        return self

    def _input_shapes(self, samples: int | None = None) -> Shapes:
        """The shapes of the inputs that the network was built with, or with so many samples in place of free sizes."""
        assert self._built is not None
        graph = self._built.graph
        numbers = graph.sizes.numbers if samples is None else graph.sizes_for(samples)
        return tuple(value.concrete(numbers) for value in graph.inputs)

    def _recording(self, training: bool, shapes: Shapes | None = None, seed: int | None = None) -> Recording:
        """The recording of a pass in this mode on inputs of these shapes, made now if there is none yet.

        Without ``shapes`` they are those that the network was built with; ``seed`` is for the parameters that are made.
        """
        found, arithmetic = self._found_recordings, self._arithmetic()
        if shapes is None:
            assert self._built is not None
            shapes = self._input_shapes()
        known = found.get((training, shapes))
        if known is not None and known.arithmetic == arithmetic:
            return known
        with making:
            for module in self.modules():
                module._held_by(self)
            version, modes = self._forward_version, self._modes(training)
            before = self._built
            current = [r for r in self._recordings if r.version is version and r.arithmetic == arithmetic]
            known = next(
                (r for r in reversed(current) if r.serves(training, modes) and r.sizes_of(shapes) is not None), None
            )
            if known is None:
                try:
                    known = self._record_forward(training, modes, shapes, seed, version, arithmetic)
                except (ValueError, TypeError, IndexError) as error:
                    if before is None or before.sizes_of(shapes) is not None:
                        raise
                    raise type(error)(self._misfit(before, shapes, error)) from error
            else:
                current.remove(known)
            self._recordings = [*current, known][-_RECORDINGS:]
            room = _IDLE_SHAPES
            for recorded in reversed(self._recordings):
                room -= recorded.forget_idle(room)
            if before is None or before not in current:
                self._built = known
        if self._training == training:
            if len(found) >= _KNOWN_SHAPES:
                found.clear()
            found[training, shapes] = known  # which is not read any more if something has changed meanwhile
        return known

    def _arithmetic(self) -> engines.Arithmetic:
        return engines.Arithmetic(self._accuracy or engines.accuracy(), self._precision)

    def _misfit(self, built: Recording, shapes: Shapes, error: Exception) -> str:
        """The message for inputs that a network, built for others, does not take."""
        wanted = [value.shape for value in built.graph.inputs]
        pairs = zip(shapes, wanted, strict=False)
        index = next((i for i, (shape, known) in enumerate(pairs) if not is_same_shape(shape[1:], known[1:])), 0)
        if len(shapes) != len(wanted):
            return f"{self._who}: {plural(len(shapes), 'input')} given, but the network was built for {len(wanted)}. {error}"
        shape, known = shapes[index], wanted[index]
        cure = " For one sample pass x[None]." if is_same_shape(shape, known[1:]) else ""
        return (
            f"{self._who}: input {index} has shape {shape}, but the network is built for {known}, and forward does not take "
            f"the other: {error} The first axis is the batch.{cure}"
        )

    def _record_forward(
        self,
        training: bool,
        modes: frozenset[Module],
        shapes: Shapes,
        seed: int | None,
        version: object,
        arithmetic: engines.Arithmetic,
    ) -> Recording:
        if self._built is None and seed is None:
            for parameter in self.parameters():
                if parameter.sized:
                    parameter.make(parameter.shape)
        if seed is None:
            # From the generator of the first recording: its seed decides all later draws, and none is repeated.
            seed = (
                next_seed() if self._built is None else int(self._built.graph.generator.randint(2**32, dtype=np.uint32))
            )
        structures: list[Structure] = []

        def record(numbers: Sequence[int]) -> NetworkGraph:
            graph, outputs, structure = self._traced_apart(
                shapes, seed, training=training, modes=modes, numbers=numbers
            )
            graph.arithmetic = arithmetic
            with making, engines.using_arithmetic(arithmetic):
                graph.finish(outputs)
            structures.append(structure)
            return graph

        graph = record(())
        for parameter in self.parameters():
            parameter.reseed(graph.generator)  # for parameters that forward does not use
        return Recording(graph, structures[0], version=version, arithmetic=arithmetic, again=record)

    def _traced(self, shapes: Shapes, seed: int = 0, *, training: bool) -> tuple[NetworkGraph, Structure]:
        """Record ``forward`` on inputs of these shapes, with layers of its own, and how it gives its values.

        The network itself stays as it is, but for parameters that are made now, from the seed.
        """
        with making:
            graph, outputs, structure = self._traced_apart(shapes, seed, training=training)
            graph.arithmetic = self._arithmetic()
            with engines.using_arithmetic(graph.arithmetic):
                graph.finish(outputs)
        return graph, structure

    def _traced_apart(
        self,
        shapes: Shapes,
        seed: int = 0,
        *,
        training: bool,
        modes: frozenset[Module] | None = None,
        numbers: Sequence[int] = (),
    ) -> tuple[NetworkGraph, list[Tensor], Structure]:
        """The same before anything is fused, without layers; and the values that ``forward`` gives.

        ``numbers`` are known ones of those that runs compute, in their order.
        """
        with making:
            graph = self._empty_graph(seed, training, modes)
            graph.known_numbers = numbers
            values = [graph.input(shape) for shape in self._with_free_sizes(shapes, graph.sizes)]
            module: Any = self
            with recording(graph):
                output = module(*values)
        outputs, structure = flatten(output)
        wrong = next((type(value).__name__ for value in outputs if not isinstance(value, Tensor)), None)
        if wrong or not outputs:
            raise TypeError(
                f"{self._who}.forward gave a {wrong or type(output).__name__}, but it must give the value that its last module "
                "returned, or a tuple, list or dictionary of values."
            )
        return graph, outputs, structure

    def _with_free_sizes(self, shapes: Shapes, free: FreeSizes) -> list[Sequence[AnySize]]:
        """The shapes of inputs with free sizes in place of some numbers: of the first axis of each.

        Inputs with the same number of samples have the same free size.
        """
        names = {shape[0]: f"N{i}" if i else "N" for i, shape in reversed(list(enumerate(shapes))) if shape}
        free.numbers.update({name: number for number, name in names.items()})
        return [(free.size(names[shape[0]]), *shape[1:]) if shape else () for shape in shapes]

    def _empty_graph(self, seed: int, training: bool, modes: frozenset[Module] | None = None) -> NetworkGraph:
        """A graph for passes of this mode, to record ``forward`` in."""
        return NetworkGraph(
            np.random.RandomState(seed),
            self.modules(),
            frozen=self._frozen,
            training=training,
            modes=self._modes(training) if modes is None else modes,
        )

    def _modes(self, training: bool) -> frozenset[Module]:
        """The modules that are in another mode than this one in a pass of this mode.

        A network in that mode is taken as it is. One in the other mode would first have to be put into it, with ``train()`` or
        ``eval()``, and is taken as these would leave it.
        """
        modules = list(self.modules())
        if self._training == training:
            return frozenset(module for module in modules if module._training != training)
        if not any(module._chooses_modes() for module in modules):
            return frozenset()
        before = [module._training for module in modules]
        own: Any = self
        try:
            own.train(training)
            return self._modes(training) if self._training == training else frozenset()
        finally:
            for module, mode in zip(modules, before, strict=True):
                module.training = mode

    def _chooses_modes(self) -> bool:
        """True if its class overrides ``train`` or ``eval``."""
        raise NotImplementedError

    def _weights_version(self) -> int:
        """The version of the parameters of inference, for native code (``CallList.run``); 0 if writes to them cannot be seen."""
        return 0 if self._built is None else self._recording(False).weights_version()

    def program(self, inputs: int | Shapes, *, training: bool, input_gradients: bool = False) -> Program:
        """The network with memory for inputs of these shapes, or for so many samples; the last few are kept."""
        shapes = self._input_shapes(inputs) if isinstance(inputs, int) else inputs
        found = self._recording(training, shapes)
        key = shapes, training, input_gradients, requiring_gradients(found.graph.parameters) if training else ()
        with making:
            program = found.kept(key)
            if program is None:
                program = found.make(key, self._arena)
                room = self._programs_kept
                for known in [found, *(r for r in reversed(self._recordings) if r is not found)]:
                    room -= known.forget(room)
        return program


def _is_same(old: Any, new: Any) -> bool:
    """True if a plain value was replaced by an equal one; any other may have changed, even if it is the same object."""
    if isinstance(new, tuple) and isinstance(old, tuple):
        return len(old) == len(new) and all(map(_is_same, old, new))
    return type(old) is type(new) and type(new) in _PLAIN and bool(old == new)
