"""Fused chains with a normalization: all first layers, kinds, roles, missing parameters, activations, memory.

A case is made of a case of its first layer. Gradients are those of the first layer, and ``dbeta`` and ``dgamma``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import openbnns
from helpers import EPSILON, Array, Storage, Tensor, image, packed, vector
from openbnns import capi
from openbnns.parameters.normalization import Normalization
from openbnns.reference import normalization as reference

from . import arithmetic, convolution, fully_connected, transposed_convolution
from ._base import LIPSCHITZ, TRAINABLE, Act, Case, Values, created, succeed
from .arithmetic import C, P, S

KINDS = ("Batch", "Instance", "Layer", "Group")
ELEMENTWISE = tuple(act for act in TRAINABLE if "oftmax" not in act.name)


@dataclass(frozen=True)
class Norm:
    """A normalization. ``size`` is that of beta and gamma of a layer normalization; by default the sample's."""

    kind: str = "Batch"
    epsilon: float = 1e-3
    momentum: float = 0.9
    axis: int = 0
    groups: int = 1
    beta: bool = True
    gamma: bool = True
    moving: str = ""  # which moving statistics there are: "m", "v", "mv"
    size: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()  # of beta and gamma

    @property
    def filter_type(self) -> capi.BNNSFilterType:
        return capi.BNNSFilterType[f"BNNS{self.kind}Norm"]

    @property
    def settings(self) -> Normalization:
        return Normalization(
            int(self.filter_type),
            float(np.float32(self.epsilon)),
            float(np.float32(self.momentum)),
            self.axis,
            self.groups,
        )

    def tensor(self, sample: Tensor) -> Tensor:
        """The tensor of beta and gamma."""
        if self.kind != "Layer":
            return vector(sample.size[-1], stride=self.stride)
        return Tensor(sample.layout, self.size or sample.size, self.stride)


def canonical(values: Array) -> Array:
    """(N, W, H, C), the order of size[], to (N, C, H, W), and back."""
    return values.transpose(0, *range(values.ndim - 1, 0, -1))


