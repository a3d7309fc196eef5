"""Multihead attention: every option and layout, odd sizes, gaps in strides and between samples; random configurations."""

from __future__ import annotations

import ctypes
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from helpers import (
    BOOLEAN,
    COLUMN_MAJOR,
    EPSILON,
    FIRST_MAJOR_2D,
    FIRST_MAJOR_3D,
    FIRST_MAJOR_4D,
    LAST_MAJOR_2D,
    LAST_MAJOR_3D,
    LAST_MAJOR_4D,
    MHA_DHK,
    ROW_MAJOR,
    VECTOR,
    Array,
    Storage,
    Tensor,
)  # fmt: skip
from openbnns import capi
from openbnns.parameters.attention import Options
from openbnns.parameters.random_numbers import Stream
from openbnns.reference import attention as reference
from openbnns.reference.random_numbers import uniform

from ._base import created, succeed

PARAMETERS = ("wq", "wk", "wv", "wo", "pq", "pk", "pv", "po", "bk", "bv")
TARGETS = ("dq", "dk", "dv")
GRADIENTS = (*TARGETS, *(f"d{name}" for name in PARAMETERS))
AXES = {
    "q": "TD", "k": "SD", "v": "SD", "o": "TD", "wq": "DKH", "wk": "DKH", "wv": "DVH", "wo": "CD", "pq": "KH",
    "pk": "KH", "pv": "VH", "po": "D", "bk": "KH", "bv": "VH",
}  # fmt: skip
MATRICES = (FIRST_MAJOR_2D, LAST_MAJOR_2D, ROW_MAJOR, COLUMN_MAJOR)
WEIGHTS = (FIRST_MAJOR_3D, LAST_MAJOR_3D, MHA_DHK)
ADDED = {2: ("TS", MATRICES), 3: ("HTS", WEIGHTS[:2]), 4: ("NHTS", (FIRST_MAJOR_4D, LAST_MAJOR_4D))}


