"""The base of all estimators: training of a network under the rules of scikit-learn."""

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
from ..nn.predictions import run_all

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

    @abstractmethod
    def _make_network(self, sample: tuple[int, ...], outputs: int) -> nn.Module:
        """The network, not built yet, for samples of this shape."""

    @abstractmethod
    def _score(self, outputs: Array, targets: Array) -> float:
        """The quality of outputs, for early stopping; more is better."""

    def _fit(self, x: Array, y: Array, loss: nn.losses.LossName, outputs: int, *, epochs: int, fresh: bool) -> None:
        """Train on float32 samples; ``fresh`` begins with new weights."""
        if fresh:
            self._begin(x, outputs)
        train_x, train_y, held_out = self._validation(x, y, wanted=epochs > 1)
        size = self._batch_size(len(train_x))
        self._set_penalty(size)
        sizes = {size, len(train_x) % size or size}
        steps = {number: self._network.compile_step(loss, self._optimizer, number) for number in sizes}
        converged, best = False, None
        shuffled = np.empty_like(train_x), np.empty_like(train_y)  # once: fresh memory costs as much as a step
        for _ in range(epochs):
            order = self._random.permutation(len(train_x))
            for array, place in zip((train_x, train_y), shuffled, strict=True):
                np.take(array, order, axis=0, out=place, mode="clip")  # which needs no buffer
            self._train_epoch(steps, size, *shuffled)
            better = self._note(held_out)
            if held_out is not None and self.validation_scores_[-1] == self.best_validation_score_:
                best = {name: array.copy() for name, array in self._network.state_dict().items()}
            self._waited = 0 if better else self._waited + 1
            if self._waited > self.n_iter_no_change and not self._goes_on(held_out is not None):
                converged = True
                break
        if best is not None:
            self._network.load_state_dict(best)
        if epochs > 1 and not converged:
            warnings.warn(
                f"{type(self).__name__}: max_iter={self.max_iter} epochs are done, but the training has not converged yet. Raise "
                "max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _train_epoch(self, steps: dict[int, Any], size: int, x: Array, y: Array) -> None:
        """All samples once, in their order."""
        whole = len(x) // size * size
        total = size * sum(steps[size].epoch(x, y))
        if whole < len(x):
            total += (len(x) - whole) * sum(steps[len(x) - whole].epoch(x[whole:], y[whole:]))
        self.loss_ = total / len(x)
        self.n_iter_ += 1
        self.t_ += len(x)
        if not math.isfinite(self.loss_):
            raise ValueError(
                f"{type(self).__name__}: the loss became {self.loss_} in epoch {self.n_iter_}. Scale the samples, for instance "
                "with StandardScaler, or use a smaller learning_rate_init."
            )
        self.loss_curve_.append(self.loss_)
        if self.solver == "sgd" and self.learning_rate == "invscaling":
            self._optimizer.learning_rate = self.learning_rate_init / (self.t_ + 1) ** self.power_t

    def _note(self, held_out: tuple[Array, Array] | None) -> bool:
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

    def _begin(self, x: Array, outputs: int) -> None:
        self._random = check_random_state(self.random_state)
        network = self._make_network(x.shape[1:], outputs)
        network.build(x.shape[1:], seed=self._next_seed())
        self._network = network
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

    def _validation(self, x: Array, y: Array, *, wanted: bool) -> tuple[Array, Array, tuple[Array, Array] | None]:
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
        return self._outputs(self._samples(x, reset=False))

    def _outputs(self, samples: Array) -> Array:
        outputs: Array = run_all(self._network, [samples], _ROWS)
        return outputs

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
            self._optimizer = self._make_optimizer(self._network)
            self._optimizer.load_state_dict(state["_optimizer"])

    # Parameters.

    def _check_parameters(self) -> None:
        """Refuse invalid parameters by name; scikit-learn wants that in fit, not before."""
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
