"""The base of all case tables: a case describes a problem, a run gives it a filter and memory.

A run knows arrays by name: ``x, w, b, dy`` and gradients ``dx, dw, db`` for filters with one input; ``a0, a1, a2, dy``
and ``da0, da1, da2`` for arithmetic. Arrays are ``(batch, *size)`` in the order of ``size[]``; parameters have a batch
of 1.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import openbnns
from helpers import EPSILON, Array, Storage, Tensor, packed
from openbnns import capi
from openbnns.filters.base import Driving

Values = Mapping[str, Array]


@dataclass(frozen=True)
class Act:
    """An activation with its parameters. Every one used in the tables has slopes between -2 and 2."""

    name: str = "Identity"
    alpha: float = 0.0
    beta: float = 0.0

    @property
    def struct(self) -> capi.BNNSActivation:
        function = capi.BNNSActivationFunction[f"BNNSActivationFunction{self.name}"]
        return capi.BNNSActivation(function=function, alpha=self.alpha, beta=self.beta)

    @property
    def is_identity(self) -> bool:
        return self.name == "Identity"


LIPSCHITZ = 2.0

# Activations that may be fused into a layer that trains, with parameters that make all their branches common.
TRAINABLE = (
    Act("RectifiedLinear"), Act("LeakyRectifiedLinear", 0.2), Act("Sigmoid"), Act("Tanh"), Act("Linear", 1.5),
    Act("Clamp", -0.5, 0.8), Act("Softmax"), Act("HardSigmoid", 0.2, 0.5), Act("Softplus", 1.3, 0.7), Act("Softsign"),
    Act("ELU", 0.9), Act("ClampedLeakyRectifiedLinear", 0.1, 1.2), Act("LinearWithBias", 1.2, -0.3), Act("LogSoftmax"),
    Act("LogSigmoid"), Act("SELU"), Act("CELU", 1.3), Act("HardShrink", 0.4), Act("SoftShrink", 0.3), Act("TanhShrink"),
    Act("Threshold", 0.1, -0.2), Act("GELUApproximationSigmoid"),
)  # fmt: skip

# Fused in inference only.
INFERENCE_ONLY = (
    Act("ScaledTanh", 1.7, 0.6),
    Act("Abs"),
    Act("GELUApproximation", 0.7978845608, 0.044715),
    Act("PReLUPerChannel", 0.25),
    Act("HardSwish"),
    Act("SiLU"),
    Act("ReLU6"),
    Act("Erf"),
    Act("GELU"),
)


def act_rows(act: Act, kind: str) -> tuple[str, ...]:
    """Scoreboard rows of an activation; HardSwish and GELUApproximation2 are one function with two names."""
    names = ("HardSwish", "GELUApproximation2") if act.name in ("HardSwish", "GELUApproximation2") else (act.name,)
    return tuple(f"act.{name}.{kind}" for name in names)


def succeed(status: int) -> None:
    """A call of the C face must have worked."""
    assert status == 0, openbnns.last_error()


def created(made: Any) -> Any:
    """A filter must have been made."""
    assert made is not None, openbnns.last_error()
    return made


@dataclass(frozen=True)
class Case:
    """Everything about one sample problem."""

    id: str
    batch: int = 1
    activation: Act = Act()
    gap: int = 0  # 0: packed batches; else every batched tensor has its own batch stride with a gap
    client_pointer: bool = True
    trains: bool = True
    couples_samples: bool = False  # outputs of one sample depend on others
    mostly_zero: frozenset[str] = frozenset()  # results that are rightly mostly zero
    rows: tuple[str, ...] = ()  # rows beyond those that follow from the parameters

    def generator(self, stream: int = 0) -> np.random.Generator:
        return np.random.default_rng([zlib.crc32(self.id.encode()), stream])

    def filter_parameters(self, threads: int = 0) -> capi.BNNSFilterParameters:
        flags = capi.BNNSFlags.BNNSFlagsUseClientPtr if self.client_pointer else 0
        return capi.BNNSFilterParameters(flags=flags, n_threads=threads)

    # What a family provides.

    @property
    def forward_rows(self) -> tuple[str, ...]:
        raise NotImplementedError

    @property
    def backward_rows(self) -> tuple[str, ...]:
        raise NotImplementedError

    def values(self, seed: int = 0) -> dict[str, Array]:
        """Random inputs, ``dy`` among them, as the element types can hold them."""
        raise NotImplementedError

    def run(self, values: Values | None = None, threads: int = 0, batch: int | None = None) -> Any:
        raise NotImplementedError

    def forward_bound(self, values: Values, y: Array) -> Array:
        """Error that float32 arithmetic is allowed, per element."""
        raise NotImplementedError

    def backward_bounds(self, values: Values, y: Array) -> dict[str, Array]:
        raise NotImplementedError


def parameters(cases: Iterable[Case], rows: str = "") -> list[Any]:
    """Cases for ``pytest.mark.parametrize``; ``rows`` names the attribute with the rows that the test proves."""
    return [
        pytest.param(
            case, id=case.id, marks=[pytest.mark.covers(*getattr(case, rows))] if rows and getattr(case, rows) else []
        )
        for case in cases
    ]


@dataclass(frozen=True)
class UnaryCase(Case):
    """A filter with one input: x, y and, if it has them, weights and bias."""

    x: Tensor = field(default_factory=lambda: Tensor(openbnns.capi.BNNSDataLayout.BNNSDataLayoutVector, (1,)))
    y: Tensor = field(default_factory=lambda: Tensor(openbnns.capi.BNNSDataLayout.BNNSDataLayoutVector, (1,)))
    w: Tensor | None = None
    b: Tensor | None = None
    packed_deltas: bool = False  # gradients are packed although the tensors are not

    @property
    def reductions(self) -> dict[str, int]:
        """How many products are summed for one element of y, dx, dw and db."""
        raise NotImplementedError

    @property
    def gradients(self) -> tuple[str, ...]:
        """Gradients that the filter has."""
        return ("dx", *(("dw",) if self.w else ()), *(("db",) if self.b else ()))

    def gradient_tensor(self, name: str) -> Tensor:
        tensor = {"dx": self.x, "dw": self.w, "db": self.b}[name]
        assert tensor is not None
        return packed(tensor) if self.packed_deltas else tensor

    def create(self, w: Any, b: Any, threads: int) -> Any:
        """The filter; ``w`` and ``b`` are memory or None."""
        raise NotImplementedError

    def values(self, seed: int = 0) -> dict[str, Array]:
        rng = self.generator(seed)
        spread = 1.5 / np.sqrt(self.reductions["y"])
        values = {"x": self.x.rounded(rng.standard_normal((self.batch, *self.x.size)))}
        if self.w:
            values["w"] = self.w.rounded(spread * rng.standard_normal((1, *self.w.size)))
        if self.b:
            values["b"] = self.b.rounded(0.5 * rng.standard_normal((1, *self.b.size)))
        values["dy"] = np.float32(rng.standard_normal((self.batch, *self.y.size))).astype(np.float64)
        return values

    def run(self, values: Values | None = None, threads: int = 0, batch: int | None = None) -> UnaryRun:
        case = self if batch is None else replace(self, batch=batch)
        return UnaryRun(case, case.values() if values is None else values, threads)

    # Bounds. With s(...) the same sums over absolute values, float32 rounding of a sum of K products stays below
    # about sqrt(K) * epsilon * s; the activation multiplies errors by at most LIPSCHITZ.

    def _magnitudes(self, values: Values, dz: Array) -> dict[str, Array]:
        plain = replace(self, activation=Act(), x=replace(packed(self.x)), gap=0)
        plain = plain.in_float32()
        run = plain.run({name: np.abs(v) for name, v in values.items() if name != "dy"} | {"dy": dz})
        with openbnns.engine("reference"):
            run.forward()
            return {"y": run.y.read(), **{name: s.read() for name, s in run.backward().items()}}

    def in_float32(self) -> UnaryCase:
        """The same problem with float32 everywhere."""

        def plain(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else replace(tensor, data_type=openbnns.capi.BNNSDataType.BNNSDataTypeFloat32)

        x, y = plain(self.x), plain(self.y)
        assert x is not None and y is not None
        return replace(self, x=x, y=y, w=plain(self.w), b=plain(self.b))

    def _rounding(self, name: str) -> float:
        return EPSILON * (2.0 + 0.5 * np.sqrt(self.reductions[name]))

    def forward_bound(self, values: Values, y: Array) -> Array:
        z = self._magnitudes(values, np.zeros_like(values["dy"]))["y"]
        if self.activation.is_identity:
            return self._rounding("y") * z + self.y.unit(y)
        if self.activation.name in ("Softmax", "LogSoftmax"):  # coupled along size[0]
            z = np.broadcast_to(z.max(axis=1, keepdims=True), z.shape)
        return LIPSCHITZ * self._rounding("y") * z + 4 * EPSILON * (np.abs(y) + z) + self.y.unit(y)

    def backward_bounds(self, values: Values, y: Array) -> dict[str, Array]:
        dz = np.abs(values["dy"])
        if self.activation.name == "Softmax":
            dz = y * (dz + np.sum(dz * y, axis=1, keepdims=True))
        elif self.activation.name == "LogSoftmax":
            dz = dz + np.exp(y) * np.sum(dz, axis=1, keepdims=True)
        elif self.activation.name == "GELUApproximationSigmoid":  # from z, computed anew: its error counts too
            z = self._magnitudes(values, dz)["y"]
            dz = dz * (LIPSCHITZ + z * self._rounding("y") / EPSILON)
        elif not self.activation.is_identity:
            dz = LIPSCHITZ * dz
        scale = self._magnitudes(values, np.float32(dz).astype(np.float64))
        slope = 0.0 if self.activation.is_identity else 4 * EPSILON
        return {name: (self._rounding(name) + slope) * scale[name] for name in self.gradients}


class UnaryRun:
    """A case with one input, its filter and its memory."""

    def __init__(self, case: UnaryCase, values: Values, threads: int = 0) -> None:
        self.case = case
        gap = case.gap
        self.x = Storage(case.x, case.batch, gap, values["x"])
        self.y = Storage(case.y, case.batch, gap and gap + 1)
        self.dy = Storage(
            packed(case.in_float32().y) if case.packed_deltas else case.in_float32().y, case.batch, gap and gap + 3
        )
        self.dy.write(values["dy"])
        self.w = Storage(case.w, values=values["w"]) if case.w else None
        self.b = Storage(case.b, values=values["b"]) if case.b else None
        self.filter = created(case.create(self.w and self.w.elements, self.b and self.b.elements, threads))

    @property
    def inputs(self) -> dict[str, Storage]:
        """Everything that calls only read."""
        named = {"x": self.x, "w": self.w, "b": self.b, "dy": self.dy}
        return {name: storage for name, storage in named.items() if storage is not None}

    def forward(self, batch: int | None = None) -> Array:
        """Run forward; the output as it is stored."""
        count = self.case.batch if batch is None else batch
        succeed(
            capi.BNNSFilterApplyBatch(
                self.filter, count, self.x.elements, self.x.stride, self.y.elements, self.y.stride
            )
        )
        return self.y.raw()

    def new_gradients(self, wanted: Collection[str] | None = None, old: Values | None = None) -> dict[str, Storage]:
        """Memory for gradients, holding ``old`` values or NaN."""
        case, result = self.case, {}
        for name in case.gradients if wanted is None else wanted:
            batch, gap = (case.batch, case.gap and case.gap + 2) if name == "dx" else (1, 0)
            result[name] = Storage(case.gradient_tensor(name), batch, gap, None if old is None else old[name])
        return result

    def given(self) -> tuple[Any, Any]:
        """``in`` and ``out`` of a backward call."""
        return self.x.elements, None if self.case.activation.is_identity else self.y.elements

    def backward(
        self,
        wanted: Collection[str] | None = None,
        old: Values | None = None,
        into: dict[str, Storage] | None = None,
        batch: int | None = None,
    ) -> dict[str, Storage]:
        """Run backward into new memory; with ``old`` the gradients are accumulated onto it."""
        result = self.new_gradients(wanted, old) if into is None else into
        described = {name: storage.descriptor(int(old is not None)) for name, storage in result.items()}
        x, y = self.given()
        dx_stride = result["dx"].stride if "dx" in result else 0
        succeed(
            capi.BNNSFilterApplyBackwardBatch(
                self.filter,
                self.case.batch if batch is None else batch,
                x,
                self.x.stride,
                described.get("dx"),
                dx_stride,
                y,
                self.y.stride,
                self.dy.descriptor(),
                self.dy.stride,
                described.get("dw"),
                described.get("db"),
            )
        )
        return result


@dataclass(frozen=True)
class Row:
    """A filter for test_contract.py: how to make it, or the layer that has it."""

    id: str
    make: Callable[[], Any]
    calls: Driving = None  # other than those that drive such a filter by default
    couples_samples: bool = False  # results of one sample depend on others
    draws: bool = False  # every forward call draws other random numbers

    def trial(self, batch: int = 3, gap: int = 0) -> Any:
        """A filter with memory for a batch; see trials.py."""
        from trials import Trial

        made = self.make()
        return made if hasattr(made, "set_threads") else Trial(self, made, batch, gap)


@dataclass(frozen=True)
class Results:
    """Results of a case: the inputs, the output as stored, the gradients as float64."""

    values: Values
    y: Array
    gradients: dict[str, Array]


@lru_cache(maxsize=64)
def native(case: Case) -> Results:
    """The native engine's results."""
    assert openbnns.current_engine() == "native", "the compiled core is missing: there is nothing to compare"
    values = case.values()
    run = case.run(values)
    y = run.forward()
    gradients = {name: storage.read() for name, storage in run.backward().items()} if case.trains else {}
    return Results(values, y, gradients)


@lru_cache(maxsize=64)
def reference(case: Case) -> Results:
    """The reference engine's; its backward starts from the native output, as a caller's would."""
    values = case.values()
    run = case.run(values)
    with openbnns.engine("reference"):
        y = run.forward()
        if not case.trains:
            return Results(values, y, {})
        if case.activation != Act():
            run.y.elements[run.y.places] = native(case).y
        return Results(values, y, {name: storage.read() for name, storage in run.backward().items()})


def assert_trustworthy(case: Case, name: str, expected: Any) -> None:
    """Comparing zeros with zeros proves nothing: most results must differ from 0, or the case must say why not."""
    assert np.isfinite(expected).all(), f"{case.id}: {name} is not finite, so NaN might be compared with NaN"
    zeros = float(np.mean(expected == 0))
    if name not in case.mostly_zero:
        assert zeros <= 0.75, (
            f"{case.id}: {zeros:.0%} of {name} is zero; choose better values or list it in mostly_zero"
        )
