"""Attention."""

from __future__ import annotations

import numpy as np

from .. import initialisers, operations
from .._checks import check_rank, check_size, positive
from .._value import Array, Value
from ..activation import GELU, ReLU
from ..layers import Dropout, Linear
from ..module import Module
from ..normalization import LayerNorm
from ..parameter import Parameter
from .recurrent import require_batch_first


class MultiheadAttention(Module):
    """Attention of every position over all positions, or with three inputs of query over key and value.

    query (T, D), key and value (S, D) -> (T, D). ``causal`` keeps positions from looking ahead. Parameters:
    ``in_proj_weight`` (3 D, D), ``in_proj_bias`` (3 D,), ``out_proj.weight`` (D, D), ``out_proj.bias`` (D,).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.MultiheadAttention(8, 2, causal=True)
    >>> x = np.random.default_rng(0).standard_normal((1, 5, 8)).astype(np.float32)
    >>> y, x[0, 4] = layer(x), 0
    >>> bool(np.allclose(layer(x)[0, :4], y[0, :4]))  # the last position does not reach those before it
    True
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        dropout: float = 0.0,
        bias: bool = True,
        causal: bool = False,
        batch_first: bool = True,
    ) -> None:
        super().__init__()
        require_batch_first("MultiheadAttention", batch_first)
        self.embed_dim = positive(embed_dim, "MultiheadAttention: embed_dim")
        self.num_heads = positive(num_heads, "MultiheadAttention: num_heads")
        if embed_dim % num_heads:
            raise ValueError(
                f"MultiheadAttention: {num_heads} heads do not divide embed_dim {embed_dim}. Choose num_heads that does."
            )
        if not 0 <= dropout < 1:
            raise ValueError(f"MultiheadAttention: dropout is {dropout}. It must be at least 0 and below 1.")
        self.dropout, self.use_bias, self.causal = float(dropout), bool(bias), bool(causal)
        self.in_proj_weight = Parameter.of(self, "in_proj_weight")
        self.in_proj_bias = Parameter.of(self, "in_proj_bias") if self.use_bias else None
        self.out_proj = _Projection(self.use_bias)

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
        if name == "in_proj_bias":
            return np.zeros(shape, np.float32)
        bound = np.sqrt(6.0 / (4 * shape[1]))  # as PyTorch: the three projections as one matrix
        return initialisers.uniform(-bound, bound)(shape, generator)

    def forward(self, *inputs: Value) -> Value:
        if len(inputs) not in (1, 3):
            raise ValueError("MultiheadAttention: takes one input, or query, key and value.")
        for x in inputs:
            check_rank("MultiheadAttention", x, 2, "(length, features)")
            check_size("MultiheadAttention", "features", self.embed_dim, x.sample[1])
        graph, d = inputs[0].graph, self.embed_dim
        generator = graph.generator
        pieces = [
            (self._fit("in_proj_weight", (3 * d, d), generator), ("query_weights", "key_weights", "value_weights")),
            (self.out_proj._fit("weight", (d, d), generator), ("output_weights",)),
        ]
        bias = self._fit_optional("in_proj_bias", (3 * d,), generator)
        out_bias = self.out_proj._fit_optional("bias", (d,), generator)
        if (bias is None) != (out_bias is None):
            raise ValueError(
                "MultiheadAttention: in_proj_bias and out_proj.bias belong together, but one of them is None. Set both, or "
                "create the layer with bias=False."
            )
        if bias is not None and out_bias is not None:
            pieces += [(bias, ("query_bias", "key_bias", "value_bias")), (out_bias, ("output_bias",))]
        three = list(inputs) if len(inputs) == 3 else [inputs[0]] * 3
        return graph.append(operations.Attention(graph, three, self.num_heads, pieces, self.dropout, self.causal))

    def extra_repr(self) -> str:
        return f"{self.embed_dim}, {self.num_heads}" + (", causal=True" if self.causal else "")


class _Projection(Module):
    """Holds the output projection under PyTorch's name."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.weight = Parameter.of(self, "weight")
        self.bias = Parameter.of(self, "bias") if bias else None

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
        if name == "bias":
            return np.zeros(shape, np.float32)
        return initialisers.fan_in_uniform(shape[1])(shape, generator)


class TransformerEncoderLayer(Module):
    """Self-attention and a network of two layers, each with a residual connection and a layer normalization.

    (T, D) -> (T, D). ``norm_first`` normalizes before each part instead of after the sum.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> net = nn.Sequential(nn.Embedding(100, 16), nn.TransformerEncoderLayer(16, 4, 32), nn.Linear(2))
    >>> net(np.zeros((3, 10), np.int64)).shape
    (3, 10, 2)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        *,
        layer_norm_eps: float = 1e-5,
        norm_first: bool = False,
        causal: bool = False,
        batch_first: bool = True,
    ) -> None:
        super().__init__()
        require_batch_first("TransformerEncoderLayer", batch_first)
        if activation not in ("relu", "gelu"):
            raise ValueError(f"TransformerEncoderLayer: activation is {activation!r}. Use 'relu' or 'gelu'.")
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, causal=causal)
        self.linear1, self.linear2 = Linear(dim_feedforward), Linear(d_model)
        self.norm1, self.norm2 = LayerNorm(eps=layer_norm_eps), LayerNorm(eps=layer_norm_eps)
        self.norm_first = bool(norm_first)
        self.activation = ReLU() if activation == "relu" else GELU()
        self.dropout, self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout), Dropout(dropout)

    def forward(self, *inputs: Value) -> Value:
        (x,) = inputs
        if self.norm_first:
            x = x + self._attend(self.norm1(x))
            return x + self._feed(self.norm2(x))
        x = self.norm1(x + self._attend(x))
        y: Value = self.norm2(x + self._feed(x))
        return y

    def _attend(self, x: Value) -> Value:
        y: Value = self.dropout1(self.self_attn(x))
        return y

    def _feed(self, x: Value) -> Value:
        hidden = self.dropout(self.activation(self.linear1(x)))
        y: Value = self.dropout2(self.linear2(hidden))
        return y
