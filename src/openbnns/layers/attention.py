"""Multihead attention with an interface after PyTorch's."""

from __future__ import annotations

import ctypes
import functools
import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._spelling import spelled
from .._words import Caller
from ..abi.enums import BNNSDataLayout, BNNSDataType, BNNSFlags
from ..abi.structs import (
    BNNSFilterParameters,
    BNNSLayerParametersMultiheadAttention,
    BNNSMHAProjectionParameters,
    BNNSNDArrayDescriptor,
)
from ..calls.form import form
from ..errors import Problem
from ..filters.attention import MultiheadAttention
from ..filters.attention_calls import APPLY, BACKWARD, run_checked
from ._functions import call
from ._ports import (
    FLOAT,
    Delta,
    Packed,
    as_array,
    check_filter_parameters,
    exact_array,
    parameter_array,
    raised,
    require,
    require_dtype,
    skip,
)
from .base import Layer, client_pointer
from .types import LearningPhase

__all__ = ["AttentionGradients", "MultiheadAttentionLayer"]

_L = BNNSDataLayout
_FLOAT32 = int(BNNSDataType.BNNSDataTypeFloat32)
_BOOLEAN = int(BNNSDataType.BNNSDataTypeBoolean)
_KEPT_FILTERS = 32  # lengths for which a filter is kept
_GIVEN = frozenset({"embed_dim", "num_heads", "key_dim", "value_dim", "dropout", "add_zero_attn", "seed", "parameters"})
_MASK_LAYOUTS = {2: _L.BNNSDataLayout2DFirstMajor, 3: _L.BNNSDataLayout3DFirstMajor, 4: _L.BNNSDataLayout4DFirstMajor}


_INPUTS = ("query", "key", "value")
GRADIENTS = {
    **{f"{p}_{m}": f"{p}_param_delta.{m}" for p in (*_INPUTS, "output") for m in ("weights", "bias")},
    "key_attention_bias": "key_attn_bias_delta",
    "value_attention_bias": "value_attn_bias_delta",
}
"""Parameters, and the names of their gradients in the backward call of C."""
_ORDER = [name for name, _ in BACKWARD[True].tensors]
_BACKWARD = form("apply_backward_attention", ["batch_size", *_ORDER], True)

# The names of arguments in C, and in this layer.
_NAMES = {
    "key_mask": "key_padding_mask",
    "add_to_attention": "attn_mask",
    "output_param_delta.target_desc": "output_gradient",
    "query_param_delta.target_desc": "generating_query_gradient",
    "key_param_delta.target_desc": "generating_key_gradient",
    "value_param_delta.target_desc": "generating_value_gradient",
}


class AttentionGradients(NamedTuple):
    """The gradients of attention; ``None`` where a gradient was skipped.

    ``key`` and ``value`` are ``None`` too where the forward call took the same array for several inputs: the first of
    them has the sum. ``parameters`` is a dictionary by the names of :attr:`MultiheadAttentionLayer.parameters`.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = MultiheadAttentionLayer(4, 2)
    >>> x = np.ones((3, 5, 4), np.float32)
    >>> gradients = layer.apply_backward(layer.apply(x))
    >>> gradients.query.shape, gradients.key, sorted(gradients.parameters) == sorted(layer.parameters)
    ((3, 5, 4), None, True)
    """

    query: Any = None
    key: Any = None
    value: Any = None
    parameters: Any = None


@dataclass
class _ForwardCall:
    """A forward call as the backward one needs it."""

    filter: MultiheadAttention
    batch: int
    shape: tuple[int, ...]  # of the output
    source: tuple[int, ...]  # shape of key and value
    query: NDArray[Any]
    key: NDArray[Any]
    value: NDArray[Any]
    key_mask: NDArray[np.bool_] | None
    added: NDArray[Any] | None
    cache: Any
    shared: tuple[bool, bool]  # key is query; value is the one before it
    native: bool  # whether native code filled the cache
    causal: bool

    def scores(self) -> NDArray[Any] | None:
        """All masks of scores as one."""
        return joined(self.added, self.shape[-2], self.source[-2]) if self.causal else self.added


