"""Networks: modules that hold parameters and other modules, and run forward and backward.

A module describes its work by calling other modules on values in ``forward``::

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.act, self.two = nn.Linear(64), nn.ReLU(), nn.Linear(64)

        def forward(self, x):
            return x + self.two(self.act(self.one(x)))

The first call on an array tells all sizes; parameters are made then. From there on calls reuse memory that was planned
once per batch size.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ._choose import seed_number
from ._graph import FLOAT32, Array, Graph, Value
from ._program import Program
from .parameter import Mismatch, Parameter, as_float_array

_SomeModule = TypeVar("_SomeModule", bound="Module")

_PROGRAMS = 4  # batch sizes and modes whose memory is kept at a time


_replacements = 0
"""How often a module, a parameter or an option of a layer has taken the place of another, in any network."""


class Module:
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

    def __init__(self) -> None:
        self._children: dict[str, Module] = {}
        self._parameters: dict[str, Parameter | None] = {}
        self._buffers: dict[str, Array] = {}
        self._graph: Graph | None = None
        self._programs: OrderedDict[tuple[int, bool, bool], Program] = OrderedDict()
        self._latest: Program | None = None
        self._recorded = 0
        self.training = True

    def __setattr__(self, name: str, value: Any) -> None:
        if "_children" not in self.__dict__ and name != "_children":
            raise AttributeError(f"{type(self).__name__}.{name}: call super().__init__() first in __init__.")
        if isinstance(value, Parameter):
            self._replace(self._parameters, name, value)
        elif not name.startswith("_"):
            if isinstance(value, Module):
                self._replace(self._children, name, value)
            elif self._parameters.get(name) is not None:
                if value is not None:
                    raise TypeError(
                        f"{type(self).__name__}.{name} is a Parameter. To change its values, assign to {name}.data; to "
                        "replace it, assign another nn.Parameter."
                    )
                self._replace(self._parameters, name, None)
            elif name in self._buffers:
                self._buffers[name][...] = value  # filters hold its memory
                return
            elif self._is_option(name, value):
                self._replace(self.__dict__, name, value)
                return
        super().__setattr__(name, value)

    def _is_option(self, name: str, value: Any) -> bool:
        """Whether this sets an option of one of our layers, such as ``momentum``, to another value than it had."""
        old = self.__dict__.get(name)
        ours = type(self).__module__.startswith(__package__)
        return ours and name != "training" and isinstance(old, (int, float, str, tuple)) and old != value

    def _replace(self, parts: dict[str, Any], name: str, new: Any) -> None:
        """Put a part in its place; networks that may have recorded another one record again at their next call."""
        global _replacements
        old = parts.get(name)
        if old is not None and old is not new:
            _replacements += 1
        parts[name] = new

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: everything but what was built, which is made again from the shapes of the inputs."""
        shapes = None if self._graph is None else [value.shape for value in self._graph.inputs]
        return {**self.__dict__, "_graph": shapes, "_programs": OrderedDict(), "_latest": None}

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

    def forward(self, *inputs: Value) -> Value:
        """Join the parts: values in, a value out. Recorded once, not run at every call."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(). Define it: values in, a value out.")

    def extra_repr(self) -> str:
        """What ``repr`` shows between the brackets."""
        return ""

    # Parts.

    def children(self) -> Iterator[Module]:
        yield from self._children.values()

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, with their paths: ``("", self)``, ``("0", ...)``, ``("0.body", ...)``."""
        yield prefix, self
        for name, child in self._children.items():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        for _, module in self.named_modules():
            yield module

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Every parameter once, with its path, such as ``("0.weight", Parameter(...))``."""
        seen: set[int] = set()
        for path, module in self.named_modules():
            for name, parameter in module._parameters.items():
                if parameter is not None and id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield (f"{path}.{name}" if path else name), parameter

    def parameters(self) -> Iterator[Parameter]:
        for _, parameter in self.named_parameters():
            yield parameter

    def named_buffers(self) -> Iterator[tuple[str, Array]]:
        for path, module in self.named_modules():
            for name, array in module._buffers.items():
                yield (f"{path}.{name}" if path else name), array

    def zero_grad(self) -> None:
        """Set every gradient to zero. Not needed before ``backward``, which overwrites."""
        for parameter in self.parameters():
            parameter.grad[...] = 0

    # Weights.

    def state_dict(self) -> dict[str, Array]:
        """All parameters and buffers by path. The arrays are those of the network, not copies."""
        self._require_built("state_dict")
        arrays = {name: parameter.data for name, parameter in self.named_parameters()}
        arrays.update(self.named_buffers())
        return arrays

    def load_state_dict(self, arrays: Mapping[str, Any], *, strict: bool = True) -> list[str]:
        """Take over weights by path; they are copied. A PyTorch ``state_dict`` of the same network fits as it is.

        Every mismatch is listed at once, and then nothing is changed. With ``strict=False`` missing and unknown names
        are allowed; they are returned.
        """
        own = self.state_dict()
        given = {name: as_float_array(array) for name, array in arrays.items() if not _is_counter(name)}
        unfit = [
            f"  {name}: shape {given[name].shape} given, {own[name].shape} needed"
            for name in own
            if name in given and given[name].shape != own[name].shape
        ]
        names = [f"  {name}: missing" for name in own if name not in given]
        names += [f"  {name}: not in the network" for name in given if name not in own]
        if unfit or (strict and names):
            wrong = unfit + (names if strict else [])
            raise Mismatch(f"load_state_dict: {len(wrong)} mismatch(es), nothing was changed:\n" + "\n".join(wrong))
        for name, array in own.items():
            if name in given:
                array[...] = given[name]
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
        return self._graph is not None

    def build(self: _SomeModule, *input_shapes: Sequence[int] | int, seed: int | None = None) -> _SomeModule:
        """Infer all sizes and make the parameters. ``input_shapes`` are those of one sample, without the batch axis.

        With ``seed`` the initial weights are the same on every machine. Called on its own by the first call with an
        array; calling it again with the same shapes changes nothing.
        """
        global _replacements
        shapes = [(s,) if isinstance(s, int) else tuple(s) for s in input_shapes]
        if self._graph is not None and self._recorded != _replacements:
            self._graph, self._latest = None, None
            self._programs.clear()
        if self._graph is not None:
            if [v.shape for v in self._graph.inputs] != shapes:
                built = ", ".join(str(v.shape) for v in self._graph.inputs)
                raise ValueError(
                    f"{type(self).__name__}.build: the network is built for samples of {built}, not "
                    f"{', '.join(map(str, shapes))}. Make a new network for other sizes."
                )
            return self
        number = None if seed is None else seed_number(seed, f"{type(self).__name__}.build: seed")
        graph = Graph(np.random.RandomState(number))
        dtypes = self.input_dtypes(len(shapes))
        values = [graph.input(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        replacements = _replacements
        output = self(*values)
        _replacements = replacements  # sizes that layers note while they are recorded concern no other network
        if not isinstance(output, Value):
            raise TypeError(
                f"{type(self).__name__}.forward gave a {type(output).__name__}, but it must give the value that its "
                "last module returned."
            )
        graph.finish(output)
        self._graph, self._recorded = graph, _replacements
        return self

    def input_dtypes(self, count: int) -> list[np.dtype[Any]]:
        """The types of the inputs: float32, or integers where the first module looks them up in a table."""
        first = next(self.children(), None)
        return [FLOAT32] * count if first is None else first.input_dtypes(count)

    def _require_built(self, what: str) -> None:
        if any(module._lazy() for module in self.modules()):
            raise RuntimeError(
                f"{type(self).__name__}.{what}: sizes are not known yet. Call build(sample_shape) or run one batch first."
            )

    def _lazy(self) -> bool:
        """Whether parameters are still to be made."""
        return False

    # Running.

    def __call__(self, *inputs: Any) -> Any:
        """Record on values; run on arrays with a batch axis in front. The result of a run is a new array."""
        if inputs and isinstance(inputs[0], Value):
            graph = inputs[0].graph
            graph.modules.append(self)
            try:
                return self.forward(*inputs)
            finally:
                graph.modules.pop()
        return self.run(*inputs).copy()

    def run(self, *inputs: Any) -> Array:
        """Like a call, but the result lies in memory that the next call on this batch size overwrites."""
        arrays = [self._input_array(x, i) for i, x in enumerate(inputs)]
        self.build(*(x.shape[1:] for x in arrays))
        batch = len(arrays[0])
        if any(len(x) != batch for x in arrays):
            counts = ", ".join(str(len(x)) for x in arrays)
            raise ValueError(f"{type(self).__name__}: inputs have {counts} samples. Pass the same number of each.")
        program = self.program(batch, training=self.training, input_gradients=self.training)
        for i, x in enumerate(arrays):
            program.fill(i, x)
        self._latest = program if program.training else None
        return program.forward()

    def _input_array(self, x: Any, index: int) -> Array:
        array = np.asarray(x)
        if array.ndim < 1 or array.dtype.kind not in "fiub" or len(array) == 0:
            raise ValueError(
                f"{type(self).__name__}: input {index} is {array.dtype} of shape {array.shape}. Pass an array of numbers "
                "with at least one sample, batch axis first."
            )
        if self._graph is not None and index < len(self._graph.inputs):
            wanted = self._graph.inputs[index].shape
            if array.shape[1:] != wanted:
                raise ValueError(
                    f"{type(self).__name__}: input {index} has shape {array.shape}, but the network is built for "
                    f"(N, {', '.join(map(str, wanted))}). The first axis is the batch."
                )
        return array

    def program(self, batch: int, *, training: bool, input_gradients: bool = False) -> Program:
        """The network with memory for this batch size; the last few are kept."""
        assert self._graph is not None
        if self._recorded != _replacements:
            self.build(*(value.shape for value in self._graph.inputs))
        key = (batch, training, input_gradients)
        program = self._programs.pop(key, None)
        if program is None:
            program = Program(self._graph, batch, training=training, input_gradients=input_gradients)
        self._programs[key] = program
        while len(self._programs) > _PROGRAMS:
            self._programs.popitem(last=False)
        return program

    def backward(self, output_gradient: Any, *, accumulate: bool = False) -> Any:
        """Gradients of all parameters into their ``grad``; returns that of the input (a tuple if there are several).

        Belongs to the latest call, which must have been in training mode. Gradients are overwritten, or with
        ``accumulate=True`` added to.
        """
        program = self._latest
        if program is None:
            raise RuntimeError(
                f"{type(self).__name__}.backward: there is no forward pass in training mode to go back through. Call "
                "train(), run the network on a batch, then backward."
            )
        gradient = np.asarray(output_gradient)
        if gradient.shape != program.output.shape:
            raise ValueError(
                f"{type(self).__name__}.backward: output_gradient has shape {gradient.shape}, but the output of the latest "
                f"call has shape {program.output.shape}."
            )
        if program.output_gradient is not None:
            np.copyto(program.output_gradient, gradient, casting="unsafe")
        before = [p.grad.copy() for p in self.parameters()] if accumulate else []
        program.backward()
        for parameter, old in zip(self.parameters(), before, strict=bool(accumulate)):
            parameter.grad += old
        gradients = tuple(None if g is None else g.copy() for g in program.input_gradients)
        return gradients[0] if len(gradients) == 1 else gradients

    # Looking.

    def summary(self) -> str:
        """A table of the layers with output shapes and numbers of parameters."""
        from .summary import summary

        self._require_built("summary")
        return summary(self)

    def save(self, path: Any) -> None:
        """Write all weights to a ``.safetensors`` file."""
        from .weights import save

        save(path, self.state_dict())

    def load(self, path: Any, *, strict: bool = True) -> list[str]:
        """Read weights from a ``.safetensors`` file, ours or PyTorch's; see :meth:`load_state_dict`."""
        from .weights import load

        return self.load_state_dict(load(path), strict=strict)

    def __repr__(self) -> str:
        lines = [
            f"  ({name}): {repr(child).replace(chr(10), chr(10) + '  ')}" for name, child in self._children.items()
        ]
        inside = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({inside})"
        return f"{type(self).__name__}({inside}\n" + "\n".join(lines) + "\n)"


def _is_counter(name: str) -> bool:
    """PyTorch counts the batches a normalization has seen; nothing here depends on it."""
    return name.rsplit(".", 1)[-1] == "num_batches_tracked"
