"""The base of the estimators: training of a multilayer perceptron under the rules of scikit-learn."""

from __future__ import annotations

import math
import numbers
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import nn
from ..nn.predictions import run_all

Array = np.ndarray[Any, Any]

Samples = Any
"""Rows of numbers: an array, or a sparse matrix by rows."""

_ROWS = 512  # that are predicted at a time
_PORTION = 1 << 22  # numbers of sparse rows that are written out at a time for training
_LARGEST_BATCH = 200  # what "auto" means in scikit-learn
Solver = Literal["adam", "adamw", "sgd", "rmsprop"]
Activation = Literal["identity", "logistic", "tanh", "relu", "gelu", "silu", "elu"]
Rate = Literal["constant", "invscaling", "adaptive"]
SOLVERS = ("adam", "adamw", "sgd", "rmsprop")
RATES = ("constant", "invscaling", "adaptive")
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "identity": nn.Identity,
    "logistic": nn.Sigmoid,
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "elu": nn.ELU,
}


class Perceptron(BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """Linear layers with an activation between them. Subclasses say which loss and what the targets are."""

    network_: nn.Module
    """The network, to look at, to train further, and to export; its outputs are scores of classes, or numbers."""
    n_iter_: int
    """Epochs that were trained."""
    t_: int
    """Samples that were trained on, counted as often as they were used."""
    loss_: float
    best_loss_: float
    loss_curve_: list[float]
    validation_scores_: list[float]
    best_validation_score_: float
    _waited: int  # epochs without anything better

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

    def _make_network(self, outputs: int) -> nn.Module:
        layers: list[nn.Module] = []
        for size in self._sizes("hidden_layer_sizes"):
            layers += [nn.Linear(size, weight_init="xavier_uniform"), ACTIVATIONS[self.activation]()]
        return nn.Sequential(*layers, nn.Linear(outputs, weight_init="xavier_uniform"))

    @abstractmethod
    def _score(self, outputs: Array, targets: Array) -> float:
        """The quality of outputs, for early stopping; more is better."""

    def _fit(self, x: Samples, y: Array, loss: nn.losses.LossName, outputs: int, *, epochs: int, fresh: bool) -> None:
        """Train on float32 samples; ``fresh`` begins with new weights."""
        if fresh:
            self._begin(x, outputs)
        train_x, train_y, held_out = self._validation(x, y, wanted=epochs > 1)
        count, features = train_x.shape
        size = self._batch_size(count)
        self._set_penalty(size)
        sizes = {size, count % size or size}
        steps = {number: self.network_.compile_step(loss, self._optimizer, number) for number in sizes}
        converged, best = False, None
        portion = min(count, max(1, _PORTION // (size * features)) * size) if issparse(x) else count
        # Once: fresh memory costs as much as a step.
        shuffled = np.empty((portion, features), np.float32), np.empty((portion, *train_y.shape[1:]), train_y.dtype)
        for _ in range(epochs):
            losses = list[float]()
            order = self._random.permutation(count)
            for start in range(0, count, portion):
                rows = order[start : start + portion]
                batches, targets = (place[: len(rows)] for place in shuffled)
                if issparse(train_x):
                    train_x[rows].toarray(out=batches)
                else:
                    np.take(train_x, rows, axis=0, out=batches, mode="clip")  # which needs no buffer
                np.take(train_y, rows, axis=0, out=targets, mode="clip")
                losses += steps[size].epoch(batches, targets)
                if rest := len(rows) % size:
                    losses += steps[rest].epoch(batches[-rest:], targets[-rest:])
            self._end_epoch(losses, size, count)
            better = self._note(held_out)
            if held_out is not None and self.validation_scores_[-1] == self.best_validation_score_:
                best = {name: array.copy() for name, array in self.network_.state_dict().items()}
            self._waited = 0 if better else self._waited + 1
            if self._waited > self.n_iter_no_change and not self._goes_on(held_out is not None):
                converged = True
                break
        if best is not None:
            self.network_.load_state_dict(best)
        if epochs > 1 and not converged:
            warnings.warn(
                f"{type(self).__name__}: max_iter={self.max_iter} epochs are done, but the training has not converged yet. Raise "
                "max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _end_epoch(self, losses: list[float], size: int, count: int) -> None:
        """Count an epoch with these losses of batches, of which the last one may be smaller."""
        whole = count // size
        self.loss_ = (size * sum(losses[:whole]) + count % size * sum(losses[whole:])) / count
        self.n_iter_ += 1
        self.t_ += count
        if not math.isfinite(self.loss_):
            raise ValueError(
                f"{type(self).__name__}: the loss became {self.loss_} in epoch {self.n_iter_}. Scale the samples, for instance "
                "with StandardScaler, or use a smaller learning_rate_init."
            )
        self.loss_curve_.append(self.loss_)
        if self.solver == "sgd" and self.learning_rate == "invscaling":
            self._optimizer.learning_rate = self.learning_rate_init / (self.t_ + 1) ** self.power_t

    def _note(self, held_out: tuple[Samples, Array] | None) -> bool:
        """Print and keep the result of the epoch; True if it was better than those before."""
        if self.verbose:
            print(f"Iteration {self.n_iter_}, loss = {self.loss_:.8f}")
        if held_out is None:
            better = bool(self.loss_ < self.best_loss_ - self.tol)
            self.best_loss_ = min(self.loss_, self.best_loss_)
            return better
        score = self._score(self._outputs(held_out[0]), held_out[1])
        self.validation_scores_.append(score)
        if self.verbose:
            print(f"Validation score: {score:f}")
        better = bool(score > self.best_validation_score_ + self.tol)
        self.best_validation_score_ = max(score, self.best_validation_score_)
        return better

    def _goes_on(self, validated: bool) -> bool:
        """True if a lower learning rate is tried, False if the run ends, when nothing has improved for long enough."""
        rate = self._optimizer.learning_rate / 5
        if self.solver == "sgd" and self.learning_rate == "adaptive" and rate > 1e-6:
            self._optimizer.learning_rate, self._waited = rate, 0
            if self.verbose:
                print(f"The learning rate is {rate:g} from here on.")
            return True
        if self.verbose:
            what = "validation score" if validated else "training loss"
            print(
                f"The {what} did not improve by more than tol={self.tol:f} for {self.n_iter_no_change} epochs. Stopping."
            )
        return False

    def _begin(self, x: Samples, outputs: int) -> None:
        self._random = check_random_state(self.random_state)
        network = self._make_network(outputs)
        network.build(x.shape[1:], seed=self._next_seed())
        self.network_ = network
        self._optimizer = self._make_optimizer(network)
        self.n_outputs_ = outputs
        self.n_iter_ = self.t_ = 0
        self.loss_curve_ = []
        self.loss_, self.best_loss_ = math.nan, math.inf
        self.validation_scores_ = []
        self.best_validation_score_ = -math.inf
        self._waited = 0

    def _next_seed(self) -> int:
        return int(self._random.randint(2**31 - 1))

    def _validation(self, x: Samples, y: Array, *, wanted: bool) -> tuple[Samples, Array, tuple[Samples, Array] | None]:
        if not (self.early_stopping and wanted):
            return x, y, None
        stratify = y if y.ndim == 1 else None  # classes
        train_x, test_x, train_y, test_y = train_test_split(
            x, y, test_size=self.validation_fraction, random_state=self._next_seed(), stratify=stratify
        )
        return train_x, train_y, (test_x, test_y)

    def _batch_size(self, samples: int) -> int:
        return min(_LARGEST_BATCH if self.batch_size == "auto" else int(self.batch_size), samples)

    def _make_optimizer(self, network: nn.Module) -> nn.Optimizer:
        """Weights have a penalty, biases have none."""
        weights = [p for name, p in network.named_parameters() if name.endswith("weight")]
        others = [p for name, p in network.named_parameters() if not name.endswith("weight")]
        groups: list[dict[str, Any]] = [{"params": weights}, {"params": others, "weight_decay": 0.0}]
        rate = self.learning_rate_init
        if self.solver == "sgd":
            return nn.SGD(
                groups, lr=rate, momentum=self.momentum, nesterov=self.nesterovs_momentum and self.momentum > 0
            )
        if self.solver == "rmsprop":
            return nn.RMSprop(groups, lr=rate, eps=self.epsilon)
        kind = nn.AdamW if self.solver == "adamw" else nn.Adam
        return kind(groups, lr=rate, betas=(self.beta_1, self.beta_2), eps=self.epsilon)

    def _set_penalty(self, batch: int) -> None:
        """Half the sum of squares times alpha, divided by the samples of a batch, as in scikit-learn."""
        self._optimizer.param_groups[0]["weight_decay"] = self.alpha / batch

    def _scores(self, x: Any) -> Array:
        """The network's outputs for samples, which are validated first."""
        check_is_fitted(self, "n_iter_")
        return self._outputs(validate_data(self, x, dtype=np.float32, reset=False, order="C", accept_sparse="csr"))

    def _outputs(self, samples: Samples) -> Array:
        if not issparse(samples):
            outputs: Array = run_all(self.network_, [samples], _ROWS)
            return outputs
        starts = range(0, samples.shape[0], _ROWS)
        return np.concatenate([self._outputs(samples[start : start + _ROWS].toarray()) for start in starts])

    def _samples_and_targets(self, x: Any, y: Any, *, reset: bool, **options: Any) -> tuple[Samples, Array]:
        if issparse(y):
            raise TypeError(f"{type(self).__name__}: y is a sparse matrix, but only X may be one. Pass y.toarray().")
        samples, targets = validate_data(
            self, x, y, dtype=np.float32, order="C", accept_sparse="csr", multi_output=True, reset=reset, **options
        )
        return samples, targets

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _fresh(self) -> bool:
        """True if fit begins with new weights."""
        return not (self.warm_start and hasattr(self, "n_iter_"))

    def __getstate__(self) -> dict[str, Any]:
        """For pickles and copies: the optimizer as what it remembers, which goes to a new one."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "_optimizer" in state:
            state["_optimizer"] = self._optimizer.state_dict()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_optimizer" in state:
            self._optimizer = self._make_optimizer(self.network_)
            self._optimizer.load_state_dict(state["_optimizer"])

    @property
    def coefs_(self) -> list[Array]:
        """The weights of the layers, each (inputs, outputs) as in scikit-learn."""
        check_is_fitted(self, "n_iter_")
        return [p.data.T for name, p in self.network_.named_parameters() if name.endswith("weight")]

    @property
    def intercepts_(self) -> list[Array]:
        check_is_fitted(self, "n_iter_")
        return [p.data for name, p in self.network_.named_parameters() if name.endswith("bias")]

    @property
    def n_layers_(self) -> int:
        return len(self.coefs_) + 1

    # Parameters.

    def _check_parameters(self) -> None:
        """Refuse invalid parameters by name; scikit-learn wants that in fit, not before."""
        solver: str = self.solver
        if solver == "lbfgs":
            raise ValueError(
                f"{type(self).__name__}: solver='lbfgs' is not available. Use one of {', '.join(SOLVERS)}."
            )
        self._require_choice("solver", SOLVERS)
        self._require_choice("activation", tuple(ACTIVATIONS))
        self._sizes("hidden_layer_sizes")
        self._require_choice("learning_rate", RATES)
        self._require_number("alpha", 0)
        self._require_number("learning_rate_init", 0, above=True)
        self._require_number("power_t", 0)
        self._require_number("tol", 0)
        self._require_number("momentum", 0, 1)
        self._require_number("validation_fraction", 0, 1, above=True)
        self._require_number("beta_1", 0, 1)
        self._require_number("beta_2", 0, 1)
        self._require_number("epsilon", 0, above=True)
        self._require_count("max_iter")
        self._require_count("n_iter_no_change")
        if self.batch_size != "auto":
            self._require_count("batch_size")

    def _require_choice(self, name: str, known: Sequence[str]) -> None:
        value = getattr(self, name)
        if value not in known:
            raise ValueError(f"{type(self).__name__}: {name} is {value!r}. Use one of {', '.join(known)}.")

    def _require_number(self, name: str, low: float, high: float = math.inf, *, above: bool = False) -> None:
        value: Any = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError(f"{type(self).__name__}: {name} is {value!r}. Use a number.")
        if not low <= float(value) <= high or (above and value == low):
            limit = f" and at most {high:g}" if high < math.inf else ""
            raise ValueError(
                f"{type(self).__name__}: {name} is {value}. Use {'above' if above else 'at least'} {low:g}{limit}."
            )

    def _require_count(self, name: str) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise TypeError(f"{type(self).__name__}: {name} is {value!r}. Use a whole number.")
        if int(value) < 1:
            raise ValueError(f"{type(self).__name__}: {name} is {value}. Use at least 1.")

    def _sizes(self, name: str) -> list[int]:
        """A parameter that is one size or several."""
        value = getattr(self, name)
        sizes = [value] if isinstance(value, numbers.Integral) else list(np.asarray(value).ravel())
        if not all(isinstance(size, numbers.Integral) and int(size) > 0 for size in sizes):
            raise ValueError(f"{type(self).__name__}: {name} is {value!r}. Use whole numbers above 0, such as (100,).")
        return [int(size) for size in sizes]
