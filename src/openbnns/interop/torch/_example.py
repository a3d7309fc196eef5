"""The example that a module is called with, and batches made of it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...graph.structure import Structure, flatten
from ...nn.call_form import CallForm
from ._steps import BATCH, Trials


@dataclass(frozen=True)
class Example:
    """The tensors of an example, the names of its arguments as far as they are known, and how it is put together."""

    tensors: list[Any]
    structure: Structure
    names: tuple[str, ...]
    """The names of the tensors in a call of the network."""
    form: CallForm | None
    """The form of a call of the network, if arguments are more than one tensor each."""
    shapes: list[tuple[int | str, ...]]
    """The shapes of the tensors, with names for sizes that are free."""
    trials: Trials
    """The free sizes to record with."""

    def arguments(self, tensors: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call with these tensors, by position and by name."""
        args, named = self.structure.fill(tensors)
        return args, named

    def call(self, module: Any, tensors: list[Any]) -> Any:
        """The result of the module on these tensors."""
        args, named = self.arguments(tensors)
        return module(*args, **named)

    def batch(self, torch: Any, sizes: Mapping[str, int]) -> list[Any]:
        """Tensors of these free sizes, taken from the example; floats are results, not leaves, so that they may be changed in
        place."""
        made = []
        for x, shape in zip(self.tensors, self.shapes, strict=True):
            part = x.clone()
            for axis, name in enumerate(shape):
                if isinstance(name, str):
                    # In order, so that samples that are sorted by their lengths stay so.
                    rows = (torch.arange(sizes[name], device=x.device) % x.shape[axis]).sort()[0]
                    part = part.index_select(axis, rows)
            made.append(part.requires_grad_().clone() if part.is_floating_point() else part)
        return made


def example_of(
    torch: Any,
    module: Any,
    example: Any,
    batch_axis: int | Mapping[str, int | None] | None,
    input_shapes: Mapping[str, Sequence[int | str]],
) -> Example:
    """The example that a user gives, with tensors in place of arrays."""
    by_name = isinstance(example, Mapping)
    given = [] if by_name else list(example) if isinstance(example, (tuple, list)) else [example]
    named = dict(example) if by_name else {}
    if by_name:
        _check_names(module, named)
    names = tuple(named) if by_name else _argument_names(module)[: len(given)]
    arguments = [*names, *(f"input_{i}" for i in range(len(names), len(given)))]
    reference = next(iter(module.parameters()), None)
    filled = [_filled(torch, name, x, reference) for name, x in zip(arguments, [*given, *named.values()], strict=True)]
    tensors, structure = flatten([[] if by_name else filled, dict(zip(names, filled, strict=True)) if by_name else {}])
    form = CallForm(tuple(arguments), tuple(_plain(flatten(x)[1]) for x in filled))
    if not tensors:
        raise ValueError("from_torch: the example has no arrays. Pass what the module is called with.")
    shapes = _shapes(form, tensors, batch_axis, input_shapes)
    trials = Trials.of(_least_sizes(form, tensors, shapes, at_least_the_examples=bool(input_shapes)))
    if not form.is_nested:
        return Example(tensors, structure, names, None, shapes, trials)
    return Example(tensors, structure, tuple(form.input_names()), form, shapes, trials)


# Free sizes.


def _shapes(
    form: CallForm,
    tensors: Sequence[Any],
    batch_axis: int | Mapping[str, int | None] | None,
    input_shapes: Mapping[str, Sequence[int | str]],
) -> list[tuple[int | str, ...]]:
    """The shapes of the tensors, with names for sizes that are free."""
    names = form.input_names()
    for option, given in (("batch_axis", batch_axis), ("input_shapes", input_shapes)):
        unknown = [name for name in given if name not in names] if isinstance(given, Mapping) else []
        if unknown:
            raise ValueError(
                f"from_torch: {option} has {unknown[0]!r}, but the inputs of the example are {', '.join(names)}."
            )
    shapes = []
    for name, tensor in zip(names, tensors, strict=True):
        own = tuple(int(n) for n in tensor.shape)
        axis = batch_axis.get(name, 0) if isinstance(batch_axis, Mapping) else batch_axis
        shape: list[int | str] = list(input_shapes.get(name, own))
        whole = name in input_shapes and len(shape) == len(own)
        if axis is not None and not whole:
            if not -len(own) <= axis < len(own):
                raise ValueError(
                    f"from_torch: {name} of the example, of shape {own}, has no axis {axis} that could be the batch. Name "
                    f"another one, batch_axis={{{name!r}: ...}}, or None if it has none, batch_axis={{{name!r}: None}}."
                )
            axis %= len(own)
            shape[axis : axis + (name not in input_shapes)] = [BATCH]
        if len(shape) != len(own) or any(n != m and not _is_name(n) for n, m in zip(shape, own, strict=True)):
            raise ValueError(
                f"from_torch: input_shapes has {tuple(input_shapes[name])} for {name}, whose example has shape {own}. Pass its "
                'numbers, with names in place of sizes that are free, such as "T".'
            )
        shapes.append(tuple(shape))
    return shapes


