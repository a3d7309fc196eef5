"""Ten digits of 6 x 6 pixels, and random images that hold one of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

IMAGE, GLYPH = 20, 6

_DRAWN = """
.####. ..##.. .####. #####. #...#. ###### .####. ###### .####. .####.
##..## .###.. #...## ....## #...#. #..... ##.... ....## ##..## ##..##
##..## ..##.. ...##. ..###. #...#. #####. #####. ...##. .####. .#####
##..## ..##.. ..##.. ....## ###### ....## ##..## ..##.. ##..## ....##
##..## ..##.. .##... #...## ....#. #...## ##..## ..##.. ##..## ...##.
.####. .####. ###### .####. ....#. .####. .####. ..##.. .####. .###..
"""

GLYPHS: NDArray[np.float32] = np.array(
    [
        [[cell == "#" for cell in row] for row in rows]
        for rows in zip(*(line.split() for line in _DRAWN.split("\n")[1:-1]))
    ],
    np.float32,
)
"""(10, 6, 6), 1 where there is ink."""


def draw(random: np.random.RandomState, count: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Images (count, 1, 20, 20), zero but for one glyph at a random place, and the digits (count,)."""
    images = np.zeros((count, 1, IMAGE, IMAGE), np.float32)
    digits = random.randint(0, 10, count)
    places = random.randint(0, IMAGE - GLYPH, (count, 2))  # rows and columns 0 to 13
    for image, digit, (row, column) in zip(images, digits, places, strict=True):
        image[0, row : row + GLYPH, column : column + GLYPH] = GLYPHS[digit]
    return images, digits


def one_hot(digits: NDArray[Any]) -> NDArray[np.float32]:
    """(count, 10), 1 at the digit."""
    return np.eye(10, dtype=np.float32)[digits]
