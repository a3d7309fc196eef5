"""Convolutions, poolings, normalizations, lookups, dropout and losses as functions."""

from __future__ import annotations

import inspect
from typing import Any, TypeAlias

import numpy as np

from ....graph import functions as F
from ....graph.graph import current_graph
from ....graph.operations import Choice, RandomNumbers
from ....graph.parameter import Parameter
from ....graph.sizes import Size
from ....graph.tensor import Tensor
from ...converted.sampling import sampled_at
from ...converted.tensors import ForeignTensor, Misfit, held_parameter, optional_numbers
from .._recording import Kind
from .._steps import BY_MODE, ByMode
from ._registry import FUNCTIONS, Call, adapted, add, exact, operation, plain, refuse_unless, whole

Weight: TypeAlias = ForeignTensor | None

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


# Windows: functions here with PyTorch's names and arguments.


def of_samples(input: ForeignTensor, rank: int, function: Any) -> Any:
    """The results of a function of samples, with an axis of one sample in front where the input is a single one."""
    if input.rank != rank - 1:
        return function(input.numbers)
    results = function(F.unsqueeze(input.numbers, 0))
    return tuple(F.squeeze(y, 0) for y in results) if isinstance(results, tuple) else F.squeeze(results, 0)


def _windows(function: Any, **fixed: Any) -> Any:
    """``fixed`` are arguments that PyTorch says by the name of the function."""
    axes = next((int(n) for n in "123" if function.__name__.endswith(f"{n}d")), -2)
    names = list(inspect.signature(function).parameters)[1:]

    def handler(call: Call, input: ForeignTensor, *options: Any, **named: Any) -> Any:
        chosen = {**dict(zip(names, options, strict=len(options) > len(names))), **named, **fixed}
        if not chosen.get("stride", 1):  # PyTorch's functions in C take [] for None
            del chosen["stride"]
        taken = {name: _argument(given, name) for name, given in chosen.items()}
        return of_samples(input, axes + 2, lambda x: function(x, **taken))

    return handler


def _argument(given: Any, name: str) -> Any:
    """A weight, or sizes: a number in place of a tuple of one."""
    if isinstance(given, ForeignTensor) and given.rank:
        return given.value if name == "indices" else given.numbers
    sizes = plain_sizes(given, name)
    return sizes[0] if isinstance(sizes, tuple) and len(sizes) == 1 else sizes


for _axes in ("1d", "2d", "3d"):
    for _name in ("conv", "conv_transpose", "max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool"):
        add(LAYERS, f"F.{_name}{_axes}", _windows(getattr(F, f"{_name}{_axes}")))
    add(LAYERS, f"max_pool{_axes}", _windows(getattr(F, f"max_pool{_axes}")))
for _axes in ("1d", "2d"):
    for _name in ("lp_pool", "max_unpool"):
        add(LAYERS, f"F.{_name}{_axes}", _windows(getattr(F, f"{_name}{_axes}")))
    for _name in ("max_pool", "adaptive_max_pool"):
        add(LAYERS, f"F.{_name}{_axes}_with_indices", _windows(getattr(F, f"{_name}{_axes}"), return_indices=True))


@operation(LAYERS, "F.pad", "constant_pad_nd")
def pad(call: Call, input: ForeignTensor, pad: Any, mode: Any = "constant", value: Any = None) -> Any:
    if call.name == "constant_pad_nd":
        mode, value = "constant", mode if value is None else value
    widths = [int(plain(n, "pad")) for n in pad]
    filling = None if value is None else plain(value, "value")
    return F.pad(
        exact(call, input), widths, mode, int(filling) if filling is not None and call.kinds[0] == "i" else filling
    )


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


for _name in ("pixel_shuffle", "pixel_unshuffle", "channel_shuffle"):
    add(LAYERS, f"F.{_name}", _windows(getattr(F, _name)))


for _name in ("unfold", "fold"):
    add(LAYERS, f"F.{_name}", adapted(getattr(F, _name)))


# Normalizations.


@operation(LAYERS, "F.layer_norm")
def layer_norm(
    call: Call, input: ForeignTensor, normalized_shape: Any, weight: Weight = None, bias: Weight = None, eps: Any = 1e-5
) -> Any:
    shape = plain_sizes(normalized_shape, "normalized_shape")
    return F.layer_norm(input.numbers, shape, optional_numbers(weight), optional_numbers(bias), plain(eps, "eps"))


@operation(LAYERS, "F.rms_norm")
def rms_norm(call: Call, input: ForeignTensor, normalized_shape: Any, weight: Weight = None, eps: Any = None) -> Any:
    shape = plain_sizes(normalized_shape, "normalized_shape")
    return F.rms_norm(input.numbers, shape, optional_numbers(weight), plain(eps, "eps"))


@operation(LAYERS, "F.group_norm")
def group_norm(
    call: Call, input: ForeignTensor, num_groups: Any, weight: Weight = None, bias: Weight = None, eps: Any = 1e-5
) -> Any:
    groups = plain(num_groups, "num_groups")
    return F.group_norm(input.numbers, groups, optional_numbers(weight), optional_numbers(bias), plain(eps, "eps"))


@operation(LAYERS, "F.batch_norm")
def batch_norm(
    call: Call, input: ForeignTensor, running_mean: Weight, running_var: Weight, weight: Weight = None, bias: Weight = None,
    training: Any = False, momentum: Any = 0.1, eps: Any = 1e-5,
) -> Any:  # fmt: skip
    if running_mean is not None and training != ByMode(False, True):
        raise Misfit(f"training={training!r} does not follow the mode. Pass training=self.training")
    if running_mean is None and training is not True:
        raise Misfit("without running statistics a batch norm must have training=True")
    mean, variance = held_parameter(running_mean), held_parameter(running_var)
    options = {"momentum": plain(momentum, "momentum"), "eps": plain(eps, "eps")}
    return F.batch_norm(input.numbers, mean, variance, optional_numbers(weight), optional_numbers(bias), **options)


@operation(LAYERS, "F.instance_norm")
def instance_norm(
    call: Call, input: ForeignTensor, running_mean: Weight = None, running_var: Weight = None, weight: Weight = None,
    bias: Weight = None, use_input_stats: Any = True, momentum: Any = 0.1, eps: Any = 1e-5,
) -> Any:  # fmt: skip
    refuse_unless("use_input_stats", use_input_stats, True)
    refuse_unless("running_mean", running_mean, None)
    scale, shift = optional_numbers(weight), optional_numbers(bias)
    return F.instance_norm(input.numbers, None, None, scale, shift, eps=plain(eps, "eps"))


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
