"""Fast calls of attention: what the native code takes without a look from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import engines
from ..capi.enums import BNNSDataLayout, BNNSDataType
from ..descriptors import FLOAT32, View, packed_strides
from ..engines.native import attention as native
from ._attention_shapes import PARAMETERS

if TYPE_CHECKING:
    from .attention import MultiheadAttention

_BUFFER, _DESCRIPTOR, _REFUSED = 0, 1, 3  # kinds of arguments, in core/bindings/fast_call.h
_BOOLEAN = int(BNNSDataType.BNNSDataTypeBoolean)
_VECTOR = int(BNNSDataLayout.BNNSDataLayoutVector)


def prepare(f: MultiheadAttention) -> None:
    """Make the plan and the fast calls of a new filter."""
    if engines._core is None:
        return
    stored = [_stored_steps(f, name) for name in PARAMETERS]
    gradient = [_gradient_steps(f, name) for name in PARAMETERS]
    f.plan = native.plan(f.sizes, f.options, f.seed, f.token, stored, gradient)
    fixed = _fixed(f)
    if fixed is None or f.options.dropout or not all(operand.fast for operand in f.operands.values()):
        return
    call = engines._core.FastCall
    f.fast_forward = call(f.plan, False, _fast_arguments_forward(f), fixed, f.threads).run
    if f.strict or any(held.view.element is not FLOAT32 for held in f.held.values()):
        return
    f.fast_backward = call(f.plan, True, _fast_arguments_backward(f, cached=False), fixed, f.threads).run
    f.fast_backward_cached = call(f.plan, True, _fast_arguments_backward(f, cached=True), fixed, f.threads).run


def _steps(f: MultiheadAttention, name: str, view: View, order: tuple[int, ...]) -> tuple[int, int, int]:
    """Steps along (head, component, feature) of a parameter whose canonical axes are ``order``."""
    steps = [view.steps[axis] for axis in order]
    if name == "po":
        return (f.sizes.model, f.sizes.model, steps[0])
    if name == "wo":
        return (f.sizes.value * steps[0], steps[0], steps[1])
    return (steps[0], steps[1], steps[2] if len(steps) == 3 else 1)


def _canonical_steps(f: MultiheadAttention, name: str) -> tuple[int, int, int]:
    width = f.sizes.value if name[1] in "vo" else f.sizes.key
    inner = f.sizes.model if name.startswith("w") else 1
    return (f.sizes.model, f.sizes.model, 1) if name == "po" else (width * inner, inner, 1)


def _stored_steps(f: MultiheadAttention, name: str) -> tuple[int, int, int]:
    held = f.held.get(name)
    if held is None or held.fixed is not None:
        return _canonical_steps(f, name)
    return _steps(f, name, held.view, held.order)


def _gradient_steps(f: MultiheadAttention, name: str) -> tuple[int, int, int]:
    held = f.held.get(name)
    if held is None or not held.view.packed:
        return _canonical_steps(f, name)
    return _steps(f, name, held.view, held.order)


def _fixed(f: MultiheadAttention) -> list[tuple[int, int, int]] | None:
    """Slot, address and elements of the parameters; ``None`` when one has to be staged at each call."""
    fixed = []
    for number, name in enumerate(PARAMETERS):
        held = f.held.get(name)
        if held is None:
            continue
        address, nbytes = held.memory
        if held.fixed is None and (held.view.element is not FLOAT32 or address % 4):
            return None
        fixed.append((native.FIRST_PARAMETER + number, address, nbytes // 4))
    return fixed


def _input_argument(f: MultiheadAttention, slot: int, name: str, *, output: bool = False, needed_with: int = 0) -> Any:
    count = f.operands[name].view.count
    return engines._core.argument(slot, _BUFFER, True, True, output, count, needed_with, 0, 0, 0, [], [])


def _mask_argument(f: MultiheadAttention) -> Any:
    return engines._core.argument(
        native.KEY_MASK, _DESCRIPTOR, True, True, False, f.sizes.source, 0, 0, 0,
        _VECTOR, [f.sizes.source], [1], index_bytes=1, data_type=_BOOLEAN,
    )  # fmt: skip


def _cache_argument(f: MultiheadAttention, *, output: bool, needed_with: int) -> Any:
    return engines._core.argument(
        native.CACHE, _BUFFER, True, True, output, f.cache_floats, needed_with, 0, 0, 0, [], []
    )


def _fast_arguments_forward(f: MultiheadAttention) -> list[Any]:
    needed = 1 << native.OUTPUT
    return [
        _input_argument(f, native.QUERY, "q", needed_with=needed),
        _input_argument(f, native.KEY, "k", needed_with=needed),
        _mask_argument(f),
        _input_argument(f, native.VALUE, "v", needed_with=needed),
        _input_argument(f, native.OUTPUT, "o", output=True, needed_with=1 << native.QUERY | 1 << native.CACHE),
        _cache_argument(f, output=True, needed_with=0),
    ]


def _target_argument(
    f: MultiheadAttention, slot: int, name: str, *, output: bool, needed_with: int = 0, may_equal: int = 0
) -> Any:
    view = f.operands[name].view
    return engines._core.argument(
        slot, _DESCRIPTOR, False, True, output, view.count, needed_with, 0, may_equal, view.layout.code,
        list(view.size), list(_packed(view)), optional_data=output, stride_in_descriptor=True,
    )  # fmt: skip


def _parameter_argument(f: MultiheadAttention, name: str) -> Any:
    slot = native.FIRST_PARAMETER_GRADIENT + PARAMETERS.index(name)
    held = f.held.get(name)
    if held is None or not held.view.packed:
        return engines._core.argument(slot, _REFUSED, False, False, False, 0, 0, 0, 0, 0, [], [], optional_data=True)
    view = held.view
    return engines._core.argument(
        slot, _DESCRIPTOR, False, False, True, view.count, 0, 0, 0, view.layout.code, list(view.size),
        list(_packed(view)), optional_data=True,
    )  # fmt: skip


def _fast_arguments_backward(f: MultiheadAttention, *, cached: bool) -> list[Any]:
    first = native.FIRST_PARAMETER_GRADIENT
    every = (1 << first + len(PARAMETERS)) - (1 << native.QUERY_GRADIENT)
    same_length = f.sizes.target == f.sizes.source
    targets = {"dq": native.QUERY_GRADIENT, "dk": native.KEY_GRADIENT, "dv": native.VALUE_GRADIENT}
    arguments: list[Any] = []
    for name, slot in (("q", native.QUERY), ("k", native.KEY), ("v", native.VALUE)):
        weights = 1 << first + PARAMETERS.index(f"w{name}")
        arguments.append(_input_argument(f, slot, name, needed_with=weights if cached else every))
        if name == "k":
            arguments.append(_mask_argument(f))
        others = [s for n, s in targets.items() if n != f"d{name}" and (same_length or "dq" not in (n, f"d{name}"))]
        arguments += [
            _target_argument(f, targets[f"d{name}"], name, output=True, may_equal=sum(1 << other for other in others)),
            _parameter_argument(f, f"w{name}"),
            _parameter_argument(f, f"p{name}"),
        ]
    arguments += [_parameter_argument(f, "bk"), _parameter_argument(f, "bv")]
    arguments.append(_input_argument(f, native.OUTPUT, "o"))
    arguments.append(_target_argument(f, native.OUTPUT_GRADIENT, "o", output=False, needed_with=every))
    arguments += [_parameter_argument(f, "wo"), _parameter_argument(f, "po")]
    if cached:
        arguments.append(_cache_argument(f, output=False, needed_with=every))
    return arguments


def _packed(view: View) -> tuple[int, ...]:
    """``stride[]`` of a packed tensor of this kind."""
    return packed_strides(view.layout, view.size, (0,) * view.layout.rank)
