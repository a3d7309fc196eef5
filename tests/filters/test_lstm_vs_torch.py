"""LSTM against torch.nn.LSTM: outputs, states and every gradient, through both faces."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import openbnns as ob
from cases.lstm import C0, CN, H0, HN, W0, W1, B, LstmCase, LstmRun, U, X, Y, gate_tensor

pytestmark = pytest.mark.peers

CASES = [
    LstmCase("torch-one", 1, 1, 3, 4),
    LstmCase("torch-sequence", 9, 5, 11, 20),
    LstmCase("torch-no-bias", 5, 3, 4, 7, bias=(False,) * 4, states=(False, False)),
    LstmCase("torch-stack", 6, 3, 5, 9, layers=3),
    LstmCase("torch-bidirectional", 6, 3, 5, 9, layers=2, directions=2),
    LstmCase("torch-packed", 5, 4, 3, 6, layers=2, directions=2, batch_sizes=(4, 4, 3, 1, 1)),
    LstmCase("torch-wide", 12, 33, 40, 100),
]


def peer(case: LstmCase, values: dict[int, np.ndarray]) -> torch.nn.LSTM:
    """nn.LSTM with the weights of a case; the second bias is 0."""
    made = torch.nn.LSTM(
        case.inputs, case.hidden, case.layers, bias=case.bias[0], bidirectional=case.directions == 2,
        dtype=torch.float64,
    )  # fmt: skip
    with torch.no_grad():
        for layer in range(case.layers):
            for r in range(case.directions):
                end = f"_l{layer}" + ("_reverse" if r else "")
                piece, at = (W0, layer) if layer == 0 else (W1, layer - 1)
                parts = {"weight_ih": (piece, at), "weight_hh": (U, layer), "bias_ih": (B, layer)}
                for name, (tensor, place) in parts.items():
                    if tensor != B or case.bias[0]:
                        numbers = np.concatenate([values[gate_tensor(g, tensor)][place, r] for g in range(4)])
                        getattr(made, name + end).copy_(torch.tensor(numbers))
                if case.bias[0]:
                    getattr(made, "bias_hh" + end).zero_()
    return made


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_lstm(case: LstmCase) -> None:
    run = LstmRun(case)
    outputs = run.forward()
    actual = {index: memory.read() for index, memory in run.backward().items()}
    values = run.values
    net = peer(case, values)
    t, n, h, r = case.steps, case.batch, case.hidden, case.directions
    states = (case.layers * r, n, h)
    x = torch.tensor(values[X], requires_grad=True)
    h0, c0 = (
        torch.tensor(values.get(i, np.zeros(case.shape(i))).reshape(states), requires_grad=True) for i in (H0, C0)
    )
    given, dy = x, values[100 + Y].reshape(t, n, r * h)
    if case.batch_sizes is not None:
        lengths = [sum(size > sample for size in case.batch_sizes) for sample in range(n)]
        given = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths))
    y, (hn, cn) = net(given, (h0, c0))
    if case.batch_sizes is not None:
        y, _ = torch.nn.utils.rnn.pad_packed_sequence(y)
    leaves = [x, h0, c0, *net.parameters()]
    cotangents = [torch.tensor(v) for v in (dy, values[100 + HN].reshape(states), values[100 + CN].reshape(states))]
    gradients = torch.autograd.grad([y, hn, cn], leaves, cotangents)

    def close(ours: np.ndarray, theirs: torch.Tensor) -> None:
        expected = theirs.detach().numpy().reshape(ours.shape)
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5 * max(1.0, np.abs(expected).max()))

    for index, tensor in ((Y, y), (HN, hn), (CN, cn)):
        close(outputs[index], tensor)
    for index, gradient in zip((X, H0, C0), gradients, strict=False):
        close(actual[index], gradient)
    for (name, _), gradient in zip(net.named_parameters(), gradients[3:], strict=True):
        kind, _, place = name.rpartition("_l")
        layer, direction = int(place[0]), int(place.endswith("reverse"))
        tensor = {"weight_ih": W0 if layer == 0 else W1, "weight_hh": U}.get(kind, B)
        at = layer - 1 if tensor == W1 else layer
        close(np.concatenate([actual[gate_tensor(g, tensor)][at, direction] for g in range(4)]), gradient)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_from_pytorch(layers: int, bidirectional: bool, bias: bool) -> None:
    net = torch.nn.LSTM(5, 5, layers, bidirectional=bidirectional, bias=bias)
    layer = ob.LSTMLayer.from_pytorch({name: value.detach() for name, value in net.state_dict().items()})
    x = torch.randn(6, 4, 5)
    y, (h, c) = net(x)
    result = layer.apply(x.numpy())
    np.testing.assert_allclose(result.output.reshape(y.shape), y.detach().numpy(), atol=2e-6)
    np.testing.assert_allclose(result.hidden.reshape(h.shape), h.detach().numpy(), atol=2e-6)
    np.testing.assert_allclose(result.cell.reshape(c.shape), c.detach().numpy(), atol=2e-6)
