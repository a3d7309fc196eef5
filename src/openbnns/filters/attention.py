"""Multihead attention: every target position reads a weighted mean of the source positions, once per head.

    Qh = Q Wq[:,:,h] + pq[:,h]
    Kt = [K Wk[:,:,h] + pk[:,h]; bk[:,h]; 0]      Vt = [V Wv[:,:,h] + pv[:,h]; bv[:,h]; 0]
    R  = Qh Kt^T / sqrt(K) + X,  -infinity where the key is masked
    P  = softmax of the rows of R,  Pd = dropout(P)
    output = concat_h(Pd Vt) Wo + po

The gradients are on the docs page and in reference/attention.py.

Shapes of one sample: Q, output (T, D); K, V (S, D); Wq, Wk (D, K, H); Wv (D, V, H); Wo (H*V, D); pq, pk, bk (K, H); pv,
bv (V, H); po (D); key mask (S); X (T, S), (H, T, S) or (N, H, T, S). Inside, parameters are (H, K, D), (H*V, D), (H, K).

The cache holds Qh, Kt, Vt, the concatenated heads and one log-sum per row; it grows with T and S, not with T*S.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import compat, engines
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersMultiheadAttention
from ..calls.binding import Given
from ..calls.signature import Call
from ..errors import Problem
from ..parameters.attention import Options
from ..parameters.random_numbers import Stream
from ..reference import attention as reference
from ..reference.random_numbers import uniform
from ..tensors.descriptors import View
from ..tensors.operands import (
    Bound,
    Operand,
    Parameter,
    check_batch,
    check_stride,
    check_training_types,
    keep_apart,
)
from ..tensors.sharing import check_sharing, sharing
from ._activation_rules import as_float32
from ._attention_gradients import ARGUMENTS, TARGETS, bind_output_gradient, bind_results, leaders_of, result_name
from ._attention_masks import Masks, bind_masks
from ._attention_memory import (
    NATIVE,
    NO_DRAW,
    REFERENCE,
    Cache,
    cache_floats,
    checked_block,
    opened_cache,
    size_pointer,
    stated_size,
)
from ._attention_run import NativeCall, slot_of
from ._attention_slots import OUTPUT, OUTPUT_GRADIENT
from .attention_calls import backward_arguments, fixed_addresses, forward_arguments, make_plan
from .attention_shapes import FIELDS, PARAMETERS, describe_tensors, field, letter_sizes
from .base import Driving, Filter

if TYPE_CHECKING:
    from .. import _core


_tokens = itertools.count(int.from_bytes(os.urandom(7), "little") | 1)

# What the gradients of a call need beyond the cache.
_NEEDS_INPUT = {"dwq": "q", "dwk": "k", "dwv": "v"}


class MultiheadAttention(Filter):
    """A multihead attention filter."""

    family = "multihead attention"
    apply_call = "BNNSApplyMultiheadAttention"
    backward_call = "BNNSApplyMultiheadAttentionBackward"

    def __init__(
        self, p: BNNSLayerParametersMultiheadAttention, filter_params: BNNSFilterParameters | None, who: Caller
    ) -> None:
        super().__init__(filter_params, who)
        self.held: dict[str, Parameter] = {}
        tensors, self.sizes = describe_tensors(p, who)
        self.operands = {name: Operand(tensors[name].view, tensors[name].order) for name in ("q", "k", "v", "o")}
        rate = as_float32(p.dropout)
        self.options = Options(
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
        self.counter = np.zeros(1, np.int64)  # forward calls with dropout so far; native code reads and advances it
        self.cache_floats = cache_floats(self.sizes)
        self.plan: _core.Plan | None = None
        self.letters = letter_sizes(self.sizes)
        if engines._core is not None:
            self.plan = make_plan(self)
        if not self.client_pointer:
            self.keep_weights()

    def keep_weights(self) -> None:
        if self.plan is not None:
            self.plan.keep_weights(True)

    def _hold(
        self, p: BNNSLayerParametersMultiheadAttention, name: str, view: View, order: tuple[int, ...], who: Caller
    ) -> Parameter:
        projection, member = FIELDS[name]
        holder = getattr(p, projection)
        descriptor = getattr(holder, member) if member else holder
        return self.hold(view, order, who(f"{field(name)}.data"), descriptor.data)

    @property
    def draws(self) -> int:
        """Forward calls with dropout so far: the next mask follows from the seed and this number."""
        return int(self.counter[0])

    @draws.setter
    def draws(self, number: int) -> None:
        self.counter[0] = number

    def parameters(self) -> list[Parameter]:
        return list(self.held.values())

    # The calls.

    def driving_calls(self) -> Driving:
        return ("apply_attention", None), ("apply_backward_attention", True)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        before = self.draws
        try:
            yield
        finally:
            self.draws = before

    def declare(self, call: str, variant: Hashable) -> Call | None:
        """``variant`` of a backward call: whether it has a cache."""
        simple = not self.options.dropout
        if call == "apply_attention":
            return Call(forward_arguments(self), plan=self.plan, takes_fast=simple)
        if call == "apply_backward_attention":
            takes_fast = simple and not self.strict
            arguments = backward_arguments(self, cached=bool(variant))
            return Call(arguments, backward=True, plan=self.plan, takes_fast=takes_fast, trained=self._trained())
        return None

    def choose(self, call: str, choice: Any, caller: Caller) -> Hashable:
        return bool(choice) if call == "apply_backward_attention" else None

    def fixed_addresses(self) -> list[tuple[int, int, int]] | None:
        return fixed_addresses(self)

    def perform(self, name: str, caller: Caller, batch: Any, given: Given, choice: Any = None) -> None:
        """``given`` holds all arguments of the C call; ``choice`` of a forward call is ``False`` to turn dropout off."""
        self.require_alive(caller)
        if name not in ("apply_attention", "apply_backward_attention"):
            raise self.refusal(name, caller)
        count = check_batch(batch, caller)
        if name == "apply_attention":
            self._apply(caller, count, given, drops=choice is not False)
        else:
            self._apply_backward(caller, count, given)

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

    def _bind_workspace(
        self, caller: Caller, size: Any, workspace: Any, batch: int, *, backward: bool, cached: bool
    ) -> Any:
        if workspace is None:
            return None
        needed = self.workspace_bytes(batch, backward=backward, cached=cached)
        stated = None if size is None else int(size.value)
        work = checked_block(workspace, stated, needed, caller("workspace"), "workspace_size", written=True)
        return work if work.nbytes is not None else replace(work, nbytes=needed)

    def _random_factor(self, batch: int, draw: int) -> NDArray[np.bool_] | None:
        """The mask `keep` of the reference engine; ``None`` without dropout."""
        if not self.options.dropout or draw == NO_DRAW:
            return None
        shape = (batch, self.sizes.heads, self.sizes.target, self.sizes.source_rows)
        numbers = uniform(Stream(self.seed, draw), self.sizes.probability_elements(batch))
        return np.asarray(numbers >= self.options.dropout).reshape(shape)

    def _options(self, draw: int) -> Options:
        if draw == NO_DRAW:
            return Options(self.options.zero_row, 0.0, self.options.masked_rows_are_zero)
        return self.options

    def parameters64(self) -> reference.Parameters:
        """The parameters as the reference engine takes them."""
        return reference.Parameters(**{name: _logical(name, held.read(np.float64)) for name, held in self.held.items()})

    def forward64(self, inputs: Sequence[NDArray[Any]], parameters: dict[str, NDArray[Any]], draw: int) -> NDArray[Any]:
        """The output for canonical parameters in float64, with the dropout of one draw and no masks."""
        q, k, v = inputs
        logical = reference.Parameters(**{name: _logical(name, values) for name, values in parameters.items()})
        keep = self._random_factor(len(q), draw)
        return reference.forward(q, k, v, logical, self._options(draw), keep=keep)[0]

    # Forward.

    def _bind(
        self, caller: Caller, key: str, name: str, batch: int, given: Given, *, output: bool | None = None
    ) -> Bound:
        data, stride = given[name]
        step = check_stride(stride, caller(f"{name}_stride"))
        return self.operands[key].bind(caller(name), data, batch, step, output=key == "o" if output is None else output)

    def _apply(self, caller: Caller, batch: int, given: Given, *, drops: bool) -> None:
        """Run forward, or only report sizes if that is what the arguments ask for; ``drops`` turns dropout on."""
        backprop_cache, workspace = _value(given, "backprop_cache"), _value(given, "workspace")
        cache_size = size_pointer(_value(given, "backprop_cache_size"), caller("backprop_cache_size"))
        work_size = size_pointer(_value(given, "workspace_size"), caller("workspace_size"))
        asks_cache = cache_size is not None and backprop_cache is None
        asks_work = work_size is not None and workspace is None
        if asks_cache or asks_work:
            if asks_cache:
                cache_size.value = self.cache_bytes(batch)
            if asks_work:
                cached = asks_cache or backprop_cache is not None
                work_size.value = self.workspace_bytes(batch, backward=False, cached=cached)
            return
        q, k, v = (self._bind(caller, key, name, batch, given) for key, name in ARGUMENTS.items())
        y = self._bind(caller, "o", "output", batch, given)
        keep_apart(y, caller("output_stride"))
        masks = self._bind_masks(caller, batch, given)
        cache = None
        if backprop_cache is not None:
            stated = None if cache_size is None else int(cache_size.value)
            memory = checked_block(
                backprop_cache, stated, self.cache_bytes(batch), caller("backprop_cache"), "backprop_cache_size",
                written=True,
            )  # fmt: skip
            cache = Cache(memory, batch, self.cache_floats)
        work = self._bind_workspace(caller, work_size, workspace, batch, backward=False, cached=cache is not None)
        self._refuse_shared_memory(caller, cache, work, {"output": y}, {"query": q, "key": k, "value": v}, masks)
        draw = NO_DRAW
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
        self, batch: int, inputs: dict[str, Bound], y: Bound, masks: Masks, cache: Cache | None, work: Any, draw: int
    ) -> None:
        call = NativeCall(self, batch, masks, draw)
        for slot, name in enumerate("qkv"):
            call.tensor(slot, inputs[name].read(np.float32))
        call.parameters()
        unsafe = any(y.overlaps(x) for x in (*inputs.values(), *masks.bounds)) or self._touches_parameters(y)
        result = None if unsafe else y.direct()
        target = np.empty((batch, *y.shape), np.float32) if result is None else result
        call.tensor(OUTPUT, target)
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
        self, batch: int, inputs: dict[str, Bound], y: Bound, masks: Masks, cache: Cache | None, draw: int
    ) -> None:
        q, k, v = (inputs[name].read(np.float64) for name in "qkv")
        if cache is not None:  # before the output is written, because it may share memory with an input
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

    def _bind_masks(self, caller: Caller, batch: int, given: Given) -> Masks:
        return bind_masks(caller, self.letters, batch, *given["key_mask"], _value(given, "add_to_attention"))

    def _apply_backward(self, caller: Caller, batch: int, given: Given) -> None:
        backprop_cache, workspace = _value(given, "backprop_cache"), _value(given, "workspace")
        cache_size = stated_size(_value(given, "backprop_cache_size"), caller("backprop_cache_size"))
        work_size = size_pointer(_value(given, "workspace_size"), caller("workspace_size"))
        has_cache = backprop_cache is not None and cache_size > 0
        if work_size is not None and workspace is None:
            work_size.value = self.workspace_bytes(batch, backward=True, cached=has_cache)
            return
        check_training_types(caller, self._trained())
        self._check_strict(caller, has_cache, workspace)
        structs = {key: _value(given, f"{name}_param_delta") for key, name in {**ARGUMENTS, "o": "output"}.items()}
        biases = {"bk": _value(given, "key_attn_bias_delta"), "bv": _value(given, "value_attn_bias_delta")}
        dout = bind_output_gradient(self, caller, structs["o"], batch)
        results = bind_results(self, caller, batch, structs, biases)
        inputs: dict[str, Bound] = {}
        for key, name in {**ARGUMENTS, "o": "output"}.items():
            if given[name][0] is not None:
                inputs[key] = self._bind(caller, key, name, batch, given, output=False)
            else:
                check_stride(given[name][1], caller(f"{name}_stride"))
        inputs.pop("o", None)  # checked, but not used
        masks = self._bind_masks(caller, batch, given)
        cache = None
        if has_cache:
            who = caller("backprop_cache")
            memory = checked_block(
                backprop_cache, cache_size, self.cache_bytes(batch), who, "backprop_cache_size", written=False
            )
            cache = opened_cache(memory, self.token, batch, self.cache_floats, who)
        work = self._bind_workspace(caller, work_size, workspace, batch, backward=True, cached=has_cache)
        self._check_inputs(caller, inputs, cache, set(results))
        named = {result_name(name): bound for name, bound in results.items()}
        sources = {ARGUMENTS[name]: bound for name, bound in inputs.items()} | {"output_param_delta.target_desc": dout}
        self._refuse_shared_memory(caller, cache, work, named, sources, masks)
        leaders = leaders_of(results)
        check_sharing(caller, {result_name(name): results[name] for name in results if leaders[name] == name})
        if batch == 0:
            for name in results.keys() - set(TARGETS):
                results[name].write(np.zeros((1, *results[name].shape), np.float32))
        elif results and engines.is_native():
            self._backward_native(batch, inputs, dout, results, leaders, masks, cache, work)
        elif results:
            self._backward_reference(batch, inputs, dout, results, leaders, masks, cache)

    def _trained(self) -> dict[str, Any]:
        tensors: dict[str, Any] = {f"{name} target": operand for name, operand in self.operands.items()}
        return tensors | {field(name): held for name, held in self.held.items()}

    def _check_strict(self, caller: Caller, has_cache: bool, workspace: Any) -> None:
        if self.strict and not has_cache:
            raise Problem(
                f"{caller('backprop_cache')} is {caller.null} or its size 0, which fails on macOS 15, and the filter was created "
                "with compat.switches.attention_strict_cache. Pass the cache of the forward call."
            )
        if self.strict and workspace is not None:
            raise Problem(
                f"{caller('workspace')} is given, which fails on macOS 15, and the filter was created with "
                f"compat.switches.attention_strict_cache. Pass {caller.null}."
            )

    def _check_inputs(self, caller: Caller, inputs: dict[str, Bound], cache: Cache | None, wanted: set[str]) -> None:
        """Refuse a call that lacks what its gradients are computed from."""
        for gradient, name in _NEEDS_INPUT.items():
            if gradient in wanted and name not in inputs and (cache is None or cache.engine == NATIVE):
                raise Problem(
                    f"{caller(ARGUMENTS[name])} is {caller.null}, but {result_name(gradient)} needs it. Pass the input of "
                    f"the forward call, or {caller.null} for that gradient."
                )
        missing = [ARGUMENTS[name] for name in "qkv" if name not in inputs]
        if not wanted - {"dpo"} or (cache is not None and (cache.engine == REFERENCE or engines.is_native())):
            return
        if cache is not None and missing:
            raise Problem(
                f"{caller('backprop_cache')} was filled by the native engine, and the reference engine computes from the "
                f"inputs, but {' and '.join(missing)} is {caller.null}. Pass the inputs of the forward call."
            )
        if cache is None and missing:
            raise Problem(
                f"{caller(missing[0])} is {caller.null}, and without a cache the forward pass has to be computed again. "
                "Pass query, key and value, or the cache of the forward call."
            )
        if cache is None and self.options.dropout:
            raise Problem(
                f"{caller('backprop_cache')} is {caller.null}, but the filter has dropout {self.options.dropout:g}, and which "
                "probabilities the forward call dropped is noted in its cache. Pass that cache."
            )

    def _refuse_shared_memory(
        self, caller: Caller, cache: Cache | None, work: Any, results: dict[str, Bound], sources: dict[str, Bound],
        masks: Masks,
    ) -> None:  # fmt: skip
        """Refuse a cache or workspace that shares memory with another argument or a parameter."""
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
        """Q, K and V from the arguments, or else from the copies that the reference engine stores in a cache."""
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
        masks: Masks, cache: Cache | None, work: Any,
    ) -> None:  # fmt: skip
        call = NativeCall(self, batch, masks, NO_DRAW if cache is None else cache.draw)
        for name, array in self._inputs_of(inputs, cache, np.float32).items():
            call.tensor("qkv".index(name), array)
        call.parameters()
        call.tensor(OUTPUT_GRADIENT, dout.read(np.float32))
        call.cache(cache if cache is not None and cache.engine == NATIVE else None)
        needed = self.workspace_bytes(batch, backward=True, cached=cache is not None and cache.engine == NATIVE)
        if work is not None and work.nbytes >= needed:
            call.workspace(work)
        sources = (*inputs.values(), dout, *masks.bounds)
        shared = sharing({name: result for name, result in results.items() if leaders[name] == name})
        staged: dict[str, NDArray[Any]] = {}
        for name, result in results.items():
            slot = slot_of(name)
            if leaders[name] != name:
                call.same(slot, slot_of(leaders[name]))
                continue
            unsafe = any(result.overlaps(source) for source in sources) or self._touches_parameters(result)
            target = None if unsafe or name in shared else result.direct()
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
        masks: Masks, cache: Cache | None,
    ) -> None:  # fmt: skip
        arrays = self._inputs_of(inputs, cache, np.float64)
        do, wanted = dout.read(np.float64), set(results)
        if wanted == {"dpo"}:
            gradients = {"dpo": do.sum(axis=(0, 1))}
        else:
            draw = NO_DRAW if cache is None else cache.draw
            q, k, v = (arrays[name] for name in "qkv")
            parameters = self.parameters64()
            key_mask = None if masks.key_mask is None else masks.key_mask != 0
            _, kept = reference.forward(
                q, k, v, parameters, self._options(draw), key_mask, masks.added64(), self._random_factor(batch, draw)
            )
            gradients = reference.backward(q, k, v, parameters, kept, do, wanted)
        sums: dict[str, NDArray[Any]] = {}
        for name in results:
            numbers = gradients[name] if name in TARGETS else _canonical(name[1:], gradients[name])[None]
            leader = leaders[name]
            sums[leader] = sums[leader] + numbers if leader in sums else numbers
        for name, numbers in sums.items():
            results[name].write(numbers)


def _value(given: Given, name: str) -> Any:
    """An argument without a stride."""
    return given.get(name, (None, 0))[0]


def _logical(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Canonical (H, K, D) or (H, K) to the reference engine's (D, K, H) or (K, H), and back."""
    return values if name in ("wo", "po") else values.T


_canonical = _logical  # transposing twice changes nothing
