"""Metrics: their values by definition, over whole epochs, in checkpoints, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import label_sets
import openbnns
from openbnns import nn
from openbnns.nn import evaluation, metrics
from openbnns.report import scores as report_scores

Array = np.ndarray


def scores(count: int, classes: int, seed: int = 0) -> tuple[Array, Array]:
    random = np.random.RandomState(seed)
    outputs = np.round(random.standard_normal((count, classes)), 1).astype(np.float32)  # with ties
    return outputs, random.randint(0, classes, count)


def in_batches(metric: metrics.Metric, outputs: Array, targets: Array, loss: Any = None, size: int = 7) -> float:
    """The value when the samples come in batches, and the state goes through arrays in the middle."""
    running = metric.start(loss)
    for start in range(0, len(outputs), size):
        running.add(outputs[start : start + size].copy(), targets[start : start + size])
        if start == 2 * size:
            kept = {name: array.copy() for name, array in running.arrays().items()}
            running = metric.start(loss)
            running.restore(kept)
    return running.value()


def counts(outputs: Array, targets: Array) -> list[tuple[int, int, int]]:
    """Right, predicted and true ones of each class, counted one by one."""
    table = [[0, 0, 0] for _ in range(outputs.shape[1])]
    for row, wanted in zip(outputs, targets, strict=True):
        predicted = int(row.argmax())
        table[predicted][1] += 1
        table[wanted][2] += 1
        table[predicted][0] += predicted == wanted
    return [(a, b, c) for a, b, c in table]


def precision(c: tuple[int, int, int]) -> float:
    return c[0] / c[1] if c[1] else 0.0


def recall(c: tuple[int, int, int]) -> float:
    return c[0] / c[2] if c[2] else 0.0


def f1(c: tuple[int, int, int]) -> float:
    p, r = precision(c), recall(c)
    return 2 * p * r / (p + r) if p + r else 0.0


BY_CLASS: dict[str, tuple[type[Any], Callable[[tuple[int, int, int]], float]]] = {
    "precision": (metrics.Precision, precision),
    "recall": (metrics.Recall, recall),
    "f1": (metrics.F1, f1),
}


@pytest.mark.parametrize("name", BY_CLASS)
@pytest.mark.parametrize("classes", [2, 5])
def test_precision_recall_and_f1(name: str, classes: int) -> None:
    kind, formula = BY_CLASS[name]
    y, t = scores(101, classes)
    per_class = [formula(c) for c in counts(y, t)]
    totals = [c[2] for c in counts(y, t)]
    together = counts(y, t)
    micro = formula((sum(c[0] for c in together), sum(c[1] for c in together), sum(c[2] for c in together)))
    usual = per_class[1] if classes == 2 else np.mean(per_class)
    assert in_batches(kind(), y, t) == pytest.approx(usual)
    assert in_batches(kind(average="macro"), y, t) == pytest.approx(np.mean(per_class))
    assert in_batches(kind(average="weighted"), y, t) == pytest.approx(np.average(per_class, weights=totals))
    assert in_batches(kind(average="micro"), y, t) == pytest.approx(micro)
    assert in_batches(kind(average="binary", positive=0), y, t) == pytest.approx(per_class[0])
    mean_of_batches = np.mean([kind()(y[i : i + 7], t[i : i + 7]) for i in range(0, 101, 7)])
    assert abs(usual - mean_of_batches) > 1e-3  # which is why it is not computed in this way


def everywhere(outputs: Array, targets: Array) -> dict[str, tuple[float, float]]:
    """Accuracy and F1 of classes as every part of the product gives them."""
    count = outputs.shape[1]
    metric = metrics.Accuracy()(outputs, targets), metrics.F1()(outputs, targets)
    scored = evaluation.scores(nn.Predictions.of(outputs, "classification"), targets)
    page = report_scores.classes(report_scores.answers(outputs, targets), targets, [], count, None)
    return {"metrics": metric, "evaluate": (scored["accuracy"], scored["f1"]), "report": (page.accuracy, page.f1[1])}


def test_scores_are_the_same_everywhere() -> None:
    """Against the formulas, one class at a time."""
    for outputs, targets, _ in label_sets.classes(200):
        each = counts(outputs, targets)
        occurring = [f1(c) for c in each if c[1] or c[2]]
        expected = f1(each[1]) if len(each) == 2 else sum(occurring) / len(occurring)
        right = sum(int(row.argmax()) == wanted for row, wanted in zip(outputs, targets, strict=True)) / len(targets)
        for place, scored in everywhere(outputs, targets).items():
            assert scored == pytest.approx((right, expected)), place


def test_scores_of_labels_are_the_same_everywhere() -> None:
    for outputs, targets in label_sets.labels(200):
        each = [counts(np.stack([0 * y, y], 1), t)[1] for y, t in zip(outputs.T, targets.T, strict=True)]
        decisions = float(np.mean((outputs > 0) == (targets == 1)))
        exact = np.mean([all((y > 0) == (t == 1)) for y, t in zip(outputs, targets, strict=True)])
        expected = sum(map(f1, each)) / len(each)
        loss = nn.BCEWithLogitsLoss()
        assert metrics.F1()(outputs, targets, loss) == pytest.approx(expected)
        assert in_batches(metrics.F1(), outputs, targets, loss) == pytest.approx(expected)
        together = tuple(sum(c[i] for c in each) for i in range(3))
        assert metrics.F1(average="micro")(outputs, targets, loss) == pytest.approx(f1(together))  # type: ignore[arg-type]
        scored = evaluation.scores(nn.Predictions.of(outputs, "multilabel"), targets)
        assert [scored["f1"], scored["accuracy"], scored["exact"]] == pytest.approx([expected, decisions, exact])
        page = report_scores.labels(outputs, targets, [], None, probabilities=False)
        assert [page.f1[1], page.exact] == pytest.approx([expected, exact])


def test_r2_is_the_same_everywhere() -> None:
    for outputs, targets in label_sets.numbers(100):
        y, t = outputs.astype(float), targets.astype(float)
        each = []
        for i in range(y.shape[1]):
            error, spread = ((y[:, i] - t[:, i]) ** 2).sum(), ((t[:, i] - t[:, i].mean()) ** 2).sum()
            each.append(1 - error / spread if spread else float(error == 0))
        assert in_batches(metrics.R2(), outputs, targets) == pytest.approx(np.mean(each))
        scored = evaluation.scores(nn.Predictions.of(outputs, "regression"), targets)
        assert scored["r2"] == pytest.approx(np.mean(each))
        assert scored["loss"] == pytest.approx(scored["rmse"] ** 2, rel=1e-5)
        pages = report_scores.regressions(outputs, targets, [], None)
        assert [one.r2 for one in pages] == pytest.approx(each)
    assert np.isnan(metrics.R2()(np.ones((1, 1)), np.zeros((1, 1))))


def test_the_loss_of_an_evaluation_is_that_of_the_trainer() -> None:
    """Also where probabilities are 0 in float32: nothing is clipped."""
    x = np.float32([[1, 0], [0, 1], [1, 1]])
    net = nn.Linear(2, 2, bias=False)
    net.weight.data[:] = [[90, 0], [0, -60]]
    for task, loss, y in (
        ("classification", "cross_entropy", np.array([1, 1, 0])),
        ("multilabel", "bce_with_logits", np.float32([[0, 1], [1, 1], [1, 0]])),
        ("regression", "mse", np.float32([[0, 1], [1, 1], [1, 0]])),
    ):
        expected = nn.Trainer(net, loss, quiet=True).evaluate(x, y)["loss"]  # type: ignore[arg-type]
        scored = evaluation.scores(nn.Predictions.of(net.eval()(x), task), y)
        assert scored["loss"] == pytest.approx(expected, rel=1e-6), task
        assert expected > 20


def test_decisions_on_the_edge_are_the_same_everywhere() -> None:
    """A score of exactly 0 is a no; scores that differ by less than probabilities can tell are still compared."""
    outputs = np.float32([[0.0, 1e-30], [1.0, -1e-30]])
    loss = nn.BCEWithLogitsLoss()
    assert nn.Predictions.of(outputs, "multilabel").labels.tolist() == [[False, True], [True, False]]  # type: ignore[union-attr]
    assert metrics.Accuracy()(outputs, np.array([[0, 1], [1, 0]]), loss) == 1.0
    close = np.float32([[100.0, 100.00001], [3e-9, 0.0]])
    for scored in everywhere(close, np.array([1, 0])).values():
        assert scored[0] == 1.0
    assert nn.Predictions.of(close, "classification").labels.tolist() == [1, 0]  # type: ignore[union-attr]


def test_a_model_file_knows_the_baseline() -> None:
    random = np.random.RandomState(0)
    for task, targets, bad in (
        ("classification", random.randint(0, 3, 50), (3, -1, True, [1], None)),
        ("multilabel", random.randint(0, 2, (50, 3)), (1, [True], [1, 0, 1], None)),
        ("regression", random.standard_normal((50, 3)), (1, [1.0], ["a", "b", "c"], [True, 1, 1], None)),
    ):
        said = json.loads(json.dumps(evaluation.usual_answer(task, targets)))
        reference = evaluation.reference_of(task, said, 3)
        outputs, other = random.standard_normal((20, 3)).astype(np.float32), targets[:20]
        predictions = nn.Predictions.of(outputs, task)
        assert evaluation.scores(predictions, other, reference) == evaluation.scores(predictions, other, targets)
        for answer in bad:
            assert evaluation.reference_of(task, answer, 3) is None


def test_what_f1_is_called() -> None:
    two, three = np.float32([[1, 2], [2, 1]]), np.float32([[1, 2, 3], [2, 1, 0]])
    for outputs, task, targets, name in (
        (two, "classification", np.array([1, 1]), "F1 of class dog 0.667"),
        (three, "classification", np.array([2, 0]), "macro F1 1.000"),
        (two - 1.5, "multilabel", np.array([[0, 1], [1, 0]]), "macro F1 1.000"),
    ):
        predictions = nn.Predictions.of(outputs, task, ("cat", "dog", "owl")[: outputs.shape[1]])
        assert name in evaluation.in_words(evaluation.scores(predictions, targets), predictions)
    with pytest.raises(ValueError, match=r"average is 'binary', but there are 2 labels\. Use 'micro'"):
        metrics.F1(average="binary")(two, np.array([[0, 1], [1, 0]]), nn.BCEWithLogitsLoss())


def test_a_class_that_never_occurs_does_not_count() -> None:
    y, t = np.float32([[9, 0, 0], [9, 0, 0], [0, 9, 0]]), np.array([0, 1, 1])
    assert metrics.F1()(y, t) == pytest.approx(2 / 3)
    assert metrics.Precision()(y, t) == pytest.approx(0.75)
    assert metrics.Recall(average="binary", positive=2)(y, t) == 0.0


@pytest.mark.parametrize("k", [1, 2, 5])
def test_top_k(k: int) -> None:
    y, t = scores(60, 5)
    right = [list(np.argsort(-row, kind="stable")[:k]).count(wanted) for row, wanted in zip(y, t, strict=True)]
    assert in_batches(metrics.TopK(k), y, t) == pytest.approx(np.mean(right))
    if k == 1:
        assert metrics.TopK(1)(y, t) == metrics.Accuracy()(y, t)


def area(positive: Array, others: Array) -> float:
    """By definition: over all pairs."""
    pairs = positive[:, None] - others[None]
    return float(((pairs > 0) + 0.5 * (pairs == 0)).mean())


def test_area_under_the_curve() -> None:
    y, t = scores(83, 2)
    margin = y[:, 1].astype(float) - y[:, 0]
    assert in_batches(metrics.AUC(), y, t) == pytest.approx(area(margin[t == 1], margin[t == 0]))
    y, t = scores(83, 4)
    p = np.exp(y.astype(float)) / np.exp(y.astype(float)).sum(1, keepdims=True)
    each = [area(p[t == c, c], p[t != c, c]) for c in range(4)]
    assert in_batches(metrics.AUC(), y, t) == pytest.approx(np.mean(each))
    y, t = scores(40, 3)[0], np.random.RandomState(5).randint(0, 2, (40, 3)).astype(np.float32)
    loss = nn.BCEWithLogitsLoss()
    each = [area(y[t[:, c] == 1, c], y[t[:, c] == 0, c]) for c in range(3)]
    assert in_batches(metrics.AUC(), y, t, loss) == pytest.approx(np.mean(each))
    assert np.isnan(metrics.AUC()(y[:, :2], np.ones(40, int)))


def test_decisions_go_by_the_threshold_of_the_loss() -> None:
    y, t = np.float32([[-1], [0.2], [0.7], [3]]), np.float32([[0], [0], [1], [1]])
    assert metrics.Accuracy()(y, t, nn.BCEWithLogitsLoss()) == 0.75
    assert metrics.Accuracy()(y, t, nn.MultiLabelSoftMarginLoss()) == 0.75
    assert metrics.Accuracy()(y, t, nn.BCELoss()) == 1.0
    functions = openbnns.LossFunction
    for function, expected in (
        (functions.hinge(), 0.75),
        (functions.sigmoid_cross_entropy(), 0.75),
        (functions.log(), 1.0),
    ):
        assert metrics.Accuracy()(y, t, nn.BNNSLoss(function)) == expected
    assert metrics.Accuracy(threshold=1)(y, t, nn.MSELoss()) == 0.75
    assert metrics.Recall()(y, t, nn.BCEWithLogitsLoss()) == 1.0
    assert metrics.Precision()(y, t, nn.BCEWithLogitsLoss()) == pytest.approx(2 / 3)


@pytest.mark.parametrize("dim", [1, -1])
def test_positions_and_what_the_loss_ignores(dim: int) -> None:
    y, t = scores(60, 4)
    y, t = y.reshape(6, 10, 4), t.reshape(6, 10)
    t[0, :3] = t[5, 9] = -100
    kept = t.ravel() != -100
    expected = float((y.reshape(60, 4).argmax(1) == t.ravel())[kept].mean())
    moved = y if dim == -1 else np.ascontiguousarray(np.moveaxis(y, -1, 1))
    loss = nn.CrossEntropyLoss(dim=dim)
    assert in_batches(metrics.Accuracy(), moved, t, loss, size=2) == pytest.approx(expected)
    assert in_batches(metrics.TopK(1), moved, t, loss, size=2) == pytest.approx(expected)
    flat = y.reshape(60, 4)[kept], t.ravel()[kept]
    assert in_batches(metrics.F1(), moved, t, loss, size=2) == pytest.approx(metrics.F1()(*flat))
    assert in_batches(metrics.AUC(), moved, t, loss, size=2) == pytest.approx(metrics.AUC()(*flat))


def test_errors_of_numbers() -> None:
    random = np.random.RandomState(0)
    t = (1e3 + random.standard_normal((90, 3))).astype(np.float32)  # far from 0: sums of squares would cancel
    y = (t + 0.3 * random.standard_normal((90, 3))).astype(np.float32)
    e, wanted = y.astype(float) - t, t.astype(float)
    assert in_batches(metrics.MAE(), y, t) == pytest.approx(np.abs(e).mean())
    assert in_batches(metrics.MSE(), y, t) == pytest.approx((e**2).mean())
    assert in_batches(metrics.RMSE(), y, t) == pytest.approx(np.sqrt((e**2).mean()))
    r2 = 1 - (e**2).sum(0) / ((wanted - wanted.mean(0)) ** 2).sum(0)
    assert in_batches(metrics.R2(), y, t) == pytest.approx(r2.mean())
    assert metrics.R2()(np.ones((4, 1)), np.ones((4, 1))) == 1.0
    assert metrics.R2()(np.zeros((4, 1)), np.ones((4, 1))) == 0.0
    with pytest.raises(ValueError, match=r"outputs have shape \(4, 1\) and targets \(4,\)"):
        metrics.MAE()(np.ones((4, 1)), np.ones(4))


def test_functions_of_batches_and_of_epochs() -> None:
    y, t = scores(50, 3)[0], scores(50, 3, 1)[0]
    worst = lambda outputs, targets: np.abs(outputs - targets).max()  # noqa: E731
    assert in_batches(metrics.Custom(worst, whole_epoch=True), y, t) == pytest.approx(worst(y, t))
    each = [(worst(y[i : i + 7], t[i : i + 7]), len(y[i : i + 7])) for i in range(0, 50, 7)]
    assert in_batches(metrics.Custom(worst), y, t) == pytest.approx(sum(v * n for v, n in each) / 50)


def test_a_run_is_measured_over_the_whole_epoch() -> None:
    x = np.random.RandomState(0).standard_normal((70, 3)).astype(np.float32)
    t = (x[:, 0] + 0.3 * x[:, 1] > 0.8).astype(np.int64)
    net = nn.Sequential(nn.Linear(2))
    trainer = nn.Trainer(net, metrics=["accuracy", "f1", "auc", "top2"], batch_size=8, quiet=True)
    history = trainer.fit(x, t, epochs=2, validation=(x, t))
    y = net.eval()(x)
    for name, metric in {"f1": metrics.F1(), "auc": metrics.AUC(), "accuracy": metrics.Accuracy()}.items():
        assert history[-1][f"validation_{name}"] == pytest.approx(metric(y, t))
        assert trainer.evaluate(x, t, 16)[name] == pytest.approx(metric(y, t))
    assert history[0]["top2"] == history[0]["validation_top2"] == 1.0
    assert set(history[0]) >= {"accuracy", "f1", "auc", "validation_loss"}


def test_collected_arrays_of_something_else_are_refused() -> None:
    for metric in (metrics.Accuracy(), metrics.F1(), metrics.R2(), metrics.AUC()):
        for arrays in ({"other": np.zeros(2)}, {"counts": np.zeros((7, 7, 7))}):
            with pytest.raises(ValueError, match="a metric has collected"):
                metric.start().restore(arrays)


def test_what_is_refused() -> None:
    net = nn.Linear(1)
    for given, error, message in (
        (["accuracyy"], ValueError, r"metric 'accuracyy' is not known\. Did you mean 'accuracy'\?"),
        (["accuracy"], ValueError, r"'accuracy' is for classes, but MSELoss compares numbers.*threshold=0\.5"),
        ([nn.metrics.MAE], TypeError, r"is the class MAE\. Call it: nn\.metrics\.MAE\(\)"),
        (["mae", "mae"], ValueError, "there are two metrics 'mae'"),
        ({"a": nn.metrics.MAE(output="box")}, ValueError, "of output 'box', but there is a single output"),
        ({"a": 3}, TypeError, r"metrics\['a'\] is 3, but it is called with"),
    ):
        with pytest.raises(error, match=message):
            nn.Trainer(net, "mse", metrics=given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"average is 'mean'\. Use 'binary'"):
        nn.metrics.F1(average="mean")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="TopK: k is 0"):
        nn.metrics.TopK(0)
    with pytest.raises(ValueError, match="positive is 3, but there are classes 0 to 1"):
        nn.metrics.F1(positive=3)(*scores(9, 2))
    with pytest.raises(ValueError, match="BCEWithLogitsLoss has no classes to list"):
        nn.metrics.TopK(2)(np.ones((2, 3)), np.ones((2, 3)), nn.BCEWithLogitsLoss())
