"""What all estimators share: the training of a network under the rules of scikit-learn."""

from __future__ import annotations

import math
import numbers
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import nn

Array = np.ndarray[Any, Any]

_ROWS = 512  # that are predicted at a time
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


class NetworkEstimator(BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """An estimator that is a network. Subclasses say which network, which loss and what the targets are."""

    _score_metric: nn.metrics.MetricName = "accuracy"  # that early stopping selects by

    @abstractmethod
    def _make_network(self, sample: tuple[int, ...], outputs: int) -> nn.Module:
        """The network, not built yet, for samples of this shape."""

    def _fit(self, x: Array, y: Array, loss: nn.losses.LossName, outputs: int, *, epochs: int, fresh: bool) -> None:
        """Train on float32 samples; ``fresh`` begins with new weights."""
        if fresh:
            self._begin(x, outputs)
        train_x, train_y, validation = self._validation(x, y, wanted=epochs > 1)
        size = self._batch_size(len(train_x))
        rates = _Rates(self.learning_rate, self.power_t, len(train_x), -(-len(train_x) // size), self.solver)
        stopping: nn.EarlyStopping | None = None
        metrics: list[nn.metrics.MetricName] = []
        if validation is not None:
            stopping = nn.EarlyStopping(
                self.n_iter_no_change + 1, f"validation_{self._score_metric}", min_delta=self.tol
            )
            metrics = [self._score_metric]
        self._set_penalty(size)
        trainer = nn.Trainer(
            self._network, loss, self._optimizer, schedule=rates, batch_size=size, seed=self._next_seed(), metrics=metrics,
            early_stopping=stopping, quiet=True,
        )  # fmt: skip
        watch = _Watch(self, rates, validation is not None, self._score_metric)
        try:
            trainer.fit(train_x, train_y, epochs=epochs, validation=validation, callbacks=watch)
        except nn.Diverged as error:
            raise ValueError(
                f"{type(self).__name__}: {error} Scale the samples, for instance with StandardScaler, or use a smaller "
                "learning_rate_init."
            ) from error
        self.n_iter_ += len(trainer.history)
        self.t_ += len(trainer.history) * len(train_x)
        if epochs > 1 and len(trainer.history) == epochs and not watch.converged:
            warnings.warn(
                f"{type(self).__name__}: max_iter={self.max_iter} epochs are done, but the training has not converged yet. Raise "
                "max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _begin(self, x: Array, outputs: int) -> None:
        self._random = check_random_state(self.random_state)
        network = self._make_network(x.shape[1:], outputs)
        network.build(x.shape[1:], seed=self._next_seed())
        self._network = network
        self._optimizer = self._make_optimizer(network)
        self.n_outputs_ = outputs
        self.n_iter_ = self.t_ = 0
        self.loss_curve_: list[float] = []
        self.best_loss_: float | None = math.inf
        self.loss_ = math.nan
        self.validation_scores_: list[float] | None = [] if self.early_stopping else None
        self.best_validation_score_: float | None = -math.inf if self.early_stopping else None
        self._waited = 0

    def _next_seed(self) -> int:
        return int(self._random.randint(2**31 - 1))

    def _validation(self, x: Array, y: Array, *, wanted: bool) -> tuple[Array, Array, tuple[Array, Array] | None]:
        if not (self.early_stopping and wanted):
            return x, y, None
        stratify = y if self._score_metric == "accuracy" and y.ndim == 1 else None
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
        """What the network gives for validated samples."""
        check_is_fitted(self, "n_iter_")
        samples = self._samples(x, reset=False)
        self._network.eval()
        found = [self._network(samples[i : i + _ROWS]) for i in range(0, len(samples), _ROWS)]
        return np.concatenate(found)

    def _samples(self, x: Any, *, reset: bool) -> Array:
        """Samples as the network takes them."""
        checked: Array = validate_data(self, x, dtype=np.float32, reset=reset, order="C")
        return checked

    def _samples_and_targets(self, x: Any, y: Any, *, reset: bool, **options: Any) -> tuple[Array, Array]:
        samples, targets = validate_data(
            self, x, y, dtype=np.float32, order="C", multi_output=True, reset=reset, **options
        )
        return samples, targets

    def _fresh(self) -> bool:
        """Whether fit begins with new weights."""
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
            self._optimizer = self._make_optimizer(self._network)
            self._optimizer.load_state_dict(state["_optimizer"])

    # Parameters.

    def _check_parameters(self) -> None:
        """Refuse what makes no sense, by name; scikit-learn wants that in fit, not before."""
        if self.solver == "lbfgs":
            raise ValueError(
                f"{type(self).__name__}: solver='lbfgs' is not available. Use one of {', '.join(SOLVERS)}."
            )
        self._require_choice("solver", SOLVERS)
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


class _Rates:
    """The learning rate as scikit-learn has it, as a factor of the initial one."""

    def __init__(self, kind: str, power: float, samples: int, steps: int, solver: str) -> None:
        self.kind = kind if solver == "sgd" else "constant"  # others adapt by themselves
        self.power, self.samples, self.steps, self.factor = power, samples, steps, 1.0

    def __call__(self, step: int, total: int) -> float:
        if self.kind == "invscaling":
            return float((step // self.steps * self.samples + 1) ** -self.power)
        return self.factor


class _Watch(nn.Callback):
    """Keeps the curves of an estimator, prints them if wanted, and ends the training when it has converged."""

    def __init__(self, estimator: Any, rates: _Rates, validated: bool, metric: str) -> None:
        self.estimator, self.rates, self.validated, self.metric = estimator, rates, validated, metric
        self.converged = False

    def on_epoch(self, trainer: nn.Trainer, record: dict[str, Any]) -> None:
        model = self.estimator
        loss = float(record["loss"])
        model.loss_ = loss
        model.loss_curve_.append(loss)
        if model.verbose:
            print(f"Iteration {len(model.loss_curve_)}, loss = {loss:.8f}")
        if self.validated:
            score = float(record[f"validation_{self.metric}"])
            model.validation_scores_.append(score)
            if model.verbose:
                print(f"Validation score: {score:f}")
            better = score > model.best_validation_score_ + model.tol
            model.best_validation_score_ = max(score, model.best_validation_score_)
            model.best_loss_ = None
        else:
            better = loss < model.best_loss_ - model.tol
            model.best_loss_ = min(loss, model.best_loss_)
        model._waited = 0 if better else model._waited + 1
        if model._waited > model.n_iter_no_change:
            self._settle(trainer)

    def _settle(self, trainer: nn.Trainer) -> None:
        """End the run, or go on with a fifth of the learning rate if that is what the estimator does."""
        model = self.estimator
        if self.rates.kind == "adaptive" and self.rates.factor * model.learning_rate_init > 1e-6:
            self.rates.factor /= 5
            model._waited = 0
            if model.verbose:
                print(f"The learning rate is {self.rates.factor * model.learning_rate_init:g} from here on.")
            return
        self.converged = True
        what = "validation score" if self.validated else "training loss"
        if model.verbose:
            print(
                f"The {what} did not improve by more than tol={model.tol:f} for {model.n_iter_no_change} epochs. Stopping."
            )
        trainer.stop("the training has converged")
