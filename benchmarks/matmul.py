"""How fast are batched matrix products, contractions and Gram matrices, from tiny to large, forward and backward?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cases import Arrays, Calls, Case, created, describe, training_parameters
from openbnns import capi

_FIRST_MAJOR = {n: getattr(capi, f"BNNSDataLayout{n}DFirstMajor") for n in range(2, 6)}

# name, shapes of one sample of A and B, batch, transposes, alpha, target
PRODUCTS: tuple[tuple[str, tuple[int, ...], tuple[int, ...], int, tuple[bool, bool], float, float | None], ...] = (
    ("128x64 @ 64x128", (128, 64), (64, 128), 64, (False, False), 1.0, 1.0),
    ("128x64 @ (128x64)^T, alpha", (128, 64), (128, 64), 64, (False, True), 0.125, 1.3),
    ("4x4 @ 4x4", (4, 4), (4, 4), 256, (False, False), 1.0, 1.0),
    ("16x16 @ 16x16", (16, 16), (16, 16), 1, (False, False), 1.0, 5.0),
    ("8 heads, 64x32 @ 32x64", (8, 64, 32), (8, 32, 64), 4, (False, False), 1.0, 1.0),
    ("512x512 @ 512x512", (512, 512), (512, 512), 1, (False, False), 1.0, None),
)

# expression, PyTorch's, shapes of one sample, batch, multiplications of the forward pass, target
CONTRACTIONS: tuple[tuple[str, str, tuple[int, ...], tuple[int, ...], int, float, float | None], ...] = (
    ("a_ijp, b_ijq -> o_pq", "nijp,nijq->npq", (32, 16, 48), (32, 16, 40), 8, 8 * 32 * 16 * 48 * 40, 1.0),
    ("a_ihd, b_jhd -> c_hij", "nihd,njhd->nhij", (64, 8, 32), (64, 8, 32), 8, 8 * 64 * 64 * 8 * 32, 1.0),
    ("a_ijk, b_kjl -> c_lij", "nijk,nkjl->nlij", (24, 20, 32), (32, 20, 28), 8, 8 * 24 * 20 * 32 * 28, 1.0),
    ("a_ij, b_ij -> c_i", "nij,nij->ni", (64, 300), (64, 300), 16, 16 * 64 * 300, 1.0),
)

# channels, height, width, batch, target
GRAMS = ((64, 28, 28, 8, 1.0), (8, 7, 7, 1, 5.0))


def cases() -> list[Case]:
    return [
        *(_product(*row) for row in PRODUCTS), *(_contraction(*row) for row in CONTRACTIONS), *(_gram(*row) for row in GRAMS)
    ]  # fmt: skip


def _sample(shape: tuple[int, ...], data: Any = None) -> capi.BNNSNDArrayDescriptor:
    layout = capi.BNNSDataLayoutVector if len(shape) == 1 else _FIRST_MAJOR[len(shape)]
    return describe(layout, shape, data)


def _product(
    name: str, a: tuple[int, ...], b: tuple[int, ...], batch: int, transposes: tuple[bool, bool], alpha: float,
    target: float | None,
) -> Case:  # fmt: skip
    rows, steps = a[-2:][::-1] if transposes[0] else a[-2:]
    columns = b[-2] if transposes[1] else b[-1]
    y = (*a[:-2], rows, columns)

    def peer(torch: Any) -> Callable[..., Any]:
        def op(x: Any, transpose: bool) -> Any:
            return x.transpose(-1, -2) if transpose else x

        if alpha == 1.0:
            return lambda x, w: op(x, transposes[0]) @ op(w, transposes[1])
        return lambda x, w: alpha * (op(x, transposes[0]) @ op(w, transposes[1]))

    products = 1.0 * batch * rows * columns * steps
    for n in a[:-2]:
        products *= n
    return Case(
        name=f"matmul/{batch} x ({name})",
        shapes={"x": (batch, *a), "w": (batch, *b), "y": (batch, *y)},
        calls=partial(_two_inputs, create=partial(product_filter, a, b, y, transposes, alpha)),
        peer=peer,
        flops=6.0 * products,
        target=target,
    )


def product_filter(
    a: tuple[int, ...], b: tuple[int, ...], y: tuple[int, ...], transposes: tuple[bool, bool], alpha: float = 1.0
) -> Any:
    """A filter that multiplies samples of these shapes."""
    return capi.BNNSFilterCreateLayerBroadcastMatMul(
        capi.BNNSLayerParametersBroadcastMatMul(
            alpha=alpha, transA=transposes[0], transB=transposes[1], iA_desc=_sample(a), iB_desc=_sample(b), o_desc=_sample(y),
        ),
        training_parameters(),
    )  # fmt: skip


def _two_inputs(a: Arrays, *, create: Callable[[], Any]) -> Calls:
    f, batch = created(create()), a["x"].shape[0]
    return Calls(
        f,
        partial(capi.BNNSFilterApplyTwoInputBatch, f, batch, a["x"], 0, a["w"], 0, a["y"], 0),
        partial(
            capi.BNNSFilterApplyBackwardTwoInputBatch, f, batch, a["x"], 0, _sample(a["x"].shape[1:], a["dx"]), 0, a["w"], 0,
            _sample(a["w"].shape[1:], a["dw"]), 0, None, 0, _sample(a["y"].shape[1:], a["dy"]), 0, None, None,
        ),
    )  # fmt: skip


def _contraction(
    operation: str,
    einsum: str,
    a: tuple[int, ...],
    b: tuple[int, ...],
    batch: int,
    products: float,
    target: float | None,
) -> Case:
    left, result = einsum.split("->")
    sizes = dict(zip(left.replace(",", ""), (batch, *a, batch, *b), strict=True))
    y = tuple(sizes[letter] for letter in result[1:])

    def create() -> Any:
        return capi.BNNSFilterCreateLayerTensorContraction(
            capi.BNNSLayerParametersTensorContraction(
                operation=operation, alpha=1.0, iA_desc=_sample(a), iB_desc=_sample(b), o_desc=_sample(y)
            ),
            training_parameters(),
        )

    return Case(
        name=f"contraction/{batch} x ({operation})",
        shapes={"x": (batch, *a), "w": (batch, *b), "y": (batch, *y)},
        calls=partial(_two_inputs, create=create),
        peer=lambda torch: lambda x, w: torch.einsum(einsum, x, w),
        flops=6.0 * products,
        target=target,
    )


def _gram(channels: int, height: int, width: int, batch: int, target: float) -> Case:
    def peer(torch: Any) -> Callable[..., Any]:
        def gram(x: Any) -> Any:
            flat = x.flatten(2)
            return flat @ flat.transpose(-1, -2)

        return gram

    def calls(a: Arrays) -> Calls:
        def image(data: Any = None) -> capi.BNNSNDArrayDescriptor:
            return describe(capi.BNNSDataLayoutImageCHW, (width, height, channels), data)

        def square(data: Any = None) -> capi.BNNSNDArrayDescriptor:
            return describe(capi.BNNSDataLayoutRowMajorMatrix, (channels, channels), data)

        f = created(
            capi.BNNSFilterCreateLayerGram(
                capi.BNNSLayerParametersGram(alpha=1.0, i_desc=image(), o_desc=square()), training_parameters()
            )
        )
        return Calls(
            f,
            partial(capi.BNNSFilterApplyBatch, f, batch, a["x"], 0, a["y"], 0),
            partial(
                capi.BNNSFilterApplyBackwardBatch, f, batch, a["x"], 0, image(a["dx"]), 0, None, 0, square(a["dy"]), 0, None,
                None,
            ),
        )  # fmt: skip

    return Case(
        name=f"gram/{batch}x{channels}x{height}x{width}",
        shapes={"x": (batch, channels, height, width), "y": (batch, channels, channels)},
        calls=calls,
        peer=peer,
        flops=6.0 * batch * channels * channels * height * width,
        target=target,
    )
