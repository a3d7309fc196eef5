"""Arguments of a trainer: several inputs and outputs, weights, a share for validation, callbacks; and checks before it trains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from networks import numbers
from openbnns import nn
from openbnns.nn.data import DataError
from openbnns.nn.progress import Progress

Array = np.ndarray


def weights_of(net: nn.Module) -> Array:
    return np.concatenate([array.ravel() for array in net.state_dict().values()])


def problem(count: int = 90) -> tuple[Array, Array]:
    x = numbers(count, 3)
    return x, (x[:, 0] > 0).astype(np.int64)


# Several inputs and outputs.


class Both(nn.Module):
    """Two inputs, two outputs by name."""

    def __init__(self, as_tuple: bool = False) -> None:
        super().__init__()
        self.image, self.table, self.kind, self.size = nn.Linear(6), nn.Linear(6), nn.Linear(3), nn.Linear(2)
        self.act, self.as_tuple = nn.Tanh(), as_tuple

    def forward(self, image: nn.Value, table: nn.Value) -> Any:
        joined = self.act(self.image(image) + self.table(table))
        kind, size = self.kind(joined), self.size(joined)
        return (kind, size) if self.as_tuple else {"kind": kind, "size": size}


def two(count: int = 50) -> tuple[dict[str, Array], dict[str, Array]]:
    x = {"image": numbers(count, 4), "table": numbers(count, 5, seed=1)}
    kind = (x["image"][:, 0] > 0).astype(np.int64) + (x["table"][:, 0] > 0)
    return x, {"kind": kind, "size": np.stack([x["image"][:, 1], x["table"][:, 1]], 1)}


def by_hand(steps: int, shares: tuple[float, float] = (1.0, 1.0)) -> Array:
    """The weights after so many steps of a loop that is written out."""
    x, y = two()
    net = Both(as_tuple=True).build((4,), (5,), seed=3)
    optimizer = nn.SGD(net.parameters(), lr=0.1)
    for step in range(steps):
        order = np.random.RandomState([3, step]).permutation(50)
        kind, size = net(x["image"][order], x["table"][order])
        _, dkind = nn.CrossEntropyLoss()(kind, y["kind"][order])
        _, dsize = nn.MSELoss()(size, y["size"][order])
        net.backward((shares[0] * dkind, shares[1] * dsize))
        optimizer.step()
    return weights_of(net)


def test_dictionaries_and_tuples_give_what_a_loop_gives() -> None:
    x, y = two()
    settings: dict[str, Any] = {"batch_size": 50, "seed": 3, "quiet": True}
    names = {"size": "mse", "kind": "cross_entropy"}  # in another order than the network has
    net = Both()
    trainer = nn.Trainer(net, names, nn.SGD(0.1), **settings)
    history = trainer.fit(dict(reversed(x.items())), dict(reversed(y.items())), epochs=4, validation=(x, y))
    np.testing.assert_array_equal(weights_of(net), by_hand(4))
    last = history[-1]
    assert last["loss"] == pytest.approx(last["loss_kind"] + last["loss_size"])
    assert last["validation_loss"] == pytest.approx(last["validation_loss_kind"] + last["validation_loss_size"])
    outputs = trainer.predict(x)
    assert set(outputs) == {"kind", "size"} and outputs["kind"].shape == (50, 3)
    assert last["validation_accuracy_kind"] == (outputs["kind"].argmax(1) == y["kind"]).mean()
    other = Both(as_tuple=True)
    trainer = nn.Trainer(other, ("cross_entropy", nn.MSELoss()), nn.SGD(0.1), **settings)
    trainer.fit((x["image"], x["table"]), (y["kind"], y["size"]), epochs=4)
    np.testing.assert_array_equal(weights_of(other), weights_of(net))
    assert isinstance(trainer.predict((x["image"], x["table"])), tuple)


def test_losses_have_weights() -> None:
    x, y = two()
    net = Both()
    losses = {"kind": "cross_entropy", "size": "mse"}
    trainer = nn.Trainer(
        net, losses, nn.SGD(0.1), loss_weights={"size": 0.25, "kind": 2}, batch_size=50, seed=3, quiet=True
    )
    last = trainer.fit(x, y, epochs=3)[-1]
    np.testing.assert_allclose(weights_of(net), by_hand(3, (2.0, 0.25)), rtol=1e-6, atol=1e-7)
    assert last["loss"] == pytest.approx(2 * last["loss_kind"] + 0.25 * last["loss_size"])


def test_metrics_of_one_output_and_of_all() -> None:
    x, y = two()

    def both(outputs: dict[str, Array], targets: dict[str, Array]) -> float:
        assert set(outputs) == set(targets) == {"kind", "size"}
        return float(np.abs(outputs["size"] - targets["size"]).mean())

    losses = {"kind": "cross_entropy", "size": "mse"}
    metrics: dict[str, Any] = {
        "top": nn.metrics.TopK(2, output="kind"),
        "r2": nn.metrics.R2(output="size"),
        "both": both,
    }
    metrics["at once"] = nn.metrics.Custom(both, whole_epoch=True)
    trainer = nn.Trainer(Both(), losses, metrics=metrics, quiet=True)
    trainer.fit(x, y, epochs=1)
    result, outputs = trainer.evaluate(x, y), trainer.predict(x)
    assert result["top"] == nn.metrics.TopK(2)(outputs["kind"], y["kind"])
    assert result["r2"] == pytest.approx(nn.metrics.R2()(outputs["size"], y["size"]))
    for name in ("both", "at once"):
        assert result[name] == pytest.approx(np.abs(outputs["size"] - y["size"]).mean())
    with pytest.raises(ValueError, match=r"'mae' could be of any of 2 outputs.*nn\.metrics\.MAE\(output='kind'\)"):
        nn.Trainer(Both(), losses, metrics=["mae"])


def test_outputs_that_are_the_same_elements() -> None:
    """The gradients of two outputs that share memory are added, not overwritten."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4)

        def forward(self, x: nn.Value) -> Any:
            y = self.linear(x)
            return y, y.reshape(-1, 2, 2)

    x, t = numbers(8, 3), numbers(8, 4, seed=1)
    net, single = Twice(), nn.Linear(4)
    nn.Trainer(net, ("mse", "mse"), nn.SGD(0.1), batch_size=8, quiet=True).fit(x, (t, t.reshape(8, 2, 2)), epochs=3)
    nn.Trainer(single, "mse", nn.SGD(0.2), batch_size=8, quiet=True).fit(x, t, epochs=3)
    np.testing.assert_allclose(weights_of(net), weights_of(single), rtol=1e-5, atol=1e-6)


