"""A convolutional network for images."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from .. import nn
from ._classifier import NetworkClassifier
from ._estimator import ACTIVATIONS, Activation, Array, Rate, Solver


class ConvClassifier(NetworkClassifier):
    """Convolutions, then a multilayer perceptron, for images.

    Each of ``channels`` is a convolution with so many channels, an activation, and a pooling that halves the image; layers of
    ``hidden_layer_sizes`` follow. Samples are rows of pixels, as scikit-learn has them: ``image_shape`` is (height, width) or
    (channels, height, width), and if it is left out images are square and gray, or else a single line. The other parameters
    are those of :class:`MLPClassifier`.

    >>> from openbnns.sklearn import ConvClassifier
    >>> from sklearn.datasets import load_digits
    >>> x, y = load_digits(return_X_y=True)
    >>> model = ConvClassifier((8, 16), max_iter=12, tol=0, learning_rate_init=0.01, random_state=0).fit(x[:1500] / 16, y[:1500])
    >>> model.score(x[1500:] / 16, y[1500:]) > 0.9
    True
    """

    def __init__(
        self,
        channels: Any = (16, 32),
        *,
        kernel_size: int = 3,
        hidden_layer_sizes: Any = (64,),
        activation: Activation = "relu",
        image_shape: Any = None,
        solver: Solver = "adam",
        alpha: float = 0.0001,
        batch_size: int | Literal["auto"] = "auto",
        learning_rate: Rate = "constant",
        learning_rate_init: float = 0.001,
        power_t: float = 0.5,
        max_iter: int = 200,
        random_state: Any = None,
        tol: float = 1e-4,
        verbose: bool = False,
        warm_start: bool = False,
        momentum: float = 0.9,
        nesterovs_momentum: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        n_iter_no_change: int = 10,
    ) -> None:
        self.channels = channels
        self.kernel_size = kernel_size
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.image_shape = image_shape
        self.solver = solver
        self.alpha = alpha
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.learning_rate_init = learning_rate_init
        self.power_t = power_t
        self.max_iter = max_iter
        self.random_state = random_state
        self.tol = tol
        self.verbose = verbose
        self.warm_start = warm_start
        self.momentum = momentum
        self.nesterovs_momentum = nesterovs_momentum
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.n_iter_no_change = n_iter_no_change

    def _make_network(self, sample: tuple[int, ...], outputs: int) -> nn.Module:
        layers: list[nn.Module] = []
        height, width = sample[1:]
        for channels in self._sizes("channels"):
            layers += [
                nn.Conv2d(channels, self.kernel_size, padding=self.kernel_size // 2, weight_init="kaiming_uniform")
            ]
            layers += [ACTIVATIONS[self.activation]()]
            window = min(2, height), min(2, width)  # a line of pixels stays one
            if max(window) > 1:
                layers.append(nn.MaxPool2d(window))
                height, width = height // window[0], width // window[1]
        layers.append(nn.Flatten())
        for size in self._sizes("hidden_layer_sizes"):
            layers += [nn.Linear(size, weight_init="xavier_uniform"), ACTIVATIONS[self.activation]()]
        return nn.Sequential(*layers, nn.Linear(outputs, weight_init="xavier_uniform"))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._require_choice("activation", tuple(ACTIVATIONS))
        self._require_count("kernel_size")
        if self.kernel_size % 2 == 0:
            raise ValueError(
                f"ConvClassifier: kernel_size is {self.kernel_size}. Use an odd number, which has a middle."
            )
        self._sizes("channels")
        self._sizes("hidden_layer_sizes")

    def _image(self, features: int) -> tuple[int, int, int]:
        """Channels, height and width of a sample of so many numbers."""
        if self.image_shape is None:
            side = math.isqrt(features)
            return (1, side, side) if side * side == features else (1, 1, features)
        shape = tuple(self.image_shape) if isinstance(self.image_shape, (tuple, list)) else ()
        if len(shape) not in (2, 3) or not all(isinstance(n, (int, np.integer)) and n > 0 for n in shape):
            raise ValueError(
                f"ConvClassifier: image_shape is {self.image_shape!r}. Use (height, width) or (channels, height, width)."
            )
        whole: tuple[Any, ...] = (1, *shape) if len(shape) == 2 else shape
        if math.prod(whole) != features:
            raise ValueError(
                f"ConvClassifier: image_shape is {self.image_shape!r}, which has {math.prod(whole)} pixels, but X has {features} "
                "features. Pass the shape of the images that the rows of X hold."
            )
        channels, height, width = (int(n) for n in whole)
        return channels, height, width

    def _samples(self, x: Any, *, reset: bool) -> Array:
        return self._images(super()._samples(x, reset=reset))

    def _samples_and_targets(self, x: Any, y: Any, *, reset: bool, **options: Any) -> tuple[Array, Array]:
        samples, targets = super()._samples_and_targets(x, y, reset=reset, **options)
        return self._images(samples), targets

    def _images(self, rows: Array) -> Array:
        return rows.reshape(len(rows), *self._image(rows.shape[1]))
