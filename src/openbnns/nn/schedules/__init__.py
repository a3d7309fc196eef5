"""Learning rates over time.

A schedule is a function (step, total steps) -> factor of the learning rate, which a trainer calls before every step: one of
the classes with PyTorch's names, or any other function. The classes can be stepped by hand, too: ``schedule.step()`` sets
the learning rates of the optimizer that it was made with.
"""

from collections.abc import Callable
from typing import Literal

from ..._listing import of_module as _of_module
from .plateau import ReduceLROnPlateau
from .schedulers import (
    ChainedScheduler,
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    Schedule,
    SequentialLR,
    StepLR,
    WarmUp,
)

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR", "LRScheduler",
    "LambdaLR", "LinearLR", "MultiStepLR", "NAMED", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "Schedule",
    "ScheduleName", "SequentialLR", "StepLR",
]  # fmt: skip

ScheduleName = Literal["constant", "step", "cosine", "warmup", "warmup_cosine"]

NAMED: dict[str, Callable[[], Schedule]] = {
    "constant": lambda: lambda step, total: 1.0,
    "step": StepLR,
    "cosine": CosineAnnealingLR,
    "warmup": lambda: WarmUp(ConstantLR(factor=1.0, total_iters=0)),
    "warmup_cosine": lambda: WarmUp(CosineAnnealingLR()),
}

__dir__ = _of_module(__name__)
