"""Position encodings of sequences (T, D), for networks that do not know positions otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph import operations
from ...graph.checks import check_rank, check_size, positive
from ...graph.parameter import Parameter
from ...graph.tensor import Array, Tensor
from .. import initialisers
from ..arguments import changed, optional, options
from ..layers import Dropout
from ..module import Module


class _AddedEncoding(Module):
    """An encoding (T, D) that is added to every sample, and dropout behind the sum."""

    def _add(self, x: Tensor, encoding: Any) -> Tensor:
        y: Tensor = self.dropout(x + encoding)
        return y

    dropout: Dropout


class SinusoidalEncoding(_AddedEncoding):
    """Sines and cosines of the position, added to the input (Vaswani et al. 2017): (T, D) -> (T, D).

        y[t, 2 i] = x[t, 2 i] + sin(t / base^(2 i / D)),   y[t, 2 i + 1] = x[t, 2 i + 1] + cos(t / base^(2 i / D))

    There are no parameters, and sequences may have any length.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.SinusoidalEncoding()(np.zeros((1, 2, 4), np.float32)).round(2).tolist()
    [[[0.0, 1.0, 0.0, 1.0], [0.8399999737739563, 0.5400000214576721, 0.009999999776482582, 1.0]]]
    """

    def __init__(self, d_model: int | None = None, dropout: float = 0.0, *, base: float = 10000.0) -> None:
        super().__init__()
        self.d_model, self.base = optional(d_model, "SinusoidalEncoding: d_model"), _positive_base(base, self)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        check_rank("SinusoidalEncoding", x, 2, "(length, features)")
        check_size("SinusoidalEncoding", "features", self.d_model, x.shape[2])
        steps, width = map(int, x.shape[1:])
        angles = _angles(np.arange(steps), -(-width // 2), width, self.base)
        encoding = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(steps, -1)[:, :width]
        return self._add(x, np.ascontiguousarray(encoding, np.float32))

    def extra_repr(self) -> str:
        return ", ".join(changed(self, d_model=None, base=10000.0))


class LearnedEncoding(_AddedEncoding):
    """A learned vector per position, added to the input: (T, D) -> (T, D), for lengths T up to ``max_len``.

    The parameter is ``weight`` (max_len, D), as that of an ``nn.Embedding`` of positions.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.LearnedEncoding(50, 8)
    >>> layer(np.zeros((3, 10, 8), np.float32)).shape, layer.weight.shape
    ((3, 10, 8), (50, 8))
    """

    def __init__(
        self, max_len: int, d_model: int | None = None, dropout: float = 0.0, *, standard_deviation: float = 0.02
    ) -> None:
        super().__init__()
        self.max_len = positive(max_len, "LearnedEncoding: max_len")
        self.d_model = optional(d_model, "LearnedEncoding: d_model")
        self.standard_deviation = float(standard_deviation)
        self.weight = Parameter.of(self, "weight")
        self.dropout = Dropout(dropout)

    def _shape_of(self, name: str) -> tuple[int, ...] | None:
        return None if self.d_model is None else (self.max_len, self.d_model)

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
        return initialisers.normal(0.0, self.standard_deviation)(shape, generator)

    def forward(self, x: Tensor) -> Tensor:
        check_rank("LearnedEncoding", x, 2, "(length, features)")
        check_size("LearnedEncoding", "features", self.d_model, x.shape[2])
        steps, self.d_model = x.shape[1], int(x.shape[2])
        if steps > self.max_len:
            raise ValueError(
                f"LearnedEncoding: sequences have {steps} positions, but max_len is {self.max_len}. Make it larger."
            )
        weight = self._fit("weight", (self.max_len, self.d_model), x.graph.generator)
        return self._add(x, x.graph.parameter(weight)[:steps])

    def extra_repr(self) -> str:
        return f"{self.max_len}, {self.d_model or '?'}" + options(self, standard_deviation=0.02)


class RotaryEncoding(Module):
    """Pairs of features rotated by angles that grow with the position (Su et al. 2021): (..., T, D) -> (..., T, D).

    Applied to query and key of an attention, their products depend on how far apart two positions are. With

        angle[t, i] = (t + offset) / base^(2 i / dim),   i = 0 ... dim / 2 - 1

    a pair (a, b) becomes (a cos - b sin, b cos + a sin). Pairs are the features (i, i + dim / 2), as in Llama and GPT-NeoX,
    or with ``interleaved`` (2 i, 2 i + 1), as in the paper and GPT-J. ``dim`` is the last axis, D, if it is left out; if it is
    smaller, the features behind it stay as they are.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> class Attention(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.project, self.rotary = nn.Linear(16, 48), nn.RotaryEncoding()
    ...     def forward(self, x):
    ...         q, k, v = self.project(x).reshape(x.shape[0], x.shape[1], 3, 2, 8).permute(0, 2, 3, 1, 4).unbind(1)
    ...         q, k = self.rotary(q, k)
    ...         y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    ...         return y.transpose(1, 2).flatten(2)
    >>> Attention()(np.zeros((3, 10, 16), np.float32)).shape
    (3, 10, 16)
    """

    def __init__(
        self, dim: int | None = None, base: float = 10000.0, *, interleaved: bool = False, offset: int = 0
    ) -> None:
        super().__init__()
        self.dim, self.base = optional(dim, "RotaryEncoding: dim"), _positive_base(base, self)
        self.interleaved, self.offset = bool(interleaved), int(offset)

    def forward(self, query: Tensor, key: Any = None) -> Any:
        """The query, or query and key, turned."""
        return self._turned(query) if key is None else (self._turned(query), self._turned(key))

    def _turned(self, x: Tensor) -> Tensor:
        if x.ndim < 3:
            raise ValueError(f"RotaryEncoding: needs samples (..., length, features), but gets {x.shape[1:]}.")
        steps, width = map(int, x.shape[-2:])
        dim = self.dim or width
        if dim % 2 or dim > width:
            raise ValueError(
                f"RotaryEncoding: dim is {dim}, but it must be even and at most the {width} features of {x.shape}."
            )
        angles = _angles(np.arange(steps) + self.offset, dim // 2, dim, self.base)
        return x.graph.append(operations.Rotate(x, angles, self.interleaved))

    def extra_repr(self) -> str:
        return f"{self.dim or '?'}, base={self.base:g}" + options(self, interleaved=False, offset=0)


def _angles(positions: Array, count: int, dim: int, base: float) -> Array:
    """(T, count)"""
    angles: Array = positions[:, None] / base ** (2 * np.arange(count) / dim)
    return angles


def _positive_base(base: float, module: Module) -> float:
    if not base > 0:
        raise ValueError(f"{type(module).__name__}: base is {base}. It must be above 0.")
    return float(base)
