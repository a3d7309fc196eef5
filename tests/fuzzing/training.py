"""Losses, normalizations, fused chains, optimizers."""

from __future__ import annotations

from typing import Any

import numpy as np

from openbnns import capi

from .core import (
    GUARD,
    TRAINED,
    Array,
    Case,
    Draw,
    Outcome,
    Tensor,
    calls,
    draw_activation,
    filter_parameters,
    result,
)  # fmt: skip

ELEMENTWISE = [
    f for f in TRAINED if f not in (capi.BNNSActivationFunctionSoftmax, capi.BNNSActivationFunctionLogSoftmax)
]
NORMS = (capi.BNNSBatchNorm, capi.BNNSInstanceNorm, capi.BNNSLayerNorm, capi.BNNSGroupNorm)


def loss(draw: Draw) -> Case:
    """Every loss but Yolo, every reduction, weights of every count, forward and backward."""
    kind = int(draw.one([f for f in capi.BNNSLossFunction if f != capi.BNNSLossFunctionYolo]))
    reduction, width, batch = int(draw.one(list(capi.BNNSLossReductionFunction))), draw.size(), draw.size(5)
    per_sample = kind in (
        capi.BNNSLossFunctionSoftmaxCrossEntropy, capi.BNNSLossFunctionCosineDistance,
        capi.BNNSLossFunctionCategoricalCrossEntropy,
    )  # fmt: skip
    x = Tensor(draw, "Vector", (width,), batch)
    values = x.values(draw, lambda a: np.abs(np.tanh(a)) * 0.9 + 0.05)
    labels = x.values(draw, lambda a: (a > 0).astype(np.float32))
    rows = 1 if per_sample else width
    count = rows * batch if reduction == capi.BNNSLossReductionNone else 1
    many = batch if kind == capi.BNNSLossFunctionSoftmaxCrossEntropy else batch * width
    weights_size = int(draw.one([0, 0, 1, many, many + 1]))
    weights = np.abs(draw.floats(weights_size)) if weights_size else None
    y = Tensor(draw, "Vector", (count,), 1, padded=False, batched=False)
    up = Tensor(draw, "Vector", (rows if reduction == capi.BNNSLossReductionNone else 1,), batch, padded=False)
    fields: dict[str, Any] = {"function": kind, "i_desc": x.descriptor, "reduction": reduction, "o_desc": up.descriptor}
    struct: Any = capi.BNNSLayerParametersLossBase
    if kind == capi.BNNSLossFunctionSoftmaxCrossEntropy:
        struct, fields["label_smooth"] = capi.BNNSLayerParametersLossSoftmaxCrossEntropy, draw.one([0.0, 0.2])
    elif kind == capi.BNNSLossFunctionSigmoidCrossEntropy:
        struct, fields["label_smooth"] = capi.BNNSLayerParametersLossSigmoidCrossEntropy, draw.one([0.0, 0.2])
    elif kind == capi.BNNSLossFunctionHuber:
        struct, fields["huber_delta"] = capi.BNNSLayerParametersLossHuber, draw.one([0.2, 1.0])
    layer, parameters, arriving = struct(**fields), filter_parameters(draw), up.values(draw)
    flags = [int(draw.chance(0.5)) for _ in range(2)]

    def run(out: Outcome) -> None:
        f = calls.BNNSFilterCreateLayerLoss(layer, parameters)
        if not out.note(f):
            return
        target = out.keep("loss", y.empty())
        dx = result(x, out, "dx of the forward call", flags[0])
        out.note(
            calls.BNNSLossFilterApplyBatch(
                f, batch, values, x.stride, labels, x.stride, weights, weights_size, target, dx, x.stride
            )
        )
        dx = result(x, out, "dx", flags[1])
        out.note(
            calls.BNNSLossFilterApplyBackwardBatch(
                f, batch, values, x.stride, dx, x.stride, labels, x.stride, weights, weights_size, up.at(arriving),
                up.stride,
            )
        )  # fmt: skip

    return f"{layer!r} batch {batch} weights {weights_size}", run


