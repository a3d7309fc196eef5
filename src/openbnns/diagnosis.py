"""Diagnosis of failed calls: mistakes found by looking for a small change that makes the call valid.

Checks stop at the first mismatch, which is often not the mistake itself: with ``i_desc`` and ``o_desc`` exchanged, it is
the weights that do not match. So when a call has failed, changes that undo common mistakes are tried, and the message
names the one that makes the call valid. Nothing here runs unless a call has failed, and nothing here touches the
caller's memory.

* :func:`of_creation` varies the descriptors (or shapes) of a filter and asks ``valid`` about each variant.
* :func:`of_call` compares the memory of an apply call with the tensors of the filter.
* :func:`of_arrays` does so for the arrays of a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .errors import Problem
from .tensors import buffers, descriptors
from .tensors.descriptors import LAYOUTS, View, describe

_LARGEST = 1 << 24
"""The largest tensor, in elements, of a description that is varied: creating a filter for each variant must stay quick."""

_ORDER = {
    "ImageCHW": "(width, height, channels)",
    "RowMajorMatrix": "(columns, rows)",
    "ColumnMajorMatrix": "(rows, columns)",
    "ConvolutionWeightsOIHW": "(kernel width, kernel height, input channels, output channels)",
}


# Descriptions: BNNSNDArrayDescriptor of the C face, Shape of the Python face.


class Sizes(NamedTuple):
    """The layout, sizes and strides of a descriptor or shape, without its memory."""

    layout: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


def sizes_of(value: Any) -> Sizes | None:
    """The sizes of a descriptor or shape; ``None`` for anything else."""
    layout = getattr(value, "layout", None)
    if layout is None or int(layout) not in LAYOUTS:
        return None
    rank = LAYOUTS[int(layout)].rank
    packed = getattr(value, "is_packed", False)
    sizes = Sizes(int(layout), tuple(value.size)[:rank], (0,) * rank if packed else tuple(value.stride)[:rank])
    return sizes if 0 < prod(sizes.size) <= _LARGEST else None


def with_sizes(value: Any, size: Sequence[int], stride: Sequence[int]) -> Any:
    """A copy of a descriptor or shape with other sizes and strides."""
    if hasattr(value, "is_packed"):
        return type(value)(size, value.layout, stride if any(stride) else None)
    changed = value.copy()
    changed.size, changed.stride = size, stride
    return changed


def _as_written(name: str, value: Any) -> str:
    """How to write a tensor, in the words of its face."""
    sizes = sizes_of(value)
    return f"{name}.size {sizes.size}" if sizes is not None and hasattr(value, "data") else f"{name}={value!r}"


def _names(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _memory_matches(value: Any) -> bool:
    """True if the memory of a descriptor is exactly as long as its sizes say, as far as that can be known."""
    data = getattr(value, "data", None)
    if data is None or sizes_of(value) is None:
        return True
    try:
        view = descriptors.resolve(value, "")
        buffer = buffers.resolve(data, view.element, "")
    except (Problem, TypeError):
        return False
    return buffer.nbytes in (None, view.bytes_of(view.span), view.bytes_of(view.extent))


@dataclass(frozen=True)
class _Variant:
    changed: dict[str, Any]
    text: str
    """The mistake in the original, as a sentence."""


def of_creation(
    problem: Problem, tensors: Mapping[str, Any], valid: Callable[[Mapping[str, Any]], bool]
) -> Problem:  # fmt: skip
    """The problem of a creation call, with a better cure if there is one.

    ``tensors`` are the descriptors or shapes by the names that the caller knows, and arrays, which are not varied;
    ``valid`` says whether the call would succeed with some of them replaced.
    """
    known = {n: v for n, v in tensors.items() if sizes_of(v) is not None or isinstance(v, np.ndarray)}
    if problem.kind is not ValueError or problem.unsupported or valid({}):  # the tensors are not to blame
        return problem

    def fits(variant: _Variant) -> bool:
        return all(map(_memory_matches, (known | variant.changed).values())) and valid(variant.changed)

    variants = [v for kind in (_swapped, _strides_in_bytes, _reversed) for v in kind(known) if fits(v)]
    variants = variants or [v for v in _sides_exchanged(known) if fits(v)]
    if problem.cure and all(_changes_memory_only(v) for v in variants):  # an earlier cure may miss the point
        odd = [v for v in _odd_one_out(known) if fits(v)]
        variants += odd if len(odd) == 1 else []
    if not variants:
        return problem
    return problem.cured_by(" Or: ".join(f"{v.text}: the call is valid with {_changes(v)}." for v in variants))


def _changes_memory_only(variant: _Variant) -> bool:
    """True if only tensors with memory are changed."""
    return all(getattr(value, "data", None) is not None for value in variant.changed.values())


def _changes(variant: _Variant) -> str:
    return _names([_as_written(name, value) for name, value in variant.changed.items()])


def _swapped(tensors: Mapping[str, Any]) -> Iterator[_Variant]:
    """Two tensors in each other's place."""
    for one, two in combinations([name for name, value in tensors.items() if sizes_of(value) is not None], 2):
        a, b = tensors[one], tensors[two]
        same_kind = (getattr(a, "data", None) is None) == (getattr(b, "data", None) is None)
        if same_kind and sizes_of(a) != sizes_of(b):
            yield _Variant({one: b, two: a}, f"{one} and {two} look exchanged")


