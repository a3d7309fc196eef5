"""Transformers (Vaswani et al. 2017) with PyTorch's arguments and names of parameters, the batch in front."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ...graph.checks import positive
from ...graph.tensor import Array, Tensor
from ..activation import GELU, ReLU
from ..arguments import options
from ..containers import ModuleList
from ..layers import Dropout, Linear
from ..module import Module, check_module
from ..normalization import LayerNorm
from .attention import MultiheadAttention
from .recurrent import require_batch_first

Activation = Literal["relu", "gelu"] | Module | Callable[[Tensor], Tensor]


class _Layer(Module):
    """The base of encoder and decoder layers: attention and a network of two layers, each with a residual connection."""

    def _set_up(
        self, d_model: int, nhead: int, dim_feedforward: int, dropout: float, activation: Activation,
        layer_norm_eps: float, batch_first: bool, norm_first: bool, bias: bool,
    ) -> None:  # fmt: skip
        who = type(self).__name__
        require_batch_first(who, batch_first)
        if activation not in ("relu", "gelu") and not callable(activation):
            raise ValueError(f"{who}: activation is {activation!r}. Use 'relu', 'gelu', a module or a function.")
        self._options = (d_model, layer_norm_eps, bias, dropout)
        self.norm_first = bool(norm_first)
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias)
        self.linear1, self.linear2 = (
            Linear(d_model, dim_feedforward, bias=bias),
            Linear(dim_feedforward, d_model, bias=bias),
        )
        self.activation: Any = ReLU() if activation == "relu" else GELU() if activation == "gelu" else activation
        self.dropout = Dropout(dropout)

    def _add_part(self, number: int) -> None:
        """The normalization and the dropout of one residual connection."""
        d_model, eps, bias, dropout = self._options
        setattr(self, f"norm{number}", LayerNorm(d_model, eps, bias=bias))
        setattr(self, f"dropout{number}", Dropout(dropout))

    def _residual(self, number: int, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        """One part with its residual connection, normalized before or after."""
        norm, dropout = self._children[f"norm{number}"], self._children[f"dropout{number}"]
        y: Tensor = x + dropout(part(norm(x))) if self.norm_first else norm(x + dropout(part(x)))
        return y

    def _feed(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return y

    def extra_repr(self) -> str:
        attention = self.self_attn
        shown = options(self, norm_first=False)
        if not isinstance(self.activation, Module):  # a module is shown anyway
            shown += options(self, activation=None)
        return f"{attention.embed_dim}, {attention.num_heads}{shown}"


class TransformerEncoderLayer(_Layer):
    """Self-attention and a network of two layers, each with a residual connection and a layer normalization.

    (T, D) -> (T, D). ``norm_first`` normalizes before each part instead of after the sum; ``causal``, or ``is_causal`` at
    a call, keeps positions from looking ahead. Masks are those of :class:`MultiheadAttention`.

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
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = True,
        norm_first: bool = False,
        bias: bool = True,
        *,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self._set_up(
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias
        )
        self.causal = bool(causal)
        for number in (1, 2):
            self._add_part(number)

    def forward(
        self, src: Tensor, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            y: Tensor = self.self_attn(
                x,
                x,
                x,
                src_key_padding_mask,
                attn_mask=src_mask,
                is_causal=is_causal or self.causal,
                need_weights=False,
            )
            return y

        return self._residual(2, self._residual(1, src, attend), self._feed)

    def extra_repr(self) -> str:
        return super().extra_repr() + options(self, causal=False)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention over the ``memory`` of an encoder, and a network of two layers.

    target (T, D), memory (S, D) -> (T, D). Options and masks are as in :class:`TransformerEncoderLayer`;
    ``tgt_is_causal`` keeps targets from looking ahead.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.TransformerDecoderLayer(16, 4, 32)
    >>> layer(np.zeros((3, 10, 16), np.float32), np.zeros((3, 7, 16), np.float32)).shape
    (3, 10, 16)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = True,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self._set_up(
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias
        )
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias)
        for number in (1, 2, 3):
            self._add_part(number)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            y: Tensor = self.self_attn(
                x, x, x, tgt_key_padding_mask, attn_mask=tgt_mask, is_causal=tgt_is_causal, need_weights=False
            )
            return y

        def look(x: Tensor) -> Tensor:
            y: Tensor = self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, attn_mask=memory_mask, is_causal=memory_is_causal,
                need_weights=False,
            )  # fmt: skip
            return y

        x = self._residual(2, self._residual(1, tgt, attend), look)
        return self._residual(3, x, self._feed)


class _Stack(Module):
    """Copies of a layer one after the other, and a normalization behind them."""

    def _set_up(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        who = type(self).__name__
        check_module(layer, f"{who}: layer")
        if layer.built:
            raise ValueError(
                f"{who}: the layer is built already, but {num_layers} new ones are made like it. Make it anew."
            )
        self.num_layers = positive(num_layers, f"{who}: num_layers")
        self.layers = ModuleList([copy.deepcopy(layer) for _ in range(self.num_layers)])
        if norm is not None:
            check_module(norm, f"{who}: norm")
            self.norm = norm

    def _finish(self, x: Tensor) -> Tensor:
        norm = self._children.get("norm")
        return x if norm is None else norm(x)


class TransformerEncoder(_Stack):
    """``num_layers`` layers like ``encoder_layer``, each with weights of its own, and ``norm`` behind them if given.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> net = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32), 2, nn.LayerNorm(16))
    >>> net(np.zeros((3, 10, 16), np.float32)).shape
    (3, 10, 16)
    """

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None, enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self._set_up(encoder_layer, num_layers, norm)

    def forward(
        self, src: Tensor, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
    ) -> Tensor:
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        return self._finish(x)


class TransformerDecoder(_Stack):
    """``num_layers`` layers like ``decoder_layer``, each with weights of its own, and ``norm`` behind them if given.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> net = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32), 2)
    >>> net(np.zeros((3, 10, 16), np.float32), np.zeros((3, 7, 16), np.float32)).shape
    (3, 10, 16)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self._set_up(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        x = tgt
        for layer in self.layers:
            x = layer(
                x, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return self._finish(x)


class Transformer(Module):
    """An encoder of the source and a decoder of the target: source (S, D), target (T, D) -> (T, D).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> net = nn.Transformer(16, 4, 1, 1, 32)
    >>> net(np.zeros((3, 7, 16), np.float32), np.zeros((3, 10, 16), np.float32)).shape
    (3, 10, 16)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = True,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        options = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias,
        )  # fmt: skip
        self.d_model, self.nhead = d_model, nhead
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias)
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*options), num_encoder_layers, norm)
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias)
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*options), num_decoder_layers, norm)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool = False,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        y: Tensor = self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip
        return y

    @staticmethod
    def generate_square_subsequent_mask(sz: int) -> Array:
        """The mask (sz, sz) that keeps positions from looking ahead: 0, and minus infinity above the diagonal."""
        return np.triu(np.full((sz, sz), -np.inf, np.float32), 1)
