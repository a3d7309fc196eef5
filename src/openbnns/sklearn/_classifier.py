"""The base of classifiers: classes and labels as numbers, and probabilities."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets, type_of_target, unique_labels
from sklearn.utils.validation import column_or_1d

from ._estimator import Array, NetworkEstimator

_Self = TypeVar("_Self", bound="NetworkClassifier")


class NetworkClassifier(ClassifierMixin, NetworkEstimator):  # type: ignore[misc]
    """A network that tells classes apart, or labels if the targets are a matrix of zeros and ones."""

    def fit(self: _Self, X: Any, y: Any) -> _Self:
        """Train on samples (n, features) and their classes, or labels (n, labels)."""
        self._check_parameters()
        return self._fit_classes(X, y, epochs=self.max_iter, fresh=self._fresh())

    def partial_fit(self: _Self, X: Any, y: Any, classes: Any = None) -> _Self:
        """Train for one epoch on these samples; the first call must know all ``classes``, by default those of y."""
        self._check_parameters()
        fresh = not hasattr(self, "n_iter_")
        if fresh and classes is not None:
            self.classes_ = unique_labels(classes)
        elif fresh and hasattr(self, "classes_"):
            del self.classes_
        return self._fit_classes(X, y, epochs=1, fresh=fresh, known=classes is not None or not fresh)

    def _fit_classes(self: _Self, X: Any, y: Any, *, epochs: int, fresh: bool, known: bool = False) -> _Self:
        x, y = self._samples_and_targets(X, y, reset=fresh)
        check_classification_targets(y)
        targets, labels = self._numbered(y, known=known or not fresh)
        if labels:
            self._fit(x, targets, "bce_with_logits", targets.shape[1], epochs=epochs, fresh=fresh)
        else:
            self._fit(x, targets, "cross_entropy", max(len(self.classes_), 2), epochs=epochs, fresh=fresh)
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
