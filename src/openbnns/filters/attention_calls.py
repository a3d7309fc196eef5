"""Declarations of the attention calls that native code runs, and the strides of their parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import _strict, engines
from ..abi.enums import BNNSDataLayout, BNNSDataType
from ..calls.form import form
from ..calls.signature import Argument, Need, need
from ..tensors.descriptors import ELEMENT_TYPES, FLOAT32, LAYOUTS, View
from ..tensors.operands import Operand
from ._attention_gradients import ARGUMENTS, result_name
from ._attention_slots import (
    ADDED,
    ADDED_IS_BOOLEAN,
    CACHE,
    CAUSAL,
    FIRST_PARAMETER,
    FIRST_PARAMETER_GRADIENT,
    KEY,
    KEY_GRADIENT,
    KEY_MASK,
    NO_DROPOUT,
    OUTPUT,
    OUTPUT_GRADIENT,
    QUERY,
    QUERY_GRADIENT,
    VALUE,
    VALUE_GRADIENT,
)
from .attention_shapes import PARAMETERS, field

if TYPE_CHECKING:
    from .. import _core
    from .attention import MultiheadAttention

_BOOLEAN = int(BNNSDataType.BNNSDataTypeBoolean)
_VECTOR = int(BNNSDataLayout.BNNSDataLayoutVector)


def make_plan(f: MultiheadAttention) -> _core.Plan:
    """The native plan of a new filter."""
    stored = [_stored_strides(f, name) for name in PARAMETERS]
    gradient = [_gradient_strides(f, name) for name in PARAMETERS]
    s = f.sizes
    return engines._core.attention(
        target=s.target, source=s.source, model=s.model, key=s.key, value=s.value, heads=s.heads,
        attention_bias=s.attention_bias, zero_row=s.zero_row, masked_rows_are_zero=f.options.masked_rows_are_zero,
        dropout=f.options.dropout, seed=f.seed, token=f.token, bfloat16=f.rounds_products,
        parameter_steps=stored, gradient_steps=gradient,
    )  # fmt: skip


def _strides(f: MultiheadAttention, name: str, view: View, order: tuple[int, ...]) -> tuple[int, int, int]:
    """Strides along (head, component, feature) of a parameter whose canonical axes are ``order``."""
    strides = [view.strides[axis] for axis in order]
    if name == "po":
        return (f.sizes.model, f.sizes.model, strides[0])
    if name == "wo":
        return (f.sizes.value * strides[0], strides[0], strides[1])
    return (strides[0], strides[1], strides[2] if len(strides) == 3 else 1)


def _canonical_strides(f: MultiheadAttention, name: str) -> tuple[int, int, int]:
    width = f.sizes.value if name[1] in "vo" else f.sizes.key
    inner = f.sizes.model if name.startswith("w") else 1
    return (f.sizes.model, f.sizes.model, 1) if name == "po" else (width * inner, inner, 1)


def _stored_strides(f: MultiheadAttention, name: str) -> tuple[int, int, int]:
    held = f.held.get(name)
    if held is None or held.fixed is not None:
        return _canonical_strides(f, name)
    return _strides(f, name, held.view, held.order)


def _gradient_strides(f: MultiheadAttention, name: str) -> tuple[int, int, int]:
    held = f.held.get(name)
    if held is None or not held.view.packed:
        return _canonical_strides(f, name)
    return _strides(f, name, held.view, held.order)


def fixed_addresses(f: MultiheadAttention) -> list[tuple[int, int, int]] | None:
    """Slot, address and bytes of the parameters; ``None`` when one has to be staged at each call."""
    fixed = []
    for number, name in enumerate(PARAMETERS):
        held = f.held.get(name)
        if held is None:
            continue
        address, nbytes = held.memory
        if held.fixed is None and (held.view.element is not FLOAT32 or address % 4):
            return None
        fixed.append((FIRST_PARAMETER + number, address, nbytes))
    return fixed


@dataclass(frozen=True)
class _Mask(Operand):
    """Which keys are ignored: one truth value each."""

    def native_items(self, writes: bool) -> dict[str, Any]:
        return {"index_bytes": 1, "data_type": self.view.element.code}


@dataclass(frozen=True)
class _Target(Operand):
    """The gradient of an input or of the output, whose batch stride is in its descriptor."""

    def native_items(self, writes: bool) -> dict[str, Any]:
        return {"stride_in_descriptor": True}


def _key_mask(f: MultiheadAttention) -> Argument:
    view = View(LAYOUTS[_VECTOR], ELEMENT_TYPES[_BOOLEAN], (f.sizes.source,), (1,))
    return Argument("key_mask", KEY_MASK, _Mask(view, (0,)), described=True)


def _cache(f: MultiheadAttention, *, writes: bool, needs: tuple[Need, ...] = ()) -> Argument:
    view = View(LAYOUTS[_VECTOR], FLOAT32, (f.cache_floats,), (1,))
    return Argument("backprop_cache", CACHE, Operand(view, (0,)), writes=writes, needs=needs, strided=False)


_PROJECTIONS = " ".join(f"{{0}}_param_delta.{member}" for member in ("target_desc", "weights", "bias"))
_INPUTS = "batch_size query query_stride {} key key_stride key_mask key_mask_stride {} value value_stride {}"

APPLY = form("apply_attention", " ".join(_INPUTS.format("", "", "").split()) + " output output_stride backprop_cache")
"""Arguments of a forward call without an added mask or a workspace."""

BACKWARD = {
    cached: form(
        "apply_backward_attention",
        _INPUTS.format(*(_PROJECTIONS.format(name) for name in ("query", "key", "value")))
        + " key_attn_bias_delta value_attn_bias_delta output output_stride "
        + _PROJECTIONS.format("output")
        + (" backprop_cache" if cached else ""),
        cached,
    )
    for cached in (False, True)
}
"""Arguments of a backward call without and with a cache; members of structs are listed one by one."""

SLOTS = {
    "query": QUERY,
    "key": KEY,
    "value": VALUE,
    "output": OUTPUT,
    "output_param_delta.target_desc": OUTPUT_GRADIENT,
}
"""The plan's slot for each tensor of both calls; members of structs go by their full names."""
SLOTS |= {
    f"{name}_param_delta.target_desc": slot
    for name, slot in (("query", QUERY_GRADIENT), ("key", KEY_GRADIENT), ("value", VALUE_GRADIENT))
}
SLOTS |= {result_name(f"d{name}"): FIRST_PARAMETER_GRADIENT + number for number, name in enumerate(PARAMETERS)}