class Normalized:
    """A normalization of ImageCHW samples with its parameters."""

    def __init__(self, draw: Draw, size: tuple[int, int, int], x: Tensor, y: Tensor) -> None:
        self.kind = draw.one(NORMS)
        whole = self.kind == capi.BNNSLayerNorm
        layout, shape = ("ImageCHW", size) if whole else ("Vector", size[2:])
        self.parameter = Tensor(draw, layout, shape, 1, padded=False, batched=False)
        self.moving = [np.abs(draw.floats(size[2])) for _ in range(2)] if draw.chance(0.5) else []
        vector = Tensor(draw, "Vector", size[2:], 1, padded=False, batched=False)
        self.layer = capi.BNNSLayerParametersNormalization(
            i_desc=x.descriptor, o_desc=y.descriptor, momentum=draw.one([0.0, 0.1, 0.9]), epsilon=draw.one([1e-3, 0.1]),
            activation=draw_activation(draw, ELEMENTWISE), normalization_axis=draw.one([0, 1, 2]),
            num_groups=draw.one([g for g in range(1, size[2] + 1) if size[2] % g == 0]),
        )  # fmt: skip
        for name in ("beta_desc", "gamma_desc"):
            if draw.chance(0.7):
                setattr(self.layer, name, self.parameter.at(self.parameter.values(draw)))
        self.vector = vector

    def with_moving(self, out: Outcome) -> capi.BNNSLayerParametersNormalization:
        """The struct with moving statistics of its own."""
        layer: capi.BNNSLayerParametersNormalization = self.layer.copy()
        for name, start in zip(("moving_mean_desc", "moving_variance_desc"), self.moving, strict=False):
            memory = self.vector.empty()
            memory[GUARD:-GUARD] = start
            setattr(layer, name, self.vector.at(out.keep(name, memory)))
        return layer


def normalization(draw: Draw) -> Case:
    """All four kinds in training and inference, with the three gradients."""
    size, batch = (draw.size(6), draw.size(6), int(draw.one([1, 2, 4, 6]))), draw.size(4)
    x, y = Tensor(draw, "ImageCHW", size, batch), Tensor(draw, "ImageCHW", size, batch)
    norm, parameters = Normalized(draw, size, x, y), filter_parameters(draw)
    values, arriving, training = x.values(draw), y.values(draw), draw.chance(0.8)
    flags, wanted = [int(draw.chance(0.5)) for _ in range(3)], [draw.chance(0.8) for _ in range(3)]

    def run(out: Outcome) -> None:
        f = calls.BNNSFilterCreateLayerNormalization(norm.kind, norm.with_moving(out), parameters)
        if not out.note(f):
            return
        target = out.keep("y", y.empty())
        out.note(calls.BNNSNormalizationFilterApplyBatch(f, batch, values, x.stride, target, y.stride, training))
        deltas = [
            result(tensor, out, name, flag) if want else None
            for tensor, name, flag, want in zip(
                (x, norm.parameter, norm.parameter), ("dx", "dbeta", "dgamma"), flags, wanted, strict=True
            )
        ]
        out.note(
            calls.BNNSNormalizationFilterApplyBackwardBatch(
                f, batch, deltas[0], x.stride, target, y.stride, y.at(arriving.copy()), y.stride, deltas[1], deltas[2]
            )
        )

    return f"{norm.kind!r} {norm.layer!r} batch {batch} training {training}", run


