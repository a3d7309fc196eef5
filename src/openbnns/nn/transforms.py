"""Transforms of batches before they reach the network: augmentation, and anything else done batch by batch.

A transform is called with samples, targets and :class:`Draws`, and gives samples and targets; a function can be used like
one of these classes. ``fit(transforms=[...])`` applies them one after the other.

What is random follows from the seed, the epoch, the position of the transform in the list and the number of the sample, and from
nothing else: neither from the batch that the sample is in nor from what was drawn before. A run that was stopped and resumed
therefore draws the same numbers as one that was not.

Validation, ``evaluate`` and ``predict`` apply the same transforms with ``draws.training`` False: those that are random do
nothing then, :class:`Crop` takes the middle, and :class:`Normalize` works as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._flags import with_flags
from .._listing import of_module as _of_module
from .._spelling import spelled
from ..graph.checks import whole_number
from ..graph.tensor import Array
from .nested_arrays import Key, joined, keys_of, parts_of

_ODD = np.array([0x9E3779B97F4A7C15], np.uint64)  # 2⁶⁴ divided by the golden ratio


def _mix(x: Array) -> Array:
    """The finalizer of SplitMix64: every bit of the result depends on all bits of x."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = x ^ (x >> np.uint64(31))
    return mixed


class Draws:
    """Random numbers for the samples of a batch, which follow from the seed, the epoch and the numbers of the samples.

    Every call draws anew; ``training`` tells whether anything is to be random at all.

    >>> from openbnns import nn
    >>> draws = nn.transforms.Draws(seed=1, epoch=0, numbers=[7, 3])
    >>> again = nn.transforms.Draws(seed=1, epoch=0, numbers=[3])
    >>> bool(draws.uniform()[1] == again.uniform()[0])  # whatever batch the sample is in
    True
    """

    def __init__(self, seed: int, epoch: int, numbers: Any, *, stream: int = 0, training: bool = True) -> None:
        self.training = training
        self.numbers = np.asarray(numbers, np.uint64)
        key = np.array([seed], np.uint64)
        for word in (epoch, stream):
            key = _mix(key + _ODD * np.uint64(word + 1))
        self._key = key
        self._samples = _mix(key + _ODD * (self.numbers + np.uint64(1)))
        self._calls = 0

    def again(self) -> Draws:
        """The same draws from their beginning, for targets that have to follow their samples."""
        self._calls = 0
        return self

    def _bits(self, count: int) -> Array:
        """64 random bits for each of ``count`` numbers of each sample."""
        self._calls += 1
        start = _mix(self._samples + _ODD * np.uint64(self._calls))
        return _mix(start[:, None] + _ODD * np.arange(1, count + 1, dtype=np.uint64))

    def uniform(self, low: float = 0.0, high: float = 1.0) -> Array:
        """A number from [low, high) for each sample."""
        numbers: Array = low + (high - low) * ((self._bits(1)[:, 0] >> np.uint64(11)) * 2.0**-53)
        return numbers

    def integers(self, low: int, high: int) -> Array:
        """A whole number from low to high, both included, for each sample."""
        numbers: Array = (low + np.floor(self.uniform(0, high - low + 1))).astype(np.int64)
        return numbers

    def normal(self, *shape: int) -> Array:
        """Normally distributed float32 of this shape for each sample: (samples, *shape)."""
        count = int(np.prod(shape, dtype=np.int64))
        bits = self._bits(-(-count // 2))
        scale = np.float32(2.0**-24)
        radius = ((bits >> np.uint64(40)).astype(np.float32) + np.float32(1)) * scale  # 0 to 1, without 0
        angle = (bits & np.uint64(0xFFFFFF)).astype(np.float32) * (scale * np.float32(2 * np.pi))
        radius = np.sqrt(np.float32(-2) * np.log(radius))
        pairs = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        return np.ascontiguousarray(pairs[:, :count]).reshape(-1, *shape)

    def generator(self) -> np.random.RandomState:
        """A generator for the batch as a whole, seeded by its first sample."""
        self._calls += 1
        words = _mix(np.append(self._key, self._samples[:1]) + np.uint64(self._calls)).view(np.uint32)
        return np.random.RandomState(words.astype(np.uint32))


TransformFunction = Callable[[Any, Any, Draws], tuple[Any, Any]]
"""(samples, targets, draws) -> (samples, targets); targets are None when there are none, as in ``predict``."""


class Transform:
    """Base of the transforms: ``change`` gives new samples from an array (N, ...).

    ``input`` selects one of several inputs of a network; without it all are changed. With ``targets`` the targets change in
    the same way, as masks must that belong to images.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> class Darken(nn.transforms.Transform):
    ...     def change(self, samples, draws):
    ...         factor = draws.uniform(0.5, 1.0).astype(np.float32)
    ...         return samples * factor[:, None]
    >>> x, y = np.ones((2, 3), np.float32), np.array([0, 1])
    >>> darker, same = Darken()(x, y, nn.transforms.Draws(0, 0, [0, 1]))
    >>> bool((darker < 1).all() and same is y)
    True
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in cls.__dict__:
            cls.__init__ = with_flags(cls.__init__, spelled(cls.__init__))  # type: ignore[method-assign]

    def __init__(self, *, input: Key = None, targets: bool = False) -> None:
        self.input, self.targets = input, bool(targets)

    def change(self, samples: Array, draws: Draws) -> Array:
        """The samples as they are trained on."""
        raise NotImplementedError(
            f"{type(self).__name__} has no change(samples, draws). Define it: it gives new samples."
        )

    def evaluate(self, samples: Array) -> Array:
        """The samples as they are validated and predicted on: unchanged, unless a subclass says otherwise."""
        return samples

    def __call__(self, x: Any, y: Any, draws: Draws) -> tuple[Any, Any]:
        keys = keys_of(x)
        if self.input is not None and self.input not in keys:
            raise ValueError(
                f"transforms.{type(self).__name__}: input is {self.input!r}, but samples have "
                f"{'a single part' if keys == [None] else f'parts {keys}'}."
            )
        chosen = [self.input is None or key == self.input for key in keys]
        parts = [self._apply(a, draws) if wanted else a for a, wanted in zip(parts_of(x), chosen, strict=True)]
        if self.targets and y is not None:
            y = joined(keys_of(y), [self._apply(a, draws) for a in parts_of(y)])
        return joined(keys, parts), y

    def _apply(self, samples: Array, draws: Draws) -> Array:
        return self.change(samples, draws.again()) if draws.training else self.evaluate(samples)

    def __repr__(self) -> str:
        """All options, so that resuming a run with other options is noticed."""
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def _share(value: Any, who: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 <= value <= 1:
        raise ValueError(f"{who} is {value!r}. It must be a number from 0 to 1.")
    return float(value)


def _axis(axis: Any, samples: Array, who: str) -> int:
    """The number of an axis of a batch, counted from the end without the batch axis: -1 is the last one."""
    if not -samples.ndim < axis < 0:
        raise ValueError(
            f"{who}: axis is {axis}, but samples have shape {samples.shape[1:]}. Axes count from the end: -1 for columns of "
            "images, -2 for rows."
        )
    return samples.ndim + int(axis)


class Flip(Transform):
    """Flip a share of the samples along an axis, counted from the end: -1 mirrors images left to right.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.arange(3)[None]
    >>> nn.transforms.Flip(share=1)(x, None, nn.transforms.Draws(0, 0, [0]))[0].tolist()
    [[2, 1, 0]]
    """

    def __init__(self, axis: int = -1, *, share: float = 0.5, input: Key = None, targets: bool = False) -> None:
        super().__init__(input=input, targets=targets)
        self.axis, self.share = axis, _share(share, "transforms.Flip: share")

    def change(self, samples: Array, draws: Draws) -> Array:
        axis = _axis(self.axis, samples, "transforms.Flip")
        turned = draws.uniform() < self.share
        changed: Array = samples.copy()
        changed[turned] = np.flip(samples[turned], axis)
        return changed


class Shift(Transform):
    """Move samples by up to so many places along the last axes; what comes in from outside is ``fill``.

    ``distance`` is one number for rows and columns, or one for each axis: ``Shift((0, 3))`` moves images sideways.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.arange(1, 17).reshape(1, 4, 4)
    >>> moved, _ = nn.transforms.Shift((0, 2))(x, None, nn.transforms.Draws(0, 0, [0]))
    >>> moved[0, 0].tolist()
    [2, 3, 4, 0]
    """

    def __init__(
        self, distance: int | Sequence[int] = 1, *, fill: float = 0.0, input: Key = None, targets: bool = False
    ) -> None:
        super().__init__(input=input, targets=targets)
        both = (distance, distance) if hasattr(distance, "__index__") else tuple(distance)
        self.distance = tuple(whole_number(d, "transforms.Shift: distance", 0) for d in both)
        self.fill = float(fill)

    def change(self, samples: Array, draws: Draws) -> Array:
        rank = min(len(self.distance), samples.ndim - 1)
        if any(self.distance[:-rank] if rank else self.distance):
            raise ValueError(
                f"transforms.Shift: distances {self.distance} are for the last {len(self.distance)} axes, but samples have shape "
                f"{samples.shape[1:]}. Pass one distance for each of their axes."
            )
        return _cut(samples, self.distance[-rank:], samples.shape[-rank:], self.fill, draws)


class Crop(Transform):
    """Cut a window of this size out of each sample, anywhere; with ``padding``, ``fill`` is put around it first.

    ``Crop(32, padding=4)`` is what images of 32 x 32 are usually trained with. Evaluation takes the window in the middle.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.zeros((5, 3, 8, 8), np.float32)
    >>> nn.transforms.Crop(6)(x, None, nn.transforms.Draws(0, 0, range(5)))[0].shape
    (5, 3, 6, 6)
    """

    def __init__(
        self,
        size: int | Sequence[int],
        *,
        padding: int = 0,
        fill: float = 0.0,
        input: Key = None,
        targets: bool = False,
    ) -> None:
        super().__init__(input=input, targets=targets)
        both = (size, size) if hasattr(size, "__index__") else tuple(size)
        self.size = tuple(whole_number(n, "transforms.Crop: size", 1) for n in both)
        self.padding = whole_number(padding, "transforms.Crop: padding", 0)
        self.fill = float(fill)

    def _check(self, samples: Array) -> None:
        rank = len(self.size)
        whole = samples.shape[-rank:]
        if samples.ndim <= rank or any(
            n > m + 2 * self.padding for n, m in zip(self.size, samples.shape[-rank:], strict=True)
        ):
            raise ValueError(
                f"transforms.Crop: a window of {self.size} does not fit into samples of shape {samples.shape[1:]} with padding "
                f"{self.padding}. The last {rank} axes of {whole} are cropped; choose a smaller size or more padding."
            )

    def change(self, samples: Array, draws: Draws) -> Array:
        self._check(samples)
        return _cut(samples, None, self.size, self.fill, draws, self.padding)

    def evaluate(self, samples: Array) -> Array:
        self._check(samples)
        rank = len(self.size)
        padded = _padded(samples, (self.padding,) * rank, self.fill)
        starts = [(m - n) // 2 for n, m in zip(self.size, padded.shape[-rank:], strict=True)]
        return np.ascontiguousarray(padded[_window(starts, self.size)])


def _padded(samples: Array, padding: Sequence[int], fill: float) -> Array:
    if not any(padding):
        return samples
    around = [(0, 0)] * (samples.ndim - len(padding)) + [(n, n) for n in padding]
    return np.pad(samples, around, constant_values=fill)


def _cut(
    samples: Array, distance: Sequence[int] | None, size: Sequence[int], fill: float, draws: Draws, padding: int = 0
) -> Array:
    """A window of this size out of each padded sample, at a random place."""
    rank = len(size)
    padded = _padded(samples, distance if distance is not None else (padding,) * rank, fill)
    starts = [draws.integers(0, m - n) for n, m in zip(size, padded.shape[-rank:], strict=True)]
    result = np.empty((*samples.shape[:-rank], *size), samples.dtype)
    for i, corner in enumerate(zip(*starts, strict=True)):
        result[i] = padded[i][_window(corner, size)]
    return result


def _window(starts: Sequence[int], size: Sequence[int]) -> Any:
    """The index of a window on the last axes."""
    return (..., *[slice(start, start + n) for start, n in zip(starts, size, strict=True)])


class Noise(Transform):
    """Add normally distributed noise of this standard deviation.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.zeros((100, 50), np.float32)
    >>> noisy, _ = nn.transforms.Noise(0.5)(x, None, nn.transforms.Draws(0, 0, range(100)))
    >>> round(float(noisy.std()), 1)
    0.5
    """

    def __init__(self, deviation: float = 0.1, *, input: Key = None) -> None:
        super().__init__(input=input)
        if not deviation >= 0:
            raise ValueError(f"transforms.Noise: deviation is {deviation}. It must be at least 0.")
        self.deviation = float(deviation)

    def change(self, samples: Array, draws: Draws) -> Array:
        noise = draws.normal(*samples.shape[1:])
        noise *= np.float32(self.deviation)
        noise += samples
        return noise


class Normalize(Transform):
    """(x - mean) / deviation, in evaluation as well. Numbers, or one per channel: ``axis`` is that of the channels.

    For samples that are read batch by batch, as those of files larger than memory are: pixels of 8 bits become 0 to 1 with
    ``Normalize(0, 255)``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.transforms.Normalize([1, 2], 2)(np.float32([[3, 4]]), None, nn.transforms.Draws(0, 0, [0]))[0].tolist()
    [[1.0, 1.0]]
    """

    def __init__(self, mean: Any = 0.0, deviation: Any = 1.0, *, axis: int = 1, input: Key = None) -> None:
        super().__init__(input=input)
        self.mean, self.deviation = np.ravel(np.float32(mean)).tolist(), np.ravel(np.float32(deviation)).tolist()
        if not all(value > 0 for value in self.deviation):
            raise ValueError(f"transforms.Normalize: deviation is {deviation}. It must be above 0.")
        self.axis = int(axis)

    def evaluate(self, samples: Array) -> Array:
        shape = [1] * samples.ndim
        shape[self.axis] = -1
        numbers = [np.asarray(values, np.float32) for values in (self.mean, self.deviation)]
        for values, what in zip(numbers, ("mean", "deviation"), strict=True):
            if values.size not in (1, samples.shape[self.axis]):
                raise ValueError(
                    f"transforms.Normalize: {what} has {values.size} numbers, but samples have {samples.shape[self.axis]} "
                    f"channels on axis {self.axis}. Pass one number, or one per channel."
                )
        normalized: Array = (samples.astype(np.float32) - numbers[0].reshape(shape)) / numbers[1].reshape(shape)
        return normalized

    def change(self, samples: Array, draws: Draws) -> Array:
        return self.evaluate(samples)


class Mixup(Transform):
    """Mix each sample and its target with those of the next one in the batch: λ of its own, 1 - λ of the other.

    λ is drawn from the Beta distribution (alpha, alpha) for each sample; the larger share is its own. Class numbers
    become probabilities, for which ``classes`` tells their number.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x, y = np.eye(2, dtype=np.float32), np.array([0, 1])
    >>> mixed, shares = nn.transforms.Mixup(0.4, classes=2)(x, y, nn.transforms.Draws(0, 0, [0, 1]))
    >>> bool(np.array_equal(mixed, shares) and (shares.sum(1) == 1).all() and shares[0, 0] >= 0.5)
    True
    """

    def __init__(self, alpha: float = 0.2, *, classes: int | None = None) -> None:
        super().__init__()
        if not alpha > 0:
            raise ValueError(f"transforms.Mixup: alpha is {alpha}. It must be above 0.")
        self.alpha = float(alpha)
        self.classes = None if classes is None else whole_number(classes, "transforms.Mixup: classes", 1)

    def __call__(self, x: Any, y: Any, draws: Draws) -> tuple[Any, Any]:
        if not draws.training:
            return x, y
        share = draws.generator().beta(self.alpha, self.alpha, len(draws.numbers)).astype(np.float32)
        share = np.maximum(share, 1 - share)
        mixed = [self._mix(a, share) for a in parts_of(x)]
        targets = [self._mix(self._probabilities(a), share) for a in parts_of(y)]
        return joined(keys_of(x), mixed), joined(keys_of(y), targets)

    def _probabilities(self, targets: Array) -> Array:
        if targets.dtype.kind == "f":
            return targets
        if self.classes is None:
            raise ValueError(
                f"transforms.Mixup: targets are class numbers ({targets.dtype}), which cannot be mixed. Pass the number of "
                "classes: Mixup(alpha, classes=10)."
            )
        if targets.ndim != 1 or targets.min() < 0 or targets.max() >= self.classes:
            raise ValueError(
                f"transforms.Mixup: targets have shape {targets.shape} and go up to {targets.max()}, but class numbers 0 to "
                f"{self.classes - 1} are needed, one per sample."
            )
        return np.eye(self.classes, dtype=np.float32)[targets]

    @staticmethod
    def _mix(array: Array, share: Array) -> Array:
        own = share.reshape(-1, *[1] * (array.ndim - 1))
        mixed: Array = own * array + (1 - own) * np.roll(array, -1, axis=0)
        return mixed.astype(np.float32, copy=False)


def check(given: Any) -> list[TransformFunction]:
    """Transforms from what ``fit(transforms=...)`` takes: one, or a sequence of them."""
    if given is None:
        return []
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    for transform in listed:
        if isinstance(transform, type) or not callable(transform):
            hint = f" Call it: {transform.__name__}(...)." if isinstance(transform, type) else ""
            raise TypeError(
                f"Trainer.fit: transforms has {transform!r}, which is not a transform.{hint} Pass objects of nn.transforms, or "
                "functions (x, y, draws) -> (x, y)."
            )
    return listed


def describe(transforms: Sequence[TransformFunction]) -> list[str]:
    """The transforms as a checkpoint records them."""
    return [repr(t) if isinstance(t, Transform) else getattr(t, "__qualname__", type(t).__name__) for t in transforms]


def apply(transforms: Sequence[TransformFunction], x: Any, y: Any, draws: Callable[[int], Draws]) -> tuple[Any, Any]:
    """Apply transforms one after the other; ``draws`` gives the numbers of the transform at a position."""
    for position, transform in enumerate(transforms):
        changed = transform(x, y, draws(position))
        if not isinstance(changed, tuple) or len(changed) != 2:
            name = getattr(transform, "__qualname__", type(transform).__name__)
            raise TypeError(
                f"Trainer.fit: the transform {name} gave a {type(changed).__name__}, but it must give samples and targets: "
                "return x, y."
            )
        x, y = changed
    return x, y


__all__ = ["Crop", "Draws", "Flip", "Mixup", "Noise", "Normalize", "Shift", "Transform"]

__dir__ = _of_module(__name__)
