"""ONNX against onnxruntime: files that PyTorch writes of the networks of ``examples/vs_pytorch``, and files of ours."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_networks import NETWORKS, as_list, make
from openbnns import nn

pytestmark = pytest.mark.peers

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))


def run(path: Path, samples: list[Any]) -> list[Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip([port.name for port in session.get_inputs()], samples, strict=True)))  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", NETWORKS)
def test_our_files(name: str, tmp_path: Path) -> None:
    net, samples = make(name)
    net.to_onnx(tmp_path / "model.onnx")
    for actual, expected in zip(run(tmp_path / "model.onnx", samples), as_list(net(*samples)), strict=True):
        np.testing.assert_allclose(actual, expected, 1e-5, 1e-5)


def _pairs() -> list[str]:
    from vs_pytorch.pair import find_pairs

    return sorted(find_pairs())


@pytest.mark.parametrize("way", ["dynamo", "legacy"])
@pytest.mark.parametrize("name", _pairs())
def test_files_of_pytorch(name: str, way: str, tmp_path: Path) -> None:
    """Outputs are those of onnxruntime, for other batch sizes than that of the export too, and gradients are there."""
    import torch

    from vs_pytorch.pair import find_pairs, make_pytorch, networks

    pair = find_pairs()[name]
    side = make_pytorch(pair, pair.small)
    trained = [(title, module) for title, module in networks(side, torch.nn.Module) if list(module.parameters())]
    assert trained
    seen: dict[str, Any] = {}
    for title, module in trained:
        module.register_forward_pre_hook(lambda _, given, title=title: seen.setdefault(title, given))
    side.step(*(torch.as_tensor(x) for x in pair.batches(pair.small, 1)[0]))
    for title, module in trained:
        module.eval()
        example = tuple(x.detach()[:2].contiguous() for x in seen[title])
        module._forward_pre_hooks.clear()
        if (
            name == "gru_tagger"
        ):  # PyTorch packs sequences by sorting the samples of a batch: whole ones need none of that
            module, example = _tagger(torch, module), example[:1]
        path = tmp_path / f"{title}.onnx"
        _export(torch, module, example, path, way)
        samples = [x.numpy() for x in example]
        net = nn.from_onnx(path)
        for ours, theirs in zip(as_list(net(*samples)), run(path, samples), strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5 * max(1.0, float(np.abs(theirs).max())))
        more = [np.concatenate([x, x[:1]]) for x in samples]
        with torch.no_grad():
            expected = module(*(torch.as_tensor(x) for x in more))
        for ours, theirs in zip(as_list(net(*more)), as_list(expected), strict=True):
            if ours.shape == tuple(theirs.shape):
                np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5 * max(1.0, float(theirs.abs().max())))
        result = as_list(net.train()(*samples))
        net.backward(tuple(np.ones_like(y) for y in result) if len(result) > 1 else np.ones_like(result[0]))
        assert all(np.isfinite(p.grad).all() for p in net.parameters())


def _tagger(torch: Any, module: Any) -> Any:
    class Whole(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.gru, self.head = module.embedding, module.gru, module.head

        def forward(self, words: Any) -> Any:
            return self.head(self.gru(self.embedding(words))[0])

    return Whole().eval()


def _export(torch: Any, module: Any, example: Any, path: Path, way: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if way == "dynamo":
            sizes = tuple({0: torch.export.Dim("batch")} for _ in example)
            torch.onnx.export(
                module, example, str(path), dynamo=True, dynamic_shapes=sizes, external_data=False, verbose=False
            )
        else:
            torch.onnx.export(module, example, str(path), dynamo=False, opset_version=17)