@dataclass(frozen=True)
class AttentionCase:
    """One attention problem. Layouts are positions in the tuples above; ``pad`` widens rows and ``gap`` batches."""

    batch: int = 2
    target: int = 5
    source: int = 4
    model: int = 7
    key: int = 3
    value: int = 2
    heads: int = 2
    biases: str = "qkvo"
    attention_bias: bool = False
    zero_row: bool = False
    key_mask: bool = False
    added: int = 0  # rank
    boolean: bool = False
    dropout: float = 0.0
    target_layout: int = 0
    weights_layout: int = 0
    bias_layout: int = 0
    added_layout: int = 0
    pad: int = 0
    gap: int = 0
    client: bool = True
    cached: bool = True
    workspace: bool = False
    seed: int = 0

    @property
    def sizes(self) -> dict[str, int]:
        return {
            "T": self.target, "S": self.source, "D": self.model, "K": self.key, "V": self.value, "H": self.heads,
            "C": self.heads * self.value, "N": self.batch,
        }  # fmt: skip

    @property
    def rows(self) -> int:
        return self.source + self.attention_bias + self.zero_row

    @property
    def names(self) -> list[str]:
        """Parameters that are there."""
        names = ["wq", "wk", "wv", "wo", *(f"p{name}" for name in self.biases)]
        return names + ["bk", "bv"] * self.attention_bias

    @property
    def gradients(self) -> list[str]:
        return [*TARGETS, *(f"d{name}" for name in self.names)]

    @property
    def options(self) -> Options:
        return Options(self.zero_row, float(np.float32(self.dropout)))

    def tensor(self, name: str) -> Tensor:
        axes = AXES[name.removeprefix("d")]
        shape = tuple(self.sizes[letter] for letter in axes)
        if len(axes) == 1:
            return Tensor(VECTOR, shape)
        if len(axes) == 3:
            return self._padded(Tensor(WEIGHTS[self.weights_layout], shape))
        layout = MATRICES[self.target_layout if name.removeprefix("d") in "qkvo" else self.bias_layout]
        return self._padded(Tensor(layout, shape[::-1] if layout == ROW_MAJOR else shape))

    def _padded(self, tensor: Tensor) -> Tensor:
        if not self.pad:
            return tensor
        fastest = tensor.size[tensor.stepped[0]]
        return replace(tensor, stride=(1, fastest + self.pad))

    def logical(self, name: str, stored: Array) -> Array:
        """(batch, *size[]) to (batch, *logical axes)."""
        tensor = self.tensor(name)
        return stored.swapaxes(1, 2) if tensor.layout == ROW_MAJOR else stored

    stored = logical  # swapping twice changes nothing

    def values(self) -> dict[str, Array]:
        """float32 numbers by name, in logical order; targets with a batch axis."""
        random = np.random.default_rng((self.seed, 22))
        sizes = self.sizes

        def normal(axes: str, scale: float = 1.0) -> Array:
            shape = tuple(sizes[letter] for letter in axes)
            return (scale * random.standard_normal(shape)).astype(np.float32).astype(np.float64)

        values = {name: normal("N" + AXES[name]) for name in "qkv"}
        values["do"] = normal("NTD")
        for name in self.names:
            values[name] = normal(AXES[name], (1.0 / np.sqrt(self.model)) if name in ("wq", "wk", "wv") else 0.5)
        if self.key_mask:
            values["mask"] = random.random((self.batch, self.source)) < 0.3
            values["mask"][:, 0] = False
        if self.added:
            axes = ADDED[self.added][0]
            values["added"] = normal(axes)
            if self.boolean:
                values["added"] = values["added"] < -0.6
                values["added"][..., 0] = False
        return values

    def keep(self, draw: int = 0) -> Array | None:
        if not self.dropout:
            return None
        shape = (self.batch, self.heads, self.target, self.rows)
        return np.asarray(uniform(Stream(self.seed, draw), int(np.prod(shape))) >= np.float32(self.dropout)).reshape(
            shape
        )

    def expected(self, values: dict[str, Array], draw: int = 0) -> tuple[Array, dict[str, Array]]:
        """Output and gradients by the reference formulas, in logical order."""
        parameters = reference.Parameters(**{name: values[name] for name in self.names})
        y, cache = reference.forward(
            values["q"], values["k"], values["v"], parameters, self.options, values.get("mask"), values.get("added"),
            self.keep(draw),
        )  # fmt: skip
        gradients = reference.backward(
            values["q"], values["k"], values["v"], parameters, cache, values["do"], set(self.gradients)
        )
        return y, gradients

    def bound(self, name: str, expected: Array, gradients: dict[str, Array]) -> float:
        """A few hundred roundings of the largest number; keys' biases have a gradient of 0, the sum of larger ones."""
        scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
        if name in ("dq", "dk", "dwq", "dwk", "dpq", "dpk", "dbk"):
            related = [n for n in gradients if n != "dpo"]
            scale = max(scale, *(float(np.abs(gradients[n]).max(initial=0.0)) for n in related))
        return 100 * EPSILON * scale * np.sqrt(max(self.target, self.source, self.model))


