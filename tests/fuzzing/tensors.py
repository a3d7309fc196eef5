"""Functions on whole tensors: copy, transpose, tile, compare, gather, scatter, top-k, shuffle, band part, norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from openbnns import capi
from openbnns.capi import BNNSDataLayout

from .core import ANY_LAYOUT, GUARD, Case, Draw, Outcome, Tensor, calls, filter_parameters, result

LAYOUTS = [name for name in ANY_LAYOUT if not name.startswith(("Convolution", "MHA"))]
NUMBERS = ("Float32", "Float32", "Float32", "Float16", "BFloat16", "Int8", "UInt8", "Int16", "Int32")
INDICES = {"Int32": np.int32, "UInt32": np.uint32, "Int64": np.int64, "UInt64": np.uint64}


class Tools:
    """Tensors of one case; they share a layout where that is easiest."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.layout = draw.one(LAYOUTS) if draw.chance(0.5) else draw.one(["Vector", "2DFirstMajor", "3DFirstMajor"])
        self.rank = BNNSDataLayout[f"BNNSDataLayout{self.layout}"] >> 16
        self.size = tuple(draw.size(6) if self.rank <= 2 else int(draw.rng.integers(1, 5)) for _ in range(self.rank))
        if self.rank > 5:
            self.size = tuple(min(n, 2) for n in self.size)
        self.axis = int(draw.rng.integers(self.rank)) if draw.chance(0.95) else self.rank
        self.kind = draw.one(NUMBERS)
        self.parameters = filter_parameters(draw)

    def tensor(
        self, size: tuple[int, ...] | None = None, kind: str | None = None, batch: int = 0, **options: Any
    ) -> Tensor:
        size, kind = size or self.size, kind or self.kind
        return Tensor(self.draw, self.layout, size, max(batch, 1), element=kind, batched=batch > 0, **options)

    @property
    def number(self) -> int:
        """The number that calls give to the axis of ``size[]``: rows are axis 0 of a RowMajorMatrix."""
        return 1 - self.axis if self.layout == "RowMajorMatrix" and self.axis < 2 else self.axis

    def along(self, count: int) -> tuple[int, ...]:
        """The size with another number of entries along the axis."""
        return tuple(count if axis == self.axis else n for axis, n in enumerate(self.size))

    def indices(self, size: tuple[int, ...], layout: str, limit: int) -> Any:
        """A descriptor of indices, now and then with one that is out of range."""
        kind = self.draw.one(list(INDICES))
        tensor = Tensor(self.draw, layout, size, 1, element=kind, batched=False)
        values = self.draw.rng.integers(0, max(limit, 1), tensor.length).astype(INDICES[kind])
        if self.draw.chance(0.05):
            values[int(self.draw.rng.integers(values.size))] = limit
        return tensor.at(values)

    def title(self, name: str, **what: Any) -> str:
        return f"{name} {self.layout} {self.size} {self.kind} axis {self.axis} {what} {self.parameters!r}"


def two_tensors(
    t: Tools, name: str, x: Tensor, y: Tensor, call: Callable[[Any, Any], Any], *, exact: bool = True, **what: Any
) -> Case:
    """A function from one tensor to another one."""
    values = x.values(t.draw)

    def run(out: Outcome) -> None:
        target = out.keep(name, y.empty(), exact)
        out.note(call(x.at(values.copy()), y.at(target)))

    return t.title(name, **what), run


def copy(draw: Draw) -> Case:
    t = Tools(draw)
    return two_tensors(
        t, "copy", t.tensor(), t.tensor(kind=draw.one(NUMBERS) if draw.chance(0.3) else None),
        lambda x, y: calls.BNNSCopy(y, x, t.parameters), exact=False,
    )  # fmt: skip


def transpose(draw: Draw) -> Case:
    t = Tools(draw)
    other, size = int(draw.rng.integers(t.rank)), list(t.size)
    if t.axis < t.rank:
        size[t.axis], size[other] = size[other], size[t.axis]
    return two_tensors(
        t, "transpose", t.tensor(), t.tensor(tuple(size)),
        lambda x, y: calls.BNNSTranspose(y, x, t.axis, other, t.parameters), other=other,
    )  # fmt: skip


def band_part(draw: Draw) -> Case:
    t = Tools(draw)
    lower, upper = (int(draw.rng.integers(-1, 5)) for _ in range(2))
    return two_tensors(
        t, "band part", t.tensor(padded=False), t.tensor(padded=False),
        lambda x, y: calls.BNNSBandPart(lower, upper, x, y, t.parameters), lower=lower, upper=upper,
    )  # fmt: skip