@dataclass(frozen=True)
class FusedCase(Case):
    """y = f(normalize(first(x)))."""

    first: Any = None
    norm: Norm = Norm()
    training: bool = True
    y: Tensor = field(default_factory=lambda: vector(1))
    given: str = "xy"  # what backward is handed
    packed_deltas: bool = False

    @property
    def is_arithmetic(self) -> bool:
        return isinstance(self.first, arithmetic.ArithmeticCase)

    @property
    def chain(self) -> str:
        return str(self.first.id.split("-")[0])

    @property
    def slots(self) -> tuple[str, ...]:
        return ("dbeta", "dgamma") if self.is_arithmetic else ("dw", "db", "dbeta", "dgamma")

    @property
    def gradients(self) -> tuple[str, ...]:
        own = (*(("dbeta",) if self.norm.beta else ()), *(("dgamma",) if self.norm.gamma else ()))
        return (*self.first.gradients, *own)

    @property
    def inputs(self) -> int:
        return self.first.count if self.is_arithmetic else 1

    @property
    def forward_rows(self) -> tuple[str, ...]:
        multi = "MultiInput" if self.is_arithmetic else ""
        calls = ("fn.BNNSFilterCreateFusedLayer", f"fn.BNNSFusedFilterApply{multi}Batch")
        return (f"fused.{self.chain}_norm.fwd", f"fused.inputs{self.inputs}.fwd", *calls, *self.rows)

    @property
    def backward_rows(self) -> tuple[str, ...]:
        multi = "MultiInput" if self.is_arithmetic else ""
        active = () if self.activation.is_identity else ("fused.last_act",)
        return (
            f"fused.{self.chain}_norm.bwd", f"fused.inputs{self.inputs}.bwd", "fused.param_order",
            f"fn.BNNSFusedFilterApplyBackward{multi}Batch", *active, *self.rows,
        )  # fmt: skip

    def values(self, seed: int = 0) -> dict[str, Array]:
        rng = self.generator(seed + 100)
        values = replace(self.first, id=self.id, batch=self.batch).values(seed)
        affine = self.norm.tensor(self.first.y)

        def rounded(numbers: Array) -> Array:
            return np.float32(numbers).astype(np.float64)

        if self.norm.beta:
            values["beta"] = rounded(0.5 * rng.standard_normal((1, *affine.size)))
        if self.norm.gamma:
            values["gamma"] = rounded(1 + 0.5 * rng.standard_normal((1, *affine.size)))
        channels = self.first.y.size[-1]
        values["moving_mean"] = rounded(rng.standard_normal((1, channels)))
        values["moving_variance"] = rounded(rng.uniform(0.5, 2, (1, channels)))
        values["dy"] = rounded(rng.standard_normal((self.batch, *self.y.size)))
        return values

    def run(self, values: Values | None = None, threads: int = 0, batch: int | None = None) -> FusedRun:
        case = self if batch is None else replace(self, batch=batch)
        return FusedRun(case, case.values() if values is None else values, threads)

    # Bounds: errors of float32 carried through the formulas, from the first layer's own bound on.

    def _first(self) -> Any:
        return replace(self.first, batch=self.batch)

    def _boundary(self, values: Values) -> tuple[Array, Array]:
        """h and the error of h, canonical."""
        first = self._first()
        run = first.run(_of_first(values) | {"dy": np.zeros((self.batch, *first.y.size))})
        with openbnns.engine("reference"):
            run.forward()
        h = run.y.read()
        bound = first.forward_bound(_of_first(values) | {"dy": np.zeros_like(h)}, h)
        return canonical(h), canonical(bound)

    def _spread(self, values: Values, name: str, h: Array, absent: float) -> Array:
        """beta or gamma over a whole batch, canonical."""
        if name not in values:
            return np.full(h.shape, absent)
        numbers = canonical(values[name])
        if self.norm.kind != "Layer":
            numbers = numbers.reshape(1, -1, *[1] * (h.ndim - 2))
        return np.broadcast_to(numbers, h.shape)

    def _mean(self, numbers: Array) -> Array:
        """The mean over the set of every element."""
        n = self.norm.settings
        grouped = reference._grouped(n, numbers)
        return np.broadcast_to(reference._mean(n, grouped, numbers.ndim), grouped.shape).reshape(numbers.shape)

    def _normalized(self, values: Values) -> dict[str, Array]:
        """xhat, 1/deviation and their errors."""
        h, error = self._boundary(values)
        mean, channel = self._mean(h), (1, -1, *[1] * (h.ndim - 2))
        variance = self._mean((h - mean) ** 2)
        steady_mean = steady_variance = False
        if not self.training and self.norm.kind in ("Batch", "Instance"):
            if "m" in self.norm.moving:
                steady_mean, mean = True, np.broadcast_to(values["moving_mean"].reshape(channel), h.shape)
            if "v" in self.norm.moving:
                steady_variance = True
                variance = np.broadcast_to(values["moving_variance"].reshape(channel), h.shape)
        inverse = 1 / np.sqrt(variance + self.norm.settings.epsilon)
        xhat = (h - mean) * inverse
        shifted = error + EPSILON * np.abs(h) + (0 if steady_mean else self._mean(error))
        spread = (
            0.0 if steady_variance else inverse * self._mean(np.abs(xhat) * error) + inverse**2 * self._mean(error**2)
        )
        relative = spread + 4 * EPSILON
        xhat_error = inverse * shifted + np.abs(xhat) * relative + 2 * EPSILON * inverse * np.abs(h - mean)
        return {"h": h, "xhat": xhat, "inverse": inverse, "relative": relative, "xhat_error": xhat_error}

    def forward_bound(self, values: Values, y: Array) -> Array:
        s = self._normalized(values)
        gamma, beta = self._spread(values, "gamma", s["h"], 1.0), self._spread(values, "beta", s["h"], 0.0)
        error = np.abs(gamma) * s["xhat_error"] + 4 * EPSILON * (np.abs(gamma * s["xhat"]) + np.abs(beta))
        if not self.activation.is_identity:
            size = np.abs(gamma * s["xhat"] + beta) + abs(self.activation.alpha) + abs(self.activation.beta)
            error = LIPSCHITZ * error + 8 * EPSILON * size
        return 2 * canonical(error) + 8 * EPSILON * np.abs(y) + self.y.unit(y)

    def backward_bounds(self, values: Values, y: Array) -> dict[str, Array]:
        s, dy = self._normalized(values), canonical(values["dy"])
        gamma, beta = self._spread(values, "gamma", s["h"], 1.0), self._spread(values, "beta", s["h"], 0.0)
        slope = 1.0 if self.activation.is_identity else LIPSCHITZ
        size = slope * np.abs(dy)
        error = (0.0 if self.activation.is_identity else 8 * EPSILON) * size
        if self.activation.name == "GELUApproximationSigmoid":  # from z: its error counts too
            z_error = np.abs(gamma) * s["xhat_error"] + 4 * EPSILON * (np.abs(gamma * s["xhat"]) + np.abs(beta))
            error = error + LIPSCHITZ * np.abs(dy) * z_error
        xhat, products = np.abs(s["xhat"]), size * s["xhat_error"]
        bounds = {"dbeta": error + 2 * EPSILON * size, "dgamma": error * xhat + products + 4 * EPSILON * size * xhat}
        bounds = {name: self._summed(bound) for name, bound in bounds.items() if name in self.gradients}

        g, g_error = np.abs(gamma) * size, np.abs(gamma) * (error + 2 * EPSILON * size)
        mean_g, mean_gx = self._mean(g), self._mean(g * xhat)
        dh = s["inverse"] * (g + mean_g + xhat * mean_gx)  # a bound of its magnitude
        dh_error = s["inverse"] * (
            g_error + self._mean(g_error) + s["xhat_error"] * mean_gx
            + xhat * self._mean(g_error * xhat + g * s["xhat_error"])
        ) + dh * (s["relative"] + 8 * EPSILON)  # fmt: skip
        return {name: 2 * bound for name, bound in (bounds | self._first_bounds(values, dh, dh_error)).items()}

    def _summed(self, terms: Array) -> Array:
        """The errors of beta's and gamma's gradients, in the order of size[]."""
        if self.norm.kind != "Layer":
            return np.asarray(terms.sum(axis=(0, *range(2, terms.ndim)))[None])
        size = self.norm.tensor(self.first.y).size
        axes = tuple(k + 1 for k, n in enumerate(size) if n == 1)
        return canonical(terms).sum(axis=(0, *axes), keepdims=True)

    def _first_bounds(self, values: Values, dh: Array, error: Array) -> dict[str, Array]:
        first, sized = self._first(), canonical(dh)
        numbers = _of_first(values)
        if self.is_arithmetic:
            carried = sized + canonical(error) / (6 * EPSILON)
            y = canonical(self._boundary(values)[0])
            bounds: dict[str, Array] = first.backward_bounds(numbers | {"dy": carried}, y)
            return bounds
        carried = first._magnitudes(numbers | {"dy": sized}, canonical(error))
        rounded = first._magnitudes(numbers | {"dy": sized}, sized)
        return {name: carried[name] + first._rounding(name) * rounded[name] for name in first.gradients}


