"""Weights on their way back to PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...graph.tensor import Array
from ...nn.module import Module
from .errors import require_torch


def to_torch_state_dict(network: Module) -> dict[str, Any]:
    """The weights of a network as tensors that ``load_state_dict`` of the same module in PyTorch takes, strictly.

    Names are those of ``network.state_dict()``, which are PyTorch's, with ``num_batches_tracked`` of normalizations that keep
    running statistics. The tensors are copies: ``module.load_state_dict(nn.to_torch_state_dict(net))``.

    >>> from openbnns import nn
    >>> list(nn.LSTM(3, 5).state_dict())  # the names in PyTorch, too
    ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
    """
    torch = require_torch("to_torch_state_dict")
    if not isinstance(network, Module):
        raise TypeError(f"to_torch_state_dict: takes a network of openbnns.nn, not a {type(network).__name__}.")
    state = tensors(network.state_dict(), torch)
    of_complex = getattr(network, "complex_names", ())
    return {name: torch.view_as_complex(x) if name in of_complex else x for name, x in state.items()}


def tensors(arrays: Mapping[str, Array], torch: Any) -> dict[str, Any]:
    """The arrays of a state dict as copies that are tensors."""
    state: dict[str, Any] = {}
    shared: dict[int, Any] = {}
    for name, array in arrays.items():
        if id(array) not in shared:
            shared[id(array)] = torch.from_numpy(np.array(array))
        state[name] = shared[id(array)]
        path, _, last = name.rpartition(".")
        if last == "running_var":  # PyTorch counts batches; nothing depends on it where momentum is a number
            state.setdefault(f"{path}.num_batches_tracked" if path else "num_batches_tracked", torch.tensor(0))
    return state
