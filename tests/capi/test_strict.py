"""Strict mode: what it warns about, where, how often, and that it leaves other code alone."""

from __future__ import annotations

import asyncio
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from helpers import ones, python
from openbnns import Shape, capi, cli, nn
from openbnns.calls.form import form
from pages import ROOT, blocks, run_alone

APPLY = form("apply", "batch_size in in_stride out out_stride")

IN_PLACE = capi.BNNSFilterParameters(flags=capi.BNNSFlagsUseClientPtr)


def vector(count: int, data: Any = None) -> capi.BNNSNDArrayDescriptor:
    return Shape.vector(count).descriptor(data=data)


def matrix(columns: int, rows: int, data: Any = None) -> capi.BNNSNDArrayDescriptor:
    return Shape.matrix_row_major(columns, rows).descriptor(data=data)


def dense(weights: Any, parameters: Any = None) -> Any:
    described = capi.BNNSLayerParametersFullyConnected(i_desc=vector(3), w_desc=matrix(3, 2, weights), o_desc=vector(2))
    return capi.BNNSFilterCreateLayerFullyConnected(described, parameters)


def activation() -> Any:
    return capi.BNNSFilterCreateLayerActivation(capi.BNNSLayerParametersActivation(i_desc=vector(3), o_desc=vector(3)))


def step(weights: Any, scale: float) -> None:
    fields = capi.BNNSOptimizerSGDMomentumFields(learning_rate=0.1, gradient_scale=scale)
    w, g, m = vector(6, weights), vector(6, ones(6)), vector(6, np.zeros(6, np.float32))
    assert capi.BNNSOptimizerStep(capi.BNNSOptimizerFunctionSGDMomentum, fields, 1, [w], [g], [m]) == 0


def train(parameters: Any = None) -> None:
    """Two steps of a filter whose weights are changed in place."""
    weights, gradient = ones(2, 3), ones(2, 3)
    f = dense(weights, parameters)
    for _ in range(2):
        assert capi.BNNSFilterApplyBatch(f, 4, ones(4, 3), 3, ones(4, 2), 2) == 0
        dy = vector(2, ones(4, 2))
        assert (
            capi.BNNSFilterApplyBackwardBatch(f, 4, ones(4, 3), 3, None, 0, None, 0, dy, 2, matrix(3, 2, gradient)) == 0
        )
        weights -= 0.1 * gradient


def train_layer(**options: Any) -> None:
    weights = ones(2, 3)
    layer = ob.FullyConnectedLayer(weights=weights, **options)
    for _ in range(2):
        layer.apply(ones(4, 3))
        _, dw, _ = layer.apply_backward(input=ones(4, 3), output_gradient=ones(4, 2))
        weights -= 0.1 * dw


def normalization(variance: Any) -> None:
    image = Shape.image_chw(4, 3, 2).descriptor()
    mean, variance = vector(2, np.zeros(2, np.float32)), vector(2, variance)
    p = capi.BNNSLayerParametersNormalization(
        i_desc=image, o_desc=image, moving_mean_desc=mean, moving_variance_desc=variance, momentum=0.9, epsilon=1e-5
    )
    assert capi.BNNSFilterCreateLayerNormalization(capi.BNNSBatchNorm, p) is not None


def smoothing(amount: float) -> None:
    p = capi.BNNSLayerParametersLossSoftmaxCrossEntropy(
        function=capi.BNNSLossFunctionSoftmaxCrossEntropy, i_desc=vector(3), o_desc=vector(1), label_smooth=amount,
        reduction=capi.BNNSLossReductionMean,
    )  # fmt: skip
    assert capi.BNNSFilterCreateLayerLoss(p) is not None


def labelled(*rows: list[float]) -> None:
    p = capi.BNNSLayerParametersLossSoftmaxCrossEntropy(
        function=capi.BNNSLossFunctionSoftmaxCrossEntropy, i_desc=vector(2), o_desc=vector(1),
        reduction=capi.BNNSLossReductionMean,
    )  # fmt: skip
    f, count = capi.BNNSFilterCreateLayerLoss(p), len(rows)
    assert (
        capi.BNNSLossFilterApplyBatch(f, count, ones(count, 2), 2, np.float32(rows), 2, None, 0, ones(1), None, 0) == 0
    )


def destroy(made: Any, times: int, by: Any = capi.BNNSFilterDestroy) -> None:
    for _ in range(times):
        by(made)


def generator() -> Any:
    return capi.BNNSCreateRandomGenerator(capi.BNNSRandomGeneratorMethodAES_CTR)


def store() -> Any:
    return capi.BNNSCreateNearestNeighbors(1, 1, 1, capi.BNNSDataTypeFloat32)