def _of_first(values: Values) -> dict[str, Array]:
    own = ("beta", "gamma", "moving_mean", "moving_variance", "dy")
    return {name: v for name, v in values.items() if name not in own}


class FusedRun:
    """A fused case, its filter and its memory."""

    def __init__(self, case: FusedCase, values: Values, threads: int = 0) -> None:
        self.case, first, gap = case, case.first, case.gap
        self.x: list[Storage] = []
        if case.is_arithmetic:
            for i, operand in enumerate(first.operands):
                if i == 1 and first.shared:
                    self.x.append(self.x[0])
                    continue
                sample = first.roles[i] == S
                self.x.append(
                    Storage(operand, case.batch if sample else 1, gap and gap + i if sample else 0, values[f"a{i}"])
                )
        else:
            self.x.append(Storage(first.x, case.batch, gap, values["x"]))
        self.w = Storage(first.w, values=values["w"]) if "w" in values else None
        self.b = Storage(first.b, values=values["b"]) if "b" in values else None
        affine = case.norm.tensor(first.y)
        self.beta = Storage(affine, values=values["beta"]) if "beta" in values else None
        self.gamma = Storage(affine, values=values["gamma"]) if "gamma" in values else None
        channels = vector(first.y.size[-1])
        moving = case.norm.moving
        self.moving_mean = Storage(channels, values=values["moving_mean"]) if "m" in moving else None
        self.moving_variance = Storage(channels, values=values["moving_variance"]) if "v" in moving else None
        self.y = Storage(case.y, case.batch, gap and gap + 1)
        self.dy = Storage(packed(case.y) if case.packed_deltas else case.y, case.batch, gap and gap + 3, values["dy"])
        self.filter = created(self.create(threads))

    @property
    def operands(self) -> list[Storage]:
        return self.x

    def create(self, threads: int = 0) -> Any:
        case, first = self.case, self.case.first
        if case.is_arithmetic:
            kind, layer = capi.BNNSArithmetic, first.parameters(self.x)
        else:
            layer = first.parameters(self.w and self.w.elements, self.b and self.b.elements)
            kind = {
                "conv": capi.BNNSConvolution, "tconv": capi.BNNSTransposedConvolution, "fc": capi.BNNSFullyConnected,
            }[case.chain]  # fmt: skip
        return capi.BNNSFilterCreateFusedLayer(
            2, [kind, case.norm.filter_type], [layer, self.normalization()], case.filter_parameters(threads)
        )

    def normalization(self) -> capi.BNNSLayerParametersNormalization:
        norm, none = self.case.norm, capi.BNNSNDArrayDescriptor
        return capi.BNNSLayerParametersNormalization(
            i_desc=self.case.first.y.descriptor(), o_desc=self.case.y.descriptor(),
            beta_desc=self.beta.descriptor() if self.beta else none(),
            gamma_desc=self.gamma.descriptor() if self.gamma else none(),
            moving_mean_desc=self.moving_mean.descriptor() if self.moving_mean else none(),
            moving_variance_desc=self.moving_variance.descriptor() if self.moving_variance else none(),
            momentum=norm.momentum, epsilon=norm.epsilon, activation=self.case.activation.struct,
            num_groups=norm.groups, normalization_axis=norm.axis,
        )  # fmt: skip

    @property
    def inputs(self) -> dict[str, Storage]:
        named = {f"x{i}": storage for i, storage in enumerate(self.x)}
        named |= {"w": self.w, "b": self.b, "beta": self.beta, "gamma": self.gamma, "dy": self.dy}
        return {name: storage for name, storage in named.items() if storage is not None}

    def forward(self, batch: int | None = None, training: bool | None = None) -> Array:
        count = self.case.batch if batch is None else batch
        training = self.case.training if training is None else training
        y = (self.y.elements, self.y.stride, training)
        if self.case.is_arithmetic:
            data, strides = [s.elements for s in self.x], [s.stride for s in self.x]
            succeed(capi.BNNSFusedFilterApplyMultiInputBatch(self.filter, count, len(data), data, strides, *y))
        else:
            succeed(capi.BNNSFusedFilterApplyBatch(self.filter, count, self.x[0].elements, self.x[0].stride, *y))
        return self.y.raw()

    def new_gradients(self, wanted: Collection[str] | None = None, old: Values | None = None) -> dict[str, Storage]:
        case, result = self.case, {}
        for k, name in enumerate(case.gradients if wanted is None else wanted):
            if name in ("dbeta", "dgamma"):
                tensor, batch = case.norm.tensor(case.first.y), 1
            elif case.is_arithmetic:
                i = int(name[2])
                tensor, batch = case.first.operands[i], case.batch if case.first.roles[i] == S else 1
            else:
                tensor, batch = case.first.gradient_tensor(name), case.batch if name == "dx" else 1
            tensor = packed(tensor) if case.packed_deltas else tensor
            gap = case.gap + 5 + k if case.gap and batch == case.batch and name[1] in "xa" else 0
            result[name] = Storage(tensor, batch, gap, None if old is None else old.get(name))
        return result

    def backward(
        self, wanted: Collection[str] | None = None, old: Values | None = None, into: dict[str, Storage] | None = None,
        batch: int | None = None,
    ) -> dict[str, Storage]:  # fmt: skip
        """Run backward into new memory; gradients that ``old`` has are accumulated onto it."""
        case, first = self.case, self.case.first
        result = self.new_gradients(wanted, old) if into is None else into
        described = {name: s.descriptor(int(old is not None and name in old)) for name, s in result.items()}
        slots = [described.get(name) for name in case.slots]
        count = case.batch if batch is None else batch
        y = self.y.elements if "y" in case.given and not case.activation.is_identity else None
        rest = (y, self.y.stride, self.dy.descriptor(), self.dy.stride, slots)
        with_x = "x" in case.given
        if not case.is_arithmetic:
            stride = result["dx"].stride if "dx" in result else 0
            x = self.x[0].elements if with_x or "dw" in result else None
            succeed(
                capi.BNNSFusedFilterApplyBackwardBatch(
                    self.filter, count, x, self.x[0].stride, described.get("dx"), stride, *rest
                )
            )
            return result
        deltas, strides = [], []
        for i, operand in enumerate(first.operands):
            name = "da0" if i == 1 and first.shared else f"da{i}"
            deltas.append(described.get(name, operand.descriptor()))  # no data: not computed
            strides.append(result[name].stride if name in result else 0)
        data, steps = [s.elements for s in self.x], [s.stride for s in self.x]
        succeed(
            capi.BNNSFusedFilterApplyBackwardMultiInputBatch(
                self.filter,
                count,
                first.count,
                data if with_x else None,
                steps if with_x else None,
                deltas,
                strides,
                *rest,
            )
        )
        return result