def test_structures_that_do_not_fit() -> None:
    x, y = two()
    losses = {"kind": "cross_entropy", "size": "mse"}
    pair = (x["image"], x["table"])
    for loss, samples, targets, message in (
        (losses, {"image": x["image"], "tables": x["table"]}, y, r"x has parts 'image', 'tables', which do not fit"),
        (losses, x, {"kind": y["kind"]}, "y is a dictionary with 'kind', but the network gives a dictionary with 'kind', 'size'"),
        (losses, x, y["kind"], "y is one array, but the network gives a dictionary with 'kind', 'size'"),
        ("mse", x, y, r"the network gives outputs 'kind', 'size', but loss is MSELoss\(\). Pass one loss for each output"),
        (("mse", "mse"), x, y, "gives outputs 'kind', 'size', but loss is"),
        (losses, {}, y, "x is an empty dictionary"),
        (losses, (pair[0], pair[1][:9]), y, r"x\[0\] has 50 samples, but x\[1\] has shape \(9, 5\). Pass the same number"),
        (losses, x, {**y, "kind": y["kind"][:9]}, r"x\['image'\] has 50 samples, but y\['kind'\] has shape \(9,\)"),
        (losses, x, {**y, "kind": y["kind"] + 7}, "class number 9 is out of range"),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=message):
            nn.Trainer(Both(), loss, quiet=True).fit(samples, targets, epochs=1)
    with pytest.raises(ValueError, match=r"y is a tuple of 2, but the network gives one array"):
        nn.Trainer(nn.Linear(1), "mse", quiet=True).fit(pair[0], pair, epochs=1)
    with pytest.raises(ValueError, match=r"loss_weights are .*, but the losses are of outputs 'kind', 'size'"):
        nn.Trainer(Both(), losses, loss_weights={"kind": 1})
    with pytest.raises(ValueError, match=r"loss_weights are .* They must be finite and at least 0"):
        nn.Trainer(Both(), losses, loss_weights={"kind": 1, "size": -1})
    with pytest.raises(ValueError, match=r"MSELoss\(reduction='none'\) does not give a single number"):
        nn.Trainer(nn.Linear(1), nn.MSELoss(reduction="none"))
    with pytest.raises(ValueError, match=r"the parts of x have \[50, 9\] samples"):
        nn.Trainer(Both(), losses).predict((pair[0], pair[1][:9]))