def fused(draw: Draw) -> Case:
    """Arithmetic of two operands, one of them perhaps shared by the batch, then a normalization."""
    size, batch = (draw.size(5), draw.size(5), int(draw.one([1, 2, 4]))), draw.size(4)
    roles = [capi.BNNSSample, draw.one([capi.BNNSSample, capi.BNNSParameter, capi.BNNSConstant])]
    inputs = [Tensor(draw, "ImageCHW", size, batch, batched=r == capi.BNNSSample) for r in roles]
    y = Tensor(draw, "ImageCHW", size, batch)
    middle = Tensor(draw, "ImageCHW", size, batch, padded=False)
    norm, parameters = Normalized(draw, size, middle, y), filter_parameters(draw)
    block = capi.BNNSArithmeticBinary(
        in1=inputs[0].descriptor, in1_type=roles[0], in2=inputs[1].descriptor, in2_type=roles[1],
        out=middle.descriptor, out_type=capi.BNNSSample,
    )  # fmt: skip
    function = draw.one([capi.BNNSArithmeticAdd, capi.BNNSArithmeticSubtract, capi.BNNSArithmeticMultiply])
    first = capi.BNNSLayerParametersArithmetic(arithmetic_function=function, arithmetic_function_fields=block)
    values: list[Array] = [t.values(draw) for t in inputs]
    arriving, flags = y.values(draw), [int(draw.chance(0.5)) for _ in range(4)]

    def run(out: Outcome) -> None:
        layers = [first, norm.with_moving(out)]
        f = calls.BNNSFilterCreateFusedLayer(2, [capi.BNNSArithmetic, norm.kind], layers, parameters)
        if not out.note(f):
            return
        target, strides = out.keep("y", y.empty()), [t.stride for t in inputs]
        out.note(calls.BNNSFusedFilterApplyMultiInputBatch(f, batch, 2, values, strides, target, y.stride, True))
        deltas = [
            inputs[i].at(None) if roles[i] == capi.BNNSConstant else result(inputs[i], out, f"d{i}", flags[i])
            for i in range(2)
        ]
        shared = [result(norm.parameter, out, name, flags[2]) for name in ("dbeta", "dgamma")]
        out.note(
            calls.BNNSFusedFilterApplyBackwardMultiInputBatch(
                f, batch, 2, values, strides, deltas, strides, target, y.stride, y.at(arriving.copy()), y.stride, shared
            )
        )

    return f"{first!r} {norm.kind!r} {norm.layer!r} batch {batch}", run


def optimizer(draw: Draw) -> Case:
    """Every function with every field, one to three parameters."""
    function = draw.one(list(capi.BNNSOptimizerFunction))
    family = "Adam" if "Adam" in function.name else "RMSProp" if "RMS" in function.name else "SGDMomentum"
    clipping = "WithClipping" if function.name.endswith("WithClipping") else ""
    struct: Any = getattr(capi, f"BNNSOptimizer{family}{clipping}Fields")
    known = set(struct.__annotations__) if hasattr(struct, "__annotations__") else set()
    drawn = {
        "learning_rate": 0.1, "gradient_scale": draw.one([1.0, 0.5]), "regularization_scale": draw.one([0.0, 0.1]),
        "regularization_func": draw.one([0, 1, 2]), "momentum": draw.one([0.0, 0.9]), "nesterov": draw.chance(0.5),
        "sgd_momentum_variant": draw.one([0, 1, 2]), "beta1": 0.9, "beta2": 0.99, "time_step": draw.one([1, 7]),
        "epsilon": draw.one([1e-4, 0.1]), "alpha": 0.9, "centered": draw.chance(0.5), "clip_gradients": draw.chance(0.5),
        "clip_gradients_min": -0.3, "clip_gradients_max": 0.4, "clipping_func": draw.one([0, 1, 2, 3]),
        "clip_gradients_max_norm": 0.7, "clip_gradients_use_norm": draw.one([0.0, 2.0]),
    }  # fmt: skip
    fields = struct(**{name: value for name, value in drawn.items() if name in known or hasattr(struct(), name)})
    roles = {"Adam": 3 if "AMSGrad" in function.name else 2, "SGDMomentum": int(drawn["momentum"] != 0)}.get(
        family, 1 + drawn["centered"] + (drawn["momentum"] != 0)
    )
    tensors = [Tensor(draw, "Vector", (draw.size(40),), 1, padded=False, batched=False) for _ in range(draw.size(3))]
    starts = [[np.abs(t.values(draw)) + 1 for t in tensors] for _ in range(1 + roles)]
    gradients = [t.at(t.values(draw, lambda a: 0.5 * a)) for t in tensors]

    def run(out: Outcome) -> None:
        places = []
        for role, values in enumerate(starts):
            for i, (tensor, start) in enumerate(zip(tensors, values, strict=True)):
                memory = tensor.empty()
                memory[GUARD:-GUARD] = start if role in (0, 1) else 0.1 * start
                places.append(tensor.at(out.keep(f"role {role} of {i}", memory)))
        n = len(tensors)
        out.note(calls.BNNSOptimizerStep(function, fields, n, places[:n], gradients, places[n:] or None, None))

    return f"{function!r} {fields!r}", run


FAMILIES = {"loss": loss, "normalization": normalization, "fused": fused, "optimizer": optimizer}
