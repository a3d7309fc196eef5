"""The part of a report about predictions: the rows behind mistakes, the columns that matter, and the pixels that decide."""

from __future__ import annotations

import csv
import io
import random
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

from openbnns import cli, nn
from openbnns.nn import data
from openbnns.nn.predictions import Predictions
from openbnns.report.explanation import explain, saliency


def shop(folder: Path, count: int = 500, *, price: bool = False) -> Path:
    """Who buys follows from age and, less, from region; a note is only there to be carried along."""
    draw = random.Random(2)
    lines = ["note,age,region,noise," + ("price" if price else "buys")]
    for i in range(count):
        age, region, noise = draw.uniform(18, 80), draw.choice(["north", "south"]), draw.gauss(0, 1)
        value = (age - 50) / 15 + (0.7 if region == "south" else -0.7) + draw.gauss(0, 0.3)
        wrong = i % 25 == 24  # labels that are wrong
        answer = f"{100 + 10 * value:.2f}" if price else ("yes" if (value > 0) != wrong else "no")
        lines.append(f'"row, {i}\n{draw.random()}",{age:.1f},{region},{noise:.3f},{answer}')
    path = folder / "shop.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def trained(path: Path, **options: Any) -> tuple[Any, data.Data, Predictions]:
    loaded = data.load(path, seed=1, **options)
    net = nn.models.mlp(loaded.outputs)
    trainer = nn.Trainer(net, nn.evaluation.LOSSES[str(loaded.task)](), nn.Adam(0.01), seed=1, quiet=True)
    trainer.fit(loaded.train_x, loaded.train_y, epochs=15)
    outputs = trainer.predict(loaded.test_x)
    predictions = Predictions.of(
        outputs, loaded.task, loaded.class_names, mean=loaded.target_mean, std=loaded.target_std
    )
    return net, loaded, predictions


def test_importance_and_dependence_of_classes(tmp_path: Path) -> None:
    net, loaded, predictions = trained(shop(tmp_path), drop=["note"])
    said = explain(net, loaded.preparation, loaded.test_x, loaded.test_y, predictions)
    assert said is not None and said.score == "accuracy"
    assert [one.column for one in said.importance] == ["age", "region", "noise"]
    assert said.importance[0].loss > 0.2 > said.importance[2].loss > -0.1
    by_column = {one.column: one for one in said.dependence}
    rising = by_column["age"].predictions["yes"]
    assert rising[-1] > 0.9 > 0.1 > rising[0] and by_column["age"].places is not None
    assert 18 <= by_column["age"].places[0] < by_column["age"].places[-1] <= 80
    effect = dict(zip(by_column["region"].values, by_column["region"].predictions["yes"], strict=True))
    assert effect["south"] > effect["north"] + 0.2
    groups = {group.category: group for group in said.groups}
    assert set(groups) == {"north", "south"} and sum(group.samples for group in groups.values()) == len(loaded.test_y)
    names = loaded.preparation.feature_names  # type: ignore[union-attr]
    for category, group in groups.items():
        rows = loaded.test_x[:, names.index(f"region = {category}")] == 1
        right = (np.asarray(predictions.outputs).argmax(1) == loaded.test_y)[rows]
        assert group.samples == rows.sum() and group.score == pytest.approx(right.mean())


def test_importance_of_numbers(tmp_path: Path) -> None:
    net, loaded, predictions = trained(shop(tmp_path, price=True), drop=["note"])
    said = explain(
        net,
        loaded.preparation,
        loaded.test_x,
        loaded.in_units(loaded.test_y),
        predictions,
        mean=loaded.target_mean,
        std=loaded.target_std,
    )
    assert said is not None and said.score == "R²" and said.importance[0].column == "age"
    (values,) = said.dependence[0].predictions.values()
    assert values[-1] - values[0] > 20  # of a range of about 40, in units of the price
    assert explain(net, None, loaded.test_x, loaded.test_y, predictions) is None


def test_a_shuffled_column_is_only_that(tmp_path: Path) -> None:
    """Features of one column move together, and those of others stay: checked on a network that adds them up."""
    loaded = data.load(shop(tmp_path), drop=["note"])
    prepare: Any = loaded.preparation
    places = prepare.features_by_column()
    assert sorted(i for rows in places.values() for i in rows) == list(range(prepare.width))
    for column, rows in places.items():
        assert all(prepare.feature_names[i].split(" =")[0].split(":")[0] == column for i in rows)


