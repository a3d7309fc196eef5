"""Matrix products and contractions with two inputs, their calls, classes and messages; one-input forms are in cases."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases._base import created, succeed
from helpers import EPSILON, FLOAT16, INT8, Storage, Tensor, assert_bitwise, assert_within, image, vector
from openbnns import capi

FIRST = {n: capi.BNNSDataLayout[f"BNNSDataLayout{n}DFirstMajor"] for n in range(1, 8)}
LAST = {n: capi.BNNSDataLayout[f"BNNSDataLayout{n}DLastMajor"] for n in range(1, 8)}
TWO_INPUT_ROWS = (
    "fn.BNNSFilterApplyTwoInputBatch",
    "fn.BNNSFilterApplyBackwardTwoInputBatch",
)


def first(*size: int, **options: Any) -> Tensor:
    return Tensor(FIRST[len(size)], size, **options)


@dataclass
class Pair:
    """A filter with two inputs and its memory: tensors in logical order, which is that of size[] here."""

    a: Tensor
    b: Tensor
    y: Tensor
    create: Callable[[Pair, int], Any]
    alpha: float = 1.0
    beta: int = 0
    batch: int = 1
    gap: int = 0
    einsum: str = ""  # of one sample
    seed: int = 0
    threads: int = 0
    values: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        tensors = {"a": self.a, "b": self.b, "y": self.y, "dy": self.y, "da": self.a, "db": self.b}
        self.values = {
            name: np.float32(rng.standard_normal((self.batch, *t.size))).astype(np.float64)
            for name, t in tensors.items()
        }
        self.storage = {
            name: Storage(t, self.batch, self.gap and self.gap + k, self.values[name])
            for k, (name, t) in enumerate(tensors.items())
        }
        self.filter = created(self.create(self, self.threads))

    def forward(self) -> np.ndarray[Any, Any]:
        s = self.storage
        s["y"].write(self.values["y"])
        succeed(
            capi.BNNSFilterApplyTwoInputBatch(
                self.filter, self.batch, s["a"].elements, s["a"].stride, s["b"].elements, s["b"].stride, s["y"].elements,
                s["y"].stride,
            )
        )  # fmt: skip
        return s["y"].read()

    def backward(
        self, wanted: tuple[str, ...] = ("da", "db"), flags: tuple[int, int] = (0, 0)
    ) -> dict[str, np.ndarray[Any, Any]]:
        s = self.storage
        for name in ("da", "db"):
            s[name].write(self.values[name])
        da = s["da"].descriptor(flags[0]) if "da" in wanted else None
        db = s["db"].descriptor(flags[1]) if "db" in wanted else None
        a = s["a"].elements if "db" in wanted else None  # each is needed for the gradient of the other
        b = s["b"].elements if "da" in wanted else None
        succeed(
            capi.BNNSFilterApplyBackwardTwoInputBatch(
                self.filter, self.batch, a, s["a"].stride, da, s["da"].stride, b, s["b"].stride, db, s["db"].stride, None, 0,
                s["dy"].descriptor(), s["dy"].stride, None, None,
            )
        )  # fmt: skip
        return {name: s[name].read() for name in ("da", "db")}

    def assert_rest_untouched(self) -> None:
        for name in ("a", "b", "dy"):
            self.storage[name].assert_unchanged(name)
        for name in ("y", "da", "db"):
            self.storage[name].assert_guards_intact(name)

    # What NumPy says, independently of the library's reference.

    def expected(self) -> tuple[Any, Any, Any]:
        v = self.values
        left, out = self.einsum.split("->")
        a, b = left.split(",")

        def spread(x: Any, letters: str) -> Any:
            return np.broadcast_to(x, (self.batch, *(self.sizes[letter] for letter in letters)))

        def reduced(gradient: Any, like: Any) -> Any:
            axes = tuple(
                k for k, (n, m) in enumerate(zip(gradient.shape, like.shape, strict=True)) if m == 1 and n != 1
            )
            return gradient.sum(axis=axes, keepdims=True)

        def contract(x: Any, xs: str, w: Any, ws: str, ys: str) -> Any:
            lost = [letter for letter in ys if letter not in xs + ws]
            extra = np.ones([self.sizes[letter] for letter in lost])
            terms = (spread(x, xs), spread(w, ws), extra)
            text = f"Z{xs},Z{ws},{''.join(lost)}->Z{ys}"
            return np.einsum(text, *terms), np.einsum(text, *map(np.abs, terms))

        self.sizes = {}
        for letters, t in ((a, self.a), (b, self.b), (out, self.y)):
            for letter, n in zip(letters, t.size, strict=True):
                self.sizes[letter] = max(n, self.sizes.get(letter, 1))
        y = tuple(self.alpha * part for part in contract(v["a"], a, v["b"], b, out))
        da = tuple(self.alpha * reduced(part, v["a"]) for part in contract(v["dy"], out, v["b"], b, a))
        db = tuple(self.alpha * reduced(part, v["b"]) for part in contract(v["a"], a, v["dy"], out, b))
        return y, da, db


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


def product(pair: Pair, threads: int, transposes: tuple[bool, bool] = (False, False)) -> Any:
    return capi.BNNSFilterCreateLayerBroadcastMatMul(
        capi.BNNSLayerParametersBroadcastMatMul(
            alpha=pair.alpha, beta=pair.beta, transA=transposes[0], transB=transposes[1], iA_desc=pair.a.descriptor(),
            iB_desc=pair.b.descriptor(), o_desc=pair.y.descriptor(),
        ),
        capi.BNNSFilterParameters(n_threads=threads),
    )  # fmt: skip


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


def test_overlapping_memory_is_staged() -> None:
    """A result that lies in an operand's memory is computed apart and then written."""
    a, b = (np.random.default_rng(k).standard_normal((4, 5, 5)).astype(np.float32) for k in (1, 2))
    f = created(product(Pair(first(5, 5), first(5, 5), first(5, 5), product), 0))
    expected = a @ b
    memory = a.copy()
    succeed(capi.BNNSFilterApplyTwoInputBatch(f, 4, memory, 0, b, 0, memory, 0))
    np.testing.assert_allclose(memory, expected, rtol=1e-5, atol=1e-5)
    gradient = a.copy()  # the gradient of B replaces A
    dy = np.random.default_rng(3).standard_normal((4, 5, 5)).astype(np.float32)
    d = first(5, 5)
    succeed(
        capi.BNNSFilterApplyBackwardTwoInputBatch(
            f, 4, gradient, 0, None, 0, b, 0, d.descriptor(gradient), 0, None, 0, d.descriptor(dy), 0
        )
    )
    np.testing.assert_allclose(gradient, a.transpose(0, 2, 1) @ dy, rtol=1e-5, atol=1e-5)


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


