"""Elementwise arithmetic: all functions, roles, broadcasting, shared operands, fused activations, memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

import openbnns
from helpers import EPSILON, FIRST_MAJOR_2D, FLOAT16, INT8, Array, Storage, Tensor, image, packed, vector
from openbnns import capi

from ._base import INFERENCE_ONLY, LIPSCHITZ, TRAINABLE, Act, Case, Values, created, succeed

S, P, C = (
    capi.BNNSDescriptorType.BNNSSample,
    capi.BNNSDescriptorType.BNNSParameter,
    capi.BNNSDescriptorType.BNNSConstant,
)

BINARY = (
    "Add", "Subtract", "Multiply", "Divide", "Pow", "MultiplyNoNaN", "DivideNoNaN", "Minimum", "Maximum", "FloorDivide",
    "TruncDivide", "TruncRemainder",
)  # fmt: skip
TERNARY = ("MultiplyAdd", "Select")
FUNCTIONS = tuple(f.name.removeprefix("BNNSArithmetic") for f in capi.BNNSArithmeticFunction)
UNARY = tuple(f for f in FUNCTIONS if f not in BINARY + TERNARY)
FLAT = ("Ceil", "Floor", "Round", "Sign", "FloorDivide", "TruncDivide")  # their gradients are zero
WITHOUT_OPERANDS = ("Add", "Subtract", "Ceil", "Floor", "Round")
FROM_OUTPUT = ("SquareRoot", "ReciprocalSquareRoot", "Tanh", "Exp", "Exp2")

_BLOCKS = {1: capi.BNNSArithmeticUnary, 2: capi.BNNSArithmeticBinary, 3: capi.BNNSArithmeticTernary}
_RANGES = {
    "SquareRoot": (0.1, 4), "ReciprocalSquareRoot": (0.1, 4), "Log": (0.1, 4), "Log2": (0.1, 4), "Asin": (-0.9, 0.9),
    "Acos": (-0.9, 0.9), "Atanh": (-0.9, 0.9), "Acosh": (1.2, 5), "Tan": (-1.2, 1.2), "Ceil": (-4, 4), "Floor": (-4, 4),
    "Round": (-4, 4), "Reciprocal": (0.3, 3),
}  # fmt: skip


def operand_count(function: str) -> int:
    return 3 if function in TERNARY else 2 if function in BINARY else 1


@dataclass(frozen=True)
class ArithmeticCase(Case):
    """y = f(op(a0, a1, a2)). ``given`` says what backward is handed: operands, output or both."""

    function: str = "Add"
    operands: tuple[Tensor, ...] = ()
    roles: tuple[Any, ...] = ()
    y: Tensor = field(default_factory=lambda: vector(1))
    y_role: Any = S
    shared: bool = False  # operands 0 and 1 are one tensor
    given: str = "ay"
    packed_deltas: bool = False

    @property
    def count(self) -> int:
        return operand_count(self.function)

    @property
    def gradients(self) -> tuple[str, ...]:
        named = [f"da{i}" for i in range(self.count) if self.roles[i] != C]
        return tuple(name for name in named if not (self.shared and name == "da1"))

    @property
    def _feature_rows(self) -> tuple[str, ...]:
        features = {
            "role.sample": S in self.roles,
            "role.parameter": P in self.roles,
            "role.constant": C in self.roles,
            "broadcast": any(o.size != self.y.size for o in self.operands),
            "alias": self.shared,
        }
        return (*(f"arith.{name}" for name, used in features.items() if used), *self.rows)

    @property
    def forward_rows(self) -> tuple[str, ...]:
        calls = ("fn.BNNSFilterCreateLayerArithmetic", "fn.BNNSArithmeticFilterApplyBatch")
        return (f"arith.{self.function}.fwd", *calls, *self._feature_rows)

    @property
    def backward_rows(self) -> tuple[str, ...]:
        fused = () if self.activation.is_identity else ("arith.act",)
        return (f"arith.{self.function}.bwd", "fn.BNNSArithmeticFilterApplyBackwardBatch", *fused, *self._feature_rows)

    def samples(self, i: int) -> int:
        return self.batch if self.roles[i] == S else 1

    def values(self, seed: int = 0) -> dict[str, Array]:
        rng = self.generator(seed)
        values = {}
        for i, operand in enumerate(self.operands):
            values[f"a{i}"] = operand.rounded(self._draw(rng, i, (self.samples(i), *operand.size)))
        if self.shared:
            values["a1"] = values["a0"]
        out = self.batch if self.y_role == S else 1
        values["dy"] = np.float32(rng.standard_normal((out, *self.y.size))).astype(np.float64)
        return values

    def _draw(self, rng: np.random.Generator, i: int, shape: tuple[int, ...]) -> Array:
        if self.function in _RANGES:
            return rng.uniform(*_RANGES[self.function], shape)
        if self.function == "Pow":
            return rng.uniform(0.3, 3, shape) if i == 0 else rng.standard_normal(shape)
        if self.function == "Select" and i == 0:
            return rng.integers(0, 2, shape).astype(np.float64)
        if "Divide" in self.function or self.function == "TruncRemainder":
            divisor = rng.uniform(0.3, 2, shape) * rng.choice([-1.0, 1.0], shape)
            if i == 0:
                return 4 * rng.standard_normal(shape)
            return np.where(rng.random(shape) < 0.2, 0.0, divisor) if self.function == "DivideNoNaN" else divisor
        numbers = 1.5 * rng.standard_normal(shape)
        return np.where(rng.random(shape) < 0.2, 0.0, numbers) if self.function == "MultiplyNoNaN" else numbers

    def parameters(self, storages: list[Storage]) -> capi.BNNSLayerParametersArithmetic:
        names = ["in_"] if self.count == 1 else [f"in{i + 1}" for i in range(self.count)]
        fields: dict[str, Any] = {"out": self.y.descriptor(), "out_type": self.y_role}
        for name, storage, role in zip(names, storages, self.roles, strict=True):
            fields[name] = storage.tensor.descriptor(storage.elements)
            fields[f"{name.rstrip('_')}_type"] = role
        return capi.BNNSLayerParametersArithmetic(
            arithmetic_function=capi.BNNSArithmeticFunction[f"BNNSArithmetic{self.function}"],
            arithmetic_function_fields=_BLOCKS[self.count](**fields), activation=self.activation.struct,
        )  # fmt: skip

    def create(self, storages: list[Storage], threads: int) -> Any:
        return capi.BNNSFilterCreateLayerArithmetic(self.parameters(storages), self.filter_parameters(threads))

    def run(self, values: Values | None = None, threads: int = 0, batch: int | None = None) -> ArithmeticRun:
        case = self if batch is None else replace(self, batch=batch)
        return ArithmeticRun(case, case.values() if values is None else values, threads)

    # Bounds: a few units in the last place of the result or of its terms; sums over repeated axes are of magnitudes.

    @cached_property
    def _full(self) -> ArithmeticCase:
        """The same operation with every operand spread to its full shape, so that no gradient is summed."""
        plain = replace(packed(self.y), data_type=capi.BNNSDataType.BNNSDataTypeFloat32)
        return replace(
            self, activation=Act(), gap=0, shared=False, given="ay", y=plain, y_role=S, operands=(plain,) * self.count,
            roles=(S,) * self.count, batch=self.batch, packed_deltas=False,
        )  # fmt: skip

    def _spread(self, values: Values) -> dict[str, Array]:
        shape = (self.batch, *self.y.size)
        return {name: np.broadcast_to(v, shape).astype(np.float64) for name, v in values.items()}

    def _result(self, values: Values) -> Array:
        run = self._full.run(self._spread(values))
        with openbnns.engine("reference"):
            run.forward()
        return run.y.read()

    def forward_bound(self, values: Values, y: Array) -> Array:
        a = [np.abs(v) for name, v in self._spread(values).items() if name != "dy"]
        z = self._result(values)
        terms = np.abs(z)
        if self.function in ("Add", "Subtract"):
            terms = a[0] + a[1]
        elif self.function == "MultiplyAdd":
            terms = a[0] * a[1] + a[2]
        elif self.function == "TruncRemainder":
            terms = a[0]
        elif self.function == "Pow":
            terms = np.abs(z) * (1 + np.abs(a[1] * np.log(a[0])))
        bound = 4 * EPSILON * terms
        if not self.activation.is_identity:
            coupled = self.activation.name in ("Softmax", "LogSoftmax")
            bound = bound.max(axis=1, keepdims=True) + 0 * bound if coupled else bound
            wide = np.abs(z).max(axis=1, keepdims=True) if coupled else np.abs(z)
            bound = LIPSCHITZ * bound + 4 * EPSILON * (wide + abs(self.activation.alpha) + abs(self.activation.beta))
        bound = bound if self.y_role == S else bound[:1]
        return bound + 4 * EPSILON * np.abs(y) + self.y.unit(y)

    def backward_bounds(self, values: Values, y: Array) -> dict[str, Array]:
        dz = np.abs(values["dy"])
        if self.activation.name == "Softmax":
            dz = y * (dz + np.sum(dz * y, axis=1, keepdims=True))
        elif self.activation.name == "LogSoftmax":
            dz = dz + np.exp(y) * np.sum(dz, axis=1, keepdims=True)
        elif not self.activation.is_identity:
            slope_error = (
                np.abs(self._result(values)) + 1.0 if self.activation.name == "GELUApproximationSigmoid" else 1.0
            )
            dz = LIPSCHITZ * dz * slope_error
        run = self._full.run(self._spread({**values, "dy": np.float32(dz).astype(np.float64)}))
        with openbnns.engine("reference"):
            run.forward()
            terms = {name: np.abs(storage.read()) for name, storage in run.backward().items()}
        if self.function == "Pow":
            a, b = self._spread(values)["a0"], self._spread(values)["a1"]
            terms = {name: t * (1 + np.abs(b * np.log(a))) for name, t in terms.items()}
        if self.function == "Tanh":  # 1 - y^2 from an output that was rounded
            terms["da0"] = terms["da0"] + self._spread({"dy": dz})["dy"]
        elif self.function == "Erf":  # exp(-x^2)
            terms["da0"] = terms["da0"] * (1 + self._spread(values)["a0"] ** 2)
        if self.shared:
            terms["da0"] = terms["da0"] + terms["da1"]
        bounds = {}
        for name in self.gradients:
            i = int(name[2])
            shape = (self.samples(i), *self.operands[i].size)
            axes = tuple(k for k, n in enumerate(shape) if n == 1)
            repeats = terms[name].size // int(np.prod(shape))
            bounds[name] = EPSILON * (6 + 0.25 * np.sqrt(repeats)) * terms[name].sum(axis=axes, keepdims=True)
        return bounds


class ArithmeticRun:
    """An arithmetic case, its filter and its memory."""

    def __init__(self, case: ArithmeticCase, values: Values, threads: int = 0) -> None:
        self.case = case
        self.operands: list[Storage] = []
        for i, operand in enumerate(case.operands):
            if i == 1 and case.shared:
                self.operands.append(self.operands[0])
                continue
            gap = (case.gap and case.gap + i) if case.roles[i] == S else 0
            self.operands.append(Storage(operand, case.samples(i), gap, values[f"a{i}"]))
        out = case.batch if case.y_role == S else 1
        self.y = Storage(case.y, out, case.gap and case.gap + 4)
        dy = replace(packed(case.y) if case.packed_deltas else case.y, data_type=capi.BNNSDataType.BNNSDataTypeFloat32)
        self.dy = Storage(dy, out, case.gap and case.gap + 5, values["dy"])
        self.filter = created(case.create(self.operands, threads))

    @property
    def inputs(self) -> dict[str, Storage]:
        return {f"a{i}": storage for i, storage in enumerate(self.operands)} | {"dy": self.dy}

    def forward(self, batch: int | None = None) -> Array:
        case = self.case
        succeed(
            capi.BNNSArithmeticFilterApplyBatch(
                self.filter, case.batch if batch is None else batch, case.count, [s.elements for s in self.operands],
                [s.stride for s in self.operands], self.y.elements, self.y.stride,
            )
        )  # fmt: skip
        return self.y.raw()

    def new_gradients(self, wanted: Collection[str] | None = None, old: Values | None = None) -> dict[str, Storage]:
        case, result = self.case, {}
        for name in case.gradients if wanted is None else wanted:
            i = int(name[2])
            tensor = packed(case.operands[i]) if case.packed_deltas else case.operands[i]
            gap = (case.gap and case.gap + 6 + i) if case.roles[i] == S else 0
            result[name] = Storage(tensor, case.samples(i), gap, None if old is None else old[name])
        return result

    def backward(
        self, wanted: Collection[str] | None = None, old: Values | None = None, into: dict[str, Storage] | None = None,
        batch: int | None = None,
    ) -> dict[str, Storage]:  # fmt: skip
        case = self.case
        result = self.new_gradients(wanted, old) if into is None else into
        deltas, strides = [], []
        for i, operand in enumerate(case.operands):
            storage = result.get("da0" if i == 1 and case.shared else f"da{i}")
            skipped = operand.descriptor()  # no data: not computed
            deltas.append(skipped if storage is None else storage.descriptor(int(old is not None)))
            strides.append(0 if storage is None else storage.stride)
        with_operands = "a" in case.given
        succeed(
            capi.BNNSArithmeticFilterApplyBackwardBatch(
                self.filter, case.batch if batch is None else batch, case.count,
                [s.elements for s in self.operands] if with_operands else None,
                [s.stride for s in self.operands] if with_operands else None, deltas, strides,
                self.y.elements if "y" in case.given else None, self.y.stride, self.dy.descriptor(), self.dy.stride,
            )
        )  # fmt: skip
        return result


def case(name: str, function: str, *operands: Tensor, roles: tuple[Any, ...] = (), **options: Any) -> ArithmeticCase:
    """An operation whose output has, along each axis, the largest size of its operands."""
    size = tuple(max(sizes) for sizes in zip(*(o.size for o in operands), strict=True))
    options.setdefault("y", Tensor(operands[0].layout, size))
    flat = frozenset(f"da{i}" for i in range(len(operands))) if function in FLAT else frozenset()
    if function == "Select":
        flat = frozenset({"da0"})
    flat |= frozenset({"y"}) if function in ("FloorDivide", "TruncDivide", "Round", "Ceil", "Floor") else frozenset()
    options.setdefault("mostly_zero", flat)
    return ArithmeticCase(
        f"arith-{name}", function=function, operands=operands, roles=roles or (S,) * len(operands), **options
    )


def _alike(function: str, tensor: Tensor) -> tuple[Tensor, ...]:
    return (tensor,) * operand_count(function)


EVERY_FUNCTION = [case(f"{f}", f, *_alike(f, vector(113)), batch=5) for f in FUNCTIONS]
BROADCAST_EVERY_FUNCTION = [
    case(f"{f}-broadcast", f, *(image(5, 7, 1), image(1, 7, 3), image(5, 1, 3))[: operand_count(f)], batch=3,
         roles=((S, P, S) if k % 2 else (P, S, S))[: operand_count(f)], gap=2 * (k % 2))
    for k, f in enumerate(BINARY + TERNARY)
]  # fmt: skip

ROLES = [
    case(f"{f}-{''.join(str(r)[4] for r in roles)}", f, *_alike(f, image(2, 3, 5)), batch=5, roles=roles)
    for f, roles in [
        ("Add", (S, P)),
        ("Add", (P, S)),
        ("Add", (S, C)),
        ("Subtract", (C, S)),
        ("Multiply", (P, P)),
        ("Multiply", (S, P)),
        ("Multiply", (P, S)),
        ("Divide", (S, C)),
        ("Pow", (S, P)),
        ("Maximum", (P, S)),
        ("MultiplyAdd", (S, P, P)),
        ("MultiplyAdd", (P, S, C)),
        ("MultiplyAdd", (C, C, S)),
        ("Select", (S, P, C)),
        ("Select", (P, S, S)),
        ("Exp", (P,)),
    ]
] + [
    case("Multiply-parameters-only", "Multiply", vector(7), vector(7), batch=1, roles=(P, P), y_role=P),
]

BROADCASTS = [
    case(f"{name}", "Multiply", a, b, batch=4, roles=roles)
    for name, a, b, roles in [
        ("channel-scale", image(5, 7, 9), image(5, 1, 1), (S, P)),
        ("row-scale", image(5, 7, 9), image(1, 7, 1), (S, P)),
        ("column-scale", image(5, 7, 9), image(1, 1, 9), (S, S)),
        ("plane-scale", image(5, 7, 9), image(1, 7, 9), (S, P)),
        ("scalar-scale", image(5, 7, 9), image(1, 1, 1), (S, P)),
        ("scalar-sample-scale", image(5, 7, 9), image(1, 1, 1), (S, S)),
        ("outer-product", image(5, 1, 9), image(1, 7, 1), (P, S)),
        ("first-major", Tensor(FIRST_MAJOR_2D, (7, 1)), Tensor(FIRST_MAJOR_2D, (7, 5)), (S, P)),
        ("eight-axes", Tensor(capi.BNNSDataLayout.BNNSDataLayout8DFirstMajor, (2, 1, 3, 1, 2, 1, 3, 1)),
         Tensor(capi.BNNSDataLayout.BNNSDataLayout8DFirstMajor, (1, 2, 1, 3, 1, 2, 1, 3)), (S, P)),
        ("vector-scalar", vector(113), vector(1), (S, P)),
    ]
] + [
    case("bias-large", "Add", image(33, 40, 43), image(33, 1, 1), batch=5, roles=(S, P)),
    case("row-bias-large", "Subtract", image(33, 40, 43), image(1, 1, 43), batch=5, roles=(S, P)),
    case("mask-large", "Multiply", image(33, 40, 43), image(1, 40, 43), batch=5, roles=(S, S)),
    case("large", "MultiplyAdd", *_alike("MultiplyAdd", vector(40001)), batch=3),
    case("large-Exp", "Exp", vector(40001), batch=3),
    case("large-fused", "Add", *_alike("Add", vector(40001)), batch=3, activation=Act("Tanh")),
]  # fmt: skip

SHARED = [
    case(f"{f}-of-itself", f, *_alike(f, vector(17)), batch=3, shared=True)
    for f in ("Multiply", "Add", "MultiplyAdd", "Pow")
] + [
    case("Multiply-parameter-of-itself", "Multiply", vector(17), vector(17), batch=3, shared=True, roles=(P, P)),
    case("Multiply-of-itself-gaps", "Multiply", vector(17), vector(17), batch=3, shared=True, gap=3),
    case("Multiply-of-itself-fused", "Multiply", vector(17), vector(17), batch=3, shared=True, activation=Act("Tanh")),
]

WITHOUT_INPUT = [
    case(f"{f}-without-operands", f, *_alike(f, vector(17)), batch=3, given="") for f in WITHOUT_OPERANDS
] + [
    case(f"{f}-from-output", f, vector(17), batch=3, given="y") for f in FROM_OUTPUT
] + [
    case("Add-broadcast-without-operands", "Add", image(3, 5, 7), image(3, 1, 1), batch=3, roles=(S, P), given=""),
    case("Add-fused-without-operands", "Add", vector(17), vector(17), batch=3, activation=Act("Tanh"), given="y"),
]  # fmt: skip

FUSED = [
    case(
        f"fused-{act.name}",
        ("Add", "Multiply", "Sin")[k % 3],
        *(image(3, 5, 7), image(3, 1, 7))[: 1 if k % 3 == 2 else 2],
        batch=2,
        activation=act,
        roles=(S, P)[: 1 if k % 3 == 2 else 2],
        gap=3 * (k % 2),
    )
    for k, act in enumerate(TRAINABLE)
] + [
    case("fused-Threshold-raised", "Add", vector(17), vector(17), batch=3, activation=Act("Threshold", 0.1, 0.6)),
    *(
        case(f"inference-{act.name}", "Add", vector(17), vector(17), batch=3, activation=act, trains=False)
        for act in INFERENCE_ONLY
    ),
]

MEMORY = [
    case("gaps", "Multiply", vector(17), vector(17), batch=5, gap=3),
    case(
        "padded",
        "Multiply",
        image(3, 5, 7, stride=(1, 9, 60)),
        image(3, 5, 7, stride=(2, 14, 70)),
        batch=2,
        gap=1,
        y=image(3, 5, 7, stride=(1, 8, 44)),
    ),
    case(
        "padded-packed-deltas", "Divide", image(3, 5, 7, stride=(1, 9, 60)), image(3, 5, 7), batch=2, packed_deltas=True
    ),
    case(
        "padded-broadcast",
        "Add",
        image(3, 5, 7, stride=(1, 9, 60)),
        image(3, 1, 1, stride=(4, 4, 4)),
        batch=2,
        roles=(S, P),
    ),
    case(
        "half",
        "Multiply",
        vector(17, data_type=FLOAT16),
        vector(17),
        y=vector(17, data_type=FLOAT16),
        batch=2,
        trains=False,
    ),
    case(
        "int8",
        "Add",
        vector(17, data_type=INT8, scale=0.05),
        vector(17, data_type=INT8, scale=0.02, bias=0.1),
        y=vector(17, data_type=INT8, scale=0.07),
        batch=2,
        trains=False,
    ),
]

CASES = (
    EVERY_FUNCTION + BROADCAST_EVERY_FUNCTION + ROLES + BROADCASTS + SHARED + WITHOUT_INPUT + FUSED + MEMORY
)  # fmt: skip