def image_filter(width: int) -> None:
    p = capi.BNNSLayerParametersConvolution(
        i_desc=Shape.image_chw(6, 6, 1).descriptor(), o_desc=Shape.image_chw(width, 4, 1).descriptor(),
        w_desc=Shape.convolution_weights_oihw(3, 3, 1, 1).descriptor(data=ones(1, 1, 3, 3)), x_stride=1, y_stride=1,
        x_dilation_stride=1, y_dilation_stride=1,
    )  # fmt: skip
    assert capi.BNNSFilterCreateLayerConvolution(p) is not None


def dropout(*, back: bool, rate: float = 0.5) -> None:
    layer = ob.DropoutLayer(input=Shape.vector(3), rate=rate, seed=1)
    for _ in range(2):
        layer.apply(ones(2, 3))
        if back:
            layer.apply_backward(output_gradient=ones(2, 3))


def gradients(place: Any, other: Any) -> None:
    dy = vector(2, ones(2, 2))
    status = capi.BNNSFilterApplyBackwardBatch(
        dense(ones(2, 3)), 2, ones(2, 3), 3, vector(3, place), 3, None, 0, dy, 2, matrix(3, 2, other)
    )
    assert status == 0


# What is wrong, and the same done right, which nothing is said about.
MISTAKES: dict[str, tuple[Callable[[], object], Callable[[], object], str]] = {
    "copied weights": (train, lambda: train(IN_PLACE), r"w_desc\.data has changed since then, .*BNNSFlagsUseClientPtr\)"),
    "copied weights of a layer": (
        train_layer,
        lambda: train_layer(filter_parameters=IN_PLACE),
        r"FullyConnectedLayer: weights\.data has changed since then",
    ),
    "gradient scale": (lambda: step(ones(6), 0.0), lambda: step(ones(6), 1.0), "gradient_scale is 0, so gradients have no"),
    "gradient scale of a layer": (
        lambda: ob.SGDMomentumOptimizer(0.1, 0.0, gradient_scale=0.0).step([ones(3)], [ones(3)]),
        lambda: ob.SGDMomentumOptimizer(0.1, 0.0).step([ones(3)], [ones(3)]),
        r"SGDMomentumOptimizer\.step: gradient_scale is 0",
    ),
    "batch in a single call": (
        lambda: capi.BNNSFilterApply(activation(), ones(5, 3), ones(5, 3)),
        lambda: capi.BNNSFilterApply(activation(), ones(3), ones(3)),
        "BNNSFilterApply: in and out hold 5 samples, but this call runs the first one only. Use BNNSFilterApplyBatch",
    ),
    "transposed weights": (
        lambda: dense(ones(3, 2)),
        lambda: (dense(ones(2, 3)), dense(ones(6)), dense(bytearray(24))),
        r"w_desc\.data is an array of shape \(3, 2\), but the descriptor reads its memory as \(2, 3\)\. Pass .* array's \.T",
    ),
    "stride 0": (
        lambda: capi.BNNSFilterApplyBatch(activation(), 5, ones(5, 3), 0, ones(5, 3), 0),
        lambda: (
            capi.BNNSFilterApplyBatch(activation(), 5, ones(5, 3), 3, ones(5, 3), 3),
            capi.BNNSFilterApplyBatch(activation(), 1, ones(1, 3), 0, ones(1, 3), 0),
        ),
        "batch_size is 5 and in_stride and out_stride 0, which means packed samples, not one sample repeated. Pass 3 and 3",
    ),
    "overlapping samples": (
        lambda: capi.BNNSFilterApplyBatch(activation(), 3, ones(5, 3), 2, ones(3, 3), 3),
        lambda: (
            capi.BNNSFilterApplyBatch(activation(), 3, ones(5, 4), 4, ones(3, 3), 3),
            capi.BNNSFilterApplyBatch(activation(), 1, ones(1, 3), 2, ones(1, 3), 2),
        ),
        "in_stride is 2, but a sample has 3 elements, so samples overlap. Pass 3 if they follow one another",
    ),
    "destroyed twice": (
        lambda: destroy(activation(), 2),
        lambda: (destroy(activation(), 1), capi.BNNSFilterDestroy(None)),
        "BNNSFilterDestroy: the filter has been destroyed already. Destroy it once",
    ),
    "generator destroyed twice": (
        lambda: destroy(generator(), 2, capi.BNNSDestroyRandomGenerator),
        lambda: destroy(generator(), 1, capi.BNNSDestroyRandomGenerator),
        "BNNSDestroyRandomGenerator: the generator has been destroyed already. Destroy it once",
    ),
    "store destroyed twice": (
        lambda: destroy(store(), 2, capi.BNNSDestroyNearestNeighbors),
        lambda: destroy(store(), 1, capi.BNNSDestroyNearestNeighbors),
        "BNNSDestroyNearestNeighbors: the store has been destroyed already. Destroy it once",
    ),
    "labels of nothing": (
        lambda: labelled([0, 1], [0, 0], [1, 0]),
        lambda: labelled([0, 1], [0, 1], [1, 0]),
        "BNNSLossFilterApplyBatch: labels of 1 of 3 samples are all 0, so these samples have no class",
    ),
    "narrow output": (
        lambda: image_filter(3), lambda: image_filter(4),
        "o_desc width is 3, but the convolution gives 4: the last 1 are not computed. Describe 4",
    ),
    "moving variance": (
        lambda: normalization(np.zeros(2, np.float32)),
        lambda: normalization(ones(2)),
        "moving_variance_desc holds zeros, .* Start the moving variance at 1",
    ),
    "label smoothing": (lambda: smoothing(1.0), lambda: smoothing(0.1), "label_smooth is 1, .* Use less than 1"),
    "results in one place": (
        lambda: gradients(*[ones(6)] * 2),
        lambda: gradients(ones(6), ones(6)),
        "BNNSFilterApplyBackwardBatch: in_delta and weights_delta share memory, so one result overwrites the other. Give every",
    ),
    "dropout": (lambda: dropout(back=False), lambda: dropout(back=True), r"DropoutLayer\.apply: this dropout filter runs"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_warned_about_and_right_calls_are_not(name: str, engine: str) -> None:
    wrong, right, message = MISTAKES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrong()  # outside strict mode
        with ob.strict():
            right()
            with ob.strict(enabled=False):
                wrong()
        wrong()
    with ob.strict(), pytest.warns(ob.StrictWarning, match=message) as caught:
        wrong()
    assert {Path(w.filename) for w in caught} == {Path(__file__)}


def test_each_mistake_has_its_place_on_the_page() -> None:
    page = (ROOT / "docs" / "mistakes.md").read_text()
    said = []
    for wrong, _, _ in MISTAKES.values():
        with ob.strict(), pytest.warns(ob.StrictWarning) as caught:
            wrong()
        said += [str(w.message).rpartition("See '")[2].partition("' in docs/mistakes.md.")[0] for w in caught]
    assert len(set(said)) == 13
    for heading in said:
        assert f"\n## {heading}\n" in page


def test_once_per_place() -> None:
    f, x = activation(), ones(5, 3)
    with ob.strict(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            capi.BNNSFilterApply(f, x, x)
        capi.BNNSFilterApply(f, x, x)
    first, second = caught
    assert isinstance(first.lineno, int)
    assert second.lineno == first.lineno + 1
    with ob.strict(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        capi.BNNSFilterApply(f, x, x)
    assert len(caught) == 1  # a new block, and another place


def test_a_warning_that_is_an_error_leaves_the_output_alone() -> None:
    y = np.full((5, 3), 7, np.float32)
    with ob.strict(), warnings.catch_warnings():
        warnings.simplefilter("error", ob.StrictWarning)
        with pytest.raises(ob.StrictWarning):
            capi.BNNSFilterApply(activation(), ones(5, 3), y)
    assert (y == 7).all()


def test_results_are_the_same() -> None:
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((4, 6), np.float32), rng.standard_normal((5, 6), np.float32)
    layer = ob.FullyConnectedLayer(weights=w, activation=ob.ActivationFunction.tanh())
    plain = layer.apply(x)
    with ob.strict():
        np.testing.assert_array_equal(layer.apply(x), plain)
    fast = layer.bnns_filter.native(APPLY)
    y = np.empty((5, 4), np.float32)
    assert fast(5, x, 0, y, 0) == 0  # fast calls are back
    with ob.strict():
        assert fast(5, x, 0, y, 0) != 0
        with ob.strict(enabled=False):
            pass
        assert fast(5, x, 0, y, 0) != 0
    assert fast(5, x, 0, y, 0) == 0


def test_engines_and_strict_mode_do_not_undo_each_other() -> None:
    filter, x = activation(), ones(3)
    fast = filter.native(APPLY)
    with ob.strict():
        with ob.engine("reference"):
            pass
        assert fast(1, x, 0, x, 0) != 0
    with ob.engine("reference"):
        with ob.strict():
            pass
        assert fast(1, x, 0, x, 0) != 0
    assert fast(1, x, 0, x, 0) == 0


def silent_elsewhere(work: Callable[[Callable[[], None]], None]) -> None:
    f, x = activation(), ones(5, 3)
    failures: list[BaseException] = []

    def call() -> None:
        try:
            capi.BNNSFilterApply(f, x, x)
        except BaseException as error:
            failures.append(error)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        work(call)
    assert not failures


def test_other_threads_are_not_in_strict_mode() -> None:
    def work(call: Callable[[], None]) -> None:
        with ob.strict():
            thread = threading.Thread(target=call)
            thread.start()
            thread.join()

    silent_elsewhere(work)


def test_other_tasks_are_not_in_strict_mode() -> None:
    def work(call: Callable[[], None]) -> None:
        async def strict_one(inside: asyncio.Event, done: asyncio.Event) -> None:
            with ob.strict():
                inside.set()
                await done.wait()

        async def both() -> None:
            inside, done = asyncio.Event(), asyncio.Event()
            task = asyncio.ensure_future(strict_one(inside, done))
            await inside.wait()
            call()
            done.set()
            await task

        asyncio.run(both())

    silent_elsewhere(work)
    assert activation().native(APPLY)(1, ones(3), 0, ones(3), 0) == 0


def test_looking_for_a_cure_says_nothing() -> None:
    with ob.strict(), warnings.catch_warnings():
        warnings.simplefilter("error")
        described = capi.BNNSLayerParametersFullyConnected(
            i_desc=vector(2), w_desc=matrix(3, 2, ones(2, 3)), o_desc=vector(3)
        )
        assert capi.BNNSFilterCreateLayerFullyConnected(described) is None
    assert "look exchanged" in (ob.last_error() or "")


@pytest.mark.parametrize("wrong", [1, None, "yes"])
def test_enabled_is_true_or_false(wrong: Any) -> None:
    with pytest.raises(TypeError, match="enabled must be True or False"):
        ob.strict(wrong)


PROGRAM = """
import numpy as np, openbnns as ob
from openbnns import capi
v = ob.Shape.vector(3).descriptor()
f = capi.BNNSFilterCreateLayerActivation(capi.BNNSLayerParametersActivation(i_desc=v, o_desc=v))
x = np.ones((5, 3), np.float32)
for _ in range(3):
    capi.BNNSFilterApply(f, x, x)
"""


@pytest.mark.parametrize(
    ("value", "said"), [("1", "StrictWarning: BNNSFilterApply: in and out hold 5 samples"), ("0", ""), ("", "")]
)
def test_the_environment_variable(value: str, said: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = python(str(program), OPENBNNS_STRICT=value)
    assert done.returncode == 0, done.stderr
    assert said in done.stderr
    assert done.stderr.count("StrictWarning") == (1 if said else 0)
    assert ("program.py:8:" in done.stderr) == bool(said)


# The project's own programs.


@pytest.fixture
def strict_errors() -> Iterator[None]:
    """Strict mode, in which any warning ends the test."""
    with ob.strict(), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_examples_give_no_reason_to_warn(strict_errors: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import digits_capi
    import digits_fused
    from openbnns.examples import digits

    digits_capi.train(seed=3, steps=20)
    network, _ = digits_fused.train(seed=3, steps=20)
    network.read(digits_fused.draw(np.random.RandomState(0), 32)[0])
    digits.train(epochs=1, verbose=False)


@pytest.mark.parametrize("model", ["mlp", "cnn", "transformer"])
def test_training_gives_no_reason_to_warn(model: str, tmp_path: Path, strict_errors: None) -> None:
    assert cli.main(["train", "--out", str(tmp_path), "--model", model, "--epochs", "1", "--quiet"]) == 0


def test_networks_give_no_reason_to_warn(strict_errors: None) -> None:
    net = nn.Sequential(nn.Conv2d(4, 3), nn.BatchNorm2d(), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(3))
    x = np.random.default_rng(0).standard_normal((32, 1, 6, 6)).astype(np.float32)
    trainer = nn.Trainer(net, "cross_entropy", nn.Adam(0.01), quiet=True)
    trainer.fit(x, np.arange(32) % 3, epochs=2, validation=(x, np.arange(32) % 3))
    trainer.predict(x)
    trainer.predict(x)


OF_FILTERS = [
    block
    for block in blocks("python")
    if block.values[0].name != "mistakes.md" and "nn.Trainer(" not in block.values[2]
]
"""Blocks that show filters rather than training, which is slow in strict mode and tested above."""


@pytest.mark.parametrize(("page", "line", "code"), OF_FILTERS)
def test_pages_give_no_reason_to_warn(
    page: Path, line: int, code: str, strict_errors: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_alone(page, line, code)


def test_the_page_of_mistakes_gives_all_of_them() -> None:
    """Every program on it, in strict mode, and none of its cures."""
    page, namespace = (ROOT / "docs" / "mistakes.md").read_text(), dict[str, object]()
    seen = []
    for section in page.split("\n## "):
        heading = section.partition("\n")[0]
        for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
            with ob.strict(), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                exec(compile(block, "mistakes.md", "exec"), namespace)
            said = [str(w.message) for w in caught if f"See {heading!r}" in str(w.message)]
            assert len(said) == len(caught)
            seen += [heading] * bool(said)
    assert sorted(seen) == sorted(set(seen))
    assert len(seen) == 12  # dropout needs a second call
