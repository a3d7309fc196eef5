"""MultiheadAttentionLayer: the interface of PyTorch's module over the filter, both engines."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from attention_checks import parameters_of
from helpers import Array, assert_within, numbers
from openbnns import capi
from openbnns.parameters.attention import Options
from openbnns.reference import attention as reference


def expected(
    layer: ob.MultiheadAttentionLayer, q: Array, k: Array, v: Array, dy: Array, mask: Any = None, added: Any = None
) -> tuple[Array, dict[str, Array]]:
    parameters, options = parameters_of(layer), Options(zero_row=layer.add_zero_attn)
    inputs = [x.astype(np.float64) for x in (q, k, v)]
    y, cache = reference.forward(*inputs, parameters, options, mask, added)
    wanted = {"dq", "dk", "dv", "dwq", "dwo"}
    return y, reference.backward(*inputs, parameters, cache, dy.astype(np.float64), wanted)


@pytest.mark.parametrize("options", [
    {}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"key_dim": 3, "value_dim": 5},
], ids=str)  # fmt: skip
def test_cross_attention(options: dict[str, Any], engine: str) -> None:
    layer = ob.MultiheadAttentionLayer(8, 2, seed=4, **options)
    for t, s in ((5, 7), (1, 3), (5, 7)):  # lengths may change
        q, k, v, dy = numbers(3, t, 8), numbers(3, s, 8, seed=1), numbers(3, s, 8, seed=2), numbers(3, t, 8, seed=3)
        y, gradients = expected(layer, q, k, v, dy)
        assert_within(layer.apply(q, k, v).astype(np.float64), y, 2e-5, "output")
        actual = layer.apply_backward(dy)
        for name in ("query", "key", "value"):
            assert_within(getattr(actual, name).astype(np.float64), gradients[f"d{name[0]}"], 2e-5, name)
        dwq = gradients["dwq"].transpose(2, 1, 0).reshape(layer.parameters["query_weights"].shape)
        assert_within(actual.parameters["query_weights"].astype(np.float64), dwq, 5e-5, "query_weights")
        dwo = gradients["dwo"].T
        assert_within(actual.parameters["output_weights"].astype(np.float64), dwo, 5e-5, "output_weights")
        assert set(actual.parameters) == set(layer.parameters)


def test_self_attention_gives_the_sum(engine: str) -> None:
    layer = ob.MultiheadAttentionLayer(8, 2)
    x, dy = numbers(2, 5, 8), numbers(2, 5, 8, seed=1)
    _, g = expected(layer, x, x, x, dy)
    layer.apply(x)
    gradients = layer.apply_backward(dy)
    assert gradients.key is None and gradients.value is None
    assert_within(gradients.query.astype(np.float64), g["dq"] + g["dk"] + g["dv"], 2e-5, "sum")
    into, other = np.ones_like(x), np.zeros_like(x)
    layer.apply(x, x, x)
    layer.apply_backward(dy, into, accumulate=True)
    assert_within(into - 1.0, g["dq"] + g["dk"] + g["dv"], 2e-5, "added sum")
    apart = layer.apply_backward(dy, ob.skip, other, generating_parameter_gradients=ob.skip)
    assert apart.query is None and apart.value is None and apart.parameters is None
    assert_within(other.astype(np.float64), g["dk"] + g["dv"], 2e-5, "key and value")


def test_masks(engine: str) -> None:
    layer = ob.MultiheadAttentionLayer(8, 2)
    q, k, dy = numbers(3, 5, 8), numbers(3, 4, 8, seed=1), numbers(3, 5, 8, seed=2)
    padding = np.zeros((3, 4), bool)
    padding[:, 2:] = [[True, False], [False, True], [True, True]]
    causal = np.triu(np.ones((5, 4), bool), 1)
    shapes = {"(T, S)": numbers(5, 4), "heads": numbers(2, 5, 4), "batch": numbers(3, 2, 5, 4)}
    for mask in (None, causal, *shapes.values()):
        given = None if mask is None else mask if mask.dtype == bool else mask.astype(np.float64)
        y, g = expected(layer, q, k, k, dy, padding, given)
        assert_within(layer.apply(q, k, key_padding_mask=padding, attn_mask=mask).astype(np.float64), y, 2e-5, "output")
        gradients = layer.apply_backward(dy)
        assert_within(gradients.key.astype(np.float64), g["dk"] + g["dv"], 2e-5, "key and value")
    torch_like = shapes["batch"].reshape(6, 5, 4)
    assert np.array_equal(layer.apply(q, k, attn_mask=torch_like), layer.apply(q, k, attn_mask=shapes["batch"]))


def test_one_sample_without_a_batch_axis(engine: str) -> None:
    layer = ob.MultiheadAttentionLayer(8, 2)
    x, dy = numbers(5, 8), numbers(5, 8, seed=1)
    y = layer.apply(x, key_padding_mask=np.array([False, False, True, False, False]))
    assert y.shape == (5, 8)
    assert layer.apply_backward(dy).query.shape == (5, 8)


def test_phases(engine: str) -> None:
    layer = ob.MultiheadAttentionLayer(8, 2, dropout=0.5, seed=2)
    plain = ob.MultiheadAttentionLayer(8, 2, parameters=layer.parameters)
    x = numbers(2, 5, 8)
    inference = layer.apply(x, phase=ob.LearningPhase.INFERENCE)
    assert_within(inference.astype(np.float64), plain.apply(x).astype(np.float64), 1e-6, "inference")
    with pytest.raises(ob.LayerApplyError, match="there has been no forward call"):
        layer.apply_backward(x)
    assert not np.allclose(layer.apply(x), inference)
    assert layer.apply_backward(x).query.shape == x.shape


def test_buffers_are_written_in_place(engine: str) -> None:
    layer = ob.MultiheadAttentionLayer(8, 2)
    x, dy, out = numbers(2, 5, 8), numbers(2, 5, 8, seed=1), np.empty((2, 5, 8), np.float32)
    assert layer.apply(x, output=out) is out
    into = {"output_bias": np.ones(8, np.float32)}
    gradients = layer.apply_backward(dy, generating_parameter_gradients=into, accumulate=True)
    assert gradients.parameters == into
    assert_within(into["output_bias"] - 1.0, dy.astype(np.float64).sum(axis=(0, 1)), 1e-5, "output_bias")


def test_parameters_are_live_and_copied_unless_asked_otherwise() -> None:
    x = numbers(2, 5, 8)
    layer = ob.MultiheadAttentionLayer(8, 2)
    before = layer.apply(x)
    layer.parameters["output_bias"] += 1.0
    assert np.allclose(layer.apply(x), before + 1.0, atol=1e-6)
    given = {name: array.copy() for name, array in layer.parameters.items()}
    copied = ob.MultiheadAttentionLayer(8, 2, parameters=given)
    used = ob.MultiheadAttentionLayer(
        8, 2, parameters=given, filter_parameters=capi.BNNSFilterParameters(flags=capi.BNNSFlagsUseClientPtr)
    )
    given["output_bias"] += 1.0
    assert np.allclose(used.apply(x), copied.apply(x) + 1.0, atol=1e-6)


def test_lifetime() -> None:
    x = numbers(2, 5, 8)
    with ob.MultiheadAttentionLayer(8, 2) as layer:
        layer.apply(x)
        assert repr(layer) == "MultiheadAttentionLayer(embed_dim=8, num_heads=2)"
    assert "(destroyed)" in repr(layer)
    with pytest.raises(ob.LayerApplyError, match="destroyed"):
        layer.apply(x)
    with pytest.raises(ob.LayerApplyError, match="destroyed"):
        layer.apply_backward(x)


def test_many_lengths_keep_few_filters() -> None:
    layer = ob.MultiheadAttentionLayer(4, 1)
    for length in range(1, 60):
        x = numbers(1, length, 4)
        layer.apply(x)
        layer.apply_backward(x)
    assert len(layer._filters) <= 32


BAD = {
    "heads": (lambda: ob.MultiheadAttentionLayer(8, 3), r"embed_dim 8 cannot be divided among 3 heads"),
    "zero heads": (lambda: ob.MultiheadAttentionLayer(8, 0), r"num_heads is 0"),
    "float size": (lambda: ob.MultiheadAttentionLayer(8.0, 2), r"embed_dim must be an integer"),  # type: ignore[arg-type]
    "dropout": (lambda: ob.MultiheadAttentionLayer(8, 2, dropout=1.0), r"dropout is 1"),
    "key_dim": (lambda: ob.MultiheadAttentionLayer(8, 2, key_dim=0), r"key_dim is 0"),
    "unknown": (lambda: ob.MultiheadAttentionLayer(8, 2, parameters={"w": 0}), r"parameters has 'w'.*query_weights"),
    "shape": (
        lambda: ob.MultiheadAttentionLayer(8, 2, parameters={"query_bias": numbers(7)}),
        r"parameters\['query_bias'\] has shape \(7,\), but this layer expects \(8,\)",
    ),
    "type": (
        lambda: ob.MultiheadAttentionLayer(8, 2, parameters={"query_bias": np.zeros(8)}),
        r"is float64, but this layer takes float32 here",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_creation(name: str) -> None:
    make, message = BAD[name]
    with pytest.raises(ob.LayerCreationError, match=message):
        make()


def test_bad_calls() -> None:
    layer = ob.MultiheadAttentionLayer(8, 2)
    x, k = numbers(2, 5, 8), numbers(2, 4, 8)
    bad = [
        ((numbers(2, 5, 7),), {}, r"query has shape \(2, 5, 7\), but \(length, 8\)"),
        ((x.astype(np.float64),), {}, r"query is float64"),
        ((x, numbers(3, 4, 8)), {}, r"key has shape \(3, 4, 8\), but query has \(2, 5, 8\)"),
        ((x, k, x), {}, r"value has shape \(2, 5, 8\), but key has \(2, 4, 8\)"),
        ((x, k), {"key_padding_mask": np.zeros((2, 5), bool)}, r"key_padding_mask has shape \(2, 5\).*\(2, 4\)"),
        ((x, k), {"key_padding_mask": np.zeros((2, 4))}, r"key_padding_mask is float64"),
        ((x, k), {"attn_mask": np.zeros((4, 5), np.float32)}, r"attn_mask has shape \(4, 5\), but \(5, 4\)"),
        ((x, k), {"attn_mask": np.zeros((5, 4), np.int32)}, r"attn_mask is int32"),
        (
            (x, k),
            {"output": np.empty((2, 5, 9), np.float32)},
            r"output has shape \(2, 5, 9\), but this layer expects \(2, 5, 8\). Pass np.empty",
        ),
        ((x, k), {"phase": True}, r"phase must be a LearningPhase"),
    ]
    for arguments, options, message in bad:
        with pytest.raises(ob.LayerApplyError) as caught:
            layer.apply(*arguments, **options)  # type: ignore[arg-type]
        assert re.search(rf"^MultiheadAttentionLayer\.apply: {message}", str(caught.value)), caught.value
    layer.apply(x, k)
    for arguments, options, message in [
        ((k,), {}, r"output_gradient has shape \(2, 4, 8\), but the output had \(2, 5, 8\)"),
        ((x, k), {}, r"generating_query_gradient has shape \(2, 4, 8\), but this layer expects \(2, 5, 8\)"),
        ((x,), {"generating_parameter_gradients": {"w": x}}, r"generating_parameter_gradients has 'w'"),
        ((x,), {"generating_parameter_gradients": 3}, r"generating_parameter_gradients must be a dictionary"),
    ]:
        with pytest.raises(ob.LayerApplyError) as caught:
            layer.apply_backward(*arguments, **options)  # type: ignore[arg-type]
        assert re.search(rf"^MultiheadAttentionLayer\.apply_backward: {message}", str(caught.value)), caught.value


MEASURE = """
import numpy as np, openbnns
from pathlib import Path

