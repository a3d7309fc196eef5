"""The estimators of openbnns.sklearn: scikit-learn's own checks, its tools, and scores beside those of its networks."""

from __future__ import annotations

import doctest
import importlib
import pickle
import subprocess
import sys
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.special
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits, load_wine, make_multilabel_classification, make_regression
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import MLPClassifier as TheirClassifier
from sklearn.neural_network import MLPRegressor as TheirRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import openbnns.sklearn
from helpers import Array
from openbnns import coreml, nn
from openbnns.sklearn import MLPClassifier, MLPRegressor, _estimator
from source_networks import compile_and_run

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")]

ESTIMATORS = [MLPClassifier, MLPRegressor]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_checks_of_scikit_learn(kind: Any) -> None:
    """All of them, without exceptions; those that skip themselves need packages or settings that are not here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(kind(), on_skip=None)
    assert {result["status"] for result in results} <= {"passed", "skipped"}
    assert sum(result["status"] == "passed" for result in results) > 40


@pytest.fixture(scope="module")
def wine() -> tuple[Array, Array, Array, Array]:
    x, y = load_wine(return_X_y=True)
    a, b, c, d = train_test_split(StandardScaler().fit_transform(x), y, random_state=0)
    return a, b, c, d


def test_pipeline_and_grid_search(wine: tuple[Array, ...]) -> None:
    a, b, c, d = wine
    pipeline = make_pipeline(StandardScaler(), MLPClassifier((16,), max_iter=30, random_state=0))
    search = GridSearchCV(pipeline, {"mlpclassifier__learning_rate_init": [1e-6, 0.02]}, cv=2).fit(a, c)
    assert search.best_params_ == {"mlpclassifier__learning_rate_init": 0.02}
    assert search.score(b, d) > 0.9
    assert clone(search.best_estimator_).get_params()["mlpclassifier__hidden_layer_sizes"] == (16,)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_copies_and_pickles_predict_the_same(kind: Any, wine: tuple[Array, ...]) -> None:
    a, b, c, _ = wine
    model = kind(max_iter=3, random_state=3).fit(a, c)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(model.predict(b), again.predict(b))
    np.testing.assert_array_equal(kind(max_iter=3, random_state=3).fit(a, c).predict(b), model.predict(b))
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(model.predict_proba(b), again.predict_proba(b))
        other = kind(max_iter=3, random_state=4).fit(a, c).predict_proba(b)
        assert not np.array_equal(other, model.predict_proba(b))
    for further in (model, again):  # the optimizer goes on where it was
        further.partial_fit(a, c)
    np.testing.assert_array_equal(model.predict(b), again.predict(b))


def test_scores_are_those_of_scikit_learn() -> None:
    x, y = load_digits(return_X_y=True)
    a, b, c, d = train_test_split(x / 16, y, random_state=0)
    ours, theirs = (kind(max_iter=40, random_state=0).fit(a, c) for kind in (MLPClassifier, TheirClassifier))
    assert ours.score(b, d) > theirs.score(b, d) - 0.02
    assert abs(ours.loss_ / theirs.loss_ - 1) < 0.2
    assert [w.shape for w in ours.coefs_] == [w.shape for w in theirs.coefs_]
    assert [w.shape for w in ours.intercepts_] == [w.shape for w in theirs.intercepts_]
    assert (ours.n_layers_, ours.n_outputs_, ours.n_iter_) == (theirs.n_layers_, theirs.n_outputs_, theirs.n_iter_)
    x, y = make_regression(400, 5, noise=5, random_state=0)
    y = (y - y.mean()) / y.std()
    ours, theirs = (
        kind(learning_rate_init=0.01, max_iter=80, random_state=0).fit(x, y) for kind in (MLPRegressor, TheirRegressor)
    )
    assert ours.score(x, y) > theirs.score(x, y) - 0.02 > 0.9


def test_the_same_steps_as_scikit_learn(wine: tuple[Array, ...]) -> None:
    """From the same weights, on one batch an epoch, the losses are those of scikit-learn, its penalty included."""
    a, _, c, _ = wine
    for solver in (
        {"solver": "adam"},
        {"solver": "sgd", "momentum": 0.7},
        {"solver": "sgd", "nesterovs_momentum": False},
    ):
        options: dict[str, Any] = {
            "hidden_layer_sizes": (6,), "activation": "tanh", "alpha": 0.3, "batch_size": len(a), "learning_rate_init": 0.05,
            "random_state": 0, **solver,
        }  # fmt: skip
        ours, theirs = (
            kind(**options).partial_fit(a, c, classes=[0, 1, 2]) for kind in (MLPClassifier, TheirClassifier)
        )
        for kind, network in (("weight", theirs.coefs_), ("bias", theirs.intercepts_)):
            for parameter, values in zip(
                (p for name, p in ours.network_.named_parameters() if name.endswith(kind)), network, strict=True
            ):
                parameter.data[...] = values.T
        ours._optimizer = ours._make_optimizer(ours.network_)  # both begin anew
        del theirs._optimizer
        penalties = []
        for _ in range(6):
            penalties.append(0.15 * sum(float((w**2).sum()) for w in theirs.coefs_) / len(a))
            ours.partial_fit(a, c)
            theirs.partial_fit(a, c)
        np.testing.assert_allclose(np.add(ours.loss_curve_[-6:], penalties), theirs.loss_curve_[-6:], rtol=2e-4)


def test_early_stopping_keeps_the_best_weights(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = load_digits(return_X_y=True)
    model = MLPClassifier(
        (20,), early_stopping=True, learning_rate_init=0.02, n_iter_no_change=4, random_state=0, verbose=True
    )
    model.fit(x[:600] / 16, y[:600])
    assert model.n_iter_ < 200 and len(model.validation_scores_) == len(model.loss_curve_) == model.n_iter_
    assert model.best_validation_score_ == max(model.validation_scores_)
    printed = capsys.readouterr().out
    assert "Iteration 1, loss = " in printed and "The validation score did not improve" in printed


def test_fitting_in_parts(wine: tuple[Array, ...]) -> None:
    a, b, c, d = wine
    model = MLPClassifier((16,), learning_rate_init=0.02, random_state=0)
    model.partial_fit(a[:20], c[:20], classes=[0, 1, 2])
    for _ in range(40):
        model.partial_fit(a, c)
    assert model.n_iter_ == 41 and model.score(b, d) > 0.9
    with pytest.raises(ValueError, match=r"y has \[7\], which is none of the classes \[0, 1, 2\]"):
        model.partial_fit(a, np.where(c == 0, 7, c))
    warm = MLPClassifier((16,), max_iter=5, warm_start=True, random_state=0).fit(a, c)
    first = warm.loss_
    assert warm.fit(a, c).n_iter_ == 10 and warm.loss_ < first


def test_labels() -> None:
    x, y = make_multilabel_classification(200, 8, n_classes=4, random_state=0)
    model = MLPClassifier((32,), learning_rate_init=0.01, max_iter=80, random_state=0).fit(x / 10, y)
    assert model.predict(x / 10).shape == y.shape and model.predict_proba(x / 10).shape == y.shape
    assert model.score(x / 10, y) > 0.35


def test_rates_and_words() -> None:
    x, y = load_wine(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    names = np.array(["red", "white", "other"])[y]
    for rate in ("constant", "invscaling", "adaptive"):
        model = MLPClassifier(
            (8,), solver="sgd", learning_rate=rate, learning_rate_init=0.1, power_t=0.1, max_iter=50, random_state=0
        )
        assert model.fit(x, names).score(x, names) > 0.9, rate
    assert model.classes_.tolist() == ["other", "red", "white"]


@pytest.mark.parametrize("form", ["csr_matrix", "csr_array", "csc_matrix", "coo_array"])
def test_sparse_samples_train_the_same_weights(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit by bit those of the samples written out, whole or a few batches at a time."""
    draw = np.random.RandomState(0)
    x = np.where(draw.random_sample((230, 40)) < 0.1, draw.standard_normal((230, 40)), 0).astype(np.float32)
    y = (x[:, :20].sum(1) > x[:, 20:].sum(1)).astype(int)
    sparse = getattr(scipy.sparse, form)(x)
    options: dict[str, Any] = {"batch_size": 32, "max_iter": 3, "random_state": 0}
    for portion in (1 << 22, 32 * 40 * 2):
        monkeypatch.setattr(_estimator, "_PORTION", portion)
        for kind, more in ((MLPClassifier, {}), (MLPRegressor, {}), (MLPClassifier, {"early_stopping": True})):
            whole, ours = (kind(**options, **more).fit(rows, y) for rows in (x, sparse))
            for model, rows in ((whole, x), (ours, sparse)):
                model.partial_fit(rows, y)
            for a, b in zip(whole.coefs_ + whole.intercepts_, ours.coefs_ + ours.intercepts_, strict=True):
                np.testing.assert_array_equal(a, b)
            assert whole.loss_curve_ == ours.loss_curve_ and whole.validation_scores_ == ours.validation_scores_
            for name in ("predict", "predict_proba", "predict_log_proba"):
                if hasattr(whole, name):
                    np.testing.assert_array_equal(getattr(whole, name)(x), getattr(ours, name)(sparse))


