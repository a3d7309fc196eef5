"""Learning rates over time.

A schedule is a function (step, total steps) -> factor of the learning rate, which a trainer asks before every step: one of the
functions here, any other, or one of the schedules with PyTorch's names. The latter can be stepped by hand, too:
``schedule.step()`` sets the learning rates of the optimizer that it was made with.
"""

from collections.abc import Callable
from typing import Literal

from ..._listing import of_module as _of_module
from .combined import ChainedScheduler, SequentialLR
from .factors import Schedule, constant, cosine, per_epoch, step_decay, warm_up
from .plateau import ReduceLROnPlateau
from .scheduler import LRScheduler
from .schedulers import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    StepLR,
)

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR", "LRScheduler",
    "LambdaLR", "LinearLR", "MultiStepLR", "NAMED", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "Schedule",
    "ScheduleName", "SequentialLR", "StepLR", "constant", "cosine", "per_epoch", "step_decay", "warm_up",
]  # fmt: skip

ScheduleName = Literal["constant", "step", "cosine", "warmup", "warmup_cosine"]

NAMED: dict[str, Callable[[], Schedule]] = {
    "constant": constant,
    "step": step_decay,
    "cosine": cosine,
    "warmup": lambda: warm_up(0.05),
    "warmup_cosine": lambda: warm_up(0.05, cosine()),
}

__dir__ = _of_module(__name__)
