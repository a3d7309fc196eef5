"""scaled_dot_product_attention: one operation, by the formula; heads are read and written where they lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns
from attention_formulas import softmax
from function_checks import Applied
from helpers import numbers
from openbnns import nn
from openbnns.nn.recording import recorded_graph

F = nn.functional
N, T, S, H, D = 3, 9, 21, 2, 5


def attend(q: Any, k: Any, v: Any, added: Any = 0.0, scale: float | None = None) -> Any:
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    return softmax(q @ k.swapaxes(-1, -2) * factor + added) @ v


def causal(target: int, source: int) -> Any:
    return np.where(np.triu(np.ones((target, source)), 1), -np.inf, 0.0)


def check(net: Applied, arrays: list[Any], formula: Callable[..., Any]) -> None:
    """Values, and gradients along random directions against differences of the formula."""
    net.build(*(array.shape[1:] for array in arrays))
    wide = [array.astype(np.float64) for array in arrays]
    expected = formula(*wide)
    dy = numbers(*expected.shape, seed=50)
    for _ in range(3):  # the third is a replay
        y = net(*arrays)
        np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-5)
        gradients = net.backward(dy)
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        for i, gradient in enumerate(gradients):
            along, step = np.random.default_rng(i).standard_normal(wide[i].shape), 1e-6
            ends = [formula(*wide[:i], wide[i] + sign * step * along, *wide[i + 1 :]) for sign in (1, -1)]
            slope = np.vdot(dy, ends[0] - ends[1]) / (2 * step)
            bound = 3e-5 * np.linalg.norm(gradient) * np.linalg.norm(along) + 2e-5
            assert abs(np.vdot(gradient, along) - slope) <= bound, i


def kinds(net: Applied) -> list[str]:
    return [type(operation).__name__ for operation in recorded_graph(net).operations]


FLAGS = np.random.default_rng(8).random((T, S)) < 0.6
FLAGS[:, 1] = True
CAUSAL = {"is_causal": True}
MASKS: dict[str, tuple[dict[str, Any], Any]] = {
    "none": ({}, 0.0),
    "causal": (CAUSAL, causal(T, S)),
    "flags": ({"attn_mask": FLAGS}, np.where(FLAGS, 0, -np.inf)),
    "flags in front": ({"attn_mask": FLAGS[None, None]}, np.where(FLAGS, 0, -np.inf)),
    "one row": ({"attn_mask": FLAGS[:1]}, np.where(FLAGS[:1], 0, -np.inf)),
    "numbers": ({"attn_mask": numbers(T, S, seed=9)}, numbers(T, S, seed=9)),
    "per head": ({"attn_mask": numbers(H, T, S, seed=9)}, numbers(H, T, S, seed=9)),
    "per head, one row": ({"attn_mask": numbers(H, 1, S, seed=9)}, numbers(H, 1, S, seed=9)),
    "whole numbers": ({"attn_mask": -FLAGS.astype(np.int64)}, -FLAGS.astype(np.float64)),
    "scale": ({"scale": 0.7, **CAUSAL}, causal(T, S)),
    "negative scale": ({"scale": -0.7, **CAUSAL}, causal(T, S)),
}


@pytest.mark.parametrize("mask", MASKS)
def test_masks(mask: str, engine: str) -> None:
    options, added = MASKS[mask]
    net = Applied(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options))
    arrays = [numbers(N, H, T, D), numbers(N, H, S, D, seed=1), numbers(N, H, S, D + 2, seed=2)]
    check(net, arrays, lambda q, k, v: attend(q, k, v, added, options.get("scale")))
    one = mask not in ("whole numbers", "negative scale")
    assert (kinds(net) == ["AttentionHeads"]) == one


@pytest.mark.parametrize("sizes", [(1, 1, 1), (64, 64, 16), (70, 33, 24), (130, 300, 64)], ids=str)
def test_sizes(sizes: tuple[int, int, int]) -> None:
    t, s, d = sizes
    net = Applied(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **CAUSAL))
    arrays = [numbers(2, 3, t, d), numbers(2, 3, s, d, seed=1), numbers(2, 3, s, d, seed=2)]
    check(net, arrays, lambda q, k, v: attend(q, k, v, causal(t, s)))


def split(x: Any) -> Any:
    """(..., T, H D) to (..., H, T, D)"""
    return np.swapaxes(x.reshape(*x.shape[:-1], H, -1), -2, -3)


def joined(x: Any) -> Any:
    return np.swapaxes(x, -2, -3).reshape(*x.shape[:-3], x.shape[-2], -1)


def heads(x: Any) -> Any:
    return x.reshape(x.shape[0], x.shape[1], H, -1).transpose(1, 2)


def merged(y: Any) -> Any:
    return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)


def test_transposed_heads(engine: str) -> None:
    net = Applied(lambda q, k, v: merged(F.scaled_dot_product_attention(heads(q), heads(k), heads(v), **CAUSAL)))
    arrays = [numbers(N, T, H * D), numbers(N, S, H * D, seed=1), numbers(N, S, H * D, seed=2)]
    check(net, arrays, lambda q, k, v: joined(attend(split(q), split(k), split(v), causal(T, S))))
    assert kinds(net) == ["AttentionHeads"]


def chunks(x: Any) -> Any:
    return [heads(part) for part in x.chunk(3, -1)]


def unbound(x: Any) -> Any:
    return [part.transpose(1, 2) for part in F.unbind(x.reshape(x.shape[0], T, 3, H, D), 2)]


def crossed(x: Any) -> Any:
    """The parts in another order."""
    v, q, k = chunks(x)
    return q, k, v


@pytest.mark.parametrize("way", [chunks, unbound, crossed])
def test_parts_of_one_tensor(way: Any, engine: str) -> None:
    net = Applied(lambda x: merged(F.scaled_dot_product_attention(*way(x), **CAUSAL)))

    def formula(x: Any) -> Any:
        parts = [split(part) for part in np.split(x, 3, -1)]
        order = [parts[i] for i in ((1, 2, 0) if way is crossed else (0, 1, 2))]
        return joined(attend(*order, causal(T, T)))

    check(net, [numbers(N, T, 3 * H * D)], formula)
    assert kinds(net) == ["AttentionHeads"]


def test_parts_that_are_used_elsewhere() -> None:
    def body(x: Any) -> Any:
        q, k, v = x.chunk(3, -1)
        return merged(F.scaled_dot_product_attention(heads(q), heads(k), heads(v))) + v * q

    def formula(x: Any) -> Any:
        q, k, v = np.split(x, 3, -1)
        return joined(attend(split(q), split(k), split(v))) + v * q

    check(Applied(body), [numbers(N, T, 3 * H * D)], formula)


def test_one_head_of_parts() -> None:
    net = Applied(lambda x: F.scaled_dot_product_attention(*x.chunk(3, -1), **CAUSAL))
    check(net, [numbers(N, T, 3 * D)], lambda x: attend(*np.split(x, 3, -1), causal(T, T)))
    assert kinds(net) == ["AttentionHeads"]


def test_one_value_three_times(engine: str) -> None:
    net = Applied(lambda x: F.scaled_dot_product_attention(x, x, x, **CAUSAL))
    check(net, [numbers(N, T, D)], lambda x: attend(x, x, x, causal(T, T)))


def test_key_and_value_from_one_part() -> None:
    net = Applied(lambda q, x: merged(F.scaled_dot_product_attention(heads(q), heads(x), heads(x))))
    arrays = [numbers(N, T, H * D), numbers(N, S, H * D, seed=1)]
    check(net, arrays, lambda q, x: joined(attend(split(q), split(x), split(x))))


def test_other_shapes_are_computed_step_by_step() -> None:
    """Keys for all heads."""
    net = Applied(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **CAUSAL))
    arrays = [numbers(N, H, T, D), numbers(N, 1, S, D, seed=1), numbers(N, 1, S, D, seed=2)]
    check(net, arrays, lambda q, k, v: attend(q, k, v, causal(T, S)))


def test_arrays_of_any_order() -> None:
    x = numbers(T, 2, D)
    y = F.scaled_dot_product_attention(x.swapaxes(0, 1), x.swapaxes(0, 1), x.swapaxes(0, 1), is_causal=True)
    wide = x.swapaxes(0, 1).astype(np.float64)
    np.testing.assert_allclose(y, attend(wide, wide, wide, causal(T, T)), rtol=2e-5, atol=2e-5)


def test_permutations_in_a_row_are_one() -> None:
    net = Applied(lambda x: x.permute(0, 2, 1, 3).permute(0, 2, 3, 1))
    x = numbers(N, 2, 3, 4)
    np.testing.assert_array_equal(net(x), x.transpose(0, 1, 3, 2))
    assert kinds(net) == ["Permute"]
    same = Applied(lambda x: x.permute(0, 3, 1, 2).permute(0, 2, 3, 1) * 2)
    np.testing.assert_array_equal(same(x), 2 * x)
    assert "Permute" not in kinds(same)


def dropped(rate: float) -> Applied:
    net = Applied(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=rate, **CAUSAL))
    net.build((H, T, D), (H, S, D), (H, S, D))
    return net.train()


def test_dropout() -> None:
    """Dropout removes a share of the weights and enlarges the others; values that are all 1 show their sum."""
    net = dropped(0.4)
    q, k = numbers(N, H, T, D), numbers(N, H, S, D, seed=1)
    weights = softmax(q.astype(np.float64) @ k.swapaxes(-1, -2) * D**-0.5 + causal(T, S))
    v = np.tile(np.eye(S, D, dtype=np.float32), (N, H, 1, 1))  # what is read are the first weights
    y = net(q, k, v)
    kept = np.abs(y - weights[..., :D] / 0.6) < 1e-5
    gone = y == 0
    visible = weights[..., :D] > 0
    assert np.all(kept | gone) and 0.3 < gone[visible].mean() < 0.5
    assert not np.array_equal(net(q, k, v), y)
    dv = net.backward(np.ones_like(y))[2]
    assert dv.shape == v.shape
    net.eval()
    np.testing.assert_allclose(net(q, k, v), weights @ v.astype(np.float64), rtol=1e-5, atol=1e-6)


def test_dropout_is_the_same_on_both_engines_and_in_replays() -> None:
    arrays = [numbers(N, H, T, D), numbers(N, H, S, D, seed=1), numbers(N, H, S, D, seed=2)]
    dy = numbers(N, H, T, D, seed=3)
    programs = [dropped(0.4).program(N, training=True) for _ in range(2)]
    for number in range(5):
        results = []
        for program, engine in zip(programs, ("native", "reference"), strict=True):
            with openbnns.engine(engine):
                for i, array in enumerate(arrays):
                    program.fill(i, array)
                program.seed(7, number)
                results.append([program.forward().copy()])
                gradient = program.output_gradient
                if gradient is not None:
                    gradient[...] = dy
                program.backward()
                results[-1] += [g.copy() for g in program.input_gradients if g is not None]
        for actual, expected in zip(*results, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=2e-5)


def test_messages() -> None:
    x = numbers(2, T, D)
    with pytest.raises(ValueError, match="is_causal is a mask of its own"):
        F.scaled_dot_product_attention(x, x, x, attn_mask=FLAGS, is_causal=True)
    with pytest.raises(ValueError, match=r"dropout_p is 1.5\. It is the probability to drop"):
        F.scaled_dot_product_attention(x, x, x, dropout_p=1.5)
    with pytest.raises(ValueError, match=r"must end in \(positions, features\)"):
        F.scaled_dot_product_attention(x[0, 0], x, x)
