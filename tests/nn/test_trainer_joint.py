"""One loss function over all outputs of a network, targets of any structure or none, and outputs inside each other."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import Array
from networks import copies, numbers
from openbnns import nn
from openbnns.nn import functional as F


class VAE(nn.Module):
    """The noise is an input, so that everything follows from the data."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.mu, self.logvar = nn.Linear(6, 8), nn.Linear(8, 2), nn.Linear(8, 2)
        self.decoder = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 6))

    def forward(self, x: nn.Value, noise: nn.Value) -> Any:
        h = F.tanh(self.encoder(x))
        mu, logvar = self.mu(h), self.logvar(h)
        return {"recon": self.decoder(mu + noise * F.exp(0.5 * logvar)), "latent": (mu, logvar)}


def elbo(outputs: Any, x: Any) -> Any:
    mu, logvar = outputs["latent"]
    return F.mse_loss(outputs["recon"], x) - 0.05 * (1 + logvar - mu**2 - logvar.exp()).mean()


X, NOISE = numbers(30, 6), numbers(30, 2, seed=1)


def test_gradients_are_those_of_the_formula() -> None:
    net = VAE().build((6,), (2,), seed=3)
    net.decoder[2].p = 0.0
    loss = nn.FunctionLoss(elbo)
    trainer = nn.Trainer(net, loss, nn.SGD(0.5), batch_size=30, seed=3, quiet=True)
    before = copies(net)
    history = trainer.fit((X, NOISE), X, epochs=1)

    def value(weights: dict[str, Array]) -> float:
        w = {name: array.astype(np.float64) for name, array in weights.items()}
        h = np.tanh(X @ w["encoder.weight"].T + w["encoder.bias"])
        mu, logvar = (h @ w[f"{n}.weight"].T + w[f"{n}.bias"] for n in ("mu", "logvar"))
        z = np.tanh((mu + NOISE * np.exp(logvar / 2)) @ w["decoder.0.weight"].T + w["decoder.0.bias"])
        recon = z @ w["decoder.3.weight"].T + w["decoder.3.bias"]
        return float(((recon - X) ** 2).mean() - 0.05 * (1 + logvar - mu**2 - np.exp(logvar)).mean())

    assert history[0]["loss"] == pytest.approx(value(before), rel=1e-5)
    random = np.random.RandomState(0)
    for name, array in net.state_dict().items():  # a step of 0.5 times the gradient
        direction = random.standard_normal(array.shape)
        moved = [value({**before, name: before[name] + sign * 1e-5 * direction}) for sign in (1, -1)]
        numeric = (moved[0] - moved[1]) / 2e-5
        analytic = float(((before[name] - array.astype(np.float64)) / 0.5 * direction).sum())
        assert analytic == pytest.approx(numeric, rel=2e-3, abs=2e-5), name


def test_runs_are_reproducible_and_resume(tmp_path: Path) -> None:
    def trainer(folder: str, **options: Any) -> nn.Trainer:
        return nn.Trainer(
            VAE(), elbo, nn.Adam(0.01), batch_size=8, seed=5, quiet=True, out=tmp_path / folder,
            metrics={"spread": lambda outputs, x: float(outputs["latent"][0].std())}, **options,
        )  # fmt: skip

    data: Any = {
        "x": (X, NOISE),
        "y": X,
        "validation": ((X, NOISE), X),
        "transforms": nn.transforms.Noise(0.1, input=0),
    }
    whole = trainer("whole")
    history = whole.fit(**data, epochs=4)
    assert history[-1]["validation_loss"] < history[0]["validation_loss"] and "validation_spread" in history[0]

    class Stop(nn.Callback):
        def on_step(self, trainer: nn.Trainer, record: dict[str, Any]) -> None:
            if record["step"] == 6:
                trainer.stop()

    trainer("parts").fit(**data, epochs=4, callbacks=Stop())
    resumed = trainer("parts")
    assert [r["loss"] for r in resumed.fit(**data, epochs=4, resume=True)] == [r["loss"] for r in history]
    for name, array in resumed.network.state_dict().items():
        np.testing.assert_array_equal(array, whole.network.state_dict()[name])
    with pytest.raises(nn.checkpoints.CheckpointError, match="loss"):
        other = trainer("parts")
        other.objective.losses[0].function = lambda outputs, x: elbo(outputs, x)  # type: ignore[attr-defined]
        other.fit(**data, epochs=5, resume=True)


