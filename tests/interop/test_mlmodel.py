"""Neural networks in ``.mlmodel`` files: files written by hand, by coremltools, and damaged ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damaged_files import damaged, read_many
from mlmodel_files import f, layer, numbers, varint, weights
from openbnns import nn
from openbnns.cli import main
from openbnns.files.safetensors import DamagedFile
from openbnns.interop.coreml.mlmodel import Unsupported


def model(shape: tuple[int, ...], *layers: bytes, kind: int = 500, last: bytes = b"") -> bytes:
    described = f(1, f(1, "image") + f(3, f(5, f(1, b"".join(map(varint, shape))))))
    return f(1, 1) + f(2, described) + f(kind, b"".join(layers) + last)


def digits(labels: bool = True) -> tuple[bytes, nn.Module]:
    """A classifier as a file, and the same network."""
    conv, bias, inner = numbers(4, 2, 3, 3), numbers(4), numbers(3, 4 * 4 * 5)
    gamma, beta, mean, variance = numbers(4), numbers(4), numbers(4), np.abs(numbers(4)) + 0.1
    data = model(
        (2, 8, 10),
        layer("conv1", "image", 100, f(1, 4), f(2, 2), f(20, b"\x03\x03"), f(50, f(1, f(10, f(1, 1) + f(2, 1)) * 2)), f(70, 1),
              weights(90, conv), weights(91, bias)),
        layer("norm", "conv1", 160, f(1, 4), f(10, 1e-3), weights(15, gamma), weights(16, beta), weights(17, mean),
              weights(18, variance)),
        layer("relu", "norm", 130, f(10, b"")),
        layer("pool", "relu", 120, f(1, 0), f(10, 2, 2), f(20, 2, 2), f(30, b"")),
        layer("flat", "pool", 301),
        layer("scores", "flat", 140, f(1, 80), f(2, 3), weights(20, inner)),
        layer("probabilities", "scores", 175),
        kind=403 if labels else 500,
        last=f(100, f(1, "cat", "dog", "eel")) if labels else b"",
    )  # fmt: skip
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4, eps=1e-3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(80, 3, bias=False), nn.Softmax(1),
    ).build((2, 8, 10))  # fmt: skip
    given = {
        "0.weight": conv, "0.bias": bias, "1.weight": gamma, "1.bias": beta, "1.running_mean": mean, "1.running_var": variance,
        "5.weight": inner,
    }  # fmt: skip
    net.load_state_dict(given)
    return data, net.eval()


def test_a_network_in_a_row(tmp_path: Path) -> None:
    data, net = digits(labels=False)
    (tmp_path / "m.mlmodel").write_bytes(data)
    again = nn.from_mlmodel(tmp_path / "m.mlmodel")
    x = numbers(3, 2, 8, 10)
    assert np.array_equal(again(x), net(x))
    assert isinstance(again, nn.Sequential) and "conv1.weight" in again.state_dict()
    again.save_model(tmp_path / "again.safetensors")
    assert np.array_equal(nn.load_model(tmp_path / "again.safetensors").eval()(x), net(x))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, net = digits(labels=False)
    (tmp_path / "m.mlmodel").write_bytes(data)
    assert main(["import", str(tmp_path / "m.mlmodel")]) == 0
    assert "numbers to train" in capsys.readouterr().out
    again = nn.load_model(tmp_path / "m.safetensors")
    assert sum(p.size for p in again.parameters()) == sum(p.size for p in net.parameters())
    assert main(["import", str(tmp_path / "m.mlmodel"), "--one-sample"]) == 2
    assert "are for ONNX models" in capsys.readouterr().err


def test_a_classifier_gives_scores_and_has_classes(tmp_path: Path) -> None:
    data, net = digits()
    (tmp_path / "m.mlmodel").write_bytes(data)
    again = nn.from_mlmodel(tmp_path / "m.mlmodel")
    x = numbers(3, 2, 8, 10)
    predicted = again.predict(x)
    np.testing.assert_allclose(predicted.probabilities, net(x), atol=1e-6)
    assert again.model_card is not None and again.model_card.classes == ("cat", "dog", "eel")
    step = again.train().compile_step("cross_entropy", nn.Adam(0.01), 3)
    losses = [step(x, np.array([0, 1, 2])) for _ in range(30)]
    assert losses[-1] < losses[0] / 2


def test_branches_and_other_layers(tmp_path: Path) -> None:
    """Sums, joins, strides with padding on one side, half precision, slopes, factors."""
    conv, up, slopes, scale = numbers(6, 1, 3, 3), numbers(6, 2, 2, 2), np.abs(numbers(6)), numbers(6)
    data = model(
        (2, 7, 9),
        layer("c", "image", 100, f(1, 6), f(2, 1), f(10, 2), f(30, 2, 2), f(51, b""), weights(90, conv, half=True)),
        layer("p", "c", 130, f(25, f(1, f(1, slopes.tobytes())))),
        layer("s", "p", 245, f(1, 6), weights(2, scale), f(3, 0)),
        layer("sum", ["c", "s"], 230),
        layer("twice", "sum", 231, f(1, 2.0)),
        layer("both", ["twice", "c"], 320),
        layer("mean", "both", 120, f(1, 1), f(60, 1)),
        layer("up", "sum", 100, f(1, 4), f(2, 6), f(10, 2), f(20, 2, 2), f(30, 2, 2), f(60, 1), weights(90, up)),
        layer("large", "up", 210, f(1, 2, 3)),
    )  # fmt: skip
    (tmp_path / "m.mlmodel").write_bytes(data)
    net = nn.from_mlmodel(tmp_path / "m.mlmodel")

    class Same(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c, self.p = nn.Conv2d(2, 6, 3, stride=2, groups=2, bias=False), nn.PReLU(6)
            self.up = nn.ConvTranspose2d(6, 4, 2, stride=2, groups=2, bias=False)

        def forward(self, x: nn.Value) -> Any:
            F = nn.functional
            c = self.c(F.pad(x, (1, 1, 1, 1)))
            total = c + self.p(c) * scale.reshape(6, 1, 1)
            both = F.cat([total * 2, c], 1)
            large = F.interpolate(self.up(total), scale_factor=(2, 3), mode="nearest")
            return both.mean((2, 3), keepdim=True), large

    same = Same().build((2, 7, 9))
    same.load_state_dict({"c.weight": conv.astype(np.float16), "p.weight": slopes, "up.weight": up})
    x = numbers(2, 2, 7, 9)
    for ours, theirs in zip(net(x), same.eval()(x), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_images_are_scaled(tmp_path: Path) -> None:
    image = f(1, f(1, "photo") + f(3, f(4, f(1, 4) + f(2, 3) + f(3, 20))))
    scaler = f(2, f(1, "photo") + f(10, f(10, 0.5) + f(20, 1.0) + f(21, 2.0) + f(22, 3.0)))
    data = f(1, 1) + f(2, image) + f(500, scaler + layer("flat", "photo", 301))
    (tmp_path / "m.mlmodel").write_bytes(data)
    net = nn.from_mlmodel(tmp_path / "m.mlmodel")
    x = numbers(2, 3, 3, 4)
    np.testing.assert_allclose(net(x), (x * 0.5 + np.float32([3, 2, 1]).reshape(3, 1, 1)).reshape(2, -1), atol=1e-6)


def test_all_layers_that_are_not_taken_over_are_named(tmp_path: Path) -> None:
    data = model(
        (4,),
        layer("a", "image", 410),
        layer("b", "image", 130, f(20, f(1, 0.5))),
        layer("c", "image", 961),
        layer("d", "c", 301),
    )
    (tmp_path / "m.mlmodel").write_bytes(data)
    with pytest.raises(Unsupported, match="layers that cannot be converted") as caught:
        nn.from_mlmodel(tmp_path / "m.mlmodel")
    assert [(name, kind) for name, kind, _ in caught.value.layers] == [
        ("a", "gru"), ("b", "activation"), ("c", "type 961"), ("d", "flatten")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "holds no neural network"),
        (f(502, b""), "It is an ML program"),
        (f(500, b""), "there are no inputs"),
        (b"\xff" * 20, "more than ten bytes"),
        (f(1, b"abc")[:-1], "does not fit into the 2 that are left"),
        (model((2, 2)), r"an input has shape \(2, 2\)"),
        (
            model((2**40, 2**40, 2**40)),
            r"an input of shape \(.*\) takes .*more than the limit.* No machine has that much",
        ),
        (model((3,)), "no layers"),
        (model((3,), layer("a", "image", 140, f(1, 3), f(2, 2), weights(20, numbers(5)))), "there are 5 numbers"),
        (model((3,), layer("a", "image", 140, f(1, 3), f(2, 2**40))), "it has 3 inputs, but"),
        (model((3,), layer("a", "image", 100)), "it takes images"),
        (model((2, 3, 3), layer("a", "image", 120, f(10, 5, 5), f(30, b""))), "which no sample can be"),
        (model((2, 3, 3), layer("a", "image", 120, f(10, 5))), "two sizes are needed"),
    ],
)
def test_damaged_files(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "m.mlmodel").write_bytes(data)
    with pytest.raises(DamagedFile, match=message):
        nn.from_mlmodel(tmp_path / "m.mlmodel")


def test_a_thousand_damaged_files(tmp_path: Path) -> None:
    """Bytes changed, left out and cut: an error that names the file, or a network with other numbers."""
    whole = model(
        (1, 2, 2),
        layer("conv", "image", 100, f(1, 1), f(2, 1), f(20, 1, 1), f(50, b""), weights(90, numbers(1))),
        layer("scores", "conv", 140, f(1, 4), f(2, 1), f(10, 1), weights(20, numbers(4)), weights(21, numbers(1))),
        kind=403, last=f(101, f(1, b"\x07")),
    )  # fmt: skip
    draw = np.random.RandomState(1)
    outcomes = read_many(
        tmp_path / "m.mlmodel", lambda _: damaged(whole, draw), nn.from_mlmodel, (DamagedFile, Unsupported)
    )
    assert outcomes["read"] > 0 and outcomes["DamagedFile"] > 500, outcomes


@pytest.mark.peers
def test_a_file_of_coremltools(tmp_path: Path) -> None:
    from coremltools.models import datatypes
    from coremltools.models.neural_network import NeuralNetworkBuilder
    from coremltools.models.utils import save_spec

    conv, bias, inner = numbers(3, 3, 2, 5), numbers(5), numbers(4, 5 * 3 * 3)
    builder = NeuralNetworkBuilder([("image", datatypes.Array(2, 6, 6))], [("scores", datatypes.Array(4))])
    builder.add_convolution("conv", 2, 5, 3, 3, 1, 1, "same", 1, conv, bias, True, input_name="image", output_name="c")
    builder.add_activation("tanh", "TANH", "c", "t")
    builder.add_pooling("pool", 2, 2, 2, 2, "AVERAGE", "VALID", "t", "p")
    builder.add_flatten("flat", 0, "p", "f")
    builder.add_inner_product("inner", inner, None, 45, 4, False, "f", "scores")
    save_spec(builder.spec, str(tmp_path / "m.mlmodel"))
    net = nn.from_mlmodel(tmp_path / "m.mlmodel")
    same = nn.Sequential(
        nn.Conv2d(2, 5, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(45, 4, bias=False)
    ).build((2, 6, 6))
    same.load_state_dict({"0.weight": conv.transpose(3, 2, 0, 1), "0.bias": bias, "4.weight": inner})
    x = numbers(3, 2, 6, 6)
    np.testing.assert_allclose(net(x), same.eval()(x), atol=1e-6)
