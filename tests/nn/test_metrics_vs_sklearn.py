"""Scores beside scikit-learn's, on random predictions with everything that its definitions have to decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sk

import label_sets
from openbnns import nn
from openbnns.nn import evaluation, metrics
from openbnns.report import scores as report_scores

pytestmark = pytest.mark.peers

BY_CLASS = {metrics.Precision: "precision_score", metrics.Recall: "recall_score", metrics.F1: "f1_score"}
SETS = 200


def test_classes() -> None:
    for outputs, targets, count in label_sets.classes(SETS):
        predicted = outputs.argmax(1)
        for kind, name in BY_CLASS.items():
            score = getattr(sk, name)
            usual: Any = {"average": "macro"}
            if count == 2:
                usual = {"labels": [1], "average": "macro"}  # "binary", which refuses targets of a single class
            assert kind()(outputs, targets) == pytest.approx(score(targets, predicted, zero_division=0, **usual))
            for average in ("macro", "micro", "weighted"):
                scored = kind(average=average)(outputs, targets)
                assert scored == pytest.approx(score(targets, predicted, average=average, zero_division=0))
        scored = evaluation.scores(nn.Predictions.of(outputs, "classification"), targets)
        assert scored["f1"] == pytest.approx(metrics.F1()(outputs, targets))
        assert scored["accuracy"] == pytest.approx(sk.accuracy_score(targets, predicted))
        p = np.exp(outputs.astype(float) - outputs.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        assert scored["loss"] == pytest.approx(sk.log_loss(targets, p, labels=range(count)), rel=1e-5)
        page = report_scores.classes(report_scores.answers(outputs, targets), targets, [], count, None)
        assert page.f1[1] == pytest.approx(scored["f1"])
        matrix = np.zeros((count, count), int)
        matrix[page.cells[0], page.cells[1]] = page.cells[2]
        np.testing.assert_array_equal(matrix, sk.confusion_matrix(targets, predicted, labels=range(count)))
        together = sk.precision_recall_fscore_support(targets, predicted, labels=range(count), zero_division=0)
        rates = page.rates
        for mine, theirs in zip((rates.precision, rates.recall, rates.f1, rates.support), together, strict=True):
            np.testing.assert_allclose(np.nan_to_num(mine), theirs)  # NaN, where scikit-learn's reports have no row
        if count > 2:
            places = np.argsort(
                np.argsort(-outputs, kind="stable"), kind="stable"
            )  # of equal scores the first is higher
            top = sk.top_k_accuracy_score(targets, -places, k=2, labels=range(count))
            assert metrics.TopK(2)(outputs, targets) == pytest.approx(top)
        if len(np.unique(targets)) == count:
            scores = p[:, 1] if count == 2 else p
            area = sk.roc_auc_score(targets, scores, multi_class="ovr", labels=None if count == 2 else range(count))
            assert metrics.AUC()(outputs, targets) == pytest.approx(area)


def test_labels() -> None:
    loss = nn.BCEWithLogitsLoss()
    for outputs, targets in label_sets.labels(SETS):
        said = (outputs > 0).astype(int)
        for kind, name in BY_CLASS.items():
            for average in (None, "macro", "micro", "weighted"):
                expected = getattr(sk, name)(targets, said, average=average or "macro", zero_division=0)
                assert kind(average=average)(outputs, targets, loss) == pytest.approx(expected)
        scored = evaluation.scores(nn.Predictions.of(outputs, "multilabel"), targets)
        assert scored["accuracy"] == pytest.approx(1 - sk.hamming_loss(targets, said))
        assert scored["exact"] == pytest.approx(sk.accuracy_score(targets, said))
        assert scored["f1"] == pytest.approx(sk.f1_score(targets, said, average="macro", zero_division=0))
        page = report_scores.labels(outputs, targets, [], None, probabilities=False)
        assert [page.exact, page.f1[1]] == pytest.approx([scored["exact"], scored["f1"]])
        both = [i for i in range(targets.shape[1]) if 0 < targets[:, i].sum() < len(targets)]
        if both:
            area = np.mean([sk.roc_auc_score(targets[:, i], outputs[:, i]) for i in both])
            assert metrics.AUC()(outputs, targets, loss) == pytest.approx(area)


def test_numbers() -> None:
    for outputs, targets in label_sets.numbers(SETS):
        wanted, given = targets.astype(float), outputs.astype(float)
        scored = evaluation.scores(nn.Predictions.of(outputs, "regression"), targets)
        assert scored["r2"] == metrics.R2()(outputs, targets) == pytest.approx(sk.r2_score(wanted, given))
        assert scored["mae"] == metrics.MAE()(outputs, targets) == pytest.approx(sk.mean_absolute_error(wanted, given))
        assert scored["rmse"] ** 2 == pytest.approx(sk.mean_squared_error(wanted, given))
        for i, one in enumerate(report_scores.regressions(outputs, targets, [], None)):
            assert one.r2 == pytest.approx(sk.r2_score(wanted[:, i], given[:, i]))
            assert one.rmse == pytest.approx(sk.root_mean_squared_error(wanted[:, i], given[:, i]))
            assert one.mae == pytest.approx(sk.mean_absolute_error(wanted[:, i], given[:, i]))