def test_sparse_samples_are_not_written_out_at_once() -> None:
    """20,000 rows of 5,000 numbers would take 400 MB."""
    x = scipy.sparse.random(20_000, 5_000, density=1e-4, format="csr", dtype=np.float32, random_state=0)
    y = np.asarray(x[:, :2500].sum(1)).ravel() > 0
    tracemalloc.start()
    model = MLPClassifier((4,), max_iter=1, random_state=0).fit(x, y)
    model.predict(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6, peak


def test_sparse_targets_are_refused(wine: tuple[Array, ...]) -> None:
    a, _, c, _ = wine
    with pytest.raises(
        TypeError, match=r"MLPClassifier: y is a sparse matrix, but only X may be one\. Pass y\.toarray\(\)"
    ):
        MLPClassifier().fit(a, scipy.sparse.csr_matrix(np.eye(3)[c]))


def test_the_network_is_one_like_any_other(wine: tuple[Array, ...], tmp_path: Path) -> None:
    a, b, c, d = wine
    names = np.array(["red", "white", "other"])
    model = MLPClassifier((16,), learning_rate_init=0.02, max_iter=40, random_state=0).fit(a, names[c])
    said = model.network_.predict(b.astype(np.float32))
    np.testing.assert_allclose(said.probabilities, model.predict_proba(b), atol=1e-6)
    np.testing.assert_array_equal(said.labels, model.predict(b))
    model.network_.save_model(tmp_path / "m.safetensors")
    assert (
        nn.load_model(tmp_path / "m.safetensors").predict(b.astype(np.float32)).labels.tolist() == said.labels.tolist()
    )
    nn.Trainer(model.network_, "cross_entropy", nn.Adam(0.01), quiet=True).fit(
        a.astype(np.float32), np.searchsorted(model.classes_, names[c]), epochs=3
    )  # what is trained further is what the estimator predicts with
    assert not np.array_equal(model.predict_proba(b), said.probabilities) and model.score(b, names[d]) > 0.9
    labels = MLPClassifier(max_iter=2).fit(a, np.eye(3)[c])
    assert labels.network_.model_card.task == "multilabel"
    assert MLPRegressor(max_iter=2).fit(a, c).network_.model_card.task == "regression"
    with pytest.raises(
        AttributeError, match=r"no attribute 'ConvClassifier'\. Use nn\.Sequential with nn\.Conv2d, and"
    ):
        openbnns.sklearn.ConvClassifier  # noqa: B018


def test_a_table_with_words_and_gaps_ends_in_core_ml_onnx_and_c(tmp_path: Path) -> None:
    """The features of the preparation go into the exported network: all give the probabilities of the pipeline."""
    import onnxruntime

    draw = np.random.RandomState(0)
    kind = draw.randint(0, 3, 300)
    sizes = np.float64([[5, 2], [6, 1.5], [5.5, 3]])[kind] + draw.normal(0, 0.4, (300, 2))
    sizes[draw.random_sample(sizes.shape) < 0.1] = np.nan
    colours = np.where(draw.random_sample(300) < 0.7, np.array(["white", "blue", "red"])[kind], "white")
    x, y = np.column_stack([sizes.astype(object), colours]), np.array(["iris", "lily", "rose"])[kind]
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), [0, 1]),
            ("words", OneHotEncoder(handle_unknown="ignore"), [2]),
        ],
        sparse_threshold=1.0,
    )
    model = make_pipeline(columns, MLPClassifier((16,), learning_rate_init=0.02, max_iter=40, random_state=0))
    assert model.fit(x[:200], y[:200]).score(x[200:], y[200:]) > 0.85
    expected, sparse = model.predict_proba(x[200:]), model[:-1].transform(x[200:])
    assert scipy.sparse.issparse(sparse)
    features, network = sparse.toarray().astype(np.float32), model[-1].network_

    network.to_onnx(tmp_path / "m.onnx")
    (scores,) = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, {"input": features})
    np.testing.assert_allclose(scipy.special.softmax(scores, 1), expected, atol=1e-5)

    core_ml = coreml.MLModel(network.to_coreml(tmp_path / "m.mlpackage").path)
    for row, probabilities in zip(features[:20], expected, strict=False):
        said = core_ml.predict({"input": row[None]})
        assert said["classLabel"] == model.classes_[probabilities.argmax()]
        told = [said["classLabel_probs"][name] for name in model.classes_]
        np.testing.assert_allclose(told, probabilities, atol=1e-5)

    network.to_c(tmp_path)
    features[:1].tofile(tmp_path / "input")
    compile_and_run(tmp_path, INPUT_TYPE="float", INPUT_BYTES=features[:1].nbytes, OUTPUT_BYTES=12)
    scores = np.fromfile(tmp_path / "output", np.float32)
    np.testing.assert_allclose(scipy.special.softmax(scores), expected[0], atol=1e-5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"solver": "lbfgs"}, "solver='lbfgs' is not available. Use one of adam"),
        ({"solver": "adan"}, "solver is 'adan'. Use one of adam"),
        ({"activation": "swish"}, "activation is 'swish'"),
        ({"hidden_layer_sizes": (0,)}, r"hidden_layer_sizes is \(0,\). Use whole numbers above 0"),
        ({"max_iter": 0}, "max_iter is 0. Use at least 1"),
        ({"alpha": -1}, "alpha is -1. Use at least 0"),
        ({"learning_rate_init": 0}, "learning_rate_init is 0. Use above 0"),
        ({"batch_size": 2.5}, "batch_size is 2.5. Use a whole number"),
        ({"learning_rate_init": 1e30, "solver": "sgd"}, "MLPClassifier: the loss became .* Scale the samples"),
    ],
)
def test_parameters_that_make_no_sense(given: dict[str, Any], message: str, wine: tuple[Array, ...]) -> None:
    a, _, c, _ = wine
    with pytest.raises((ValueError, TypeError), match=message):
        MLPClassifier(**given).fit(a, c)
    with pytest.raises(NotFittedError):
        MLPClassifier(**given).predict(a)