def _is_name(size: Any) -> bool:
    return isinstance(size, str) and size.isidentifier()


def _least_sizes(
    form: CallForm, tensors: Sequence[Any], shapes: Sequence[tuple[int | str, ...]], *, at_least_the_examples: bool
) -> dict[str, int]:
    """The smallest free sizes to record with: two, or those of the example where numbers may be places along other axes, as those
    in a list of edges are places of nodes."""
    axes: dict[str, list[tuple[str, int]]] = {}
    for place, tensor, shape in zip(form.places(), tensors, shapes, strict=True):
        for name, n in zip(shape, tensor.shape, strict=True):
            if isinstance(name, str):
                axes.setdefault(name, []).append((place, int(n)))
    for name, counts in axes.items():
        if len({n for _, n in counts}) > 1:
            told = f" ({', '.join(f'{place} {n}' for place, n in counts)})" if form.is_nested else ""
            problem = f"the examples have {', '.join(str(n) for _, n in counts)} samples{told}"
            if name != BATCH:
                problem = f"the size {name} is {' and '.join(f'{n} in {place}' for place, n in counts)}"
            raise ValueError(
                f"from_torch: {problem}. Pass the same number of each; name sizes that differ, such as those of nodes and edges, "
                'input_shapes={"x": ("N", 16), "edges": (2, "E")}; what belongs to no sample can be a buffer of the module.'
            )
    return {name: max(2, counts[0][1]) if at_least_the_examples else 2 for name, counts in axes.items()}


# Arguments.


def _check_names(module: Any, named: Mapping[Any, Any]) -> None:
    """Refuse a dictionary that is not one of arguments, such as one that is an argument itself."""
    try:
        inspect.signature(module.forward).bind(**named)
    except TypeError as error:
        raise ValueError(
            "from_torch: the entries of the example, a dictionary, are arguments by name, but "
            f"{type(module).__name__}.forward does not take them: {error}. If it takes the dictionary itself, pass a tuple "
            "with it: (example,)."
        ) from None


def _filled(torch: Any, place: str, x: Any, reference: Any) -> Any:
    """An argument with tensors in place of arrays; ``place`` says where it is."""
    if isinstance(x, Mapping):
        wrong = [key for key in x if type(key) not in (str, int)]
        if wrong:
            raise TypeError(
                f"from_torch: {place} of the example has the key {wrong[0]!r}. Dictionaries have texts or whole numbers as keys."
            )
        return {key: _filled(torch, f"{place}[{key!r}]", part, reference) for key, part in x.items()}
    if isinstance(x, (tuple, list)) and _holds_arrays(x):
        parts = [_filled(torch, f"{place}[{i}]", part, reference) for i, part in enumerate(x)]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    return _tensor(torch, place, x, reference)


def _holds_arrays(given: Any) -> bool:
    """True for tuples and lists of arrays, dictionaries and the like; those of numbers are an array."""
    if isinstance(given, (tuple, list)):
        return any(getattr(part, "ndim", 0) > 0 or _holds_arrays(part) for part in given)
    return isinstance(given, Mapping)


def _tensor(torch: Any, place: str, x: Any, reference: Any) -> Any:
    array = x if isinstance(x, torch.Tensor) else np.array(x)
    if array.dtype == np.object_:
        raise TypeError(
            f"from_torch: {place} of the example is a {type(x).__name__}, but must be an array, a tensor, or a tuple, list or "
            "dictionary of them. Wrap the module in one whose forward takes tensors and makes the rest of them, or leave it out."
        )
    tensor = x.detach() if isinstance(x, torch.Tensor) else torch.as_tensor(array)
    if 0 in tensor.shape:
        raise ValueError(
            f"from_torch: {place} of the example has shape {tuple(tensor.shape)}. Pass at least one sample, the batch axis first."
        )
    if reference is not None:
        tensor = tensor.to(reference.device)
        if tensor.is_floating_point() and reference.is_floating_point():
            tensor = tensor.to(reference.dtype)
    return tensor


def _argument_names(module: Any) -> tuple[str, ...]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(name for name, p in inspect.signature(module.forward).parameters.items() if p.kind in kinds)


def _plain(structure: Structure) -> Structure:
    """The same without classes of named tuples, whose modules may not be there where a network is read."""
    return Structure(structure.kind, structure.names, tuple(map(_plain, structure.parts)))
