"""Normalizations: every kind, axis and number of groups, parameters present and absent, layouts, types and strides."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

import openbnns
from helpers import BFLOAT16, EPSILON, FLOAT16, FLOAT32, IMAGE, INT8, VECTOR, Array, Storage, Tensor, vector
from openbnns import capi

from ._base import Act, created, succeed

PLAIN = Act()
KINDS = {
    "batch": capi.BNNSBatchNorm, "instance": capi.BNNSInstanceNorm, "layer": capi.BNNSLayerNorm,
    "group": capi.BNNSGroupNorm,
}  # fmt: skip


@dataclass(frozen=True)
class NormalizationCase:
    """One normalization on one batch. Sizes of x are (channels, height, width), or (channels,) for vectors."""

    kind: str = "batch"
    size: tuple[int, ...] = (3, 4, 5)
    batch: int = 4
    axis: int = 0
    groups: int = 1
    beta: tuple[int, ...] | None = ()  # None: absent; (): the usual shape; else channels, height, width
    gamma: tuple[int, ...] | None = ()
    moving: str = ""  # any of m (mean) and v (variance)
    momentum: float = 0.8
    epsilon: float = 1e-3
    activation: Act = PLAIN
    gap: int = 0
    strided: bool = False
    x_type: Any = FLOAT32
    y_type: Any = FLOAT32
    delta_type: Any = FLOAT32
    client_pointer: bool = True
    offset: float = 0.5
    spread: float = 1.0

    @property
    def id(self) -> str:
        size = "x".join(map(str, self.size))
        parts = [self.kind, f"{self.batch}x{size}"]
        parts += [f"axis{self.axis}"] * (self.kind == "layer") + [f"groups{self.groups}"] * (self.kind == "group")
        for name, shape in (("beta", self.beta), ("gamma", self.gamma)):
            parts += [f"no-{name}"] * (shape is None) + [f"{name}{shape}"] * bool(shape)
        parts += [f"moving-{self.moving}"] * bool(self.moving) + [self.activation.name] * (
            not self.activation.is_identity
        )
        parts += [f"gap{self.gap}"] * bool(self.gap) + ["strided"] * self.strided
        parts += [
            f"{n}-{t.name[12:]}" for n, t in (("x", self.x_type), ("y", self.y_type), ("d", self.delta_type)) if t != FLOAT32
        ]  # fmt: skip
        return "-".join([*parts, *["copied"] * (not self.client_pointer), *[f"at{self.offset:g}"] * (self.offset > 10)])

    @property
    def rows(self) -> tuple[str, ...]:
        names = ["fn.BNNSFilterCreateLayerNormalization", "fn.BNNSNormalizationFilterApplyBatch"]
        names += [f"norm.layer.axis{self.axis}"] * (self.kind == "layer" and len(self.size) == 3)
        names += ["norm.vector"] * (len(self.size) == 1) + [f"norm.{self.kind}.moving"] * (
            self.moving == "mv" and self.kind in ("batch", "instance")
        )
        return tuple(names)

    @property
    def forward_rows(self) -> tuple[str, ...]:
        return (f"norm.{self.kind}.train", f"norm.{self.kind}.infer", *self.rows)

    @property
    def backward_rows(self) -> tuple[str, ...]:
        gradients = [f"norm.{self.kind}.{g}" for g in ("dx", "dbeta", "dgamma")]
        act = () if self.activation.is_identity else ("norm.act",)
        return (*gradients, "fn.BNNSNormalizationFilterApplyBackwardBatch", *act, *self.rows)

    # Tensors.

    def sample(self, data_type: Any, padded: bool) -> Tensor:
        if len(self.size) == 1:
            return Tensor(VECTOR, self.size, (2,) if padded else (), data_type)
        c, h, w = self.size
        return Tensor(IMAGE, (w, h, c), (1, w + 2, (w + 2) * h + 3) if padded else (), data_type)

    def parameter(self, shape: tuple[int, ...] | None) -> Tensor:
        """beta or gamma; an absent one has the usual shape."""
        padded = self.strided and self.client_pointer
        if self.kind != "layer":
            return vector(self.size[0], stride=(3,) if padded else ())
        if len(self.size) == 1:
            return vector(shape[0] if shape else self.size[0])
        c, h, w = shape or self.size
        return Tensor(IMAGE, (w, h, c))

    def values(self) -> dict[str, Array]:
        rng = np.random.default_rng(zlib.crc32(self.id.encode()))

        def numbers(t: Tensor, batch: int, scale: float = 1.0, at: float = 0.0) -> Array:
            return t.rounded(at + scale * rng.standard_normal((batch, *t.size)))

        x = self.sample(self.x_type, False)
        return {
            "x": numbers(x, self.batch, self.spread, self.offset),
            "beta": numbers(self.parameter(self.beta), 1, 0.5, 0.2),
            "gamma": numbers(self.parameter(self.gamma), 1, 0.5, 1.0),
            "mean": np.float32(rng.standard_normal((1, self.size[0]))).astype(np.float64),
            "variance": np.float32(rng.uniform(0.3, 2.0, (1, self.size[0]))).astype(np.float64),
            "dy": numbers(self.sample(self.delta_type, False), self.batch),
        }

    @property
    def inverse(self) -> float:
        """A bound of 1 / sqrt(variance + epsilon): small sets may have any variance."""
        return 1.0 / np.sqrt(self.epsilon)


class NormalizationRun:
    """A case, its filter and its memory."""

    def __init__(self, case: NormalizationCase, values: dict[str, Array] | None = None, threads: int = 0) -> None:
        values = case.values() if values is None else values
        self.case, gap = case, case.gap
        self.x = Storage(case.sample(case.x_type, case.strided), case.batch, gap, values["x"])
        self.y = Storage(case.sample(case.y_type, case.strided), case.batch, gap and gap + 1)
        self.dy = Storage(case.sample(case.delta_type, case.strided), case.batch, gap and gap + 3, values["dy"])
        self.beta = None if case.beta is None else Storage(case.parameter(case.beta), values=values["beta"])
        self.gamma = None if case.gamma is None else Storage(case.parameter(case.gamma), values=values["gamma"])
        moving = vector(case.size[0], stride=(2,) if case.strided else ())
        self.mean = Storage(moving, values=values["mean"]) if "m" in case.moving else None
        self.variance = Storage(moving, values=values["variance"]) if "v" in case.moving else None
        self.filter = created(self.create(threads))

    def create(self, threads: int) -> Any:
        def described(storage: Storage | None) -> Any:
            return None if storage is None else storage.descriptor()

        p = capi.BNNSLayerParametersNormalization(
            i_desc=self.x.tensor.descriptor(), o_desc=self.y.tensor.descriptor(), beta_desc=described(self.beta),
            gamma_desc=described(self.gamma), moving_mean_desc=described(self.mean),
            moving_variance_desc=described(self.variance), momentum=self.case.momentum, epsilon=self.case.epsilon,
            activation=self.case.activation.struct, num_groups=self.case.groups, normalization_axis=self.case.axis,
        )  # fmt: skip
        flags = capi.BNNSFlags.BNNSFlagsUseClientPtr if self.case.client_pointer else 0
        return capi.BNNSFilterCreateLayerNormalization(
            KINDS[self.case.kind], p, capi.BNNSFilterParameters(flags=flags, n_threads=threads)
        )

    def forward(self, training: bool = True, in_place: bool = False) -> Array:
        y = self.x if in_place else self.y
        succeed(
            capi.BNNSNormalizationFilterApplyBatch(
                self.filter, self.case.batch, self.x.elements, self.x.stride, y.elements, y.stride, training
            )
        )
        return y.read()

    def moving(self) -> list[Array]:
        return [s.read() for s in (self.mean, self.variance) if s is not None]

    def new_gradients(self, wanted: tuple[str, ...], old: dict[str, Array] | None = None) -> dict[str, Storage]:
        case, t = self.case, self.case.delta_type
        tensors = {
            "dx": (case.sample(t, case.strided), case.batch, case.gap and case.gap + 2),
            "dbeta": (case.parameter(case.beta), 1, 0),
            "dgamma": (case.parameter(case.gamma), 1, 0),
        }
        return {name: Storage(*tensors[name], None if old is None else old[name]) for name in wanted}

    def backward(
        self,
        wanted: tuple[str, ...] = ("dx", "dbeta", "dgamma"),
        old: dict[str, Array] | None = None,
        into: dict[str, Storage] | None = None,
    ) -> dict[str, Storage]:
        result = self.new_gradients(wanted, old) if into is None else into
        described = {name: s.descriptor(int(old is not None)) for name, s in result.items()}
        y = None if self.case.activation.is_identity else self.y.elements
        succeed(
            capi.BNNSNormalizationFilterApplyBackwardBatch(
                self.filter, self.case.batch, described.get("dx"), result["dx"].stride if "dx" in result else 0, y,
                self.y.stride, self.dy.descriptor(), self.dy.stride, described.get("dbeta"), described.get("dgamma"),
            )
        )  # fmt: skip
        return result


def expected(
    case: NormalizationCase, values: dict[str, Array], training: bool = True, gradients: bool = True
) -> dict[str, Any]:
    """Results of the reference engine: y, the moving statistics after the call and, if asked for, the gradients."""
    run = NormalizationRun(case, values)
    with openbnns.engine("reference"):
        arrays: dict[str, Any] = {"y": run.forward(training), "moving": run.moving()}
        if gradients:
            arrays |= {name: s.read() for name, s in run.backward().items()}
    return arrays


def bounds(case: NormalizationCase, values: dict[str, Array], truth: dict[str, Array]) -> dict[str, Array | float]:
    """Rounding that float32 is allowed. xhat is at most sqrt(count); x itself is exact, and so are its deviations from
    the rounded mean but for one rounding each."""
    count = case.batch * int(np.prod(case.size))
    gamma = 1.0 if case.gamma is None else float(np.abs(values["gamma"]).max())
    xhat = np.abs(truth["y"]).max() + 3.0 + np.sqrt(min(count, 64))
    dy = np.abs(values["dy"]).max() * 2.0
    size = np.sqrt(count) * dy * xhat
    y_type, d_type = case.sample(case.y_type, False), case.sample(case.delta_type, False)
    dx_size = dy * gamma * (1 + xhat) * max(1.0, case.inverse / 4)
    return {
        "y": 8 * EPSILON * (gamma * xhat + 1.0) + y_type.unit(truth["y"]),
        "dx": 8 * EPSILON * dx_size + d_type.unit(truth["dx"]),
        "dbeta": 8 * EPSILON * size,
        "dgamma": 8 * EPSILON * size,
    }


C = NormalizationCase
RELU, TANH = Act("RectifiedLinear"), Act("Tanh")
CASES = [
    # every kind by planes, rows and columns; odd sizes; both parameters, one, none
    C("batch"), C("batch", (17,), 9), C("batch", (5, 2, 3), 7), C("batch", (3, 5, 7), 1), C("batch", (2, 9, 31), 3, gap=3),
    C("batch", (40,), 600), C("batch", (3, 150, 130), 2), C("batch", (64, 12, 12), 5), C("batch", (1, 1, 1), 5),
    C("instance"), C("instance", (5, 2, 3), 3), C("instance", (7,), 3), C("instance", (3, 17, 19), 2, gap=2),
    C("layer"), C("layer", axis=1), C("layer", axis=2), C("layer", (33,), 5), C("layer", (33,), 300, axis=2),
    C("layer", (2, 7, 40), 40), C("layer", (2, 60, 70), 3, axis=1), C("layer", (3, 4, 5), 6, axis=2, gap=1),
    C("layer", (3, 4, 5), gamma=(1, 1, 5), beta=(1, 4, 1)), C("layer", (3, 4, 5), axis=1, gamma=(3, 1, 1), beta=(1, 1, 1)),
    C("layer", (6,), gamma=(1,)), C("layer", (3, 4, 5), axis=2, gamma=(1, 4, 5), beta=None),
    C("group", (6, 4, 5), groups=2), C("group", (6, 4, 5), groups=3), C("group", (6, 2, 2), groups=2),
    C("group", (24, 7, 7), 40, groups=4), C("group", (6, 17, 13), 3, groups=2, gap=1), C("group", (4, 130, 130), 2, groups=2),
    C("group", (8, 9, 5), 150, groups=2, activation=Act("Tanh")), C("instance", (24, 5, 5), 60),
    C("instance", (4, 14, 15), moving="mv"),
    C("group", (12,), groups=4), C("group", (4, 5, 9), groups=1), C("group", (4, 5, 9), groups=4, gap=5),
    *(C(k, groups=3, beta=b, gamma=g) for k in KINDS for b, g in ((None, ()), ((), None), (None, None))),
    # moving statistics
    *(C(k, s, moving=m) for k in ("batch", "instance") for s in ((3, 4, 5), (5,)) for m in ("m", "v", "mv")),
    C("batch", moving="mv", momentum=0.0), C("batch", moving="mv", momentum=1.0), C("instance", (4, 2, 2), moving="mv"),
    C("batch", moving="mv", strided=True, gap=4), C("layer", moving="mv"), C("group", groups=3, moving="mv"),
    # activations that train, on each form
    *(C(k, s, activation=a, groups=3, axis=1, strided=i % 3 == 0) for i, (k, s, a) in enumerate(
        (k, s, a) for a in (RELU, TANH, Act("LeakyRectifiedLinear", 0.2), Act("ELU", 0.9), Act("GELUApproximationSigmoid"))
        for k, s in (("batch", (3, 5, 7)), ("batch", (9,)), ("layer", (3, 4, 5)), ("group", (6, 5, 7)), ("instance", (3, 2, 3)))
    )),
    C("batch", activation=Act("Threshold", -0.2, 0.3)), C("batch", (3, 60, 70), 3, activation=Act("SELU")),
    # other layouts, types and ownership
    *(C(k, groups=3, strided=True, gap=2) for k in KINDS), C("batch", (5,), strided=True), C("layer", (5,), strided=True),
    *(C(k, groups=3, x_type=BFLOAT16, y_type=BFLOAT16, delta_type=BFLOAT16) for k in KINDS),
    *(C(k, groups=3, delta_type=BFLOAT16, activation=RELU) for k in KINDS),
    *(C(k, groups=3, client_pointer=False) for k in KINDS),
    # means far from 0: variance must not cancel
    *(C(k, (4, 9, 9), 6, groups=2, offset=1e3, spread=1e-2, epsilon=1e-6) for k in KINDS),
    C("batch", (5,), 300, offset=1e3, spread=1e-2, epsilon=1e-6), C("layer", (500,), offset=1e3, spread=1e-2, epsilon=1e-6),
]  # fmt: skip

INFERENCE = [
    *(C(k, groups=3, moving="mv", activation=Act("SiLU")) for k in KINDS),
    C("batch", (9,), activation=Act("Erf")), C("layer", x_type=FLOAT16, y_type=INT8), C("group", groups=3, y_type=FLOAT16),
]  # fmt: skip
"""Cases that run forward only."""