# A share for validation.


def test_validation_split_takes_its_share_of_every_class() -> None:
    x = np.arange(100, dtype=np.float32)[:, None] / 100
    y = (np.arange(100) % 5 == 0).astype(np.int64)
    seen: dict[bool, set[int]] = {True: set(), False: set()}

    def watch(samples: Array, targets: Array, draws: Any) -> tuple[Array, Array]:
        seen[draws.training] |= set((samples[:, 0] * 100).round().astype(int).tolist())
        return samples, targets

    trainer = nn.Trainer(nn.Linear(2), batch_size=16, seed=1, quiet=True)
    history = trainer.fit(x, y, epochs=2, validation_split=0.25, transforms=watch)
    assert len(seen[True]) == 75 and len(seen[False]) == 25 and not seen[True] & seen[False]
    assert sum(i % 5 == 0 for i in seen[False]) == 5
    held = np.array(sorted(seen[False]))
    assert history[-1]["validation_loss"] == pytest.approx(trainer.evaluate(x[held], y[held])["loss"])
    for share, error, message in (
        (0, ValueError, r"validation_split is 0\. It must be a share"),
        (1.5, ValueError, r"validation_split is 1\.5\. It must be a share"),
        (0.001, DataError, r"0\.001, which is 0 of 100 samples"),
    ):
        with pytest.raises(error, match=message):
            trainer.fit(x, y, epochs=1, validation_split=share)
    with pytest.raises(TypeError, match="validation and validation_split exclude each other"):
        trainer.fit(x, y, epochs=1, validation_split=0.5, validation=(x, y))


# Weights.