def test_mistakes_lead_to_their_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = shop(tmp_path), tmp_path / "out"
    assert (
        cli.main(["train", str(path), "--drop", "note", "--epochs", "20", "--lr", "0.01", "--out", str(out), "--quiet"])
        == 0
    )
    page = (out / "report.html").read_text()
    lines = path.read_text().splitlines()
    places = [int(number) for number in re.findall(r">shop\.csv, line (\d+)<", page)]
    assert len(places) > 4
    for number in places:  # rows take two lines each
        assert lines[number - 1].startswith('"row, ') and f"row, {(number - 2) // 2}\n" in lines[number - 1] + "\n"
        assert lines[number - 1].strip('"') in page  # the cell, as the file has it
    (link,) = re.findall(r'href="data:text/csv;charset=utf-8,([^"]*)" download="doubtful-labels\.csv"', page)
    rows = list(csv.DictReader(io.StringIO(unquote(link.replace("&#x27;", "'")))))
    assert rows and all(row["label"] != row["predicted"] and float(row["confidence"]) >= 0.8 for row in rows)
    confidences = [float(row["confidence"]) for row in rows]
    assert confidences == sorted(confidences, reverse=True)
    wrong = sum(int(row["sample"].split()[-1]) // 2 % 25 == 0 for row in rows)  # line 2 i + 2 of row i = 24, 49, ...
    assert wrong >= len(rows) - 3
    for piece in (
        "What predictions depend on",
        "Importance of the columns",
        "Effect of age on yes",
        "Results by group",
    ):
        assert piece in page
    assert "surer" not in page and re.search(r"(Overconfident|Underconfident|Well calibrated): ", page)
    other = tmp_path / "again.html"
    assert cli.main(["evaluate", str(out / "model.safetensors"), str(path), "--report", str(other), "--quiet"]) == 0
    assert ">shop.csv, line " in other.read_text() and "Importance of the columns" in other.read_text()


def test_verdicts_and_scales(tmp_path: Path) -> None:
    draw = np.random.RandomState(0)
    y = draw.randint(0, 2, 400)
    right = draw.uniform(size=400) < 0.7
    for chance, verdict in ((0.95, "Overconfident: average confidence exceeds accuracy by"), (0.7, "Well calibrated: average"),
                            (0.55, "Underconfident: accuracy exceeds average confidence by")):  # fmt: skip
        said = np.where(right, y, 1 - y)
        outputs = np.where(np.arange(2) == said[:, None], chance, 1 - chance)
        nn.report.write(tmp_path / "r.html", title="t", network=None, settings={}, command="c", outputs=outputs, targets=y,
                        task="classification", probabilities=True)  # fmt: skip
        page = (tmp_path / "r.html").read_text()
        assert verdict in page
        accuracy = f"{100 * right.mean():.2f}"
        assert f'class="bar b0" style="width:{accuracy}%"' in page  # on a scale from 0 to 100


def test_saliency_is_the_gradient_of_inference() -> None:
    """Against differences, with batch normalization and dropout as in inference; nothing of the network changes."""
    draw = np.random.RandomState(0)
    net = nn.Sequential(
        nn.Conv2d(4, 3, padding=1), nn.BatchNorm2d(), nn.Tanh(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(3)
    )
    net.build((3, 5, 6), seed=1)
    net(draw.standard_normal((8, 3, 5, 6)).astype(np.float32))
    x, classes = draw.standard_normal((2, 3, 5, 6)).astype(np.float32), np.array([2, 0])
    before = {name: array.copy() for name, array in net.state_dict().items()}
    modes = [module.training for _, module in net.named_modules()]
    actual = saliency(net, x, classes)
    assert [module.training for _, module in net.named_modules()] == modes
    for name, array in net.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    net.eval()
    slopes = np.zeros(x.shape)
    for place in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-2
        change = np.asarray(net(x + step)) - np.asarray(net(x - step))
        slopes[place] = abs(change[place[0], classes[place[0]]]) / 2e-2
    wanted = slopes.max(axis=1)
    np.testing.assert_allclose(actual, wanted / wanted.max(axis=(1, 2), keepdims=True), atol=0.02)