def _strides_in_bytes(tensors: Mapping[str, Any]) -> Iterator[_Variant]:
    """Strides of all tensors, or of one, that count bytes."""
    divided = {}
    for name, value in tensors.items():
        sizes, item = sizes_of(value), _item_bytes(value)
        if sizes is not None and item > 1 and any(sizes.stride) and not any(step % item for step in sizes.stride):
            divided[name] = with_sizes(value, sizes.size, [step // item for step in sizes.stride])
    for names in [[name] for name in divided] + ([list(divided)] if len(divided) > 1 else []):
        strides = _names([f"{name}.stride {sizes_of(divided[name]).stride}" for name in names])  # type: ignore[union-attr]
        text = f"The strides of {_names(names)} look like bytes, but strides count elements ({strides})"
        yield _Variant({name: divided[name] for name in names}, text)


def _item_bytes(value: Any) -> int:
    code = getattr(value, "data_type", None)
    element = None if code is None else descriptors.ELEMENT_TYPES.get(int(code))
    return 4 if code is None else element.bits // 8 if element is not None else 0


def _reversed(tensors: Mapping[str, Any]) -> Iterator[_Variant]:
    """Sizes in reverse order: of all tensors without memory, of all tensors, or of one."""
    turned = {}
    for name, value in tensors.items():
        sizes = sizes_of(value)
        if sizes is not None and sizes.size != sizes.size[::-1] and not any(sizes.stride):
            turned[name] = with_sizes(value, sizes.size[::-1], sizes.stride)
    bare = [name for name in turned if getattr(turned[name], "data", None) is None]
    groups = [group for group in (bare, list(turned)) if len(group) > 1] + [[name] for name in turned]
    for k, names in enumerate(groups):
        if names not in groups[:k]:
            text = f"The sizes of {_names(names)} look reversed{_order([tensors[name] for name in names])}"
            yield _Variant({name: turned[name] for name in names}, text)


def _order(values: Sequence[Any]) -> str:
    names = dict.fromkeys(LAYOUTS[int(value.layout)].name for value in values)
    rules = [f"{name} has {_ORDER[name]}" for name in names if name in _ORDER]
    return f" ({', '.join(rules)})" if rules else ""


def _sides_exchanged(tensors: Mapping[str, Any]) -> Iterator[_Variant]:
    """Width and height of an image exchanged."""
    for name, value in tensors.items():
        sizes = sizes_of(value)
        if sizes is not None and LAYOUTS[sizes.layout].name == "ImageCHW" and sizes.size[0] != sizes.size[1]:
            width, height, channels = sizes.size
            text = f"Width and height of {name} look exchanged (ImageCHW has {_ORDER['ImageCHW']})"
            yield _Variant({name: with_sizes(value, (height, width, channels), sizes.stride)}, text)


def _odd_one_out(tensors: Mapping[str, Any]) -> Iterator[_Variant]:
    """A tensor that contradicts the others, but agrees if one of its sizes is replaced by one of theirs."""
    for name, value in tensors.items():
        sizes = sizes_of(value)
        if sizes is None or any(sizes.stride):
            continue
        others = {n for other, tensor in tensors.items() if other != name for n in _lengths(tensor)}
        for k, old in enumerate(sizes.size):
            for new in sorted(others - {old}):
                size = (*sizes.size[:k], new, *sizes.size[k + 1 :])
                yield _Variant({name: with_sizes(value, size, sizes.stride)}, f"All but {name} fit together")


def _lengths(value: Any) -> tuple[int, ...]:
    sizes = sizes_of(value)
    return tuple(n for n in value.shape if n > 0) if sizes is None else sizes.size


def descriptors_in(struct: Any, prefix: str = "") -> dict[str, Any]:
    """All descriptors of a parameter struct and of the structs inside it, by their C names."""
    descriptors: dict[str, Any] = {}
    for name in getattr(struct, "_kinds", ()):
        value = getattr(struct, name)
        if hasattr(value, "size") and hasattr(value, "layout"):
            descriptors[prefix + name] = value
        elif hasattr(value, "_kinds"):
            descriptors |= descriptors_in(value, f"{prefix}{name}.")
    return descriptors


def with_descriptors(struct: Any, changed: Mapping[str, Any]) -> Any:
    """A copy of a parameter struct in which descriptors are replaced."""
    made = struct.copy()
    for path, value in changed.items():
        *outer, last = path.split(".")
        owner = made
        for name in outer:
            owner = getattr(owner, name)
        setattr(owner, last, value)
    return made


# Memory of an apply call.


@dataclass(frozen=True)
class Given:
    """One tensor of an apply call: what the filter expects, and the memory that was passed."""

    name: str
    view: View
    data: Any  # a buffer, or the descriptor of a gradient
    stride: Any

    @property
    def described(self) -> bool:
        return hasattr(self.data, "layout")

    def nbytes(self) -> int | None:
        """Bytes of the memory; ``None`` if that cannot be known."""
        data = self.data.data if self.described else self.data
        if data is None:
            return None
        try:
            return buffers.resolve(data, self.view.element, "").nbytes
        except (Problem, TypeError):
            return None

    def needed(self, batch: int, stride: int) -> int:
        return self.view.bytes_of((batch - 1) * stride + self.view.span)

    def holds(self, nbytes: int, batch: int, stride: int) -> bool:
        """True if this many bytes hold exactly the samples of this tensor."""
        step = stride or self.view.extent
        return step >= self.view.span and nbytes in (self.needed(batch, step), self.view.bytes_of(batch * step))


def of_call(problem: Problem, batch: Any, tensors: Sequence[Given]) -> Problem:
    """The problem of an apply call, with a better cure if there is one."""
    if problem.kind is not ValueError or problem.unsupported or type(batch) is not int or batch < 1:
        return problem
    usable = [t for t in tensors if t.data is not None and type(t.stride) is int and t.stride >= 0]
    text = _exchanged(batch, usable) or _bytes_between_samples(batch, usable) or _bytes_inside(batch, usable)
    return problem.cured_by(text) if text else problem


def _exchanged(batch: int, tensors: Sequence[Given]) -> str:
    for a, b in combinations(tensors, 2):
        if a.described != b.described or a.view.count == b.view.count:
            continue
        if a.described:
            one, two = _view_of(a), _view_of(b)
            exchanged = one is not None and two is not None and (one.size, two.size) == (b.view.size, a.view.size)
        else:
            one_bytes, two_bytes = a.nbytes(), b.nbytes()
            exchanged = (
                one_bytes is not None
                and two_bytes is not None
                and any(a.holds(two_bytes, batch, s) for s in (0, a.stride, b.stride))
                and any(b.holds(one_bytes, batch, s) for s in (0, a.stride, b.stride))
            )
        if exchanged:
            return (
                f"{a.name} and {b.name} look exchanged: what is passed as {a.name} fits {_samples(batch, b.view)}, and what "
                f"is passed as {b.name} fits {_samples(batch, a.view)}. Pass each in the other's place."
            )
    return ""


def _view_of(given: Given) -> View | None:
    try:
        return descriptors.resolve(given.data, "", like=given.view)
    except (Problem, TypeError):
        return None


def _samples(batch: int, view: View) -> str:
    return describe(view) if batch == 1 else f"{batch} samples of {describe(view)}"


def _bytes_between_samples(batch: int, tensors: Sequence[Given]) -> str:
    """Batch strides that count bytes."""
    suspects = []
    for t in tensors:
        nbytes, item = t.nbytes(), t.view.element.bits // 8
        if batch == 1 or nbytes is None or item < 2 or t.stride == 0 or t.stride % item:
            continue
        if nbytes < t.needed(batch, t.stride) and t.holds(nbytes, batch, t.stride // item):
            suspects.append((f"{t.name}_stride", t.stride, t.stride // item))
    if not suspects:
        return ""
    given = _names([f"{name} {stride}" for name, stride, _ in suspects])
    cure = _names([f"{name} {elements}" for name, _, elements in suspects])
    verb = "looks" if len(suspects) == 1 else "look"
    return f"{given} {verb} like bytes, but strides count elements. Pass {cure}, or 0 for packed samples."


def _bytes_inside(batch: int, tensors: Sequence[Given]) -> str:
    """Strides inside a sample that counted bytes when the filter was created."""
    for t in tensors:
        view, item, nbytes = t.view, t.view.element.bits // 8, t.nbytes()
        if view.packed or nbytes is None or item < 2 or any(stride % item for stride in view.strides):
            continue
        strides = tuple(stride // item for stride in view.strides)
        smaller = View(view.layout, view.element, view.size, strides)
        if nbytes < t.needed(batch, t.stride or view.extent) and Given("", smaller, None, 0).holds(nbytes, batch, 0):
            return (
                f"The filter was created with strides that look like bytes: {view.strides} along the axes of size[]. The stride "
                f"of a descriptor counts elements, and the memory of {t.name} fits {strides}."
            )
    return ""


# Arrays of a layer.


def of_arrays(problem: Problem, arrays: Sequence[tuple[str, tuple[int, ...], Any]]) -> Problem:
    """The problem of a layer call with a better cure, if any; ``arrays`` lists name, shape of one sample and value."""
    if problem.kind is not ValueError:
        return problem
    plain = [entry for entry in arrays if isinstance(entry[2], np.ndarray)]
    for (a, a_shape, a_array), (b, b_shape, b_array) in combinations(plain, 2):
        if a_shape != b_shape and _is_sample(b_array, a_shape) and _is_sample(a_array, b_shape):
            return problem.cured_by(
                f"{a} and {b} look exchanged: {b} has shape {b_array.shape}. Pass each as the other."
            )
    return problem


def _is_sample(array: Any, shape: tuple[int, ...]) -> bool:
    return bool(array.shape == shape or (array.ndim > 1 and array.shape[1:] == shape))