def case(name: str, first: Any, norm: Norm, **options: Any) -> FusedCase:
    """A chain of a case's layer and a normalization, with the batch, gaps and pointers of that case."""
    options.setdefault("batch", first.batch)
    options.setdefault("y", first.y)
    options.setdefault("gap", first.gap)
    options.setdefault("client_pointer", first.client_pointer)
    options.setdefault("packed_deltas", first.packed_deltas)
    zero = frozenset(first.mostly_zero) - {"y"}
    options.setdefault("couples_samples", norm.kind == "Batch")
    trains = options.get("training", True)
    return FusedCase(
        f"fused-{first.id}-{norm.kind}-{name}", first=first, norm=norm, trains=trains,
        mostly_zero=options.pop("mostly_zero", zero), **options,
    )  # fmt: skip


def norm_for(kind: str, channels: int, k: int = 0, planes: bool = True) -> Norm:
    """One of each kind, with some parameter missing now and then; without ``planes``, samples have one pixel."""
    groups = next(g for g in (3, 2, 1) if channels % g == 0)
    return Norm(
        kind, axis=k % 3 if planes else 0, groups=groups if kind == "Group" else 1, beta=k % 5 != 3, gamma=k % 7 != 4,
        moving=("", "mv", "m", "v")[k % 4], momentum=0.9 if k % 2 else 0.25,
    )  # fmt: skip


