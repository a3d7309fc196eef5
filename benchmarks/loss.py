"""Does the loss with its gradient, in one call, keep up with memory, and does a small one stay cheap?

PyTorch computes the loss and the gradient of the predictions; labels have no gradient. Where it takes class indices
instead of one-hot labels, it reads far less than we do; both are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cases import Arrays, Calls, Case, created, vector
from openbnns import capi

Peer = Callable[[ModuleType, "NDArray[np.float32]"], Callable[..., Any]]


def _soft(torch: ModuleType, labels: NDArray[np.float32]) -> Callable[..., Any]:
    target = torch.from_numpy(labels)
    return lambda x: torch.nn.functional.cross_entropy(x, target)


def _indexed(torch: ModuleType, labels: NDArray[np.float32]) -> Callable[..., Any]:
    target = torch.from_numpy(labels.argmax(axis=1))
    return lambda x: torch.nn.functional.cross_entropy(x, target)


def _sigmoid(torch: ModuleType, labels: NDArray[np.float32]) -> Callable[..., Any]:
    target = torch.from_numpy(labels)
    return lambda x: torch.nn.functional.binary_cross_entropy_with_logits(x, target)


def _square(torch: ModuleType, labels: NDArray[np.float32]) -> Callable[..., Any]:
    target = torch.from_numpy(labels)
    return lambda x: torch.nn.functional.mse_loss(x, target)


# function, PyTorch's counterpart, shape, target
CASES: dict[str, tuple[int, Peer, tuple[int, int], float]] = {
    "softmax cross entropy": (capi.BNNSLossFunctionSoftmaxCrossEntropy, _soft, (32, 10), 10.0),
    "softmax cross entropy, class indices": (capi.BNNSLossFunctionSoftmaxCrossEntropy, _indexed, (32, 10), 10.0),
    "large softmax cross entropy": (capi.BNNSLossFunctionSoftmaxCrossEntropy, _soft, (4096, 1000), 1.3),
    "large softmax cross entropy, class indices": (
        capi.BNNSLossFunctionSoftmaxCrossEntropy, _indexed, (4096, 1000), 1.3,
    ),
    "sigmoid cross entropy": (capi.BNNSLossFunctionSigmoidCrossEntropy, _sigmoid, (1024, 1024), 1.3),
    "mean square error": (capi.BNNSLossFunctionMeanSquareError, _square, (1024, 1024), 1.3),
}  # fmt: skip


def cases() -> list[Case]:
    return [_case(name, *row) for name, row in CASES.items()]


def _case(name: str, function: int, peer: Peer, shape: tuple[int, int], target: float) -> Case:
    batch, width = shape
    return Case(
        name=f"loss/{name.removeprefix('large ')} {batch}x{width}",
        shapes={"x": shape, "y": ()},
        calls=partial(_calls, function=function),
        peer=lambda torch: peer(torch, _labels(batch, width)),
        bytes=4.0 * batch * width * 3,  # x, labels -> dx
        target=target,
    )


@lru_cache
def _labels(batch: int, width: int) -> NDArray[np.float32]:
    """One-hot rows."""
    labels = np.zeros((batch, width), np.float32)
    labels[np.arange(batch), np.random.default_rng(2).integers(0, width, batch)] = 1.0
    return labels


_STRUCTS: dict[int, type[Any]] = {
    capi.BNNSLossFunctionSoftmaxCrossEntropy: capi.BNNSLayerParametersLossSoftmaxCrossEntropy,
    capi.BNNSLossFunctionSigmoidCrossEntropy: capi.BNNSLayerParametersLossSigmoidCrossEntropy,
}


def _calls(a: Arrays, *, function: int) -> Calls:
    batch, width = a["x"].shape
    a["dy"].fill(1.0)  # the forward call gives the gradient of the loss itself
    struct = _STRUCTS.get(function, capi.BNNSLayerParametersLossBase)
    f = created(
        capi.BNNSFilterCreateLayerLoss(
            struct(function=function, i_desc=vector(width), o_desc=vector(1), reduction=capi.BNNSLossReductionMean)
        )
    )
    both = partial(
        capi.BNNSLossFilterApplyBatch, f, batch, a["x"], 0, _labels(batch, width), 0, None, 0, a["y"],
        vector(width, a["dx"]), 0,
    )  # fmt: skip
    return Calls(f, both, _nothing)


def _nothing() -> int:
    """The gradient has come with the forward call."""
    return 0
