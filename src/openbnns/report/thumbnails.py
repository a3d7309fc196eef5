"""Samples as small pictures inside the page."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..graph.tensor import Array
from .markup import Content, Markup, tag

if TYPE_CHECKING:
    from .run_facts import Mistake

_LARGEST = 64  # pixels of a side


def are_images(shape: tuple[int, ...]) -> bool:
    """True for samples of shape (height, width), or with one, three or four channels, first or last."""
    if len(shape) == 2:
        return min(shape) >= 4
    return len(shape) == 3 and (
        (shape[0] in (1, 3, 4) and min(shape[1:]) >= 4) or (shape[2] in (1, 3, 4) and min(shape[:2]) >= 4)
    )


def pixels(samples: Array) -> Array:
    """Samples as (N, height, width, 1 or 3) of 8 bits, no side longer than 64.

    Numbers from 0 to 1 and those of 8 bits are brightness; others, such as standardized ones, are spread over what the
    samples have, without the most extreme hundredth at either end.
    """
    images = samples[..., None] if samples.ndim == 3 else samples
    if samples.ndim == 4 and images.shape[1] in (1, 3, 4) and min(images.shape[2:]) >= 4:  # channels first
        images = np.moveaxis(images, 1, -1)
    images = images[..., :3]
    step = -(-max(images.shape[1:3]) // _LARGEST)
    if step > 1:
        height, width = (side // step * step for side in images.shape[1:3])
        cut = images[:, :height, :width].astype(np.float64)
        images = cut.reshape(len(cut), height // step, step, width // step, step, cut.shape[3]).mean(axis=(2, 4))
        if samples.dtype == np.uint8:
            return np.asarray(np.rint(images), np.uint8)
    if images.dtype == np.uint8:
        return images
    values = np.asarray(images, np.float64)
    low, high = float(values.min()), float(values.max())
    if low < 0 or high > 1:
        if low >= 0 and high <= 255 and high > 2:
            low, high = 0.0, 255.0
        else:
            low, high = (float(v) for v in np.percentile(values, (1, 99)))
        values = (values - low) / (high - low) if high > low else np.zeros_like(values)
    return np.rint(255 * np.clip(values, 0, 1)).astype(np.uint8)


def png(image: Array) -> bytes:
    """An image (height, width, 1 or 3) of 8 bits as a PNG file."""
    height, width, channels = image.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # every row begins with its filter: none
    rows[:, 1:] = image.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    pieces = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in pieces
    )


def data_url(image: Array) -> str:
    """The image as the source of an ``img``."""
    return "data:image/png;base64," + base64.b64encode(png(image)).decode()


def pictures_of(mistakes: Sequence[Mistake], told: Callable[[Mistake], tuple[str, str, str, str]]) -> Markup | None:
    """The pictures of samples with what is said of each: truth, words, prediction and a note; None if they are not images."""
    items = []
    for m in mistakes:
        if m.image:
            truth, words, predicted, note = told(m)
            text: Content = tag("p", tag("b", truth), words, tag("b", predicted))
            image = tag("img", src=m.image, alt=f"{m.place}: {truth}{words}{predicted}")
            items.append(tag("li", image, text, tag("small", note)))
    return tag("ul", items, class_="gallery") if items else None
