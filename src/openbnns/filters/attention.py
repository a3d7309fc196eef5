"""Multihead attention: every target position reads a weighted mean of the source positions, once per head.

    Qh = Q Wq[:,:,h] + pq[:,h]
    Kt = [K Wk[:,:,h] + pk[:,h]; bk[:,h]; 0]      Vt = [V Wv[:,:,h] + pv[:,h]; bv[:,h]; 0]
    R  = Qh Kt^T / sqrt(K) + X,  -infinity where the key is masked
    P  = softmax of the rows of R,  Pd = dropout(P)
    output = concat_h(Pd Vt) Wo + po

The gradients are on the docs page and in engines/reference/attention.py.

Shapes of one sample: Q, output (T, D); K, V (S, D); Wq, Wk (D, K, H); Wv (D, V, H); Wo (H*V, D); pq, pk, bk (K, H); pv,
bv (V, H); po (D); key mask (S); X (T, S), (H, T, S) or (N, H, T, S). Inside, parameters are (H, K, D), (H*V, D), (H, K).

The cache holds Qh, Kt, Vt, the concatenated heads and one log-sum per row; it grows with T and S, not with T*S.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import compat, engines, staging
from ..capi.enums import BNNSDataLayout
from ..capi.structs import (
    BNNSFilterParameters,
    BNNSLayerParametersMultiheadAttention,
    BNNSMHAProjectionParameters,
)
from ..descriptors import FLOAT32, View, describe, packed_strides
from ..engines.native import attention as native
from ..engines.reference import attention as reference
from ..engines.reference.random_numbers import Stream, uniform
from ..errors import Problem
from ._attention_memory import NATIVE, REFERENCE, Cache, block, cache_floats, opened, size_pointer, stated_size
from ._attention_shapes import (
    AXES,
    FIELDS,
    PARAMETERS,
    canonical_order,
    check_shape,
    describe_tensors,
    field,
    letter_sizes,
    resolve,
)
from ._base import Filter
from ._tensors import Bound, Caller, Operand, Parameter, bind, check_count, resolve_delta

if TYPE_CHECKING:
    from .. import _core

_L = BNNSDataLayout
_ADDED_LAYOUTS: dict[int, tuple[str, tuple[BNNSDataLayout, ...]]] = {
    2: ("TS", (_L.BNNSDataLayout2DFirstMajor, _L.BNNSDataLayout2DLastMajor, _L.BNNSDataLayoutRowMajorMatrix,
               _L.BNNSDataLayoutColumnMajorMatrix)),
    3: ("HTS", (_L.BNNSDataLayout3DFirstMajor, _L.BNNSDataLayout3DLastMajor)),
    4: ("NHTS", (_L.BNNSDataLayout4DFirstMajor, _L.BNNSDataLayout4DLastMajor)),
}  # fmt: skip

_DESCRIPTOR = 1  # kind of a fast argument, in core/bindings/fast_call.h
_BOOLEAN = 0x100008  # BNNSDataTypeBoolean
_TARGETS = ("dq", "dk", "dv")
_NO_DRAW = 2**63 - 1  # noted in a cache: this forward call dropped nothing

_tokens = itertools.count(int.from_bytes(os.urandom(7), "little") | 1)

# What the gradients of a call need beyond the cache.
_NEEDS_INPUT = {"dwq": "q", "dwk": "k", "dwv": "v"}
_ARGUMENTS = {"q": "query", "k": "key", "v": "value"}


@dataclass(frozen=True)
class _Masks:
    """Key mask and added scores of one call, in the form engines take."""

    key_mask: NDArray[np.uint8] | None = None  # (N, S)
    added: NDArray[Any] | None = None  # uint8 for a Boolean one, else float32; (T, S), (H, T, S) or (N, H, T, S)
    named: dict[str, Bound] = dataclass_field(default_factory=dict)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return tuple(self.named.values())

    @property
    def boolean(self) -> bool:
        return self.added is not None and self.added.dtype == np.uint8

    def stride(self, axis: int) -> int:
        """Elements from head to head (axis -3) or from sample to sample (-4) of the added scores, 0 if they share."""
        if self.added is None or self.added.ndim < -axis:
            return 0
        return int(self.added.strides[axis]) // self.added.itemsize

    def added64(self) -> NDArray[Any] | None:
        if self.added is None:
            return None
        return self.added != 0 if self.boolean else self.added.astype(np.float64)


class MultiheadAttention(Filter):
    """A multihead attention filter."""

    family = "multihead attention"
    apply_call = "BNNSApplyMultiheadAttention"
    backward_call = "BNNSApplyMultiheadAttentionBackward"

    def __init__(
        self,
        p: BNNSLayerParametersMultiheadAttention,
        filter_params: BNNSFilterParameters | None = None,
        who: str = "BNNSFilterCreateLayerMultiheadAttention",
    ) -> None:
        super().__init__(filter_params, who)
        self.held: dict[str, Parameter] = {}
        self.fast_backward_cached: Any = self.fast_backward
        tensors, self.sizes = describe_tensors(p, who)
        self.operands = {name: Operand(tensors[name].view, tensors[name].order) for name in ("q", "k", "v", "o")}
        with np.errstate(over="ignore"):
            rate = float(np.float32(p.dropout))
        self.options = reference.Options(
            zero_row=self.sizes.zero_row,
            dropout=rate if 0.0 < rate < 1.0 else 0.0,
            masked_rows_are_zero=compat.switches.attention_masked_rows_are_zero,
        )
        self.seed = int(p.seed)
        self.strict = compat.switches.attention_strict_cache
        for name in PARAMETERS:
            if name in tensors:
                self.held[name] = self._hold(p, name, tensors[name].view, tensors[name].order, who)
        self.token = next(_tokens) % 2**63
        self.draws = 0  # forward calls with dropout so far
        self.cache_floats = cache_floats(self.sizes)
        self.plan: _core.Plan | None = None
        self._letters = letter_sizes(self.sizes)
        self._prepare()

    def _hold(
        self, p: BNNSLayerParametersMultiheadAttention, name: str, view: View, order: tuple[int, ...], who: str
    ) -> Parameter:
        projection, member = FIELDS[name]
        holder = getattr(p, projection)
        descriptor = getattr(holder, member) if member else holder
        return Parameter(
            view, order, f"{who}: {field(name)}.data", descriptor.data, client_pointer=self.client_pointer,
            memory=self.memory,
        )  # fmt: skip

    def parameters(self) -> list[Parameter]:
        return list(self.held.values())

    def destroy(self) -> None:
        super().destroy()
        self.fast_backward_cached = self.fast_backward

    # Native set-up.

    def _prepare(self) -> None:
        if engines._core is None:
            return
        stored = [self._stored_steps(name) for name in PARAMETERS]
        gradient = [self._gradient_steps(name) for name in PARAMETERS]
        self.plan = native.plan(self.sizes, self.options, self.seed, self.token, stored, gradient)
        fixed = self._fixed()
        if fixed is None or self.options.dropout or not all(operand.fast for operand in self.operands.values()):
            return
        call = engines._core.FastCall
        self.fast_forward = call(self.plan, False, self._fast_arguments_forward(), fixed, self.threads).run
        if self.strict or any(held.view.element is not FLOAT32 for held in self.held.values()):
            return
        backward = self._fast_arguments_backward
        self.fast_backward = call(self.plan, True, backward(cached=False), fixed, self.threads).run
        self.fast_backward_cached = call(self.plan, True, backward(cached=True), fixed, self.threads).run

    def _steps(self, name: str, view: View, order: tuple[int, ...]) -> tuple[int, int, int]:
        """Steps along (head, component, feature) of a parameter whose canonical axes are ``order``."""
        steps = [view.steps[axis] for axis in order]
        if name == "po":
            return (self.sizes.model, self.sizes.model, steps[0])
        if name == "wo":
            return (self.sizes.value * steps[0], steps[0], steps[1])
        return (steps[0], steps[1], steps[2] if len(steps) == 3 else 1)

    def _canonical_steps(self, name: str) -> tuple[int, int, int]:
        width = self.sizes.value if name[1] in "vo" else self.sizes.key
        inner = self.sizes.model if name.startswith("w") else 1
        return (self.sizes.model, self.sizes.model, 1) if name == "po" else (width * inner, inner, 1)

    def _stored_steps(self, name: str) -> tuple[int, int, int]:
        held = self.held.get(name)
        if held is None or held.fixed is not None:
            return self._canonical_steps(name)
        return self._steps(name, held.view, held.order)

    def _gradient_steps(self, name: str) -> tuple[int, int, int]:
        held = self.held.get(name)
        if held is None or not held.view.packed:
            return self._canonical_steps(name)
        return self._steps(name, held.view, held.order)

    def _fixed(self) -> list[tuple[int, int, int]] | None:
        """Slot, address and elements of the parameters; ``None`` when one has to be staged at each call."""
        fixed = []
        for number, name in enumerate(PARAMETERS):
            held = self.held.get(name)
            if held is None:
                continue
            address, nbytes = held.memory
            if held.fixed is None and (held.view.element is not FLOAT32 or address % 4):
                return None
            fixed.append((native.FIRST_PARAMETER + number, address, nbytes // 4))
        return fixed

    def _input_argument(self, slot: int, name: str, *, output: bool = False, needed_with: int = 0) -> Any:
        count = self.operands[name].view.count
        return engines._core.argument(slot, 0, True, True, output, count, needed_with, 0, 0, 0, [], [])

    def _mask_argument(self) -> Any:
        return engines._core.argument(
            native.KEY_MASK, _DESCRIPTOR, True, True, False, self.sizes.source, 0, 0, 0,
            int(_L.BNNSDataLayoutVector), [self.sizes.source], [1], index_bytes=1, data_type=_BOOLEAN,
        )  # fmt: skip

    def _cache_argument(self, *, output: bool, needed_with: int) -> Any:
        return engines._core.argument(
            native.CACHE, 0, True, True, output, self.cache_floats, needed_with, 0, 0, 0, [], []
        )

    def _fast_arguments_forward(self) -> list[Any]:
        needed = 1 << native.OUTPUT
        return [
            self._input_argument(native.QUERY, "q", needed_with=needed),
            self._input_argument(native.KEY, "k", needed_with=needed),
            self._mask_argument(),
            self._input_argument(native.VALUE, "v", needed_with=needed),
            self._input_argument(native.OUTPUT, "o", output=True, needed_with=1 << native.QUERY | 1 << native.CACHE),
            self._cache_argument(output=True, needed_with=0),
        ]

    def _target_argument(self, slot: int, name: str, *, output: bool, needed_with: int = 0, may_equal: int = 0) -> Any:
        view = self.operands[name].view
        return engines._core.argument(
            slot, _DESCRIPTOR, False, True, output, view.count, needed_with, 0, may_equal, view.layout.code,
            list(view.size), list(_packed(view)), optional_data=output, stride_in_descriptor=True,
        )  # fmt: skip

    def _parameter_argument(self, name: str) -> Any:
        slot = native.FIRST_PARAMETER_GRADIENT + PARAMETERS.index(name)
        held = self.held.get(name)
        if held is None or not held.view.packed:
            return engines._core.argument(slot, 3, False, False, False, 0, 0, 0, 0, 0, [], [], optional_data=True)
        view = held.view
        return engines._core.argument(
            slot, _DESCRIPTOR, False, False, True, view.count, 0, 0, 0, view.layout.code, list(view.size),
            list(_packed(view)), optional_data=True,
        )  # fmt: skip

    def _fast_arguments_backward(self, *, cached: bool) -> list[Any]:
        first = native.FIRST_PARAMETER_GRADIENT
        every = (1 << first + len(PARAMETERS)) - (1 << native.QUERY_GRADIENT)
        same_length = self.sizes.target == self.sizes.source
        targets = {"dq": native.QUERY_GRADIENT, "dk": native.KEY_GRADIENT, "dv": native.VALUE_GRADIENT}
        arguments: list[Any] = []
        for name, slot in (("q", native.QUERY), ("k", native.KEY), ("v", native.VALUE)):
            weights = 1 << first + PARAMETERS.index(f"w{name}")
            arguments.append(self._input_argument(slot, name, needed_with=weights if cached else every))
            if name == "k":
                arguments.append(self._mask_argument())
            others = [s for n, s in targets.items() if n != f"d{name}" and (same_length or "dq" not in (n, f"d{name}"))]
            arguments += [
                self._target_argument(
                    targets[f"d{name}"], name, output=True, may_equal=sum(1 << other for other in others)
                ),
                self._parameter_argument(f"w{name}"),
                self._parameter_argument(f"p{name}"),
            ]
        arguments += [self._parameter_argument("bk"), self._parameter_argument("bv")]
        arguments.append(self._input_argument(native.OUTPUT, "o"))
        arguments.append(self._target_argument(native.OUTPUT_GRADIENT, "o", output=False, needed_with=every))
        arguments += [self._parameter_argument("wo"), self._parameter_argument("po")]
        if cached:
            arguments.append(self._cache_argument(output=False, needed_with=every))
        return arguments

    # Sizes of cache and workspace.

    def cache_bytes(self, batch: int) -> int:
        """Bytes of a cache for this many samples."""
        return max(1, batch) * self.cache_floats * 4

    def workspace_bytes(self, batch: int, *, backward: bool, cached: bool) -> int:
        """Bytes of a workspace for this many samples, with or without a cache."""
        if self.plan is not None:
            return int(self.plan.workspace_bytes(backward, max(1, batch), cached))
        kept = 0 if cached else self.sizes.linear_cache_elements(max(1, batch))
        return 64 + 4 * (kept + (self.sizes.projection_elements(max(1, batch)) if backward else 0))

    # Arguments of both calls.

    def _bind_masks(self, caller: Caller, batch: int, key_mask: Any, stride: Any, added: Any) -> _Masks:
        stride = check_count(stride, caller("key_mask_stride"))
        named: dict[str, Bound] = {}
        mask = None
        if key_mask is not None:
            who = caller("key_mask")
            view, axis_of = resolve(key_mask, "S", who)
            _require_boolean(view, who)
            check_shape(view, axis_of, self._letters, who)
            bound = bind(view, (0,), (self.sizes.source,), f"{who}.data", key_mask.data, batch, stride)
            named["key_mask"] = bound
            mask = _raw(bound, 1)
        scores = None
        if added is not None:
            bound, scores = self._bind_added(caller("add_to_attention"), added, batch)
            named["add_to_attention"] = bound
        return _Masks(mask, scores, named)

    def _bind_added(self, who: str, added: Any, batch: int) -> tuple[Bound, NDArray[Any]]:
        rank = int(getattr(added, "layout", 0)) >> 16
        axes, layouts = _ADDED_LAYOUTS.get(rank, _ADDED_LAYOUTS[4])
        if rank not in _ADDED_LAYOUTS and hasattr(added, "layout"):
            raise Problem(
                f"{who} has {rank} axes. Describe (target, source), (heads, target, source) or (batch, heads, target, "
                "source), for example as 2DFirstMajor."
            )
        view, axis_of = resolve(added, axes, who, layouts=layouts)
        check_shape(view, axis_of, self._letters | {"N": batch}, who)
        if view.element.kind not in ("float", "bfloat", "boolean"):
            raise Problem(
                f"{who}.data_type is {view.element.name}, but it is added to the scores. Use Float32, or Boolean where "
                "true stands for -infinity.",
                kind=TypeError,
            )
        order = canonical_order(axis_of, axes)
        bound = bind(view, order, tuple(view.size[a] for a in order), f"{who}.data", added.data, 1, 0)
        if view.element.kind == "boolean":
            return bound, _raw(bound, 2)[0]
        scores = bound.read(np.float32)[0]
        return bound, scores

    def _bind_workspace(
        self, caller: Caller, size: Any, workspace: Any, batch: int, *, backward: bool, cached: bool
    ) -> Any:
        if workspace is None:
            return None
        needed = self.workspace_bytes(batch, backward=backward, cached=cached)
        stated = None if size is None else int(size.value)
        work = block(workspace, stated, needed, caller("workspace"), "workspace_size", written=True)
        return work if work.nbytes is not None else replace(work, nbytes=needed)

    def _random_factor(self, batch: int, draw: int) -> NDArray[np.bool_] | None:
        """The mask `keep` of the reference engine; ``None`` without dropout."""
        if not self.options.dropout or draw == _NO_DRAW:
            return None
        shape = (batch, self.sizes.heads, self.sizes.target, self.sizes.source_rows)
        numbers = uniform(Stream(self.seed, draw), self.sizes.probability_elements(batch))
        return np.asarray(numbers >= self.options.dropout).reshape(shape)

    def _options(self, draw: int) -> reference.Options:
        if draw == _NO_DRAW:
            return reference.Options(self.options.zero_row, 0.0, self.options.masked_rows_are_zero)
        return self.options

    def parameters64(self) -> reference.Parameters:
        """The parameters as the reference engine takes them."""
        return reference.Parameters(**{name: _logical(name, held.read(np.float64)) for name, held in self.held.items()})

    # Forward.

    def apply_attention(
        self, caller: Caller, batch: Any, query: Any, query_stride: Any, key: Any, key_stride: Any, key_mask: Any,
        key_mask_stride: Any, value: Any, value_stride: Any, output: Any, output_stride: Any, add_to_attention: Any,
        backprop_cache_size: Any, backprop_cache: Any, workspace_size: Any, workspace: Any, *, drops: bool = True,
    ) -> None:  # fmt: skip
        """Run forward, or answer a question for sizes. With ``drops`` off, dropout is left out."""
        self.require_alive(caller)
        batch = check_count(batch, caller("batch_size"))
        cache_size = size_pointer(backprop_cache_size, caller("backprop_cache_size"))
        work_size = size_pointer(workspace_size, caller("workspace_size"))
        asks_cache = cache_size is not None and backprop_cache is None
        asks_work = work_size is not None and workspace is None
        if asks_cache or asks_work:
            if asks_cache:
                cache_size.value = self.cache_bytes(batch)
            if asks_work:
                cached = asks_cache or backprop_cache is not None
                work_size.value = self.workspace_bytes(batch, backward=False, cached=cached)
            return
        q = self.operands["q"].bind(caller("query"), query, batch, query_stride)
        k = self.operands["k"].bind(caller("key"), key, batch, key_stride)
        v = self.operands["v"].bind(caller("value"), value, batch, value_stride)
        y = self.operands["o"].bind(caller("output"), output, batch, output_stride, output=True)
        masks = self._bind_masks(caller, batch, key_mask, key_mask_stride, add_to_attention)
        cache = None
        if backprop_cache is not None:
            stated = None if cache_size is None else int(cache_size.value)
            memory = block(
                backprop_cache, stated, self.cache_bytes(batch), caller("backprop_cache"), "backprop_cache_size",
                written=True,
            )  # fmt: skip
            cache = Cache(memory, batch, self.cache_floats)
        work = self._bind_workspace(caller, work_size, workspace, batch, backward=False, cached=cache is not None)
        self._refuse_shared_memory(caller, cache, work, {"output": y}, {"query": q, "key": k, "value": v}, masks)
        draw = _NO_DRAW
        if self.options.dropout and drops:
            draw = self.draws
            self.draws += 1
        if cache is not None:
            cache = Cache(cache.buffer, batch, cache.floats, NATIVE if engines.is_native() else REFERENCE, draw)
        if batch == 0:
            if cache is not None:
                cache.write_header(self.token)
        elif engines.is_native():
            self._forward_native(batch, {"q": q, "k": k, "v": v}, y, masks, cache, work, draw)
        else:
            self._forward_reference(batch, {"q": q, "k": k, "v": v}, y, masks, cache, draw)

    def _forward_native(
        self, batch: int, inputs: dict[str, Bound], y: Bound, masks: _Masks, cache: Cache | None, work: Any, draw: int
    ) -> None:
        call = _NativeCall(self, batch, masks, draw)
        for slot, name in enumerate("qkv"):
            call.tensor(slot, inputs[name].read(np.float32))
        call.parameters()
        unsafe = any(y.overlaps(x) for x in (*inputs.values(), *masks.bounds)) or self._touches_parameters(y)
        result = None if unsafe else y.direct()
        target = np.empty((batch, *y.shape), np.float32) if result is None else result
        call.tensor(native.OUTPUT, target)
        call.workspace(work)
        staged = call.cache(cache)
        call.run(backward=False)
        if result is None:
            y.write(target)
        if cache is not None:
            if staged is not None:
                cache.bytes(writable=True)[...] = staged.view(np.uint8)
            cache.write_header(self.token)

    def _forward_reference(
        self, batch: int, inputs: dict[str, Bound], y: Bound, masks: _Masks, cache: Cache | None, draw: int
    ) -> None:
        q, k, v = (inputs[name].read(np.float64) for name in "qkv")
        if cache is not None:  # before the output is written, which may lie where an input does
            copies = np.concatenate([x.reshape(-1) for x in (q, k, v)])
            cache.floats_at(copies.size, writable=True)[...] = copies
            cache.write_header(self.token)
        key_mask = None if masks.key_mask is None else masks.key_mask != 0
        result, _ = reference.forward(
            q, k, v, self.parameters64(), self._options(draw), key_mask, masks.added64(),
            self._random_factor(batch, draw),
        )  # fmt: skip
        y.write(result)

    # Backward.

    def apply_backward_attention(
        self, caller: Caller, batch: Any, query: Any, query_stride: Any, query_param_delta: Any, key: Any,
        key_stride: Any, key_mask: Any, key_mask_stride: Any, key_param_delta: Any, value: Any, value_stride: Any,
        value_param_delta: Any, add_to_attention: Any, key_attn_bias_delta: Any, value_attn_bias_delta: Any,
        output: Any, output_stride: Any, output_param_delta: Any, backprop_cache_size: Any, backprop_cache: Any,
        workspace_size: Any, workspace: Any,
    ) -> None:  # fmt: skip
        self.require_alive(caller)
        batch = check_count(batch, caller("batch_size"))
        cache_size = stated_size(backprop_cache_size, caller("backprop_cache_size"))
        work_size = size_pointer(workspace_size, caller("workspace_size"))
        has_cache = backprop_cache is not None and cache_size > 0
        if work_size is not None and workspace is None:
            work_size.value = self.workspace_bytes(batch, backward=True, cached=has_cache)
            return
        self._check_training(caller)
        self._check_strict(caller, has_cache, workspace)
        dout = self._bind_output_gradient(caller, output_param_delta, batch)
        results = self._bind_results(
            caller, batch,
            {"q": query_param_delta, "k": key_param_delta, "v": value_param_delta, "o": output_param_delta},
            {"bk": key_attn_bias_delta, "bv": value_attn_bias_delta},
        )  # fmt: skip
        inputs: dict[str, Bound] = {}
        for name, data, stride in (("q", query, query_stride), ("k", key, key_stride), ("v", value, value_stride)):
            check_count(stride, caller(f"{_ARGUMENTS[name]}_stride"))
            if data is not None:
                inputs[name] = self.operands[name].bind(caller(_ARGUMENTS[name]), data, batch, stride)
        check_count(output_stride, caller("output_stride"))
        if output is not None:
            self.operands["o"].bind(caller("output"), output, batch, output_stride)
        masks = self._bind_masks(caller, batch, key_mask, key_mask_stride, add_to_attention)
        cache = None
        if has_cache:
            who = caller("backprop_cache")
            memory = block(
                backprop_cache, cache_size, self.cache_bytes(batch), who, "backprop_cache_size", written=False
            )
            cache = opened(memory, self.token, batch, self.cache_floats, who)
        work = self._bind_workspace(caller, work_size, workspace, batch, backward=True, cached=has_cache)
        self._check_inputs(caller, inputs, cache, set(results))
        named = {self._result_name(name): bound for name, bound in results.items()}
        sources = {_ARGUMENTS[name]: bound for name, bound in inputs.items()} | {"output_param_delta.target_desc": dout}
        self._refuse_shared_memory(caller, cache, work, named, sources, masks)
        leaders = _leaders(caller, results, self._result_name)
        if batch == 0:
            for name in results.keys() - set(_TARGETS):
                results[name].write(np.zeros((1, *results[name].shape), np.float32))
        elif results and engines.is_native():
            self._backward_native(batch, inputs, dout, results, leaders, masks, cache, work)
        elif results:
            self._backward_reference(batch, inputs, dout, results, leaders, masks, cache)

    def _check_training(self, caller: Caller) -> None:
        views = {f"{name} target": operand.view for name, operand in self.operands.items()}
        views |= {field(name): held.view for name, held in self.held.items()}
        for name, view in views.items():
            if view.element is not FLOAT32:
                raise Problem(
                    f"{caller.function}: the filter's {name} is {view.element.name}, but training works on Float32 only. "
                    "Create the filter with Float32 descriptors.",
                    kind=TypeError,
                )

    def _check_strict(self, caller: Caller, has_cache: bool, workspace: Any) -> None:
        if self.strict and not has_cache:
            raise Problem(
                f"{caller('backprop_cache')} is NULL or its size 0, which fails on macOS 15, and the filter was created "
                "with compat.switches.attention_strict_cache. Pass the cache of the forward call."
            )
        if self.strict and workspace is not None:
            raise Problem(
                f"{caller('workspace')} is given, which fails on macOS 15, and the filter was created with "
                "compat.switches.attention_strict_cache. Pass NULL."
            )

    def _bind_output_gradient(self, caller: Caller, struct: Any, batch: int) -> Bound:
        who = caller("output_param_delta")
        if struct is None:
            raise Problem(
                f"{who} is NULL. Its target_desc is the gradient arriving at the output, which is always needed."
            )
        _check_struct(struct, who)
        return self._bind_target("o", struct.target_desc, f"{who}.target_desc", batch, output=False)

    def _bind_target(self, name: str, descriptor: Any, who: str, batch: int, *, output: bool) -> Bound:
        """A target gradient; its batch stride is ``stride[2]``, which its two axes leave free."""
        like = self.operands[name].view
        view = resolve_delta(descriptor, who, like, output=output)
        _, axis_of = resolve(descriptor, AXES[name][0], who, like=like)
        check_shape(view, axis_of, self._letters, who)
        stride = int(descriptor.stride[2])
        if output and batch > 1 and 0 < stride < view.span:
            raise Problem(
                f"{who}.stride[2], the batch stride, is {stride}, but one sample spans {view.span} elements: samples "
                f"would overwrite each other. Use at least {view.span}, or 0 for packed samples."
            )
        order = canonical_order(axis_of, AXES[name][1])
        shape = tuple(view.size[a] for a in order)
        return bind(
            view, order, shape, f"{who}.data", descriptor.data, batch, stride, output=output, flags=descriptor.flags
        )

    def _bind_results(
        self, caller: Caller, batch: int, structs: dict[str, Any], attention_biases: dict[str, Any]
    ) -> dict[str, Bound]:
        results: dict[str, Bound] = {}
        for name, struct in structs.items():
            if struct is None:
                continue
            who = caller(f"{_ARGUMENTS.get(name, 'output')}_param_delta")
            _check_struct(struct, who)
            if name != "o" and struct.target_desc.data is not None:
                target = self._bind_target(name, struct.target_desc, f"{who}.target_desc", batch, output=True)
                results[f"d{name}"] = target
            for letter, member in (("w", "weights"), ("p", "bias")):
                descriptor = getattr(struct, member)
                if descriptor.data is not None:
                    results[f"d{letter}{name}"] = self._bind_parameter(f"{letter}{name}", descriptor, f"{who}.{member}")
        for name, descriptor in attention_biases.items():
            if descriptor is None:
                continue
            argument = f"{'key' if name == 'bk' else 'value'}_attn_bias_delta"
            if not hasattr(descriptor, "data"):
                raise TypeError(
                    f"{caller(argument)} must be a BNNSNDArrayDescriptor or None, not {type(descriptor).__name__}."
                )
            if descriptor.data is None:
                continue
            if name not in self.held:
                raise Problem(
                    f"{caller(argument)} is given, but the filter was created without {field(name)}: there is no such "
                    "row. Pass NULL, or create the filter with both attention biases."
                )
            results[f"d{name}"] = self._bind_parameter(name, descriptor, caller(argument))
        return results

    def _bind_parameter(self, name: str, descriptor: Any, who: str) -> Bound:
        """The gradient of a parameter, in the layout of its own descriptor."""
        like = self.held[name].view if name in self.held else None
        logical, canonical = AXES[name]
        view, axis_of = resolve(descriptor, logical, who, like=like)
        resolve_delta(descriptor, who, view, output=True)
        check_shape(view, axis_of, self._letters, who)
        order = canonical_order(axis_of, canonical)
        shape = tuple(view.size[a] for a in order)
        return bind(view, order, shape, f"{who}.data", descriptor.data, 1, 0, output=True, flags=descriptor.flags)

    def _check_inputs(self, caller: Caller, inputs: dict[str, Bound], cache: Cache | None, wanted: set[str]) -> None:
        """Refuse a call that lacks what its gradients are computed from."""
        for gradient, name in _NEEDS_INPUT.items():
            if gradient in wanted and name not in inputs and (cache is None or cache.engine == NATIVE):
                raise Problem(
                    f"{caller(_ARGUMENTS[name])} is NULL, but {self._result_name(gradient)} needs it. Pass the input of "
                    "the forward call, or NULL for that gradient."
                )
        missing = [_ARGUMENTS[name] for name in "qkv" if name not in inputs]
        if not wanted - {"dpo"} or (cache is not None and (cache.engine == REFERENCE or engines.is_native())):
            return
        if cache is not None and missing:
            raise Problem(
                f"{caller('backprop_cache')} was filled by the native engine, and the reference engine computes from the "
                f"inputs, but {' and '.join(missing)} is NULL. Pass the inputs of the forward call."
            )
        if cache is None and missing:
            raise Problem(
                f"{caller(missing[0])} is NULL, and without a cache the forward pass has to be computed again. Pass query, "
                "key and value, or the cache of the forward call."
            )
        if cache is None and self.options.dropout:
            raise Problem(
                f"{caller('backprop_cache')} is NULL, but the filter has dropout {self.options.dropout:g}, and which "
                "probabilities the forward call dropped is noted in its cache. Pass that cache."
            )

    def _result_name(self, gradient: str) -> str:
        """``query_param_delta.weights`` for ``dwq``."""
        if gradient in ("dbk", "dbv"):
            return f"{field(gradient[1:])}_delta"
        projection = {"q": "query", "k": "key", "v": "value", "o": "output"}[gradient[-1]]
        member = {"d": "target_desc", "w": "weights", "p": "bias"}[gradient[-2]]
        return f"{projection}_param_delta.{member}"

    def _refuse_shared_memory(
        self, caller: Caller, cache: Cache | None, work: Any, results: dict[str, Bound], sources: dict[str, Bound],
        masks: _Masks,
    ) -> None:  # fmt: skip
        """Cache and workspace are the call's own: nothing else may lie in them."""
        blocks = {}
        if cache is not None:
            blocks["backprop_cache"] = cache.memory
        if work is not None:
            blocks["workspace"] = (work.address, work.nbytes)
        tensors = results | sources | masks.named
        for name, memory in blocks.items():
            for other, bound in tensors.items():
                if bound.touches(memory):
                    raise Problem(f"{caller(name)} and {other} share memory. Give each its own buffer.")
            for held_name, held in self.held.items():
                address, nbytes = held.memory
                if memory[0] < address + nbytes and address < memory[0] + memory[1]:
                    raise Problem(f"{caller(name)} and {field(held_name)} share memory. Give each its own buffer.")
        if len(blocks) == 2:
            (a, a_bytes), (b, b_bytes) = blocks.values()
            if a < b + b_bytes and b < a + a_bytes:
                raise Problem(f"{caller('backprop_cache')} and workspace share memory. Give each its own buffer.")

    def _touches_parameters(self, result: Bound) -> bool:
        return any(result.touches(held.memory) for held in self.held.values())

    def _inputs_of(self, inputs: dict[str, Bound], cache: Cache | None, dtype: Any) -> dict[str, NDArray[Any]]:
        """Q, K and V from the arguments, else from the copies that the reference engine leaves in a cache."""
        arrays = {name: bound.read(dtype) for name, bound in inputs.items()}
        if cache is None or cache.engine != REFERENCE:
            return arrays
        shapes = {name: (cache.batch, *self.operands[name].shape) for name in "qkv"}
        counts = [int(np.prod(shape)) for shape in shapes.values()]
        copies = np.split(cache.floats_at(sum(counts)), np.cumsum(counts)[:-1])
        for (name, shape), copy in zip(shapes.items(), copies, strict=True):
            arrays.setdefault(name, np.array(copy, dtype).reshape(shape))
        return arrays

    def _backward_native(
        self, batch: int, inputs: dict[str, Bound], dout: Bound, results: dict[str, Bound], leaders: dict[str, str],
        masks: _Masks, cache: Cache | None, work: Any,
    ) -> None:  # fmt: skip
        call = _NativeCall(self, batch, masks, _NO_DRAW if cache is None else cache.draw)
        for name, array in self._inputs_of(inputs, cache, np.float32).items():
            call.tensor("qkv".index(name), array)
        call.parameters()
        call.tensor(native.OUTPUT_GRADIENT, dout.read(np.float32))
        call.cache(cache if cache is not None and cache.engine == NATIVE else None)
        needed = self.workspace_bytes(batch, backward=True, cached=cache is not None and cache.engine == NATIVE)
        if work is not None and work.nbytes >= needed:
            call.workspace(work)
        sources = (*inputs.values(), dout, *masks.bounds)
        staged: dict[str, NDArray[Any]] = {}
        for name in sorted(results, key=lambda name: (name not in _TARGETS, name)):
            result, slot = results[name], _slot(name)
            if leaders[name] != name:
                call.same(slot, _slot(leaders[name]))
                continue
            unsafe = any(result.overlaps(source) for source in sources) or self._touches_parameters(result)
            target = None if unsafe else result.direct()
            if target is None:
                staged[name] = target = np.empty((result.batch, *result.shape), np.float32)
            elif result.accumulate:
                call.accumulate |= 1 << slot
            call.tensor(slot, target)
        call.run(backward=True)
        for name, numbers in staged.items():
            results[name].write(numbers)

    def _backward_reference(
        self, batch: int, inputs: dict[str, Bound], dout: Bound, results: dict[str, Bound], leaders: dict[str, str],
        masks: _Masks, cache: Cache | None,
    ) -> None:  # fmt: skip
        arrays = self._inputs_of(inputs, cache, np.float64)
        do, wanted = dout.read(np.float64), set(results)
        if wanted == {"dpo"}:
            gradients = {"dpo": do.sum(axis=(0, 1))}
        else:
            draw = _NO_DRAW if cache is None else cache.draw
            q, k, v = (arrays[name] for name in "qkv")
            parameters = self.parameters64()
            key_mask = None if masks.key_mask is None else masks.key_mask != 0
            _, kept = reference.forward(
                q, k, v, parameters, self._options(draw), key_mask, masks.added64(), self._random_factor(batch, draw)
            )
            gradients = reference.backward(q, k, v, parameters, kept, do, wanted)
        sums: dict[str, NDArray[Any]] = {}
        for name in sorted(gradients):
            numbers = gradients[name] if name in _TARGETS else _canonical(name[1:], gradients[name])[None]
            leader = leaders[name]
            sums[leader] = sums[leader] + numbers if leader in sums else numbers
        for name, numbers in sums.items():
            results[name].write(numbers)