def forward_arguments(f: MultiheadAttention) -> tuple[Argument, ...]:
    """The arguments of a native forward call: neither an added mask nor a workspace."""
    names = {"query": ("q", QUERY), "key": ("k", KEY), "value": ("v", VALUE)}
    return (
        *(Argument(name, slot, f.operands[key], required=True) for name, (key, slot) in names.items()),
        _key_mask(f),
        Argument("output", OUTPUT, f.operands["o"], writes=True, required=True),
        _cache(f, writes=True),
    )


def backward_arguments(f: MultiheadAttention, *, cached: bool) -> tuple[Argument, ...]:
    """The arguments of a native backward call, with or without a cache. Members of structs have their full names."""
    targets = {"q": QUERY_GRADIENT, "k": KEY_GRADIENT, "v": VALUE_GRADIENT}
    names = {key: result_name(f"d{key}") for key in targets}
    parameters = {name: result_name(f"d{name}") for name in PARAMETERS}
    every = (*names.values(), *parameters.values())
    same_length = f.sizes.target == f.sizes.source
    arguments = [_key_mask(f), Argument("output", OUTPUT, f.operands["o"])]
    for key, slot in (("q", QUERY), ("k", KEY), ("v", VALUE)):
        wanted = (parameters[f"w{key}"],) if cached else every
        arguments.append(Argument(ARGUMENTS[key], slot, f.operands[key], needs=(need(wanted, ""),)))
        others = {names[o] for o in targets if o != key and (same_length or "q" not in (o, key))}
        operand = f.operands[key]
        arguments.append(
            Argument(
                names[key], targets[key], _Target(operand.view, operand.order), writes=True,
                gradient_of=ARGUMENTS[key], described=True, skips_null_data=True, adds_up_with=frozenset(others), strided=False,
            )
        )  # fmt: skip
    for number, (name, argument) in enumerate(parameters.items()):
        held = f.held.get(name)
        view = f.operands["o"].view if held is None else held.view  # the plan takes any order of the axes
        arguments.append(
            Argument(
                argument, FIRST_PARAMETER_GRADIENT + number, Operand(view, view.memory_axes), writes=True,
                gradient_of=field(name), described=True, batched=False, skips_null_data=True,
                native=held is not None and view.packed,
            )
        )  # fmt: skip
    out = f.operands["o"]
    arguments.append(
        Argument(
            "output_param_delta.target_desc", OUTPUT_GRADIENT, _Target(out.view, out.order), gradient_of="output",
            described=True, needs=(need(every, ""),), strided=False,
        )
    )  # fmt: skip
    if cached:
        arguments.append(_cache(f, writes=False, needs=(need(every, ""),)))
    return tuple(arguments)


def run_checked(
    filter: MultiheadAttention, batch: int, tensors: Mapping[str, NDArray[Any]], key_mask: NDArray[np.bool_] | None,
    added: NDArray[Any] | None, cache: NDArray[Any] | None, *, causal: bool = False, drops: bool = False,
    backward: bool = False, accumulate: Sequence[str] = (),
) -> bool:  # fmt: skip
    """Run the plan on C-contiguous arrays of checked shapes and types; False if the plan cannot be used.

    ``tensors`` are the tensors of the C call by name, members of structs by their full names, with packed samples. Results
    are added to the gradients named in ``accumulate``. With ``causal``, a position also ignores source rows after its own.
    ``drops`` says whether dropout acts in a forward call, which then draws the filter's next mask; the cache records the
    mask for the backward call. Results must not share memory with inputs.
    """
    parameters = filter.fixed_addresses() if filter.plan is not None and engines.is_native() else None
    if parameters is None or batch == 0 or filter.strict or _strict.active():
        return False
    options = (0 if drops else NO_DROPOUT) | (CAUSAL if causal else 0)
    head_stride = 0
    named = [(SLOTS[name], array) for name, array in tensors.items()]
    places = [(slot, int(array.ctypes.data), array.size // batch) for slot, array in named]
    places += [(slot, address, 0) for slot, address, _ in parameters]
    if key_mask is not None:
        places.append((KEY_MASK, int(key_mask.ctypes.data), key_mask.size // batch))
    if added is not None:
        options |= ADDED_IS_BOOLEAN if added.dtype == np.bool_ else 0
        head_stride = added.strides[-3] // added.itemsize if added.ndim > 2 else 0
        places.append((ADDED, int(added.ctypes.data), added.strides[0] // added.itemsize if added.ndim > 3 else 0))
    if cache is not None:
        places.append((CACHE, int(cache.ctypes.data), 0))
    assert filter.plan is not None
    return bool(
        engines._core.run(
            filter.plan, backward, batch, places, sum(1 << SLOTS[name] for name in accumulate), filter.threads,
            extra=[options, head_stride, 0, filter.counter.ctypes.data], repeatable=True,
        )
    )  # fmt: skip