def test_an_empty_batch_clears_the_weights_gradient() -> None:
    w, dw = np.ones((3, 2), np.float32), np.full((3, 2), 7.0, np.float32)
    p = capi.BNNSLayerParametersBroadcastMatMul(
        alpha=1.0, iA_desc=first(2, 3).descriptor(), iB_desc=first(3, 2).descriptor(w), o_desc=first(2, 2).descriptor(),
        b_is_weights=True,
    )  # fmt: skip
    f = created(capi.BNNSFilterCreateLayerBroadcastMatMul(p))
    empty = np.empty(0, np.float32)
    d = first(2, 2).descriptor(empty)
    succeed(capi.BNNSFilterApplyBackwardBatch(f, 0, empty, 0, None, 0, None, 0, d, 0, first(3, 2).descriptor(dw)))
    assert (dw == 0).all()


# The direct calls.


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


@pytest.mark.covers("direct.matmul", "direct.matmul.ws", "direct.matmul.old")
def test_direct_products_fail_cleanly() -> None:
    y = np.full((2, 2), 5.0, np.float32)
    a = np.ones((2, 3), np.float32)
    good = (first(2, 3).descriptor(a), first(3, 2).descriptor(np.ones((3, 2), np.float32)), first(2, 2).descriptor(y))
    bad = {
        "inputA is NULL": (None, *good[1:]),
        r"inputB.data_type is Int8, but matrix products are floating point": (
            good[0], first(3, 2, data_type=INT8).descriptor(np.ones((3, 2), np.int8)), good[2],
        ),
        r"2 x 3 matrix of inputA has 3 columns, but the 2 x 2 matrix of inputB has 2 rows": (
            good[0], first(2, 2).descriptor(np.ones((2, 2), np.float32)), good[2],
        ),
        r"output has rows, columns and leading axes \(3, 2\)": (*good[:2], first(3, 2).descriptor(np.ones((3, 2), np.float32))),
        r"inputA is 1DFirstMajor size \(6,\)": (first(6).descriptor(np.ones(6, np.float32)), *good[1:]),
    }  # fmt: skip
    for message, descriptors in bad.items():
        assert capi.BNNSMatMul(False, False, 1.0, *descriptors, None) == -1
        assert _matches(message)
        assert capi.BNNSMatMulWorkspaceSize(False, False, 1.0, *descriptors) < 0
        assert _matches(message)
        capi.BNNSDirectApplyBroadcastMatMul(False, False, 1.0, *descriptors)
        assert _matches("BNNSDirectApplyBroadcastMatMul") and _matches(message)
    no_data = (first(2, 3).descriptor(), *good[1:])
    assert capi.BNNSMatMulWorkspaceSize(False, False, 1.0, *no_data) == 0
    assert capi.BNNSMatMul(False, False, 1.0, *no_data, None) == -1 and _matches("inputA.data is NULL")
    short = (first(2, 3).descriptor(np.ones(5, np.float32)), *good[1:])
    assert capi.BNNSMatMul(False, False, 1.0, *short, None) == -1 and _matches("inputA.data")
    assert (y == 5.0).all()
    with pytest.raises(TypeError, match="transA must be a bool"):
        capi.BNNSMatMul("yes", False, 1.0, *good, None)
    with pytest.raises(TypeError, match="inputB must be a BNNSNDArrayDescriptor"):
        capi.BNNSMatMul(False, False, 1.0, good[0], a, good[2], None)


