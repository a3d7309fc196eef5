"""The network that a PyTorch module becomes: its parts under their names, and the steps that its forward takes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._plural import plural
from ...graph import functions as F
from ...graph.polynomials import Polynomial
from ...graph.sizes import AnySize, FreeSizes, Size, is_same, is_same_shape, number_of
from ...graph.tensor import Array, Tensor
from ...nn.call_form import CallForm, StructuredCalls
from ...nn.containers import ForeignPart
from ...nn.module import Module
from ...nn.recording import Recording, Shapes
from ..converted.tensors import ForeignTensor, Misfit
from . import _running
from ._layers import KINDS
from ._recording import Record, Ref, full_name
from ._steps import BATCH, refs
from .errors import Unsupported, problem, refusal
from .operations import FUNCTIONS, OF_COMPLEX, Call


class Part(ForeignPart):
    """A module of PyTorch without a layer of its own here."""

    def forward(self, *inputs: Any) -> Any:
        raise NotImplementedError(
            f"{self._kind} is a part of a network from PyTorch, whose forward runs as a whole. Call the network, or convert this "
            "part by itself: nn.from_torch(module.part, example)."
        )


@dataclass(frozen=True)
class Signature:
    """How a network is called: names of the inputs if it has any, which are whole numbers, and how the result is made."""

    names: tuple[str, ...]
    whole: tuple[bool, ...]
    result: Any
    batch_first: dict[str, bool] = field(default_factory=dict)  # of the recurrent modules and attentions, by path
    kinds: dict[str, str] = field(default_factory=dict)  # names of torch.nn for the layers, by path
    form: CallForm | None = None  # if there are inputs in tuples, lists or dictionaries
    of_complex: tuple[str, ...] = ()  # names of weights that are complex numbers in PyTorch, and pairs here


class Network(Part, StructuredCalls):
    """A network from PyTorch. It is called, trained, saved and inspected like any other network here."""

    def __init__(self, kind: str, steps: list[Record], signature: Signature, constants: dict[str, Any]) -> None:
        super().__init__(kind)
        self._steps, self._interface, self._constants = steps, signature, constants

    @property
    def complex_names(self) -> tuple[str, ...]:
        """The names of weights that are complex numbers in PyTorch, and pairs here."""
        return self._interface.of_complex

    def _call_form(self) -> CallForm | None:
        return self._interface.form

    def forward(self, *inputs: Any, **named: Any) -> Any:
        if named or self._interface.form is not None:  # as a part of another network
            inputs = tuple(self._in_order(inputs, named))
        if len(inputs) != len(self._interface.whole):
            raise TypeError(f"{self._kind}: takes {plural(len(self._interface.whole), 'input')}, not {len(inputs)}.")
        for value, whole in zip(inputs, self._interface.whole, strict=True):
            if whole:
                value.as_indices(self._kind)
        held: dict[int, ForeignTensor] = {}
        parts = dict(self._paths())
        for step in self._steps:
            self._take(step, inputs, held, parts)
        inputs[0].graph.sizes.place = None
        return _result(self._interface.result, held)

    def _paths(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """A network that is a single layer holds it without a name of its own."""
        yield prefix, self
        for name, child in self.named_children():
            yield from child._paths(f"{prefix}.{name}" if prefix and name else prefix or name)

    def _with_free_sizes(self, shapes: Shapes, free: FreeSizes) -> list[Sequence[AnySize]]:
        """The shapes of inputs with free sizes in place of some numbers: of the batch, or those that the conversion named."""
        wanted = [next(iter(step.shapes.values())) for step in self._steps if step.kind == "input"]
        form, known = self._interface.form, self._interface.names
        names = [*known, *(f"input {i}" for i in range(len(known), len(wanted)))] if form is None else form.places()
        all_sizes: list[Sequence[AnySize]] = []
        for name, shape, recorded in zip(names, shapes, wanted, strict=True):
            fits = len(shape) == len(recorded) and all(
                isinstance(n, Polynomial) or n == m for n, m in zip(recorded, shape, strict=True)
            )
            sizes: list[AnySize] = []
            for n, number in zip(recorded, shape, strict=False):
                if isinstance(n, Polynomial) and number > 0:
                    sizes.append(free.size(str(n)))
                    fits = fits and free.numbers.setdefault(str(n), number) == number
                else:
                    sizes.append(number)
                    fits = fits and not isinstance(n, Polynomial)
            if not fits:
                raise ValueError(self._misfitting(name, shape, recorded, free))
            all_sizes.append(sizes)
        return all_sizes

    def _input_array(self, x: Any, index: int) -> Array:
        wanted = [next(iter(step.shapes.values())) for step in self._steps if step.kind == "input"]
        array = np.asarray(x)
        if index < len(wanted) and wanted[index] == () == array.shape and array.dtype.kind in "fiub":
            return array  # a number, such as a time
        return super()._input_array(x, index)

    def _takes_samples(self) -> bool:
        wanted = [next(iter(step.shapes.values())) for step in self._steps if step.kind == "input"]
        return all(shape[:1] == (Polynomial.of(BATCH),) for shape in wanted)

    def _misfitting(self, name: str, shape: Sequence[int], recorded: Sequence[Any], free: FreeSizes) -> str:
        """The message for an input that has another shape than the module was recorded on."""
        told = ", ".join(map(str, recorded))
        cure = "Convert the module again with an example of that shape, or with names for sizes that are free in input_shapes."
        if len(shape) == len(recorded) and all(
            isinstance(n, Polynomial) or n == m for n, m in zip(recorded, shape, strict=True)
        ):
            cure = "Pass as many samples of all inputs."
            others = {
                str(n): free.numbers[str(n)] for n in recorded if isinstance(n, Polynomial) and str(n) in free.numbers
            }
            if 0 in shape:
                cure = "Free sizes are at least 1."
            elif list(others) != [BATCH]:
                cure = f"Pass inputs with the same sizes; other axes have {', '.join(f'{k}={n}' for k, n in others.items())}."
        return f"{self._kind}: {name} has shape {shape}, but the module was recorded on ({told}). {cure}"

    def _misfit(self, built: Recording, shapes: Shapes, error: Exception) -> str:
        return str(error)

    def _take(
        self, step: Record, inputs: tuple[Any, ...], held: dict[int, ForeignTensor], parts: dict[str, Module]
    ) -> None:
        free = inputs[0].graph.sizes
        made = list(refs(step.outputs))
        shapes = tuple(tuple(_bound(n, free) for n in step.shapes[ref.index]) for ref in made)
        kinds = tuple(step.dtypes[ref.index] for ref in made)
        free.place = None if step.place is None else str(step.place)
        if step.kind in ("module", "function"):
            call = Call(step.target, shapes, kinds)
            try:
                args, kwargs = _filled(step.args, held, free), _filled(step.kwargs, held, free)
                results = self._called(step, call, args, kwargs, parts)
                for ref, x, shape, kind in zip(made, _flat(results), shapes, kinds, strict=False):
                    if step.detached and kind == "f":
                        x = F.detach(x.numbers if isinstance(x, ForeignTensor) else x)
                    if x is not None:
                        held[ref.index] = _of_shape(x, shape, kind)
            except (Misfit, ValueError, TypeError) as error:
                raise self._refused(step, str(error).rstrip(".")) from error
            except Exception as error:  # arguments that no function foresees must not end in the dark
                raise self._refused(step, f"its arguments cannot be converted ({problem(error)})") from error
            return
        try:
            held[made[0].index] = _of_shape(self._leaf(step, inputs, parts), shapes[0], kinds[0])
        except Misfit as error:
            raise refusal(f"{step.kind} {step.target}: {error}", step.place) from error

    def _called(self, step: Record, call: Call, args: Any, kwargs: dict[str, Any], parts: dict[str, Module]) -> Any:
        given = [x for x in _flat([args, list(kwargs.values())]) if isinstance(x, ForeignTensor)]
        if "c" in call.kinds or any(x.kind == "c" for x in given):
            if step.target not in OF_COMPLEX:
                raise Misfit("complex numbers have no counterpart in it")
            return OF_COMPLEX[step.target](call, *args, **kwargs)
        if step.kind == "function":
            return FUNCTIONS[step.target](call, *args, **kwargs)
        first = self._interface.batch_first.get(step.target, True)
        kind = KINDS[self._interface.kinds[step.target]]
        return _running.run(kind, parts[step.target], call, args, kwargs, first)

    def _leaf(self, step: Record, inputs: tuple[Any, ...], parts: dict[str, Module]) -> Any:
        if step.kind == "input":
            return inputs[int(step.target)]
        if step.kind == "constant":
            if isinstance(step.array, str):
                shape = next(iter(step.shapes.values()))
                size = next(_bound(n, inputs[0].graph.sizes) for n in shape if isinstance(n, Polynomial))
                return F.arange(size).reshape([1 if isinstance(n, int) else size for n in shape])
            return step.array
        path, _, name = step.target.rpartition(".")
        if step.kind == "parameter":
            held = parts[path]._parameters[name]
            single = (
                held.shape == (1,) and () in step.shapes.values()
            )  # a number, which has an axis as a parameter here
            return F.reshape(held, ()) if single else held
        return self._constants[step.target] if step.target in self._constants else parts[path]._buffers[name]

    def _refused(self, step: Record, reason: str) -> Unsupported:
        return refusal(f"{described(step, self._interface.kinds)}: {reason}", step.place)

    def _call_signature(self) -> inspect.Signature:
        """Inputs have the names of the arguments of PyTorch's forward."""
        known = self._interface.names
        names = [*known, *(f"input_{i}" for i in range(len(known), len(self._interface.whole)))]
        return inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names])

    def _bound(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> inspect.BoundArguments:
        taken = self._call_signature()
        try:
            return taken.bind(*inputs, **named)
        except TypeError as error:
            raise TypeError(f"{self._kind}: {error}. It takes {', '.join(taken.parameters)}.") from None


def described(step: Record, kinds: Mapping[str, str]) -> str:
    """The name of a step for users."""
    if step.kind == "module":
        return f"nn.{kinds.get(step.target, 'Module')}"
    return full_name(step.target)


def _flat(results: Any) -> Iterator[Any]:
    if type(results) in (tuple, list) or (isinstance(results, tuple) and not isinstance(results, Tensor)):
        for part in results:
            yield from _flat(part)
    else:
        yield results


def _filled(given: Any, held: dict[int, ForeignTensor], free: FreeSizes) -> Any:
    """Arguments with tensors in place of Refs, and sizes in place of expressions."""
    if isinstance(given, Ref):
        return held[given.index]
    if isinstance(given, Polynomial):
        return Size(free, given)
    if isinstance(given, (tuple, list)):
        parts = [_filled(part, held, free) for part in given]
        return parts if isinstance(given, list) else tuple(parts)
    if isinstance(given, dict):
        return {name: _filled(part, held, free) for name, part in given.items()}
    if isinstance(given, slice):
        return slice(*(_filled(end, held, free) for end in (given.start, given.stop, given.step)))
    return given


def _bound(n: Any, free: FreeSizes) -> Any:
    return Size(free, n) if isinstance(n, Polynomial) else n


def _of_shape(held: Any, shape: tuple[Any, ...], kind: str) -> ForeignTensor:
    """The result of a step, if it has the shape that it has in PyTorch; axes with one entry in place of many are repeated."""
    if isinstance(held, ForeignTensor):
        held = held.held if is_same_shape(held.held.shape, held.shape) else held.value
    own = tuple(held.shape)
    shape = (*shape, 2) if kind == "c" else shape
    if is_same_shape(own, shape) or (0 in held.shape and own == tuple(map(number_of, shape))):
        return ForeignTensor(held, kind)
    pairs = list(zip(own, shape, strict=False))
    if len(own) != len(shape) or any(
        not is_same(n, m) and not (is_same(n, 1) and isinstance(m, Size)) for n, m in pairs
    ):
        raise Misfit(f"its result is {own} here, but {shape} in PyTorch")
    return ForeignTensor(held, kind, shape)


def _result(structure: Any, held: dict[int, ForeignTensor]) -> Any:
    if isinstance(structure, Ref):
        return held[structure.index].elements
    if isinstance(structure, dict):
        return {name: _result(part, held) for name, part in structure.items()}
    return type(structure)(_result(part, held) for part in structure)
