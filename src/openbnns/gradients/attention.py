"""Multihead attention: all thirteen gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..abi.structs import BNNSMHAProjectionParameters
from ..calls.signature import Call
from ..filters.attention import MultiheadAttention
from ..filters.attention_shapes import field
from ..layers.attention import MultiheadAttentionLayer
from ..layers.base import Layer
from ..tensors.operands import Parameter
from ._base import CALLER, Array, Subject
from ._random import Random


class AttentionSubject(Subject):
    """Multihead attention: gradients of the three inputs and of every parameter, with the cache of a forward call.

    The dropout mask is the one that the filter's next forward call would apply, the same for every evaluation.
    """

    filter: MultiheadAttention

    def parameters_of(self, backward: Call) -> dict[str, Parameter]:
        return {field(name): held for name, held in self.filter.held.items()}

    def cancelled(self, name: str, gradients: dict[str, Array]) -> float:
        """A shift of all keys changes no softmax: without appended rows the gradient of their bias is 0."""
        return float(np.linalg.norm(gradients["key.weights"])) if name == "key.bias" else 0.0

    def forward(self, values: dict[str, Array]) -> Array:
        parameters = {name: values[field(name)] for name in self.filter.held}
        return self.filter.forward64([values[name] for name in self.inputs], parameters, self.filter.draws)

    def perform(self, record: Call, call: str, choice: Any, batch: int, tensors: Mapping[str, Any]) -> None:
        """Make the call; gradients are passed as members of structs."""
        structs: dict[str, dict[str, Any]] = {}
        given: dict[str, tuple[Any, int]] = {a.name: (None, 0) for a in record.arguments}
        for name, value in tensors.items():
            struct, _, member = name.partition(".")
            if member:
                structs.setdefault(struct, {})[member] = value
            else:
                given[name] = value, 0
        given |= {name: (BNNSMHAProjectionParameters(**members), 0) for name, members in structs.items()}
        if record.backward:
            given["backprop_cache_size"] = self.filter.cache_bytes(batch), 0
        self.filter.perform(call, CALLER, batch, given)


SUBJECT = AttentionSubject


def random_layer(random: Random) -> Layer:
    heads = random.size(1, 3)
    return MultiheadAttentionLayer(
        heads * random.size(1, 4), heads, bias=random.coin(), add_bias_kv=random.coin(), add_zero_attn=random.coin(),
        dropout=0.2, seed=random.size(1, 1000),
    )  # fmt: skip