class MultiheadAttentionLayer(Layer):
    """Every target position reads a weighted mean of the source positions, once per head.

        Qh = query Wq_h^T + bq_h,   Kh = key Wk_h^T + bk_h,   Vh = value Wv_h^T + bv_h
        head_h = dropout(softmax(Qh Kh^T / sqrt(key_dim) + attn_mask)) Vh
        output = concat(head_1 ... head_H) Wo^T + bo

    Arrays are float32: ``query`` (N, T, embed_dim), ``key`` and ``value`` (N, S, embed_dim), all without N for one
    sample. Parameters have PyTorch's shapes: ``query_weights`` and ``key_weights`` (num_heads * key_dim, embed_dim), head
    by head (the parts of ``in_proj_weight``), ``value_weights`` (num_heads * value_dim, embed_dim), ``output_weights``
    (embed_dim, num_heads * value_dim), biases one number per row. ``key_dim`` and ``value_dim`` are sizes per head,
    embed_dim // num_heads if left out. ``add_bias_kv`` appends a learned row to the keys and values of each head
    (``bias_k`` and ``bias_v``), ``add_zero_attn`` a row of zeros.

    Parameters that are not given are drawn as PyTorch draws them, from ``seed``, which also feeds dropout. The arrays in
    :attr:`parameters` are the layer's own and may be changed in place, by an optimizer for instance. With
    ``BNNSFlagsUseClientPtr`` in ``filter_parameters`` they are the very arrays that were given.

    Lengths may differ from call to call. ``apply`` remembers its arguments (not copies of them) and what
    ``apply_backward`` needs.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = MultiheadAttentionLayer(8, 2)
    >>> x = np.random.default_rng(0).standard_normal((3, 5, 8)).astype(np.float32)
    >>> y = layer.apply(x)
    >>> gradients = layer.apply_backward(np.ones_like(y))
    >>> gradients.query.shape, gradients.parameters["output_weights"].shape
    ((3, 5, 8), (8, 8))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        key_dim: int | None = None,
        value_dim: int | None = None,
        seed: int = 0,
        parameters: Mapping[str, Any] | None = None,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.dropout, self.add_zero_attn, self.seed = float(dropout), bool(add_zero_attn), seed
        self._filters: OrderedDict[tuple[int, int], MultiheadAttention] = OrderedDict()
        self.latest: Any = None
        """The latest ``apply`` in the training phase, which ``apply_backward`` goes back from; an earlier one may be set."""
        self._made: NDArray[np.float32] | None = None  # the latest cache of its own
        self._alive = True
        self._filter_parameters = filter_parameters
        try:
            self._check_sizes(key_dim, value_dim, filter_parameters)
            shapes = self._shapes(bool(bias), bool(add_bias_kv))
            self.parameters: dict[str, NDArray[np.float32]] = self._own(shapes, parameters or {})
        except Problem as problem:
            raise raised(problem, self._creation_error) from None
        self._summary = {
            "embed_dim": embed_dim, "num_heads": num_heads, "dropout": self.dropout or None,
            "key_dim": key_dim, "value_dim": value_dim,
        }  # fmt: skip

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _GIVEN and "_summary" in self.__dict__:  # existing filters would not change
            raise AttributeError(f"{self._name()}.{name} is given at creation. To change it, create another layer.")
        super().__setattr__(name, value)

    def _check_sizes(self, key_dim: Any, value_dim: Any, filter_parameters: Any) -> None:
        who = self._name()
        check_filter_parameters(filter_parameters, self._creation_caller)
        for name, value in (("embed_dim", self.embed_dim), ("num_heads", self.num_heads), ("seed", self.seed)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise Problem(f"{who}: {name} must be an integer, not {type(value).__name__}.", kind=TypeError)
            if value < (0 if name == "seed" else 1) or value >= 2**32:
                raise Problem(f"{who}: {name} is {value}. Use a positive number.")
        if (key_dim is None or value_dim is None) and self.embed_dim % self.num_heads:
            raise Problem(
                f"{who}: embed_dim {self.embed_dim} cannot be divided among {self.num_heads} heads. Choose another "
                "num_heads, or give key_dim and value_dim."
            )
        self.key_dim = self.embed_dim // self.num_heads if key_dim is None else int(key_dim)
        self.value_dim = self.embed_dim // self.num_heads if value_dim is None else int(value_dim)
        if self.key_dim < 1 or self.value_dim < 1:
            raise Problem(f"{who}: key_dim is {self.key_dim} and value_dim {self.value_dim}. Use positive numbers.")
        if not 0.0 <= self.dropout < 1.0:
            raise Problem(
                f"{who}: dropout is {self.dropout:g}. It is a probability from 0 up to, but not including, 1."
            )

    def _shapes(self, bias: bool, add_bias_kv: bool) -> dict[str, tuple[int, ...]]:
        keys, values, model = self.num_heads * self.key_dim, self.num_heads * self.value_dim, self.embed_dim
        shapes: dict[str, tuple[int, ...]] = {
            "query_weights": (keys, model), "key_weights": (keys, model), "value_weights": (values, model),
            "output_weights": (model, values),
        }  # fmt: skip
        if bias:
            shapes |= {"query_bias": (keys,), "key_bias": (keys,), "value_bias": (values,), "output_bias": (model,)}
        if add_bias_kv:
            shapes |= {"key_attention_bias": (keys,), "value_attention_bias": (values,)}
        return shapes

    def _own(self, shapes: dict[str, tuple[int, ...]], given: Mapping[str, Any]) -> dict[str, NDArray[np.float32]]:
        """The parameters: those given, checked, and the others drawn."""
        who, random = self._name(), np.random.default_rng(self.seed)
        unknown = sorted(set(given) - set(shapes))
        if unknown:
            raise Problem(f"{who}: parameters has {unknown[0]!r}, but this layer has {', '.join(shapes)}.")
        parameters = {}
        for name, shape in shapes.items():
            drawn = _initial(name, shape, random)
            if name not in given:
                parameters[name] = drawn
                continue
            in_place = client_pointer(self._filter_parameters)
            what = f"{who}: parameters[{name!r}]"
            parameters[name] = parameter_array(given[name], shape, what, client_pointer=in_place)
        return parameters

    # Filters.

    @spelled
    def filter_for(self, target_length: int, source_length: int) -> MultiheadAttention:
        """The filter for these lengths; it reads the layer's parameters at each call."""
        known = self._filters.get((target_length, source_length))
        if known is not None:
            if known is not self._filter:
                known.draws = self.draws
                self._filter = known
            return known
        draws = self.draws
        self._create(lambda who: self._make(target_length, source_length, who), None)
        assert isinstance(self._filter, MultiheadAttention)
        self._filter.draws = draws
        self._filters[target_length, source_length] = self._filter
        if len(self._filters) > _KEPT_FILTERS:
            self._filters.popitem(last=False)
        return self._filter

    @property
    def draws(self) -> int:
        """Forward calls with dropout so far, of any length. The next mask follows from the seed and this number, so setting
        it repeats a mask."""
        filter = getattr(self, "_filter", None)
        return filter.draws if isinstance(filter, MultiheadAttention) else self._draws

    @draws.setter
    def draws(self, number: int) -> None:
        self._draws = int(number)
        filter = getattr(self, "_filter", None)
        if isinstance(filter, MultiheadAttention):
            filter.draws = self._draws

    _draws = 0  # until there is a filter

    @property
    def bnns_filter(self) -> MultiheadAttention:
        """The filter of the last call; before any call, the one for target and source length 8."""
        filter = getattr(self, "_filter", None)
        return filter if isinstance(filter, MultiheadAttention) else self.filter_for(8, 8)

    def _make(self, target: int, source: int, who: Caller) -> MultiheadAttention:
        def projection(length: int, name: str) -> BNNSMHAProjectionParameters:
            return BNNSMHAProjectionParameters(
                target_desc=descriptor_of(_L.BNNSDataLayout2DFirstMajor, (length, self.embed_dim)),
                weights=self._described(f"{name}_weights"),
                bias=self._described(f"{name}_bias"),
            )

        given = self._filter_parameters
        settings = BNNSFilterParameters() if given is None else given.copy()
        settings.flags = int(settings.flags) | int(BNNSFlags.BNNSFlagsUseClientPtr)
        return MultiheadAttention(
            BNNSLayerParametersMultiheadAttention(
                query=projection(target, "query"), key=projection(source, "key"), value=projection(source, "value"),
                output=projection(target, "output"), add_zero_attn=self.add_zero_attn,
                key_attn_bias=self._described("key_attention_bias"),
                value_attn_bias=self._described("value_attention_bias"), dropout=self.dropout, seed=self.seed,
            ),
            settings,
            who,
        )  # fmt: skip

    def _form(self, name: str) -> Packed:
        """Layout and size of a parameter's descriptor."""
        width = self.value_dim if name.startswith(("value", "output")) else self.key_dim
        if name == "output_bias":
            return Packed(int(_L.BNNSDataLayoutVector), [self.embed_dim])
        if name == "output_weights":
            return Packed(int(_L.BNNSDataLayout2DLastMajor), [self.num_heads * width, self.embed_dim])
        if name.endswith("_weights"):
            return Packed(int(_L.BNNSDataLayout3DLastMajor), [self.embed_dim, width, self.num_heads])
        return Packed(int(_L.BNNSDataLayout2DLastMajor), [width, self.num_heads])

    @functools.cached_property
    def _forms(self) -> dict[str, Packed]:
        return {name: self._form(name) for name in self.parameters}

    def _described(self, name: str) -> BNNSNDArrayDescriptor | None:
        if name not in self.parameters:
            return None
        form = self._forms[name]
        return descriptor_of(form.layout, form.size, self.parameters[name])

    def destroy(self) -> None:
        """Release the filters now; later calls of this layer fail."""
        self._alive, self.latest, self._made = False, None, None
        for filter in self._filters.values():
            filter.destroy()
        self._filters.clear()

    def __repr__(self) -> str:
        described = ", ".join(f"{name}={value!r}" for name, value in self._summary.items() if value is not None)
        return f"{type(self).__name__}({described}){'' if self._alive else ' (destroyed)'}"

    def _require_alive(self, caller: Caller) -> None:
        if not self._alive:
            raise Problem(f"{caller.function}: the layer has been destroyed. Create a new one, or destroy it later.")

    # Forward.

    @call(_NAMES)
    def apply(
        self,
        caller: Caller,
        query: Any,
        key: Any = None,
        value: Any = None,
        output: Any = None,
        *,
        key_padding_mask: Any = None,
        attn_mask: Any = None,
        is_causal: bool = False,
        phase: LearningPhase = LearningPhase.TRAINING,
        cache: Any = None,
    ) -> Any:
        """Attention of ``query`` over ``key`` and ``value``.

        ``key`` is the query if left out (self-attention), and ``value`` the key. ``key_padding_mask`` (N, S) is true
        where a key is ignored. ``attn_mask`` (T, S), (num_heads, T, S), (N, num_heads, T, S) or PyTorch's
        (N * num_heads, T, S) is added to the scores if it is float32; if it is bool, true forbids. With
        ``is_causal`` every position reads the keys up to its own, besides; the others then cost nothing. With
        ``phase=LearningPhase.INFERENCE`` there is no dropout, and nothing is kept for ``apply_backward``. What is kept
        goes to ``cache`` (:meth:`cache_bytes` of uint8), or to memory of the layer's own.
        """
        who = caller.function
        self._require_alive(caller)
        require(phase, LearningPhase, f"{who}: phase")
        q = self._input(query, f"{who}: query", None)
        k_is_q = key is None or key is query
        k = q if k_is_q else self._input(key, f"{who}: key", q)
        v_is_k = value is None or value is (query if k_is_q else key)
        v = k if v_is_k else self._input(value, f"{who}: value", q)
        if v.shape != k.shape:
            raise Problem(f"{who}: value has shape {v.shape}, but key has {k.shape}. Both hold the same positions.")
        batched = q.ndim == 3
        batch = q.shape[0] if batched else 1
        filter = self.filter_for(q.shape[-2], k.shape[-2])
        y = self._result(output, q.shape, f"{who}: output")
        mask = self._key_mask(key_padding_mask, k, f"{who}: key_padding_mask")
        added = self._added(attn_mask, q.shape[-2], k.shape[-2], batch, f"{who}: attn_mask")
        training = phase.is_training
        memory, size = None, None
        if training:
            self.latest = None
            memory = self._own_cache(filter.cache_bytes(batch)) if cache is None else as_array(cache, f"{who}: cache")
            size = ctypes.c_size_t(memory.nbytes)
        causal, shared = bool(is_causal), (k_is_q, v_is_k)
        latest = _ForwardCall(filter, batch, q.shape, k.shape, q, k, v, mask, added, memory, shared, True, causal)
        native = False
        if added is None and not causal:
            native = filter.native(APPLY)(batch, q, 0, k, 0, _masking(mask), 0, v, 0, y, 0, memory) == 0
        read = [q, k, v, mask, added]
        if not native and _holds(memory, size, filter.cache_bytes(batch)) and self._apart([y], [*read, memory]):
            tensors = {"query": q, "key": k, "value": v, "output": y}
            drops = training and self.dropout > 0
            native = run_checked(filter, batch, tensors, mask, added, memory, causal=causal, drops=drops)
        if not native:
            given = {
                "query": q, "key": k, "key_mask": _masking(mask), "value": v, "output": y,
                "add_to_attention": adding(latest.scores()), "backprop_cache_size": size, "backprop_cache": memory,
            }  # fmt: skip
            filter.perform("apply_attention", caller, batch, {n: (value, 0) for n, value in given.items()}, training)
        if memory is not None:
            latest.native = native
            self.latest = latest
        return y if output is None else output

    @spelled
    def cache_bytes(self, target: int, source: int, batch: int) -> int:
        """The size of a cache for queries and keys of these lengths."""
        return self.filter_for(target, source).cache_bytes(batch)

    def _apart(self, written: list[Any], read: list[Any]) -> bool:
        """True if no result shares memory with the inputs or the parameters."""
        others = [array for array in (*read, *self.parameters.values()) if array is not None]
        return not any(np.may_share_memory(array, other) for array in written for other in others)

    def _own_cache(self, nbytes: int) -> NDArray[np.float32]:
        """Memory for what the backward pass needs; that of the last call is used again if it has the right size."""
        if self._made is None or self._made.nbytes != nbytes:
            self._made = None
            self._made = np.empty(nbytes // 4, np.float32)
        return self._made

    def _input(self, value: Any, who: str, query: NDArray[Any] | None) -> NDArray[Any]:
        array = as_array(value, who)
        require_dtype(array, FLOAT, who)
        if array.ndim not in (2, 3) or array.shape[-1] != self.embed_dim or 0 in array.shape[-2:]:
            raise Problem(
                f"{who} has shape {array.shape}, but (length, {self.embed_dim}), or (N, length, {self.embed_dim}) with a "
                "batch, is expected."
            )
        if query is not None and (array.ndim != query.ndim or array.shape[:-2] != query.shape[:-2]):
            raise Problem(f"{who} has shape {array.shape}, but query has {query.shape}. Both need the same batch.")
        return array if array.flags.c_contiguous else np.ascontiguousarray(array)

    def _result(self, given: Any, shape: tuple[int, ...], who: str) -> NDArray[Any]:
        """The array for a result: the caller's, or a new one."""
        return np.empty(shape, np.float32) if given is None else exact_array(given, shape, who, output=True)

    def _key_mask(self, mask: Any, key: NDArray[Any], who: str) -> NDArray[np.bool_] | None:
        if mask is None:
            return None
        array = as_array(mask, who)
        if array.dtype != np.bool_:
            raise Problem(
                f"{who} is {array.dtype}. Pass a bool array, true for keys to ignore; numbers go into attn_mask.",
                kind=TypeError,
            )
        if array.shape != key.shape[:-1]:
            raise Problem(f"{who} has shape {array.shape}, but one value per key, {key.shape[:-1]}, is expected.")
        return np.ascontiguousarray(array)

    def _added(self, mask: Any, target: int, source: int, batch: int, who: str) -> NDArray[Any] | None:
        if mask is None:
            return None
        array = np.ascontiguousarray(as_array(mask, who))
        if array.dtype not in (np.bool_, np.float32):
            raise Problem(f"{who} is {array.dtype}. Pass float32 to add, or bool where true forbids.", kind=TypeError)
        heads = self.num_heads
        if array.shape == (batch * heads, target, source) and batch != 1:
            array = array.reshape(batch, heads, target, source)
        if array.shape not in ((target, source), (heads, target, source), (batch, heads, target, source)):
            raise Problem(
                f"{who} has shape {array.shape}, but {(target, source)}, {(heads, target, source)} or "
                f"{(batch, heads, target, source)} is expected."
            )
        return array

    # Backward.

    @call(_NAMES)
    def apply_backward(
        self,
        caller: Caller,
        output_gradient: Any,
        generating_query_gradient: Any = None,
        generating_key_gradient: Any = None,
        generating_value_gradient: Any = None,
        generating_parameter_gradients: Any = None,
        *,
        accumulate: bool = False,
    ) -> AttentionGradients:
        """The gradients at the last ``apply`` in the training phase.

        Where that call took one array for several inputs, its gradient is the sum, returned for the first of them.
        ``generating_parameter_gradients`` is a dictionary of arrays to write, by the names of :attr:`parameters`; those
        it lacks are not computed. Left out, all are made. ``skip`` leaves a gradient, or all parameters, out.
        """
        who, flags = caller.function, 1 if accumulate else 0
        self._require_alive(caller)
        last = self.latest
        if last is None:
            raise Problem(
                f"{who}: there has been no forward call. Call apply in the training phase first; it keeps what "
                "the gradients need."
            )
        arriving = self._input(output_gradient, f"{who}: output_gradient", last.query)
        if arriving.shape != last.shape:
            raise Problem(f"{who}: output_gradient has shape {arriving.shape}, but the output had {last.shape}.")
        wanted = (generating_query_gradient, generating_key_gradient, generating_value_gradient)
        parameters = generating_parameter_gradients
        targets, returned = self._target_arrays(last, wanted, who)
        arrays = self._parameter_arrays(parameters, who)
        given = {
            "query": last.query, "key": last.key, "key_mask": _masking(last.key_mask), "value": last.value,
            "backprop_cache": last.cache, "output_param_delta.target_desc": self._target(arriving, 0),
        }  # fmt: skip
        for name, array, asked in zip(_INPUTS, targets, wanted, strict=True):
            if array is not None:
                given[f"{name}_param_delta.target_desc"] = self._target(array, 0 if asked is None else flags)
        for name, array in arrays.items():
            given[GRADIENTS[name]] = Delta(self._forms[name], array, 0 if parameters is None else flags)
        fast = False
        if last.added is None and not last.causal:
            fast = last.filter.native(_BACKWARD)(last.batch, *map(given.get, _ORDER)) == 0
        if not fast and not self._run_backward(last, arriving, given):
            self._perform_backward(caller, last, given)
        return AttentionGradients._make([*returned, None if parameters is skip else arrays])

    def _target(self, array: NDArray[Any], flags: int) -> Delta:
        """The gradient of an input or of the output."""
        form = Packed(int(_L.BNNSDataLayout2DFirstMajor), [array.shape[-2], self.embed_dim])
        return Delta(form, array, flags)

    def _run_backward(self, last: _ForwardCall, arriving: NDArray[Any], given: dict[str, Any]) -> bool:
        """The backward call by native code at once, which takes dropout and added masks; False if that cannot be."""
        deltas = {name: delta for name, delta in given.items() if isinstance(delta, Delta)}
        deltas.pop("output_param_delta.target_desc")
        read = {"query": last.query, "key": last.key, "value": last.value, "output_param_delta.target_desc": arriving}
        written = {name: delta.data for name, delta in deltas.items()}
        if not last.native or not self._apart([*written.values()], [*read.values(), last.key_mask, last.added]):
            return False
        adding = [name for name, delta in deltas.items() if delta.flags]
        return run_checked(
            last.filter, last.batch, read | written, last.key_mask, last.added, last.cache, causal=last.causal,
            backward=True, accumulate=adding,
        )  # fmt: skip

    def _perform_backward(self, caller: Caller, last: _ForwardCall, given: dict[str, Any]) -> None:
        """The backward call with every check; ``given`` has its tensors, members of structs by their full names."""

        def described(name: str) -> BNNSNDArrayDescriptor | None:
            member = given.get(name)
            return None if member is None else descriptor_of(member.layout, member.size, member.data, member.flags)

        tensors: dict[str, Any] = {name: given[name] for name in (*_INPUTS, "key_mask", "backprop_cache")}
        for projection in (*_INPUTS, "output"):
            tensors[f"{projection}_param_delta"] = BNNSMHAProjectionParameters(
                **{m: described(f"{projection}_param_delta.{m}") for m in ("target_desc", "weights", "bias")}
            )
        tensors |= {name: described(name) for name in ("key_attn_bias_delta", "value_attn_bias_delta")}
        tensors |= {
            "output": None,
            "add_to_attention": adding(last.scores()),
            "backprop_cache_size": last.cache.nbytes,
        }
        last.filter.perform(
            "apply_backward_attention", caller, last.batch, {name: (value, 0) for name, value in tensors.items()}
        )

    def _target_arrays(self, last: _ForwardCall, wanted: tuple[Any, ...], who: str) -> tuple[list[Any], list[Any]]:
        """Where the gradients of query, key and value go (``None``: skipped), and what is returned for each."""
        targets: list[Any] = []
        returned: list[Any] = []
        shapes = (last.shape, last.source, last.source)
        for position, given in enumerate(wanted):
            shared = position > 0 and last.shared[position - 1]
            if given is skip:
                targets.append(None)
                returned.append(None)
            elif given is None and shared and targets[-1] is not None:
                targets.append(targets[-1])
                returned.append(None)
            else:
                array = self._result(given, shapes[position], f"{who}: generating_{_INPUTS[position]}_gradient")
                targets.append(array)
                returned.append(array if given is None else given)
        return targets, returned

    def _parameter_arrays(self, given: Any, who: str) -> dict[str, Any]:
        if given is skip:
            return {}
        if given is None:
            return {name: np.empty(array.shape, np.float32) for name, array in self.parameters.items()}
        if not isinstance(given, Mapping):
            raise Problem(
                f"{who}: generating_parameter_gradients must be a dictionary of arrays by parameter name, not "
                f"{type(given).__name__}.",
                kind=TypeError,
            )
        for name, array in given.items():
            if name not in self.parameters:
                raise Problem(
                    f"{who}: generating_parameter_gradients has {name!r}, but the parameters are "
                    f"{', '.join(self.parameters)}."
                )
            self._result(array, self.parameters[name].shape, f"{who}: generating_parameter_gradients[{name!r}]")
        return dict(given)


def descriptor_of(
    layout: int, size: Any, data: Any = None, flags: int = 0, kind: int = _FLOAT32
) -> BNNSNDArrayDescriptor:
    return BNNSNDArrayDescriptor(layout=layout, size=size, data=data, flags=flags, data_type=kind)


def _holds(memory: NDArray[Any] | None, size: Any, needed: int) -> bool:
    """True if there is no cache to fill, or one that the plan may use as it is."""
    if memory is None:
        return True
    plain = memory.dtype in (np.float32, np.uint8) and memory.flags.c_contiguous and memory.flags.writeable
    return bool(plain and memory.ctypes.data % 4 == 0 and size.value >= needed)


def joined(added: NDArray[Any] | None, target: int, source: int) -> NDArray[Any]:
    """Masks of scores that also keep positions from looking ahead."""
    ahead = np.triu(np.ones((target, source), np.bool_), 1)
    if added is None:
        return ahead
    return added | ahead if added.dtype == np.bool_ else np.where(ahead, np.float32(-np.inf), added)


def _masking(keys: NDArray[np.bool_] | None) -> BNNSNDArrayDescriptor | None:
    """A mask of keys for calls of C."""
    return None if keys is None else descriptor_of(_L.BNNSDataLayoutVector, keys.shape[-1:], keys, kind=_BOOLEAN)


def adding(mask: NDArray[Any] | None) -> BNNSNDArrayDescriptor | None:
    """Scores to add, or those that are forbidden, for calls of C."""
    if mask is None:
        return None
    kind = _BOOLEAN if mask.dtype == np.bool_ else _FLOAT32
    return descriptor_of(_MASK_LAYOUTS[mask.ndim], mask.shape, mask, kind=kind)


def _initial(name: str, shape: tuple[int, ...], random: np.random.Generator) -> NDArray[np.float32]:
    """PyTorch's initial values: uniform weights, normal attention biases, and 0 for all other biases."""
    if name.endswith("_attention_bias"):
        return random.normal(0.0, math.sqrt(2.0 / (1 + shape[0])), shape).astype(np.float32)
    if name.endswith("_bias"):
        return np.zeros(shape, np.float32)
    outputs, inputs = shape
    bound = 1.0 / math.sqrt(inputs) if name == "output_weights" else math.sqrt(6.0 / (inputs + 3 * outputs))
    return random.uniform(-bound, bound, shape).astype(np.float32)
