"""Layers of networks. Arguments and defaults are PyTorch's, but input sizes may be left out: they follow from the data.

``Linear(32)`` and ``Linear(64, 32)`` are the same layer behind 64 inputs, and so are ``Conv2d(16, 3)`` and
``Conv2d(8, 16, 3)`` behind 8 channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

import numpy as np

from ..graph import functions, operations
from ..graph.checks import check_rank, check_size, positive, probability
from ..graph.parameter import Parameter
from ..graph.sizes import Size
from ..graph.tensor import Array, Tensor
from . import initialisers
from .arguments import first_may_be_omitted, optional, options
from .initialisers import Initial
from .module import Layer, Module


class Linear(Layer):
    """y = x Wᵀ + b along the last axis: (..., in) -> (..., out). ``weight`` is (out, in), ``bias`` (out,).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.Linear(3, 2)  # or Linear(2): the first input tells its size
    >>> y = layer(np.ones((5, 3), np.float32))
    >>> dx = layer.backward(np.ones_like(y))
    >>> y.shape, layer.weight.grad.shape, layer.bias.grad.tolist()
    ((5, 2), (2, 3), [5.0, 5.0])
    """

    @overload
    def __init__(
        self, out_features: int, *, bias: bool = True, weight_init: Initial | None = None,
        bias_init: Initial | None = None,
    ) -> None: ...  # fmt: skip

    @overload
    def __init__(
        self, in_features: int | None, out_features: int, bias: bool = True, *,
        weight_init: Initial | None = None, bias_init: Initial | None = None,
    ) -> None: ...  # fmt: skip

    @first_may_be_omitted
    def __init__(
        self, in_features: int | None, out_features: int, bias: bool = True, *,
        weight_init: Initial | None = None, bias_init: Initial | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_features = optional(in_features, "Linear: in_features")
        self.out_features = positive(out_features, "Linear: out_features")
        self.use_bias, self.weight_init, self.bias_init = bool(bias), weight_init, bias_init
        self.weight = Parameter.of(self, "weight")
        self.bias = Parameter.of(self, "bias") if self.use_bias else None

    def _shape_of(self, name: str) -> tuple[int, ...] | None:
        if self.in_features is None:  # which the initial values of the bias follow from, too
            return None
        return (self.out_features, self.in_features) if name == "weight" else (self.out_features,)

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
        choice = self.weight_init if name == "weight" else self.bias_init
        return initialisers.find(choice, initialisers.fan_in_uniform(self.in_features or shape[-1]))(shape, generator)

    def forward(self, input: Tensor) -> Tensor:
        x = input
        if x.ndim == 1 and not isinstance(x.shape[0], Size):  # one sample, as a parameter or a part of a batch may be
            y: Tensor = functions.select(self.forward(functions.unsqueeze(x, 0)), 0, 0)
            return y
        if x.ndim < 2:
            raise ValueError(
                "Linear: needs samples with at least one axis, but the first axis, the batch, is the only one. Pass x[None] for "
                "one sample, or x[:, None] for samples of one number each."
            )
        check_size("Linear", "inputs", self.in_features, x.shape[-1])
        self.in_features = int(x.shape[-1])
        weight = self._fit("weight", (self.out_features, self.in_features), x.graph.generator)
        bias = self._fit_optional("bias", (self.out_features,), x.graph.generator)
        return x.graph.append(operations.Linear(x.graph, x, weight, bias))

    def extra_repr(self) -> str:
        return f"{self.in_features or '?'}, {self.out_features}" + options(
            self, bias=True, weight_init=None, bias_init=None
        )


class Dropout(Layer):
    """In training every element is 0 with probability p, else x / (1 - p); at inference y = x.

    With p = 1 no element is kept, and no gradient passes.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x, layer = np.ones((1, 1000), np.float32), nn.Dropout(0.5)
    >>> sorted(set(layer(x)[0].tolist())), set(layer.eval()(x)[0].tolist())
    ([0.0, 2.0], {1.0})
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p = probability(p, f"{type(self).__name__}: p")

    def forward(self, input: Tensor) -> Tensor:
        x = input
        return x.graph.append(operations.Dropout(x.graph, x, self.p)) if self.p else x

    def extra_repr(self) -> str:
        return f"p={self.p:g}"


