"""Images as arrays of a program, and back. Pillow is needed only while one comes or goes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..interop.coreml import ImageFeature
from ..interop.coreml.elements import Array

_MODES = {"grayscale": "L", "RGB": "RGB", "BGR": "RGB", "grayscale float16": "F"}


def is_image(given: Any) -> bool:
    """True for an image of Pillow, which is not imported to find out."""
    return hasattr(given, "getbands") and hasattr(given, "convert")


def array_of(image: Any, feature: ImageFeature, who: str) -> Array:
    """An image as (1, C, H, W) with the channels that the model wants, from 0 to 255."""
    _check_size(image.size, feature, who)
    pixels = np.asarray(image.convert(_MODES[feature.color_space]), np.float32)
    if pixels.ndim == 2:
        return pixels[None, None]
    channels = pixels[..., ::-1] if feature.color_space == "BGR" else pixels
    return np.ascontiguousarray(channels.transpose(2, 0, 1)[None])


def _check_size(size: tuple[int, int], feature: ImageFeature, who: str) -> None:
    width, height = size
    allowed = [(feature.width, feature.height), *feature.enumerated]
    if feature.width_range is not None and feature.height_range is not None:
        ranges = (width, feature.width_range), (height, feature.height_range)
        if all(low <= n and (high is None or n <= high) for n, (low, high) in ranges):
            return
    elif (width, height) in allowed:
        return
    shown = " or ".join(f"{w} x {h}" for w, h in allowed)
    if feature.width_range is not None:
        shown = f"one of a width in {feature.width_range} and a height in {feature.height_range}"
    raise ValueError(f"{who} is an image of {width} x {height} pixels, but the model takes {shown}. Resize it first.")


def image_of(array: Array, feature: ImageFeature, who: str) -> Any:
    """An array (1, C, H, W) or (C, H, W) as an image."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError(f"{who} is an image, which needs Pillow: pip install pillow") from None
    planes = array.reshape(array.shape[-3:])
    if feature.color_space == "grayscale float16":
        return Image.fromarray(planes[0].astype(np.float32), "F")
    pixels = np.clip(np.rint(planes.astype(np.float32)), 0, 255).astype(np.uint8)
    if feature.color_space == "grayscale":
        return Image.fromarray(pixels[0])
    ordered = pixels[::-1] if feature.color_space == "BGR" else pixels
    return Image.fromarray(np.ascontiguousarray(ordered.transpose(1, 2, 0)))
