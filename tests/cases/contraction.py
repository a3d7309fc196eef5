"""Products and contractions with one input: with weights, of the input with itself, of one tensor, and Gram matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from helpers import COLUMN_MAJOR, FLOAT16, LAST_MAJOR_2D, ROW_MAJOR, Tensor, image
from openbnns import capi

from ._base import UnaryCase

_FIRST = {n: capi.BNNSDataLayout[f"BNNSDataLayout{n}DFirstMajor"] for n in range(1, 6)}
_LAST = {n: capi.BNNSDataLayout[f"BNNSDataLayout{n}DLastMajor"] for n in range(1, 6)}


@dataclass(frozen=True)
class ContractionCase(UnaryCase):
    """A matrix product (``transposes``), a contraction (``operation``) or, with neither, a Gram matrix."""

    operation: str = ""
    transposes: tuple[bool, bool] | None = None
    weights_first: bool = False
    alpha: float = 1.0
    terms: tuple[int, int, int] = (1, 1, 1)  # summands of an element of y, dx and dw (of one sample)

    @property
    def reductions(self) -> dict[str, int]:
        return {"y": self.terms[0], "dx": 2 * self.terms[1], "dw": self.terms[2] * self.batch}

    @property
    def kind(self) -> str:
        return "contract" if self.operation else "gram" if self.transposes is None else "matmul"

    @property
    def forward_rows(self) -> tuple[str, ...]:
        return ("fn.BNNSFilterApplyBatch", *self._rows("fwd"), *self.rows)

    @property
    def backward_rows(self) -> tuple[str, ...]:
        return ("fn.BNNSFilterApplyBackwardBatch", *self._rows("bwd"))

    def _rows(self, direction: str) -> tuple[str, ...]:
        if self.kind == "gram":
            return (f"gram.{direction}", "fn.BNNSFilterCreateLayerGram")
        if self.kind == "matmul":
            role = "quadratic" if self.w is None else "weightsA" if self.weights_first else "weightsB"
            return (f"matmul.{role}", "fn.BNNSFilterCreateLayerBroadcastMatMul")
        role = "w" if self.w else "self" if "," in self.operation else ""
        return (*((f"contract.{role}.{direction}",) if role else ()), "fn.BNNSFilterCreateLayerTensorContraction")

    def create(self, w: Any, b: Any, threads: int) -> Any:
        parameters = self.filter_parameters(threads)
        x, y = self.x.descriptor(), self.y.descriptor()
        if self.kind == "gram":
            p: Any = capi.BNNSLayerParametersGram(alpha=self.alpha, i_desc=x, o_desc=y)
            return capi.BNNSFilterCreateLayerGram(p, parameters)
        operands = [x] if self.w is None else [x, self.w.descriptor(w)]
        if self.weights_first:
            operands.reverse()
        fields = {"alpha": self.alpha, "o_desc": y, **dict(zip(("iA_desc", "iB_desc"), operands, strict=False))}
        if self.kind == "contract":
            p = capi.BNNSLayerParametersTensorContraction(operation=self.operation, **fields)
            return capi.BNNSFilterCreateLayerTensorContraction(p, parameters)
        assert self.transposes is not None
        p = capi.BNNSLayerParametersBroadcastMatMul(
            transA=self.transposes[0], transB=self.transposes[1], quadratic=self.w is None,
            a_is_weights=self.weights_first, b_is_weights=self.w is not None and not self.weights_first, **fields,
        )  # fmt: skip
        return capi.BNNSFilterCreateLayerBroadcastMatMul(p, parameters)


def first(*size: int, **options: Any) -> Tensor:
    return Tensor(_FIRST[len(size)], size, **options)


def last(*size: int, **options: Any) -> Tensor:
    return Tensor(_LAST[len(size)], size, **options)


def matrix(rows: int, columns: int, **options: Any) -> Tensor:
    return Tensor(ROW_MAJOR, (columns, rows), **options)


def case(name: str, **options: Any) -> ContractionCase:
    return ContractionCase(name, **options)


PRODUCTS = [
    case("matmul-weights-b", batch=5, x=first(7, 5), w=first(5, 6), y=first(7, 6), transposes=(False, False),
         terms=(5, 6, 7)),
    case("matmul-weights-b-gaps", batch=4, x=first(33, 17), w=first(40, 17), y=first(33, 40), transposes=(False, True), gap=3,
         alpha=0.5, terms=(17, 40, 33)),
    case("matmul-weights-a-copied", batch=3, x=first(5, 6), w=first(5, 7), y=first(7, 6), transposes=(True, False),
         weights_first=True, client_pointer=False, terms=(5, 7, 6)),
    case("matmul-weights-a-large", batch=3, x=first(2, 64, 48), w=first(80, 64), y=first(2, 80, 48), alpha=1.5,
         transposes=(False, False), weights_first=True, terms=(64, 80, 96)),
    case("matmul-weights-padded", batch=3, x=matrix(7, 5, stride=(1, 9)), w=Tensor(COLUMN_MAJOR, (5, 6), (2, 20)),
         y=Tensor(LAST_MAJOR_2D, (7, 6), (1, 8)), transposes=(False, False), gap=5, terms=(5, 6, 7)),
    case("matmul-weights-broadcast", batch=2, x=first(1, 5, 6), w=first(3, 6, 4), y=first(3, 5, 4), transposes=(False, False),
         terms=(6, 12, 5)),
    case("matmul-weights-half", batch=2, x=first(5, 6, data_type=FLOAT16), w=first(6, 4, data_type=FLOAT16), trains=False,
         y=first(5, 4, data_type=FLOAT16), transposes=(False, False), terms=(6, 4, 5)),
    case("matmul-quadratic", batch=3, x=first(7, 7), y=first(7, 7), transposes=(False, False), terms=(7, 7, 0)),
    case("matmul-quadratic-left", batch=2, x=first(3, 13, 5), y=first(3, 13, 13), transposes=(False, True), alpha=0.3, gap=2,
         terms=(5, 13, 0)),
    case("matmul-quadratic-right", batch=2, x=matrix(40, 33), y=matrix(33, 33), transposes=(True, False), terms=(40, 33, 0)),
]  # fmt: skip

CONTRACTIONS = [
    case("contract-weights", batch=4, x=first(6, 5), w=first(5, 3, 2), y=first(2, 6, 3), operation="a_ij, w_jkl -> c_lik",
         terms=(5, 6, 6)),
    case("contract-weights-first", batch=3, x=last(6, 5), w=last(6, 3), y=last(5, 3), operation="w_ik, a_ij -> c_jk", gap=3,
         weights_first=True,
        terms=(6, 3, 5)),
    case("contract-weights-star", batch=2, x=first(4, 3, 5), w=first(3, 5, 2), y=first(4, 3, 2),
         operation="x_*j, w_*jk -> y_*k", rows=("contract.wild",), terms=(5, 2, 4)),
    case("contract-weights-scale", batch=3, x=image(4, 5, 6), w=Tensor(capi.BNNSDataLayoutVector, (4,)), y=image(4, 5, 6),
         operation="x_ijc, w_c -> y_ijc", terms=(1, 1, 30)),
    case("contract-self", batch=2, x=first(6, 7), y=first(6, 6), operation="x_ij, x_kj -> g_ik", alpha=0.7, terms=(7, 6, 0)),
    case("contract-self-chain", batch=3, x=first(5, 5), y=first(5, 5), operation="x_ij, x_jk -> y_ik", gap=1, terms=(5, 5, 0)),
    case("contract-self-square", batch=2, x=first(5, 7), y=first(5), operation="x_ij, x_ij -> y_i", terms=(7, 1, 0)),
    case("contract-gram", batch=2, x=image(3, 4, 5), y=matrix(3, 3), operation="x_*ijf, x_*ijc -> G_*fc",
         rows=("contract.wild",), terms=(20, 3, 0)),
    case("contract-permute", batch=3, x=first(4, 18, 37), y=first(37, 4, 18), operation="a_ijk -> c_kij",
         rows=("contract.permute",), gap=4, terms=(1, 1, 0)),
    case("contract-permute-image", batch=2, x=image(3, 4, 5), y=first(3, 4, 5), operation="a_xyc -> b_cyx", alpha=2.0,
         terms=(1, 1, 0)),
    case("contract-copy", batch=2, x=first(3, 5), y=first(3, 5), operation="src_* -> dest_*", rows=("contract.wild",),
         terms=(1, 1, 0)),
    case("contract-sum", batch=2, x=first(9, 21, 6), y=first(21), operation="a_ijk -> c_j", terms=(54, 1, 0)),
    case("contract-diagonal", batch=3, x=first(5, 5, 3), y=first(3, 5), operation="a_iij -> c_ji", terms=(1, 1, 0),
         mostly_zero=frozenset({"dx"})),
]  # fmt: skip

GRAMS = [
    case("gram-image", batch=3, x=image(5, 6, 7), y=matrix(5, 5), alpha=2.0, gap=3, terms=(42, 5, 0)),
    case("gram-large", batch=2, x=image(33, 20, 17), y=matrix(33, 33), terms=(340, 33, 0)),
    case("gram-padded", batch=2, x=image(4, 3, 5, stride=(1, 6, 20)), y=Tensor(COLUMN_MAJOR, (4, 4), (1, 6)),
         terms=(15, 4, 0)),
    case("gram-first-major", batch=2, x=first(3, 4, 5), y=first(5, 5), alpha=0.5, terms=(12, 5, 0)),
    case("gram-leading", batch=2, x=last(2, 3, 4, 5), y=last(2, 5, 5), terms=(12, 5, 0)),
]  # fmt: skip

CASES = PRODUCTS + CONTRACTIONS + GRAMS
