"""Networks written as in PyTorch, NumPy or Keras: they work, or the message says what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from networks import Net, numbers
from openbnns import nn
from openbnns.nn import functional as F

X, Y = numbers(12, 4), numbers(12, 1, seed=1)


def test_a_training_loop() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = nn.Adam(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        net.zero_grad(set_to_none=True)
        value, gradient = nn.MSELoss()(net(X), Y)
        net.backward(gradient)
        optimizer.step()
        losses.append(value)
    assert losses[-1] < losses[0]
    assert repr(optimizer) == "Adam(learning_rate=0.01, beta1=0.9, beta2=0.999, epsilon=1e-08)"
    two = nn.SGD([{"params": net[0].parameters(), "lr": 0.1}, {"params": net[2].parameters()}], lr=0.01, momentum=0.9)
    assert repr(two) == "SGD(learning_rate=0.1, momentum=0.9), SGD(learning_rate=0.01, momentum=0.9)"


def test_weights_are_taken_over() -> None:
    one, other = nn.Linear(4, 3), nn.Linear(4, 3)
    one.weight.data = other.weight  # as a whole
    np.testing.assert_array_equal(one.weight.data, other.weight.data)
    one.weight[0] = 5
    one.weight[1] = other.weight[1]
    assert (one.weight.data[0] == 5).all() and not (other.weight.data[0] == 5).all()
    one.load_state_dict({"weight": other.weight, "bias": other.bias})
    np.testing.assert_array_equal(one(X), other(X))
    assert one.load_state_dict({"weight": other.weight}, strict=False) == ["bias: missing"]


def test_a_trainer_shows_what_it_is() -> None:
    trainer = nn.Trainer(nn.Linear(4, 1), "mse", nn.SGD(0.1), schedule="cosine", metrics=["mae"], quiet=True, seed=3)
    assert repr(trainer) == (
        "Trainer(\n  (network): Linear(4, 1)\n  (loss): MSELoss()\n  (optimizer): SGD(learning_rate=0.1)\n"
        "  (schedule): cosine\n  (batch_size): 32\n  (seed): 3\n  (metrics): mae\n)"
    ).replace("SGD(learning_rate=0.1)", repr(nn.SGD(0.1)))
    trainer.fit(X, Y, epochs=2)
    assert repr(trainer).startswith("Trainer(epochs done: 2\n")


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 2), nn.Linear(1, 2)

    def forward(self, left: nn.Value, right: nn.Value) -> nn.Value:
        y: nn.Value = self.a(left) + self.b(right)
        return y


class Never(nn.Callback):
    def on_epoch_end(self, trainer: nn.Trainer, record: Any) -> None:
        raise AssertionError


def in_forward(body: Callable[[Any], Any]) -> Callable[[], Any]:
    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x: nn.Value) -> Any:
            return body(self.linear(x))

    return lambda: Small()(X)


def image(*shape: int) -> Callable[[], Any]:
    return lambda: nn.Conv2d(1, 2, 3)(np.zeros(shape, np.float32))


def fit(*given: Any, network: Any = None, **options: Any) -> Callable[[], Any]:
    return lambda: nn.Trainer(network or nn.Linear(4, 1), "mse", quiet=True).fit(*(given or (X, Y)), **options)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    # Shapes.
    "no batch axis": (lambda: nn.Linear(4, 2)(X[0]), r"the batch, is the only one\. Pass x\[None\] for one sample"),
    "no batch axis, built": (lambda: nn.Linear(4, 2).build((4,))(X[0]), r"built for \(N, 4\).*For one sample pass x\[None\]"),
    "features": (lambda: nn.Linear(5, 2)(X), "made for 5 inputs, but its input has 4. Look at the shape of the input, make the "
                 "layer for 4 inputs"),
    "image without channels": (image(2, 9, 9), r"gets \(9, 9\)\. The first axis of an input is the batch: for one sample pass "
                               r"x\[None\]\. For samples without channels pass x\[:, None\]"),
    "channels last": (image(2, 9, 8, 1), r"first axis of a sample, not the last: pass np\.moveaxis\(x, -1, 1\)"),
    "sequence without batch": (lambda: nn.LSTM(4, 2)(X), r"gets \(4,\)\. The first axis of an input is the batch"),
    "targets without their axis": (fit(X, Y[:, 0]), r"targets have shape \(12,\).*Pass targets\.reshape\(-1, 1\)"),
    "an array of another size": (in_forward(lambda y: y + np.ones((13, 3))), "do not fit together"),
    # Arguments.
    "no input": (lambda: Net()(), "there is no input|missing a required argument"),
    "too many inputs": (lambda: nn.Linear(4, 2)(X, X), "too many positional arguments"),
    "too many inputs of a series": (lambda: nn.Sequential(nn.Linear(4, 2))(X, X), "takes 2 positional arguments but 3"),
    "a dictionary for several inputs": (lambda: Named()({"left": X, "right": Y}), r"net\(\*\*inputs\)"),
    "one input of two": (lambda: Named()(X), "missing a required argument: 'right'"),
    "a network for its state": (lambda: Net().load_state_dict(Net()), r"not a Net\. Pass its state_dict\(\)"),  # type: ignore[arg-type]
    "a function in a series": (lambda: nn.Sequential(F.relu), r"Call functions in forward\(\) of a module of your own"),  # type: ignore[arg-type]
    "a text as parameter": (lambda: nn.Parameter("x"), "takes an array of numbers, not a str"),
    "epochs": (lambda: nn.Trainer(Net(), epochs=3), r"Pass it to fit\(x, y, epochs="),  # type: ignore[call-arg]
    "lr": (lambda: nn.Trainer(Net(), lr=3), r"Give the optimizer a learning rate: nn\.Adam\(1e-3\)"),  # type: ignore[call-arg]
    "batch size": (fit(batch_size=3), r"Pass it to Trainer\(\.\.\., batch_size="),
    "axis": (in_forward(lambda y: F.softmax(y, axis=1)), r"softmax: there is no argument 'axis'\. Did you mean dim\?"),  # type: ignore[call-arg]
    "axis of a method": (in_forward(lambda y: y.mean(axis=1)), "no argument 'axis'. Did you mean dim"),
    "keepdims": (in_forward(lambda y: y.mean(1, keepdims=True)), "Did you mean keepdim"),
    # Names.
    "the class of a loss": (lambda: nn.Trainer(Net(), nn.MSELoss), r"loss is the class MSELoss\. Call it: MSELoss\(\)"),
    "the class of a network": (lambda: nn.Trainer(Net), "not the class Net. Call it"),  # type: ignore[arg-type]
    "capitals": (lambda: nn.Trainer(Net(), "MSE"), "Did you mean 'mse'"),  # type: ignore[arg-type]
    "a short name": (lambda: nn.Trainer(Net(), metrics=["acc"]), "Did you mean 'accuracy'"),  # type: ignore[list-item]
    "an unknown function": (lambda: F.sigmod, "Did you mean 'sigmoid'"),  # type: ignore[attr-defined]
    "an unknown method": (in_forward(lambda y: y.sigmod()), "Did you mean 'sigmoid'"),
    "a device": (in_forward(lambda y: y.cuda()), "Leave it out: everything computes in float32"),
    "saving": (lambda: nn.save, r"Use net\.save\(path\)"),
    "Keras": (lambda: nn.Dense, r"Use nn\.Linear"),
    "a loss of BNNS": (lambda: nn.Trainer(Net(), "hinge"), r"Use nn\.BNNSLoss\(openbnns\.LossFunction\.hinge\(\)\)\.$"),  # type: ignore[arg-type]
    "a lazy layer": (lambda: nn.LazyConv2d, r"Use the layer without Lazy, and leave its first size out: nn\.Linear\(32\)"),
    "a search of the learning rate": (lambda: nn.Trainer(Net()).find_learning_rate, "Train a few epochs with each of several"),
    "a callback that is never called": (fit(callbacks=Never()), r"Never\.on_epoch_end would never be called\. Did you mean "
                                        "'on_epoch'"),
    "names of classes": (fit(X, np.array(["a", "b"] * 6)), r"np\.unique\(y, return_inverse=True\)"),
    # Numbers in forward.
    "a comparison": (in_forward(lambda y: y if y > 0 else -y), r"cannot branch on numbers.*where\(x > 0, a, b\)"),
    "an equality": (in_forward(lambda y: y if y == 0 else -y), "cannot branch on numbers"),
    "a chain": (in_forward(lambda y: F.where(0 < y < 1, y, 0.0)), "cannot branch on numbers"),
    "a mask as an index": (in_forward(lambda y: y[y > 0]), r"shape of the result would depend on numbers.*where\(mask"),
    "a branch": (in_forward(lambda y: y if y.sum() else -y), "recorded once"),
    "NumPy": (in_forward(lambda y: np.concatenate([y, y], 1)), r"Use nn\.functional\.cat\("),
    "a slice of a parameter that is set": (lambda: in_forward(lambda y: y)() if False else _set_in_forward(), "recorded once"),
}  # fmt: skip


def _set_in_forward() -> Any:
    class Sets(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(np.ones(4))

        def forward(self, x: nn.Value) -> nn.Value:
            self.scale[0] = 2
            return x * self.scale

    return Sets()(X)


@pytest.mark.parametrize("case", list(WRONG))
def test_mistakes_are_answered(case: str) -> None:
    call, message = WRONG[case]
    with pytest.raises((TypeError, ValueError, AttributeError), match=message):
        call()


def test_values_are_still_found_in_dictionaries_and_sets() -> None:
    class Looks(nn.Module):
        def forward(self, x: nn.Value) -> nn.Value:
            y = x * 2
            assert x in {y, x} and y not in {x} and x in [x] and {x: 1, y: 2}[y] == 2 and x is not None
            return y

    assert Looks()(X).shape == X.shape
