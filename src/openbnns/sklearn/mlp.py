"""Multilayer perceptrons, with the parameters of scikit-learn's."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .. import nn
from ._classifier import NetworkClassifier
from ._estimator import ACTIVATIONS, Activation, Array, NetworkEstimator, Rate, Solver


class _Perceptron(NetworkEstimator):
    """Linear layers with an activation between them."""

    def __init__(
        self,
        hidden_layer_sizes: Any = (100,),
        activation: Activation = "relu",
        *,
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
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
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
        for size in self._sizes("hidden_layer_sizes"):
            layers += [nn.Linear(size, weight_init="xavier_uniform"), ACTIVATIONS[self.activation]()]
        return nn.Sequential(*layers, nn.Linear(outputs, weight_init="xavier_uniform"))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._require_choice("activation", tuple(ACTIVATIONS))
        self._sizes("hidden_layer_sizes")

    @property
    def coefs_(self) -> list[Array]:
        """The weights of the layers, each (inputs, outputs) as in scikit-learn."""
        check_is_fitted(self, "n_iter_")
        return [p.data.T for name, p in self._network.named_parameters() if name.endswith("weight")]

    @property
    def intercepts_(self) -> list[Array]:
        check_is_fitted(self, "n_iter_")
        return [p.data for name, p in self._network.named_parameters() if name.endswith("bias")]

    @property
    def n_layers_(self) -> int:
        return len(self.coefs_) + 1


class MLPClassifier(_Perceptron, NetworkClassifier):
    """A multilayer perceptron that tells classes or labels apart.

    Parameters, stopping rules and attributes are those of ``sklearn.neural_network.MLPClassifier``. Beyond it there are the
    activations gelu, silu and elu, and the solvers adamw and rmsprop; there is no lbfgs. It computes in float32, on all cores.
    The targets may be classes of any kind, or a matrix of zeros and ones for labels.

    >>> from openbnns.sklearn import MLPClassifier
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> x, y = load_iris(return_X_y=True)
    >>> model = MLPClassifier((20,), learning_rate_init=0.02, max_iter=60, tol=0, random_state=0).fit(scale(x), y)
    >>> model.score(scale(x), y) > 0.9, model.predict_proba(scale(x[:5])).shape
    (True, (5, 3))
    """


class MLPRegressor(RegressorMixin, _Perceptron):  # type: ignore[misc]
    """A multilayer perceptron that predicts one number or several.

    Parameters, stopping rules and attributes are those of ``sklearn.neural_network.MLPRegressor``, but for the solver lbfgs.
    Targets are taken as they are: scale them, for instance with ``TransformedTargetRegressor``, if they are large.

    >>> import numpy as np
    >>> from openbnns.sklearn import MLPRegressor
    >>> x = np.linspace(-2, 2, 200)[:, None]
    >>> model = MLPRegressor((32, 32), learning_rate_init=0.01, random_state=0).fit(x, np.sin(2 * x[:, 0]))
    >>> model.score(x, np.sin(2 * x[:, 0])) > 0.9
    True
    """

    def fit(self, X: Any, y: Any) -> MLPRegressor:
        """Train on samples (n, features) and targets (n,) or (n, outputs)."""
        self._check_parameters()
        return self._fit_numbers(X, y, epochs=self.max_iter, fresh=self._fresh())

    def partial_fit(self, X: Any, y: Any) -> MLPRegressor:
        """Train for one epoch on these samples."""
        self._check_parameters()
        return self._fit_numbers(X, y, epochs=1, fresh=not hasattr(self, "n_iter_"))

    def _fit_numbers(self, X: Any, y: Any, *, epochs: int, fresh: bool) -> MLPRegressor:
        x, y = self._samples_and_targets(X, y, reset=fresh, y_numeric=True)
        targets = np.asarray(y, np.float32)
        if targets.ndim == 2 and targets.shape[1] == 1:
            targets = column_or_1d(targets, warn=True)
        self._flat = targets.ndim == 1
        self._fit(
            x,
            targets.reshape(len(targets), -1),
            "mse",
            1 if self._flat else targets.shape[1],
            epochs=epochs,
            fresh=fresh,
        )
        return self

    def _score(self, outputs: Array, targets: Array) -> float:
        return float(r2_score(targets, outputs))

    def predict(self, X: Any) -> Array:
        """The numbers of every sample."""
        scores = self._scores(X)
        return np.asarray(scores[:, 0] if self._flat else scores)
