"""Matrix products and contractions with two inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cases._base import created, succeed
from helpers import Storage, Tensor
from openbnns import capi

FIRST = {n: capi.BNNSDataLayout[f"BNNSDataLayout{n}DFirstMajor"] for n in range(1, 8)}


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


def product(pair: Pair, threads: int, transposes: tuple[bool, bool] = (False, False)) -> Any:
    return capi.BNNSFilterCreateLayerBroadcastMatMul(
        capi.BNNSLayerParametersBroadcastMatMul(
            alpha=pair.alpha, beta=pair.beta, transA=transposes[0], transB=transposes[1], iA_desc=pair.a.descriptor(),
            iB_desc=pair.b.descriptor(), o_desc=pair.y.descriptor(),
        ),
        capi.BNNSFilterParameters(n_threads=threads),
    )  # fmt: skip
