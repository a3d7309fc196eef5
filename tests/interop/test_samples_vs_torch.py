"""PyTorch's exports of one sample, run with three: as PyTorch computes them, or refused and predicted one by one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import nn

pytestmark = pytest.mark.peers


def models() -> dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]]:
    """Makers of small models with random weights, from the package of PyTorch, and the shapes of a sample."""

    def module(forward: Callable[..., Any], *parts: str) -> Callable[[Any], Any]:
        def make(torch: Any) -> Any:
            class Model(torch.nn.Module):  # type: ignore[misc,name-defined]
                def __init__(self) -> None:
                    super().__init__()
                    for name, text in (part.split("=", 1) for part in parts):
                        setattr(self, name, eval(text, {"nn": torch.nn, "torch": torch}))

                def forward(self, x: Any) -> Any:
                    return forward(torch, self, x)

            return Model()

        return make

    def windows(torch: Any, m: Any, x: Any) -> Any:
        """Attention inside shifted windows of 4 x 4, as in Swin."""
        n, c, h, w = x.shape
        y = torch.roll(x.permute(0, 2, 3, 1), (-2, -2), (1, 2))
        y = y.view(n, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        q, k, v = m.qkv(y).reshape(-1, 16, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        y = ((q @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).reshape(-1, 16, c)
        y = y.view(n, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)
        return m.out(torch.roll(y, (2, 2), (1, 2)).mean((1, 2)))

    def patches(torch: Any, m: Any, x: Any) -> Any:
        """Attention among the pixels at the same place of 2 x 2 patches, as in MobileViT."""
        n, c, h, w = x.shape
        y = x.reshape(n * c * (h // 2), 2, w // 2, 2).transpose(1, 2).reshape(n, c, h * w // 4, 4)
        y = m.encoder(y.transpose(1, 3).reshape(n * 4, h * w // 4, c))
        y = y.reshape(n, 4, h * w // 4, c).transpose(1, 3)
        y = y.reshape(n * c * (h // 2), w // 2, 2, 2).transpose(1, 2).reshape(n, c, h, w)
        return m.conv(y)

    def shuffle(torch: Any, m: Any, x: Any) -> Any:
        n, c, h, w = x.shape
        return m.conv(m.conv(x).view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)).flatten(1)

    def token(torch: Any, m: Any, x: Any) -> Any:
        y = m.patch(x).flatten(2).transpose(1, 2)
        y = torch.cat([m.token.expand(x.shape[0], -1, -1), y], 1) + m.places
        return m.head(m.encoder(y)[:, 0])

    def lines(torch: Any, m: Any, x: Any) -> Any:
        """Columns of an image as a sequence, as in CRNN."""
        y = m.conv(x).mean(2).permute(2, 0, 1)
        y, _ = m.cells(y)
        t, n, c = y.shape
        return m.out(y.reshape(t * n, c)).view(t, n, -1).transpose(0, 1).log_softmax(2)

    def excited(torch: Any, m: Any, x: Any) -> Any:
        s = m.conv(x)
        return s * m.gate(s.mean((2, 3))).view(-1, 4, 1, 1)

    def positions_first(torch: Any, m: Any, x: Any) -> Any:
        y = x.transpose(0, 1)
        return m.attention(y, y, y, need_weights=False)[0].transpose(0, 1)

    attention = "attention=nn.MultiheadAttention(8, 2, batch_first=True)"
    encoder = "encoder=nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)"
    image, sequence = (4, 8, 8), (5, 8)
    return {
        "attention": (module(lambda t, m, x: m.attention(x, x, x, need_weights=False)[0], attention), sequence),
        "attention with weights": (module(lambda t, m, x: m.attention(x, x, x), attention), sequence),
        "attention, positions first": (module(positions_first, attention.replace("True", "False")), sequence),
        "encoder": (module(lambda t, m, x: m.encoder(x), encoder), sequence),
        "lstm": (module(lambda t, m, x: m.cells(x)[0], "cells=nn.LSTM(8, 6, batch_first=True)"), sequence),
        "lstm, two layers": (module(lambda t, m, x: m.cells(x)[0][:, -1], "cells=nn.LSTM(8, 6, 2, batch_first=True)"), sequence),
        "lstm, both ways": (
            module(lambda t, m, x: m.cells(x)[0], "cells=nn.LSTM(8, 6, bidirectional=True, batch_first=True)"), sequence
        ),
        "lstm, last state": (module(lambda t, m, x: m.cells(x)[1][0][-1], "cells=nn.LSTM(8, 6, batch_first=True)"), sequence),
        "gru": (module(lambda t, m, x: m.cells(x)[0], "cells=nn.GRU(8, 6, batch_first=True)"), sequence),
        "gru, both ways": (
            module(lambda t, m, x: m.cells(x)[0], "cells=nn.GRU(8, 6, bidirectional=True, batch_first=True)"), sequence
        ),
        "rnn": (module(lambda t, m, x: m.cells(x)[0], "cells=nn.RNN(8, 6, batch_first=True)"), sequence),
        "crnn": (
            module(
                lines, "conv=nn.Conv2d(4, 6, 3, padding=1)", "cells=nn.LSTM(6, 5, bidirectional=True)", "out=nn.Linear(10, 3)"
            ),
            (4, 6, 9),
        ),
        "windows": (module(windows, "qkv=nn.Linear(4, 12)", "out=nn.Linear(4, 3)"), image),
        "patches": (module(patches, encoder.replace("8, 2, 16", "4, 2, 8"), "conv=nn.Conv2d(4, 4, 3)"), image),
        "shuffle": (module(shuffle, "conv=nn.Conv2d(4, 4, 1, groups=2)"), image),
        "vit": (
            module(
                token, "patch=nn.Conv2d(4, 8, 4, 4)", "token=nn.Parameter(torch.randn(1, 1, 8))",
                "places=nn.Parameter(torch.randn(1, 5, 8))", encoder, "head=nn.Linear(8, 3)",
            ),
            image,
        ),
        "excited": (module(excited, "conv=nn.Conv2d(4, 4, 3)", "gate=nn.Sequential(nn.Linear(4, 4), nn.Sigmoid())"), image),
        "cnn": (
            module(
                lambda t, m, x: m.out(m.body(x).flatten(1)), "body=nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), "
                "nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1))", "out=nn.Linear(6, 3)",
            ),
            image,
        ),
        "norms": (
            module(lambda t, m, x: m.a(m.c(x)), "a=nn.GroupNorm(2, 4)", "c=nn.LayerNorm([4, 8, 8])"),
            image,
        ),
        "larger": (
            module(
                lambda t, m, x: t.nn.functional.interpolate(m.conv(x), scale_factor=2, mode="bilinear"),
                "conv=nn.Conv2d(4, 4, 3)",
            ),
            image,
        ),
        "pixel shuffle": (module(lambda t, m, x: t.nn.functional.pixel_shuffle(x, 2), "conv=nn.Conv2d(4, 4, 1)"), image),
        "products": (module(lambda t, m, x: t.einsum("nchw,ndhw->ncd", x, m.conv(x)), "conv=nn.Conv2d(4, 4, 1)"), image),
        "across samples": (module(lambda t, m, x: m.out(x) - m.out(x).mean(0, keepdim=True), "out=nn.Linear(8, 2)"), sequence),
    }  # fmt: skip


REFUSED = {"across samples"}
"""Models that compute across samples."""


def exported(torch: Any, model: Any, x: Any, path: Path, way: str) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model, (x,), str(path), dynamo=way == "dynamo", **({"verbose": False} if way == "dynamo" else {})
        )
    return path


@pytest.mark.parametrize("way", ["dynamo", "legacy"])
@pytest.mark.parametrize("name", models())
def test_exports_of_one_sample(name: str, way: str, tmp_path: Path) -> None:
    import torch

    make, shape = models()[name]
    torch.manual_seed(0)
    model = make(torch).eval()
    x = torch.randn(3, *shape)
    with torch.no_grad():
        single = [model(x[i : i + 1]) for i in range(3)]
    expected = [
        torch.cat(parts).numpy() for parts in zip(*(y if isinstance(y, tuple) else (y,) for y in single), strict=True)
    ]
    net = nn.from_onnx(exported(torch, model, x[:1], tmp_path / "m.onnx", way))
    if name in REFUSED:
        with pytest.raises(ValueError, match="other numbers of samples are not proven"):
            net(x.numpy())
        given: Any = net.predict(x.numpy())
    else:
        given = net(x.numpy())
    for actual, wanted in zip(
        given if isinstance(given, (tuple, list)) else [np.asarray(given)], expected, strict=True
    ):
        np.testing.assert_allclose(actual, wanted, 1e-4, 1e-5)