def status(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) // 1024

layer = openbnns.MultiheadAttentionLayer(32, 2)
x = np.random.default_rng(0).standard_normal((1, 8192, 32)).astype(np.float32)
dy, y, dx = x * 0.5, np.zeros_like(x), np.zeros_like(x)
mask = np.triu(np.ones((8192, 8192), bool), 1)
small = x[:, :64].copy()
layer.apply(small), layer.apply_backward(small)
before = status("VmHWM")
layer.apply(x, output=y, attn_mask=mask)
layer.apply_backward(dy, dx)
print(status("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to tell the peak of memory")
def test_memory_of_a_long_sequence_does_not_grow_with_its_square() -> None:
    """The scores of 8192 positions would take 512 MB, their mask as floats 256 MB."""
    run = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 100, f"{run.stdout} MB"


def test_setting_the_number_of_draws_repeats_a_mask() -> None:
    """It counts calls of all lengths, and may be set before the first call."""
    rng = np.random.default_rng(0)
    parameters = {name: a.copy() for name, a in ob.MultiheadAttentionLayer(8, 2, seed=3).parameters.items()}
    one, two = (ob.MultiheadAttentionLayer(8, 2, dropout=0.5, seed=3, parameters=parameters) for _ in range(2))
    x = rng.standard_normal((2, 5, 8)).astype(np.float32)
    results = [one.apply(x), one.apply(x[:, :3]), one.apply(x)]
    assert one.draws == 3 and not np.array_equal(results[0], results[2])
    two.draws = 2
    np.testing.assert_array_equal(two.apply(x), results[2])
    two.draws = 0
    np.testing.assert_array_equal(two.apply(x), results[0])
    np.testing.assert_array_equal(two.apply(x[:, :3]), results[1])


@pytest.mark.parametrize("name", ["dropout", "num_heads", "seed", "add_zero_attn", "parameters"])
def test_what_is_given_at_creation_cannot_be_set(name: str) -> None:
    layer = ob.MultiheadAttentionLayer(8, 2, dropout=0.5)
    with pytest.raises(AttributeError, match=rf"MultiheadAttentionLayer\.{name} is given at creation. To change it"):
        setattr(layer, name, 0)
    assert layer.dropout == 0.5


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("shape", [None, (5, 7), (2, 5, 7), (3, 2, 5, 7)])
@pytest.mark.parametrize("flags", [False, True])
def test_masked_calls_at_once_and_with_every_check(
    shape: tuple[int, ...] | None, flags: bool, dropout: float, accumulate: bool
) -> None:
    """Masks and dropout go to native code at once; strict mode makes every check, and gives the same bits."""
    layer = ob.MultiheadAttentionLayer(8, 2, dropout=dropout, add_bias_kv=True, add_zero_attn=True)
    q, k, v = numbers(3, 5, 8), numbers(3, 7, 8, seed=1), numbers(3, 7, 8, seed=2)
    ignored = np.random.RandomState(3).rand(3, 7) < 0.3
    mask = None if shape is None else numbers(*shape, seed=4)
    if flags and mask is not None:
        mask = mask > 0.5
    dy = numbers(3, 5, 8, seed=5)

    def run() -> list[Any]:
        layer.draws = 4
        results = [layer.apply(q, k, v, key_padding_mask=ignored, attn_mask=mask)]
        results.append(layer.apply(q, k, v, key_padding_mask=ignored, attn_mask=mask))
        grads = {name: np.ones_like(array) for name, array in layer.parameters.items()}
        targets = [np.ones_like(array) for array in (q, k, v)]
        layer.apply_backward(dy, *targets, grads, accumulate=accumulate)
        results.append(layer.apply(q, k, v, attn_mask=mask, phase=ob.LearningPhase.INFERENCE))
        assert layer.draws == (6 if dropout else 4)
        return [*results, *targets, *grads.values()]

    at_once = run()
    with ob.strict():
        checked = run()
    for one, other in zip(at_once, checked, strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.array_equal(at_once[0], at_once[1]) == (dropout == 0)


def test_results_where_the_inputs_are() -> None:
    """A masked call whose output is its input is staged, as one without a mask."""
    layer = ob.MultiheadAttentionLayer(8, 2)
    x, mask = numbers(3, 5, 8), np.triu(np.ones((5, 5), np.bool_), 1)
    y = layer.apply(x, attn_mask=mask)
    same = x.copy()
    layer.apply(same, output=same, attn_mask=mask)
    np.testing.assert_array_equal(same, y)
