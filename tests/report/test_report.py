"""The report: what it computes, what it says, and that the page is whole, small, closed and safe."""

from __future__ import annotations

import re
import struct
import zlib
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import report_pages
from openbnns import nn, report
from openbnns.report import number_text, scores, thumbnails

VOID = {"meta", "img", "br", "input", "link"}


class Page(HTMLParser):
    """A page that must be well formed: elements in order, ids once, and no words of one element in another."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.source = text
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"<{tag}> has an attribute twice"
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def having(self, name: str) -> list[str]:
        return [value for _, attributes in self.attributes if (value := attributes.get(name)) is not None]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Page]:
    folder = tmp_path_factory.mktemp("pages")
    read = {}
    for name, make in report_pages.PAGES.items():
        path = folder / f"{name}.html"
        make(path)
        assert path.stat().st_size < 1_000_000, name
        read[name] = Page(path.read_text(encoding="utf-8"))
    return read


@pytest.mark.parametrize("name", report_pages.PAGES)
def test_every_page_is_whole_and_closed(pages: dict[str, Page], name: str) -> None:
    page = pages[name]
    ids = page.having("id")
    assert len(ids) == len(set(ids))
    for link in page.having("href"):
        assert link.startswith("#") and link[1:] in ids
    for source in page.having("src"):
        assert source.startswith("data:image/png;base64,")
    style = re.search(r"<style>(.*?)</style>", page.source, re.DOTALL)
    assert style and not re.search(r"https?:|//[a-z]|@import|url\(", style[1])
    assert {tag for tag, _ in page.attributes} & {"script", "link", "iframe", "object", "embed", "base"} == set()
    assert [name for _, attributes in page.attributes for name in attributes if name.startswith("on")] == []
    levels = [int(tag[1]) for tag, _ in page.attributes if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert "nan" not in page.text.lower().split()


@pytest.mark.parametrize("name", report_pages.PAGES)
def test_values_are_under_the_pointer(pages: dict[str, Page], name: str) -> None:
    """Areas that cover the whole box from left to right, each with its text; points lie inside."""
    page = pages[name]
    charts = re.findall(r"<svg [^>]*role=\"img\">(.*?)</svg>", page.source, re.DOTALL)
    assert charts or name == "labels"
    for chart in charts:
        assert chart.startswith("<title>")
        areas = re.findall(r'<path class="hover" d="M([\d.]+) 0H([\d.]+)V1000H[\d.]+z"><title>([^<]+)</title>', chart)
        dots = re.findall(r'<path class="dots s0" d="M(\d+) (\d+)h0"><title>([^<]+)</title>', chart)
        assert areas or dots
        if areas:
            ends = [float(end) for area in areas for end in area[:2]]
            assert ends[0] == 0 and ends[-1] == 1000 and ends == sorted(ends) and ends[1:-1:2] == ends[2::2]
        assert all(0 <= int(place) <= 1000 for dot in dots for place in dot[:2])


def test_curves_say_every_epoch(pages: dict[str, Page]) -> None:
    history = report_pages._history(nn.models.mlp(2).build((16,), seed=0), 20)
    told = re.findall(r"<title>(epoch \d+\n[^<]*)</title>", pages["two"].source)
    for record in history:
        losses = [number_text.metric("loss", float(record[name])) for name in ("loss", "validation_loss")]
        assert f"epoch {record['epoch']}\ntraining: {losses[0]}\nvalidation: {losses[1]}" in told
    areas = re.findall(r'd="M([\d.]+) 0H([\d.]+)V1000H[\d.]+z"><title>epoch (\d+)\ntraining', pages["two"].source)[:20]
    for left, right, epoch in areas:  # half way to the neighbours
        place = 1000 * (int(epoch) - 1) / 19
        assert float(left) == pytest.approx(max(place - 500 / 19, 0), abs=0.06)
        assert float(right) == pytest.approx(min(place + 500 / 19, 1000), abs=0.06)


def test_a_classifier(pages: dict[str, Page]) -> None:
    outputs, targets = report_pages._scores(10, 300)
    history = report_pages._history(nn.models.cnn(10).build((1, 12, 12), seed=0), 20)
    best = min(history, key=lambda record: float(record["validation_loss"]))["epoch"]
    page, right = pages["digits"], int((outputs.argmax(1) == targets).sum())
    for piece in (
        number_text.percent(right / 300, 2), f"{right} of 300 test samples are recognized", "always the most frequent class, 0",
        f"The weights are those of epoch {best}, which has the lowest validation loss.", "3 samples occur in two parts.",
        f"{300 - right} of 300 test samples. All of them.", f"best: epoch {best}", "training 2,100", "validation 150", "test 300",
        "Loss (logarithmic)", "Learning rate", "Where the time went", "Layers", "Time per layer",
        "Conv2d + BatchNorm2d + ReLU", "13 Linear", "processor", "instruction set", "NumPy", "seed 3",
        "openbnns train --data digits.csv --model mlp --epochs 20 --seed 3",
    ):  # fmt: skip
        assert " ".join(piece.split()) in page.text, piece
    images = [attributes["alt"] or "" for tag, attributes in page.attributes if tag == "img"]
    assert sum(bool(re.fullmatch(r"sample \d+: \d read as \d", text)) for text in images) == min(24, 300 - right)


@pytest.mark.parametrize("kept", ["best", "last"])
def test_the_mark_is_at_the_epoch_whose_weights_are_kept(tmp_path: Path, kept: str) -> None:
    """Whatever the network was before: what it says about the validation samples is what the record of that epoch says."""
    random = np.random.RandomState(0)
    x = random.standard_normal((60, 6)).astype(np.float32)
    y = (x[:, 0] + 2 * random.standard_normal(60) > 0).astype(np.int64)
    net = nn.Sequential(nn.Linear(32), nn.ReLU(), nn.Linear(2))
    trainer = nn.Trainer(
        net, optimizer=nn.Adam(0.03), early_stopping=nn.EarlyStopping(None) if kept == "best" else None, quiet=True
    )
    history = trainer.fit(x[:40], y[:40], epochs=12, validation=(x[40:], y[40:]))
    losses = history.column("validation_loss")
    best = losses.index(min(losses)) + 1
    assert best < 12
    chosen = best if kept == "best" else 12
    assert trainer.evaluate(x[40:], y[40:])["loss"] == pytest.approx(losses[chosen - 1], rel=1e-6)
    report.write(tmp_path / "r.html", title="t", network=net, settings={}, command="", history=history, profile=False)
    page = Page((tmp_path / "r.html").read_text())
    for wanted in (
        [f"best: epoch {best}", f"The weights are those of epoch {best}, which has the lowest validation loss."]
        if kept == "best"
        else ["kept: epoch 12", f"those of the last epoch, 12. The validation loss was lowest in epoch {best}."]
    ):
        assert wanted in page.text
    assert ("best: epoch" in page.text) == (kept == "best")


def test_names_are_text_and_nothing_else(pages: dict[str, Page]) -> None:
    page = pages["hostile"]
    assert "alert" not in "".join(page.having("onerror"))
    assert [attributes["src"] for tag, attributes in page.attributes if tag == "img"] == []
    assert report_pages.HOSTILE in page.text
    assert "<script" not in page.source


def test_the_confusion_of_few_and_the_pairs_of_many(pages: dict[str, Page]) -> None:
    outputs, targets = report_pages._scores(100, 4000)
    counts = np.zeros((100, 100), int)
    np.add.at(counts, (targets, outputs.argmax(1)), 1)
    names = [f"{name} {i}" for i in range(25) for name in ("beaver", "orchid", "streetcar", report_pages.LONG)]
    off = counts - np.diag(np.diag(counts))
    row, column = np.unravel_index(off.argmax(), off.shape)
    told = f"{names[row]} {names[column]} {off.max()} {number_text.percent(off.max() / counts[row].sum())}"
    assert " ".join(told.split()) in pages["hundred"].text
    outputs, targets = report_pages._scores(2, 120)
    missed = int(((targets == 1) & (outputs.argmax(1) == 0)).sum())
    total = int((targets == 1).sum())
    told = f"malignant predicted as benign: {missed} of {total} samples ({number_text.percent(missed / total)})"
    assert told in pages["two"].having("title")
    outputs, targets = report_pages._scores(10, 300)
    cells = [text for text in pages["digits"].having("title") if " of " in text]
    assert len(cells) == 100
    assert sum(int(re.search(r": (\d+) of", text)[1]) for text in cells) == 300  # type: ignore[index]
    for name, matrix in (("digits", True), ("colors", True), ("hundred", False), ("thousand", False)):
        assert ("Rows are true classes" in pages[name].text) is matrix
        assert ("Most confused" in pages[name].text) is not matrix


def test_numbers_without_errors(pages: dict[str, Page]) -> None:
    page = pages["perfect"]
    assert "Wrong predictions" not in page.text and "Most confused" not in page.text
    assert f"never 0 {number_text.NOTHING} {number_text.NOTHING} {number_text.NOTHING}" in page.text


def test_regression(pages: dict[str, Page]) -> None:
    page = pages["regression"]
    for piece in ("R²", "MAE", "Residuals", "always the mean of the training targets", "Furthest off"):
        assert piece in page.text, piece
    for piece in ("Each output", "RMSE", "angle", "Costs", "month hours May 1.25", "Evaluation report"):
        assert piece in pages["outputs"].text, piece
    assert "Training" not in [text.strip() for text in pages["outputs"].texts]
    assert "Exact matches in the test" in pages["labels"].text


def test_shares_of_labels_are_those_of_samples(tmp_path: Path) -> None:
    """A sample may have several labels: 3 of 4 samples have the first, whatever the others are."""
    labels = np.array([[1, 1], [1, 1], [1, 0], [0, 1]])
    path = tmp_path / "page.html"
    report.write(
        path, title="labels", network=nn.Linear(2).build((3,)), settings={}, command="",
        class_names=("sunny", "windy"), task="multilabel", parts={"test": labels}, targets=labels,
        outputs=np.where(labels, 3.0, -3.0), test={"loss": 0.05},
    )  # fmt: skip
    assert path.read_text().count(f"3 ({number_text.percent(0.75)})") == 2


def test_a_run_without_test_samples(tmp_path: Path) -> None:
    """Classes keep their names, nothing is said of a test, and phases that took no time are not shown."""
    y = np.array([0, 1, 1, 1])
    history = [{"epoch": 1, "step": 4, "loss": 0.5, "learning_rate": 0.1, "seconds": 1.0,
                "phase_seconds": {"forward": 1.0, "validation": 0.0}}]  # fmt: skip
    path = tmp_path / "page.html"
    report.write(
        path, title="untested", network=nn.Linear(2).build((3,)), settings={}, command="", history=history,
        class_names=("dry", "wet"), task="classification", parts={"training": y}, notes=["There are no test samples."],
    )  # fmt: skip
    text = Page(path.read_text(encoding="utf-8")).text
    assert "2 classes, from 1 sample (dry) to 3 (wet)" in text
    assert text.count("There are no test samples.") == 1
    assert "100 %" in text and "validation" not in text


def test_every_measure_is_there_once_and_by_its_name(tmp_path: Path) -> None:
    targets = np.linspace(0, 1, 9)[:, None]
    path = tmp_path / "page.html"
    report.write(
        path,
        title="numbers",
        network=nn.Linear(1).build((3,)),
        settings={},
        command="",
        task="regression",
        targets=targets,
        outputs=targets + 0.1,
        test={"loss": 0.01, "r2": 0.904},
    )
    page = path.read_text()
    assert page.count("<dt>test R²</dt>") == 1 and "<dt>R²</dt>" not in page and "test r2" not in page


def test_layers_with_sizes_and_times(pages: dict[str, Page]) -> None:
    assert f"0, 1, 2 Conv2d + BatchNorm2d + ReLU {number_text.sides((32, 12, 12))} 352" in pages["digits"].text
    text = pages["deep"].text
    assert "The 14 slowest of" in text and "All in their order" in text
    assert "All in their order" not in pages["digits"].text


SENTENCES = {
    "has the lowest validation loss": ("two", "one_epoch"),
    "The validation loss was lowest in epoch": ("regression", "two"),
    "Losses are means over samples.": ("two", "outputs"),
    "does no better than the mean of the targets": ("useless", "regression"),
    "always the mean of the training targets": ("regression", "outputs"),
    "always the mean of these targets": ("outputs", "regression"),
    "always the most frequent class, ": ("two", "labels"),
    "always the more frequent answer": ("labels", "two"),
    "does no better than the most frequent class alone": ("lazy", "two"),
    "There are no test samples.": ("one_epoch", "two"),
    "are recognized. With other samples of the same kind, expect": ("two", "regression"),
    "labels are right for this share of": ("labels", "two"),
    "The root of the mean squared error on": ("regression", "outputs"),
    "The root of the mean squared error of x on": ("outputs", "regression"),
    "of the variance (R²).": ("regression", "labels"),
    "Each sample is 16 numbers.": ("two", "labels"),
    "2 classes, from": ("two", "digits"),
    "6 labels, from": ("labels", "two"),
    "The 200 largest of 1,000": ("thousand", "hundred"),
    "All 100": ("hundred", "thousand"),
    "Rows are true classes, columns what they were predicted as": ("two", "hundred"),
    "The 200 lowest of 1,000": ("thousand", "two"),
    "the lowest come first.": ("two", "regression"),
    "Well calibrated: average confidence and accuracy differ by less than 2 points": ("perfect", "two"),
    "Overconfident: average confidence exceeds accuracy by": ("lazy", "perfect"),
    "Underconfident: accuracy exceeds average confidence by": ("two", "perfect"),
    "The mean distance between the two is": ("two", "labels"),
    "All of them.": ("digits", "thousand"),
    "Shown are the 24 that the network was most sure of.": ("thousand", "digits"),
    "Look here for labels that are wrong": ("two", "perfect"),
    "Layers are timed one by one, without loss and optimizer.": ("two", "one_epoch"),
    "samples are drawn, the worst among them.": ("regression", "outputs"),
    "A cloud without a shape around zero": ("regression", "two"),
    "of them are within": ("regression", "two"),
    "Layers that run as one step share a row": ("two", "labels"),
    "The 14 slowest of": ("deep", "two"),
    "Of a training step with": ("two", "one_epoch"),
    "Evaluated on five.npz": ("outputs", "two"),
    "20 epochs on two.csv in": ("two", "outputs"),
}
"""Sentences, each with a page that has it, and one that must not have it."""


@pytest.mark.parametrize("sentence", SENTENCES)
def test_sentences_stand_where_they_are_true(pages: dict[str, Page], sentence: str) -> None:
    there, elsewhere = SENTENCES[sentence]
    assert sentence in pages[there].text
    assert sentence not in pages[elsewhere].text


def test_warnings_stand_first(pages: dict[str, Page]) -> None:
    source = pages["useless"].source
    warning, note, further = (
        source.index(text) for text in ("does no better than the mean", "2 test samples are also", "Losses are means")
    )
    assert warning < note < further
    assert source.count('class="warning"') == 2 and 'class="warning"' not in pages["perfect"].source.replace(
        '<li class="warning">3 samples occur in two parts.</li>', ""
    )


def test_scores_of_classes() -> None:
    """Against the definitions, sample by sample."""
    random = np.random.RandomState(0)
    targets = random.randint(0, 4, 200)
    outputs = random.standard_normal((200, 5)) + 1.5 * np.eye(5)[targets]  # class 4 has no samples
    answers = scores.answers(outputs, targets)
    p = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(answers.confidence, p.max(axis=1))
    np.testing.assert_allclose(answers.of_truth, p[np.arange(200), targets])
    scored = scores.classes(answers, targets, ["a", "b"], 5, np.array([3, 3, 1]))
    predicted = outputs.argmax(axis=1)
    assert scored.names == ("a", "b", "2", "3", "4")
    assert scored.right == (predicted == targets).sum()
    assert scored.baseline.value == (targets == 3).mean()
    for c in range(5):
        hit, said, of = ((predicted == c) & (targets == c)).sum(), (predicted == c).sum(), (targets == c).sum()
        np.testing.assert_allclose(scored.rates.precision[c], hit / said if said else 0)
        np.testing.assert_allclose(scored.rates.recall[c], hit / of if of else 0)
        np.testing.assert_allclose(scored.rates.f1[c], 2 * hit / (said + of))
    assert scored.f1 == ("macro F1", pytest.approx(scored.rates.f1.mean()))  # the mean of what the table shows
    calibration = scored.calibration
    right = predicted == targets
    error = 0.0
    for low, count, sure, hits in zip(
        calibration.edges, calibration.counts, calibration.confidence, calibration.accuracy, strict=True
    ):
        inside = (answers.confidence >= low) & (answers.confidence < low + 0.1 + (low == 0.9))
        assert inside.sum() == count
        np.testing.assert_allclose([sure, hits], [answers.confidence[inside].mean(), right[inside].mean()])
        error += abs(sure - hits) * count / 200
    np.testing.assert_allclose(calibration.error, error)
    assert [n for _, _, n in scored.confused(3)] == sorted((n for _, _, n in scored.confused(99)), reverse=True)[:3]


def test_probabilities_and_single_scores_are_understood() -> None:
    targets = np.array([0, 1, 1])
    logits = np.array([-2.0, 1.0, -0.5])
    yes = 1 / (1 + np.exp(-logits))
    pairs = np.stack([1 - yes, yes], axis=1)
    for outputs in (logits, logits[:, None], yes, yes[:, None], pairs, np.log(pairs)):
        understood = scores.answers(outputs, targets)
        assert understood.predicted.tolist() == [0, 1, 0]
        np.testing.assert_allclose(understood.of_truth, pairs[np.arange(3), targets], rtol=1e-6)


def test_scores_of_numbers_and_labels() -> None:
    random = np.random.RandomState(0)
    truth = random.standard_normal((50, 2))
    said = truth + 0.3 * random.standard_normal((50, 2)) + [0.0, 0.5]
    train = random.standard_normal((20, 2)) + 1
    for i, one in enumerate(scores.regressions(said, truth, ["a", "b"], train)):
        np.testing.assert_allclose(one.rmse, np.sqrt(np.mean((said[:, i] - truth[:, i]) ** 2)))
        np.testing.assert_allclose(one.mae, np.mean(np.abs(said[:, i] - truth[:, i])))
        np.testing.assert_allclose(one.r2, 1 - np.mean((said[:, i] - truth[:, i]) ** 2) / truth[:, i].var())
        np.testing.assert_allclose(one.baseline.value, np.sqrt(np.mean((truth[:, i] - train[:, i].mean()) ** 2)))
    targets = (random.random_sample((40, 3)) < 0.4).astype(int)
    logits = random.standard_normal((40, 3)) + targets
    yes = logits > 0
    for given in (logits, 1 / (1 + np.exp(-logits))):
        scored = scores.labels(given, targets, [], None)
        assert scored.exact == (yes == targets).all(axis=1).mean()
        assert scored.rates.support.tolist() == targets.sum(axis=0).tolist()
        np.testing.assert_allclose(scored.rates.recall, (yes & (targets == 1)).sum(axis=0) / targets.sum(axis=0))
        np.testing.assert_allclose(scored.rates.precision, (yes & (targets == 1)).sum(axis=0) / yes.sum(axis=0))
        assert scored.baseline.value == (targets == 0).all(axis=1).mean()


def test_ticks_are_round_and_inside() -> None:
    random = np.random.RandomState(0)
    for _ in range(300):
        low, width = 10 ** random.uniform(-6, 6) * random.choice([-1, 1]), 10 ** random.uniform(-3, 6)
        high = low + width * abs(low)
        ticks = number_text.ticks(low, high)
        assert 2 <= len(ticks) <= 8
        assert all(low - 1e-9 * abs(low) <= t <= high + 1e-9 * abs(high) for t in ticks)
        logs = number_text.log_ticks(abs(low), abs(low) * (1 + width))
        assert 1 <= len(logs) <= 8
        assert len({number_text.alone(t) for t in logs}) == len(logs)
        assert len(set(number_text.alike(ticks))) == len(ticks)


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_are_what_the_samples_are(channels: int) -> None:
    image = np.random.RandomState(0).randint(0, 256, (5, 7, channels)).astype(np.uint8)
    data = thumbnails.png(image)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height, depth, color = struct.unpack(">IIBB", data[16:26])
    assert (width, height, depth, color) == (7, 5, 8, 0 if channels == 1 else 2)
    length = struct.unpack(">I", data[33:37])[0]
    rows = np.frombuffer(zlib.decompress(data[41 : 41 + length]), np.uint8).reshape(5, -1)
    np.testing.assert_array_equal(rows[:, 1:].reshape(image.shape), image)
    first = np.moveaxis(image, -1, 0)[None].astype(np.float32) / 255
    np.testing.assert_array_equal(thumbnails.pixels(first)[0], image)
    np.testing.assert_array_equal(thumbnails.pixels(image[None])[0], image)
    large = thumbnails.pixels(np.random.RandomState(0).standard_normal((2, channels, 200, 130)))
    assert large.shape == (2, 50, 32, channels) and large.min() == 0 and large.max() == 255


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"task": "clustering"}, "task is 'clustering'. Use classification, multilabel, regression"),
        ({"targets": np.zeros(3, int)}, "there are 4 outputs, but 3 targets"),
        ({"targets": np.array([0, 1, 2, 7])}, "targets are classes 0 to 7, but outputs have 3 classes"),
        ({"task": "regression", "targets": np.zeros(4)}, r"targets are \(4,\), but outputs \(4, 3\)"),
        ({"task": "multilabel", "targets": np.zeros((4, 2), int)}, r"labels are \(4, 2\), but outputs \(4, 3\)"),
        ({"task": "classification", "outputs": np.zeros((4, 3, 2))}, r"outputs are \(samples, classes\)"),
    ],
)
def test_arrays_that_do_not_fit(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"outputs": np.zeros((4, 3)), "targets": np.zeros(4, int)}
    with pytest.raises(ValueError, match=message):
        report.write(tmp_path / "a.html", title="", network=None, settings={}, command="", **(arguments | given))
    assert not (tmp_path / "a.html").exists()


def test_norms_of_weights_are_in_the_history() -> None:
    x = np.random.RandomState(0).standard_normal((12, 3)).astype(np.float32)
    net = nn.Sequential(nn.Linear(4), nn.Tanh(), nn.Linear(1))
    history = nn.Trainer(net, "mse", nn.SGD(0.01), quiet=True, seed=0).fit(x, x[:, :1], epochs=2)
    for name, parameter in net.named_parameters():
        np.testing.assert_allclose(history[-1]["weight_norms"][name], np.linalg.norm(parameter.data), rtol=1e-6)
    assert history[0]["weight_norms"] != history[1]["weight_norms"]


def test_time_of_layers_is_measured(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4), nn.ReLU(), nn.Linear(2)).build((3,), seed=0)
    before = {name: array.copy() for name, array in net.state_dict().items()}
    report.write(
        tmp_path / "r.html", title="", network=net, settings={"batch size": 5}, command="",
        samples=np.ones((2, 3), np.float32), outputs=np.eye(2), targets=np.array([0, 1]),
    )  # fmt: skip
    text = Page((tmp_path / "r.html").read_text(encoding="utf-8")).text
    assert "Of a training step with 5 samples on" in text and "medians of 10 runs." in text
    assert "0, 1 Linear + ReLU 4 16" in text and "2 Linear 2 10" in text
    for name, array in net.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
