"""Images in files: brought to one size, one kind of colour, and numbers from 0 to 1."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from ....files.checked_json import CheckedTable
from ....files.untrusted import DataError
from ....graph.tensor import Array
from ..sources.images import converted, decode, pillow
from ..sources.rows import Rows
from .arrays import SamplePreparation

MODES = {"L": 1, "RGB": 3}
_WORKERS = 2  # threads that decode images: Pillow does not hold Python's lock while it does


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
        """The shape of a sample."""
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
        scaled: Array = np.stack(pixels) / np.float32(255)
        return scaled

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
        return converted(pillow().fromarray(array), self.mode, self.size)

    def decode(self, path: Path) -> Array:
        """The pixels of a file: (channels, height, width) of 8 bits."""
        return decode(path, self.mode, self.size, cure=" Replace it, or leave such out: --skip-bad.")

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, "size": list(self.size), "mode": self.mode}

    @classmethod
    def from_state(cls, said: CheckedTable) -> ImagePreparation:
        sizes: Sequence[int] = said.sizes("size")
        if len(sizes) != 2 or max(sizes) > 2**16:
            said.numbers("size", -1)
        return cls((sizes[0], sizes[1]), said.text("mode", tuple(MODES)))

    def sentences(self) -> list[str]:
        colour = "grey" if self.mode == "L" else "colour"
        return [f"Images are {self.size[0]} x {self.size[1]} pixels in {colour}, divided by 255."]


class ImageCache(Rows):
    """Images in files, decoded when a batch first needs them, several at a time, and kept as bytes if there is room."""

    def __init__(self, paths: Sequence[Path], prepare: ImagePreparation, room: int) -> None:
        super().__init__((len(paths), *prepare.shape), np.float32)
        self.files, self._prepare = list(paths), prepare
        self._bytes = [path.stat().st_size for path in paths]
        kept = int(np.prod(self.shape)) <= room
        self._pixels = np.empty(self.shape, np.uint8) if kept else None
        self._known = np.zeros(len(paths), bool)
        self._lock = threading.Lock()
        self._workers: ThreadPoolExecutor | None = None

    def read(self, rows: Array) -> Array:
        with self._lock:
            if self._pixels is None:
                pixels = np.stack(self._decode(rows))
            else:
                new = np.unique(rows[~self._known[rows]])
                for row, image in zip(new, self._decode(new), strict=True):
                    self._pixels[row] = image
                self._known[new] = True
                pixels = self._pixels[rows]
        scaled: Array = pixels / np.float32(255)
        return scaled

    def _decode(self, rows: Array) -> list[Array]:
        paths = [self.files[row] for row in rows.tolist()]
        if len(paths) < 2:
            return [self._prepare.decode(path) for path in paths]
        if self._workers is None:
            self._workers = ThreadPoolExecutor(_WORKERS, "openbnns images")
        return list(self._workers.map(self._prepare.decode, paths))

    def pieces(self) -> Iterator[Any]:
        yield repr(([path.name for path in self.files], self._bytes, self._prepare.state())).encode()