class Dropout2d(Dropout):
    """In training every channel of an image (C, H, W) is 0 with probability p, else x / (1 - p); at inference y = x.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> y = nn.Dropout2d(0.5)(np.ones((1, 1000, 2, 3), np.float32))
    >>> sorted({tuple(channel.ravel().tolist()) for channel in y[0]}) == [(0.0,) * 6, (2.0,) * 6]
    True
    """

    axes = "(channels, height, width)"

    def forward(self, input: Tensor) -> Tensor:
        x = input
        check_rank(type(self).__name__, x, self.axes.count(",") + 1, self.axes)
        return x.graph.append(operations.Dropout(x.graph, x, self.p, channels=True)) if self.p else x


class Dropout1d(Dropout2d):
    """In training every channel of a signal (C, L) is 0 with probability p, else x / (1 - p); at inference y = x.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> y = nn.Dropout1d(0.5)(np.ones((1, 1000, 3), np.float32))
    >>> sorted({tuple(channel.tolist()) for channel in y[0]}) == [(0.0,) * 3, (2.0,) * 3]
    True
    """

    axes = "(channels, length)"


class _Embeddings(Layer):
    """The base of layers that look up rows of a table ``weight``."""

    def _set_up(self, rows: int, columns: int, padding_idx: int | None, weight_init: Initial | None) -> None:
        who = type(self).__name__
        self.num_embeddings = positive(rows, f"{who}: num_embeddings")
        self.embedding_dim = positive(columns, f"{who}: embedding_dim")
        if padding_idx is not None:
            if not -rows <= padding_idx < rows:
                raise ValueError(f"{who}: padding_idx is {padding_idx}, but rows are 0 to {rows - 1}.")
            padding_idx %= rows  # negative numbers count from the end
        self.padding_idx, self.weight_init = padding_idx, weight_init
        self.weight = Parameter.of(self, "weight")

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
        values = initialisers.find(self.weight_init, initialisers.normal())(shape, generator)
        if self.padding_idx is not None:
            values[self.padding_idx] = 0
        return values

    def _shape_of(self, name: str) -> tuple[int, ...] | None:
        return (self.num_embeddings, self.embedding_dim)

    def _rows(self, numbers: Tensor) -> Tensor:
        """The rows of these numbers."""
        x = numbers.as_indices(type(self).__name__)
        weight = self._fit("weight", (self.num_embeddings, self.embedding_dim), x.graph.generator)
        rows: Tensor = x.graph.append(operations.Embedding(x.graph, x, weight, self.padding_idx))
        return rows


