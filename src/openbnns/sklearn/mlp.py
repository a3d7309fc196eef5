"""Multilayer perceptrons, with the parameters of scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.multiclass import check_classification_targets, type_of_target, unique_labels
from sklearn.utils.validation import column_or_1d

from .. import nn
from ._estimator import Array, Perceptron


class MLPClassifier(ClassifierMixin, Perceptron):  # type: ignore[misc]
    """A multilayer perceptron that tells classes or labels apart.

    Parameters, stopping rules and attributes are those of ``sklearn.neural_network.MLPClassifier``. Beyond it there are the
    activations gelu, silu and elu, and the solvers adamw and rmsprop; there is no lbfgs. It computes in float32, on all cores.
    Samples may be sparse matrices. The targets may be classes of any kind, or a matrix of zeros and ones for labels.
    ``network_`` is the network, whose outputs are scores of the classes.

    >>> from openbnns.sklearn import MLPClassifier
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> x, y = load_iris(return_X_y=True)
    >>> model = MLPClassifier((20,), learning_rate_init=0.02, max_iter=60, tol=0, random_state=0).fit(scale(x), y)
    >>> model.score(scale(x), y) > 0.9, model.predict_proba(scale(x[:5])).shape
    (True, (5, 3))
    """

    def fit(self, X: Any, y: Any) -> MLPClassifier:
        """Train on samples (n, features), also sparse ones, and their classes, or labels (n, labels)."""
        self._check_parameters()
        return self._fit_classes(X, y, epochs=self.max_iter, fresh=self._fresh())

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> MLPClassifier:
        """Train for one epoch on these samples; the first call must know all ``classes``, by default those of y."""
        self._check_parameters()
        fresh = not hasattr(self, "n_iter_")
        if fresh and classes is not None:
            self.classes_ = unique_labels(classes)
        elif fresh and hasattr(self, "classes_"):
            del self.classes_
        return self._fit_classes(X, y, epochs=1, fresh=fresh, known=classes is not None or not fresh)

    def _fit_classes(self, X: Any, y: Any, *, epochs: int, fresh: bool, known: bool = False) -> MLPClassifier:
        x, y = self._samples_and_targets(X, y, reset=fresh)
        check_classification_targets(y)
        targets, labels = self._numbered(y, known=known or not fresh)
        if labels:
            self._fit(x, targets, "bce_with_logits", targets.shape[1], epochs=epochs, fresh=fresh)
        else:
            self._fit(x, targets, "cross_entropy", max(len(self.classes_), 2), epochs=epochs, fresh=fresh)
        if len(self.classes_) == self.n_outputs_:  # the exception is a single class, which has two outputs
            task = "multilabel" if labels else "classification"
            self.network_._card = nn.ModelCard(task=task, classes=tuple(map(str, self.classes_)))
        return self

    def _numbered(self, y: Array, *, known: bool) -> tuple[Array, bool]:
        """Targets as the network needs them, and whether they are labels."""
        if type_of_target(y) == "multilabel-indicator":
            if not known:
                self.classes_ = np.arange(y.shape[1])
            elif y.shape[1] != len(self.classes_):
                raise ValueError(
                    f"{type(self).__name__}: y has {y.shape[1]} labels, but the network {len(self.classes_)}."
                )
            self._labels = True
            return np.asarray(y, np.float32), True
        self._labels = False
        y = column_or_1d(y, warn=True)
        if not known:
            self.classes_ = np.unique(y)
        unseen = np.setdiff1d(y, self.classes_)
        if len(unseen):
            raise ValueError(
                f"{type(self).__name__}: y has {unseen[:5].tolist()}, which is none of the classes {self.classes_.tolist()}."
            )
        return np.searchsorted(self.classes_, y), False

    def _score(self, outputs: Array, targets: Array) -> float:
        predicted, wanted = (outputs > 0, targets > 0.5) if self._labels else (outputs.argmax(axis=1), targets)
        return float(accuracy_score(wanted, predicted))

    def predict_proba(self, X: Any) -> Array:
        """Probabilities (n, classes), or (n, labels) of each label."""
        scores = self._scores(X).astype(np.float64)
        if self._labels:
            return np.asarray(np.exp(-np.logaddexp(0, -scores)))
        scores = scores[:, : len(self.classes_)]
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def predict_log_proba(self, X: Any) -> Array:
        return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> Array:
        """The most probable class of every sample, or the labels that are more probable than not."""
        probabilities = self.predict_proba(X)
        if self._labels:
            return (probabilities > 0.5).astype(int)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = False
        return tags


class MLPRegressor(RegressorMixin, Perceptron):  # type: ignore[misc]
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
        """Train on samples (n, features), also sparse ones, and targets (n,) or (n, outputs)."""
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
        self.network_._card = nn.ModelCard(task="regression")
        return self

    def _score(self, outputs: Array, targets: Array) -> float:
        return float(r2_score(targets, outputs))

    def predict(self, X: Any) -> Array:
        """The numbers of every sample."""
        scores = self._scores(X)
        return np.asarray(scores[:, 0] if self._flat else scores)
