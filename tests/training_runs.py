"""Small training runs that are stopped, resumed and compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from openbnns import nn

Array = np.ndarray


def points(count: int = 90, seed: int = 0) -> tuple[Array, Array]:
    """Points in the plane, whose class is the sign of the product of their coordinates."""
    x = np.random.RandomState(seed).standard_normal((count, 2)).astype(np.float32)
    return x, (x[:, 0] * x[:, 1] > 0).astype(np.int64)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(2))


def weights_of(net: nn.Module) -> Array:
    return np.concatenate([array.ravel() for array in net.state_dict().values()])


def fit(
    folder: Path,
    epochs: int = 4,
    resume: bool | str = False,
    *,
    net: Callable[[], nn.Module] = network,
    data: tuple[Array, Array] | None = None,
    validation: tuple[Array, Array] | None = None,
    said: list[str] | None = None,
    **options: Any,
) -> Array:
    """The weights of a small run; ``options`` are other than usual."""
    module = net()
    usual: dict[str, Any] = {"loss": "cross_entropy", "optimizer": nn.Adam(0.01), "batch_size": 16, "seed": 2}
    trainer = nn.Trainer(
        module, out=folder, **{**usual, **options}, say=(lambda text: None) if said is None else said.append
    )
    x, y = data or points()
    trainer.fit(x, y, epochs=epochs, resume=resume, validation=validation or points(20, 9))
    return weights_of(module)


def mlp(*layers: nn.Module) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(16), *layers, nn.Linear(2))


def copy(folder: Path, target: Path) -> Path:
    target.mkdir(exist_ok=True)
    for path in folder.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return target