def _matches(pattern: str) -> bool:
    message = ob.last_error() or ""
    assert re.search(pattern, message), message
    return True


# Bad descriptions.


def matmul_problem(**changes: Any) -> dict[str, Any]:
    return {
        "alpha": 1.0, "iA_desc": first(2, 3).descriptor(), "iB_desc": first(3, 4).descriptor(),
        "o_desc": first(2, 4).descriptor(), **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beta": 0.5}, "beta is 0.5. Use 0 to overwrite the output, or 1"),
        ({"a_is_weights": True, "b_is_weights": True}, "so there is no input. Set at most one"),
        ({"a_is_weights": True, "quadratic": True}, "quadratic and a_is_weights are both set"),
        ({"b_is_weights": True}, "iB_desc.data is NULL, but this operand is weights"),
        ({"transB": True}, r"the transpose of the 3 x 4 matrix of iB_desc has 4 rows"),
        ({"o_desc": first(4, 2).descriptor()}, r"o_desc has .* \(4, 2\), but the product .* has \(2, 4\)"),
        ({"iA_desc": vector(6).descriptor()}, "needs rows and columns"),
        ({"quadratic": True}, r"2 x 3 matrix of iA_desc has 3 columns, but the 2 x 3 matrix of iA_desc has 2 rows"),
        (
            {"iA_desc": first(2, 2, 3).descriptor(), "iB_desc": first(5, 3, 4).descriptor()},
            r"leading axes of iA_desc are \(2,\) and those of iB_desc \(5,\): 2 and 5",
        ),
        ({"iB_desc": capi.BNNSNDArrayDescriptor()}, "iB_desc.layout is 0x0"),
    ],
)
def test_bad_products(changes: dict[str, Any], message: str) -> None:
    p = capi.BNNSLayerParametersBroadcastMatMul(**matmul_problem(**changes))
    assert capi.BNNSFilterCreateLayerBroadcastMatMul(p) is None
    assert _matches("^BNNSFilterCreateLayerBroadcastMatMul") and _matches(message)


