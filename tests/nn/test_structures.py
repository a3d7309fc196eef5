"""Networks with several inputs and outputs, in tuples and dictionaries, and the batch axis of values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers import numbers
from openbnns import nn


class Two(nn.Module):
    """Two inputs, two outputs; what both share is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.joint = nn.Linear(5), nn.Linear(5), nn.Linear(3, bias=False)

    def forward(self, image: nn.Value, extra: nn.Value) -> dict[str, Any]:
        h = self.one(image.reshape(image.shape[0], -1)) + self.two(extra)
        return {"scores": self.joint(h), "parts": (h, h.reshape(-1, 5, 1))}


def test_dictionaries_of_outputs() -> None:
    net = Two()
    image, extra = numbers(4, 2, 3), numbers(4, 7, seed=1)
    y = net(image, extra)
    assert list(y) == ["scores", "parts"] and isinstance(y["parts"], tuple)
    assert y["scores"].shape == (4, 3) and [part.shape for part in y["parts"]] == [(4, 5), (4, 5, 1)]
    np.testing.assert_array_equal(y["parts"][0], y["parts"][1][..., 0])
    same = net(extra=extra, image=image)
    np.testing.assert_array_equal(y["scores"], same["scores"])


def test_gradients_of_several_outputs() -> None:
    """Against the formula: outputs that show the same elements add up."""
    net = Two()
    image, extra = numbers(4, 2, 3), numbers(4, 7, seed=1)
    net(image, extra)
    ds, dh, dv = numbers(4, 3, seed=2), numbers(4, 5, seed=3), numbers(4, 5, 1, seed=4)
    d_image, d_extra = net.backward({"scores": ds, "parts": (dh, dv)})
    total = ds @ net.joint.weight.data + dh + dv[..., 0]
    np.testing.assert_allclose(d_image, (total @ net.one.weight.data).reshape(4, 2, 3), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(d_extra, total @ net.two.weight.data, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(net.two.weight.grad, total.T @ extra, rtol=1e-4, atol=1e-5)
    net(image, extra)
    net.backward({"scores": None, "parts": (None, dv)})
    np.testing.assert_allclose(net.two.bias.grad, dv[..., 0].sum(0), rtol=1e-5, atol=1e-6)
    assert not net.joint.weight.grad.any()


def test_gradients_in_another_structure() -> None:
    net = Two()
    net(numbers(4, 2, 3), numbers(4, 7))
    with pytest.raises(ValueError, match="must be a dictionary with 'scores', 'parts'"):
        net.backward(numbers(4, 3))


def test_names_of_inputs() -> None:
    with pytest.raises(TypeError, match=r"Two: missing a required argument: 'image'"):
        Two()(picture=numbers(4, 2, 3), extra=numbers(4, 7))


class Rows(nn.Module):
    """Positions of all samples as rows, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(3), nn.Linear(3, 4)

    def forward(self, x: nn.Value) -> nn.Value:
        n, t, c = x.shape
        rows = self.linear(self.norm(x.reshape(n * t, c)))
        assert repr(rows.shape) == "(5*N, 4)"
        return rows.reshape(n, t, -1)


def test_batch_and_positions_as_one_axis() -> None:
    net, x = Rows(), numbers(2, 5, 3)
    y = net(x)
    rows = x.reshape(10, 3)
    normal = (rows - rows.mean(0)) / np.sqrt(rows.var(0) + 1e-5)
    expected = normal @ net.linear.weight.data.T + net.linear.bias.data
    np.testing.assert_allclose(y, expected.reshape(2, 5, 4), rtol=1e-4, atol=1e-5)
    assert net.backward(numbers(2, 5, 4)).shape == x.shape


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.reshape(3, x.shape[0]), "do not fill"),
        (lambda x: x.reshape(x.shape[0], 4), "do not fill"),
        (lambda x: x.reshape(x.shape[0], -1, -1), "at most one may be -1"),
        (lambda x: x.reshape(x.shape[0] // 4, 12), "do not fill"),
    ],
)
def test_shapes_that_do_not_fit(change: Any, message: str) -> None:
    class Changed(nn.Module):
        def forward(self, x: nn.Value) -> Any:
            return change(x)

    with pytest.raises((TypeError, ValueError), match=message):
        Changed()(numbers(2, 6))


class WithMean(nn.Module):
    """A network that gives scores of each sample, and one number for the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(3)

    def forward(self, x: Any) -> Any:
        scores = self.scores(x)
        return {"scores": scores, "mean": scores.mean()}


def test_predictions_beside_a_number_for_the_batch() -> None:
    net, x = WithMean().build((4,), seed=0).eval(), np.float32(np.arange(20)).reshape(5, 4)
    predictions = net.predict(x)
    np.testing.assert_array_equal(predictions["scores"], net(x)["scores"])
    assert predictions["mean"] == net(x)["mean"]
    with pytest.raises(
        ValueError, match=r"WithMean.predict: output 1 has shape \(\) for 2 samples, .*Pass batch_size=5, or call"
    ):
        net.predict(x, batch_size=2)


class Similarities(nn.Module):
    """The similarity of every sample to every other one, beside scores of each."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(3)

    def forward(self, x: Any) -> Any:
        scores = self.scores(x)
        return scores, scores @ scores.T


@pytest.mark.parametrize("size", [2, 4, 5])
def test_similarities_of_all_samples_are_not_joined_from_batches(size: int) -> None:
    net, x = Similarities().build((4,), seed=0).eval(), np.random.default_rng(3).standard_normal((6, 4), np.float32)
    np.testing.assert_array_equal(net.predict(x).outputs[1], net(x)[1])
    told = (
        rf"Similarities.predict: output 1 has shape \({size}, {size}\) for {size} samples, which depends on all of them"
    )
    with pytest.raises(ValueError, match=rf"{told}, so batches cannot be joined. Pass batch_size=6"):
        net.predict(x, batch_size=size)


def test_as_many_numbers_as_samples_by_chance() -> None:
    net = nn.Linear(4, 2).eval()
    x = np.random.default_rng(3).standard_normal((6, 4), np.float32)
    np.testing.assert_array_equal(net.predict(x, batch_size=2).values, net(x))
