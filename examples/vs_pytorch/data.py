"""Batches of real data without a download: handwritten digits, and the English of Python's own manual.

Every function draws from the training part, or with ``held_out`` takes samples that training never sees.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

import numpy as np
from numpy.typing import NDArray

from openbnns.datasets import load_digits

from .pair import Array, Batch

Random = np.random.RandomState
Images = NDArray[np.float32]
MARKS = ["", ",", ".", ":", ";", ")", "?"]  # what may follow a word
HELD_OUT = 0.1  # share of a text


def _enlarged(images: Array, size: int) -> Images:
    """Images (count, 8, 8) as (count, size, size), by linear interpolation between the centres of pixels."""
    places = np.clip((np.arange(size) + 0.5) * 8 / size - 0.5, 0, 7)
    weights = np.maximum(0, 1 - np.abs(places[:, None] - np.arange(8)))  # (size, 8)
    return np.asarray(weights @ images @ weights.T, np.float32)


def _ink(random: Random, count: int, size: int, held_out: bool) -> tuple[Images, Array]:
    """Handwritten digits (count, size, size) between 0 and 1, and their classes (count,)."""
    train_x, train_y, test_x, test_y = load_digits()
    if held_out:
        return _enlarged(test_x[:count].reshape(-1, 8, 8), size), test_y[:count]
    drawn = random.randint(0, len(train_x), count)
    return _enlarged(train_x[drawn].reshape(-1, 8, 8), size), train_y[drawn]


def grey_digits(random: Random, count: int, size: int, held_out: bool = False) -> tuple[Images, Array]:
    """Digits (count, 1, size, size) between 0 and 1, and their classes."""
    ink, labels = _ink(random, count, size, held_out)
    return ink[:, None], labels


def coloured_digits(random: Random, count: int, size: int, held_out: bool = False) -> tuple[Images, Array]:
    """Digits (count, 3, size, size) between -1 and 1, in a random light colour on dark paper, and their classes."""
    ink, labels = _ink(random, count, size, held_out)
    pen, paper = random.uniform(0.7, 1, (2, len(ink), 3, 1, 1)) * np.array([1, -1]).reshape(2, 1, 1, 1, 1)
    return np.asarray(paper + (pen - paper) * ink[:, None], np.float32), labels


def _clouds(random: Random, count: int, channels: int, size: int) -> Images:
    """Cloudy images (count, channels, size, size) with mean 0 and variance about 1: a few waves in random directions."""
    rows, columns = np.mgrid[:size, :size] / size
    waves = random.uniform(-4, 4, (2, count, channels, 4, 1, 1))
    phases = random.uniform(0, 2 * np.pi, (count, channels, 4, 1, 1))
    image = np.cos(2 * np.pi * (waves[0] * rows + waves[1] * columns) + phases).sum(axis=2)
    return (image / np.sqrt(2)).astype(np.float32)


def digits_before_clouds(random: Random, count: int, size: int, held_out: bool = False) -> tuple[Images, Images]:
    """Pictures (count, 3, size, size) of a digit before clouds, and masks (count, 1, size, size), 1 where its ink is."""
    ink, _ = _ink(random, count, size, held_out)
    masks = (ink[:, None] > 0.5).astype(np.float32)
    return _clouds(random, len(ink), 3, size) + 1.5 * masks, masks


@cache
def manual() -> tuple[str, str]:
    """The topics of Python's manual that come with every Python, without their markup: the training part, and the rest."""
    from pydoc_data.topics import topics

    text = re.sub(r"[*=~^\"`_|+-]{2,}", " ", " ".join(topics[name] for name in sorted(topics)))
    text = re.sub(r"\s+", " ", text)
    end = int(len(text) * (1 - HELD_OUT))
    return text[:end], text[end:]


@cache
def _characters(vocabulary: int) -> tuple[Array, Array]:
    """Both parts as numbers of characters, the most common ones first; the last number stands for all others."""
    common = Counter(manual()[0]).most_common(vocabulary - 1)
    numbers = {character: i for i, (character, _) in enumerate(common)}
    training, rest = (np.array([numbers.get(c, vocabulary - 1) for c in part]) for part in manual())
    return training, rest


def _passages(random: Random, text: Array, count: int, length: int, held_out: bool) -> Array:
    """Where pieces of the text begin and all that follows: indices (count, length)."""
    last = len(text) - length
    starts = np.linspace(0, last, count).astype(int) if held_out else random.randint(0, last, count)
    return np.asarray(starts[:, None] + np.arange(length))


def next_characters(random: Random, count: int, length: int, vocabulary: int, held_out: bool = False) -> Batch:
    """Characters of passages of the manual (count, length), and at every position the character that comes next."""
    text = _characters(vocabulary)[held_out]
    passages = text[_passages(random, text, count, length + 1, held_out)]
    return np.ascontiguousarray(passages[:, :-1]), np.ascontiguousarray(passages[:, 1:])


@cache
def _words(words: int, tags: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Both parts as numbers of words and their tags. 0 is padding, 1 a rare word.

    Words are in small letters and without the marks that follow them; the tag says what was taken away.
    """
    texts = [re.findall(r"([A-Za-z']+)([,.:;)?]?)", part) for part in manual()]
    common = Counter(word.lower() for word, _ in texts[0]).most_common(words - 2)
    numbers = {word: i + 2 for i, (word, _) in enumerate(common)}

    def as_numbers(part: list[tuple[str, str]]) -> tuple[Array, Array]:
        tag = [2 * MARKS.index(mark) + word[0].isupper() for word, mark in part]
        return np.array([numbers.get(word.lower(), 1) for word, _ in part]), np.minimum(tag, tags - 1)

    return as_numbers(texts[0]), as_numbers(texts[1])


def stripped_words(random: Random, count: int, length: int, words: int, tags: int, held_out: bool = False) -> Batch:
    """Words of passages (count, length) without capitals and punctuation, behind which stand zeros; the lengths; tags.

    The tag of a word is the mark that followed it and whether it began with a capital; -100 where no word is.
    """
    text, labels = _words(words, tags)[held_out]
    places = _passages(random, text, count, length, held_out)
    lengths = random.randint(length // 4, length + 1, count)
    absent = np.arange(length) >= lengths[:, None]
    return np.where(absent, 0, text[places]), lengths, np.where(absent, -100, labels[places])