@pytest.mark.covers("contract.parse")
@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (None, "operation is NULL"),
        ("", r"character 1 \(the end\): the name of an operand is missing"),
        ("a_ik b_kj -> c_ij", r'character 6 \(\'b\'\): expected "," or "->" after a_ik'),
        ("a_ik, b_kj", r"character 11 \(the end\): expected \"->\""),
        ("a_ik, b_kj -> c_iz", r'character 18 \(\'z\'\): index "z" of the output occurs in no operand'),
        ("a_ik, b_kj, d_jl -> c_il", r"character 11 \(','\): there are more than two operands"),
        ("a_i*k, b_kj -> c_ij", r"character 4 \('\*'\): `\*` stands between letters"),
        ("a_ik, b_kj -> c_ii", r'character 18 \(\'i\'\): index "i" occurs twice'),
        ("a_IK, b_kj -> c_ij", r'character 3 \(\'I\'\): "I" is not an index'),
        ("w_ik, w_kj -> c_ij", r"character 7 \('w'\): there are two operands named w"),
        ("a_ik, b_kj -> c_ij + d", r"character 20 \('\+'\): the expression goes on"),
        ("a_*k, b_kj -> c_kj", r"character 3 \('\*'\): `\*` of a_\*k is missing in the output"),
        ("w_ij -> c_ji", "the only operand of 'w_ij -> c_ji' is named w"),
        ("a_ik, b_kj -> c_ij", None),
        (b"a_ik, b_kj -> c_ij", None),
        (ctypes.create_string_buffer(b"a_ik, b_kj -> c_ij"), None),
        (ctypes.c_char_p(b"a_ik, b_kj -> c_ij"), None),
        ("a_ikx, b_kj -> c_ij", r"a_ikx has 3 axes, but the shape of one sample is \(2, 3\)"),
        ("a_ik, b_jk -> c_ij", r'the size of index "k" is 3 in a_ik but 4 in b_jk'),
        ("a_ik, b_kj -> c_ji", r'the size of index "j" is 4 in b_kj but 2 in c_ji'),
        ("a_ik, w_kj -> c_ij", "iB_desc.data is NULL, but this operand is weights"),
    ],
)
def test_expressions(operation: Any, message: str | None) -> None:
    made = capi.BNNSFilterCreateLayerTensorContraction(
        capi.BNNSLayerParametersTensorContraction(operation=operation, **matmul_problem())
    )
    if message is None:
        assert made is not None, ob.last_error()
        return
    assert made is None and _matches("^BNNSFilterCreateLayerTensorContraction: ") and _matches(message)


def test_expressions_of_impossible_type() -> None:
    p = capi.BNNSLayerParametersTensorContraction(operation=3.5, **matmul_problem())
    with pytest.raises(TypeError, match="operation must be a string"):
        capi.BNNSFilterCreateLayerTensorContraction(p)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (first(3, 4), first(4, 4), "needs two axes to sum over and one of channels"),
        (image(3, 4, 5), first(4, 4), r"the Gram matrix of the 3 channels .* has the axes \(3, 3\)"),
        (image(3, 4, 5), first(3, 3, 1), r"has the axes \(3, 3\)"),
    ],
)
def test_bad_grams(x: Tensor, y: Tensor, message: str) -> None:
    p = capi.BNNSLayerParametersGram(alpha=1.0, i_desc=x.descriptor(), o_desc=y.descriptor())
    assert capi.BNNSFilterCreateLayerGram(p) is None and _matches(message)


