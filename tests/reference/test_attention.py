"""Multihead attention of the reference engine, by definition and against finite differences."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from differences import assert_gradient, generator
from openbnns.parameters.attention import Options, Sizes
from openbnns.reference import attention
from openbnns.reference.activation import Array
from openbnns.reference.attention import GRADIENTS, Cache, Parameters


@dataclass(frozen=True)
class Case:
    """Sizes and switches; mask_rank is that of add_to_attention, 0 for none."""

    batch: int = 3
    target: int = 5
    source: int = 4
    model: int = 7
    key: int = 3
    value: int = 2
    heads: int = 2
    bias: bool = True
    attention_bias: bool = False
    zero_row: bool = False
    key_mask: bool = False
    mask_rank: int = 0
    mask_is_boolean: bool = False
    dropout: float = 0.0

    @property
    def rows(self) -> int:
        return self.source + self.attention_bias + self.zero_row


CASES = {
    "plain": Case(),
    "no bias": Case(bias=False),
    "one of everything": Case(1, 1, 1, 1, 1, 1, 1),
    "odd sizes": Case(2, 1, 7, 3, 1, 5, 3),
    "attention bias": Case(attention_bias=True),
    "zero row": Case(zero_row=True),
    "key mask": Case(key_mask=True),
    "added (T, S)": Case(mask_rank=2),
    "added (H, T, S)": Case(mask_rank=3),
    "added (N, H, T, S)": Case(mask_rank=4),
    "boolean (T, S)": Case(mask_rank=2, mask_is_boolean=True),
    "boolean (H, T, S)": Case(mask_rank=3, mask_is_boolean=True),
    "boolean (N, H, T, S)": Case(mask_rank=4, mask_is_boolean=True),
    "dropout": Case(dropout=0.3),
    "everything": Case(attention_bias=True, zero_row=True, key_mask=True, mask_rank=4, dropout=0.4),
    "everything boolean": Case(
        attention_bias=True, zero_row=True, key_mask=True, mask_rank=3, mask_is_boolean=True, dropout=0.4, bias=False
    ),
    "empty batch": Case(batch=0, attention_bias=True, zero_row=True),
    "no targets": Case(target=0),
    "no sources": Case(source=0, attention_bias=True),
}


@dataclass(frozen=True)
class Problem:
    """The arrays of a case, by the names of the formulas."""

    q: Array
    k: Array
    v: Array
    parameters: Parameters
    options: Options
    key_mask: Any
    added: Any
    keep: Any

    def forward(self) -> tuple[Array, Cache]:
        return attention.forward(
            self.q, self.k, self.v, self.parameters, self.options, self.key_mask, self.added, self.keep
        )

    def backward(self, do: Array, wanted: set[str]) -> dict[str, Array]:
        _, cache = self.forward()
        return attention.backward(self.q, self.k, self.v, self.parameters, cache, do, wanted)

    def tensor(self, name: str) -> Array | None:
        """The tensor whose gradient is "d" + name."""
        return getattr(self if name in ("q", "k", "v") else self.parameters, name)

    def with_tensor(self, name: str, value: Array) -> "Problem":
        if name in ("q", "k", "v"):
            return replace(self, **{name: value})
        return replace(self, parameters=replace(self.parameters, **{name: value}))


def problem(c: Case, seed: int = 0) -> Problem:
    rng = generator(seed, 22)
    normal = rng.standard_normal
    shapes = {
        "wq": (c.model, c.key, c.heads),
        "wk": (c.model, c.key, c.heads),
        "wv": (c.model, c.value, c.heads),
        "wo": (c.heads * c.value, c.model),
    }
    if c.bias:
        shapes |= {"pq": (c.key, c.heads), "pk": (c.key, c.heads), "pv": (c.value, c.heads), "po": (c.model,)}
    if c.attention_bias:
        shapes |= {"bk": (c.key, c.heads), "bv": (c.value, c.heads)}
    added_shape = (c.batch, c.heads, c.target, c.source)[4 - (c.mask_rank or 2) :]
    boolean = rng.random(added_shape) < 0.3
    boolean[..., :1] = False  # no row is masked altogether
    key_mask = rng.random((c.batch, c.source)) < 0.4
    key_mask[:, :1] = False
    return Problem(
        normal((c.batch, c.target, c.model)),
        normal((c.batch, c.source, c.model)),
        normal((c.batch, c.source, c.model)),
        Parameters(**{name: normal(shape) for name, shape in shapes.items()}),
        Options(c.zero_row, c.dropout),
        key_mask if c.key_mask else None,
        (boolean if c.mask_is_boolean else normal(added_shape)) if c.mask_rank else None,
        rng.random((c.batch, c.heads, c.target, c.rows)) >= c.dropout if c.dropout else None,
    )


def plain_attention(x: Problem) -> Array:
    """The output, one target position and one source row at a time."""
    p = x.parameters
    _, key, heads = p.wq.shape
    value = p.wv.shape[1]
    batch, target, _ = x.q.shape
    source = x.k.shape[1]
    output = np.zeros((batch, target, p.wo.shape[1]))
    for n in range(batch):
        for t in range(target):
            total = np.zeros(p.wo.shape[1]) if p.po is None else p.po.copy()
            for h in range(heads):
                query = x.q[n, t] @ p.wq[:, :, h] + (0 if p.pq is None else p.pq[:, h])
                rows = [
                    (
                        x.k[n, s] @ p.wk[:, :, h] + (0 if p.pk is None else p.pk[:, h]),
                        x.v[n, s] @ p.wv[:, :, h] + (0 if p.pv is None else p.pv[:, h]),
                    )
                    for s in range(source)
                ]
                if p.bk is not None and p.bv is not None:
                    rows.append((p.bk[:, h], p.bv[:, h]))
                if x.options.zero_row:
                    rows.append((np.zeros(key), np.zeros(value)))
                exponentials = []
                for s, (row, _) in enumerate(rows):
                    score = float(query @ row) / math.sqrt(key)
                    if s < source:
                        if x.added is not None:
                            added = x.added[(n, h, t, s)[4 - x.added.ndim :]]
                            score = score + added if x.added.dtype != np.bool_ else -math.inf if added else score
                        if x.key_mask is not None and x.key_mask[n, s]:
                            score = -math.inf
                    exponentials.append(math.exp(score))
                for s, (_, row) in enumerate(rows):
                    probability = exponentials[s] / sum(exponentials)
                    if x.keep is not None:
                        probability *= x.keep[n, h, t, s] / (1 - x.options.dropout)
                    total = total + probability * (row @ p.wo[h * value : (h + 1) * value])
            output[n, t] = total
    return output


@pytest.mark.parametrize("c", CASES.values(), ids=CASES.keys())
def test_attention_by_definition(c: Case) -> None:
    x = problem(c)
    output, cache = x.forward()
    np.testing.assert_allclose(output, plain_attention(x), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(cache.probabilities.sum(axis=-1), 1.0)


@pytest.mark.parametrize("name", sorted(GRADIENTS))
@pytest.mark.parametrize("c", CASES.values(), ids=CASES.keys())
def test_attention_gradient(c: Case, name: str) -> None:
    x = problem(c, 1)
    point = x.tensor(name[1:])
    if point is None:
        if name in ("dbk", "dbv"):
            with pytest.raises(ValueError, match=f"{name} is wanted, but there is no attention bias {name[1:]}"):
                x.backward(np.zeros_like(x.q), {name})
            return
        shapes = {"pq": (c.key, c.heads), "pk": (c.key, c.heads), "pv": (c.value, c.heads), "po": (c.model,)}
        point = np.zeros(shapes[name[1:]])  # a bias that is absent has the gradient of one that is 0

    def gradient(do: Array) -> Array:
        gradients = x.backward(do, {name})
        assert set(gradients) == {name}
        return gradients[name]

    assert_gradient(lambda value: x.with_tensor(name[1:], value).forward()[0], gradient, point)


def test_attention_there_are_thirteen_gradients_and_each_is_the_same_alone() -> None:
    assert len(GRADIENTS) == 13
    x = problem(CASES["everything"])
    do = generator(23).standard_normal(x.q.shape)
    together = x.backward(do, set(GRADIENTS))
    assert set(together) == GRADIENTS
    for name, gradient in together.items():
        np.testing.assert_array_equal(x.backward(do, {name})[name], gradient)
        tensor = x.tensor(name[1:])
        assert tensor is not None and gradient.shape == tensor.shape and np.all(np.isfinite(gradient))
        assert np.any(gradient != 0.0)


def test_attention_gradients_of_parameters_sum_over_the_batch() -> None:
    x = problem(CASES["everything"])
    do = generator(24).standard_normal(x.q.shape)
    together = x.backward(do, set(GRADIENTS))
    total: dict[str, Any] = dict.fromkeys(GRADIENTS, 0.0)
    for n in range(len(do)):
        one = slice(n, n + 1)
        sample = replace(
            x,
            q=x.q[one],
            k=x.k[one],
            v=x.v[one],
            key_mask=x.key_mask[one],
            added=x.added[one],
            keep=x.keep[one],
        )
        gradients = sample.backward(do[one], set(GRADIENTS))
        for name in ("dq", "dk", "dv"):
            np.testing.assert_allclose(together[name][one], gradients[name], rtol=1e-11, atol=1e-13)
        total = {name: total[name] + gradients[name] for name in GRADIENTS}
    for name in GRADIENTS - {"dq", "dk", "dv"}:
        np.testing.assert_allclose(together[name], total[name], rtol=1e-11, atol=1e-12)


def test_attention_inputs_are_read_for_the_weights_only() -> None:
    x = problem(CASES["everything"])
    _, cache = x.forward()
    do = np.ones_like(x.q)
    rest = set(GRADIENTS) - {"dwq", "dwk", "dwv"}
    assert set(attention.backward(None, None, None, x.parameters, cache, do, rest)) == rest
    for name in ("q", "k", "v"):
        with pytest.raises(ValueError, match=f"dw{name} needs the input {name}; got None"):
            attention.backward(None, None, None, x.parameters, cache, do, {f"dw{name}"})


def test_attention_masked_keys_get_no_gradient() -> None:
    x = problem(CASES["key mask"])
    gradients = x.backward(generator(25).standard_normal(x.q.shape), {"dk", "dv"})
    for gradient in gradients.values():
        np.testing.assert_array_equal(np.all(gradient == 0.0, axis=-1), x.key_mask)


def test_attention_boolean_is_the_same_as_minus_infinity() -> None:
    x = problem(CASES["boolean (H, T, S)"])
    numbers = replace(x, added=np.where(x.added, -np.inf, 0.0))
    np.testing.assert_array_equal(x.forward()[0], numbers.forward()[0])


def masked_out(extra: Case) -> Problem:
    """All keys of sample 1 are masked, by key_mask, or by add_to_attention in target row 2 of sample 0."""
    x = problem(extra)
    key_mask = np.zeros((3, 4), dtype=np.bool_)
    key_mask[1] = True
    added = np.zeros((3, 2, 5, 4), dtype=np.bool_)
    added[0, :, 2] = True
    return replace(x, key_mask=key_mask, added=added)


def test_attention_row_of_masked_keys_is_nan() -> None:
    x = masked_out(CASES["plain"])
    output, _ = x.forward()
    expected = np.zeros((3, 5), dtype=np.bool_)
    expected[1] = expected[0, 2] = True
    np.testing.assert_array_equal(np.isnan(output), np.broadcast_to(expected[..., np.newaxis], output.shape))
    gradients = x.backward(np.ones_like(x.q), {"dq", "dv", "dwo"})
    np.testing.assert_array_equal(np.isnan(gradients["dq"]).all(axis=-1), expected)
    assert np.isnan(gradients["dv"][:2]).all() and np.isfinite(gradients["dv"][2]).all()
    assert np.isnan(gradients["dwo"]).all()


@pytest.mark.parametrize("name", sorted(GRADIENTS - {"dbk", "dbv"}))
def test_attention_row_of_masked_keys_is_zero_on_request(name: str) -> None:
    x = masked_out(CASES["plain"])
    x = replace(x, options=Options(masked_rows_are_zero=True))
    output, cache = x.forward()
    assert x.parameters.po is not None
    np.testing.assert_array_equal(output[0, 2], x.parameters.po)
    np.testing.assert_array_equal(output[1], np.broadcast_to(x.parameters.po, (5, 7)))
    assert not np.any(cache.probabilities[1]) and not np.any(cache.probabilities[0, :, 2])
    gradients = x.backward(np.ones_like(x.q), {"dq", "dk", "dv"})
    assert not np.any(gradients["dq"][0, 2]) and not any(np.any(gradient[1]) for gradient in gradients.values())
    point = x.tensor(name[1:])
    assert point is not None
    assert_gradient(lambda a: x.with_tensor(name[1:], a).forward()[0], lambda v: x.backward(v, {name})[name], point)


@pytest.mark.parametrize("case", ["attention bias", "zero row"])
@pytest.mark.parametrize("zero", [False, True])
def test_attention_appended_rows_are_never_masked(case: str, zero: bool) -> None:
    x = masked_out(CASES[case])
    output, cache = replace(x, options=replace(x.options, masked_rows_are_zero=zero)).forward()
    assert np.all(np.isfinite(output))
    np.testing.assert_array_equal(cache.probabilities[1, ..., -1], 1.0)


def test_attention_of_an_empty_source_is_the_output_bias() -> None:
    x = problem(Case(source=0))
    assert x.parameters.po is not None
    np.testing.assert_array_equal(x.forward()[0], np.broadcast_to(x.parameters.po, (3, 5, 7)))


def test_attention_scores_far_apart_do_not_overflow() -> None:
    x = problem(CASES["plain"])
    output, cache = replace(x, q=x.q * 1e6).forward()
    assert np.all(np.isfinite(output))
    np.testing.assert_allclose(cache.probabilities.sum(axis=-1), 1.0)
    shifted = replace(x, added=np.full((5, 4), 1e4))
    np.testing.assert_allclose(shifted.forward()[0], x.forward()[0], rtol=1e-8)


def test_attention_nan_in_one_sample_stays_there() -> None:
    x = problem(CASES["plain"])
    q = x.q.copy()
    q[1, 3, 0] = np.nan
    output, _ = replace(x, q=q).forward()
    assert np.isnan(output[1, 3]).all() and np.isnan(output).sum() == 7


def test_attention_leaves_its_inputs_alone() -> None:
    x = problem(CASES["everything"])
    arrays = [x.q, x.k, x.v, x.key_mask, x.added, x.keep]
    before = [array.copy() for array in arrays]
    x.backward(np.ones_like(x.q), set(GRADIENTS))
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_attention_dropout_outside_its_range_is_none() -> None:
    x = problem(CASES["dropout"])
    plain = replace(x, options=Options(), keep=None).forward()[0]
    for rate in (0.0, 1.0, -0.5):
        np.testing.assert_array_equal(replace(x, options=Options(dropout=rate)).forward()[0], plain)
    with pytest.raises(ValueError, match=r"dropout = 0\.3 needs the mask keep"):
        replace(x, keep=None).forward()


def test_attention_bias_rows_come_in_pairs() -> None:
    x = problem(CASES["attention bias"])
    for name, other in (("bk", "bv"), ("bv", "bk")):
        alone = replace(x, parameters=replace(x.parameters, **{other: None}))
        with pytest.raises(ValueError, match=f"attention bias {name} but no {other}.*Pass both or neither"):
            alone.forward()


@pytest.mark.parametrize("c", CASES.values(), ids=CASES.keys())
def test_attention_cache_has_the_size_of_the_formula(c: Case) -> None:
    sizes = Sizes(c.target, c.source, c.model, c.key, c.value, c.heads, c.attention_bias, c.zero_row)
    _, cache = problem(c).forward()
    assert cache.probabilities.size == sizes.probability_elements(c.batch)
    projections = cache.queries.size + cache.keys.size + cache.values.size + cache.concatenated.size
    assert projections == sizes.projection_elements(c.batch)
    assert sizes.linear_cache_elements(c.batch) == projections + c.batch * c.heads * c.target


def test_attention_observed() -> None:
    def one(value: float, rank: int) -> Array:
        return np.full((1,) * rank, value)

    parameters = Parameters(one(1, 3), one(1, 3), one(2, 3), one(3, 2))
    inputs = one(0.5, 3), one(1.5, 3), one(3.5, 3)
    output, cache = attention.forward(*inputs, parameters, Options())
    assert output.item() == 21.0
    gradients = attention.backward(*inputs, parameters, cache, one(1, 3), GRADIENTS - {"dbk", "dbv"})
    expected = {"dv": 6.0, "dwv": 10.5, "dwo": 7.0, "dq": 0.0, "dk": 0.0, "dwq": 0.0, "dwk": 0.0}
    assert {name: gradients[name].item() for name in expected} == expected
