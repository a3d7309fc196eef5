"""Matrix products and contractions with two inputs; one-input forms are in cases."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases._base import created, succeed
from cases.matmul import Pair, first, product
from helpers import EPSILON, FLOAT16, Tensor, assert_bitwise, assert_within
from openbnns import capi

FIRST = {n: capi.BNNSDataLayout[f"BNNSDataLayout{n}DFirstMajor"] for n in range(1, 8)}
LAST = {n: capi.BNNSDataLayout[f"BNNSDataLayout{n}DLastMajor"] for n in range(1, 8)}
TWO_INPUT_ROWS = (
    "fn.BNNSFilterApplyTwoInputBatch",
    "fn.BNNSFilterApplyBackwardTwoInputBatch",
)


def check(pair: Pair, flags: tuple[int, int]) -> None:
    """Both engines against NumPy, with every combination of wanted gradients."""
    expected = pair.expected()
    terms = max(int(np.prod(list(pair.sizes.values()))), 1)
    rounding = EPSILON * (4.0 + np.sqrt(terms))

    def close(actual: Any, result: tuple[Any, Any], old: Any, what: str) -> None:
        value, magnitude = result
        assert_within(actual, value + old, rounding * (abs(magnitude) + np.abs(old) + 1e-6), what)

    for engine in ("native", "reference"):
        with ob.engine(engine):
            close(pair.forward(), expected[0], pair.beta * pair.values["y"], f"{engine} y")
            both = pair.backward(flags=flags)
            for k, name in enumerate(("da", "db")):
                close(both[name], expected[1 + k], flags[k] * pair.values[name], f"{engine} {name}")
                alone = pair.backward((name,), flags)
                assert_bitwise(alone[name], both[name], f"{engine} {name} alone")
                other = "db" if name == "da" else "da"
                assert_bitwise(alone[other], pair.values[other], f"{engine} {other}, which was not wanted")
            pair.assert_rest_untouched()


def random_product(seed: int) -> tuple[Pair, tuple[int, int]]:
    """Shapes, broadcast axes, transposes, layouts, strides, factors and flags, all drawn."""
    rng = np.random.default_rng(seed)
    m, n, k = (int(x) for x in rng.choice([1, 2, 3, 5, 13, 17, 33, 65], 3))
    leading = [int(x) for x in rng.choice([1, 2, 3], int(rng.integers(0, 3)))]
    letters = "uvw"[3 - len(leading) :]
    transposes = (bool(rng.integers(2)), bool(rng.integers(2)))

    def front() -> tuple[list[int], str]:
        drop = int(rng.integers(0, len(leading) + 1)) if rng.random() < 0.3 else 0
        sizes = [1 if rng.random() < 0.3 else size for size in leading[drop:]]
        return sizes, letters[drop:]

    (fa, la), (fb, lb) = front(), front()
    out = np.broadcast_shapes(tuple(fa), tuple(fb))
    lo = letters[len(letters) - len(out) :]
    a, ea = ([*fa, k, m], la + "km") if transposes[0] else ([*fa, m, k], la + "mk")
    b, eb = ([*fb, n, k], lb + "nk") if transposes[1] else ([*fb, k, n], lb + "kn")

    def tensor(size: Any) -> Tensor:
        layout = (FIRST if rng.random() < 0.6 else LAST)[len(size)]
        stride = (int(rng.choice([1, 2])),) if rng.random() < 0.2 else ()
        return Tensor(layout, tuple(int(x) for x in size), stride)

    pair = Pair(
        tensor(a), tensor(b), tensor((*out, m, n)), lambda p, threads: product(p, threads, transposes),
        alpha=float(rng.choice([1.0, 0.5, -2.0])), beta=int(rng.integers(2)), batch=int(rng.integers(1, 6)),
        gap=int(rng.choice([0, 3])), einsum=f"{ea},{eb}->{lo}mn", seed=seed, threads=int(rng.integers(0, 3)),
    )  # fmt: skip
    return pair, (int(rng.integers(2)), int(rng.integers(2)))


@pytest.mark.covers(
    "matmul.fwd", "matmul.dA", "matmul.dB", "matmul.trans", "matmul.broadcast", "matmul.beta",
    "fn.BNNSFilterCreateLayerBroadcastMatMul", *TWO_INPUT_ROWS,
)  # fmt: skip
@pytest.mark.parametrize("seed", range(80))
def test_random_products(seed: int) -> None:
    check(*random_product(seed))


EXPRESSIONS = {
    "a_ik, b_kj -> c_ij": "ik,kj->ij",
    "a_ijp, b_ijq -> o_pq": "ijp,ijq->pq",
    "a_bij, b_bjk -> c_kbi": "bij,bjk->kbi",
    "a_ijb, b_jkb -> c_ikb": "ijb,jkb->ikb",
    "a_ij, b_kl -> c_il": "ij,kl->il",
    "a_ij, b_kl -> c_kjli": "ij,kl->kjli",
    "a_ij, b_ij -> c_ij": "ij,ij->ij",
    "a_ij, b_ij -> c_j": "ij,ij->j",
    "a_ij, b_ij -> c_i": "ij,ij->i",
    "a_i, b_j -> c_ij": "i,j->ij",
    "a_ijkl, b_lkmn -> c_minj": "ijkl,lkmn->minj",
    "a_ij, b_j -> c_i": "ij,j->i",
    "long_ij, names_jk -> Out_ki": "ij,jk->ki",
    "a_*ik, b_*kj -> c_*ij": "uvik,uvkj->uvij",
    "a_i*, b_ji* -> c_j*": "iuv,jiuv->juv",
    "a_*, b_* -> c_*": "uv,uv->uv",
    "a_*,b_ij->c_*ij": "uv,ij->uvij",
}


def random_contraction(operation: str, seed: int) -> tuple[Pair, tuple[int, int]]:
    rng = np.random.default_rng([seed, len(operation), *operation.encode()])
    einsum = EXPRESSIONS[operation]
    left, out = einsum.split("->")
    a, b = left.split(",")
    sizes = {
        letter: int(rng.choice([1, 2, 3, 5, 8, 17, 31] if len(set(left)) < 5 else [1, 2, 3, 7])) for letter in left
    }

    def tensor(letters: str, may_repeat: bool) -> Tensor:
        size = tuple(1 if may_repeat and rng.random() < 0.15 else sizes[letter] for letter in letters)
        return Tensor((FIRST if rng.random() < 0.6 else LAST)[len(size)], size)

    ta, tb = tensor(a, True), tensor(b, True)
    full = dict.fromkeys(left, 1)
    for letters, t in ((a, ta), (b, tb)):
        for letter, n in zip(letters, t.size, strict=True):
            full[letter] = max(full[letter], n)
    size = tuple(full[letter] for letter in out)
    ty = Tensor((FIRST if rng.random() < 0.6 else LAST)[len(size)], size)

    def create(pair: Pair, threads: int) -> Any:
        return capi.BNNSFilterCreateLayerTensorContraction(
            capi.BNNSLayerParametersTensorContraction(
                operation=operation, alpha=pair.alpha, beta=pair.beta, iA_desc=pair.a.descriptor(),
                iB_desc=pair.b.descriptor(), o_desc=pair.y.descriptor(),
            ),
            capi.BNNSFilterParameters(n_threads=threads),
        )  # fmt: skip

    pair = Pair(
        ta, tb, ty, create, alpha=float(rng.choice([1.0, 0.5, -2.0])), beta=int(rng.integers(2)),
        batch=int(rng.integers(1, 5)), gap=int(rng.choice([0, 2])), einsum=einsum, seed=seed,
    )  # fmt: skip
    return pair, (int(rng.integers(2)), int(rng.integers(2)))


@pytest.mark.covers(
    "contract.parse", "contract.two.fwd", "contract.two.bwd", "contract.wild", "contract.size1", "contract.beta",
    "fn.BNNSFilterCreateLayerTensorContraction", *TWO_INPUT_ROWS,
)  # fmt: skip
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("operation", EXPRESSIONS)
def test_random_contractions(operation: str, seed: int) -> None:
    check(*random_contraction(operation, seed))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5])
def test_long_sums_of_few_rows_are_taken_in_parts(rows: int) -> None:
    """Weight gradients of few outputs are sums over a large batch: one chain would be off by ten times the bound."""
    rng = np.random.default_rng(rows)
    x, dy = (rng.random((20000, n), dtype=np.float32) for n in (37, rows))
    layer = ob.FullyConnectedLayer(
        input=ob.Shape.vector(37), output=ob.Shape.vector(rows), weights=np.zeros((rows, 37), np.float32)
    )
    actual = layer.apply_backward(input=x, output_gradient=dy).weights
    expected = dy.astype(np.float64).T @ x
    assert_within(actual, expected, 5e-7 * expected, "weights_gradient")


@pytest.mark.parametrize("gap", [0, 5])
@pytest.mark.parametrize("shape", [(40, 64, 48, 33), (3, 200, 260, 150), (200, 3, 4, 5)])
def test_threads_and_batches_give_the_same_bits(shape: tuple[int, ...], gap: int) -> None:
    """Any number of threads, and any sample alone, give what the whole batch gives."""
    batch, m, k, n = shape
    results = []
    for threads in (1, 2, 3, 7):
        pair = Pair(first(m, k), first(k, n), first(m, n), product, batch=batch, gap=gap, alpha=0.3, threads=threads)
        results.append([pair.forward(), *pair.backward().values()])
    for other in results[1:]:
        for mine, theirs in zip(results[0], other, strict=True):
            assert_bitwise(mine, theirs, f"threads, {shape}")


def test_scratch_may_hold_anything() -> None:
    from openbnns import _core

    _core.set_scratch_poison(True)
    try:
        for seed in range(20):
            check(*random_product(1000 + seed))
        for operation in EXPRESSIONS:
            check(*random_contraction(operation, 99))
    finally:
        _core.set_scratch_poison(False)


@pytest.mark.covers("fn.BNNSFilterApplyTwoInput", "matmul.fwd")
def test_apply_two_input() -> None:
    pair = Pair(first(3, 4), first(4, 2), first(3, 2), product)
    s = pair.storage
    succeed(capi.BNNSFilterApplyTwoInput(pair.filter, s["a"].elements, s["b"].elements, s["y"].elements))
    np.testing.assert_allclose(s["y"].read(), pair.values["a"] @ pair.values["b"], rtol=1e-5, atol=1e-5)


def test_in_place_weights_are_read_at_each_call() -> None:
    w = np.ones((3, 2), np.float32)
    x, y = np.ones((2, 3), np.float32), np.empty((2, 2), np.float32)
    p = capi.BNNSLayerParametersBroadcastMatMul(
        alpha=1.0, iA_desc=first(2, 3).descriptor(), iB_desc=first(3, 2).descriptor(w), o_desc=first(2, 2).descriptor(),
        b_is_weights=True,
    )  # fmt: skip
    kept = created(capi.BNNSFilterCreateLayerBroadcastMatMul(p, None))
    shared = created(
        capi.BNNSFilterCreateLayerBroadcastMatMul(p, capi.BNNSFilterParameters(flags=capi.BNNSFlagsUseClientPtr))
    )
    w *= 2
    for made, value in ((kept, 3.0), (shared, 6.0)):
        succeed(capi.BNNSFilterApply(made, x, y))
        assert (y == value).all()


@pytest.mark.covers(
    "direct.matmul", "direct.matmul.ws", "direct.matmul.old", "fn.BNNSMatMul", "fn.BNNSMatMulWorkspaceSize",
    "fn.BNNSDirectApplyBroadcastMatMul",
)  # fmt: skip
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_direct_products(seed: int, half: bool) -> None:
    rng = np.random.default_rng(seed)
    m, n, k = (int(x) for x in rng.integers(1, 20, 3))
    trans_a, trans_b = bool(rng.integers(2)), bool(rng.integers(2))
    dtype = np.float16 if half else np.float32
    a = rng.standard_normal((2, 1, k, m) if trans_a else (2, 1, m, k)).astype(dtype)
    b = rng.standard_normal((3, n, k) if trans_b else (3, k, n)).astype(dtype)
    options = {"data_type": FLOAT16} if half else {}
    y = np.empty((2, 3, m, n), dtype)
    da, db, dy = (first(*t.shape, **options).descriptor(t) for t in (a, b, y))
    empty = [first(*t.shape, **options).descriptor() for t in (a, b, y)]
    assert capi.BNNSMatMulWorkspaceSize(trans_a, trans_b, 0.5, *empty, None) == 0
    left, right = (np.float64(t.swapaxes(-1, -2) if turn else t) for t, turn in ((a, trans_a), (b, trans_b)))
    expected = 0.5 * (left @ right)
    tolerance = 2e-2 if half else 1e-5
    for engine in ("native", "reference"):
        with ob.engine(engine):
            y[...] = np.nan
            succeed(capi.BNNSMatMul(trans_a, trans_b, 0.5, da, db, dy, ctypes.create_string_buffer(8), None))
            np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)
            y[...] = np.nan
            assert capi.BNNSDirectApplyBroadcastMatMul(trans_a, trans_b, 0.5, da, db, dy) is None
            np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)