class AttentionRun:
    """A filter, and memory for everything it reads."""

    def __init__(self, case: AttentionCase, values: dict[str, Array]) -> None:
        self.case, self.values = case, values
        self.inputs = {name: self.storage(name, values[name]) for name in "qkv"}
        self.inputs["do"] = self.storage("do", values["do"])
        self.parameters = {
            name: Storage(case.tensor(name), values=case.stored(name, values[name][None])) for name in case.names
        }
        self.mask = self._mask()
        self.added = self._added()
        self.filter = self.create()

    def storage(self, name: str, values: Array | None = None) -> Storage:
        """Memory of a target tensor."""
        stored = None if values is None else self.case.stored(name, values)
        return Storage(self.case.tensor(name), self.case.batch, self.case.gap, stored)

    def _mask(self) -> Storage | None:
        if "mask" not in self.values:
            return None
        tensor = Tensor(VECTOR, (self.case.source,), data_type=BOOLEAN)
        return Storage(tensor, self.case.batch, self.case.gap, self.values["mask"])

    def _added(self) -> Storage | None:
        if "added" not in self.values:
            return None
        values, layout = self.values["added"], ADDED[self.case.added][1][self.case.added_layout]
        if layout == ROW_MAJOR:
            values = values.T
        tensor = Tensor(layout, values.shape)
        if self.case.pad:
            tensor = replace(tensor, stride=(1, tensor.size[tensor.stepped[0]] + self.case.pad))
        if self.case.boolean:
            tensor = replace(tensor, data_type=BOOLEAN)
        return Storage(tensor, values=values[None])

    def struct(self) -> Any:
        def descriptor(name: str) -> Any:
            storage = self.parameters.get(name)
            return None if storage is None else storage.descriptor()

        def projection(name: str) -> Any:
            return capi.BNNSMHAProjectionParameters(
                target_desc=self.case.tensor(name).descriptor(),
                weights=descriptor(f"w{name}"),
                bias=descriptor(f"p{name}"),
            )

        return capi.BNNSLayerParametersMultiheadAttention(
            query=projection("q"), key=projection("k"), value=projection("v"), output=projection("o"),
            add_zero_attn=self.case.zero_row, key_attn_bias=descriptor("bk"), value_attn_bias=descriptor("bv"),
            dropout=self.case.dropout, seed=self.case.seed,
        )  # fmt: skip

    def create(self) -> Any:
        flags = capi.BNNSFlags.BNNSFlagsUseClientPtr if self.case.client else 0
        return created(
            capi.BNNSFilterCreateLayerMultiheadAttention(self.struct(), capi.BNNSFilterParameters(flags=flags))
        )

    @property
    def masks(self) -> dict[str, Any]:
        return {
            "key_mask": None if self.mask is None else self.mask.descriptor(),
            "key_mask_stride": 0 if self.mask is None else self.mask.stride,
            "add_to_attention": None if self.added is None else self.added.descriptor(),
        }

    def sizes(self) -> tuple[int, int]:
        """Bytes of cache and workspace, as the forward call tells them."""
        cache, workspace = ctypes.c_size_t(0), ctypes.c_size_t(0)
        succeed(
            capi.BNNSApplyMultiheadAttention(
                self.filter, self.case.batch, None, 0, None, 0, None, 0, None, 0, None, 0, None, cache, None, workspace
            )
        )
        return cache.value, workspace.value

    def forward(self, cache: Any = None, workspace: Any = None) -> Storage:
        y = self.storage("o")
        q, k, v = (self.inputs[name] for name in "qkv")
        succeed(
            capi.BNNSApplyMultiheadAttention(
                self.filter, self.case.batch, query=q.elements, query_stride=q.stride, key=k.elements,
                key_stride=k.stride, value=v.elements, value_stride=v.stride, output=y.elements, output_stride=y.stride,
                backprop_cache_size=None if cache is None else ctypes.c_size_t(cache.nbytes), backprop_cache=cache,
                workspace_size=None if workspace is None else ctypes.c_size_t(workspace.nbytes), workspace=workspace,
                **self.masks,
            )
        )  # fmt: skip
        return y

    def new_cache(self) -> Array:
        return np.full(self.sizes()[0] // 4, np.nan, np.float32)

    def backward_workspace(self, cached: bool) -> Array:
        """A workspace of exactly the size that the backward call asks for."""
        size = ctypes.c_size_t(0)
        cache = self.new_cache() if cached else None
        succeed(
            capi.BNNSApplyMultiheadAttentionBackward(
                self.filter, self.case.batch, None, 0, None, None, 0, None, 0, None, None, 0, None, None, None, None,
                None, 0, None, 0 if cache is None else cache.nbytes, cache, size, None,
            )
        )  # fmt: skip
        return np.full(size.value, 0xFF, np.uint8)

    def results(self, names: Collection[str], old: dict[str, Array] | None = None) -> dict[str, Storage]:
        """Memory for gradients, which holds ``old`` numbers or NaN."""
        storages = {}
        for name in names:
            bare = name.removeprefix("d")
            values = None if old is None else self.case.stored(bare, old[name] if name in TARGETS else old[name][None])
            if name in TARGETS:
                storages[name] = Storage(self.case.tensor(bare), self.case.batch, self.case.gap, values)
            else:
                storages[name] = Storage(self.case.tensor(bare), values=values)
        return storages

    def read(self, name: str, storage: Storage) -> Array:
        numbers = self.case.logical(name.removeprefix("d"), storage.read())
        return numbers if name in TARGETS else numbers[0]

    def structs(self, storages: dict[str, Storage], flags: int = 0) -> dict[str, Any]:
        """The gradient arguments of the backward call."""

        def descriptor(name: str) -> Any:
            storage = storages.get(name)
            if storage is None:
                return None
            described = storage.descriptor(flags)
            if storage.batch > 1 and storage.stride:
                described.stride[2 if len(storage.tensor.size) == 2 else 1] = storage.stride
                self._fill_strides(described, storage)
            return described

        arguments: dict[str, Any] = {}
        for name, argument in (("q", "query"), ("k", "key"), ("v", "value")):
            members = {f: descriptor(n) for f, n in
                       (("target_desc", f"d{name}"), ("weights", f"dw{name}"), ("bias", f"dp{name}"))}  # fmt: skip
            given = any(member is not None for member in members.values())
            arguments[f"{argument}_param_delta"] = capi.BNNSMHAProjectionParameters(**members) if given else None
        arriving = self.inputs["do"].descriptor()
        if self.inputs["do"].stride:
            arriving.stride[2] = self.inputs["do"].stride
            self._fill_strides(arriving, self.inputs["do"])
        arguments["output_param_delta"] = capi.BNNSMHAProjectionParameters(
            target_desc=arriving, weights=descriptor("dwo"), bias=descriptor("dpo")
        )
        arguments["key_attn_bias_delta"] = descriptor("dbk")
        arguments["value_attn_bias_delta"] = descriptor("dbv")
        return arguments

    @staticmethod
    def _fill_strides(descriptor: Any, storage: Storage) -> None:
        for position, step in enumerate(storage.tensor.strides):
            descriptor.stride[position] = step

    def backward(
        self, storages: dict[str, Storage], cache: Any = None, workspace: Any = None, flags: int = 0,
        without: str = "",
    ) -> None:  # fmt: skip
        """Run backward; ``without`` names inputs that are passed as NULL."""
        arguments = self.structs(storages, flags) | self.masks
        for name, argument in (("q", "query"), ("k", "key"), ("v", "value")):
            absent = name in without
            arguments[argument] = None if absent else self.inputs[name].elements
            arguments[f"{argument}_stride"] = 0 if absent else self.inputs[name].stride
        succeed(
            capi.BNNSApplyMultiheadAttentionBackward(
                self.filter, self.case.batch, output=None, output_stride=0,
                backprop_cache_size=0 if cache is None else cache.nbytes, backprop_cache=cache,
                workspace_size=None if workspace is None else ctypes.c_size_t(workspace.nbytes), workspace=workspace,
                **arguments,
            )
        )  # fmt: skip


def random_case(seed: int) -> AttentionCase:
    """Any combination of everything."""
    random = np.random.default_rng((seed, 5))

    def one(*choices: Any) -> Any:
        return choices[int(random.integers(len(choices)))]

    added = one(0, 0, 2, 3, 4)
    dropout = one(0.0, 0.0, 0.0, 0.3, 0.7)
    return AttentionCase(
        batch=one(1, 2, 3, 5), target=one(1, 2, 5, 16, 17, 33, 61), source=one(1, 3, 7, 16, 31, 33, 70),
        model=one(1, 4, 7, 16, 19), key=one(1, 2, 3, 8, 17, 21), value=one(1, 2, 5, 8, 16, 18), heads=one(1, 2, 3),
        biases="".join(name for name in "qkvo" if one(True, False)), attention_bias=one(True, False),
        zero_row=one(True, False), key_mask=one(True, False), added=added, boolean=one(True, False), dropout=dropout,
        target_layout=one(0, 0, 1, 2, 3), weights_layout=one(0, 1, 2), bias_layout=one(0, 1, 2, 3),
        added_layout=int(random.integers(len(ADDED[added][1]))) if added else 0, pad=one(0, 0, 3), gap=one(0, 0, 5),
        client=one(True, False), cached=bool(dropout) or one(True, False), workspace=one(True, False), seed=seed,
    )  # fmt: skip


CASES = {
    "plain": AttentionCase(),
    "no bias": AttentionCase(biases=""),
    "one of everything": AttentionCase(1, 1, 1, 1, 1, 1, 1),
    "attention bias": AttentionCase(attention_bias=True),
    "zero row": AttentionCase(zero_row=True),
    "key mask": AttentionCase(key_mask=True, gap=3),
    "added 2": AttentionCase(added=2),
    "added 3": AttentionCase(added=3),
    "added 4": AttentionCase(added=4),
    "boolean 2": AttentionCase(added=2, boolean=True),
    "boolean 3": AttentionCase(added=3, boolean=True),
    "boolean 4": AttentionCase(added=4, boolean=True),
    "dropout": AttentionCase(dropout=0.4),
    "last major": AttentionCase(weights_layout=1, bias_layout=1),
    "dhk": AttentionCase(weights_layout=2, bias_layout=2),
    "row major": AttentionCase(target_layout=2, bias_layout=2),
    "self attention": AttentionCase(target=6, source=6),
    "long source": AttentionCase(1, 3, 600, 8, 4, 4, 2, key_mask=True),
    "long target": AttentionCase(1, 700, 37, 8, 4, 4, 1),
    "everything": AttentionCase(attention_bias=True, zero_row=True, key_mask=True, added=4, dropout=0.3, gap=4, pad=2),
}