class Embedding(_Embeddings):
    """Rows of ``weight`` (num_embeddings, embedding_dim) by number: integers (...) -> (..., embedding_dim).

    The row ``padding_idx`` reads as zeros and gets no gradient.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.Embedding(10, 3, padding_idx=0)
    >>> layer(np.array([[0, 7]])).shape, layer(np.array([[0, 7]]))[0, 0].tolist()
    ((1, 2, 3), [0.0, 0.0, 0.0])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        weight_init: Initial | None = None,
    ) -> None:
        super().__init__()
        self._set_up(num_embeddings, embedding_dim, padding_idx, weight_init)

    def forward(self, input: Tensor) -> Tensor:
        return self._rows(input)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}" + options(self, padding_idx=None, weight_init=None)


class EmbeddingBag(_Embeddings):
    """The sum, mean or maximum of rows of ``weight``, by number: integers (bag,) -> (embedding_dim,).

    ``per_sample_weights``, a second input in the shape of the first, multiplies the rows of a sum. The row ``padding_idx``
    takes no part. Bags of one batch have one length; ``offsets`` of PyTorch are bags padded with ``padding_idx`` here.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.EmbeddingBag(4, 2, mode="sum", padding_idx=0)
    >>> layer.weight.data[:] = [[0, 0], [1, 10], [2, 20], [3, 30]]
    >>> layer(np.array([[1, 3, 0], [2, 2, 2]])).tolist()
    [[4.0, 40.0], [6.0, 60.0]]
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        *,
        mode: Literal["sum", "mean", "max"] = "mean",
        padding_idx: int | None = None,
        weight_init: Initial | None = None,
    ) -> None:
        super().__init__()
        if mode not in ("sum", "mean", "max"):
            raise ValueError(f"EmbeddingBag: mode is {mode!r}. Use 'sum', 'mean' or 'max'.")
        if mode == "max" and padding_idx is not None:
            raise ValueError(
                "EmbeddingBag: a maximum has no padding_idx, because its zeros would take part. Leave it out."
            )
        self.mode = mode
        self._set_up(num_embeddings, embedding_dim, padding_idx, weight_init)

    def forward(self, input: Tensor, per_sample_weights: Tensor | None = None) -> Tensor:
        x, shares = input, per_sample_weights
        check_rank("EmbeddingBag", x, 1, "(bag,) of whole numbers")
        if shares is not None and (self.mode != "sum" or shares.shape[1:] != x.shape[1:]):
            raise ValueError(
                f"EmbeddingBag: per_sample_weights {shares.shape} need mode='sum' and the shape of the numbers, {x.shape}."
            )
        rows = self._rows(x)
        if shares is not None:
            rows = rows * shares.reshape(x.shape[0], -1, 1)
        if self.mode == "max":
            return functions.amax(rows, 1)  # type: ignore[no-any-return]
        if self.mode == "mean" and self.padding_idx is None:
            return functions.mean(rows, 1)  # type: ignore[no-any-return]
        total: Tensor = functions.sum(rows, 1)
        return total / self._counts(x) if self.mode == "mean" else total

    def _counts(self, x: Tensor) -> Tensor:
        """The number of rows of each bag that take part, at least 1: those that are not ``padding_idx``, looked up in a
        table."""
        table = np.ones((self.num_embeddings, 1), np.float32)
        table[self.padding_idx] = 0
        known = x.graph.append(operations.Embedding(x.graph, x, Parameter(table, requires_grad=False), None))
        counts: Tensor = functions.clamp(functions.sum(known, 1), 1.0)
        return counts

    def extra_repr(self) -> str:
        sizes = f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"
        return sizes + options(self, padding_idx=None, weight_init=None)


class Bilinear(Layer):
    """y_o = aᵀ W_o b + bias_o for two inputs: (..., in1), (..., in2) -> (..., out). ``weight`` is (out, in1, in2).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.Bilinear(3, 4, 2)
    >>> layer(np.ones((5, 3), np.float32), np.ones((5, 4), np.float32)).shape
    (5, 2)
    """

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in1_features = positive(in1_features, "Bilinear: in1_features")
        self.in2_features = positive(in2_features, "Bilinear: in2_features")
        self.out_features = positive(out_features, "Bilinear: out_features")
        self.use_bias = bool(bias)
        self.weight = Parameter.of(self, "weight")
        self.bias = Parameter.of(self, "bias") if self.use_bias else None

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
        return initialisers.fan_in_uniform(self.in1_features)(shape, generator)

    def _shape_of(self, name: str) -> tuple[int, ...] | None:
        sizes = (self.out_features, self.in1_features, self.in2_features)
        return sizes if name == "weight" else sizes[:1]

    def forward(self, *inputs: Tensor) -> Tensor:
        if len(inputs) != 2:
            raise TypeError(f"Bilinear takes two inputs, not {len(inputs)}.")
        a, b = inputs
        if a.shape[:-1] != b.shape[:-1] or (a.shape[-1:], b.shape[-1:]) != (
            (self.in1_features,),
            (self.in2_features,),
        ):
            raise ValueError(
                f"Bilinear: made for inputs (..., {self.in1_features}) and (..., {self.in2_features}), but gets {a.shape} and "
                f"{b.shape}."
            )
        graph, (o, i, j) = a.graph, (self.out_features, self.in1_features, self.in2_features)
        weight = self._fit("weight", (o, i, j), graph.generator)
        bias = self._fit_optional("bias", (o,), graph.generator)
        # (..., i) x (o, i, j) -> (..., o, j), times b and summed over j.
        turned = functions.permute(graph.parameter(weight), 1, 0, 2).reshape(i, o * j)
        products = functions.matmul(a, turned).reshape(*a.shape[:-1], o, j) * b.reshape(*b.shape[:-1], 1, j)
        y: Tensor = functions.sum(products, -1)
        return y if bias is None else y + graph.parameter(bias)

    def extra_repr(self) -> str:
        return f"{self.in1_features}, {self.in2_features}, {self.out_features}" + options(self, bias=True)