def test_too_few_epochs_are_told(wine: tuple[Array, ...]) -> None:
    a, _, c, _ = wine
    with pytest.warns(ConvergenceWarning, match="MLPClassifier: max_iter=2 epochs are done"):
        MLPClassifier(max_iter=2).fit(a, c)


def test_examples_of_docstrings_run() -> None:
    for name in ("", ".mlp"):
        assert doctest.testmod(importlib.import_module(f"openbnns.sklearn{name}")).failed == 0


def test_nothing_imports_scikit_learn_by_itself() -> None:
    program = "import sys, openbnns, openbnns.nn, openbnns.capi, openbnns.cli; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
    missing = "import sys; sys.modules['sklearn'] = None; import openbnns.sklearn"
    result = subprocess.run([sys.executable, "-c", missing], capture_output=True, text=True)
    assert 'pip install "openbnns[sklearn]"' in result.stderr
    assert openbnns.sklearn.__all__ == ["MLPClassifier", "MLPRegressor"]


def test_predictions_of_several_threads(wine: tuple[Array, ...]) -> None:
    a, b, c, _ = wine
    model = MLPClassifier((200,), max_iter=5, random_state=0).fit(a, c)
    parts = [b[i::4] for i in range(4)]
    expected = [model.predict_proba(part) for part in parts]
    assert len({len(part) for part in parts}) < 4  # some have the same number of rows, and so the same programs
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            for got, wanted in zip(pool.map(model.predict_proba, parts), expected, strict=True):
                np.testing.assert_array_equal(got, wanted)
