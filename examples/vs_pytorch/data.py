"""Random batches that resemble what the networks are used for, and that can be learned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .pair import Array, Batch


def smooth(random: np.random.RandomState, count: int, channels: int, size: int) -> NDArray[np.float32]:
    """Cloudy images (count, channels, size, size) with mean 0 and variance about 1: a few waves in random directions."""
    rows, columns = np.mgrid[:size, :size] / size
    waves = random.uniform(-4, 4, (2, count, channels, 4, 1, 1))
    phases = random.uniform(0, 2 * np.pi, (count, channels, 4, 1, 1))
    image = np.cos(2 * np.pi * (waves[0] * rows + waves[1] * columns) + phases).sum(axis=2)
    return (image / np.sqrt(2)).astype(np.float32)


def labelled_images(
    random: np.random.RandomState, count: int, channels: int, size: int, classes: int = 10
) -> tuple[NDArray[np.float32], Array]:
    """Images with noise, every class around an image of its own; and the classes (count,)."""
    patterns = smooth(np.random.RandomState(1), classes, channels, size)
    labels = random.randint(0, classes, count)
    noise = random.standard_normal((count, channels, size, size)).astype(np.float32)
    return patterns[labels] + 0.5 * noise, labels


def disks(random: np.random.RandomState, count: int, size: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Photographs (count, 3, size, size) of a bright disk before clouds, and masks (count, 1, size, size), 1 on the disk."""
    rows, columns = np.mgrid[:size, :size] / size
    centers = random.uniform(0.25, 0.75, (2, count, 1, 1, 1))
    radii = random.uniform(0.1, 0.3, (count, 1, 1, 1))
    masks = ((rows - centers[0]) ** 2 + (columns - centers[1]) ** 2 < radii**2).astype(np.float32)
    return smooth(random, count, 3, size) + 1.5 * masks, masks


def sentences(random: np.random.RandomState, count: int, length: int, vocabulary: int) -> Array:
    """Texts (count, length): most characters are followed by the one that always follows them, some by any other."""
    follower = np.random.RandomState(1).permutation(vocabulary)
    surprise = random.uniform(size=(count, length)) < 0.2
    text = random.randint(0, vocabulary, (count, length))
    for t in range(1, length):
        text[:, t] = np.where(surprise[:, t], text[:, t], follower[text[:, t - 1]])
    return text


def next_characters(random: np.random.RandomState, count: int, length: int, vocabulary: int) -> Batch:
    """Texts (count, length), and at every position the character that comes next."""
    text = sentences(random, count, length + 1, vocabulary)
    return np.ascontiguousarray(text[:, :-1]), np.ascontiguousarray(text[:, 1:])


def tagged_words(random: np.random.RandomState, count: int, length: int, words: int, tags: int) -> Batch:
    """Sentences (count, length) of different lengths, behind which stand zeros; the lengths; tags, -100 where no word is.

    Some words are frequent, most are rare. The tag of a word depends on the word and on the one behind it.
    """
    text = 1 + np.minimum(random.zipf(1.3, (count, length)), words - 1) % (words - 1)
    lengths = random.randint(length // 4, length + 1, count)
    behind = np.roll(text, -1, axis=1) % 2
    labels = (3 * text + behind) % tags
    absent = np.arange(length) >= lengths[:, None]
    return np.where(absent, 0, text), lengths, np.where(absent, -100, labels)