def test_one_function_is_the_sum_of_single_losses() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.a, self.b = nn.Linear(6, 5), nn.Linear(5, 3), nn.Linear(5, 1)

        def forward(self, x: nn.Value) -> Any:
            h = F.relu(self.body(x))
            return {"label": self.a(h), "size": self.b(h)}

    targets = {"label": np.arange(30) % 3, "size": X[:, :1] * 2}

    def joint(outputs: Any, y: Any) -> Any:
        return F.cross_entropy(outputs["label"], y["label"]) + 0.5 * F.mse_loss(outputs["size"], y["size"])

    trained = []
    for loss, options in (
        (joint, {}),
        ({"size": "mse", "label": "cross_entropy"}, {"loss_weights": {"label": 1.0, "size": 0.5}}),
    ):
        trainer = nn.Trainer(Two(), loss, nn.SGD(0.1), batch_size=7, seed=2, quiet=True, **options)  # type: ignore[arg-type]
        history = trainer.fit(X, targets, epochs=3)
        trained.append((trainer, history))
    (one, joint_history), (two, single_history) = trained
    for name, array in one.network.state_dict().items():
        np.testing.assert_allclose(array, two.network.state_dict()[name], rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(joint_history.column("loss"), single_history.column("loss"), rtol=1e-5)
    # Named metrics of one output, with the target of the same name in whatever order it comes.
    metrics = {"right": nn.metrics.Accuracy(output="label"), "mae": nn.metrics.MAE(output="size")}
    measured = nn.Trainer(Two(), joint, nn.SGD(0.1), seed=2, quiet=True, metrics=metrics)
    measured.fit(X, targets, epochs=1)
    evaluated = measured.evaluate(X, dict(reversed(targets.items())))
    outputs = measured.predict(X)
    assert evaluated["right"] == (outputs["label"].argmax(1) == targets["label"]).mean()
    assert evaluated["mae"] == pytest.approx(float(abs(outputs["size"] - targets["size"]).mean()), rel=1e-5)


def test_losses_of_outputs_inside_each_other() -> None:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(6, n) for n in (1, 2, 3)])

        def forward(self, x: nn.Value) -> Any:
            a, b, c = (layer(x) for layer in self.layers)
            return {"pair": (a, b), "label": c}

    y = {"label": np.arange(30) % 3, "pair": (X[:, :1], X[:, 1:3])}
    loss: Any = {"label": "cross_entropy", "pair": ("mse", nn.L1Loss())}
    weights: Any = {"pair": (2.0, 1.0), "label": 0.5}
    trainer = nn.Trainer(Nested(), loss, "sgd", loss_weights=weights, seed=0, quiet=True)
    history = trainer.fit(X, y, epochs=2, validation=(X, y))
    last = history[-1]
    assert {"loss_pair.0", "loss_pair.1", "loss_label", "accuracy_label", "validation_loss_pair.1"} <= set(last)
    total = 2 * last["loss_pair.0"] + last["loss_pair.1"] + 0.5 * last["loss_label"]
    assert last["loss"] == pytest.approx(total)
    outputs = trainer.predict(X)
    assert outputs["pair"][1].shape == (30, 2)
    assert trainer.evaluate(X, y)["loss_pair.1"] == pytest.approx(
        float(abs(outputs["pair"][1] - X[:, 1:3]).mean()), rel=1e-5
    )
    with pytest.raises(
        ValueError, match=r"y is a dictionary with 'label', but the network gives a structure with \('pair', 0\)"
    ):
        trainer.evaluate(X, {"label": y["label"]})
    with pytest.raises(ValueError, match=r"loss_weights are .*, but the losses are of outputs 'label', \('pair', 0\)"):
        nn.Trainer(Nested(), loss, loss_weights={"pair": 2.0, "label": 1.0})


def unsupervised(outputs: Any) -> Any:
    return ((outputs - 1) ** 2).mean()


def test_losses_without_targets() -> None:
    def trained(*given: Any, **options: Any) -> nn.Trainer:
        trainer = nn.Trainer(nn.Linear(6, 3), unsupervised, nn.Adam(0.01), batch_size=10, seed=1, quiet=True)
        trainer.fit(*given, epochs=3, **options)
        return trainer

    whole = trained(X, validation=X)
    assert whole.history[-1]["validation_loss"] == pytest.approx(whole.evaluate(X)["loss"])
    expected = float(((X @ whole.network.weight.data.T + whole.network.bias.data - 1) ** 2).mean())  # type: ignore[attr-defined]
    assert whole.evaluate(X)["loss"] == pytest.approx(expected, rel=1e-5)
    split = trained(X, validation_split=0.2)
    assert split.history[0]["step"] == 3
    for batches in ([X[:15], X[15:]], [(X[:15],), (X[15:],)], [(X[:15], None), (X[15:], None)]):
        assert trained(batches).history[0]["step"] == 2

    def optional(outputs: Any, targets: Any = None) -> Any:
        return ((outputs - (1 if targets is None else targets)) ** 2).mean()

    with_y = nn.Trainer(nn.Linear(6, 3), optional, "adam", seed=1, quiet=True).fit(X, np.ones((30, 3)), epochs=1)
    without = nn.Trainer(nn.Linear(6, 3), optional, "adam", seed=1, quiet=True).fit(X, epochs=1)
    assert with_y[0]["loss"] == pytest.approx(without[0]["loss"])
    counted = nn.Trainer(
        nn.Linear(6, 3), unsupervised, quiet=True, metrics={"none": lambda outputs, y: float(y is None)}
    )
    assert counted.fit(X, epochs=1)[0]["none"] == 1.0