def tile(draw: Draw) -> Case:
    """Tiling and its gradient."""
    t = Tools(draw)
    size = tuple(n * int(draw.one([1, 1, 2, 3])) for n in t.size) if t.rank < 6 else t.size
    x, y = t.tensor(), t.tensor(size)
    dx, dy = t.tensor(kind="Float32"), t.tensor(size, kind="Float32")
    values, arriving, flags = x.values(draw), dy.values(draw), int(draw.chance(0.4))

    def run(out: Outcome) -> None:
        out.note(calls.BNNSTile(x.at(values.copy()), y.at(out.keep("tile", y.empty(), True)), t.parameters))
        gradient = result(dx, out, "gradient of tile", flags)
        out.note(calls.BNNSTileBackward(gradient, dy.at(arriving.copy()), t.parameters))

    return t.title("tile", to=size), run


def compare(draw: Draw) -> Case:
    t = Tools(draw)
    operator = draw.one(list(capi.BNNSRelationalOperator))
    a, b, y = t.tensor(), t.tensor(), t.tensor(kind="Boolean")
    values = [x.values(draw, np.round) for x in (a, b)]

    def run(out: Outcome) -> None:
        target = y.at(out.keep("comparison", y.empty(), True))
        out.note(calls.BNNSCompareTensor(a.at(values[0].copy()), b.at(values[1].copy()), operator, target))

    return t.title("compare", operator=operator), run


def gather(draw: Draw) -> Case:
    """Gather, and scatter of the same places."""
    t = Tools(draw)
    count, limit = draw.size(6), t.size[t.axis] if t.axis < t.rank else 1
    flat = draw.chance(0.6) or t.rank == 1
    whole, part = t.tensor(), t.tensor(t.along(count))
    adds = draw.chance(0.5)
    if flat:
        places = t.indices((count,), "Vector", limit)
        if not adds and count <= limit:  # where entries meet, the last one stays, whatever the order of work
            places.data[:] = (
                draw.rng.permutation(limit)[: places.data.size] if places.data.size <= limit else places.data
            )
    else:
        places = t.indices(t.along(count), t.layout, limit)
    operation = capi.BNNSReduceFunctionSum if adds else capi.BNNSReduceFunctionNone
    values, taken = whole.values(draw), part.values(draw)

    def run(out: Outcome) -> None:
        target = part.at(out.keep("gather", part.empty(), True))
        out.note(calls.BNNSGather(t.number, whole.at(values.copy()), places, target, t.parameters))
        memory = whole.empty()
        memory[GUARD:-GUARD] = values
        target = whole.at(out.keep("scatter", memory))
        out.note(calls.BNNSScatter(t.number, operation, part.at(taken.copy()), places, target, t.parameters))

    return t.title("gather", count=count, flat=flat, adds=adds), run


def gather_nd(draw: Draw) -> Case:
    """Index vectors: gather, and scatter with sums."""
    t = Tools(draw)
    shape = t.size[::-1] if t.layout == "RowMajorMatrix" else t.size
    length = int(draw.rng.integers(1, t.rank + 1))
    lead = tuple(int(draw.rng.integers(1, 5)) for _ in range(int(draw.rng.integers(1, 3))))
    vectors = np.stack([draw.rng.integers(0, n, lead) for n in shape[:length]], -1).astype(np.int32)
    if draw.chance(0.05):
        vectors.reshape(-1)[int(draw.rng.integers(vectors.size))] = 9
    size = lead + shape[length:]
    if len(size) > 8:
        size = size[:8]
    places = capi.BNNSNDArrayDescriptor(
        layout=BNNSDataLayout[f"BNNSDataLayout{vectors.ndim}DFirstMajor"], size=vectors.shape,
        data_type=capi.BNNSDataTypeInt32, data=vectors,
    )  # fmt: skip
    whole = t.tensor()
    part = Tensor(draw, f"{len(size)}DFirstMajor", size, 1, element=t.kind, batched=False)
    values, taken = whole.values(draw), part.values(draw)

    def run(out: Outcome) -> None:
        target = part.at(out.keep("gather", part.empty(), True))
        out.note(calls.BNNSGatherND(whole.at(values.copy()), places, target, t.parameters))
        memory = whole.empty()
        memory[GUARD:-GUARD] = values
        target = whole.at(out.keep("scatter", memory))
        out.note(calls.BNNSScatterND(capi.BNNSReduceFunctionSum, part.at(taken.copy()), places, target, t.parameters))

    return t.title("gather nd", vectors=vectors.shape), run