class Flatten(Layer):
    """The axes from ``start_dim`` to ``end_dim`` as one, by default all but the batch; no data is moved.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Flatten()(np.zeros((4, 3, 5, 5), np.float32)).shape
    (4, 75)
    >>> nn.Flatten(2)(np.zeros((4, 3, 5, 5), np.float32)).shape
    (4, 3, 25)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        x = input
        if x.ndim < 2 and self.start_dim == 1:
            return x.reshape(x.shape[0], 1)
        y: Tensor = functions.flatten(x, self.start_dim, self.end_dim)
        return y

    def extra_repr(self) -> str:
        return (
            "" if (self.start_dim, self.end_dim) == (1, -1) else f"start_dim={self.start_dim}, end_dim={self.end_dim}"
        )


class Unflatten(Layer):
    """An axis as several; one of the sizes may be -1. No data is moved.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Unflatten(1, (3, 5, -1))(np.zeros((4, 75), np.float32)).shape
    (4, 3, 5, 5)
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        y: Tensor = functions.unflatten(input, self.dim, self.unflattened_size)
        return y

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Reshape(Layer):
    """Samples in another shape with the same number of elements; one size may be -1. No data is moved.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Reshape(1, 8, -1)(np.zeros((4, 64), np.float32)).shape
    (4, 1, 8, 8)
    """

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape

    def forward(self, input: Tensor) -> Tensor:
        x = input
        return x.reshape(x.shape[0], *self.shape)

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.shape))


class Identity(Layer):
    """y = x.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Identity()(np.float32([[1, 2]])).tolist()
    [[1.0, 2.0]]
    """

    def forward(self, input: Tensor) -> Tensor:
        return input


class Concatenate(Layer):
    """The results of several branches that read the same input, side by side along ``axis`` of the sample.

    Called with several values and no branches, it joins those.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Concatenate(nn.Identity(), nn.ReLU())(np.float32([[-1, 2]])).tolist()
    [[-1.0, 2.0, 0.0, 2.0]]
    """

    _is_container = True

    def __init__(self, *branches: Module, axis: int = 0) -> None:
        super().__init__()
        self.axis = axis
        for i, branch in enumerate(branches):
            self._children[str(i)] = branch

    def forward(self, *inputs: Tensor) -> Tensor:
        parts = [branch(*inputs) for branch in self.children()] or list(inputs)
        rank = parts[0].ndim - 1
        if not -rank <= self.axis < rank:
            raise ValueError(
                f"Concatenate: axis {self.axis} is not one of the {rank} axes of a sample {parts[0].shape[1:]}."
            )
        joined: Tensor = functions.cat(parts, self.axis % rank + 1)
        return joined

    def extra_repr(self) -> str:
        return f"axis={self.axis}"
