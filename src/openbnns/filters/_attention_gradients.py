"""The gradient arguments of an attention backward call: which are wanted, where they go, which share memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._words import Caller, Named
from ..abi.structs import BNNSMHAProjectionParameters, BNNSNDArrayDescriptor
from ..errors import Problem
from ..tensors.operands import Bound, bind, resolve_delta
from .attention_shapes import AXES, canonical_order, check_shape, field, resolve

if TYPE_CHECKING:
    from .attention import MultiheadAttention

TARGETS = ("dq", "dk", "dv")
ARGUMENTS = {"q": "query", "k": "key", "v": "value"}


def result_name(gradient: str) -> str:
    """``query_param_delta.weights`` for ``dwq``."""
    if gradient in ("dbk", "dbv"):
        return f"{field(gradient[1:])}_delta"
    projection = {"q": "query", "k": "key", "v": "value", "o": "output"}[gradient[-1]]
    member = {"d": "target_desc", "w": "weights", "p": "bias"}[gradient[-2]]
    return f"{projection}_param_delta.{member}"


def bind_output_gradient(f: MultiheadAttention, caller: Caller, struct: Any, batch: int) -> Bound:
    who = caller("output_param_delta")
    if struct is None:
        raise Problem(f"{who} is {caller.null}. Its target_desc is the gradient of the output, which is always needed.")
    check_struct(struct, who)
    return bind_target(f, "o", struct.target_desc, who.field("target_desc"), batch, output=False)


def bind_target(f: MultiheadAttention, name: str, descriptor: Any, who: Named, batch: int, *, output: bool) -> Bound:
    """A target gradient; its batch stride is ``stride[2]``, which its two axes leave free."""
    like = f.operands[name].view
    view = resolve_delta(descriptor, who, like, output=output)
    _, axis_of = resolve(descriptor, AXES[name][0], who, like=like)
    check_shape(view, axis_of, f.letters, who)
    stride = int(descriptor.stride[2])
    if output and batch > 1 and 0 < stride < view.span:
        raise Problem(
            f"{who}.stride[2], the batch stride, is {stride}, but one sample spans {view.span} elements: samples "
            f"would overwrite each other. Use at least {view.span}, or 0 for packed samples."
        )
    order = canonical_order(axis_of, AXES[name][1])
    shape = tuple(view.size[a] for a in order)
    return bind(
        view, order, shape, who.field("data"), descriptor.data, batch, stride, output=output, flags=descriptor.flags
    )


def bind_results(
    f: MultiheadAttention, caller: Caller, batch: int, structs: dict[str, Any], attention_biases: dict[str, Any]
) -> dict[str, Bound]:
    results: dict[str, Bound] = {}
    for name, struct in structs.items():
        if struct is None:
            continue
        who = caller(f"{ARGUMENTS.get(name, 'output')}_param_delta")
        check_struct(struct, who)
        if name != "o" and struct.target_desc.data is not None:
            target = bind_target(f, name, struct.target_desc, who.field("target_desc"), batch, output=True)
            results[f"d{name}"] = target
        for letter, member in (("w", "weights"), ("p", "bias")):
            descriptor = getattr(struct, member)
            if descriptor.data is not None:
                results[f"d{letter}{name}"] = bind_parameter(f, f"{letter}{name}", descriptor, who.field(member))
    for name, descriptor in attention_biases.items():
        if descriptor is None:
            continue
        argument = f"{'key' if name == 'bk' else 'value'}_attn_bias_delta"
        if not isinstance(descriptor, BNNSNDArrayDescriptor):
            raise TypeError(
                f"{caller(argument)} must be a BNNSNDArrayDescriptor or None, not {type(descriptor).__name__}."
            )
        if descriptor.data is None:
            continue
        if name not in f.held:
            raise Problem(
                f"{caller(argument)} is given, but the filter was created without {field(name)}: there is no such "
                f"row. Pass {caller.null}, or create the filter with both attention biases."
            )
        results[f"d{name}"] = bind_parameter(f, name, descriptor, caller(argument))
    return results


def bind_parameter(f: MultiheadAttention, name: str, descriptor: Any, who: Named) -> Bound:
    """The gradient of a parameter, in the layout of its own descriptor."""
    like = f.held[name].view if name in f.held else None
    logical, canonical = AXES[name]
    view, axis_of = resolve(descriptor, logical, who, like=like)
    resolve_delta(descriptor, who, view, output=True)
    check_shape(view, axis_of, f.letters, who)
    order = canonical_order(axis_of, canonical)
    shape = tuple(view.size[a] for a in order)
    return bind(view, order, shape, who.field("data"), descriptor.data, 1, 0, output=True, flags=descriptor.flags)


def check_struct(struct: Any, who: str) -> None:
    if not isinstance(struct, BNNSMHAProjectionParameters):
        raise TypeError(f"{who} must be a BNNSMHAProjectionParameters or None, not {type(struct).__name__}.")


def leaders_of(results: dict[str, Bound]) -> dict[str, str]:
    """The gradient into whose memory each one goes: its own, or that of an earlier target gradient it shares."""
    leaders: dict[str, str] = {}
    for name, result in results.items():
        twins = (t for t in leaders if t in TARGETS and name in TARGETS and result.same_memory(results[t]))
        leaders[name] = next(twins, name)
    return leaders