def test_sample_weights_count_samples() -> None:
    """A weight of 2 is the sample twice, one of 0 no sample; in training and in evaluation."""
    x, y = problem(24)
    weights = np.array([0, 1, 2] * 8)
    repeated = np.repeat(np.arange(24), weights)
    nets = [nn.Sequential(nn.Linear(2)) for _ in range(2)]
    settings: dict[str, Any] = {"batch_size": 24, "seed": 1, "quiet": True}
    one = nn.Trainer(nets[0], optimizer=nn.SGD(0.5), **settings)
    other = nn.Trainer(nets[1], optimizer=nn.SGD(0.5), **settings)
    first = one.fit(x, y, epochs=3, sample_weights=weights, validation=(x, y, weights))
    second = other.fit(x[repeated], y[repeated], epochs=3, validation=(x[repeated], y[repeated]))
    np.testing.assert_allclose(weights_of(nets[0]), weights_of(nets[1]), rtol=1e-5, atol=1e-6)
    for mine, theirs in zip(first, second, strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
        assert mine["validation_loss"] == pytest.approx(theirs["validation_loss"], rel=1e-5)
    assert one.evaluate(x, y, 5, sample_weights=weights)["loss"] == pytest.approx(
        other.evaluate(x[repeated], y[repeated])["loss"], rel=1e-5
    )
    for bad, message in (
        (weights[:5], r"sample_weights are int64 of shape \(5,\), but 24 samples need one number each"),
        (-1.0 * weights, r"sample_weights are -2 at 2\. Weights must be at least 0"),
        (0 * weights, "sample_weights are 0 for all samples"),
        (np.full(24, np.nan), r"sample_weights contains nan at \(0,\)"),
    ):
        with pytest.raises(DataError, match=message):
            one.fit(x, y, epochs=1, sample_weights=bad)


def test_class_weights_are_those_of_the_loss() -> None:
    x, y = problem(40)
    for given in ([1, 3], {1: 3}, np.float64([1, 3])):
        nets = [nn.Sequential(nn.Linear(2)) for _ in range(2)]
        history = nn.Trainer(nets[0], seed=1, quiet=True).fit(
            x, y, epochs=3, class_weights=given, validation=(x, y)  # type: ignore[arg-type]
        )  # fmt: skip
        loss = nn.CrossEntropyLoss(weight=[1, 3])
        other = nn.Trainer(nets[1], loss, seed=1, quiet=True).fit(x, y, epochs=3, validation=(x, y))
        np.testing.assert_allclose(weights_of(nets[0]), weights_of(nets[1]), rtol=1e-5, atol=1e-6)
        for name in ("loss", "validation_loss"):
            assert history[-1][name] == pytest.approx(other[-1][name], rel=1e-5)


def test_balanced_classes_and_positions() -> None:
    """Every class counts the same in all, whatever it is a number of: samples or positions."""
    x = numbers(30, 5, 3)
    y = np.random.RandomState(0).choice(3, (30, 5), p=[0.7, 0.25, 0.05])
    y[0, 0] = -100
    net = nn.Sequential(nn.Linear(3))
    trainer = nn.Trainer(net, nn.CrossEntropyLoss(dim=-1), batch_size=30, quiet=True)
    trainer.fit(x, y, epochs=1, class_weights="balanced")
    weights = trainer.objective.class_weights
    assert weights is not None
    counts = np.bincount(y[y >= 0], minlength=3)
    np.testing.assert_allclose(weights.table * counts, [counts.sum() / 3] * 3, rtol=1e-6)
    losses = nn.CrossEntropyLoss(dim=-1, reduction="none")(net(x), y)[0]
    each = np.where(y >= 0, weights.table[np.maximum(y, 0)], 0)
    assert trainer.evaluate(x, y)["loss"] == pytest.approx((losses * each).sum() / each.sum(), rel=1e-5)


def test_bad_class_weights() -> None:
    x, y = problem(20)
    for given, message in (
        ([1, 2, 3], r"class_weights has shape \(3,\), but the network has 2 classes"),
        ({2: 1.0}, "class_weights has class 2, but the network has classes 0 to 1"),
        ("even", "class_weights is 'even'. Use 'balanced'"),
        ([1, -1], "class_weights has the weight -1"),
    ):
        with pytest.raises(ValueError, match=message):
            nn.Trainer(nn.Linear(2), quiet=True).fit(x, y, epochs=1, class_weights=given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no loss of this trainer has classes"):
        nn.Trainer(nn.Linear(3), "mse", quiet=True).fit(x, x, epochs=1, class_weights=[1, 2])
    with pytest.raises(ValueError, match="has class weights already"):
        nn.Trainer(nn.Linear(2), nn.CrossEntropyLoss(weight=[1, 2]), quiet=True).fit(
            x, y, epochs=1, class_weights=[1, 2]
        )
    with pytest.raises(ValueError, match="'balanced' counts the samples of all classes, which takes arrays"):
        nn.Trainer(nn.Linear(2), quiet=True).fit([(x, y)], epochs=1, class_weights="balanced")


# Several batches for one step.


@pytest.mark.parametrize(("size", "accumulate"), [(8, 5), (16, 3), (7, 6)])
def test_accumulated_batches_are_one_large_batch(size: int, accumulate: int) -> None:
    """Also where the last batch, or the last group of batches, is smaller."""
    x, y = problem(90)
    nets = [nn.Sequential(nn.Linear(8), nn.Tanh(), nn.Linear(2)) for _ in range(2)]
    settings: dict[str, Any] = {"seed": 1, "quiet": True, "clip_norm": 0.5, "schedule": "cosine"}
    small = nn.Trainer(nets[0], optimizer=nn.SGD(0.5), batch_size=size, accumulate=accumulate, **settings)
    large = nn.Trainer(nets[1], optimizer=nn.SGD(0.5), batch_size=size * accumulate, **settings)
    histories = small.fit(x, y, epochs=3), large.fit(x, y, epochs=3)
    np.testing.assert_allclose(weights_of(nets[0]), weights_of(nets[1]), rtol=1e-4, atol=1e-6)
    for mine, theirs in zip(*histories, strict=True):
        assert mine["step"] == theirs["step"] and mine["learning_rate"] == theirs["learning_rate"]
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-5)


def test_accumulated_weights_and_sums() -> None:
    x, y = problem(40)
    weights = np.random.RandomState(0).uniform(0, 2, 40)
    for loss in (nn.CrossEntropyLoss(), nn.CrossEntropyLoss(reduction="sum")):
        nets = [nn.Sequential(nn.Linear(2)) for _ in range(2)]
        for net, size, accumulate in zip(nets, (10, 40), (4, 1), strict=True):
            trainer = nn.Trainer(net, loss, nn.SGD(0.01), batch_size=size, accumulate=accumulate, quiet=True)
            trainer.fit(x, y, epochs=3, sample_weights=weights)
        np.testing.assert_allclose(weights_of(nets[0]), weights_of(nets[1]), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="accumulate is 0"):
        nn.Trainer(nn.Linear(1), accumulate=0)


# Callbacks and stopping.


def test_callbacks_are_called() -> None:
    x, y = problem(40)
    told: list[Any] = []

    class All:
        def on_step(self, trainer: nn.Trainer, step: dict[str, Any]) -> None:
            told.append(("step", step["epoch"], step["step"], step["samples"]))
            assert np.isfinite(step["loss"]) and step["learning_rate"] == 0.001

        def on_epoch(self, trainer: nn.Trainer, record: dict[str, Any]) -> None:
            told.append(("epoch", record["epoch"]))
            record["note"] = trainer.batch_size

        def on_end(self, trainer: nn.Trainer, history: list[dict[str, Any]]) -> None:
            told.append(("end", len(history)))

    class Quiet(nn.Callback):
        pass

    history = nn.Trainer(nn.Linear(2), batch_size=25, quiet=True).fit(x, y, epochs=2, callbacks=[All(), Quiet()])
    assert told == [
        ("step", 1, 1, 25), ("step", 1, 2, 15), ("epoch", 1), ("step", 2, 3, 25), ("step", 2, 4, 15), ("epoch", 2), ("end", 2),
    ]  # fmt: skip
    assert history[0]["note"] == 25
    for bad in (print, nn.Callback, object()):
        with pytest.raises(TypeError, match="which has none of on_step"):
            nn.Trainer(nn.Linear(2), quiet=True).fit(x, y, epochs=1, callbacks=[bad])


def test_a_callback_ends_the_run_and_says_why() -> None:
    x, y = problem(40)

    class Stop:
        def __init__(self, step: int) -> None:
            self.step = step

        def on_step(self, trainer: nn.Trainer, step: dict[str, Any]) -> None:
            if step["step"] == self.step:
                trainer.stop("it is late")

    for step, epochs, line in ((3, 1, "in epoch 2, step 3"), (4, 2, "after epoch 2")):
        said: list[str] = []
        trainer = nn.Trainer(nn.Linear(2), batch_size=20, say=said.append)
        assert len(trainer.fit(x, y, epochs=9, callbacks=Stop(step))) == epochs
        assert said[-1] == f"Stopped {line}: it is late."
        assert len(trainer.fit(x, y, epochs=3)) == 3  # another run is not stopped


def test_early_stopping_by_any_metric() -> None:
    x, y = problem(60)
    noisy = np.where(np.random.RandomState(0).uniform(size=60) < 0.3, 1 - y, y)
    said: list[str] = []
    net = nn.Sequential(nn.Linear(32), nn.Tanh(), nn.Linear(2))
    stop = nn.EarlyStopping(3, "validation_f1")
    trainer = nn.Trainer(
        net, optimizer=nn.Adam(0.05), metrics=["f1", "accuracy"], early_stopping=stop, seed=1, say=said.append
    )
    history = trainer.fit(x[:40], noisy[:40], epochs=200, validation=(x[40:], noisy[40:]))
    values = [record["validation_f1"] for record in history]
    best = values.index(max(values)) + 1
    assert len(history) == best + 3 < 200 and trainer.chosen_epoch == best
    assert said[-2] == (
        f"Stopped after epoch {len(history)}: the validation f1 has not risen above {max(values):.4g}, that of epoch {best}, "
        "for 3 epochs."
    )
    assert said[-1] == f"The weights are those of epoch {best}: it has the highest validation f1."
    assert trainer.evaluate(x[40:], noisy[40:])["f1"] == pytest.approx(max(values))


def test_early_stopping_without_validation_with_a_delta_or_without_patience() -> None:
    x, y = problem(60)
    stop = nn.EarlyStopping(2, "loss", min_delta=10)
    said: list[str] = []
    history = nn.Trainer(nn.Linear(2), early_stopping=stop, say=said.append).fit(x, y, epochs=50)
    assert len(history) == 3  # nothing gains 10
    assert "the loss has not fallen below" in said[-2] and "that of epoch 1, for 2 epochs." in said[-2]
    trainer = nn.Trainer(nn.Linear(2), optimizer=nn.Adam(0.5), early_stopping=nn.EarlyStopping(None), say=said.append)
    history = trainer.fit(x[:20], y[:20], epochs=20, validation=(x[20:], y[20:]))
    losses = [record["validation_loss"] for record in history]
    assert len(history) == 20 and trainer.chosen_epoch == losses.index(min(losses)) + 1
    assert trainer.evaluate(x[20:], y[20:])["loss"] == pytest.approx(min(losses))


def test_early_stopping_refuses_what_it_cannot_know() -> None:
    x, y = problem(20)

    def fit(stop: Any, metrics: Any = None, **options: Any) -> None:
        nn.Trainer(nn.Linear(2), early_stopping=stop, metrics=metrics, quiet=True).fit(x, y, epochs=1, **options)

    with pytest.raises(
        ValueError, match=r"'validation_acuracy', which the history will not have\. Did you mean 'validation_acc"
    ):
        fit(nn.EarlyStopping(3, "validation_acuracy"), validation=(x, y))
    own = {"mine": lambda outputs, targets: 0.0}
    with pytest.raises(ValueError, match=r"'mine', a function of yours\. Say whether lower or higher is better"):
        fit(nn.EarlyStopping(3, "mine"), own)
    fit(nn.EarlyStopping(3, "mine", mode="min"), own)
    fit(nn.EarlyStopping(3, "mine"), {"mine": nn.metrics.Custom(own["mine"], higher_is_better=True)})
    with pytest.raises(ValueError, match="by the validation accuracy, but there is no validation data"):
        fit(nn.EarlyStopping(3, "validation_accuracy"))
    for make, message in (
        (lambda: nn.EarlyStopping(0), "patience is 0"),
        (lambda: nn.EarlyStopping(mode="low"), "mode is 'low'. Use 'min'"),  # type: ignore[arg-type]
        (lambda: nn.EarlyStopping(min_delta=-1), "min_delta is -1"),
        (lambda: nn.Trainer(nn.Linear(1), early_stopping=0), "early_stopping is 0"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


# What is noted.


def test_time_is_noted_by_phase() -> None:
    import time

    x, y = problem(40)

    def slow(samples: Array, targets: Array, draws: Any) -> tuple[Array, Array]:
        time.sleep(0.002)
        return samples, targets

    history = nn.Trainer(nn.Linear(2), batch_size=10, quiet=True).fit(
        x, y, epochs=2, validation=(x, y), transforms=slow
    )
    for record in history:
        phases = record["phase_seconds"]
        assert set(phases) == {"data", "forward", "backward", "step", "validation"}
        assert phases["data"] >= 4 * 0.002 and all(value > 0 for value in phases.values())
        parts = sum(value for name, value in phases.items() if name != "validation")
        assert parts <= record["seconds"] + 0.001
    assert "validation" in nn.Trainer(nn.Linear(2), quiet=True).fit(x, y, epochs=1)[0]["phase_seconds"]


# The loss.


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_loss_does_not_depend_on_batches(reduction: Any, accumulate: int) -> None:
    """With a rate that moves nothing, training, validation and evaluation measure the same, in batches of any size."""
    x, y = problem(45)
    weights = np.random.RandomState(0).uniform(0.5, 2, 45).astype(np.float32)
    for counted in (None, weights):
        net = nn.Sequential(nn.Linear(2)).build((x.shape[1],), seed=0)
        each = nn.CrossEntropyLoss(reduction="none")(net.eval()(x), y, sample_weights=counted)[0]
        total = 45 if reduction != "mean" or counted is None else counted.sum()
        for size in (7, 16, 45):
            trainer = nn.Trainer(
                net, nn.CrossEntropyLoss(reduction=reduction), nn.SGD(1e-12), batch_size=size, accumulate=accumulate,
                quiet=True,
            )  # fmt: skip
            given = (x, y) if counted is None else (x, y, counted)
            record = trainer.fit(x, y, epochs=1, sample_weights=counted, validation=given)[0]
            losses = [record["loss"], record["validation_loss"]]
            losses.append(trainer.evaluate(x, y, size, sample_weights=counted)["loss"])
            assert losses == pytest.approx([each.sum() / total] * 3, rel=1e-5), size


def test_the_progress_line_shows_the_loss_of_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last line of an epoch and its record have one loss."""
    shown: list[float] = []
    monkeypatch.setattr(Progress, "advance", lambda self, samples, *, rate, measured: shown.append(measured()["loss"]))
    x, y = problem(50)
    history = nn.Trainer(nn.Linear(2), optimizer=nn.SGD(0.5), batch_size=7, quiet=True).fit(x, y, epochs=2)
    assert [shown[7], shown[15]] == [record["loss"] for record in history]
