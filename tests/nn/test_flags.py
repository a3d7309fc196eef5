"""Options that are true or false take booleans and nothing else, in everything that nn makes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from openbnns import nn

F = nn.functional
KINDS = (nn.Module, nn.Loss, nn.Optimizer, nn.LRScheduler)


def classes_with_flags() -> Iterator[tuple[type, str]]:
    for name in sorted(nn.__all__):
        made = getattr(nn, name)
        if isinstance(made, type) and issubclass(made, KINDS):
            for option, p in inspect.signature(made).parameters.items():
                if isinstance(p.default, bool):
                    yield made, option


FLAGS = list(classes_with_flags())


def test_the_list_is_whole() -> None:
    assert len(FLAGS) > 60
    assert (nn.Linear, "bias") in FLAGS and (nn.LSTM, "bidirectional") in FLAGS and (nn.SGD, "nesterov") in FLAGS


@pytest.mark.parametrize(("made", "option"), FLAGS, ids=[f"{made.__name__}.{option}" for made, option in FLAGS])
def test_other_things_are_refused(made: type, option: str) -> None:
    needed = [p for p in inspect.signature(made).parameters.values() if p.default is p.empty]
    sizes = {p.name: 4 for p in needed if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    with pytest.raises(TypeError, match=rf"^{made.__name__}: {option} must be True or False, not 'no'"):
        made(**sizes, **{option: "no"})


def test_by_position_as_well() -> None:
    with pytest.raises(TypeError, match=r"^Linear: bias must be True or False, not 'no'"):
        nn.Linear(3, 2, "no")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"^MaxPool2d: ceil_mode must be True or False, not 1"):
        nn.MaxPool2d(2, None, 0, 1, False, 1)  # type: ignore[arg-type]


X = np.ones((2, 3, 4, 4), np.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: F.sum(X, 1, keepdim="no"), "sum: keepdim must be True or False, not 'no'"),
        (lambda: F.dropout(X, 0.5, 0), "dropout: training must be True or False, not 0"),
        (lambda: F.max_pool2d(X, 2, ceil_mode="yes"), "max_pool2d: ceil_mode must be True or False, not 'yes'"),
        (
            lambda: nn.Upsample(scale_factor=2, mode="bilinear", align_corners="no"),
            "Upsample: align_corners must be True or False, not 'no'",
        ),
        (
            lambda: nn.Upsample(scale_factor=2, recompute_scale_factor=np.ones(2)),
            "Upsample: recompute_scale_factor must be True or False, not array",
        ),
        (
            lambda: nn.OneCycleLR(nn.SGD([nn.Parameter(X)], 0.1), 0.1, 10, cycle_momentum="no"),
            "OneCycleLR: cycle_momentum must be True or False, not 'no'",
        ),
        (lambda: nn.ReLU().train("no"), r"ReLU\.train: mode must be True or False, not 'no'"),
        (
            lambda: nn.MultiheadAttention(4, 2)(X[0], is_causal="no"),
            "MultiheadAttention: is_causal must be True or False, not 'no'",
        ),
        (lambda: nn.transforms.Flip(targets="no"), "Flip: targets must be True or False, not 'no'"),
    ],
)
def test_functions_methods_and_options_that_may_be_left_out(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"^{message}"):
        call()


def test_numpy_booleans_are_booleans() -> None:
    layer = nn.Linear(3, 2, bias=np.bool_(False))  # type: ignore[call-overload]
    assert layer.bias is None
    assert repr(layer) == repr(nn.Linear(3, 2, bias=False))
    again = nn.Linear(3, 2, np.bool_(True))  # type: ignore[call-overload]
    assert again.use_bias is True
    np.testing.assert_array_equal(F.sum(X, 1, keepdim=np.bool_(True)), X.sum(1, keepdims=True))
    attention, x = nn.MultiheadAttention(4, 2), X[0]
    np.testing.assert_array_equal(attention(x, is_causal=np.bool_(True)), attention(x, is_causal=True))