def test_autoencoders_have_their_samples_as_targets() -> None:
    net = nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 6))
    for loss in ("mse", lambda recon, x: F.mse_loss(recon, x)):
        history = nn.Trainer(net, loss, nn.Adam(0.01), quiet=True, seed=0).fit(X, X, epochs=3)  # type: ignore[arg-type]
        assert history[-1]["loss"] < history[0]["loss"]


def test_targets_in_other_structures() -> None:
    """One output, and targets with weights of every element."""

    def weighted(output: Any, targets: Any) -> Any:
        y, weight = targets
        return ((output - y) ** 2 * weight).mean()

    weight = (numbers(30, 3, seed=4) > 0).astype(np.float32)
    trainer = nn.Trainer(nn.Linear(6, 3), weighted, nn.SGD(0.1), seed=0, quiet=True)
    trainer.fit(X, (X[:, :3], weight), epochs=1)
    expected = float(((trainer.predict(X) - X[:, :3]) ** 2 * weight).mean())
    assert trainer.evaluate(X, (X[:, :3], weight))["loss"] == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ValueError, match="y is one array, but samples to train on had a tuple of 2"):
        trainer.evaluate(X, X[:, :3])
    with pytest.raises(ValueError, match=r"targets\[1\] has shape \(30, 1\), but had \(30, 3\) before"):
        trainer.evaluate(X, (X[:, :3], weight[:, :1]))


def test_an_output_without_a_part_in_the_loss_has_no_gradient() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Linear(6, 3), nn.Linear(6, 40)

        def forward(self, x: nn.Value) -> Any:
            return self.used(x), self.idle(F.tanh(x))

    net = Two().build((6,), seed=0)
    before = copies(net)
    nn.Trainer(net, lambda outputs, y: F.mse_loss(outputs[0], y), nn.SGD(0.1), seed=0, batch_size=8, quiet=True).fit(
        X, X[:, :3], epochs=2
    )
    after = net.state_dict()
    assert {name for name in after if not np.array_equal(after[name], before[name])} == {"used.weight", "used.bias"}


def test_outputs_that_are_the_same_elements() -> None:
    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 4)

        def forward(self, x: nn.Value) -> Any:
            y = self.linear(x)
            return y, y.reshape(y.shape[0], 2, 2), y

    def loss(outputs: Any, t: Any) -> Any:
        a, b, c = outputs
        return (a * t).mean() + (b * b).mean() + c.mean()

    net = Views().build((6,), seed=0)
    before = {name: array.astype(np.float64) for name, array in copies(net).items()}
    t = numbers(30, 4, seed=9)
    nn.Trainer(net, loss, nn.SGD(1.0), batch_size=30, quiet=True).fit(X, t, epochs=1)
    y = X @ before["linear.weight"].T + before["linear.bias"]
    dy = (t + 2 * y + 1) / y.size
    np.testing.assert_allclose(net.linear.weight.data, before["linear.weight"] - dy.T @ X, atol=2e-6)


