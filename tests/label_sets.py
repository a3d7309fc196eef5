"""Random predictions and targets for tests of scores, with ties and classes that never occur or are never predicted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from helpers import Array


def classes(count: int, seed: int = 0) -> Iterator[tuple[Array, Array, int]]:
    """Scores (samples, classes), class numbers, and the number of classes, so many times."""
    random = np.random.RandomState(seed)
    for _ in range(count):
        samples, number = random.randint(1, 40), random.randint(2, 8)
        present = random.choice(number, random.randint(1, number + 1), replace=False)
        likely = random.choice(number, random.randint(1, number + 1), replace=False)
        targets = random.choice(present, samples)
        outputs = np.round(random.standard_normal((samples, number)), 1).astype(np.float32)
        outputs[:, likely] += random.choice([0.0, 3.0])
        outputs[np.arange(samples), targets] += random.choice([0.0, 1.0])
        yield outputs, targets, number


def labels(count: int, seed: int = 0) -> Iterator[tuple[Array, Array]]:
    """Scores and labels of 0 and 1, both (samples, labels), at least two labels."""
    random = np.random.RandomState(seed)
    for _ in range(count):
        shape = random.randint(1, 40), random.randint(2, 6)
        targets = (random.random_sample(shape) < random.choice([0.0, 0.3, 0.7], shape[1])).astype(np.int64)
        outputs = np.round(random.standard_normal(shape) + random.choice([-3.0, 0.0, 2.0], shape[1]), 1)
        yield outputs.astype(np.float32), targets


def numbers(count: int, seed: int = 0) -> Iterator[tuple[Array, Array]]:
    """Predictions and targets (samples, outputs); some outputs have the same target for all samples, some are exact."""
    random = np.random.RandomState(seed)
    for _ in range(count):
        shape = random.randint(2, 40), random.randint(1, 4)
        targets = 10 * random.standard_normal(shape) + 100
        targets[:, random.random_sample(shape[1]) < 0.3] = 7.0
        outputs = targets + random.choice([0.0, 1.0, 30.0], shape[1]) * random.standard_normal(shape)
        yield outputs.astype(np.float32), targets.astype(np.float32)
