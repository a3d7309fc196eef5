"""How fast are lookups and the gradient of the dictionary, from a few words to a large vocabulary?"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from cases import Arrays, Calls, Case, created, describe, training_parameters
from openbnns import capi

# entries, item, lookups, target
SHAPES = ((50_000, 128, 8192, 1.5), (1000, 64, 512, None), (20, 8, 4, None))


def cases() -> list[Case]:
    return [_case(*shape) for shape in SHAPES]


def _case(entries: int, item: int, lookups: int, target: float | None) -> Case:
    return Case(
        name=f"embedding/{entries} x {item}, {lookups} lookups",
        shapes={"w": (entries, item), "y": (lookups, item)},
        calls=calls,
        peer=lambda torch: partial(torch.nn.functional.embedding, torch.from_numpy(_indices(entries, lookups))),
        bytes=4.0 * item * (entries + 3 * lookups),  # dw written; entries read, y written, dy read
        target=target,
    )


@lru_cache
def _indices(entries: int, lookups: int) -> NDArray[np.int64]:
    return np.random.default_rng(4).integers(0, entries, lookups)


def calls(a: Arrays) -> Calls:
    """A layer on these buffers."""
    (entries, item), lookups = a["w"].shape, len(a["y"])
    last_major = partial(describe, capi.BNNSDataLayout2DLastMajor)
    indices = _indices(entries, lookups)
    layer = capi.BNNSLayerParametersEmbedding(
        i_desc=capi.BNNSNDArrayDescriptor(
            layout=capi.BNNSDataLayoutVector, size=(lookups,), data_type=capi.BNNSDataTypeInt64
        ),
        o_desc=last_major((item, lookups)),
        dictionary=last_major((item, entries), a["w"]),
        padding_idx=2**64 - 1,
    )
    f = created(capi.BNNSFilterCreateLayerEmbedding(layer, training_parameters()))
    return Calls(
        f,
        partial(capi.BNNSFilterApplyBatch, f, 1, indices, 0, a["y"], 0),
        partial(
            capi.BNNSFilterApplyBackwardBatch, f, 1, indices, 0, None, 0, None, 0,
            last_major((item, lookups), a["dy"]), 0, last_major((item, entries), a["dw"]), None,
        ),
    )  # fmt: skip