class _NativeCall:
    """The tensors of one run of the plan, in canonical form, held until it has ended."""

    def __init__(self, filter: MultiheadAttention, batch: int, masks: _Masks, draw: int) -> None:
        self.filter, self.batch = filter, batch
        self.accumulate = 0
        self._places: dict[int, tuple[int, int]] = {}
        self._held: list[Any] = []
        options = native.CANONICAL_PARAMETERS | (native.NO_DROPOUT if draw == _NO_DRAW else 0)
        if masks.boolean:
            options |= native.ADDED_IS_BOOLEAN
        self._extra = [options, masks.stride(-3), draw]
        if masks.key_mask is not None:
            self._place(native.KEY_MASK, masks.key_mask, int(masks.key_mask.strides[0]))
        if masks.added is not None:
            self._place(native.ADDED, masks.added, masks.stride(-4))

    def _place(self, slot: int, array: NDArray[Any], stride: int) -> None:
        self._held.append(array)
        self._places[slot] = int(array.ctypes.data), stride

    def tensor(self, slot: int, array: NDArray[Any]) -> None:
        """Samples of C-contiguous float32, axis 0 the batch (1 for a parameter)."""
        self._place(slot, array, int(array.strides[0]) // 4 if len(array) > 1 else array[0].size)

    def same(self, slot: int, other: int) -> None:
        """One slot takes the memory of another: both are summed there."""
        self._places[slot] = self._places[other]

    def parameters(self) -> None:
        for number, name in enumerate(PARAMETERS):
            if name in self.filter.held:
                self._place(native.FIRST_PARAMETER + number, self.filter.held[name].read(np.float32), 0)

    def cache(self, cache: Cache | None) -> NDArray[np.float32] | None:
        """Use a cache; gives the aligned copy that stands in for one at an odd address."""
        if cache is None:
            return None
        if cache.buffer.address % 4 == 0:
            self._held.append(cache.buffer)
            self._places[native.CACHE] = cache.buffer.address, 0
            return None
        copy: NDArray[np.float32] = cache.bytes().copy().view(np.float32)
        self._place(native.CACHE, copy, 0)
        return copy

    def workspace(self, work: Any) -> None:
        if work is not None:
            self._held.append(work)
            self._places[native.WORKSPACE] = work.address, 0

    def run(self, *, backward: bool) -> None:
        places = [(slot, address, stride) for slot, (address, stride) in self._places.items()]
        engines._core.run(
            self.filter.plan, backward, self.batch, places, self.accumulate, self.filter.threads, self._extra
        )


def _slot(gradient: str) -> int:
    """The native slot of ``dq`` or ``dwq``."""
    if gradient in _TARGETS:
        return native.QUERY_GRADIENT + _TARGETS.index(gradient)
    return native.FIRST_PARAMETER_GRADIENT + PARAMETERS.index(gradient[1:])


def _packed(view: View) -> tuple[int, ...]:
    """``stride[]`` of a packed tensor of this kind."""
    return packed_strides(view.layout, view.size, (0,) * view.layout.rank)


def _logical(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Canonical (H, K, D) or (H, K) to the reference engine's (D, K, H) or (K, H), and back."""
    return values if name in ("wo", "po") else values.T


_canonical = _logical  # transposing twice changes nothing


def _raw(bound: Bound, contiguous_axes: int) -> NDArray[np.uint8]:
    """Stored bytes of a Boolean tensor, batch first; a copy unless the last axes are contiguous."""
    if bound.batch == 0:
        return np.empty((0, *bound.shape), np.uint8)
    raw = staging._strided(bound.view, bound.buffer, bound.batch, bound.stride, bound.order, writable=False)
    inner, expected = raw.strides[raw.ndim - contiguous_axes :], 1
    for size, stride in zip(reversed(raw.shape[raw.ndim - contiguous_axes :]), reversed(inner), strict=True):
        if size > 1 and stride != expected:
            return np.ascontiguousarray(raw)
        expected *= size
    return raw


def _require_boolean(view: View, who: str) -> None:
    if view.element.kind != "boolean":
        raise Problem(
            f"{who}.data_type is {view.element.name}, but a mask says which keys to ignore. Use BNNSDataTypeBoolean, true "
            "for those that are ignored; numbers go into add_to_attention.",
            kind=TypeError,
        )


def _check_struct(struct: Any, who: str) -> None:
    if not isinstance(struct, BNNSMHAProjectionParameters):
        raise TypeError(f"{who} must be a BNNSMHAProjectionParameters or None, not {type(struct).__name__}.")


def _leaders(caller: Caller, results: dict[str, Bound], name_of: Any) -> dict[str, str]:
    """The gradient into whose memory each one goes: its own, or that of an earlier target gradient it shares."""
    leaders: dict[str, str] = {}
    for name, result in results.items():
        leaders[name] = name
        for earlier in leaders:
            if earlier == name or not result.overlaps(results[earlier]):
                continue
            if name in _TARGETS and earlier in _TARGETS and result.same_memory(results[earlier]):
                leaders[name] = leaders[earlier]
                break
            raise Problem(
                f"{caller(name_of(earlier))} and {name_of(name)} share memory, so one gradient would overwrite the other. "
                f"Give each its own buffer; only targets of equal form ({describe(result.view)}) may share one, which "
                "then receives the sum."
            )
    return leaders