def test_gradient_accumulation_is_the_whole_batch() -> None:
    weights = []
    for size, count in ((30, 1), (10, 3)):
        trainer = nn.Trainer(VAE(), elbo, nn.SGD(0.1), batch_size=size, accumulate=count, seed=0, quiet=True)
        trainer.network.decoder[2].p = 0.0  # type: ignore[attr-defined]
        trainer.fit((X, NOISE), X, epochs=3)
        weights.append(trainer.network.state_dict())
    for name, array in weights[0].items():
        np.testing.assert_allclose(array, weights[1][name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.FunctionLoss(lambda: 0), "takes no arguments, but it is called with outputs and targets"),
        (lambda: nn.FunctionLoss(lambda a, b, c: a), "takes 3 arguments, but it is called with outputs and targets"),
        (lambda: nn.Trainer(nn.Linear(2), elbo).fit(X), r"y is missing.*An autoencoder has its samples as targets: pass them "
         r"twice\. A loss that needs no targets is a function of one argument"),
        (lambda: nn.Trainer(nn.Linear(2), "mse").fit(X), "y is missing"),
        (lambda: nn.Trainer(nn.Linear(2), unsupervised).fit(X, X), r"y is given, but FunctionLoss\(unsupervised\) takes the "
         "outputs alone, and there are no metrics"),
        (lambda: nn.Trainer(nn.Linear(2), elbo).fit(X, X, sample_weights=np.ones(30)), "cannot be put into a loss function"),
        (lambda: nn.Trainer(VAE(), "mse").fit((X, NOISE), X), r"the network gives outputs 'recon', \('latent', 0\)"),
        (lambda: nn.Trainer(VAE(), elbo, metrics=["mae"]).fit((X, NOISE), X), "'mae' could be of any of 3 outputs"),
        (lambda: nn.Trainer(VAE(), elbo, metrics={"m": nn.metrics.MAE(output="recno")}).fit((X, NOISE), X),
         "the metric 'm' is of output 'recno'"),
        (lambda: nn.Trainer(nn.Linear(2), lambda y, t: (y - t)).fit(X, X[:, :2]), r"gives \(N, 2\)\. Use mean\(\)"),
        (lambda: nn.Trainer(nn.Linear(2), lambda y, t: 3.0).fit(X, X[:, :2]), "gives a float"),
        (lambda: nn.Trainer(nn.Linear(2), "mse").fit({"x": (X, X)}, X), "x has nested structures"),
        (lambda: nn.Trainer(nn.Linear(2), "mse").fit([(X, None)]), r"Give \(x, y\) or \(x, y, sample_weights\)"),
    ],
)  # fmt: skip
def test_messages(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_a_parameter_may_be_an_output() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.sigma = nn.Linear(2), nn.Parameter(np.ones(1))

        def forward(self, x: nn.Value) -> Any:
            return self.linear(x), F.exp(self.sigma)

    net = Scaled()
    likelihood = lambda o, t: F.mse_loss(o[0], t) / o[1] + F.log(o[1])  # noqa: E731
    history = nn.Trainer(net, likelihood, nn.SGD(0.01), quiet=True).fit(X, X[:, :2], epochs=2)
    assert history[1]["loss"] < history[0]["loss"] and net.sigma.data[0] != 1


# Memory.


def test_the_output_of_the_network_is_read_where_it_lies() -> None:
    trainer = nn.Trainer(nn.Linear(6, 50), lambda y, t: F.mse_loss(y, t), batch_size=30, quiet=True)
    trainer.fit(X, numbers(30, 50), epochs=1)
    bound = trainer.objective.bound(30, training=True)
    program = bound.losses[0]._program._program
    assert program.inputs[0].base is not None and np.shares_memory(program.inputs[0], bound.program.outputs[0])
    assert np.shares_memory(program.input_gradients[0], bound.program.output_gradients[0])
    owned = np.zeros(0) if program._memory is None else program._memory
    assert not np.shares_memory(owned, bound.program.outputs[0])
    # The gradient is right although other steps use its memory in between.
    weight = trainer.network.weight.data.copy()  # type: ignore[attr-defined]
    assert np.isfinite(weight).all()


def test_parts_of_sums_of_gradients_are_planned() -> None:
    import tracemalloc

    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(4)])

        def forward(self, x: nn.Value) -> nn.Value:
            total = x
            for layer in self.layers:
                total = total + F.tanh(layer(total)) * x
            return total

    net = Wide().build((64,), seed=0)
    for parameter in net.parameters():
        _ = parameter.data, parameter.grad
    net.program(2, training=True)
    tracemalloc.start()
    program = net.program(512, training=True, input_gradients=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    sums = len(program.added_blocks)
    assert sums >= 4 and peak < program.arena_bytes + 512 * 64 * 4, (peak, program.arena_bytes)
    inside = program._memory
    for block in program.added_blocks.values():
        assert block.offset >= 0 and block.offset + block.size <= inside.nbytes
    blocks = [*program.value_blocks.values(), *program.gradient_blocks.values(), *program.added_blocks.values()]
    lives = list({id(block): block for block in blocks}.values())  # those of sums and their parts are the same
    for one, other in itertools.combinations(lives, 2):
        apart = one.end < other.start or other.end < one.start
        assert apart or one.offset + one.size <= other.offset or other.offset + other.size <= one.offset