def test_bad_calls_change_nothing() -> None:
    pair = Pair(first(3, 4), first(4, 2), first(3, 2), product, batch=2)
    s, f, d = pair.storage, pair.filter, {name: x.descriptor() for name, x in pair.storage.items()}
    a, b, y = (s[name].elements for name in ("a", "b", "y"))
    forward = capi.BNNSFilterApplyTwoInputBatch
    backward = capi.BNNSFilterApplyBackwardTwoInputBatch
    wrong_type = first(3, 4, data_type=FLOAT16).descriptor(np.zeros(24, np.float16))
    bad: list[tuple[Callable[[], int], str]] = [
        (lambda: forward(f, 2, None, 0, b, 0, y, 0), "BNNSFilterApplyTwoInputBatch: inA is NULL"),
        (lambda: forward(f, 2, a, 0, None, 0, y, 0), "inB is NULL"),
        (lambda: forward(f, 2, a, 0, b, 0, None, 0), "out is NULL"),
        (lambda: forward(f, 3, a, 0, b, 0, y, 0), "inA holds"),
        (lambda: forward(f, 2, a, 0, b, 0, y, 3), "out_stride is 3, but one sample spans 6"),
        (lambda: forward(f, -1, a, 0, b, 0, y, 0), "batch_size is -1"),
        (lambda: forward(None, 2, a, 0, b, 0, y, 0), "filter is NULL"),
        (lambda: forward(f, 2, a, -3, b, 0, y, 0), "inA_stride is -3"),
        (
            lambda: capi.BNNSFilterApplyBatch(f, 2, a, 0, y, 0),
            "Use BNNSFilterApplyTwoInput or BNNSFilterApplyTwoInputBatch",
        ),
        (lambda: capi.BNNSFilterApply(f, a, y), "Use BNNSFilterApplyTwoInput"),
        (
            lambda: capi.BNNSFilterApplyBackwardBatch(f, 2, a, 0, d["da"], 0, None, 0, d["dy"], 0),
            "Use BNNSFilterApplyBackwardTwoInputBatch",
        ),
        (lambda: backward(f, 2, None, 0, None, 0, b, 0, d["db"], 0, None, 0, d["dy"], 0), "inA is NULL, but inB_delta"),
        (lambda: backward(f, 2, a, 0, d["da"], 0, None, 0, None, 0, None, 0, d["dy"], 0), "inB is NULL, but inA_delta"),
        (lambda: backward(f, 2, a, 0, d["da"], 0, b, 0, d["db"], 0, None, 0, None, 0), "out_delta is NULL"),
        (
            lambda: backward(f, 2, a, 0, d["db"], 0, b, 0, None, 0, None, 0, d["dy"], 0),
            "inA_delta is 2DFirstMajor size",
        ),
        (lambda: backward(f, 2, a, 0, wrong_type, 0, b, 0, None, 0, None, 0, d["dy"], 0), "training works on Float32"),
        (
            lambda: backward(
                f, 2, a, 0, d["da"], 0, b, 0, first(4, 2).descriptor(s["da"].elements), 0, None, 0, d["dy"], 0
            ),
            "inA_delta and inB_delta share memory",
        ),
    ]
    for call, message in bad:
        assert call() == -1, message
        assert _matches(message)
    for name, storage in s.items():
        storage.assert_unchanged(name)
    capi.BNNSFilterDestroy(f)
    assert forward(f, 2, a, 0, b, 0, y, 0) == -1 and _matches("the filter has been destroyed")


def test_single_input_filters_refuse_two_inputs() -> None:
    p = capi.BNNSLayerParametersGram(alpha=1.0, i_desc=image(2, 2, 2).descriptor(), o_desc=first(2, 2).descriptor())
    f = created(capi.BNNSFilterCreateLayerGram(p))
    x, y = np.ones(8, np.float32), np.full(4, 3.0, np.float32)
    assert capi.BNNSFilterApplyTwoInput(f, x, x, y) == -1 and _matches("Use BNNSFilterApply or BNNSFilterApplyBatch")
    d = first(2, 2).descriptor(y)
    call = capi.BNNSFilterApplyBackwardTwoInputBatch
    assert call(f, 1, x, 0, None, 0, x, 0, None, 0, None, 0, d, 0) == -1 and _matches(
        "Use BNNSFilterApplyBackwardBatch"
    )
    gradient = image(2, 2, 2).descriptor(np.ones(8, np.float32))
    assert capi.BNNSFilterApplyBackwardBatch(f, 1, None, 0, gradient, 0, None, 0, d, 0) == -1
    assert _matches("the gradient of a tensor that meets itself depends on it") and (y == 3.0).all()


# The classes.


def numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


