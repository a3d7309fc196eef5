"""Networks: modules that hold parameters and other modules, and run forward and backward.

A module describes its work by calling other modules on values in ``forward``::

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.act, self.two = nn.Linear(64), nn.ReLU(), nn.Linear(64)

        def forward(self, x):
            return x + self.two(self.act(self.one(x)))

Layers whose sizes are given have their parameters from the start, others when the first call on an array tells all sizes.
From there on calls reuse memory that was planned once per batch size.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import BoundArguments, signature
from textwrap import indent
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from .. import engines
from .._spelling import spelled
from ._graph import Graph, current_graph, recording
from ._parts import is_plain
from ._program import Program
from ._random import next_seed
from ._structure import Structure, flatten
from ._tree import Tree
from ._value import Array, Value
from .choose import seed_number
from .parameter import Mismatch, Parameter, as_float_array

if TYPE_CHECKING:
    from .profiling import Profile
    from .summary import Summary

_SomeModule = TypeVar("_SomeModule", bound="Module")

_TABLES = ("_children", "_parameters", "_buffers")
_PROGRAMS = 4  # batch sizes and modes whose memory is kept at a time


_replacements = 0
"""How often a module, a parameter or an option of a layer has taken the place of another, in any network."""


class Module(Tree):
    """Base of all networks and layers. A subclass makes its parts in ``__init__`` and joins them in ``forward``.

    ``module(x)`` runs it on an array (N, ...); ``module.backward(dy)`` gives the gradient of x and fills every ``grad``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> class Twice(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.linear = nn.Linear(3, bias=False)
    ...     def forward(self, x):
    ...         return x + self.linear(self.linear(x))
    >>> net = Twice().build((3,), seed=0)
    >>> y = net(np.ones((5, 3), np.float32))
    >>> net.backward(y).shape, [name for name, parameter in net.named_parameters()]
    ((5, 3), ['linear.weight'])
    """

    _programs_kept = _PROGRAMS

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith(__package__):
            for name in {"__init__", "forward"} & cls.__dict__.keys():
                setattr(cls, name, spelled(cls.__dict__[name]))

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
        self._in_use = False  # whether a network that holds it was built, so that changes to it concern that network
        self.training = True

    def __setattr__(self, name: str, value: Any) -> None:
        if "_children" not in self.__dict__ and name != "_children":
            raise AttributeError(f"{type(self).__name__}.{name}: call super().__init__() first in __init__.")
        if isinstance(value, Parameter):
            self._children.pop(name, None)
            self._replace(self._parameters, name, value)
        elif isinstance(value, Module):
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

    def add_module(self, name: str, module: Module) -> None:
        """The same as assigning to an attribute of that name, for names that are computed."""
        check_module(module, f"{type(self).__name__}.add_module: {name}")
        setattr(self, name, module)

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: everything but what was built, which is made again from the shapes of the inputs."""
        shapes = None if self._graph is None else [value.sample for value in self._graph.inputs]
        return {**self.__dict__, "_graph": shapes, "_programs": OrderedDict(), "_latest": None, "_calls": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        shapes = state["_graph"]
        self.__dict__.update(state, _graph=None)
        if shapes is not None:
            self.build(*shapes)

    def register_buffer(self, name: str, array: Array) -> None:
        """Keep an array that is saved with the parameters but not trained, such as a moving mean."""
        self._buffers[name] = array
        super().__setattr__(name, array)

    # Description.

    def forward(self, *inputs: Any) -> Any:
        """Join the parts: values in, a value out, or several. Recorded once, not run at every call."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(). Define it: values in, a value out.")

    def extra_repr(self) -> str:
        """What ``repr`` shows between the brackets."""
        return ""

    # Parts.

    def children(self) -> Iterator[Module]:
        """The modules that this one holds itself."""
        yield from self._children.values()

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once: ``("", self)``, ``("0", ...)``, ``("0.body", ...)``."""
        seen: set[Module] = set()
        for path, module in self._paths(prefix):
            if module not in seen:
                seen.add(module)
                yield path, module

    def _paths(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, under every path that leads to them."""
        yield prefix, self
        for name, child in self._children.items():
            yield from child._paths(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        for _, module in self.named_modules():
            yield module

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Every parameter once, with its first path, such as ``("0.weight", Parameter(...))``."""
        seen: set[int] = set()
        for path, module in self.named_modules():
            for name, parameter in module._parameters.items():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield (f"{path}.{name}" if path else name), parameter

    def parameters(self) -> Iterator[Parameter]:
        """Every parameter once, for optimizers."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_buffers(self) -> Iterator[tuple[str, Array]]:
        """Arrays that are saved but not trained, with their paths."""
        for path, module in self.named_modules():
            for name, array in module._buffers.items():
                yield (f"{path}.{name}" if path else name), array

    @spelled
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set every gradient to zero. Not needed before ``backward``, which overwrites.

        ``set_to_none`` of PyTorch is taken and makes no difference: gradients keep their memory.
        """
        for parameter in self.parameters():
            if parameter.used:
                parameter.grad[...] = 0

    @spelled
    def requires_grad_(self: _SomeModule, requires_grad: bool = True) -> _SomeModule:
        """Train all parameters, or with False freeze them: neither gradients nor steps, but running statistics move on.

        >>> from openbnns import nn
        >>> net = nn.Sequential(nn.Linear(8), nn.ReLU(), nn.Linear(2))
        >>> frozen = net[0].requires_grad_(False)  # before it is built or after
        >>> [name for name, parameter in net.named_parameters() if parameter.requires_grad]
        ['2.weight', '2.bias']
        """
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

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

    # Weights.

    def state_dict(self) -> dict[str, Array]:
        """All parameters and buffers by path. The arrays are those of the network, not copies.

        What is shared stands under every one of its paths, as in PyTorch, with one array for all of them.
        """
        self._require_built("state_dict")
        return {path: one.data if isinstance(one, Parameter) else one for path, one in self._named_state()}

    def _named_state(self) -> Iterator[tuple[str, Parameter | Array]]:
        """All parameters and buffers under every one of their paths."""
        for path, module in self._paths():
            start = f"{path}." if path else ""
            yield from ((start + name, parameter) for name, parameter in module._parameters.items())
            yield from ((start + name, array) for name, array in module._buffers.items())

    def load_state_dict(self, arrays: Mapping[str, Any], *, strict: bool = True) -> list[str]:
        """Take over weights by path; they are copied. A PyTorch ``state_dict`` of the same network fits as it is.

        Every mismatch is listed at once, and then nothing is changed. With ``strict=False`` missing and unknown names
        are allowed; they are returned. Of the names of a shared parameter one is enough.
        """
        if not isinstance(arrays, Mapping):
            hint = " Pass its state_dict()." if isinstance(arrays, Module) else ""
            raise TypeError(f"load_state_dict: takes arrays by name, not a {type(arrays).__name__}.{hint}")
        self._require_built("load_state_dict")
        own = dict(self._named_state())
        shared = shared_names(own)
        given = {name: as_float_array(array) for name, array in arrays.items() if not _is_counter(name)}
        unfit = [
            f"{name}: shape {given[name].shape} given, {own[name].shape} needed"
            for name in own
            if name in given and given[name].shape != own[name].shape
        ]
        unfit += [
            f"{' and '.join(same)}: one shared parameter of the network, but different values given"
            for same in ([name for name in names if name in given] for names in shared.values())
            if any(not np.array_equal(given[same[0]], given[name], equal_nan=True) for name in same[1:])
        ]
        names = [
            f"{name}: missing" for name, array in own.items() if not any(same in given for same in shared[id(array)])
        ]
        names += [f"{name}: not in the network" for name in given if name not in own]
        if unfit or (strict and names):
            wrong = unfit + (names if strict else [])
            raise Mismatch(f"load_state_dict: {len(wrong)} mismatch(es), nothing was changed:\n  " + "\n  ".join(wrong))
        for name, target in own.items():
            if name not in given:
                continue
            if isinstance(target, Parameter):
                target.data = given[name]
            else:
                target[...] = given[name]
        return names

    # Modes.

    def train(self: _SomeModule, mode: bool = True) -> _SomeModule:
        """Training mode: batch statistics, dropout, and what backward needs is kept."""
        for module in self.modules():
            module.training = bool(mode)
        return self

    def eval(self: _SomeModule) -> _SomeModule:
        """Inference mode: moving statistics, no dropout, less memory."""
        return self.train(False)

    # Building.

    @property
    def built(self) -> bool:
        """Whether all sizes are known, so that it can be run."""
        return self._graph is not None

    def build(self: _SomeModule, *input_shapes: Sequence[int] | int, seed: int | None = None) -> _SomeModule:
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
        global _replacements
        graph = Graph(np.random.RandomState(seed), self.modules())
        values = [graph.input(shape) for shape in shapes]
        replacements = _replacements
        with recording(graph):
            output = self(*values)
        _replacements = replacements  # sizes that layers note while they are recorded concern no other network
        outputs, structure = flatten(output)
        wrong = next((type(value).__name__ for value in outputs if not isinstance(value, Value)), None)
        if wrong or not outputs:
            raise TypeError(
                f"{self._who}.forward gave a {wrong or type(output).__name__}, but it must give the value that its last module "
                "returned, or a tuple, list or dictionary of values."
            )
        with engines.using_accuracy(self._recording()[1]):
            graph.finish(outputs)
        return graph, structure

    def _recording(self) -> tuple[int, str]:
        """What a graph depends on besides the shapes: when it changes, the network is recorded again."""
        return _replacements, self._accuracy or engines.accuracy()

    def _require_built(self, what: str) -> None:
        if any(module._lazy() for module in self.modules()):
            raise RuntimeError(
                f"{type(self).__name__}.{what}: sizes are not known yet. Give layers their input sizes, call "
                "build(sample_shape), or run one batch first."
            )

    def _lazy(self) -> bool:
        """Whether parameters or buffers are still to be made."""
        return any(not p.sized for p in self._parameters.values())

    def _has_state(self) -> bool:
        """Whether the module itself, without those it holds, has parameters or buffers."""
        return bool(self._parameters or self._buffers) or self._lazy()

    # Running.

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Record on values; run on arrays with a batch axis in front. The result of a run is a new array.

        If ``forward`` gives a tuple, list or dictionary, so does the call. Inputs may be passed by the names of
        ``forward``'s arguments.
        """
        graph = current_graph()
        if graph is not None:
            graph.require_parts(self)
            with graph.calling(module=self):
                return self.forward(*map(graph.value, inputs), **{name: graph.value(x) for name, x in named.items()})
        if not self._in_a_row(inputs, named):
            return self._call_with(inputs, named)[0]
        return self._shown(array.copy() for array in self._run(inputs, named))

    def _in_a_row(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
        """Whether the arguments are arrays, for all that ``forward`` takes up to the last of them."""
        if not is_plain(inputs, named):
            return False
        return not named or not self._bound(inputs, named).kwargs

    def _call_with(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, bool]:
        """Run on arguments of any kind; gives the result, and whether it was taken apart."""
        self._bound(inputs, named)
        from ._arguments import arrays_and_call

        arrays, call = arrays_and_call(self, inputs, named)
        result = call._shown(array.copy() for array in call._run(tuple(arrays), {}))
        self._latest, self._latest_structure = call._latest, call._structure
        return result, call.apart

    def run(self, *inputs: Any, **named: Any) -> Any:
        """Like a call, but the result lies in memory that the next call on this batch size overwrites."""
        return self._shown(self._run(inputs, named))

    def _shown(self, outputs: Iterable[Any]) -> Any:
        """The outputs in the structure in which ``forward`` gives them."""
        assert self._structure is not None
        return self._structure.fill(outputs)

    def _run(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> list[Array]:
        arrays = self._inputs(self._in_order(inputs, named) if named else inputs)
        batch = len(arrays[0])
        self._latest = None  # a run that is interrupted has no backward, not even that of the run before
        program = self.program(batch, training=self.training, input_gradients=self.training)
        for i, x in enumerate(arrays):
            program.fill(i, x)
        program.forward()
        self._latest = program if program.training else None
        self._latest_structure = self._structure
        return program.outputs

    def _inputs(self, given: Sequence[Any]) -> list[Array]:
        """The inputs of a call, checked; builds the network for them."""
        if self._graph is None:
            self._bound(tuple(given), {})
        if not given:
            raise TypeError(f"{self._who}: there is no input. Pass an array, the batch axis in front.")
        arrays = [self._input_array(x, i) for i, x in enumerate(given)]
        self.build(*(x.shape[1:] for x in arrays))
        if any(len(x) != len(arrays[0]) for x in arrays):
            counts = ", ".join(str(len(x)) for x in arrays)
            raise ValueError(f"{self._who}: inputs have {counts} samples. Pass the same number of each.")
        return arrays

    def _bound(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> BoundArguments:
        try:
            return signature(self.forward).bind(*inputs, **named)
        except TypeError as error:
            told = f"{type(self).__name__}: {error}. Inputs are named as the arguments of forward."
            if len(inputs) == 1 and isinstance(inputs[0], Mapping):
                told += " Pass a dictionary of them with two stars: net(**inputs)."
            raise TypeError(told) from None

    def _in_order(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """Inputs by position, where some are given by the names that ``forward`` has for them."""
        bound = self._bound(inputs, named)
        if bound.kwargs:
            raise TypeError(f"{type(self).__name__}: forward takes {next(iter(bound.kwargs))} by keyword only.")
        return list(bound.args)

    def _input_array(self, x: Any, index: int) -> Array:
        array = np.asarray(x)
        if array.ndim < 1 or array.dtype.kind not in "fiub" or len(array) == 0:
            raise ValueError(
                f"{self._who}: input {index} is {array.dtype} of shape {array.shape}. Pass an array of numbers "
                "with at least one sample, batch axis first."
            )
        if self._graph is not None and index < len(self._graph.inputs):
            wanted = self._graph.inputs[index].sample
            if array.shape[1:] != wanted:
                cure = " For one sample pass x[None]." if array.shape == wanted else ""
                raise ValueError(
                    f"{self._who}: input {index} has shape {array.shape}, but the network is built for "
                    f"(N, {', '.join(map(str, wanted))}). The first axis is the batch.{cure}"
                )
        return array

    def program(self, batch: int, *, training: bool, input_gradients: bool = False) -> Program:
        """The network with memory for this batch size; the last few are kept."""
        assert self._graph is not None
        if self._recorded != self._recording():
            self.build(*(value.sample for value in self._graph.inputs))
        trained = tuple(p.requires_grad for p in self._graph.parameters) if training else ()
        key = (batch, training, input_gradients, trained)
        program = self._programs.pop(key, None)
        if program is None:
            program = Program(self._graph, batch, training=training, input_gradients=input_gradients)
        self._programs[key] = program
        while len(self._programs) > self._programs_kept:
            self._programs.popitem(last=False)
        return program

    @spelled
    def backward(self, output_gradient: Any, *, accumulate: bool = False, input_gradient: bool = True) -> Any:
        """Gradients of all parameters into their ``grad``; returns that of the input (a tuple if there are several).

        Belongs to the latest call, which must have been in training mode. Gradients are overwritten, or with
        ``accumulate=True`` added to. Frozen parameters get none; with ``input_gradient=False``, which returns None, the
        pass ends at the first layer that is trained.
        """
        program = self._latest
        if program is None:
            raise RuntimeError(
                f"{type(self).__name__}.backward: there is no forward pass in training mode to go back through, or it was gone "
                "back through already, which uses up what it kept. Call train(), run the network on a batch, then backward."
            )
        self._take_gradients(program, output_gradient)
        before = [p.grad.copy() for p in program.trained] if accumulate else []
        self._latest = None
        program.backward(input_gradients=input_gradient)
        for parameter, old in zip(program.trained, before, strict=bool(accumulate)):
            parameter.grad += old
        if not input_gradient:
            return None
        gradients = tuple(None if g is None else g.copy() for g in program.input_gradients)
        return gradients[0] if len(gradients) == 1 else gradients

    def _take_gradients(self, program: Program, output_gradient: Any) -> None:
        """Copy the gradients of the outputs to where the backward pass reads them; None stands for zeros."""
        wanted = self._latest_structure
        assert wanted is not None
        given, structure = flatten(output_gradient)
        if len(program.outputs) != 1 and structure != wanted:
            raise ValueError(
                f"{type(self).__name__}.backward: output_gradient must be {wanted.describe()}, as forward gives it, "
                "with None for outputs whose gradient is zero."
            )
        gradients = [None if gradient is None else np.asarray(gradient) for gradient in given]
        for gradient, output in zip(gradients, program.outputs, strict=True):
            if gradient is not None and gradient.shape != output.shape:
                raise ValueError(
                    f"{type(self).__name__}.backward: output_gradient has shape {gradient.shape}, but the output of the latest "
                    f"call has shape {output.shape}."
                )
        program.fill_gradients(gradients)

    # Looking.

    def summary(self) -> Summary:
        """A table of the layers with output shapes and numbers of parameters, as text that notebooks show as a table.

        Layers have the names that you gave them; functions have their own, in the module that calls them.

        >>> from openbnns import nn
        >>> class Block(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 4)
        ...     def forward(self, x):
        ...         return nn.functional.tanh(x + self.last(nn.functional.relu(self.first(x))))
        >>> nn.Sequential(Block(), nn.Linear(4, 1)).build((4,)).summary()
        layer            computes       output of a sample  parameters
        ---------------  -------------  ------------------  ----------
        0.first, 0.relu  Linear + relu  (8,)                        40
        0.last           Linear         (4,)                        36
        0.add, 0.tanh    add + tanh     (4,)                         -
        1                Linear         (1,)                         5
        81 parameters, 0.00 MB
        """
        from .summary import summary

        self._require_built("summary")
        return summary(self)

    @spelled
    def profile(self, *inputs: Any, repeats: int | None = None) -> Profile:
        """Time, share, arithmetic and memory of every layer on these inputs, as a table; see :class:`Profile`.

        In training mode a step is measured, forward and backward without loss and optimizer, else a forward pass. It is
        run ``repeats`` times, by default for about a second. Weights, gradients, running statistics and the choices of
        dropout stay as they are.
        """
        from .profiling import profile

        if repeats is not None and (isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1):
            raise ValueError(f"{type(self).__name__}.profile: repeats is {repeats!r}. Use a whole number, 1 or more.")
        if not inputs:
            raise TypeError(f"{type(self).__name__}.profile: pass the inputs of a call, profile(x).")
        return profile(self, self._inputs(inputs), repeats)

    def save(self, path: Any) -> None:
        """Write all weights to a ``.safetensors`` file.

        What is shared is written once, under its first name; the metadata names it for every other one, as
        ``safetensors.torch.save_model`` does.
        """
        from .weights import save

        arrays = self.state_dict()
        metadata = {other: names[0] for names in shared_names(arrays).values() for other in names[1:]}
        save(path, {name: array for name, array in arrays.items() if name not in metadata}, metadata or None)

    def load(self, path: Any, *, strict: bool = True) -> list[str]:
        """Read weights from a ``.safetensors`` file, ours or PyTorch's; see :meth:`load_state_dict`."""
        from .weights import load

        return self.load_state_dict(load(path), strict=strict)

    def to_torch_state_dict(self) -> dict[str, Any]:
        """The weights as tensors that the same module of PyTorch loads; see :func:`openbnns.nn.to_torch_state_dict`."""
        from .pytorch import to_torch_state_dict

        return to_torch_state_dict(self)

    def __repr__(self) -> str:
        children = [(name, repr(child)) for name, child in self._children.items()]
        return nested(type(self).__name__, self.extra_repr(), children)

    def _repr_html_(self) -> str | None:
        """The table of the layers, for notebooks; until the network is built they show its text."""
        from .summary import table

        return table(self).html() if self.built else None


class Layer(Module):
    """A module that gives one value for values, and one array for arrays; type checkers know it."""

    if TYPE_CHECKING:

        @overload
        def __call__(self, *inputs: Value, **named: Value) -> Value: ...

        @overload
        def __call__(self, *inputs: Array, **named: Array) -> Array: ...

        @overload
        def __call__(self, *inputs: Any, **named: Any) -> Any: ...

        def __call__(self, *inputs: Any, **named: Any) -> Any: ...


def nested(name: str, options: str, children: Iterable[tuple[str, str]]) -> str:
    """A module with those that it holds, on lines of their own."""
    lines = [indent(f"({child}): {text}", "  ") for child, text in children]
    return "\n".join([f"{name}({options}", *lines, ")"]) if lines else f"{name}({options})"


def check_module(module: Any, who: str) -> None:
    if not isinstance(module, Module):
        hint = " Call it to make one, e.g. nn.ReLU()." if isinstance(module, type) else ""
        if not hint and callable(module):
            hint = " Call functions in forward() of a module of your own, or use a layer, such as nn.ReLU()."
        raise TypeError(f"{who} is {module!r}, which is no module.{hint}")


def shared_names(state: Mapping[str, object]) -> dict[int, list[str]]:
    """The names of every array or parameter of a network; several where it is shared."""
    names: dict[int, list[str]] = {}
    for name, one in state.items():
        names.setdefault(id(one), []).append(name)
    return names


def _is_counter(name: str) -> bool:
    """PyTorch counts the batches a normalization has seen; nothing here depends on it."""
    return name.rsplit(".", 1)[-1] == "num_batches_tracked"