def top_k(draw: Draw) -> Case:
    """The largest values, ties included, and whether given ones are among them."""
    t = Tools(draw)
    batch, limit = draw.size(3), t.size[t.axis] if t.axis < t.rank else 1
    k = int(draw.rng.integers(1, limit + 1)) if draw.chance(0.95) else limit + 1
    x, best, where = (
        t.tensor(batch=batch),
        t.tensor(t.along(k), batch=batch),
        t.tensor(t.along(k), "Int32", batch=batch),
    )
    values = x.values(draw, np.round)
    with_indices = draw.chance(0.8)
    rest = tuple(n for axis, n in enumerate(t.size) if axis != t.axis) or (1,)
    order = "FirstMajor" if t.layout.endswith("FirstMajor") else "LastMajor"
    layout = "Vector" if len(rest) == 1 else f"{len(rest)}D{order}"
    tested = Tensor(draw, layout, rest[:8], batch, element="Int32")
    answers = Tensor(draw, layout, rest[:8], batch, element="Boolean")
    numbers = draw.rng.integers(0, limit, tested.length).astype(np.int32)

    def run(out: Outcome) -> None:
        values_at = best.at(out.keep("values", best.empty(), True))
        indices_at = where.at(out.keep("indices", where.empty(), True)) if with_indices else None
        source = x.at(values.copy())
        out.note(
            calls.BNNSDirectApplyTopK(
                k, t.number, batch, source, x.stride, values_at, best.stride, indices_at, where.stride, t.parameters
            )
        )
        codes = answers.at(out.keep("answers", answers.empty(), True))
        out.note(
            calls.BNNSDirectApplyInTopK(
                k,
                t.number,
                batch,
                source,
                x.stride,
                tested.at(numbers),
                tested.stride,
                codes,
                answers.stride,
                t.parameters,
            )
        )

    return t.title("top k", k=k, batch=batch), run


def shuffle(draw: Draw) -> Case:
    t = Tools(draw)
    t.layout, block = "4DFirstMajor", int(draw.one([1, 2, 2, 3]))
    n, c, h, w = (int(draw.rng.integers(1, 4)) for _ in range(4))
    kind = draw.one(list(capi.BNNSShuffleType))
    deep, wide = t.tensor((n, c * block * block, h, w)), t.tensor((n, c, h * block, w * block))
    flattens = kind in (capi.BNNSShuffleTypePixelShuffleNCHW, capi.BNNSShuffleTypeDepthToSpaceNCHW)
    x, y = (deep, wide) if flattens else (wide, deep)
    return two_tensors(
        t, "shuffle", x, y, lambda x, y: calls.BNNSShuffle(kind, x, y, t.parameters), type=kind, block=block
    )


def norms(draw: Draw) -> Case:
    """Clipping by value and by norm, the norm itself and its gradient."""
    t = Tools(draw)
    t.kind = draw.one(["Float32", "Float32", "Float16", "BFloat16"])
    axes = int(draw.rng.integers(0, 1 << t.rank))
    shape = t.size[::-1] if t.layout == "RowMajorMatrix" else t.size  # in the order of axis numbers
    kept = tuple(n for axis, n in enumerate(shape) if axes and not axes >> axis & 1) or (1,)
    order = "FirstMajor" if t.layout.endswith("FirstMajor") else "LastMajor"
    layout = "Vector" if len(kept) == 1 else f"{len(kept)}D{order}"
    x, y = t.tensor(), t.tensor()
    norm = Tensor(draw, layout, kept, 1, element=t.kind, batched=False)
    values, limit, flags = x.values(draw), float(draw.one([0.3, 2.0])), int(draw.chance(0.4))
    arriving = norm.values(draw)

    def run(out: Outcome) -> None:
        source = x.at(values.copy())
        out.note(calls.BNNSClipByValue(y.at(out.keep("by value", y.empty())), source, -limit, limit))
        out.note(calls.BNNSClipByNorm(y.at(out.keep("by norm", y.empty())), source, limit, axes))
        norms = out.keep("norm", norm.empty())
        if out.note(calls.BNNSComputeNorm(norm.at(norms), source, capi.BNNSL2Norm, axes)) and t.kind == "Float32":
            dx = result(x, out, "gradient of the norm", flags)
            given = norm.at(arriving.copy())
            out.note(calls.BNNSComputeNormBackward(source.data, dx, norms.copy(), given, capi.BNNSL2Norm, axes))

    return t.title("norms", axes=axes, limit=limit), run


FUNCTIONS: list[Callable[[Draw], Case]] = [
    copy, transpose, band_part, tile, compare, gather, gather_nd, top_k, shuffle, norms,
]  # fmt: skip


def tensors(draw: Draw) -> Case:
    """One of the functions on whole tensors."""
    case: Case = draw.one(FUNCTIONS)(draw)
    return case


FAMILIES = {"tensors": tensors}
