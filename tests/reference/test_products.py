"""Matrix product, tensor contraction, Gram and embedding of the reference engine, by definition and finite differences."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from differences import assert_gradient, generator
from openbnns.parameters.contraction import Operand, output_shape, parse
from openbnns.parameters.embedding import Embedding
from openbnns.parameters.matmul import Product
from openbnns.reference import contraction, embedding, gram, matmul
from openbnns.reference.activation import Array

# ---------------------------------------------------------------------------------------------------------------------
# Matrix product

# Shapes of op(A), op(B) and C: the batch first, a batch axis of 1 for weights.
BROADCASTS = [
    ((3, 2, 5), (3, 5, 7), (3, 2, 7)),
    ((3, 2, 5), (1, 5, 7), (3, 2, 7)),
    ((1, 2, 5), (3, 5, 7), (3, 2, 7)),
    ((3, 4, 2, 5), (3, 5, 7), (3, 4, 2, 7)),
    ((3, 2, 5), (3, 4, 5, 1), (3, 4, 2, 1)),
    ((3, 1, 4, 2, 5), (1, 6, 1, 5, 3), (3, 6, 4, 2, 3)),
    ((1, 1, 1), (1, 1, 1), (1, 1, 1)),
    ((0, 2, 5), (1, 5, 7), (0, 2, 7)),
    ((2, 3, 0), (2, 0, 4), (2, 3, 4)),
]
TRANSPOSES = list(itertools.product([False, True], repeat=2))


def operands(shapes: Sequence[tuple[int, ...]], p: Product, seed: int) -> tuple[Array, Array]:
    rng = generator(seed)
    a, b = (rng.standard_normal(shape) for shape in shapes[:2])
    return (
        np.ascontiguousarray(a.swapaxes(-1, -2)) if p.transpose_a else a,
        np.ascontiguousarray(b.swapaxes(-1, -2)) if p.transpose_b else b,
    )


@pytest.mark.parametrize(("transpose_a", "transpose_b"), TRANSPOSES)
@pytest.mark.parametrize("shapes", BROADCASTS, ids=str)
def test_matmul_by_definition(shapes: Sequence[tuple[int, ...]], transpose_a: bool, transpose_b: bool) -> None:
    """Every element of C as a sum over k, leading axes matched from the back behind the batch."""
    p = Product(transpose_a, transpose_b, alpha=-1.5)
    a, b = operands(shapes, p, 1)
    c = matmul.forward(a, b, p)
    assert c.shape == shapes[2]
    inner = shapes[0][-1]

    def element(x: Array, position: tuple[int, ...], row: int, column: int, transpose: bool) -> float:
        batch, *leading = position
        matched = leading[len(leading) - (x.ndim - 3) :]
        clipped = [index if size > 1 else 0 for index, size in zip([batch, *matched], x.shape, strict=False)]
        return float(x[(*clipped, *((column, row) if transpose else (row, column)))])

    for *position, i, j in np.ndindex(*c.shape):
        where = tuple(position)
        terms = [element(a, where, i, k, transpose_a) * element(b, where, k, j, transpose_b) for k in range(inner)]
        assert c[(*where, i, j)] == pytest.approx(-1.5 * sum(terms), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("transpose_a", "transpose_b"), TRANSPOSES)
@pytest.mark.parametrize("shapes", BROADCASTS, ids=str)
def test_matmul_gradients(shapes: Sequence[tuple[int, ...]], transpose_a: bool, transpose_b: bool) -> None:
    p = Product(transpose_a, transpose_b, alpha=0.7)
    a, b = operands(shapes, p, 2)
    assert_gradient(lambda a: matmul.forward(a, b, p), lambda v: matmul.backward(a, b, v, p, {"da"})["da"], a)
    assert_gradient(lambda b: matmul.forward(a, b, p), lambda v: matmul.backward(a, b, v, p, {"db"})["db"], b)


@pytest.mark.parametrize(("transpose_a", "transpose_b"), TRANSPOSES)
def test_matmul_quadratic(transpose_a: bool, transpose_b: bool) -> None:
    p = Product(transpose_a, transpose_b, alpha=0.7, quadratic=True)
    a = generator(3).standard_normal((2, 3, 5, 5) if transpose_a == transpose_b else (2, 3, 5, 4))
    np.testing.assert_array_equal(
        matmul.forward(a, None, p), matmul.forward(a, a, Product(transpose_a, transpose_b, alpha=0.7))
    )
    assert_gradient(lambda a: matmul.forward(a, None, p), lambda v: matmul.backward(a, None, v, p, {"da"})["da"], a)


def test_matmul_returns_what_is_wanted_and_keeps_the_previous_output() -> None:
    rng = generator(4)
    a, b, c = rng.standard_normal((3, 2, 5)), rng.standard_normal((3, 5, 7)), rng.standard_normal((3, 2, 7))
    for wanted in (set(), {"da"}, {"db"}, {"da", "db"}):
        assert set(matmul.backward(a, b, c, Product(), wanted)) == wanted
    np.testing.assert_array_equal(matmul.forward(a, b, Product(), c), c + matmul.forward(a, b, Product()))


def test_matmul_of_infinities_does_not_warn() -> None:
    a = np.array([[[np.inf, 0.0]]])
    assert np.isnan(matmul.forward(a, np.array([[[0.0], [1.0]]]), Product())).all()


def test_matmul_refuses() -> None:
    a = np.ones((1, 2, 2))
    with pytest.raises(ValueError, match="quadratic product has no operand B"):
        matmul.backward(a, None, a, Product(quadratic=True), {"db"})
    with pytest.raises(ValueError, match=r"needs the operand B.*set quadratic"):
        matmul.forward(a, None, Product())


def test_matmul_observed() -> None:
    a, b, dc = np.array([[[1.0, 2], [3, 4]]]), np.array([[[5.0, 6], [7, 8]]]), np.array([[[1.0, 2], [3, 4]]])
    gradients = matmul.backward(a, b, dc, Product(), {"da", "db"})
    np.testing.assert_array_equal(gradients["da"].ravel(), [17, 23, 39, 53])
    np.testing.assert_array_equal(gradients["db"].ravel(), [10, 14, 14, 20])


# ---------------------------------------------------------------------------------------------------------------------
# Tensor contraction

# Expression, shapes of its tensors (batch first), shape of the output if it repeats an axis.
CONTRACTIONS: list[tuple[str, list[tuple[int, ...]], tuple[int, ...] | None]] = [
    ("a_ijp, b_ijq -> o_pq", [(3, 2, 5, 4), (3, 2, 5, 7)], None),
    ("a_*ik, b_*kj -> c_*ij", [(2, 3, 2, 5), (2, 3, 5, 4)], None),
    ("a_*ik, b_*jk -> c_*ij", [(2, 3, 4, 2, 5), (2, 4, 7, 5)], None),
    ("a_ik*,b_kj*->c_ji*", [(2, 2, 5, 3), (2, 5, 4, 3)], None),
    ("a_*ik, b_*kj -> c_*ij", [(2, 2, 5), (2, 5, 4)], None),
    ("x_*ijf, x_*ijc -> G_*fc", [(2, 3, 2, 5, 4)], None),
    ("x_ij, x_jk -> y_ik", [(2, 4, 4)], None),
    ("x_ij, x_ij -> y_i", [(2, 4, 3)], None),
    ("src_* -> dest_*", [(2, 3, 5)], None),
    ("src_* -> dest_*", [(2, 1, 5)], (2, 3, 5)),
    ("a_ij -> c_ji", [(3, 2, 5)], None),
    ("a_ij -> c_i", [(3, 2, 5)], None),
    ("a_i -> c_i", [(2, 1)], (2, 6)),
    ("w_ij, x_*j -> y_*i", [(1, 4, 5), (3, 2, 5)], None),
    ("x_*j, w_ij -> y_*i", [(3, 2, 5), (1, 4, 5)], None),
    ("w_ij -> y_ji", [(1, 4, 5)], (3, 5, 4)),
    ("a_ij, b_kl -> c_k", [(2, 3, 2), (2, 5, 4)], None),
    ("a_ij, b_jk -> c_ik", [(2, 3, 1), (2, 5, 4)], None),
    ("a_ij, b_ij -> c_ij", [(2, 3, 1), (2, 1, 4)], None),
    ("a_ii -> c_i", [(2, 4, 4)], None),
    ("a_iij, b_ji -> c_j", [(2, 4, 1, 3), (2, 3, 4)], None),
    ("a_ii, b_i -> c_i", [(2, 1, 1), (2, 5)], None),
    ("a_i, b_j -> c_ji", [(0, 2), (0, 3)], None),
    ("w_ij, x_j -> y_i", [(1, 2, 3), (0, 3)], None),
    ("a_ij, b_jk -> c_ik", [(2, 3, 0), (2, 0, 4)], None),
    ("abc_*a, Wide_*a -> out_*", [(2, 3, 5), (2, 3, 5)], None),
]


def plain_contraction(text: str, arrays: list[Array], out: Array) -> Array:
    """The sum element by element; axes are named by letters, those of `*` by their distance from the end."""
    expression = parse(text)
    arrays = [arrays[0], arrays[0]] if expression.is_self_contraction else arrays

    def names(operand: Operand, ndim: int) -> list[str]:
        letters, stars = list(operand.letters), [str(k) for k in reversed(range(ndim - 1 - len(operand.letters)))]
        return ["batch", *stars, *letters] if operand.star_first else ["batch", *letters, *stars]

    left = [names(operand, array.ndim) for operand, array in zip(expression.left, arrays, strict=True)]
    right = names(expression.output, out.ndim)
    sizes: dict[str, int] = dict(zip(right, out.shape, strict=True))
    for array_names, array in zip(left, arrays, strict=True):
        for name, size in zip(array_names, array.shape, strict=True):
            sizes[name] = size if sizes.get(name, 1) == 1 else sizes[name]
    result = np.zeros(out.shape)
    for position in itertools.product(*(range(size) for size in sizes.values())):
        index = dict(zip(sizes, position, strict=True))
        product = 1.0
        for array_names, array in zip(left, arrays, strict=True):
            place = [index[n] if size > 1 else 0 for n, size in zip(array_names, array.shape, strict=True)]
            product *= array[tuple(place)]
        result[tuple(index[n] for n in right)] += product
    return result


@pytest.mark.parametrize(("text", "shapes", "out_shape"), CONTRACTIONS, ids=str)
def test_contraction_by_definition(text: str, shapes: list[tuple[int, ...]], out_shape: tuple[int, ...] | None) -> None:
    expression, rng = parse(text), generator(5)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    out = contraction.forward(expression, arrays, -0.5, out_shape=out_shape)
    assert out.shape == (out_shape or output_shape(expression, shapes))
    np.testing.assert_allclose(out, -0.5 * plain_contraction(text, arrays, out), rtol=1e-12, atol=1e-13)
    previous = rng.standard_normal(out.shape)
    np.testing.assert_array_equal(contraction.forward(expression, arrays, -0.5, previous), previous + out)


@pytest.mark.parametrize(("text", "shapes", "out_shape"), CONTRACTIONS, ids=str)
def test_contraction_gradients(text: str, shapes: list[tuple[int, ...]], out_shape: tuple[int, ...] | None) -> None:
    expression, rng = parse(text), generator(6)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    for k in range(len(arrays)):
        only = [position == k for position in range(len(arrays))]

        def forward(x: Array, k: int = k) -> Array:
            changed = [*arrays[:k], x, *arrays[k + 1 :]]
            return contraction.forward(expression, changed, 1.7, out_shape=out_shape)

        def gradient(v: Array, k: int = k, only: list[bool] = only) -> Array:
            gradients = contraction.backward(expression, arrays, v, only, 1.7)
            assert [g is not None for g in gradients] == only
            result = gradients[k]
            assert result is not None
            return result

        assert_gradient(forward, gradient, arrays[k])


def test_contraction_knows_its_operands() -> None:
    product = parse(" x_*ik ,  w_kj->y_*ij ")
    assert [str(operand) for operand in (*product.left, product.output)] == ["x_*ik", "w_kj", "y_*ij"]
    assert product.weights == 1 and not product.is_self_contraction and len(product.tensors) == 2
    own = parse("x_*ijf, x_*ijc -> G_*fc")
    assert own.is_self_contraction and own.weights is None and len(own.tensors) == 1
    assert parse("w_ij -> y_ji").weights == 0
    assert parse("x_i -> w_i").weights is None
    assert [(o.star_first, o.star_last) for o in parse("a_i*, b_* -> c_i*").left] == [(False, True), (True, False)]


@pytest.mark.parametrize(
    ("text", "character", "message"),
    [
        ("", r"1 \(the end\)", "name of an operand is missing"),
        ("a_ij", r"5 \(the end\)", r'expected "," or "->" after a_ij. Write for instance'),
        ("a_ij b_jk -> c_ik", r"6 \('b'\)", 'expected "," or "->" after a_ij'),
        ("a_ij, b_jk = c_ik", r"12 \('='\)", 'expected "->" after b_jk'),
        ("a_ij, -> c_ij", r"7 \('-'\)", "name of an operand is missing"),
        ("a_ij, b_jk -> ", r"15 \(the end\)", "name of an operand is missing"),
        ("aij -> c_ij", r"4 \(' '\)", 'name "aij" is not followed by "_"'),
        ("a1_ij -> c_ij", r"2 \('1'\)", "A name consists of letters"),
        ("a_ -> c_i", r"3 \(' '\)", "indices are missing. Name every axis"),
        ("a_iJ -> c_i", r"4 \('J'\)", r'"J" is not an index. Indices are lower-case letters'),
        ("a_i2 -> c_i", r"4 \('2'\)", '"2" is not an index'),
        ("a_*i* -> c_*i", r"5 \('\*'\)", "second `\\*`"),
        ("a_i*j -> c_i*j", r"4 \('\*'\)", "`\\*` stands between letters. Put it in front"),
        ("a_i, b_j, c_k -> d_ijk", r"9 \(','\)", "more than two operands on the left. Contract two at a time"),
        ("a_ij -> c_ji, d_i", r"13 \(','\)", "there is more after the output"),
        ("a_*i -> c_i", r"3 \('\*'\)", r"`\*` of a_\*i is missing in the output c_i. Add it to the output"),
        ("a_i -> c_*i", r"10 \('\*'\)", r"`\*` of the output c_\*i occurs in no operand"),
        ("a_*i, b_i* -> c_*i", r"10 \('\*'\)", r"behind the letters in b_i\*, but in front of them in a_\*i"),
        ("a_*i -> c_i*", r"12 \('\*'\)", "Put it at the same end everywhere"),
        ("a_ij -> c_ii", r"12 \('i'\)", 'index "i" occurs twice in the output'),
        ("a_ij -> c_ik", r"12 \('k'\)", 'index "k" of the output occurs in no operand .* are: i, j'),
        ("w_ij, w_jk -> c_ik", r"7 \('w'\)", "two operands named w. Only one can be trained"),
        ("x_ij, x_jkl -> c_ik", r"9 \('j'\)", "x_ij and x_jkl are one tensor, but have 2 and 3 indices"),
        ("a_ij → c_ij", r"6 \('→'\)", 'expected "," or "->"'),
    ],
)
def test_contraction_points_at_what_does_not_parse(text: str, character: str, message: str) -> None:
    with pytest.raises(ValueError, match=rf"tensor contraction .*, character {character}: .*{message}"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "shapes", "out_shape", "message"),
    [
        ("a_ij -> c_ji", [(2, 3)], None, r"a_ij has 2 axes, but the shape of one sample is \(3,\)"),
        ("a_ij -> c_ji", [(2, 3, 4, 5)], None, "a_ij has 2 axes"),
        ("a_*ij -> c_*ji", [(2, 3)], None, r"a_\*ij has at least 2 axes"),
        ("a_ij, b_jk -> c_ik", [(2, 3, 4), (2, 5, 6)], None, 'index "j" is 4 in a_ij but 5 in b_jk. Make them equal'),
        ("a_ij, b_jk -> c_ik", [(2, 3, 4), (3, 4, 6)], None, "size of the batch is 2 in a_ij but 3 in b_jk"),
        ("a_*i, b_*i -> c_*i", [(1, 2, 3), (1, 4, 3)], None, r"axis 0 from the end of `\*` is 2 in a_\*i but 4"),
        ("a_ij, b_jk -> c_ik", [(2, 3, 4)], None, "contracts two tensors; got 1"),
        ("x_ij, x_kj -> c_ik", [(2, 3, 4), (2, 3, 4)], None, "contracts one tensor; got 2"),
        ("x_ij, x_jk -> c_ik", [(2, 3, 4)], None, 'index "j" is 4 in x_ij but 3 in x_jk'),
        ("a_ij -> c_i", [(2, 3, 4)], (2, 5), 'index "i" is 3 in a_ij but 5 in c_i'),
        ("a_ij -> c_i", [(2, 3, 4)], (2, 1), 'index "i" is 3 in a_ij but 1 in the output. Make it 3'),
        ("a_*i -> c_*i", [(2, 3, 4)], (2, 4), r"`\*` stands for 1 axes on the left, but for 0 in the output"),
        ("a_*i -> c_*i", [(2, 3, 4)], (2, 5, 3, 4), r"`\*` stands for 1 axes on the left, but for 2"),
    ],
)
def test_contraction_names_sizes_that_do_not_fit(
    text: str, shapes: list[tuple[int, ...]], out_shape: tuple[int, ...] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        contraction.forward(parse(text), [np.zeros(shape) for shape in shapes], out_shape=out_shape)


def test_contraction_observed() -> None:
    out = contraction.forward(parse("a_ij -> c_ji"), [np.array([[[1.0, 2, 3], [4, 5, 6]]])])
    np.testing.assert_array_equal(out.ravel(), [1, 4, 2, 5, 3, 6])


# ---------------------------------------------------------------------------------------------------------------------
# Gram


@pytest.mark.parametrize("shape", [(3, 5, 2, 7), (2, 3, 4, 5, 1), (1, 1, 1, 1), (0, 3, 2, 2), (2, 3, 0, 4)], ids=str)
def test_gram(shape: tuple[int, ...]) -> None:
    x = generator(7).standard_normal(shape)
    images = x.reshape(int(np.prod(shape[:-3])), *shape[-3:])
    expected = [
        [[0.3 * (image[f] * image[c]).sum() for c in range(shape[-3])] for f in range(shape[-3])] for image in images
    ]
    g = gram.forward(x, 0.3)
    np.testing.assert_allclose(g, np.reshape(expected, (*shape[:-3], shape[-3], shape[-3])), atol=1e-12)
    assert_gradient(lambda x: gram.forward(x, 0.3), lambda v: gram.backward(x, v, 0.3), x)


def test_gram_is_a_contraction() -> None:
    """x_*ijf, x_*ijc -> G_*fc with the channels, the slowest axis of an image, as its last logical axis."""
    x = generator(8).standard_normal((2, 5, 3, 4))
    logical = [x.transpose(0, 2, 3, 1)]
    expression = parse("x_*ijf, x_*ijc -> G_*fc")
    np.testing.assert_allclose(gram.forward(x, 2.0), contraction.forward(expression, logical, 2.0))
    dg = generator(9).standard_normal((2, 5, 5))
    (gradient,) = contraction.backward(expression, logical, dg, [True], 2.0)
    assert gradient is not None
    np.testing.assert_allclose(gram.backward(x, dg, 2.0), gradient.transpose(0, 3, 1, 2))


def test_gram_observed() -> None:
    np.testing.assert_array_equal(
        gram.forward(np.array([1.0, 2, 3, 4]).reshape(1, 2, 1, 2), 2.0), [[[10, 22], [22, 50]]]
    )


# ---------------------------------------------------------------------------------------------------------------------
# Embedding

INDICES = np.array([[[1, 5, 1], [0, 6, 2]], [[5, 5, 3], [1, 0, 0]]])  # (N, positions) of a dictionary of 7 entries


@pytest.mark.parametrize("item", [(), (3,), (2, 5), (1,), (0,)], ids=str)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_embedding_looks_up(dtype: type[np.integer], item: tuple[int, ...]) -> None:
    dictionary, indices = generator(10).standard_normal((7, *item)), INDICES.astype(dtype)
    out = embedding.forward(indices, dictionary, Embedding())
    assert out.shape == (*indices.shape, *item)
    for position in np.ndindex(*indices.shape):
        np.testing.assert_array_equal(out[position], dictionary[int(indices[position])])

    def gradient(v: Array) -> Array:
        return embedding.backward(indices, v, 7, Embedding())

    assert_gradient(lambda d: embedding.forward(indices, d, Embedding()), gradient, dictionary)


@pytest.mark.parametrize("padding", [0, 5, 4])
def test_embedding_padding_reads_zeros_and_gets_no_gradient(padding: int) -> None:
    dictionary, e = generator(11).standard_normal((7, 3)), Embedding(padding_index=padding)
    out = embedding.forward(INDICES, dictionary, e)
    np.testing.assert_array_equal(np.all(out == 0.0, axis=-1), padding == INDICES)
    gradient = embedding.backward(INDICES, np.ones((*INDICES.shape, 3)), 7, e)
    expected = [0 if v == padding else np.sum(v == INDICES) for v in range(7)]
    np.testing.assert_array_equal(gradient[:, 0], expected)
    assert_gradient(
        lambda d: embedding.forward(INDICES, d, e), lambda v: embedding.backward(INDICES, v, 7, e), dictionary
    )


@pytest.mark.parametrize("padding", [None, -1, 7, 2**64 - 1])
@pytest.mark.parametrize("dtype", [np.int8, np.uint64])
def test_embedding_padding_outside_the_dictionary_is_none(padding: int | None, dtype: type[np.integer]) -> None:
    dictionary, e, indices = generator(12).standard_normal((7, 3)), Embedding(padding), INDICES.astype(dtype)
    np.testing.assert_array_equal(embedding.forward(indices, dictionary, e), dictionary[indices])
    assert np.all(embedding.backward(indices, np.ones((*INDICES.shape, 3)), 7, e)[[0, 1, 2, 3, 5, 6]])


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 2.5, 0.5, 30.0, math.inf])
@pytest.mark.parametrize("item", [(5,), (2, 3)], ids=str)
def test_embedding_max_norm(item: tuple[int, ...], p: float) -> None:
    dictionary = generator(13).standard_normal((7, *item)) * np.linspace(0.1, 4, 7).reshape(7, *(1,) * len(item))
    before = dictionary.copy()
    out = embedding.forward(INDICES, dictionary, Embedding(max_norm=1.3, norm_type=p))
    for position in np.ndindex(*INDICES.shape):
        entry = before[INDICES[position]]
        norm = np.linalg.norm(entry.ravel(), p or 2.0)
        np.testing.assert_allclose(out[position], entry * 1.3 / norm if norm > 1.3 else entry, rtol=1e-12)
    np.testing.assert_array_equal(dictionary, before)


def test_embedding_max_norm_in_place_changes_the_entries_looked_up() -> None:
    dictionary = 10.0 + generator(14).standard_normal((7, 3))
    before, e = dictionary.copy(), Embedding(padding_index=0, max_norm=2.0, renormalize_in_place=True)
    out = embedding.forward(INDICES, dictionary, e)
    looked_up = [1, 2, 3, 5, 6]
    np.testing.assert_allclose(np.linalg.norm(dictionary[looked_up], axis=1), 2.0)
    np.testing.assert_array_equal(dictionary[[0, 4]], before[[0, 4]])
    np.testing.assert_array_equal(out, np.where((INDICES == 0)[..., np.newaxis], 0.0, dictionary[INDICES]))


def test_embedding_norm_of_zeros_and_of_huge_numbers() -> None:
    dictionary = np.array([[0.0, 0.0], [1e300, 1e300], [-1e-300, 0.0]])
    out = embedding.forward(np.array([[0, 1, 2]]), dictionary, Embedding(max_norm=1.0))
    np.testing.assert_allclose(out[0], [[0.0, 0.0], [math.sqrt(0.5)] * 2, [-1e-300, 0.0]])


def test_embedding_gradient_with_max_norm_is_that_of_the_scaled_entry() -> None:
    dy = generator(15).standard_normal((*INDICES.shape, 3))
    limited = embedding.backward(INDICES, dy, 7, Embedding(max_norm=0.1))
    np.testing.assert_array_equal(limited, embedding.backward(INDICES, dy, 7, Embedding()))


def test_embedding_scales_its_gradient_by_frequency() -> None:
    dy = generator(16).standard_normal((*INDICES.shape, 2))
    gradient = embedding.backward(INDICES, dy, 7, Embedding(scale_by_frequency=True))
    for v in range(7):
        chosen = dy[v == INDICES]
        np.testing.assert_allclose(gradient[v], chosen.mean(axis=0) if len(chosen) else 0.0)


def test_embedding_of_nothing() -> None:
    nothing = np.zeros((0, 4), dtype=np.int32)
    assert embedding.forward(nothing, np.ones((7, 3)), Embedding(max_norm=1.0)).shape == (0, 4, 3)
    gradient = embedding.backward(nothing, np.ones((0, 4, 3)), 7, Embedding(scale_by_frequency=True))
    np.testing.assert_array_equal(gradient, np.zeros((7, 3)))


def test_embedding_refuses() -> None:
    with pytest.raises(ValueError, match=r"index 7 at position \(0, 1\) lies outside the dictionary of 7 entries"):
        embedding.forward(np.array([[0, 7]]), np.ones((7, 3)), Embedding())
    with pytest.raises(ValueError, match=r"index -1 at position \(0, 0\).*indices from 0 to 6"):
        embedding.backward(np.array([[-1]]), np.ones((1, 1, 3)), 7, Embedding())
    for p in (-2.0, math.nan):
        with pytest.raises(ValueError, match="is not the p of a p-norm"):
            embedding.forward(np.array([[0]]), np.ones((7, 3)), Embedding(max_norm=1.0, norm_type=p))


def test_embedding_observed() -> None:
    entries = np.array([[[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], [[1, 3], [5, 2], [4, 6]], [[60, 50], [40, 30], [20, 10]]])
    out = embedding.forward(np.array([[1, 2]]), entries, Embedding(0, 0.6, math.inf))
    expected = [0.1, 0.3, 0.5, 0.2, 0.4, 0.6, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    np.testing.assert_allclose(out.ravel(), expected, rtol=1e-12)