_FIRST = [
    convolution.case("3x3", 3, 6, (7, 9), (3, 3), batch=4, symmetric=(1, 1)),
    convolution.case("3x3-16", 16, 18, (10, 9), (3, 3), batch=5, symmetric=(1, 1), bias=False),
    convolution.case("1x1", 12, 24, (6, 5), (1, 1), batch=3, client_pointer=False),
    convolution.case("strided-grouped", 8, 12, (9, 8), (3, 2), step=(2, 2), groups=2, batch=3),
    convolution.case("depthwise", 6, 6, (8, 7), (3, 3), groups=6, batch=3, symmetric=(1, 1)),
    convolution.case("one-pixel", 5, 9, (3, 3), (3, 3), batch=7),
    transposed_convolution.case("2x2", 6, 9, (4, 5), (2, 2), step=(2, 2), batch=3),
    transposed_convolution.case("3x3", 5, 4, (5, 6), (3, 3), step=(2, 1), symmetric=(1, 1), batch=2),
    fully_connected.case("plain", 17, 12, 9),
    fully_connected.case("large", 65, 48, 33),
    arithmetic.case("Add", "Add", image(6, 5, 7), image(6, 5, 7), batch=4),
    arithmetic.case("Multiply-parameter", "Multiply", image(6, 5, 7), image(6, 1, 1), batch=4, roles=(S, P)),
    arithmetic.case("Square", "Square", image(4, 6, 5), batch=3),
    arithmetic.case(
        "MultiplyAdd", "MultiplyAdd", image(6, 5, 7), image(6, 5, 7), image(6, 5, 7), batch=4, roles=(S, P, C)
    ),
    arithmetic.case("Add-vector", "Add", vector(21), vector(21), batch=9),
]
EVERY_PAIR = [
    case(
        f"{k}",
        first,
        norm_for(kind, first.y.size[-1], k + j, first.y.count > first.y.size[-1]),
        activation=ELEMENTWISE[(3 * k + j) % len(ELEMENTWISE)],
    )
    for k, first in enumerate(_FIRST)
    for j, kind in enumerate(KINDS)
    # instance normalization of one pixel gives beta whatever comes in
    if not (kind == "Instance" and first.y.count == first.y.size[-1])
]
INFERENCE = [
    case(f"inference-{moving or 'none'}", first, Norm(kind, moving=moving), training=False, activation=act)
    for first in (_FIRST[0], _FIRST[8], _FIRST[10])
    for kind in ("Batch", "Instance", "Layer", "Group")
    for moving, act in (("", Act()), ("mv", Act("RectifiedLinear")), ("m", Act("Tanh")))
    if not (kind == "Instance" and first.y.count == first.y.size[-1])
]
ACTIVATIONS = [
    case(f"act-{act.name}", first, norm_for(KINDS[k % 4], first.y.size[-1], k), activation=act)
    for k, act in enumerate(ELEMENTWISE)
    for first in (_FIRST[10] if k % 2 else _FIRST[0],)
]
FUNCTIONS = [
    case("function", arithmetic.case(f, f, *(image(4, 5, 6),) * arithmetic.operand_count(f), batch=3),
         norm_for(KINDS[k % 4], 4, k), given="xy" if k % 2 or f not in arithmetic.WITHOUT_OPERANDS + arithmetic.FROM_OUTPUT
         else "y", activation=Act("RectifiedLinear") if k % 3 == 0 else Act())
    for k, f in enumerate(arithmetic.FUNCTIONS)
]  # fmt: skip
ROLES = [
    case("roles", arithmetic.case(f"{f}-{''.join(str(r)[4] for r in roles)}", f, *operands, batch=4, roles=roles),
         norm_for(KINDS[k % 4], 6, k))
    for k, (f, operands, roles) in enumerate([
        ("Add", (image(6, 4, 5), image(6, 4, 5)), (S, P)),
        ("Subtract", (image(6, 4, 5), image(6, 4, 5)), (C, S)),
        ("Multiply", (image(6, 4, 1), image(1, 4, 5)), (P, S)),
        ("Divide", (image(6, 4, 5), image(1, 1, 1)), (S, C)),
        ("MultiplyAdd", (image(6, 1, 1), image(6, 4, 5), image(6, 1, 1)), (P, S, P)),
        ("Select", (image(6, 4, 5), image(6, 4, 5), image(6, 4, 5)), (S, P, C)),
        ("Multiply", (vector(6), vector(6)), (S, P)),
        ("Multiply", (vector(6), vector(1)), (S, P)),
    ])
    if not (k % 4 == 1 and operands[0].layout == vector(1).layout)
]  # fmt: skip
SHARED = [
    case("shared", arithmetic.case("Multiply-shared", "Multiply", image(6, 4, 5), image(6, 4, 5), batch=3, shared=True),
         Norm("Batch")),
]  # fmt: skip
LAYER_PARAMETERS = [
    case(f"affine-{axis}-{'x'.join(map(str, size))}", _FIRST[0], Norm("Layer", axis=axis, size=size))
    for axis in (0, 1, 2)
    for size in ((9, 7, 6), (9, 1, 1), (1, 1, 6), (1, 7, 1), (1, 1, 1))
]
MEMORY = [
    case("memory", first, replace(norm_for(kind, first.y.size[-1], k), stride=stride), activation=Act("RectifiedLinear"))
    for k, (first, kind, stride) in enumerate([
        (convolution.case("gaps", 3, 6, (7, 9), (3, 3), batch=4, gap=3), "Batch", (2,)),
        (convolution.case("padded-images", 3, 4, (6, 7), (3, 3), batch=2, in_options={"stride": (1, 9, 60)},
                          out_options={"stride": (2, 14, 90)}, gap=5), "Group", ()),
        (convolution.case("padded-packed-deltas", 3, 4, (6, 7), (3, 3), batch=2, in_options={"stride": (1, 9, 60)},
                          out_options={"stride": (1, 8, 50)}, packed_deltas=True), "Instance", ()),
        (convolution.case("rotated-kernel", 3, 4, (6, 7), (3, 3), batch=2,
                          layout=capi.BNNSDataLayoutConvolutionWeightsOIHrWr), "Layer", ()),
        (transposed_convolution.case("gaps", 5, 6, (5, 6), (3, 3), batch=5, gap=3), "Batch", ()),
        (fully_connected.case("gaps", 13, 6, 5, gap=3), "Batch", (3,)),
        (arithmetic.case("gaps", "Multiply", image(6, 4, 5), image(6, 4, 5), batch=4, roles=(S, P), gap=2), "Batch", ()),
        (arithmetic.case("padded", "Add", image(6, 4, 5, stride=(1, 7, 40)), image(6, 4, 5), batch=3,
                         y=image(6, 4, 5, stride=(2, 10, 50)), gap=2), "Group", ()),
    ])
]  # fmt: skip