@pytest.mark.covers("swift.BroadcastMatrixMultiplyLayer", "swift.BinaryLayer")
@pytest.mark.parametrize("engine", ["native", "reference"])
def test_product_layer(engine: str) -> None:
    a, b, dy = numbers(5, 2, 3, 4), numbers(5, 6, 4), numbers(5, 2, 3, 6)
    layer = ob.BroadcastMatrixMultiplyLayer(
        input_a=ob.Shape([2, 3, 4]), input_b=ob.Shape([6, 4]), input_b_transposed=True, alpha=0.5
    )
    assert isinstance(layer, ob.BinaryLayer)
    with ob.engine(engine):
        y = layer.apply(a, b)
        np.testing.assert_allclose(y, 0.5 * a @ b[:, None].swapaxes(-1, -2), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(layer.apply(a[0], b[0]), y[0], rtol=1e-5, atol=1e-6)  # one sample
        gradients = layer.apply_backward(a, b, output_gradient=dy)
        np.testing.assert_allclose(gradients.input_a, 0.5 * dy @ b[:, None], rtol=1e-4, atol=1e-5)
        db = 0.5 * (dy.swapaxes(-1, -2) @ a).sum(1)
        np.testing.assert_allclose(gradients.input_b, db, rtol=1e-4, atol=1e-5)
        into = np.ones_like(b)
        alone = layer.apply_backward(a, None, None, dy, ob.skip, into, accumulate=True, batch_size=5)
        assert alone.input_a is None and alone.input_b is into
        np.testing.assert_allclose(into, 1 + db, rtol=1e-4, atol=1e-5)
        assert "input_b_transposed=True" in repr(layer)


@pytest.mark.covers("swift.BroadcastMatrixMultiplyLayer")
@pytest.mark.parametrize("first_is_weights", [True, False])
def test_product_layer_with_weights(first_is_weights: bool) -> None:
    w, x = numbers(3, 4), numbers(5, 4, 2) if first_is_weights else numbers(5, 2, 3)
    if first_is_weights:
        layer = ob.BroadcastMatrixMultiplyLayer(
            input_a=w, input_a_is_weights=True, input_b=ob.Shape([4, 2]),
            filter_parameters=capi.BNNSFilterParameters(flags=capi.BNNSFlagsUseClientPtr),
        )  # fmt: skip
        y, dy = layer.apply(input_b=x), numbers(5, 3, 2)
        gradients = layer.apply_backward(input_b=x, output_gradient=dy)
        np.testing.assert_allclose(gradients.input_a, (dy @ x.swapaxes(1, 2)).sum(0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(gradients.input_b, w.T @ dy, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(y, w @ x, rtol=1e-4, atol=1e-5)
        with pytest.raises(ob.LayerApplyError, match=r"apply: input_a is weights, which the layer holds. Leave it out"):
            layer.apply(w, x)
        with pytest.raises(
            ob.LayerApplyError, match="input_b is None, but the weights gradient needs the forward input"
        ):
            layer.apply_backward(output_gradient=dy)
    else:
        layer = ob.BroadcastMatrixMultiplyLayer(input_a=ob.Shape([2, 3]), input_b=w, input_b_is_weights=True)
        dy = numbers(5, 2, 4)
        gradients = layer.apply_backward(x, output_gradient=dy)
        np.testing.assert_allclose(layer.apply(x), x @ w, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(gradients.input_b, (x.swapaxes(1, 2) @ dy).sum(0), rtol=1e-4, atol=1e-5)
    assert ob.gradcheck(layer, verbose=False), str(ob.gradcheck(layer, verbose=False))


@pytest.mark.covers("swift.BroadcastMatrixMultiplyLayer")
def test_product_layer_that_accumulates_or_is_quadratic() -> None:
    x = numbers(3, 4, 4)
    layer = ob.BroadcastMatrixMultiplyLayer(input_a=x[0], is_quadratic=True, accumulates_to_output=True)
    output = np.ones((3, 4, 4), np.float32)
    assert layer.apply(x, output=output) is output
    np.testing.assert_allclose(output, 1 + x @ x, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.apply(x), x @ x, rtol=1e-4, atol=1e-5)  # a new output starts at zero
    dy = numbers(3, 4, 4, seed=1)
    expected = dy @ x.swapaxes(1, 2) + x.swapaxes(1, 2) @ dy
    gradients = layer.apply_backward(x, output_gradient=dy)
    np.testing.assert_allclose(gradients.input_a, expected, rtol=1e-4, atol=1e-5)
    assert gradients.input_b is None
    with pytest.raises(ob.LayerApplyError, match=r"input_b does not exist in this layer. Leave it out"):
        layer.apply(x, x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_a": ob.Shape([2, 3])}, "input_b is left out. Pass it, or set is_quadratic"),
        ({"input_a": ob.Shape([2, 3]), "input_b": ob.Shape([2, 3])}, "the 2 x 3 matrix of input_a has 3 columns"),
        (
            {"input_a": ob.Shape([2, 3]), "input_b": ob.Shape([3, 2]), "is_quadratic": True},
            "is_quadratic multiplies input_a by itself. Leave input_b out",
        ),
        (
            {"input_a": ob.Shape.vector(3), "input_b": ob.Shape([3, 2])},
            "input_a has the axes .3,., but a matrix product",
        ),
        (
            {"input_a": ob.Shape([2, 3]), "input_b": ob.Shape([3, 2]), "output": ob.Shape([3, 3])},
            "output has rows, columns and leading axes",
        ),
        (
            {"input_a": ob.Shape([2, 3]), "input_b": ob.Shape([3, 2]), "input_b_is_weights": True},
            "input_b.data is None, but this operand is weights",
        ),
    ],
)
def test_bad_product_layers(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ob.LayerCreationError, match=f"BroadcastMatrixMultiplyLayer: .*{message}"):
        ob.BroadcastMatrixMultiplyLayer(**options)


def test_bad_calls_of_product_layers() -> None:
    layer = ob.BroadcastMatrixMultiplyLayer(input_a=ob.Shape([2, 3]), input_b=ob.Shape([3, 2]))
    a, b = numbers(4, 2, 3), numbers(4, 3, 2)
    with pytest.raises(ob.LayerApplyError, match=r"input_b holds 3 sample.s., but input_a holds 4"):
        layer.apply(a, b[:3])
    with pytest.raises(ob.LayerApplyError, match=r"input_a has shape \(4, 3, 2\), but this layer expects \(2, 3\)"):
        layer.apply(b, b)
    with pytest.raises(ob.LayerApplyError, match="input_b is None, but it is needed"):
        layer.apply(a, None)
    with pytest.raises(ob.LayerApplyError, match="input_b is float64") as caught:
        layer.apply(a, b.astype(np.float64))
    assert isinstance(caught.value, TypeError)
    with pytest.raises(ob.LayerApplyError, match="input_a is None, but generating_input_b_gradient depends on it"):
        layer.apply_backward(None, b, output_gradient=numbers(4, 2, 2))


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_contraction_layer(engine: str) -> None:
    a, b = numbers(3, 4, 5), numbers(3, 6, 5)
    layer = ob.TensorContractionLayer(operation="a_ik, b_jk -> c_ji", input_a=a, input_b=b, alpha=2.0)
    dy = numbers(3, 6, 4)
    with ob.engine(engine):
        np.testing.assert_allclose(layer.apply(a, b), 2 * np.einsum("nik,njk->nji", a, b), rtol=1e-4, atol=1e-5)
        gradients = layer.apply_backward(a, b, output_gradient=dy)
        np.testing.assert_allclose(gradients.input_a, 2 * np.einsum("nji,njk->nik", dy, b), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(gradients.input_b, 2 * np.einsum("nji,nik->njk", dy, a), rtol=1e-4, atol=1e-5)
        assert ob.gradcheck(layer, verbose=False), str(ob.gradcheck(layer, verbose=False))


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize(
    ("operation", "options"),
    [
        ("a_ij, w_jk -> c_ik", {"input_a": ob.Shape([3, 4]), "input_b": numbers(4, 2)}),
        ("w_jk, a_ij -> c_ik", {"input_a": numbers(4, 2), "input_b": ob.Shape([3, 4])}),
        ("x_ij, x_jk -> c_ik", {"input_a": ob.Shape([4, 4])}),
        ("x_ij, x_kj -> c_ik", {"input_a": ob.Shape([3, 4])}),
        ("x_*ij -> c_*ji", {"input_a": ob.Shape([2, 3, 4])}),
        ("x_iij -> c_j", {"input_a": ob.Shape([3, 3, 4])}),
        ("x_ij, y_kl -> c_il", {"input_a": ob.Shape([3, 4]), "input_b": ob.Shape([2, 5])}),
        ("x_*i, y_*ij -> c_*j", {"input_a": ob.Shape([2, 3]), "input_b": ob.Shape([4, 1, 3, 5])}),
    ],
)
def test_gradients_of_contraction_layers(operation: str, options: dict[str, Any], engine: str) -> None:
    with ob.engine(engine):
        layer = ob.TensorContractionLayer(operation=operation, alpha=0.7, **options)
        assert ob.gradcheck(layer, verbose=False), str(ob.gradcheck(layer, verbose=False))


def test_bad_contraction_layers() -> None:
    shape = ob.Shape([2, 3])
    bad: list[tuple[dict[str, Any], str]] = [
        ({"operation": "a_ij b_jk", "input_a": shape}, r"TensorContractionLayer: .*character 6"),
        ({"operation": 3, "input_a": shape}, "operation must be a string, not int"),
        ({"operation": "a_ij, b_jk -> c_ik", "input_a": shape}, "input_b is left out, but it is the operand b_jk"),
        (
            {"operation": "a_ij -> c_ji", "input_a": shape, "input_b": shape},
            "has one tensor on the left. Leave input_b out",
        ),
        ({"operation": "a_ijk -> c_ji", "input_a": shape}, "a_ijk has 3 axes"),
    ]
    for options, message in bad:
        with pytest.raises(ob.LayerCreationError, match=message):
            ob.TensorContractionLayer(**options)


@pytest.mark.covers("swift.GramLayer", "gram.fwd", "gram.bwd")
@pytest.mark.parametrize("engine", ["native", "reference"])
def test_gram_layer(engine: str) -> None:
    x, dy = numbers(3, 4, 5, 6), numbers(3, 4, 4)
    with ob.engine(engine):
        layer = ob.GramLayer(input=x, alpha=0.5)
        flat = x.reshape(3, 4, 30)
        np.testing.assert_allclose(layer.apply(x), 0.5 * flat @ flat.swapaxes(1, 2), rtol=1e-4, atol=1e-5)
        expected = 0.5 * ((dy + dy.swapaxes(1, 2)) @ flat).reshape(x.shape)
        gradient = layer.apply_backward(x, output_gradient=dy).input
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)
        assert ob.gradcheck(layer, verbose=False), str(ob.gradcheck(layer, verbose=False))
    with pytest.raises(ob.LayerCreationError, match=r"GramLayer: output is .* the Gram matrix of the 4 channels"):
        ob.GramLayer(input=x, output=ob.Shape([3, 3]))


@pytest.mark.covers("direct.matmul", "direct.matmul.ws")
def test_matrix_multiplication_functions() -> None:
    a, b = numbers(2, 3, 4), numbers(5, 4)
    y = ob.apply_matrix_multiplication(a, b, input_b_transposed=True, alpha=2.0)
    np.testing.assert_allclose(y, 2 * a @ b.T, rtol=1e-4, atol=1e-5)
    into = np.empty((2, 3, 5), np.float32)
    assert ob.apply_matrix_multiplication(a, b.T, into) is into  # b.T is no C-order array: it is copied
    np.testing.assert_allclose(into, a @ b.T, rtol=1e-4, atol=1e-5)
    half = ob.apply_matrix_multiplication(a.astype(np.float16), b.astype(np.float16), input_b_transposed=True)
    assert half.dtype == np.float16
    assert ob.matrix_multiplication_workspace_size(a, b, input_b_transposed=True) == 0
    assert ob.matrix_multiplication_workspace_size(ob.Shape([2, 3]), ob.Shape([2, 3])) is None
    with pytest.raises(
        ob.LayerApplyError, match="the 3 x 4 matrix of input_a has 4 columns, but the 5 x 4 matrix of input_b"
    ):
        ob.apply_matrix_multiplication(a, b)
    with pytest.raises(ob.LayerApplyError, match=r"input_a.data_type is Int8, but matrix products are floating point"):
        ob.apply_matrix_multiplication(a.astype(np.int8), b, input_b_transposed=True)
    with pytest.raises(ob.LayerApplyError, match=r"output of shape .* is not C-contiguous"):
        ob.apply_matrix_multiplication(a, b, np.empty((5, 3, 2), np.float32).T, input_b_transposed=True)
