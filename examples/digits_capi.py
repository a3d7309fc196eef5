"""The network of ``digits_fused.py`` under the C names: every call as a C program would make it.

Run it with ``python examples/digits_capi.py``. It ends with bitwise the weights of the layer classes.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from digits_fused import BATCH, CHANNELS, FEATURES, initial_parameters
from glyphs import IMAGE, draw, one_hot
from numpy.typing import NDArray

import openbnns
from openbnns.capi import *  # noqa: F403

Array = NDArray[Any]
HALF = IMAGE // 2
PIXELS, FEATURE_PIXELS = IMAGE * IMAGE, CHANNELS * IMAGE * IMAGE


def vector(count: int, data: Array | None = None) -> BNNSNDArrayDescriptor:
    return BNNSNDArrayDescriptor(layout=BNNSDataLayoutVector, size=[count], data=data, data_type=BNNSDataTypeFloat32)


def image(width: int, height: int, channels: int, data: Array | None = None) -> BNNSNDArrayDescriptor:
    return BNNSNDArrayDescriptor(
        layout=BNNSDataLayoutImageCHW, size=[width, height, channels], data=data, data_type=BNNSDataTypeFloat32
    )


def kernels(data: Array) -> BNNSNDArrayDescriptor:
    return BNNSNDArrayDescriptor(
        layout=BNNSDataLayoutConvolutionWeightsOIHW, size=[3, 3, 1, CHANNELS], data=data, data_type=BNNSDataTypeFloat32
    )


def matrix(columns: int, rows: int, data: Array) -> BNNSNDArrayDescriptor:
    return BNNSNDArrayDescriptor(
        layout=BNNSDataLayoutRowMajorMatrix, size=[columns, rows], data=data, data_type=BNNSDataTypeFloat32
    )


def check(status: int) -> None:
    """BNNS says 0 or -1; here ``last_error`` says why."""
    if status != 0:
        raise RuntimeError(openbnns.last_error())


class Network:
    def __init__(self, p: dict[str, Array]) -> None:
        self.moving_mean, self.moving_variance = np.ones(CHANNELS, np.float32), np.ones(CHANNELS, np.float32)
        in_place = BNNSFilterParameters(flags=BNNSFlagsUseClientPtr)
        features = image(IMAGE, IMAGE, CHANNELS)
        convolution = BNNSLayerParametersConvolution(
            i_desc=image(IMAGE, IMAGE, 1), w_desc=kernels(p["convolution_weights"]), o_desc=features,
            bias=vector(CHANNELS, p["convolution_bias"]), x_stride=1, y_stride=1, x_dilation_stride=1,
            y_dilation_stride=1, x_padding=1, y_padding=1,
        )  # fmt: skip
        normalization = BNNSLayerParametersNormalization(
            i_desc=features, o_desc=features, beta_desc=vector(CHANNELS, p["beta"]),
            gamma_desc=vector(CHANNELS, p["gamma"]), moving_mean_desc=vector(CHANNELS, self.moving_mean),
            moving_variance_desc=vector(CHANNELS, self.moving_variance), momentum=0.9, epsilon=1e-7,
            activation=BNNSActivation(function=BNNSActivationFunctionRectifiedLinear),
        )  # fmt: skip
        self.fused = BNNSFilterCreateFusedLayer(
            2, [BNNSConvolution, BNNSBatchNorm], [convolution, normalization], in_place
        )
        self.pooling = BNNSFilterCreateLayerPooling(
            BNNSLayerParametersPooling(
                i_desc=features, o_desc=image(HALF, HALF, CHANNELS), pooling_function=BNNSPoolingFunctionMax, k_width=2,
                k_height=2, x_stride=2, y_stride=2,
            ),
            in_place,
        )  # fmt: skip
        self.fully_connected = BNNSFilterCreateLayerFullyConnected(
            BNNSLayerParametersFullyConnected(
                i_desc=vector(FEATURES), o_desc=vector(10),
                w_desc=matrix(FEATURES, 10, p["fully_connected_weights"]),
            ),
            in_place,
        )  # fmt: skip
        self.loss = BNNSFilterCreateLayerLoss(
            BNNSLayerParametersLossSoftmaxCrossEntropy(
                function=BNNSLossFunctionSoftmaxCrossEntropy, i_desc=vector(10), o_desc=vector(1),
                reduction=BNNSLossReductionMean,
            ),
            in_place,
        )  # fmt: skip
        if None in (self.fused, self.pooling, self.fully_connected, self.loss):
            raise RuntimeError(openbnns.last_error())
        self.features, self.features_gradient = np.empty((2, BATCH, FEATURE_PIXELS), np.float32)
        self.pooled, self.pooled_gradient = np.empty((2, BATCH, FEATURES), np.float32)
        self.scores, self.scores_gradient = np.empty((2, BATCH, 10), np.float32)
        self.gradients = {name: np.empty_like(array) for name, array in p.items()}
        self.loss_value = np.empty(1, np.float32)

    def step(self, images: Array, labels: Array) -> float:
        g = self.gradients
        check(BNNSFusedFilterApplyBatch(self.fused, BATCH, images, PIXELS, self.features, FEATURE_PIXELS, True))
        check(
            BNNSPoolingFilterApplyBatch(
                self.pooling, BATCH, self.features, FEATURE_PIXELS, self.pooled, FEATURES, None, 0
            )
        )
        check(BNNSFilterApplyBatch(self.fully_connected, BATCH, self.pooled, FEATURES, self.scores, 10))
        scores_delta = vector(10, self.scores_gradient)
        check(
            BNNSLossFilterApplyBatch(
                self.loss, BATCH, self.scores, 10, labels, 10, None, 0, self.loss_value, scores_delta, 10
            )
        )

        pooled_delta = vector(FEATURES, self.pooled_gradient)
        check(
            BNNSFilterApplyBackwardBatch(
                self.fully_connected, BATCH, self.pooled, FEATURES, pooled_delta, FEATURES, self.scores, 10,
                scores_delta, 10, matrix(FEATURES, 10, g["fully_connected_weights"]), None,
            )
        )  # fmt: skip
        features_delta = image(IMAGE, IMAGE, CHANNELS, self.features_gradient)
        check(
            BNNSPoolingFilterApplyBackwardBatch(
                self.pooling, BATCH, self.features, FEATURE_PIXELS, features_delta, FEATURE_PIXELS, self.pooled, FEATURES,
                image(HALF, HALF, CHANNELS, self.pooled_gradient), FEATURES, None, None, 0,
            )
        )  # fmt: skip
        parameters = [
            kernels(g["convolution_weights"]), vector(CHANNELS, g["convolution_bias"]), vector(CHANNELS, g["beta"]),
            vector(CHANNELS, g["gamma"]),
        ]  # fmt: skip
        check(
            BNNSFusedFilterApplyBackwardBatch(
                self.fused, BATCH, images, PIXELS, None, 0, self.features, FEATURE_PIXELS, features_delta, FEATURE_PIXELS,
                parameters,
            )
        )  # fmt: skip
        return float(self.loss_value[0])


def train(seed: int = 0, steps: int = 50) -> tuple[dict[str, Array], list[float]]:
    """The weights after so many steps, and the loss of each."""
    random = np.random.RandomState(seed)
    p = initial_parameters(random)
    network = Network(p)
    shapes = {
        "convolution_weights": kernels, "convolution_bias": lambda a: vector(CHANNELS, a),
        "beta": lambda a: vector(CHANNELS, a), "gamma": lambda a: vector(CHANNELS, a),
        "fully_connected_weights": lambda a: matrix(FEATURES, 10, a),
    }  # fmt: skip
    parameters = [describe(p[name]) for name, describe in shapes.items()]
    gradients = [describe(network.gradients[name]) for name, describe in shapes.items()]
    accumulators = [describe(np.zeros_like(p[name])) for _ in range(2) for name, describe in shapes.items()]
    adam = BNNSOptimizerAdamFields(
        learning_rate=0.01, beta1=0.9, beta2=0.999, time_step=1, epsilon=1e-8, gradient_scale=1, regularization_scale=0.01,
        clip_gradients=True, clip_gradients_min=-0.5, clip_gradients_max=0.5,
        regularization_func=BNNSOptimizerRegularizationL2,
    )  # fmt: skip
    losses = []
    for step in range(steps):
        if step == 500:
            adam.learning_rate /= 10
        images, digits = draw(random, BATCH)
        losses.append(network.step(images, one_hot(digits)))
        check(
            BNNSOptimizerStep(
                BNNSOptimizerFunctionAdam, adam, len(parameters), parameters, gradients, accumulators, None
            )
        )
        adam.time_step += 1
    return p, losses


def main() -> int:
    from digits_fused import train as train_with_layers

    p, losses = train()
    network, _ = train_with_layers(steps=50)
    same = all(np.array_equal(p[name], array) for name, array in network.parameters.items())
    print(f"Loss fell from {losses[0]:.2f} to {losses[-1]:.2f} in 50 steps.")
    print(f"The weights are {'bitwise those' if same else 'NOT those'} of the layer classes.")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