CASES = EVERY_PAIR + INFERENCE + ACTIVATIONS + FUNCTIONS + ROLES + SHARED + LAYER_PARAMETERS + MEMORY


# Chains drawn at random, over every parameter at once.


def _draw(rng: np.random.Generator, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def _pair(rng: np.random.Generator, low: int, high: int) -> tuple[int, int]:
    return int(rng.integers(low, high)), int(rng.integers(low, high))


def _random_convolution(rng: np.random.Generator, k: int, options: dict[str, Any]) -> Any:
    transposed = bool(rng.random() < 0.35)
    groups = 1 if transposed else _draw(rng, (1, 1, 2, 3))
    inputs, outputs = groups * int(rng.integers(1, 7)), groups * int(rng.integers(1, 7))
    if rng.random() < 0.2:
        outputs *= 8 // groups if 8 % groups == 0 else 1
    kernel, step, dilation = _pair(rng, 1, 4), _pair(rng, 1, 3), _pair(rng, 1, 3)
    options |= {"kernel": kernel, "step": step, "dilation": dilation, "bias": bool(rng.random() < 0.7)}
    options["layout"] = _draw(rng, (capi.BNNSDataLayoutConvolutionWeightsOIHW,) if groups > 1 else (
        capi.BNNSDataLayoutConvolutionWeightsOIHW, capi.BNNSDataLayoutConvolutionWeightsOIHrWr,
        capi.BNNSDataLayoutConvolutionWeightsIOHrWr, capi.BNNSDataLayoutConvolutionWeightsOIHW_Pack32,
    ))  # fmt: skip
    if not transposed:
        options["groups"] = groups
        if rng.random() < 0.5:
            options["symmetric"] = _pair(rng, 0, 3)
        else:
            options["pad"] = tuple(int(n) for n in rng.integers(0, 3, 4))
        size = tuple(dilation[i] * (kernel[i] - 1) + int(rng.integers(1, 9)) for i in (0, 1))
        return convolution.case(f"random-{k}", inputs, outputs, size, **options)
    return transposed_convolution.case(f"random-{k}", inputs, outputs, _pair(rng, 1, 6), **options)


def _random_arithmetic(rng: np.random.Generator, k: int, options: dict[str, Any]) -> Any:
    function = _draw(rng, [f for f in arithmetic.FUNCTIONS if f not in arithmetic.FLAT])
    count = arithmetic.operand_count(function)
    if rng.random() < 0.3:
        full = vector(int(rng.integers(1, 40)))
    else:
        full = image(int(rng.integers(1, 9)), *_pair(rng, 1, 8))
    operands, roles = [full], [S]
    for _ in range(count - 1):
        size = tuple(1 if rng.random() < 0.25 else n for n in full.size)
        operands.append(replace(full, size=size))
        roles.append(_draw(rng, (S, S, P, C)))
    order = rng.permutation(count)
    operands, roles = [operands[i] for i in order], [roles[i] for i in order]
    return arithmetic.case(f"random-{k}", function, *operands, roles=tuple(roles), **options)


def random_case(k: int) -> FusedCase:
    """Chain number ``k``."""
    rng = np.random.default_rng([20260, k])
    options: dict[str, Any] = {"batch": int(rng.integers(2, 8)), "client_pointer": bool(rng.random() < 0.6)}
    options["gap"] = _draw(rng, (0, 0, 3))
    which = rng.random()
    if which < 0.4:
        first = _random_convolution(rng, k, options)
    elif which < 0.6:
        first = fully_connected.case(
            f"random-{k}", int(rng.integers(1, 40)), int(rng.integers(1, 40)), bias=bool(rng.random() < 0.7),
            layout=_draw(rng, (capi.BNNSDataLayoutRowMajorMatrix, capi.BNNSDataLayoutColumnMajorMatrix)), **options,
        )  # fmt: skip
    else:
        first = _random_arithmetic(rng, k, options)
    sample = first.y
    kind = _draw(rng, KINDS)
    if kind == "Instance" and sample.count == sample.size[-1]:
        kind = "Batch"
    channels = sample.size[-1]
    divisors = [g for g in range(1, channels + 1) if channels % g == 0]
    norm = Norm(
        kind, epsilon=_draw(rng, (1e-3, 1e-2, 0.5)), momentum=float(rng.random()), axis=int(rng.integers(0, 3)),
        groups=_draw(rng, divisors) if kind == "Group" else 1, beta=bool(rng.random() < 0.8),
        gamma=bool(rng.random() < 0.8), moving=_draw(rng, ("", "mv", "mv", "m", "v")),
        size=tuple(1 if rng.random() < 0.4 else n for n in sample.size) if kind == "Layer" else (),
    )  # fmt: skip
    return case(
        f"{k}", first, norm, activation=_draw(rng, (Act(), Act(), *ELEMENTWISE)),
        packed_deltas=bool(rng.random() < 0.3),
    )  # fmt: skip


CONV = case("own", convolution.case("own", 3, 6, (6, 5), (3, 3), batch=4, symmetric=(1, 1)), Norm("Batch", moving="mv"),
            activation=Act("RectifiedLinear"))  # fmt: skip

ADD = case("own", arithmetic.case("own", "Add", image(6, 4, 5), image(6, 4, 5), batch=4), Norm("Batch"),
           activation=Act("RectifiedLinear"))  # fmt: skip
