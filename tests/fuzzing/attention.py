"""Multihead attention: every projection, bias, mask and addition, with and without a cache."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from openbnns import capi

from .core import MATRICES, Array, Case, Draw, Outcome, Tensor, calls, element, filter_parameters, result

PROJECTIONS = ("query", "key", "value", "output")


class Sizes:
    """T target and S source positions, D features, K and V features of each of H heads."""

    def __init__(self, draw: Draw) -> None:
        self.target, self.source = draw.size(6), draw.size(6)
        self.model, self.key, self.value, self.heads = draw.size(6), draw.size(4), draw.size(4), draw.size(3)
        self.batch = draw.size(3)
        if draw.chance(0.3):
            self.source = self.target

    def rows(self, name: str) -> int:
        return self.source if name in ("key", "value") else self.target

    def columns(self, name: str) -> int:
        return self.value if name == "value" else self.key


def matrix(draw: Draw, rows: int, columns: int, batch: int, **options: Any) -> Tensor:
    """Targets and output weights, in any layout of a matrix."""
    layout = draw.one(MATRICES)
    return Tensor(draw, layout, (columns, rows) if layout == "RowMajorMatrix" else (rows, columns), batch, **options)


def parameter(draw: Draw, *size: int, kind: str = "Float32") -> Tensor:
    """Projection weights (D, K, H) and biases (K, H) or (D,)."""
    layouts = {1: ["Vector"], 2: ["2DFirstMajor", "2DLastMajor"], 3: ["3DFirstMajor", "3DLastMajor", "MHA_DHK"]}
    return Tensor(draw, draw.one(layouts[len(size)]), size, 1, element=kind, batched=False)


class Attention:
    """One configuration: its tensors, their values, and which gradients are asked for."""

    def __init__(self, draw: Draw) -> None:
        self.sizes = s = Sizes(draw)
        kind = element(draw) if draw.chance(0.15) else "Float32"
        stored = kind if kind in ("Float16", "BFloat16") else "Float32"
        self.targets = {n: matrix(draw, s.rows(n), s.model, s.batch, element=stored) for n in PROJECTIONS}
        self.weights = {n: parameter(draw, s.model, s.columns(n), s.heads, kind=stored) for n in PROJECTIONS[:3]}
        self.weights["output"] = matrix(draw, s.heads * s.value, s.model, 1, batched=False, element=stored)
        self.biases = {n: parameter(draw, s.columns(n), s.heads) for n in PROJECTIONS[:3]}
        self.biases["output"] = parameter(draw, s.model)
        self.extra = {n: parameter(draw, s.columns(n), s.heads) for n in ("key", "value")}
        self.has_extra = draw.chance(0.4)
        self.dropout = float(draw.one([0.0] * 5 + [0.4]))
        self.layer = capi.BNNSLayerParametersMultiheadAttention(
            add_zero_attn=draw.chance(0.3), dropout=self.dropout, seed=int(draw.rng.integers(1, 99))
        )
        for name in PROJECTIONS:
            setattr(self.layer, name, self._projection(draw, name))
        if self.has_extra:
            for name, tensor in self.extra.items():
                setattr(self.layer, f"{name}_attn_bias", tensor.at(tensor.values(draw)))
        self.inputs = [self.targets[n].values(draw) for n in PROJECTIONS[:3]]
        self._draw_masks(draw)
        self._draw_gradients(draw)

    def _projection(self, draw: Draw, name: str) -> capi.BNNSMHAProjectionParameters:
        w, b = self.weights[name], self.biases[name]  # weights as large as those of a network
        p = capi.BNNSMHAProjectionParameters(
            target_desc=self.targets[name].descriptor,
            weights=w.at(w.values(draw, lambda a: a / np.float32(np.sqrt(self.sizes.model)))),
        )
        if draw.chance(0.6):
            p.bias = b.at(b.values(draw))
        return p

    def _draw_masks(self, draw: Draw) -> None:
        s = self.sizes
        self.mask: tuple[Any, int] = (None, 0)
        if draw.chance(0.4):
            tensor = Tensor(draw, "Vector", (s.source,), s.batch, element="Boolean", padded=False)
            hidden = draw.rng.random(tensor.length) < 0.3
            self.mask = (tensor.at(hidden), tensor.stride)
        self.added = None
        if draw.chance(0.4):
            size = draw.one(
                [(s.target, s.source), (s.heads, s.target, s.source), (s.batch, s.heads, s.target, s.source)]
            )
            kind = draw.one(["Float32", "Float32", "Boolean"])
            order = draw.one(["FirstMajor", "LastMajor"])
            tensor = Tensor(draw, f"{len(size)}D{order}", size, 1, element=kind, batched=False)
            values = tensor.values(draw) if kind == "Float32" else draw.rng.random(tensor.length) < 0.2
            self.added = tensor.at(values)

    def _draw_gradients(self, draw: Draw) -> None:
        s = self.sizes
        self.deltas = {n: matrix(draw, s.rows(n), s.model, s.batch) for n in PROJECTIONS}
        self.arriving = self.deltas["output"].values(draw)
        names = [f"{n} {part}" for n in PROJECTIONS for part in ("target", "weights", "bias")] + [
            "key extra",
            "value extra",
        ]
        self.wanted = {name: draw.chance(0.7) for name in names}
        self.flags = {name: int(draw.chance(0.4)) for name in names}
        self.plain = {  # gradients in memory of their own, layouts as created
            n: Tensor(draw, self.weights[n].layout, self.weights[n].size, 1, batched=False) for n in PROJECTIONS
        }
        self.give_output, self.one_struct = draw.chance(0.7), draw.chance(0.3)

    def delta(self, out: Outcome, name: str, part: str, tensor: Tensor) -> Any:
        key = f"{name} {part}"
        if not self.wanted[key]:
            return capi.BNNSNDArrayDescriptor()
        descriptor = result(tensor, out, f"gradient of {key}", self.flags[key])
        if part == "target":
            descriptor.stride = _with_batch(tensor)
        return descriptor

    def gradients(self, out: Outcome, name: str) -> Any:
        """The gradients of one projection that the backward call fills in; the target of the output is the output gradient."""
        target = self.deltas[name]
        arriving = target.at(self.arriving.copy())
        arriving.stride = _with_batch(target)
        p = capi.BNNSMHAProjectionParameters(
            target_desc=arriving if name == "output" else self.delta(out, name, "target", target),
            weights=self.delta(out, name, "weights", self.plain[name]),
            bias=self.delta(out, name, "bias", self.biases[name]),
        )
        asked = any(self.wanted[f"{name} {part}"] for part in ("target", "weights", "bias"))
        return p if asked or name == "output" or not self.one_struct else None


def _with_batch(tensor: Tensor) -> list[int]:
    """The strides of a target gradient, the third of which is that of the batch."""
    given = list(tensor.descriptor.stride)
    return [given[0], given[1], tensor.stride]


def attention(draw: Draw) -> Case:
    """Forward, then backward from the cache or from nothing."""
    a, parameters = Attention(draw), filter_parameters(draw)
    s, with_cache, with_workspace = a.sizes, draw.chance(0.6) or a.dropout > 0, draw.chance(0.3)

    def run(out: Outcome) -> None:
        f = calls.BNNSFilterCreateLayerMultiheadAttention(a.layer, parameters)
        if not out.note(f):
            return
        y = a.targets["output"]
        y_memory = out.keep("y", y.empty())
        pairs = [(x.copy(), a.targets[n].stride) for n, x in zip(PROJECTIONS, a.inputs, strict=False)]
        forward = [f, s.batch, *pairs[0], *pairs[1], *a.mask, *pairs[2], y_memory, y.stride, a.added]
        cache_size, workspace_size = ctypes.c_size_t(), ctypes.c_size_t()
        cache: Array | None = None
        workspace: Array | None = None
        if with_cache:
            out.note(calls.BNNSApplyMultiheadAttention(*forward, cache_size, None, workspace_size, None))
            cache = np.zeros(cache_size.value, np.uint8)
            workspace = np.zeros(workspace_size.value, np.uint8) if with_workspace else None
        sized = workspace_size if workspace is not None else None
        if not out.note(
            calls.BNNSApplyMultiheadAttention(*forward, cache_size if with_cache else None, cache, sized, workspace)
        ):
            return
        deltas = {name: a.gradients(out, name) for name in PROJECTIONS}
        extra = [
            result(t, out, f"gradient of {n} extra", a.flags[f"{n} extra"])
            if a.has_extra and a.wanted[f"{n} extra"]
            else None
            for n, t in a.extra.items()
        ]
        out.note(
            calls.BNNSApplyMultiheadAttentionBackward(
                f, s.batch, *pairs[0], deltas["query"], *pairs[1], *a.mask, deltas["key"], *pairs[2], deltas["value"],
                a.added, *extra, y_memory.copy() if a.give_output else None, y.stride, deltas["output"],
                0 if cache is None else cache.nbytes, cache, None, None,
            )
        )  # fmt: skip

    return f"{a.layer!r} batch {s.batch} mask {a.mask[0] is not None} added {a.added!r} {parameters!r}", run


FAMILIES = {"attention": attention}
