"""The example that a module is called with, and batches made of it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...graph.structure import Structure, flatten
from ...nn.call_form import CallForm


@dataclass(frozen=True)
class Example:
    """The tensors of an example, the names of its arguments as far as they are known, and how it is put together."""

    tensors: list[Any]
    structure: Structure
    names: tuple[str, ...]
    """The names of the tensors in a call of the network."""
    form: CallForm | None
    """The form of a call of the network, if arguments are more than one tensor each."""

    def arguments(self, tensors: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call with these tensors, by position and by name."""
        args, named = self.structure.fill(tensors)
        return args, named

    def call(self, module: Any, tensors: list[Any]) -> Any:
        """The result of the module on these tensors."""
        args, named = self.arguments(tensors)
        return module(*args, **named)

    def batch(self, torch: Any, size: int) -> list[Any]:
        """A batch of this many samples, taken from the example; floats are results, not leaves, so that they may be changed in
        place."""
        made = []
        for x in self.tensors:
            # In order, so that samples that are sorted by their lengths stay so.
            rows = x[(torch.arange(size, device=x.device) % len(x)).sort()[0]].clone()
            made.append(rows.requires_grad_().clone() if rows.is_floating_point() else rows)
        return made


def example_of(torch: Any, module: Any, example: Any) -> Example:
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
    counts = [len(x) for x in tensors]
    if len(set(counts)) != 1:
        places = zip(form.places(), counts, strict=True)
        told = f" ({', '.join(f'{place} {n}' for place, n in places)})" if form.is_nested else ""
        raise ValueError(
            f"from_torch: the examples have {', '.join(map(str, counts)) or 'no'} samples{told}. Pass the same number of each; "
            "what belongs to no sample, such as the edges of one graph, can be a buffer of the module."
        )
    if not form.is_nested:
        return Example(tensors, structure, names, None)
    return Example(tensors, structure, tuple(form.input_names()), form)


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
    if not tensor.ndim or not len(tensor):
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
