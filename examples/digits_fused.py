"""Train a network with a fused layer to read digits that stand anywhere in an image; layer classes only.

    images (N, 1, 20, 20)
    -> fused: convolution 1 -> 32, 3 x 3, padding 1; batch normalization; ReLU          (N, 32, 20, 20)
    -> max pooling 2 x 2                                                                (N, 32, 10, 10)
    -> fully connected 3200 -> 10, without bias                                         (N, 10)
    -> softmax cross entropy, mean

Run it with ``python examples/digits_fused.py``. ``digits_capi.py`` is the same network under the C names, and ends with
bitwise the same weights.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import openbnns as bn
from glyphs import IMAGE, draw, one_hot
from openbnns import LearningPhase, Shape, skip

BATCH, STEPS, CHANNELS = 32, 850, 32
FEATURES = CHANNELS * (IMAGE // 2) ** 2
Array = NDArray[Any]


def initial_parameters(random: np.random.RandomState) -> dict[str, Array]:
    """The trained parameters: weights uniform in ±0.5, biases 0."""
    return {
        "convolution_weights": random.uniform(-0.5, 0.5, (CHANNELS, 1, 3, 3)).astype(np.float32),
        "convolution_bias": np.zeros(CHANNELS, np.float32),
        "beta": np.zeros(CHANNELS, np.float32),
        "gamma": np.ones(CHANNELS, np.float32),
        "fully_connected_weights": random.uniform(-0.5, 0.5, (10, FEATURES)).astype(np.float32),
    }


class Network:
    """The layers, and every array that a training step writes."""

    def __init__(self, parameters: dict[str, Array]) -> None:
        self.parameters = parameters
        self.moving_mean, self.moving_variance = np.ones(CHANNELS, np.float32), np.ones(CHANNELS, np.float32)
        image, half = Shape.image_chw(IMAGE, IMAGE, CHANNELS), Shape.image_chw(IMAGE // 2, IMAGE // 2, CHANNELS)
        in_place = bn.capi.BNNSFilterParameters(flags=bn.capi.BNNSFlagsUseClientPtr)  # layers read what Adam changes
        self.fused = bn.FusedParametersLayer(
            input=Shape.image_chw(IMAGE, IMAGE, 1),
            output=image,
            fused_layer_parameters=[
                bn.FusedConvolutionParameters(
                    type=bn.ConvolutionType.STANDARD,
                    weights=parameters["convolution_weights"],
                    bias=parameters["convolution_bias"],
                    stride=(1, 1),
                    dilation_stride=(1, 1),
                    group_size=1,
                    padding=bn.ConvolutionPadding.symmetric(x=1, y=1),
                ),
                bn.FusedNormalizationParameters(
                    type=bn.NormalizationType.batch(moving_mean=self.moving_mean, moving_variance=self.moving_variance),
                    beta=parameters["beta"],
                    gamma=parameters["gamma"],
                    momentum=0.9,
                    epsilon=1e-7,
                    activation=bn.ActivationFunction.rectified_linear(),
                ),
            ],
            filter_parameters=in_place,
        )
        self.pooling = bn.PoolingLayer(
            type=bn.PoolingType.max(), input=image, output=half, kernel_size=(2, 2), stride=(2, 2)
        )
        self.fully_connected = bn.FullyConnectedLayer(
            input=half,
            output=Shape.vector(10),
            weights=parameters["fully_connected_weights"],
            filter_parameters=in_place,
        )
        self.loss = bn.LossLayer(
            input=Shape.vector(10),
            loss_function=bn.LossFunction.softmax_cross_entropy(),
            loss_reduction=bn.LossReduction.REDUCTION_MEAN,
        )
        self.features, self.features_gradient = np.empty((2, BATCH, CHANNELS, IMAGE, IMAGE), np.float32)
        self.pooled, self.pooled_gradient = np.empty((2, BATCH, CHANNELS, IMAGE // 2, IMAGE // 2), np.float32)
        self.scores, self.scores_gradient = np.empty((2, BATCH, 10), np.float32)
        self.gradients = {name: np.empty_like(array) for name, array in parameters.items()}
        self.loss_value = np.empty(1, np.float32)

    def step(self, images: Array, labels: Array) -> float:
        """Forward and backward; gives the loss and fills the gradients."""
        self.fused.apply(images, self.features, phase=LearningPhase.TRAINING)
        self.pooling.apply(self.features, self.pooled)
        self.fully_connected.apply(self.pooled, self.scores)
        self.loss.apply(self.scores, labels, self.loss_value, None, self.scores_gradient)

        g = self.gradients
        self.fully_connected.apply_backward(
            self.pooled, self.scores, self.scores_gradient, self.pooled_gradient, g["fully_connected_weights"]
        )
        self.pooling.apply_backward(self.features, self.pooled, self.pooled_gradient, self.features_gradient)
        self.fused.apply_backward(
            input=images,
            output=self.features,
            output_gradient=self.features_gradient,
            generating_input_gradient=skip,  # the gradient of the images is not needed
            generating_parameter_gradients=[g["convolution_weights"], g["convolution_bias"], g["beta"], g["gamma"]],
        )
        return float(self.loss_value[0])

    def read(self, images: Array) -> Array:
        """The digits of images, in inference mode: with the moving statistics."""
        features = self.fused.apply(images, phase=LearningPhase.INFERENCE)
        return self.fully_connected.apply(self.pooling.apply(features)).argmax(axis=1)


def train(seed: int = 0, steps: int = STEPS, report: Any = None) -> tuple[Network, list[float]]:
    """Train on ``steps`` fresh batches; gives the network and the loss of every step."""
    random = np.random.RandomState(seed)
    network = Network(initial_parameters(random))
    parameters, gradients = list(network.parameters.values()), list(network.gradients.values())
    accumulators = [np.zeros_like(p) for _ in range(2) for p in parameters]
    adam = bn.AdamOptimizer(
        learning_rate=0.01,
        beta1=0.9,
        beta2=0.999,
        time_step=1,
        epsilon=1e-8,
        gradient_scale=1,
        regularization_scale=0.01,
        clips_gradients_to=(-0.5, 0.5),
        regularization_function=bn.RegularizationFunction.L2,
    )
    losses = []
    for step in range(steps):
        if step == 500:
            adam.learning_rate /= 10
        images, digits = draw(random, BATCH)
        losses.append(network.step(images, one_hot(digits)))
        adam.step(parameters=parameters, gradients=gradients, accumulators=accumulators)
        adam.time_step += 1
        if report is not None and (step + 1) % 50 == 0:
            report(step + 1, float(np.mean(losses[-20:])))
    return network, losses


def main() -> int:
    began = time.perf_counter()
    network, losses = train(report=lambda step, mean: print(f"  step {step:3d}   loss, mean of 20 steps: {mean:8.4f}"))
    images, digits = draw(np.random.RandomState(12345), 320)
    accuracy = float((network.read(images) == digits).mean())
    print(f"Loss fell from {losses[0]:.2f} to {np.mean(losses[-20:]):.4f} in {time.perf_counter() - began:.1f} s.")
    print(f"Read correctly: {accuracy:.1%} of 320 fresh images.")
    return 0 if accuracy >= 0.97 else 1


if __name__ == "__main__":
    sys.exit(main())
