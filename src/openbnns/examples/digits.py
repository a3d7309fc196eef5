"""Train a small network to read handwritten digits, with every forward and backward call written out.

Run it with ``python -m openbnns.examples.digits``. The network is 64 pixels -> 32 tanh units -> 10 scores. One step is

    forward:   hidden = tanh(W1 x + b1)        scores = W2 hidden + b2
    loss:      softmax cross entropy, whose gradient with respect to the scores is softmax(scores) - one_hot(label)
    backward:  output layer, then hidden layer; each fills the gradient arrays of its weights and bias
    update:    Adam changes the weights in place

The layers are created with ``BNNSFlagsUseClientPtr``, so they read the weight arrays that the update changes. All the
arrays that layers write exist before training starts.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import openbnns
from openbnns import ActivationFunction, FullyConnectedLayer
from openbnns.capi import BNNSFilterParameters, BNNSFlagsUseClientPtr
from openbnns.datasets import load_digits

Array = NDArray[Any]

PIXELS, HIDDEN, DIGITS = 64, 32, 10
BATCH, EPOCHS, LEARNING_RATE = 32, 30, 0.004


def initial_weights(generator: np.random.Generator, outputs: int, inputs: int) -> Array:
    """Normal numbers whose variance keeps signals at the same scale from layer to layer."""
    weights: Array = generator.standard_normal((outputs, inputs)) / np.sqrt(inputs)
    return weights.astype(np.float32)


class Adam:
    """Adam for a list of arrays, which are changed in place."""

    def __init__(self, parameters: list[Array], learning_rate: float) -> None:
        self.parameters, self.learning_rate, self.step_count = parameters, learning_rate, 0
        self.means = [np.zeros_like(p) for p in parameters]
        self.squares = [np.zeros_like(p) for p in parameters]

    def step(self, gradients: list[Array]) -> None:
        self.step_count += 1
        mean_scale = 1 / (1 - 0.9**self.step_count)
        square_scale = 1 / (1 - 0.999**self.step_count)
        for p, g, m, v in zip(self.parameters, gradients, self.means, self.squares, strict=True):
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            p -= self.learning_rate * (mean_scale * m) / (np.sqrt(square_scale * v) + 1e-8)


def cross_entropy(scores: Array, labels: Array, gradient: Array) -> float:
    """Mean loss of a batch; writes its gradient with respect to the scores (batch, digits)."""
    rows = np.arange(len(labels))
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    gradient[...] = exponentials / exponentials.sum(axis=1, keepdims=True)  # the probabilities
    loss = -float(np.log(gradient[rows, labels]).mean())
    gradient[rows, labels] -= 1
    gradient /= len(labels)
    return loss


def train(epochs: int = EPOCHS, seed: int = 7, verbose: bool = True) -> tuple[list[float], float]:
    """Train; gives the mean loss of each epoch and the share of test digits read correctly."""
    train_x, train_y, test_x, test_y = load_digits()
    generator = np.random.default_rng(seed)

    # Parameters, and layers that read them in place.
    w1, b1 = initial_weights(generator, HIDDEN, PIXELS), np.zeros(HIDDEN, np.float32)
    w2, b2 = initial_weights(generator, DIGITS, HIDDEN), np.zeros(DIGITS, np.float32)
    in_place = BNNSFilterParameters(flags=BNNSFlagsUseClientPtr)
    hidden_layer = FullyConnectedLayer(
        weights=w1, bias=b1, activation=ActivationFunction.tanh(), filter_parameters=in_place
    )
    output_layer = FullyConnectedLayer(weights=w2, bias=b2, filter_parameters=in_place)

    # Everything a training step writes.
    x = np.empty((BATCH, PIXELS), np.float32)
    hidden, hidden_gradient = np.empty((2, BATCH, HIDDEN), np.float32)
    scores, scores_gradient = np.empty((2, BATCH, DIGITS), np.float32)
    gradients = [np.empty_like(p) for p in (w1, b1, w2, b2)]
    dw1, db1, dw2, db2 = gradients
    optimizer = Adam([w1, b1, w2, b2], LEARNING_RATE)

    losses = []
    for epoch in range(epochs):
        order = generator.permutation(len(train_x))
        batches = [order[i : i + BATCH] for i in range(0, len(order) - BATCH + 1, BATCH)]
        total = 0.0
        for chosen in batches:
            np.take(train_x, chosen, axis=0, out=x)
            hidden_layer.apply(x, hidden)
            output_layer.apply(hidden, scores)

            total += cross_entropy(scores, train_y[chosen], scores_gradient)

            output_layer.apply_backward(hidden, scores, scores_gradient, hidden_gradient, dw2, db2)
            hidden_layer.apply_backward(x, hidden, hidden_gradient, openbnns.skip, dw1, db1)  # dx is not needed

            optimizer.step(gradients)
        losses.append(total / len(batches))
        if verbose and (epoch % 3 == 0 or epoch == epochs - 1):
            print(f"  epoch {epoch + 1:2d}   loss {losses[-1]:.4f}")

    predicted = output_layer.apply(hidden_layer.apply(test_x)).argmax(axis=1)
    return losses, float((predicted == test_y).mean())


def main() -> int:
    print(f"Training {PIXELS} -> {HIDDEN} tanh -> {DIGITS} on handwritten digits ({openbnns.current_engine()} engine)")
    start = time.perf_counter()
    losses, accuracy = train()
    seconds = time.perf_counter() - start
    print(f"Loss fell from {losses[0]:.4f} to {losses[-1]:.4f} in {EPOCHS} epochs, {seconds:.1f} s in all.")
    print(f"Test accuracy: {accuracy:.1%} of 360 digits that the network had not seen.")
    print(f"What happened, call by call: {__file__}")
    return 0 if accuracy >= 0.95 else 1


if __name__ == "__main__":
    raise SystemExit(main())
