"""Functions of whole tensors: comparisons, positions, order, arrangements; against NumPy in float64 and finite differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from function_checks import Applied, check, listed, some
from openbnns import gradcheck, nn
from openbnns.nn import functional as F


def whole(*shape: int, end: int, seed: int = 5) -> Any:
    return np.random.default_rng(seed).integers(0, end, shape)


X, Y = some(3, 4, 5), some(3, 4, 5, seed=1)
POSITIVE = some(3, 4, 5, seed=2, low=0.3, high=2.0)
ROW = some(5, seed=3, low=0.4, high=1.2)
SQUARE = some(4, 5, 5, seed=4)
NOT_FINITE = np.float32([[1, np.nan, np.inf], [-np.inf, -2, 0], [0, 1, np.nan]])


# Comparisons and masks.

MASKS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "gt": (lambda x, y: x > y, lambda x, y: x > y),
    "ge": (lambda x, y: x >= 0.25, lambda x, y: x >= 0.25),
    "lt": (lambda x, y: 0.5 < x, lambda x, y: x > 0.5),  # noqa: SIM300
    "le": (lambda x, y: x <= ROW, lambda x, y: x <= ROW),
    "eq": (lambda x, y: x.round() == y.round(), lambda x, y: x.round() == y.round()),
    "ne": (lambda x, y: x.round() != 0, lambda x, y: x.round() != 0),
    "array on the left": (lambda x, y: np.greater(ROW, x), lambda x, y: x < ROW),
    "and": (lambda x, y: (x > 0) & (y > 0), lambda x, y: (x > 0) & (y > 0)),
    "or": (lambda x, y: (x > 0) | (y > 0), lambda x, y: (x > 0) | (y > 0)),
    "xor": (lambda x, y: (x > 0) ^ (y > 0), lambda x, y: (x > 0) ^ (y > 0)),
    "not": (lambda x, y: ~(x > 0), lambda x, y: ~(x > 0)),
    "logical_and": (lambda x, y: x.round().logical_and(y.round()), lambda x, y: np.logical_and(x.round(), y.round())),
    "logical_not": (lambda x, y: F.logical_not(x.round()), lambda x, y: x.round() == 0),
    "any": (lambda x, y: (x > 1.2).any(1), lambda x, y: (x > 1.2).any(1)),
    "all": (lambda x, y: (x > -1.2).all(dim=2, keepdim=True), lambda x, y: (x > -1.2).all(2, keepdims=True)),
    "any of all": (lambda x, y: F.any(x > 2), lambda x, y: (x > 2).any()),
    "bool": (lambda x, y: x.round().bool(), lambda x, y: x.round() != 0),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    body, oracle = MASKS[name]
    check(body, lambda x, y: oracle(x, y).astype(np.float64), [X, Y], gradients=False)


def test_masks_of_what_is_not_finite() -> None:
    for name in ("isnan", "isinf", "isfinite"):
        check(getattr(F, name), getattr(np, name), [NOT_FINITE], gradients=False)
    check(
        lambda x: x.nan_to_num(nan=7, neginf=-1), lambda x: np.nan_to_num(x, nan=7, posinf=np.finfo(np.float32).max, neginf=-1),
        [NOT_FINITE], gradients=False,
    )  # fmt: skip


CHOSEN: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "where": (lambda x, y: F.where(x > 0, x * y, 0.0), lambda x, y: np.where(x > 0, x * y, 0)),
    "where of two conditions": (
        lambda x, y: F.where((x > 0) & ~(y > 0), x, y * y),
        lambda x, y: np.where((x > 0) & ~(y > 0), x, y * y),
    ),
    "masked_fill": (lambda x, y: (x * y).masked_fill(x < y, 3.0), lambda x, y: np.where(x < y, 3, x * y)),
    "times a mask": (lambda x, y: (x > y) * x * 2 + (1 - (x > y)) * y, lambda x, y: np.where(x > y, x * 2, y)),
    "method": (lambda x, y: x.where(y > 0, y), lambda x, y: np.where(y > 0, x, y)),
    "mask in float": (lambda x, y: (y > 0).float().sum(2) * x.sum(2), lambda x, y: (y > 0).sum(2) * x.sum(2)),
    "softmax of a part": (
        lambda x, y: x.masked_fill(y > 1, -np.inf).softmax(-1) * y,
        lambda x, y: _softmax(np.where(y > 1, -np.inf, x)) * y,
    ),
    "nan_to_num": (lambda x, y: F.nan_to_num(x * y), lambda x, y: x * y),
}


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("name", CHOSEN)
def test_choices_by_computed_conditions(name: str) -> None:
    body, oracle = CHOSEN[name]
    check(body, oracle, [X, Y])


def test_no_gradient_goes_through_a_mask() -> None:
    net = Applied(lambda x: (x > 0) * 3.0 + x * 0)
    net(X)
    assert not net.backward(np.ones_like(X)).any()


def test_values_are_told_apart_by_identity() -> None:
    """``==`` compares numbers, so a value is looked for with ``is``, a set or a dictionary."""
    seen: dict[str, Any] = {}

    def body(x: nn.Value) -> Any:
        y = x * 2
        seen.update(in_set=(x in {x, y}, x in {y}), looked_up={x: 1}[x], none=(x == None, x != None, x == "x"))  # noqa: E711
        with pytest.raises(TypeError, match="cannot branch on numbers"):
            bool(x == y)
        return (x == y) + (x != y)

    np.testing.assert_array_equal(Applied(body)(X), np.ones_like(X))
    assert seen == {"in_set": (True, False), "looked_up": 1, "none": (False, True, False)}
    p = nn.Parameter(ROW)
    assert (p == p) is True and (p == nn.Parameter(ROW)) is False and (p == ROW).all() and (p != 0).all()
    assert p in [nn.Parameter(ROW), p] and len({p, p}) == 1 and p != None  # noqa: E711


def test_parameters_are_compared_in_forward() -> None:
    check(
        lambda x, p: F.where(p > 0.7, x * p, x) + (p == p * 1.0) + (x * 0 == p * 0),
        lambda x, p: np.where(p > 0.7, x * p, x) + 2,
        [X], [ROW],
    )  # fmt: skip


# Elementwise functions.

erfc = np.vectorize(math.erfc)
ELEMENTWISE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "remainder": (lambda x, y: x % (y + 2), lambda x, y: np.remainder(x, y + 2)),
    "remainder of a number": (lambda x, y: x % 0.7 + 2 % (y + 2), lambda x, y: np.remainder(x, 0.7) + np.remainder(2, y + 2)),
    "fmod": (lambda x, y: F.fmod(x, y + 2), lambda x, y: np.fmod(x, y + 2)),
    "frac": (lambda x, y: F.frac(x * 3) * y, lambda x, y: (x * 3 - np.trunc(x * 3)) * y),
    "log1p": (lambda x, y: F.log1p(x * 0.5), lambda x, y: np.log1p(x * 0.5)),
    "expm1": (lambda x, y: x.expm1(), lambda x, y: np.expm1(x)),
    "log10": (lambda x, y: np.log10(x + 2), lambda x, y: np.log10(x + 2)),
    "erfc": (lambda x, y: F.erfc(x), lambda x, y: erfc(x)),
    "sinc": (lambda x, y: F.sinc(x), lambda x, y: np.sinc(x)),
    "atan2": (lambda x, y: F.atan2(x, y), lambda x, y: np.arctan2(x, y)),
    "hypot": (lambda x, y: x.hypot(y), lambda x, y: np.hypot(x, y)),
    "hypot with a row": (lambda x, y: F.hypot(x, ROW), lambda x, y: np.hypot(x, ROW)),
    "logaddexp": (lambda x, y: F.logaddexp(x, y[:, :1]), lambda x, y: np.logaddexp(x, y[:, :1])),
    "clamp_min": (lambda x, y: x.clamp_min(0.1) * y, lambda x, y: np.maximum(x, 0.1) * y),
    "clamp_max": (lambda x, y: F.clamp_max(x, 0.1) * y, lambda x, y: np.minimum(x, 0.1) * y),
    "floor_divide": (lambda x, y: x // 0.4 * y, lambda x, y: np.floor_divide(x, 0.4) * y),
    "trunc": (lambda x, y: (x * 3).trunc() * y, lambda x, y: np.trunc(x * 3) * y),
}  # fmt: skip


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name: str) -> None:
    body, oracle = ELEMENTWISE[name]
    check(body, oracle, [X, Y])


def test_sinc_at_zero() -> None:
    gradcheck(F.sinc, np.float32([[0, 0.5, 1e-3]]))
    assert F.sinc(np.zeros((1, 2), np.float32)).tolist() == [[1, 1]]


def test_erfc_where_erf_is_one() -> None:
    assert F.erfc(np.float32([5])) == pytest.approx(math.erfc(5), rel=1e-5)


# Positions and order.

ALONG: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "cumsum": (lambda x, axis: x.cumsum(axis), np.cumsum),
    "cumprod": (lambda x, axis: F.cumprod(x, axis), np.cumprod),
    "sort": (lambda x, axis: F.sort(x, axis).values, np.sort),
    "sorted down": (lambda x, axis: x.sort(axis, descending=True)[0], lambda x, a: -np.sort(-x, a)),
    "largest": (lambda x, axis: x.topk(2, axis).values, lambda x, a: -np.sort(-x, a).take([0, 1], a)),
    "smallest": (lambda x, axis: F.topk(x, 2, axis, largest=False)[0], lambda x, a: np.sort(x, a).take([0, 1], a)),
    "flip": (lambda x, axis: x.flip(axis), np.flip),
    "diff": (lambda x, axis: x.diff(dim=axis), lambda x, a: np.diff(x, axis=a)),
    "roll": (lambda x, axis: x.roll(1, axis), lambda x, a: np.roll(x, 1, a)),
    "roll back": (lambda x, axis: x.roll(-1, axis), lambda x, a: np.roll(x, -1, a)),
    "repeat_interleave": (lambda x, axis: x.repeat_interleave(3, axis), lambda x, a: np.repeat(x, 3, a)),
    "movedim": (lambda x, axis: F.movedim(x, axis, 1), lambda x, a: np.moveaxis(x, a, 1)),
}


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", ALONG)
def test_along_every_axis(name: str, axis: int) -> None:
    body, oracle = ALONG[name]
    check(lambda x: body(x, axis), lambda x: oracle(x, axis), [X])


def test_products_with_zeros_have_gradients() -> None:
    x = X.copy()
    x[:, 1, 2] = x[1, 3] = x[1, 0] = 0
    gradcheck(lambda x: F.cumprod(x, 1), x)
    gradcheck(lambda x: F.cumprod(x, 0), x)


def test_equal_elements_and_nan_in_order() -> None:
    x = np.float32([[2, 1, np.nan, 2, 1]])
    values, places = F.sort(x, descending=True)
    assert places.tolist() == [[2, 0, 3, 1, 4]]
    np.testing.assert_array_equal(values, [[np.nan, 2, 2, 1, 1]])
    assert F.argsort(x).tolist() == [[1, 4, 0, 3, 2]] and F.argsort(x).dtype == np.int64
    assert F.topk(x, 2).indices.tolist() == [[2, 0]]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather_and_scatter(axis: int) -> None:
    places = whole(3, 4, 5, end=X.shape[axis])
    part = places[:, :3, :2]
    check(lambda x, i: x.gather(axis, i), lambda x, i: np.take_along_axis(x, i, axis), [X, places], free=axis > 0)
    expected = np.take_along_axis(X, places, axis)[:, :3, :2]
    np.testing.assert_array_equal(F.gather(X, axis, part), expected)
    gradcheck(lambda x: F.gather(x, axis, part), X)

    def added(x: Any, i: Any, source: Any) -> Any:
        y = x.copy()
        index = [*np.ogrid[: i.shape[0], : i.shape[1], : i.shape[2]]]
        index[axis] = i
        np.add.at(y, tuple(index), source)
        return y

    check(lambda x, i, s: x.scatter_add(axis, i, s), added, [X, places, Y], free=axis > 0)

    def put(x: Any, i: Any, source: Any) -> Any:
        y = x.copy()
        index = [*np.ogrid[: i.shape[0], : i.shape[1], : i.shape[2]]]
        index[axis] = i
        y[tuple(index)] = source
        return y

    check(lambda x, i, s: F.scatter(x, axis, i, s), put, [X, places, Y], free=axis > 0)
    check(lambda x, i: F.scatter(x, axis, i, 2.5), lambda x, i: put(x, i, 2.5), [X, places], free=axis > 0)
    gradcheck(lambda x, s: F.scatter_add(x, axis, part, s), X, Y)
    gradcheck(lambda x, s: F.scatter(x, axis, part, s), X, Y)


def test_take_along_dim_repeats_axes() -> None:
    best = X.argmax(1, keepdims=True)
    check(
        lambda x: F.take_along_dim(x, x.argmax(1, keepdim=True), 1),
        lambda x: np.take_along_axis(x, best[: len(x)], 1),
        [X],
    )
    first = np.array([[[2], [0]]])
    check(lambda x: F.take_along_dim(x, first, 1), lambda x: np.take_along_axis(x, first, 1), [X])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_index_add(axis: int) -> None:
    places, source = np.array([0, 2, 0]), some(*(3 if a == axis else n for a, n in enumerate(X.shape)), seed=8)

    def added(x: Any, s: Any) -> Any:
        y = np.moveaxis(x, axis, 0).copy()
        np.add.at(y, places, 0.5 * np.moveaxis(s, axis, 0))
        return np.moveaxis(y, 0, axis)

    check(lambda x, s: x.index_add(axis, places, s, alpha=0.5), added, [X, source], free=False)


INDEXED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "rows": (lambda x, i: x[i[:, 0]], lambda x, i: x[i[:, 0]]),
    "columns": (lambda x, i: x[:, i[0]], lambda x, i: x[:, i[0]]),
    "matrix of numbers": (lambda x, i: x[:, i], lambda x, i: x[:, i]),
    "one of each row": (
        lambda x, i: x[F.arange(x.shape[0]), i[:, 0]], lambda x, i: x[np.arange(len(x)), i[:, 0]]
    ),
    "two axes behind": (lambda x, i: x[:, i[:, 0], i[:, 1]], lambda x, i: x[:, i[:, 0], i[:, 1]]),
    "where the largest is": (
        lambda x, i: x[F.arange(x.shape[0]), x[:, :, 0].argmax(1)],
        lambda x, i: x[np.arange(len(x)), x[:, :, 0].argmax(1)],
    ),
    "index_select": (lambda x, i: x.index_select(2, i[0]), lambda x, i: x[:, :, i[0]]),
    "in order": (lambda x, i: x[x[:, 0, 0].argsort()], lambda x, i: x[x[:, 0, 0].argsort(kind="stable")]),
}  # fmt: skip


@pytest.mark.parametrize("name", INDEXED)
def test_indices_that_are_values(name: str) -> None:
    body, oracle = INDEXED[name]
    check(body, oracle, [X, whole(3, 2, end=2)])


def test_numbers_made_whole_and_negative_ones() -> None:
    i = whole(3, 2, end=3)
    check(lambda x, i: x[:, (i - 4.0).long()], lambda x, i: x[:, i - 4], [X, i])
    check(lambda x, i: x[:, (i * 1.5).int()], lambda x, i: x[:, (i * 1.5).astype(int)], [X, i])


@pytest.mark.parametrize("first", ["compared", "computed", "cut", "looked up"])
def test_integers_that_are_compared_computed_with_and_looked_up(first: str) -> None:
    table = some(9, 3)
    ids = whole(4, 6, end=9)

    def body(i: nn.Value, p: Any) -> Any:
        if first == "looked up":
            F.embedding(i, p)
        if first == "compared":
            mask = i != 3
        if first == "computed":
            total = i * 0.5
        if first == "cut":
            part = i[:, 1:]
        part = i[:, 1:] if first != "cut" else part
        y = F.embedding(part, p) + F.embedding(i[:, :-1], p)
        mask = (i != 3) if first != "compared" else mask
        total = i * 0.5 if first != "computed" else total
        return y * mask[:, 1:, None] + total[:, 1:, None]

    def oracle(i: Any, p: Any) -> Any:
        return (p[i[:, 1:]] + p[i[:, :-1]]) * (i != 3)[:, 1:, None] + 0.5 * i[:, 1:, None]

    net = Applied(body, [table]).eval()
    for some_ids in (ids, ids[:2]):
        np.testing.assert_allclose(net(some_ids), oracle(some_ids, table), rtol=1e-5)
    assert len(net._recordings) == 1
    big = np.array([[2**24 + 1, 2**24]])
    exact = Applied(lambda i: (i == 2**24 + 1) + 0 * i.as_indices("test"))
    np.testing.assert_array_equal(exact(big), [[1, 0]])


# Arrangements.

ARRANGED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "several rolls": (lambda x: x.roll((1, -2), (1, 2)), lambda x: np.roll(x, (1, -2), (1, 2))),
    "roll of all": (lambda x: F.roll(x, 7), lambda x: np.roll(x, 7)),
    "roll by more than all": (lambda x: x.roll(13, 2), lambda x: np.roll(x, 13, 2)),
    "several flips": (lambda x: x.flip(0, 2), lambda x: np.flip(x, (0, 2))),
    "rot90": (lambda x: F.rot90(x, 1, (1, 2)), lambda x: np.rot90(x, 1, (1, 2))),
    "rot90 back": (lambda x: x.rot90(-1, (0, 2)), lambda x: np.rot90(x, -1, (0, 2))),
    "rot90 twice": (lambda x: x.rot90(2, (2, 1)), lambda x: np.rot90(x, 2, (2, 1))),
    "movedim of two": (lambda x: x.movedim((0, 2), (1, 0)), lambda x: np.moveaxis(x, (0, 2), (1, 0))),
    "swapdims": (lambda x: x.swapdims(0, 2), lambda x: np.swapaxes(x, 0, 2)),
    "repeats one by one": (lambda x: x.repeat_interleave([1, 0, 2, 3, 1], 2), lambda x: np.repeat(x, [1, 0, 2, 3, 1], 2)),
    "repeats of all": (lambda x: x.repeat_interleave(2), lambda x: np.repeat(x, 2)),
    "tensor_split": (lambda x: F.tensor_split(x, 3, 2), lambda x: np.array_split(x, 3, 2)),
    "tensor_split at places": (lambda x: x.tensor_split([1, -1], 1), lambda x: np.split(x, [1, 3], 1)),
    "unbind": (lambda x: x.unbind(1), lambda x: [x[:, i] for i in range(4)]),
    "diagonal": (lambda x: x.diagonal(1, 1, 2), lambda x: np.diagonal(x, 1, 1, 2)),
    "diagonal below": (lambda x: F.diagonal(x, -2, 1, 2), lambda x: np.diagonal(x, -2, 1, 2)),
    "diag_embed": (lambda x: F.diag_embed(x), lambda x: x[..., None] * np.eye(5)),
    "diag_embed beside": (lambda x: x[0].diag_embed(-2), lambda x: np.stack([np.diag(r, -2) for r in x[0]])),
    "diag_embed elsewhere": (
        lambda x: x.diag_embed(1, 0, 2),
        lambda x: np.moveaxis(
            np.pad(x[..., None] * np.eye(5), ((0, 0), (0, 0), (0, 1), (1, 0))), (-2, -1), (0, 2)
        ),
    ),
    "diff twice": (lambda x: x.diff(2, 1), lambda x: np.diff(x, 2, 1)),
    "diff with more": (lambda x: F.diff(x, prepend=x[..., :1]), lambda x: np.diff(x, prepend=x[..., :1])),
    "cross": (lambda x: F.cross(x[:, :3], x[:, 1:], 1), lambda x: np.cross(x[:, :3], x[:, 1:], axis=1)),
    "windows": (lambda x: x.unfold(2, 3, 2), lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, 2)[:, :, ::2]),
    "cdist": (lambda x: F.cdist(x, x[:, 1:]), lambda x: np.sqrt(((x[:, :, None] - x[:, None, 1:]) ** 2).sum(-1) + 1e-30)),
    "cdist 1": (lambda x: F.cdist(x, x * 2 + 1, p=1), lambda x: np.abs(x[:, :, None] - (x * 2 + 1)[:, None]).sum(-1)),
    "tril": (lambda x: x.tril(-1), lambda x: np.tril(x, -1)),
    "triu": (lambda x: x.triu(1), lambda x: np.triu(x, 1)),
    "trace": (lambda x: x[0].trace(), lambda x: np.trace(x[0])),
}  # fmt: skip


@pytest.mark.parametrize("name", ARRANGED)
def test_arrangements(name: str) -> None:
    body, oracle = ARRANGED[name]
    numbers = "cdist" not in name  # whose distances of a row to itself have a kink
    check(body, oracle, [X], gradients=numbers)


def test_distances_have_gradients() -> None:
    gradcheck(lambda a, b: F.cdist(a, b), X, some(3, 2, 5, seed=7))


ACROSS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "similarities": (lambda z: (z @ z.T).diagonal(), lambda z: np.diagonal(z @ z.T)),
    "without its own": (lambda z: (z @ z.T).tril(-1), lambda z: np.tril(z @ z.T, -1)),
    "above": (lambda z: (z @ z.T).triu(), lambda z: np.triu(z @ z.T)),
    "neighbours": (lambda z: z[1:] - z[:-1], lambda z: z[1:] - z[:-1]),
    "trace": (lambda z: F.trace(z @ z.T), lambda z: np.trace(z @ z.T)),
    "scatter matrix": (lambda z: F.diag_embed(z.sum(1)), lambda z: np.diag(z.sum(1))),
    "positions": (lambda z: z * F.arange(z.shape[0])[:, None], lambda z: z * np.arange(len(z))[:, None]),
    "backwards": (lambda z: z * F.arange(z.shape[0], 0, -1)[:, None], lambda z: z * np.arange(len(z), 0, -1)[:, None]),
    "contrast": (
        lambda z: F.where(F.eq(F.arange(z.shape[0])[:, None], F.arange(z.shape[0])), -np.inf, z @ z.T).logsumexp(1),
        lambda z: np.log(np.exp(np.where(np.eye(len(z)), -np.inf, z @ z.T)).sum(1)),
    ),
    "zeros": (lambda z: z + F.zeros(z.shape[0], 1) + F.full(z.shape, 2.0), lambda z: z + 2),
    "ones": (lambda z: z * F.ones_like(z) + F.full_like(z, 3) + z.new_ones(z.shape[0], 5), lambda z: z + 4),
    "mean by hand": (lambda z: z.sum(0) / z.shape[0], lambda z: z.mean(0)),
    "grid": (
        lambda z: sum(a * z[:, 1, None] for a in F.meshgrid(z[:, 0], z[0])),
        lambda z: (z[:, :1] + z[0]) * z[:, 1, None],
    ),
}


@pytest.mark.parametrize("name", ACROSS)
def test_across_the_batch(name: str) -> None:
    body, oracle = ACROSS[name]
    check(body, oracle, [some(4, 5)])


def im2col(x: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    x = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(x.shape[2:], kernel, dilation, stride, strict=True)]
    columns = [
        x[:, :, a * dilation[0] :: stride[0], b * dilation[1] :: stride[1]][:, :, : counts[0], : counts[1]]
        for a in range(kernel[0])
        for b in range(kernel[1])
    ]
    return np.stack(columns, 2).reshape(len(x), x.shape[1] * kernel[0] * kernel[1], -1)


@pytest.mark.parametrize(
    "window", [((2, 3), (1, 1), (0, 0), (1, 1)), ((3, 2), (1, 2), (1, 2), (2, 1)), ((1, 1), (3, 1), (0, 1), (3, 2))]
)
def test_unfold_and_fold(window: Any) -> None:
    x = some(3, 2, 5, 7)
    check(lambda x: F.unfold(x, *window), lambda x: im2col(x, *window), [x], at_once=True)
    columns = F.unfold(x, *window)
    v = some(*columns.shape, seed=3)
    back = F.fold(v, (5, 7), *window)
    assert back.shape == x.shape
    assert float((columns * v).sum()) == pytest.approx(float((x * back).sum()), rel=1e-4)  # which makes it the adjoint
    check(lambda v: F.fold(v, (5, 7), *window), None, [v], at_once=True)


# Random numbers.


def test_random_numbers_are_drawn_anew() -> None:
    net = Applied(lambda x: x + F.randn_like(x)).eval()
    first, second = net(X), net(X)
    assert not np.array_equal(first, second)
    assert not np.array_equal(F.rand(3, 4), F.rand(3, 4)) and F.rand(3, 4).shape == (3, 4)
    nn.manual_seed(3)
    one = F.randn(5)
    nn.manual_seed(3)
    np.testing.assert_array_equal(F.randn(5), one)
    many = F.randn(50_000)
    assert abs(float(many.mean())) < 0.02 and float(many.std()) == pytest.approx(1, abs=0.02)
    flat = F.rand_like(many)
    assert flat.min() >= 0 and flat.max() < 1 and float(flat.mean()) == pytest.approx(0.5, abs=0.01)
    assert float(F.bernoulli(np.full(50_000, 0.3, np.float32)).mean()) == pytest.approx(0.3, abs=0.01)
    assert sorted(F.randperm(9).tolist()) == list(range(9))


def test_random_numbers_follow_the_seed_of_a_trainer() -> None:
    def trained() -> Any:
        net = Applied(lambda x, p: x * p + F.randn(x.shape[0], 1) * F.rand_like(x), [ROW])
        nn.Trainer(net, nn.MSELoss(), nn.SGD(0.1), seed=3, quiet=True).fit(some(8, 5), some(8, 5, seed=2), epochs=2)
        return net.p0.data.copy()

    np.testing.assert_array_equal(trained(), trained())


def test_mixup_in_forward() -> None:
    """The samples in another order, which every pass draws."""
    net = Applied(lambda x: x[F.randperm(x.shape[0])]).eval()
    x = some(7, 3)
    for part in (x, x[:4], x):
        y = net(part)
        np.testing.assert_array_equal(np.sort(y, 0), np.sort(part, 0))
    assert len(net._recordings) == 1
    gradcheck(lambda x: 0.3 * x + 0.7 * x[F.randperm(x.shape[0])], x)


# Fourier transforms.


def pairs(z: Any) -> Any:
    return np.stack([z.real, z.imag], -1)


def joined(x: Any) -> Any:
    return x[..., 0] + 1j * x[..., 1]


@pytest.mark.parametrize(
    ("axis", "n", "norm"),
    [(0, None, None), (0, 6, "forward"), (1, 3, "ortho"), (-1, 8, "forward"), (1, None, "backward"), (-1, 3, None)],
)
def test_fourier_transforms(axis: int, n: int | None, norm: Any) -> None:
    z, at_once = some(4, 5, 3, 2), norm is None
    check(lambda x: F.rfft(x, n, axis, norm), lambda x: pairs(np.fft.rfft(x, n, axis, norm)), [X])
    for name in ("fft", "ifft", "irfft"):
        ours = partial(getattr(F, name), n=n, dim=axis, norm=norm)
        theirs = partial(getattr(np.fft, name), n=n, axis=axis, norm=norm)
        check(ours, partial(_transformed, theirs, name), [z], at_once=at_once)


def _transformed(theirs: Any, name: str, x: Any) -> Any:
    transform = theirs(joined(x))
    return transform if name == "irfft" else pairs(transform)


@pytest.mark.parametrize("s", [None, (3, 8)])
def test_fourier_transforms_of_two_axes(s: Any) -> None:
    z = some(3, 5, 4, 2)
    axes = (1, 2)
    check(lambda x: F.fft2(x, s, axes), lambda x: pairs(np.fft.fft2(joined(x), s, axes)), [z])
    check(lambda x: F.ifft2(x, s, norm="ortho"), lambda x: pairs(np.fft.ifft2(joined(x), s, axes, "ortho")), [z])
    check(lambda x: F.rfft2(x, s), lambda x: pairs(np.fft.rfft2(x, s, axes)), [X])
    check(lambda x: F.irfft2(x, s), lambda x: np.fft.irfft2(joined(x), s, axes), [z])


# Bad input.


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            lambda x: x[x > 0],
            r"x\[mask\] .*shape of the result would depend on numbers.*where\(mask, a, b\).*NumPy before",
        ),
        (lambda x: x[:, (x > 0)[0, :, 0]], "would depend on numbers"),
        (lambda x: x.nonzero(), "nonzero: .*would depend on numbers"),
        (lambda x: F.nonzero(x), "nonzero: .*would depend on numbers"),
        (lambda x: x.masked_select(x > 0), "would depend on numbers"),
        (lambda x: x.repeat_interleave(x.argmax(1)[0], 1), "would depend on numbers"),
        (lambda x: x[x * 2], r"indexing: looks up integers, but .* is computed.*x\.long\(\)"),
        (lambda x: x[x.argmax(1), :, x.argmax(1)], "must stand side by side"),
        (lambda x: x if x > 0 else -x, "cannot branch on numbers"),
        (lambda x: x.argmax(1) & 1, "&: acts on masks"),
        (lambda x: x > "a", "not supported between"),
        (lambda x: x.gather(1, x.argmax(1)), r"gather: index .* must have as many axes as"),
        (lambda x: x.gather(3, x.argmax(1)), "gather: dim is 3"),
        (lambda x: F.gather(x, 2, np.zeros((3, 9, 5), int)), "gather: index .* is larger than .* along axis 1"),
        (lambda x: x.scatter(1, np.zeros((3, 4, 5), int), x[:, :2]), "scatter: src .* must have an element for each"),
        (lambda x: x.index_add(1, np.array([0, 1]), x), "index_add: source .* with an entry along axis 1"),
        (lambda x: x.topk(9, 1), r"topk: k is 9, but axis 1 of .* has 4 elements. Choose from 1 to 4"),
        (lambda x: x.topk(1.5), "topk: k is 1.5. Pass an integer"),
        (lambda x: F.fft(x), "fft: .* must end in an axis of 2.*use rfft"),
        (lambda x: F.rfft(x, norm="none"), "norm is 'none'"),
        (lambda x: F.rfft(x, dim=3), "dim is 3, but .* has 3 axes to transform"),
        (lambda x: F.irfft(x[..., :2], dim=2), "the last one, of real and imaginary parts, does not count"),
        (lambda x: F.rfft(x, 0), "n is 0"),
        (lambda x: F.fft2(x, (1, 2, 3)), "Both have two entries"),
        (lambda x: F.arange(x), "arange: .* is not a number"),
        (lambda x: x + F.arange(1, 5, 0), "step is 0"),
        (lambda x: x + F.zeros(x), "zeros: .* is not a size"),
        (lambda x: x + F.zeros(-1, 3), "must not be negative"),
        (lambda x: x + F.full((3,), x), "full: fill_value is .*expand"),
        (lambda x: x.diagonal(7, 1, 2), "diagonal: there is none with offset 7"),
        (lambda x: x.diagonal(0, 1, 1), "Name two"),
        (lambda x: F.cross(x, x), "no axis .*of size 3"),
        (lambda x: F.cdist(x, x[..., :3]), "rows of one length"),
        (lambda x: x.roll((1, 2), 1), "roll: shifts .* must have the same length"),
        (lambda x: F.meshgrid(x, x), "are not all vectors"),
        (lambda x: x.tensor_split(9, 1), "9 parts of axis 1"),
        (lambda x: x.trace(), "is not a matrix"),
        (lambda x: F.unfold(x, 2), "must be images"),
        (
            lambda x: F.local_response_norm(x[:, :, 0], 2),
            r"local_response_norm: \(.*\) must be \(N, channels, \.\.\.\)",
        ),
        (lambda x: F.local_response_norm(x, 0), "local_response_norm: size is 0"),
        (lambda x: F.unfold(x[:, None], 9), "is smaller than windows"),
        (lambda x: F.fold(x, (3, 3), 2), r"must be \(N, channels \* 4, 4\)"),
        (lambda x: x.unfold(1, 9, 1), "do not fit into axis 1"),
        (lambda x: x.movedim((0, 1), 0), "must name the same number of axes"),
        (lambda x: x.rot90(1, (1, 1)), "Name two axes"),
        (lambda x: F.embedding(x.exp(), np.zeros((3, 3))), r"embedding: looks up integers, but .* is computed"),
    ],
)
def test_what_is_refused(body: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError, IndexError, AttributeError), match=message):
        Applied(body)(X)


def test_numbers_out_of_range_are_refused_when_they_come() -> None:
    net = Applied(lambda x, i: x.gather(1, i))
    assert net(X, whole(3, 2, 5, end=4)).shape == (3, 2, 5)
    with pytest.raises(
        IndexError, match=r"gather: axis 1 has 4 entries, so 4 is out of range. Pass numbers from 0 to 3"
    ):
        net(X, np.full((3, 2, 5), 4))
    with pytest.raises(IndexError, match=r"so -1 is out of range"):
        net(X, np.full((3, 2, 5), -1))
    rows = Applied(lambda x, i: x[:, i[:, 0]])
    with pytest.raises(IndexError, match=r"indexing: axis 1 has 4 entries, so 7 is out of range"):
        rows(X, np.full((3, 2), 7))
    assert len(listed(rows(X, np.full((3, 2), -4)))) == 1
