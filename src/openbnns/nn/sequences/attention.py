"""Attention of positions over positions, once per head."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph import functions as F
from ...graph import operations
from ...graph.checks import check_rank, check_size, positive, probability
from ...graph.graph import current_graph
from ...graph.parameter import Parameter
from ...graph.sizes import Size, is_same, is_same_shape
from ...graph.tensor import FLOAT32, Array, Tensor
from .. import initialisers
from ..arguments import optional, options
from ..module import Module
from ..recording import recorded_graph
from ..tuple_results import Output, Parts
from .recurrent import require_batch_first


class MultiheadAttention(Module):
    """Attention of every position over all positions, or with three inputs of query over key and value.

    query (T, D), key (S, D or ``kdim``) and value (S, D or ``vdim``) -> (T, D). Parameters: ``in_proj_weight`` (3 D, D), or
    with other widths of key or value ``q_proj_weight``, ``k_proj_weight`` and ``v_proj_weight``; ``in_proj_bias`` (3 D,),
    ``out_proj.weight`` (D, D), ``out_proj.bias`` (D,), and with ``add_bias_kv`` one more key and value, ``bias_k`` and
    ``bias_v`` (1, 1, D). ``add_zero_attn`` adds a key and a value of zeros.

    ``causal``, or ``is_causal`` at a call, keeps positions from looking ahead. Masks are those of PyTorch:
    ``key_padding_mask`` (N, S) is true for keys to ignore, ``attn_mask`` (T, S), (heads, T, S) or (N, heads, T, S) is true
    where a position may not look, or numbers to add to the scores. They are constants, buffers, or inputs of the network. An
    input that serves as a mask takes booleans or integers; numbers to add that are not constant must be computed, such as
    ``attn_mask=-1e4 * far``, or be a parameter, and have gradients. Calls on arrays take masks of booleans, or of 0 and -inf.

    The result is the output, and can be unpacked as in PyTorch: ``y, weights = self.attn(x)``. The weights, (N, T, S), or
    (N, heads, T, S) with ``average_attn_weights=False``, are those before dropout. In ``forward`` of a module they are computed
    if they are used, and have gradients; a call on arrays computes them unless ``need_weights`` is False, and ``backward``
    takes the gradient of the output.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.MultiheadAttention(8, 2, causal=True)
    >>> x = np.random.default_rng(0).standard_normal((1, 5, 8)).astype(np.float32)
    >>> y, x[0, 4] = layer(x), 0
    >>> bool(np.allclose(layer(x)[0, :4], y[0, :4]))  # the last position does not reach those before it
    True
    >>> y, weights = layer(x, x, x)
    >>> weights.shape, bool(np.allclose(weights.sum(-1), 1))
    ((1, 5, 5), True)
    >>> class Reader(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.attn = nn.MultiheadAttention(8, 2)
    ...     def forward(self, x, padding):
    ...         return self.attn(x, x, x, key_padding_mask=padding)
    >>> Reader()(x, np.array([[False, False, False, True, True]])).shape
    (1, 5, 8)
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = True,
        *,
        causal: bool = False,
    ) -> None:
        super().__init__()
        require_batch_first("MultiheadAttention", batch_first)
        self.embed_dim = positive(embed_dim, "MultiheadAttention: embed_dim")
        self.num_heads = positive(num_heads, "MultiheadAttention: num_heads")
        self.kdim = optional(kdim, "MultiheadAttention: kdim") or self.embed_dim
        self.vdim = optional(vdim, "MultiheadAttention: vdim") or self.embed_dim
        if self.embed_dim % self.num_heads:
            raise ValueError(
                f"MultiheadAttention: {num_heads} heads do not divide embed_dim {embed_dim}. Choose num_heads that does."
            )
        self.dropout = probability(dropout, "MultiheadAttention: dropout")
        self.use_bias, self.causal, self.add_zero_attn = bool(bias), bool(causal), bool(add_zero_attn)
        for name in self._projections():
            setattr(self, name, Parameter.of(self, name))
        self.in_proj_bias = Parameter.of(self, "in_proj_bias") if self.use_bias else None
        self.bias_k = Parameter.of(self, "bias_k") if add_bias_kv else None
        self.bias_v = Parameter.of(self, "bias_v") if add_bias_kv else None
        self.out_proj = Projection(self.embed_dim, self.use_bias)
        self._observer: _Observer | None = None  # computes the weights of calls on arrays

    def _projections(self) -> tuple[str, ...]:
        joint = self.kdim == self.vdim == self.embed_dim
        return ("in_proj_weight",) if joint else ("q_proj_weight", "k_proj_weight", "v_proj_weight")

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
        if name == "in_proj_bias":
            return np.zeros(shape, np.float32)
        if name in ("bias_k", "bias_v"):  # as PyTorch: normal in the manner of Glorot
            return initialisers.normal(0.0, float(np.sqrt(2.0 / (1 + shape[2]))))(shape, generator)
        bound = np.sqrt(6.0 / sum(shape))  # as PyTorch: the three projections as one matrix
        return initialisers.uniform(-bound, bound)(shape, generator)

    def forward(
        self,
        query: Tensor,
        key: Any = None,
        value: Any = None,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> Tensor:
        """The output, and behind it the weights unless ``need_weights`` is False."""
        if (key is None) != (value is None):
            raise ValueError("MultiheadAttention: takes one input, or query, key and value.")
        three = [query, query if key is None else key, query if value is None else value]
        self._check(three)
        self._make_parameters(query.graph.generator)
        masks = Masks(self.num_heads, three[0], three[1], bool(is_causal) or self.causal)
        masks.take_keys(key_padding_mask)
        masks.take_scores(attn_mask)
        if masks.in_layer and len(self._projections()) == 1 and self.dropout < 1:
            y = self._layer(three, masks)
        else:
            weights = self._weights(three, masks)
            y = self._read(F.dropout(weights, self.dropout) if self.dropout else weights, three[2])

        def rest() -> Any:
            if not need_weights:
                return None
            weights = self._weights(three, masks)
            return weights.mean(1) if average_attn_weights else weights

        return Parts(y, rest)

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """In ``forward`` a value, on arrays an array; both can be unpacked."""
        if current_graph() is not None:
            return super().__call__(*inputs, **named)
        given = dict(self._bound(inputs, named).arguments)
        need_weights = given.pop("need_weights", True)
        average = {"average_attn_weights": given.pop("average_attn_weights", True)}
        arrays = {name: x for name, x in given.items() if x is not None}
        if "key_padding_mask" in arrays:
            arrays["key_padding_mask"] = _as_flags("key_padding_mask", arrays["key_padding_mask"])
        if "attn_mask" in arrays:
            mask = _as_flags("attn_mask", arrays["attn_mask"])
            arrays["attn_mask"] = _for_every_sample(mask, self.num_heads, len(np.asarray(arrays["query"])))
        fits = not self.built or len(recorded_graph(self).inputs) == len(arrays)  # a call with x after one with x, x, x
        if fits and set(arrays) <= {"query", "key", "value"}:
            y = super().__call__(**arrays)
        else:
            y, _ = self._call_with((), {**arrays, "need_weights": False})
        return Output.of(y, self._observed({**arrays, **average}) if need_weights else None)

    def _observed(self, given: dict[str, Any]) -> Array:
        """The weights of a call on arrays."""
        observer = self.__dict__["_observer"] or _Observer(self)
        self.__dict__["_observer"] = observer  # the observer holds this module, not the other way around
        observer._compute_like(self)
        weights: Array = observer._call_with((), given)[0]
        return weights

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_observer": None}

    def _check(self, three: list[Tensor]) -> None:
        for x, width in zip(three, (self.embed_dim, self.kdim, self.vdim), strict=True):
            check_rank("MultiheadAttention", x, 2, "(length, features)")
            check_size("MultiheadAttention", "features", width, x.shape[2])
        query, key, value = three
        if key.shape[:2] != value.shape[:2] or query.shape[0] != key.shape[0]:
            raise ValueError(
                f"MultiheadAttention: query is {query.shape}, key {key.shape} and value {value.shape}. All need the same batch, "
                "and key and value the same length."
            )

    def _shape_of(self, name: str) -> tuple[int, ...]:
        d = self.embed_dim
        shapes: dict[str, tuple[int, ...]] = {
            "in_proj_weight": (3 * d, d), "q_proj_weight": (d, d), "k_proj_weight": (d, self.kdim),
            "v_proj_weight": (d, self.vdim), "in_proj_bias": (3 * d,), "bias_k": (1, 1, d), "bias_v": (1, 1, d),
        }  # fmt: skip
        return shapes[name]

    def _make_parameters(self, generator: np.random.RandomState) -> None:
        for name in self._projections():
            self._fit(name, self._shape_of(name), generator)
        self.out_proj._fit("weight", self.out_proj._shape_of("weight"), generator)
        out_bias = self.out_proj._fit_optional("bias", self.out_proj._shape_of("bias"), generator)
        bias, *rows = (
            self._fit_optional(name, self._shape_of(name), generator) for name in ("in_proj_bias", "bias_k", "bias_v")
        )
        for one, other, names in ((bias, out_bias, "in_proj_bias and out_proj.bias"), (*rows, "bias_k and bias_v")):
            if (one is None) != (other is None):
                raise ValueError(
                    f"MultiheadAttention: {names} belong together, but one of them is None. Set both, or create the layer "
                    "without them."
                )

    # All at once, by the layer.

    def _layer(self, three: list[Tensor], masks: Masks) -> Tensor:
        pieces = [
            (self._parameters["in_proj_weight"], ("query_weights", "key_weights", "value_weights")),
            (self.out_proj._parameters["weight"], ("output_weights",)),
        ]
        if self.in_proj_bias is not None:
            pieces += [
                (self.in_proj_bias, ("query_bias", "key_bias", "value_bias")),
                (self.out_proj._parameters["bias"], ("output_bias",)),
            ]
        if self.bias_k is not None and self.bias_v is not None:
            pieces += [(self.bias_k, ("key_attention_bias",)), (self.bias_v, ("value_attention_bias",))]
        graph = three[0].graph
        dropout = 0.0 if graph.own_mode is False else self.dropout
        return graph.append(
            operations.Attention(
                graph, three, self.num_heads, pieces, dropout, masks.causal, add_zero_attn=self.add_zero_attn,
                key_mask=masks.keys, added=masks.scores,
            )
        )  # fmt: skip

    # Step by step, where the layer does not support it: other widths of key and value, gradients of masks, weights.

    def _projected(self, x: Tensor, number: int) -> Tensor:
        """Query, key or value, (N, length, D)."""
        d = self.embed_dim
        part = slice(number * d, (number + 1) * d)
        names = self._projections()
        if len(names) == 1:
            y: Tensor = F.linear(x, x.graph.parameter(self._parameters[names[0]])[part])
        else:
            y = F.linear(x, self._parameters[names[number]])
        return y if self.in_proj_bias is None else y + x.graph.parameter(self.in_proj_bias)[part]

    def _heads(self, x: Tensor, row: Parameter | None) -> Tensor:
        """(N, heads, length, D / heads), with the rows that are added behind."""
        d, h = self.embed_dim, self.num_heads
        rows: list[Any] = [x]
        if row is not None:
            rows.append(x.graph.parameter(row))
        if self.add_zero_attn:
            rows.append(np.zeros((1, 1, d), np.float32))
        joined: Tensor = F.cat(rows, 1)
        shaped = joined.reshape(joined.shape[0], joined.shape[1], h, d // h)
        result: Tensor = F.permute(shaped, 0, 2, 1, 3)
        return result

    def _weights(self, three: list[Tensor], masks: Masks) -> Tensor:
        """(N, heads, T, S and the rows that are added)."""
        d, h = self.embed_dim, self.num_heads
        q = self._projected(three[0], 0) * float(np.sqrt(h / d))
        query = F.permute(q.reshape(q.shape[0], q.shape[1], h, d // h), 0, 2, 1, 3)
        key = self._heads(self._projected(three[1], 1), self.bias_k)
        scores = F.matmul(query, F.transpose(key, -1, -2))
        for mask in masks.to_add(scores.shape[-1]):
            scores = scores + mask
        weights: Tensor = F.softmax(scores, -1)
        return weights

    def _read(self, weights: Tensor, x: Tensor) -> Tensor:
        """The output from the weights and the value."""
        heads: Tensor = F.matmul(weights, self._heads(self._projected(x, 2), self.bias_v))
        joined: Tensor = F.permute(heads, 0, 2, 1, 3)
        flat = joined.reshape(joined.shape[0], joined.shape[1], self.embed_dim)
        bias = self.out_proj._parameters.get("bias")
        y: Tensor = F.linear(flat, self.out_proj._parameters["weight"], bias)
        return y

    def extra_repr(self) -> str:
        rows = "" if self.bias_k is None else ", add_bias_kv=True"
        return f"{self.embed_dim}, {self.num_heads}{rows}" + options(
            self, dropout=0.0, bias=True, add_zero_attn=False, kdim=self.embed_dim, vdim=self.embed_dim, causal=False
        )


class Masks:
    """The masks of a call: ``keys`` and ``scores`` for the layer, and all of them as numbers to add."""

    def __init__(self, heads: int, query: Tensor, key: Tensor, causal: bool) -> None:
        self.heads, self.query, self.causal = heads, query, causal
        self.target, self.source = query.shape[1], key.shape[1]
        self.keys: Tensor | None = None
        self.scores: list[Tensor] = []
        self.in_layer = True  # whether the layer does all that is asked for

    def take_keys(self, given: Any) -> None:
        if given is None:
            return
        mask = self._value(given, "key_padding_mask")
        if mask.shape not in ((self.source,), (self.query.shape[0], self.source)):
            raise ValueError(
                f"MultiheadAttention: key_padding_mask is {mask.shape}, but (N, {self.source}), one entry per key, is needed."
            )
        if mask.dtype == FLOAT32:
            self._add(mask.reshape((mask.shape[0], 1, 1, self.source)) if mask.ndim == 2 else mask)
        else:
            self.keys = mask

    def take_scores(self, given: Any) -> None:
        if given is None:
            return
        mask = self._value(given, "attn_mask")
        whole, n = (self.target, self.source), self.query.shape[0]
        leading = ((), (self.heads,), (n,), (n, self.heads), (n * self.heads,))
        if not any(is_same_shape(mask.shape, (*first, *whole)) for first in leading):
            raise ValueError(
                f"MultiheadAttention: attn_mask is {mask.shape}, but {whole}, {(self.heads, *whole)} or one of these for "
                "every sample is needed: targets, then sources."
            )
        self._add(mask)

    def _add(self, mask: Tensor) -> None:
        self.scores.append(mask)
        constant = isinstance(mask.storage.leaf, np.ndarray)
        self.in_layer = self.in_layer and (mask.dtype != FLOAT32 or constant)

    def _value(self, given: Any, name: str) -> Tensor:
        """Integers for true and false, or numbers to add."""
        mask = self.query.graph.value(given)
        if not isinstance(mask, Tensor):
            raise TypeError(f"MultiheadAttention: {name} is a {type(given).__name__}. Pass a value or an array.")
        if mask.is_mask:
            return mask.long()
        if mask.storage.dtype == FLOAT32 and self.query.graph.is_fresh_input(mask.storage):
            return mask.as_indices(f"MultiheadAttention: {name}")
        return mask

    def to_add(self, width: int) -> list[Any]:
        """Numbers to add to scores (N, heads, T, width); columns behind the keys are not masked."""
        masks: list[Any] = [self._padded(self._numbers(mask), width) for mask in self.scores]
        if self.keys is not None:
            keys = self._numbers(self.keys)
            masks.append(
                self._padded(keys.reshape((keys.shape[0], 1, 1, self.source)) if keys.ndim == 2 else keys, width)
            )
        if self.causal:
            ahead = np.triu(np.ones((self.target, self.source), np.bool_), 1)
            masks.append(self._padded(np.where(ahead, np.float32(-np.inf), np.float32(0)), width))
        return masks

    def _numbers(self, mask: Tensor) -> Tensor:
        shaped, samples = mask, self.query.shape[0]
        if mask.ndim == 3 and self.heads > 1 and is_same(mask.shape[0], samples * self.heads):
            shaped = mask.reshape((samples, self.heads, *mask.shape[1:]))
        elif mask.ndim == 3 and is_same(mask.shape[0], samples):
            shaped = mask.reshape((samples, 1, *mask.shape[1:]))
        return shaped if shaped.dtype == FLOAT32 else shaped.graph.append(operations.Forbidden(shaped))

    def _padded(self, mask: Any, width: int) -> Any:
        if width == self.source:
            return mask
        zeros = np.zeros((*(1 if isinstance(n, Size) else n for n in mask.shape[:-1]), width - self.source), np.float32)
        return F.cat([mask, zeros], -1)


def _as_flags(name: str, given: Any) -> Array:
    """A mask of a call on arrays: 0 and minus infinity to add are true and false, too."""
    mask = np.asarray(given)
    if mask.dtype.kind != "f":
        return mask
    forbidden: Array = np.isneginf(mask)
    if not np.array_equal(np.where(forbidden, 0, mask), np.zeros_like(mask)):
        raise ValueError(
            f"MultiheadAttention: {name} has numbers to add besides 0 and -inf, which a call on arrays does not take. Pass "
            "booleans, true where a position may not look, or call the layer in forward() of a module, which holds the mask."
        )
    return forbidden


def _for_every_sample(mask: Array, heads: int, batch: int) -> Array:
    """A mask (T, S), (heads, T, S) or PyTorch's (N * heads, T, S) with the batch in front."""
    if mask.ndim == 3 and len(mask) == batch * heads:
        return mask.reshape(batch, heads, *mask.shape[1:])
    if mask.ndim == 2 or (mask.ndim == 3 and len(mask) == heads):
        return np.ascontiguousarray(np.broadcast_to(mask, (batch, *mask.shape)))
    return mask


class _Observer(Module):
    """A module that computes the weights of an attention, which stays in its own mode."""

    def __init__(self, attention: MultiheadAttention) -> None:
        super().__init__()
        self.attention, self.training = attention, False
        self._who = type(attention).__name__

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        weights: Tensor = self.attention(*inputs, **named)[1]
        return weights


class Projection(Module):
    """A holder of the output projection under PyTorch's name."""

    def __init__(self, width: int, bias: bool) -> None:
        super().__init__()
        self.width = width
        self.weight = Parameter.of(self, "weight")
        self.bias = Parameter.of(self, "bias") if bias else None

    def _shape_of(self, name: str) -> tuple[int, ...]:
        return (self.width, self.width) if name == "weight" else (self.width,)

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
        if name == "bias":
            return np.zeros(shape, np.float32)
        return initialisers.fan_in_uniform(shape[1])(shape, generator)
