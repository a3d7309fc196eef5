"""Images in files: brought to one size, one kind of colour, and numbers from 0 to 1."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ....graph.tensor import Array
from ...files.checked_json import Said
from ...files.untrusted import DataError
from .arrays import SamplePreparation

MODES = {"L": 1, "RGB": 3}
_EIGHT_BITS = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"}
_MOST_PIXELS = 2**28


def pillow() -> Any:
    """Pillow, or an error that says how to get it."""
    try:
        return import_module("PIL.Image")
    except ImportError as error:
        raise ImportError(f'Image files need Pillow: pip install "openbnns[images]". ({error})') from None


class ImagePreparation(SamplePreparation):
    """Images, as paths of files or as arrays of 8 bits, become (channels, height, width) from 0 to 1.

    >>> import numpy as np
    >>> from openbnns.nn.data.preprocessing import ImagePreparation
    >>> ImagePreparation((2, 2), "L").apply(np.full((1, 2, 2), 255, np.uint8)).tolist()
    [[[[1.0, 1.0], [1.0, 1.0]]]]
    """

    kind = "images"

    def __init__(self, size: tuple[int, int], mode: str) -> None:
        self.size, self.mode = size, mode

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of a sample."""
        return (MODES[self.mode], *self.size)

    def apply(self, samples: Any, who: str = "predict") -> Array:
        if isinstance(samples, (str, os.PathLike)):
            samples = [samples]
        if not isinstance(samples, np.ndarray) and all(isinstance(s, (str, os.PathLike)) for s in samples):
            pixels = [self.decode(Path(path)) for path in samples]
        else:
            pixels = [self._array(image, who) for image in samples]
        if not pixels:
            raise DataError(f"{who}: there are no images. Pass at least one.")
        found: Array = np.stack(pixels) / np.float32(255)
        return found

    def _array(self, image: Any, who: str) -> Array:
        array = np.asarray(image)
        if array.dtype != np.uint8 or array.ndim not in (2, 3):
            raise DataError(
                f"{who}: an image is {array.dtype} of shape {array.shape}. Pass paths of files, or arrays (height, width) or "
                "(height, width, 3) of uint8."
            )
        if self.mode == "L" and array.shape == self.size:
            return array[None]
        if array.ndim == 3 and array.shape == self.shape and array.shape[0] in (1, 3):
            return array
        return self._converted(pillow().fromarray(array))

    def decode(self, path: Path) -> Array:
        """The pixels of a file: (channels, height, width) of 8 bits."""
        images = pillow()
        try:
            with images.open(path) as image:
                if image.mode not in _EIGHT_BITS:
                    raise DataError(
                        f"{path}: its pixels are {image.mode!r}, more than 8 bits each. Convert it to 8 bits."
                    )
                if image.width * image.height > _MOST_PIXELS:
                    raise DataError(
                        f"{path}: claims {image.width} x {image.height} pixels, which is too much to decode."
                    )
                return self._converted(image)
        except DataError:
            raise
        except (OSError, SyntaxError, ValueError, EOFError, images.DecompressionBombError) as error:
            raise DataError(
                f"{path}: cannot be read as an image ({error}). Replace it, or leave such out: --skip-bad."
            ) from None

    def _converted(self, image: Any) -> Array:
        converted = image.convert(self.mode)
        if (converted.height, converted.width) != self.size:
            converted = converted.resize(self.size[::-1], pillow().Resampling.BILINEAR)
        pixels = np.asarray(converted, np.uint8).reshape(*self.size, -1)
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, "size": list(self.size), "mode": self.mode}

    @classmethod
    def from_state(cls, said: Said) -> ImagePreparation:
        sizes: Sequence[int] = said.sizes("size")
        if len(sizes) != 2 or max(sizes) > 2**16:
            said.numbers("size", -1)
        return cls((sizes[0], sizes[1]), said.text("mode", tuple(MODES)))

    def said(self) -> list[str]:
        colour = "grey" if self.mode == "L" else "colour"
        return [f"Images are {self.size[0]} x {self.size[1]} pixels in {colour}, divided by 255."]
