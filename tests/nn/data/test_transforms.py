"""Transforms of batches: what they do, what they draw, and that it follows from seed, epoch and sample alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openbnns import nn
from openbnns.nn import transforms
from openbnns.nn.transforms import Draws

Array = np.ndarray


def images(count: int = 40, size: int = 9) -> Array:
    return np.random.RandomState(0).standard_normal((count, 2, size, size)).astype(np.float32)


RANDOM: dict[str, Any] = {
    "flip": transforms.Flip(),
    "flip rows": transforms.Flip(-2, share=0.3),
    "shift": transforms.Shift(2),
    "crop": transforms.Crop(7),
    "crop padded": transforms.Crop((9, 5), padding=2, fill=-1),
    "noise": transforms.Noise(0.1),
}


@pytest.mark.parametrize("name", RANDOM)
def test_what_is_drawn_follows_from_seed_epoch_and_sample(name: str) -> None:
    transform, x = RANDOM[name], images()
    numbers = np.random.RandomState(1).permutation(1000)[:40]

    def changed(seed: int = 3, epoch: int = 2, stream: int = 1, chosen: Any = slice(None)) -> Array:
        samples, _ = transform(x[chosen], None, Draws(seed, epoch, numbers[chosen], stream=stream))
        return samples

    whole = changed()
    assert whole.dtype == np.float32 and not np.array_equal(whole, x)
    for chosen in (slice(0, 7), slice(7, 40), [39, 3, 12]):  # whatever batch a sample is in, and wherever in it
        np.testing.assert_array_equal(changed(chosen=chosen), whole[chosen])
    for other in (changed(seed=4), changed(epoch=3), changed(stream=0)):
        assert not np.array_equal(other, whole)
    same, _ = transform(x, None, Draws(3, 2, numbers, stream=1, training=False))
    assert name.startswith("crop") or same is x


def test_flip_turns_its_share() -> None:
    x = images(2000, 3)
    y, _ = transforms.Flip(share=0.3)(x, None, Draws(0, 0, range(2000)))
    turned = (y == x[..., ::-1]).all((1, 2, 3))
    assert (turned | (y == x).all((1, 2, 3))).all() and 0.26 < turned.mean() < 0.34


def test_shift_moves_and_fills() -> None:
    x = images(300, 6) + 10
    y, _ = transforms.Shift((1, 2), fill=7)(x, None, Draws(0, 0, range(300)))
    seen = set()
    for before, after in zip(x, y, strict=True):
        for down in (-1, 0, 1):
            for right in (-2, -1, 0, 1, 2):
                padded = np.pad(before, ((0, 0), (1, 1), (2, 2)), constant_values=7)
                if np.array_equal(after, padded[:, 1 - down : 7 - down, 2 - right : 8 - right]):
                    seen.add((down, right))
    assert len(seen) == 15


def test_crop_cuts_windows_and_evaluates_the_middle() -> None:
    x = images(200, 6)
    crop = transforms.Crop(4)
    y, _ = crop(x, None, Draws(0, 0, range(200)))
    places = set()
    for before, after in zip(x, y, strict=True):
        places |= {(i, j) for i in range(3) for j in range(3) if np.array_equal(after, before[:, i : i + 4, j : j + 4])}
    assert len(places) == 9
    middle, _ = crop(x, None, Draws(0, 0, range(200), training=False))
    np.testing.assert_array_equal(middle, x[:, :, 1:5, 1:5])


def test_masks_follow_their_images() -> None:
    x = images(30)
    for transform in (
        transforms.Flip(targets=True),
        transforms.Shift(2, targets=True),
        transforms.Crop(5, targets=True),
    ):
        changed, mask = transform(x, x[:, 0] > 0, Draws(1, 1, range(30)))
        np.testing.assert_array_equal(changed[:, 0] > 0, mask)


def test_noise_is_normal() -> None:
    x = np.zeros((500, 201), np.float32)
    y, _ = transforms.Noise(2.0)(x, None, Draws(5, 1, range(500)))
    assert abs(y.mean()) < 0.02 and abs(y.std() - 2) < 0.02
    assert abs((np.abs(y) < 2).mean() - 0.6827) < 0.005 and np.abs(y).max() > 7
    pairs = np.corrcoef(y[:, :-1].ravel(), y[:, 1:].ravel())[0, 1]
    halves = np.corrcoef(y[:, :100].ravel(), y[:, 101:].ravel())[0, 1]
    samples = np.corrcoef(y[:-1].ravel(), y[1:].ravel())[0, 1]
    assert max(abs(pairs), abs(halves), abs(samples)) < 0.015


def test_mixup_mixes_samples_and_targets_alike() -> None:
    x = np.eye(6, dtype=np.float32)
    y = np.arange(6)
    mixed, shares = transforms.Mixup(1.0, classes=6)(x, y, Draws(0, 0, y))
    np.testing.assert_array_equal(mixed, shares)
    for i in range(6):
        assert shares[i, i] >= 0.5 and shares[i, i] + shares[i, (i + 1) % 6] == pytest.approx(1)
    assert len(set(shares.diagonal())) == 6
    same = transforms.Mixup(1.0)(x, y, Draws(0, 0, y, training=False))
    assert same[0] is x and same[1] is y
    with pytest.raises(ValueError, match=r"class numbers \(int64\), which cannot be mixed.*classes=10"):
        transforms.Mixup()(x, y, Draws(0, 0, y))
    with pytest.raises(ValueError, match=r"go up to 5, but class numbers 0 to 3"):
        transforms.Mixup(classes=4)(x, y, Draws(0, 0, y))


def test_normalize_works_in_evaluation_too() -> None:
    x = np.random.RandomState(0).randint(0, 256, (5, 3, 4, 4)).astype(np.uint8)
    for training in (True, False):
        y, _ = transforms.Normalize([1, 2, 3], [4, 5, 6])(x, None, Draws(0, 0, range(5), training=training))
        mean, deviation = (np.float32(v).reshape(1, 3, 1, 1) for v in ([1, 2, 3], [4, 5, 6]))
        np.testing.assert_array_equal(y, (x.astype(np.float32) - mean) / deviation)
    with pytest.raises(ValueError, match="mean has 2 numbers, but samples have 3 channels on axis 1"):
        transforms.Normalize([1, 2])(x, None, Draws(0, 0, range(5)))


def test_one_of_several_inputs() -> None:
    x = {"image": images(4), "other": np.ones((4, 3), np.float32)}
    y, _ = transforms.Flip(share=1, input="image")(x, None, Draws(0, 0, range(4)))
    np.testing.assert_array_equal(y["image"], x["image"][..., ::-1])
    assert y["other"] is x["other"]
    with pytest.raises(ValueError, match=r"Flip: input is 'picture', but samples have parts \['image', 'other'\]"):
        transforms.Flip(input="picture")(x, None, Draws(0, 0, range(4)))


def test_training_on_transformed_samples() -> None:
    """Shifted images in training, the middle in validation: all come in the shape that the network is built for."""
    x, y = images(60, 8), np.arange(60) % 3
    seen: list[tuple[bool, Array]] = []

    def spy(samples: Any, targets: Any, draws: Draws) -> tuple[Any, Any]:
        seen.append((draws.training, draws.numbers.copy()))
        return samples, targets

    net = nn.Sequential(nn.Flatten(), nn.Linear(3))
    trainer = nn.Trainer(net, batch_size=16, seed=4, quiet=True)
    history = trainer.fit(
        x, y, epochs=2, validation=(x[:20], y[:20]), transforms=[spy, transforms.Crop(6), transforms.Flip()]
    )
    assert history[-1]["loss"] < history[0]["loss"]
    order = np.random.RandomState([4, 1]).permutation(60)
    assert any(training and np.array_equal(numbers, order[16:32]) for training, numbers in seen)
    assert any(not training and np.array_equal(numbers, np.arange(20)) for training, numbers in seen)
    middle = np.ascontiguousarray(x[:20, :, 1:7, 1:7])
    np.testing.assert_array_equal(trainer.predict(x[:20]), net.eval()(middle))
    assert trainer.evaluate(x[:20], y[:20]) == {
        name: history[-1][f"validation_{name}"] for name in ("loss", "accuracy")
    }


def test_mixup_trains() -> None:
    x = np.random.RandomState(0).standard_normal((120, 2)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    net = nn.Sequential(nn.Linear(8), nn.Tanh(), nn.Linear(2))
    trainer = nn.Trainer(net, optimizer=nn.Adam(0.02), quiet=True)
    trainer.fit(x, y, epochs=30, transforms=transforms.Mixup(0.3, classes=2))
    assert trainer.evaluate(x, y)["accuracy"] > 0.9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: transforms.Flip(share=2), "share is 2. It must be a number from 0 to 1"),
        (lambda: transforms.Noise(-1), "deviation is -1. It must be at least 0"),
        (lambda: transforms.Crop(0), "Crop: size is 0"),
        (lambda: transforms.Mixup(0), "alpha is 0. It must be above 0"),
        (lambda: transforms.Normalize(0, 0), "deviation is 0. It must be above 0"),
        (
            lambda: transforms.Flip(-4)(images(), None, Draws(0, 0, range(40))),
            r"axis is -4, but samples have shape \(2, 9, 9\)",
        ),
        (
            lambda: transforms.Crop(12)(images(), None, Draws(0, 0, range(40))),
            r"window of \(12, 12\) does not fit into .*\(2, 9, 9\)",
        ),
        (
            lambda: transforms.Shift(2)(np.ones((3, 4)), None, Draws(0, 0, range(3))),
            r"distances \(2, 2\) are for the last 2 axes",
        ),
    ],
)
def test_bad_options(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_what_is_no_transform() -> None:
    x, y = images(8), np.arange(8) % 2
    trainer = nn.Trainer(nn.Sequential(nn.Flatten(), nn.Linear(2)), quiet=True)
    for given, error, message in (
        ([transforms.Flip], TypeError, r"which is not a transform\. Call it: Flip\(\.\.\.\)"),
        ("flip", TypeError, "has 'flip', which is not a transform"),
        (lambda x, y, draws: x, TypeError, "gave a ndarray, but it must give samples and targets: return x, y"),
        (lambda x, y, draws: (x[:3], y), ValueError, r"x as float32 of shape \(3, 2, 9, 9\) for 8 samples"),
        (lambda x, y, draws: (x, y + 7), ValueError, "class number 8 is out of range"),
        (transforms.Transform(), NotImplementedError, r"Transform has no change\(samples, draws\)"),
    ):
        with pytest.raises(error, match=message):
            trainer.fit(x, y, epochs=1, transforms=given)  # type: ignore[arg-type]
