"""A network of this library in PyTorch, made of the same modules."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from jax_counterparts import NOT_KNOWN


class TorchNetwork:
    """The network of some modules, with the weights that a network of this library has."""

    def __init__(self, torch: Any, network: Any, x: Any) -> None:
        self._torch, self._network, self._x = torch, network, torch.from_numpy(x)

    def inference(self) -> Callable[[], Any]:
        self._network.eval()

        def infer() -> Any:
            with self._torch.no_grad():
                return self._network(self._x).numpy()

        return infer

    def training(self, y: Any, task: str) -> Callable[[], object]:
        """A step on a batch."""
        self._network.train()
        y, functions = self._torch.from_numpy(y), self._torch.nn.functional
        losses = {"classification": functions.cross_entropy, "multilabel": functions.binary_cross_entropy_with_logits}
        loss = losses.get(task, functions.mse_loss)
        optimizer = self._torch.optim.SGD(self._network.parameters(), lr=1e-4)

        def step() -> None:
            optimizer.zero_grad()
            loss(self._network(self._x), y).backward()
            optimizer.step()

        return step


def convert(network: Any, x: Any, threads: int) -> TorchNetwork | str:
    """The same network in PyTorch, or why there is none."""
    try:
        torch = import_module("torch")
    except ImportError:
        return "PyTorch is not installed"
    modules = [module_of(layer, torch) for layer in network] if hasattr(network, "__iter__") else [None]
    if any(module is None for module in modules):
        return NOT_KNOWN
    torch.set_num_threads(threads)
    net = torch.nn.Sequential(*modules)
    net.load_state_dict(network.to_torch_state_dict())
    return TorchNetwork(torch, net, x)


def module_of(layer: Any, torch: Any) -> Any:
    """The module of PyTorch that does the same, or None if there is none in this list."""
    from openbnns import nn

    t = torch.nn
    if isinstance(layer, nn.Linear):
        return t.Linear(layer.in_features, layer.out_features, layer.use_bias)
    if isinstance(layer, nn.Conv2d) and layer.padding_mode == "zeros":
        return t.Conv2d(layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding,
                        layer.dilation, layer.groups, layer.use_bias)  # fmt: skip
    if type(layer) in (nn.BatchNorm1d, nn.BatchNorm2d):
        kind = t.BatchNorm1d if type(layer) is nn.BatchNorm1d else t.BatchNorm2d
        return kind(dict(layer.named_buffers())["running_mean"].shape[0])
    if type(layer) is nn.Residual and layer.shortcut is None and isinstance(layer.body, nn.Sequential):
        return _residual(torch, [module_of(part, torch) for part in layer.body])
    if type(layer) is nn.MaxPool2d:
        return t.MaxPool2d(layer.kernel_size, layer.stride, layer.padding)
    plain = {
        "Flatten": t.Flatten,
        "ReLU": t.ReLU,
        "Tanh": t.Tanh,
        "GELU": t.GELU,
        "Sigmoid": t.Sigmoid,
        "Identity": t.Identity,
    }
    if type(layer) is nn.Dropout:
        return t.Dropout(layer.p)
    if type(layer).__name__ == "Rows":
        return t.Identity()
    if type(layer) is nn.TransformerEncoderLayer:
        return t.TransformerEncoderLayer(
            layer.linear1.in_features, layer.self_attn.num_heads, layer.linear1.out_features, 0.1, batch_first=True
        )
    made = plain.get(type(layer).__name__)
    return None if made is None else made()


def _residual(torch: Any, parts: list[Any]) -> Any:
    if any(part is None for part in parts):
        return None

    class Residual(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Sequential(*parts)

        def forward(self, x: Any) -> Any:
            return x + self.body(x)

    return Residual()
