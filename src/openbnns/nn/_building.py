"""Making a network: parts that are assigned, parameters that get their sizes, and the record of ``forward``."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from .. import engines
from ._graph import Graph, recording
from ._program import Program
from ._random import next_seed
from ._state import State
from ._structure import Structure, flatten
from ._value import Array, Value
from .choose import seed_number
from .parameter import Parameter, version_of

if TYPE_CHECKING:
    from ._description import ParameterBudget
    from .model_file import ModelCard
    from .module import Module

_SomeBuilding = TypeVar("_SomeBuilding", bound="Building")

_TABLES = ("_children", "_parameters", "_buffers")
_PROGRAMS = 4  # batch sizes and modes whose memory is kept at a time


_replacements = 0
"""How often a module, a parameter or an option of a layer has taken the place of another, in any network."""


class Building(State):
    """What a module does until it can run."""

    _programs_kept = _PROGRAMS
    # The version of the parameters that native code knows, and its number there.
    _known_weights: tuple[tuple[int, int], int] | None = None
    _frozen = False  # whether it is a copy for inference only: see compile_inference
    _budget: ParameterBudget | None = None  # for the parameters of a network that a file describes
    _is_container: ClassVar[bool] = False  # whether it is nothing but the modules it holds, which may be replaced

    def __init__(self) -> None:
        self._children: dict[str, Module] = {}
        self._parameters: dict[str, Parameter] = {}
        self._buffers: dict[str, Array] = {}
        self._graph: Graph | None = None
        self._programs: OrderedDict[tuple[Any, ...], Program] = OrderedDict()
        self._structure: Structure | None = None  # in which forward gives its values
        self._latest: Program | None = None
        self._latest_structure: Structure | None = None  # of its outputs
        self._recorded: tuple[int, str] = (0, "")
        self._accuracy: str | None = None  # of its filters; None: what the process has chosen
        self._who = type(self).__name__  # in messages about calls
        self._card: ModelCard | None = None  # what a model file says about it
        self._in_use = False  # whether a network that holds it was built, so that changes to it concern that network
        self.training = True

    def __setattr__(self, name: str, value: Any) -> None:
        if "_children" not in self.__dict__ and name != "_children":
            raise AttributeError(f"{type(self).__name__}.{name}: call super().__init__() first in __init__.")
        if isinstance(value, Parameter):
            self._children.pop(name, None)
            self._replace(self._parameters, name, value)
        elif isinstance(value, State):
            self._parameters.pop(name, None)
            self._replace(self._children, name, value)
        elif name in _TABLES:
            pass
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
                    f"{type(self).__name__}.{name} is a module, and {value!r} is none. To replace it, assign another module; "
                    "to remove it, None."
                )
            self._replace(self._children, name, None)
        elif name in self._buffers:
            self._buffers[name][...] = value  # filters hold its memory
            return
        elif self._is_option(name, value):
            self._replace(self.__dict__, name, value)
            return
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        tables: list[dict[str, Any]] = [self._parameters, self._children, self._buffers]
        held = [table for table in tables if name in table]
        for table in held:
            self._replace(table, name, None)
        if name in self.__dict__ or not held:
            super().__delattr__(name)

    def _is_option(self, name: str, value: Any) -> bool:
        """Whether this sets an option of one of our layers, such as ``momentum``, to another value than it had."""
        old = self.__dict__.get(name)
        ours = type(self).__module__.startswith(__package__) and not name.startswith("_")
        return ours and name != "training" and isinstance(old, (int, float, str, tuple)) and old != value

    def _replace(self, parts: dict[str, Any], name: str, new: Any) -> None:
        """Put a part in its place, or with None remove it; networks that use this one record again at their next call."""
        global _replacements
        old = parts.get(name)
        attribute = old is not None and self.__dict__.get(name) is old
        if self._in_use and old is not new:
            _replacements += 1
        if new is None and parts is not self.__dict__:
            parts.pop(name, None)
            if attribute:
                del self.__dict__[name]
        else:
            parts[name] = new
            if attribute:
                self.__dict__[name] = new

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: everything but what was built, which is made again from the shapes of the inputs."""
        shapes = None if self._graph is None else [value.sample for value in self._graph.inputs]
        made: dict[str, Any] = {
            "_graph": shapes,
            "_programs": OrderedDict(),
            "_latest": None,
            "_calls": [],
            "_known_weights": None,
        }
        return {**self.__dict__, **made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        shapes = state["_graph"]
        self.__dict__.update(state, _graph=None)
        if shapes is not None:
            self.build(*shapes)

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
        """Whether all sizes are known, so that it can be run."""
        return self._graph is not None

    def build(self: _SomeBuilding, *input_shapes: Sequence[int] | int, seed: int | None = None) -> _SomeBuilding:
        """Infer all sizes and make the parameters. ``input_shapes`` are those of one sample, without the batch axis.

        With ``seed`` the initial weights are the same on every machine; only those that somebody has looked at, set or
        loaded before stay as they are. Called on its own by the first call with an array; calling it again with the same
        shapes changes nothing.
        """
        shapes = [(s,) if isinstance(s, int) else tuple(s) for s in input_shapes]
        if self._graph is not None and self._recorded != self._recording():
            self._graph, self._latest = None, None
            self._programs.clear()
        if self._graph is not None:
            if [v.sample for v in self._graph.inputs] != shapes:
                built = ", ".join(str(v.sample) for v in self._graph.inputs)
                raise ValueError(
                    f"{type(self).__name__}.build: the network is built for samples of {built}, not "
                    f"{', '.join(map(str, shapes))}. Make a new network for other sizes."
                )
            return self
        number = None if seed is None else seed_number(seed, f"{type(self).__name__}.build: seed")
        if number is None:
            for parameter in self.parameters():
                if parameter.sized:
                    parameter.make(parameter.shape)
        graph, structure = self._traced(shapes, next_seed() if number is None else number)
        for parameter in self.parameters():
            parameter.reseed(graph.generator)  # those that forward has no use for
        self._graph, self._recorded, self._structure = graph, self._recording(), structure
        for module in graph.parts:
            module._in_use = True
        return self

    def _traced(self, shapes: Sequence[tuple[int, ...]], seed: int = 0) -> tuple[Graph, Structure]:
        """What ``forward`` does on samples of these shapes, with layers of its own, and how it gives its values.

        The network itself stays as it is, but for parameters that are made now, from the seed.
        """
        graph, outputs, structure = self._traced_apart(shapes, seed)
        with engines.using_accuracy(self._recording()[1]):
            graph.finish(outputs)
        return graph, structure

    def _traced_apart(self, shapes: Sequence[tuple[int, ...]], seed: int = 0) -> tuple[Graph, list[Value], Structure]:
        """The same before anything is fused, without layers; and the values that ``forward`` gives."""
        global _replacements
        graph = Graph(np.random.RandomState(seed), self.modules(), frozen=self._frozen)
        values = [graph.input(shape) for shape in shapes]
        replacements = _replacements
        module: Any = self
        with recording(graph):
            output = module(*values)
        _replacements = replacements  # sizes that layers note while they are recorded concern no other network
        outputs, structure = flatten(output)
        wrong = next((type(value).__name__ for value in outputs if not isinstance(value, Value)), None)
        if wrong or not outputs:
            raise TypeError(
                f"{self._who}.forward gave a {wrong or type(output).__name__}, but it must give the value that its last module "
                "returned, or a tuple, list or dictionary of values."
            )
        return graph, outputs, structure

    def _recording(self) -> tuple[int, str]:
        """What a graph depends on besides the shapes: when it changes, the network is recorded again."""
        return _replacements, self._accuracy or engines.accuracy()

    def _weights_version(self) -> int:
        """The version of the parameters, for native code (``Steps.run``); 0 while writes to them cannot be seen."""
        if self._graph is None or engines._core is None:
            return 0
        version = version_of(self._graph.parameters)
        if version is None:
            return 0
        if self._known_weights is None or self._known_weights[0] != version:
            self._known_weights = version, engines._core.new_weights_version()
        return self._known_weights[1]

    def program(self, batch: int, *, training: bool, input_gradients: bool = False) -> Program:
        """The network with memory for this batch size; the last few are kept."""
        assert self._graph is not None
        if self._recorded != self._recording():
            self.build(*(value.sample for value in self._graph.inputs))
        trained = tuple([p._requires_grad for p in self._graph.parameters]) if training else ()
        key = (batch, training, input_gradients, trained)
        program = self._programs.pop(key, None)
        if program is None:
            program = Program(self._graph, batch, training=training, input_gradients=input_gradients)
        self._programs[key] = program
        while len(self._programs) > self._programs_kept:
            self._programs.popitem(last=False)
        return program
