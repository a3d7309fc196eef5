"""Image files, decoded when they are needed. Pillow is imported when the first list of images is opened."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ....files.untrusted import DataError
from ....graph.checks import whole_number
from ....graph.tensor import Array
from .rows import Rows

_CHANNELS = {"L": 1, "RGB": 3, "RGBA": 4}
_EIGHT_BITS = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"}  # modes of Pillow
_MOST_PIXELS = 2**28


def pillow() -> Any:
    """Pillow, or an error that says how to get it."""
    try:
        return import_module("PIL.Image")
    except ImportError as error:
        raise ImportError(f'Image files need Pillow: pip install "openbnns[images]". ({error})') from None


def decode(
    path: Path, mode: str, size: tuple[int, int] | None, *, instead: str = "Convert it to 8 bits.", cure: str = ""
) -> Array:
    """The pixels of a file: (channels, height, width) of 8 bits. ``instead`` and ``cure`` end the messages of errors."""
    images = pillow()
    try:
        with images.open(path) as image:
            if image.mode not in _EIGHT_BITS:
                raise DataError(f"{path}: its pixels are {image.mode!r}, more than 8 bits each. {instead}")
            if image.width * image.height > _MOST_PIXELS:
                raise DataError(f"{path}: claims {image.width} x {image.height} pixels, which is too much to decode.")
            return converted(image, mode, size)
    except DataError:
        raise
    except (OSError, SyntaxError, ValueError, EOFError, images.DecompressionBombError) as error:
        raise DataError(f"{path}: cannot be read as an image ({error}).{cure}") from None


def converted(image: Any, mode: str, size: tuple[int, int] | None) -> Array:
    """The pixels of an image of Pillow in another mode and size: (channels, height, width) of 8 bits."""
    image = image.convert(mode)
    if size is not None and (image.height, image.width) != size:
        image = image.resize(size[::-1], pillow().Resampling.BILINEAR)
    pixels = np.asarray(image, np.uint8).reshape(image.height, image.width, -1)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


class ImageRows(Rows):
    """Images as float32 from 0 to 1, of shape (channels, height, width)."""

    def __init__(self, paths: list[Path], size: tuple[int, int] | None, mode: str) -> None:
        self._paths, self._size, self._mode = paths, size, mode
        self._bytes = [_size(path) for path in paths]  # which also finds those that are missing
        first = self._decode(paths[0])
        super().__init__((len(paths), *first.shape), np.float32)

    def _decode(self, path: Path) -> Array:
        instead = "Convert it to 8 bits, or read such images in a subclass of nn.sources.Rows."
        pixels: Array = decode(path, self._mode, self._size, instead=instead) / np.float32(255)
        return pixels

    def read(self, rows: Array) -> Array:
        result = np.empty((len(rows), *self.shape[1:]), np.float32)
        for i, row in enumerate(rows.tolist()):
            image = self._decode(self._paths[row])
            if image.shape != self.shape[1:]:
                raise DataError(
                    f"{self._paths[row]}: is {image.shape[1]} x {image.shape[2]} pixels, but the first image is "
                    f"{self.shape[2]} x {self.shape[3]}. Give open_images a size to scale all images to."
                )
            result[i] = image
        return result

    def pieces(self) -> Iterator[Any]:
        yield repr(([path.name for path in self._paths], self._bytes)).encode()
        yield from super().pieces()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None


def open_images(
    paths: Sequence[str | os.PathLike[str]],
    size: tuple[int, int] | None = None,
    *,
    mode: Literal["L", "RGB", "RGBA"] = "RGB",
) -> Rows:
    """Images as samples of float32 from 0 to 1 and shape (channels, height, width), each decoded when it is needed.

    ``size`` is (height, width), which all images are brought to; unless given, all must have the same. ``mode`` is "L" for
    one channel, "RGB" for three or "RGBA" for four. ``pip install "openbnns[images]"``.

    >>> import os, tempfile
    >>> import numpy as np
    >>> from openbnns import nn
    >>> import PIL.Image
    >>> path = os.path.join(tempfile.mkdtemp(), "red.png")
    >>> PIL.Image.new("RGB", (40, 30), (255, 0, 0)).save(path)
    >>> x = nn.sources.open_images([path, path, path], size=(15, 20))
    >>> x.shape, x[2][:, 0, 0].tolist()
    ((3, 3, 15, 20), [1.0, 0.0, 0.0])
    """
    if mode not in _CHANNELS:
        raise ValueError(f"open_images: mode is {mode!r}. Use 'L', 'RGB' or 'RGBA'.")
    if size is not None:
        if not isinstance(size, (tuple, list)) or len(size) != 2:
            raise ValueError(f"open_images: size is {size!r}. Give (height, width).")
        size = whole_number(size[0], "open_images: height", 1), whole_number(size[1], "open_images: width", 1)
    if isinstance(paths, (str, os.PathLike)):
        raise TypeError(
            f"open_images: {os.fspath(paths)!r} is one path. Pass a list, such as sorted(folder.glob('*.png'))."
        )
    files = [Path(path) for path in paths]
    if not files:
        raise DataError("open_images: the list of files is empty.")
    return ImageRows(files, size, mode)
