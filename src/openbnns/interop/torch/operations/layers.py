"""Convolutions, poolings, normalizations, lookups, dropout and losses as functions."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from ....graph.graph import current_graph
from ....graph.operations import Choice, RandomNumbers
from ....graph.parameter import Parameter
from ....graph.sizes import Size
from ....graph.tensor import Tensor
from ....nn import functional as F
from ...converted.sampling import sampled_at
from ...converted.tensors import ForeignTensor, Misfit, held_parameter
from .._recording import Kind
from .._steps import BY_MODE, ByMode
from ._registry import FUNCTIONS, Call, adapted, add, operation, plain, refuse_unless, whole

LAYERS = "layers"
LOSSES = "losses"
RANDOM = "random numbers"


def _options(given: dict[str, Any]) -> dict[str, Any]:
    return {name: plain_sizes(value, name) for name, value in given.items()}


def plain_sizes(given: Any, name: str) -> Any:
    if isinstance(given, (tuple, list)):
        return tuple(_number(plain(n, name)) for n in given)
    return _number(plain(given, name))


def _number(given: Any) -> Any:
    return int(given) if isinstance(given, Size) else given


# Convolutions.


def _convolution(function: Any, transposed: bool) -> Any:
    def handler(
        call: Call, input: ForeignTensor, weight: ForeignTensor, bias: Any = None, stride: Any = 1, padding: Any = 0,
        *options: Any, **named: Any,
    ) -> Any:  # fmt: skip
        names = ("output_padding", "groups", "dilation") if transposed else ("dilation", "groups")
        chosen = {"stride": stride, "padding": padding, **dict(zip(names, options, strict=False)), **named}
        held = (weights(weight), None if bias is None else weights(bias))
        return of_samples(input, weight.rank, lambda x: function(x, *held, **_options(chosen)))

    return handler


def of_samples(input: ForeignTensor, rank: int, function: Any) -> Any:
    """The results of a function of samples, with an axis of one sample in front where the input is a single one."""
    if input.rank != rank - 1:
        return function(input.numbers)
    results = function(F.unsqueeze(input.numbers, 0))
    return tuple(F.squeeze(y, 0) for y in results) if isinstance(results, tuple) else F.squeeze(results, 0)


def weights(given: ForeignTensor) -> Any:
    """Weights as they are held, or as they are computed."""
    return held_parameter(given) if isinstance(given.held, (Parameter, np.ndarray)) else given.numbers


for _name in ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"):
    add(LAYERS, f"F.{_name}", _convolution(getattr(F, _name), "transpose" in _name))


# Poolings, sizes.


def _pooling(function: Any, *names: str) -> Any:
    axes = next((int(n) for n in "123" if function.__name__.endswith(f"{n}d")), 0)
    gives_indices = "return_indices" in inspect.signature(function).parameters

    def handler(call: Call, input: ForeignTensor, *options: Any, **named: Any) -> Any:
        chosen = {**dict(zip(names, options, strict=len(options) > len(names))), **named}
        if not chosen.get("stride", 0):  # PyTorch's functions in C take [] for None
            chosen.pop("stride", None)
        if not gives_indices:
            refuse_unless("return_indices", chosen.pop("return_indices", False), False)
        taken = _options(chosen)
        if axes:
            taken = {name: _unwrapped(value) for name, value in taken.items()}
        return of_samples(input, axes + 2 if axes else 0, lambda x: function(x, **taken))

    return handler


def _unwrapped(given: Any) -> Any:
    """A number in place of a tuple of one."""
    return given[0] if isinstance(given, tuple) and len(given) == 1 else given


_WINDOW = ("kernel_size", "stride", "padding")
for _axes in ("1d", "2d", "3d"):
    for _name in (f"max_pool{_axes}", f"F.max_pool{_axes}"):
        add(
            LAYERS, _name,
            _pooling(getattr(F, f"max_pool{_axes}"), *_WINDOW, "dilation", "ceil_mode", "return_indices"),
        )  # fmt: skip
    add(
        LAYERS, f"F.avg_pool{_axes}",
        _pooling(getattr(F, f"avg_pool{_axes}"), *_WINDOW, "ceil_mode", "count_include_pad", "divisor_override"),
    )  # fmt: skip
    add(LAYERS, f"F.adaptive_avg_pool{_axes}", _pooling(getattr(F, f"adaptive_avg_pool{_axes}"), "output_size"))
    add(
        LAYERS,
        f"F.adaptive_max_pool{_axes}",
        _pooling(getattr(F, f"adaptive_max_pool{_axes}"), "output_size", "return_indices"),
    )
for _axes in ("1d", "2d"):
    add(
        LAYERS,
        f"F.lp_pool{_axes}",
        _pooling(getattr(F, f"lp_pool{_axes}"), "norm_type", "kernel_size", "stride", "ceil_mode"),
    )


def _with_indices(function: Any, *names: str) -> Any:
    inner = _pooling(function, *names)

    def handler(call: Call, input: ForeignTensor, *options: Any, **named: Any) -> Any:
        named.pop("return_indices", None)
        return inner(call, input, *options[: len(names) - 1], return_indices=True, **named)

    return handler


for _axes in ("1d", "2d"):
    add(
        LAYERS, f"F.max_pool{_axes}_with_indices",
        _with_indices(getattr(F, f"max_pool{_axes}"), *_WINDOW, "dilation", "ceil_mode", "return_indices"),
    )  # fmt: skip
    add(
        LAYERS, f"F.adaptive_max_pool{_axes}_with_indices",
        _with_indices(getattr(F, f"adaptive_max_pool{_axes}"), "output_size", "return_indices"),
    )  # fmt: skip


@operation(LAYERS, "F.max_unpool1d", "F.max_unpool2d")
def max_unpool(
    call: Call, input: ForeignTensor, indices: ForeignTensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    output_size: Any = None,
) -> Any:  # fmt: skip
    function = F.max_unpool1d if call.name.endswith("1d") else F.max_unpool2d
    size = None if output_size is None else [int(n) for n in output_size[-(input.rank - 2) :]]
    stride = plain_sizes(stride, "stride") or None
    return function(
        input.numbers, indices.value, plain_sizes(kernel_size, "kernel_size"), stride,
        plain_sizes(padding, "padding"), size,
    )  # fmt: skip


@operation(LAYERS, "F.pad", "constant_pad_nd")
def pad(call: Call, input: ForeignTensor, pad: Any, mode: Any = "constant", value: Any = None) -> Any:
    if call.name == "constant_pad_nd":
        mode, value = "constant", mode if value is None else value
    widths = [int(plain(n, "pad")) for n in pad]
    return F.pad(input.numbers, widths, mode, None if value is None else float(plain(value, "value")))


@operation(LAYERS, "F.interpolate")
def interpolate(
    call: Call, input: ForeignTensor, size: Any = None, scale_factor: Any = None, mode: Any = "nearest",
    align_corners: Any = None, recompute_scale_factor: Any = None, antialias: bool = False,
) -> Any:  # fmt: skip
    options = _options({"size": size, "scale_factor": scale_factor})
    if mode == "area":
        sizes = tuple(int(n) for n in call.shape[2:])
        return getattr(F, f"adaptive_avg_pool{len(sizes)}d")(input.numbers, sizes if len(sizes) > 1 else sizes[0])
    if antialias:
        return _resized_by_products(call, input, mode, bool(align_corners), scale_factor, recompute_scale_factor)
    return F.interpolate(
        input.numbers, mode=mode, align_corners=align_corners, recompute_scale_factor=recompute_scale_factor,
        **options,
    )  # fmt: skip


def _resized_by_products(
    call: Call, input: ForeignTensor, mode: str, align_corners: bool, factors: Any, recomputed: Any
) -> Any:
    """An image times a matrix on either side, each of which resizes one axis."""
    if mode not in ("bilinear", "bicubic"):
        raise Misfit(f"antialias=True with mode={mode!r} has no counterpart here")
    given = (
        [None, None]
        if factors is None or recomputed
        else factors
        if isinstance(factors, (tuple, list))
        else [factors] * 2
    )
    y = input.numbers
    for axis, factor in zip((2, 3), given, strict=True):
        old, new = int(input.shape[axis]), int(call.shape[axis])
        spacing = (old - 1) / max(new - 1, 1) if align_corners else old / new if factor is None else 1 / float(factor)
        matrix = _antialiasing(old, new, spacing, mode)
        y = F.matmul(y, matrix) if axis == 3 else F.transpose(F.matmul(F.transpose(y, 2, 3), matrix), 2, 3)
    return y


def _antialiasing(old: int, new: int, spacing: float, mode: str) -> Any:
    """The share (old, new) of every old entry in every new one: filters as wide as new entries lie apart."""
    wide = max(spacing, 1.0)
    reach = (1 if mode == "bilinear" else 2) * wide
    centers = spacing * (np.arange(new) + 0.5)
    first = np.maximum((centers - reach + 0.5).astype(np.int64), 0)
    end = np.minimum((centers + reach + 0.5).astype(np.int64), old)
    places = np.arange(old)[:, None]
    distance = np.abs((places - centers + 0.5) / wide)
    if mode == "bilinear":
        shares = np.maximum(1 - distance, 0)
    else:  # Keys' cubic with a = -0.5
        near = ((1.5 * distance - 2.5) * distance) * distance + 1
        far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
        shares = np.where(distance < 1, near, np.where(distance < 2, far, 0))
    shares = np.where((places >= first) & (places < end), shares, 0)
    return (shares / shares.sum(0)).astype(np.float32)


@operation(LAYERS, "F.grid_sample")
def grid_sample(
    call: Call, input: ForeignTensor, grid: ForeignTensor, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: Any = None,
) -> Any:  # fmt: skip
    kind = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    return sampled_at(input, grid, kind, padding_mode, bool(align_corners))


for _name, _option in (
    ("pixel_shuffle", "upscale_factor"), ("pixel_unshuffle", "downscale_factor"), ("channel_shuffle", "groups"),
):  # fmt: skip
    add(LAYERS, f"F.{_name}", _pooling(getattr(F, _name), _option))


for _name in ("unfold", "fold"):
    add(LAYERS, f"F.{_name}", adapted(getattr(F, _name)))


# Normalizations.


def _scaled(normalized: Any, weight: Any, bias: Any, *, behind: int) -> Any:
    """Normalize with the weights of a layer; or, if these are computed, without any, and multiply by them afterwards.

    ``behind`` is the number of axes after those of the weights.
    """
    if all(x is None or isinstance(x.held, (Parameter, np.ndarray)) for x in (weight, bias)):
        return normalized(held_parameter(weight), held_parameter(bias))
    result = normalized(None, None)
    for function, x in ((F.mul, weight), (F.add, bias)):
        if x is not None:
            result = function(result, x.numbers.reshape((*x.shape, *[1] * behind)))
    return result


@operation(LAYERS, "F.layer_norm")
def layer_norm(
    call: Call, input: ForeignTensor, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5
) -> Any:
    shape = plain_sizes(normalized_shape, "normalized_shape")
    scale, shift = (None if x is None else x.numbers for x in (weight, bias))
    return F.layer_norm(input.numbers, shape, scale, shift, plain(eps, "eps"))


@operation(LAYERS, "F.rms_norm")
def rms_norm(call: Call, input: ForeignTensor, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:
    shape = plain_sizes(normalized_shape, "normalized_shape")
    return _scaled(lambda w, _: F.rms_norm(input.numbers, shape, w, plain(eps, "eps")), weight, None, behind=0)


@operation(LAYERS, "F.group_norm")
def group_norm(
    call: Call, input: ForeignTensor, num_groups: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5
) -> Any:
    groups = plain(num_groups, "num_groups")
    return _scaled(
        lambda w, b: F.group_norm(input.numbers, groups, w, b, plain(eps, "eps")), weight, bias, behind=input.rank - 2
    )


@operation(LAYERS, "F.batch_norm")
def batch_norm(
    call: Call, input: ForeignTensor, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
    training: Any = False, momentum: Any = 0.1, eps: Any = 1e-5,
) -> Any:  # fmt: skip
    if running_mean is not None and training != ByMode(False, True):
        raise Misfit(f"training={training!r} does not follow the mode. Pass training=self.training")
    if running_mean is None and training is not True:
        raise Misfit("without running statistics a batch norm must have training=True")
    mean, variance = held_parameter(running_mean), held_parameter(running_var)
    options = {"momentum": plain(momentum, "momentum"), "eps": plain(eps, "eps")}
    return _scaled(
        lambda w, b: F.batch_norm(input.numbers, mean, variance, w, b, **options), weight, bias, behind=input.rank - 2
    )


@operation(LAYERS, "F.instance_norm")
def instance_norm(
    call: Call, input: ForeignTensor, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None,
    use_input_stats: Any = True, momentum: Any = 0.1, eps: Any = 1e-5,
) -> Any:  # fmt: skip
    refuse_unless("use_input_stats", use_input_stats, True)
    refuse_unless("running_mean", running_mean, None)
    return _scaled(
        lambda w, b: F.instance_norm(input.numbers, None, None, w, b, eps=plain(eps, "eps")), weight, bias,
        behind=input.rank - 2,
    )  # fmt: skip


add(LAYERS, "F.local_response_norm", adapted(F.local_response_norm))


# Lookups.


@operation(LAYERS, "F.embedding")
def embedding(
    call: Call, input: ForeignTensor, weight: ForeignTensor, padding_idx: Any = None, max_norm: Any = None, norm_type: Any = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Any:  # fmt: skip
    refuse_unless("max_norm", max_norm, None)
    refuse_unless("scale_grad_by_freq", scale_grad_by_freq, False)
    row = None if padding_idx is None else plain(padding_idx, "padding_idx") % weight.shape[0]
    if not isinstance(weight.held, (Parameter, np.ndarray)):  # computed
        rows = F.index_select(weight.numbers, 0, whole(input).reshape((input.value.count,)))
        rows = rows.reshape((*input.shape, *weight.shape[1:]))
        return rows if row is None else F.where(F.unsqueeze(F.eq(whole(input), row), -1), F.detach(rows), rows)
    return looked_up(whole(input), held_parameter(weight), row)


def looked_up(index: Tensor, table: Any, padding_row: int | None) -> Tensor:
    """Rows of a table, where that of the padding gets no gradient; in ``nn.Embedding`` here it also reads as zeros."""
    rows: Tensor = F.embedding(index, table)
    if padding_row is None or rows.graph.own_mode is False:
        return rows
    chosen: Tensor = F.where(F.unsqueeze(F.eq(index, padding_row), -1), F.detach(rows), rows)
    return chosen


@operation(LAYERS, "F.one_hot")
def one_hot(call: Call, tensor: ForeignTensor, num_classes: Any = -1) -> Any:
    return F.one_hot(whole(tensor), call.shape[-1])


# Dropout.


def _rate(p: Any, training: Any) -> float:
    """The rate of a dropout that follows the mode, or 0 for one that is off."""
    if training is False:
        return 0.0
    if training != ByMode(False, True):
        raise Misfit(f"a dropout with training={training!r} acts in evaluation too. Pass training=self.training")
    return float(plain(p.training if isinstance(p, ByMode) else p, "p"))


@operation(LAYERS, "F.dropout", "dropout", "F.dropout1d", "F.dropout2d")
def dropout(
    call: Call, input: ForeignTensor, p: Any = 0.5, training: Any = True, inplace: bool = False, **named: Any
) -> Any:
    rate = _rate(p, named.pop("train", training))
    if not rate:
        return input
    if call.name in ("F.dropout1d", "F.dropout2d"):
        from ....nn.layers import Dropout1d, Dropout2d

        layer = Dropout1d(rate) if call.name == "F.dropout1d" else Dropout2d(rate)
        return layer.forward(input.numbers)
    return F.dropout(input.numbers, rate)


# Packed sequences: the samples, and the lengths of which each takes part.


@operation(LAYERS, "_pack_padded_sequence")
def pack(call: Call, input: ForeignTensor, lengths: ForeignTensor, batch_first: bool) -> Any:
    return (input.numbers if batch_first else F.transpose(input.numbers, 0, 1)), lengths.elements


@operation(LAYERS, "_pad_packed_sequence")
def unpack(
    call: Call, data: ForeignTensor, lengths: ForeignTensor, batch_first: bool, padding_value: float, total_length: int
) -> Any:
    known = F.lt(F.arange(total_length), F.unsqueeze(lengths.elements, 1))
    y = F.where(F.unsqueeze(known, -1), data.numbers, float(padding_value))
    return (y if batch_first else F.transpose(y, 0, 1)), lengths.elements


# Losses.


def _loss(function: Any) -> Any:
    def handler(
        call: Call, input: ForeignTensor, target: ForeignTensor, weight: Any = None, size_average: Any = None, *,
        reduce: Any = None, reduction: str = "mean", **named: Any,
    ) -> Any:  # fmt: skip
        refuse_unless("size_average", size_average, None)
        refuse_unless("reduce", reduce, None)
        if weight is not None:
            named["weight"] = weight
        chosen = {
            name: held_parameter(value) if isinstance(value, ForeignTensor) else plain(value, name)
            for name, value in named.items()
        }
        of_classes = function in (F.cross_entropy, F.nll_loss, F.multilabel_margin_loss)
        aim = target.elements if of_classes else target.numbers
        return function(input.numbers, aim, reduction=reduction, **chosen)

    return handler


for _name in (
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "kl_div", "cross_entropy", "nll_loss", "hinge_embedding_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss",
):  # fmt: skip
    add(LOSSES, f"F.{_name}", _loss(getattr(F, _name)))

add(LOSSES, "F.cosine_embedding_loss", adapted(F.cosine_embedding_loss, size_average=None, reduce=None))


# Random numbers.


def _drawn(call: Call, *, normal: bool) -> Tensor:
    """Random numbers in the shape of the result."""
    graph = current_graph()
    assert graph is not None
    return graph.append(RandomNumbers(graph, call.shape, normal=normal))


def _refuse_generator(generator: Any) -> None:
    if generator is not None:
        raise Misfit("a generator of PyTorch has no counterpart here")


@operation(RANDOM, "randn_like", "rand_like", "randn", "rand")
def random_numbers(call: Call, *given: Any, generator: Any = None, **named: Any) -> Any:
    _refuse_generator(generator)
    dtype = named.get("dtype")
    if isinstance(dtype, Kind) and "float" not in dtype.name:
        raise Misfit(f"random numbers of type {dtype.name} have no counterpart here")
    return _drawn(call, normal=call.name.startswith("randn"))


@operation(RANDOM, "bernoulli_")
def bernoulli(call: Call, p: Any = 0.5, *, generator: Any = None) -> Any:
    _refuse_generator(generator)
    return F.lt(_drawn(call, normal=False), np.float32(plain(p, "p")))


@operation(RANDOM, "bernoulli")
def bernoulli_of(call: Call, input: ForeignTensor, p: Any = None, *, generator: Any = None) -> Any:
    _refuse_generator(generator)
    return F.bernoulli(input.numbers) if p is None else bernoulli(call, p)


@operation(RANDOM, "randint", "randint_like")
def random_whole_numbers(
    call: Call, *given: Any, low: Any = 0, high: Any = None, generator: Any = None, **named: Any
) -> Any:
    _refuse_generator(generator)
    ends = [plain(n, "an end") for n in given if not isinstance(n, (ForeignTensor, tuple, list))]
    first, end = ends if len(ends) > 1 else (plain(low, "low"), ends[0] if ends else plain(high, "high"))
    drawn = F.floor(F.add(F.mul(_drawn(call, normal=False), end - first), first))
    return F.minimum(drawn, float(end - 1)) if call.kinds[0] == "f" else F.minimum(drawn, float(end - 1)).long()


@operation(RANDOM, "randperm")
def randperm(call: Call, n: Any, *, generator: Any = None, **named: Any) -> Any:
    _refuse_generator(generator)
    return F.randperm(call.shape[0])


@operation(RANDOM, "uniform_")
def uniform(call: Call, low: Any = 0.0, high: Any = 1.0, *, generator: Any = None, **named: Any) -> Any:
    _refuse_generator(generator)
    first, last = plain(named.get("from", low), "from"), plain(named.get("to", high), "to")
    return F.add(F.mul(_drawn(call, normal=False), last - first), first)


@operation(RANDOM, "exponential_")
def exponential(call: Call, lambd: Any = 1.0, *, generator: Any = None) -> Any:
    _refuse_generator(generator)
    return F.div(F.log(F.sub(1.0, _drawn(call, normal=False))), -plain(lambd, "lambd"))


@operation(RANDOM, "normal_")
def normal(call: Call, mean: Any = 0.0, std: Any = 1.0, *, generator: Any = None) -> Any:
    _refuse_generator(generator)
    return F.add(F.mul(_drawn(call, normal=True), plain(std, "std")), plain(mean, "mean"))


def by_mode(call: Call, training: ForeignTensor, evaluation: ForeignTensor) -> Any:
    """A result that a module computes in one way in training and in another in evaluation."""
    first, second = training.numbers, evaluation.numbers
    mode = first.graph.own_mode
    if mode is not None:
        return first if mode else second
    return first.graph.append(Choice(first, second))


FUNCTIONS[BY_MODE] = by_mode
