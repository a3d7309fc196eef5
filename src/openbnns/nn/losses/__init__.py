"""Losses of networks: PyTorch's names with PyTorch's meaning, BNNS's names with BNNS's.

``targets`` are as in PyTorch: class numbers for losses of classes, or arrays of the network's output shape.
"""

from typing import Literal

from ..._listing import of_module as _of_module
from ._base import BoundLoss, Loss, LossAndGradient
from .bnns import (
    CosineDistanceLoss,
    HingeLoss,
    LogLoss,
    MeanAbsoluteErrorLoss,
    MeanSquareErrorLoss,
    SigmoidCrossEntropyLoss,
    YoloLoss,
)
from .classification import CategoricalCrossEntropyLoss, CrossEntropyLoss, NLLLoss, SoftmaxCrossEntropyLoss
from .elementwise import (
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    SmoothL1Loss,
)
from .expressions import (
    GaussianNLLLoss,
    MarginRankingLoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    PoissonNLLLoss,
    SoftMarginLoss,
    TripletMarginLoss,
)
from .function import FunctionLoss

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "BoundLoss", "CategoricalCrossEntropyLoss", "CosineDistanceLoss", "CosineEmbeddingLoss",
    "CrossEntropyLoss", "FunctionLoss", "GaussianNLLLoss", "HingeEmbeddingLoss", "HingeLoss", "HuberLoss", "KLDivLoss",
    "L1Loss", "LogLoss", "Loss", "LossAndGradient", "LossName", "MSELoss", "MarginRankingLoss", "MeanAbsoluteErrorLoss",
    "MeanSquareErrorLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NAMED", "NLLLoss",
    "PoissonNLLLoss", "SigmoidCrossEntropyLoss", "SmoothL1Loss", "SoftMarginLoss", "SoftmaxCrossEntropyLoss",
    "TripletMarginLoss", "YoloLoss",
]  # fmt: skip

LossName = Literal[
    "cross_entropy", "mse", "l1", "huber", "bce_with_logits", "bce", "nll", "kl_div", "smooth_l1", "hinge_embedding",
    "poisson_nll", "soft_margin", "multi_margin", "multilabel_soft_margin",
    "softmax_cross_entropy", "sigmoid_cross_entropy", "categorical_cross_entropy", "mean_square_error",
    "mean_absolute_error", "cosine_distance", "hinge", "log",
]  # fmt: skip

NAMED: dict[str, type[Loss]] = {
    "cross_entropy": CrossEntropyLoss,
    "mse": MSELoss,
    "l1": L1Loss,
    "huber": HuberLoss,
    "bce_with_logits": BCEWithLogitsLoss,
    "bce": BCELoss,
    "nll": NLLLoss,
    "kl_div": KLDivLoss,
    "smooth_l1": SmoothL1Loss,
    "hinge_embedding": HingeEmbeddingLoss,
    "poisson_nll": PoissonNLLLoss,
    "soft_margin": SoftMarginLoss,
    "multi_margin": MultiMarginLoss,
    "multilabel_soft_margin": MultiLabelSoftMarginLoss,
    "softmax_cross_entropy": SoftmaxCrossEntropyLoss,
    "sigmoid_cross_entropy": SigmoidCrossEntropyLoss,
    "categorical_cross_entropy": CategoricalCrossEntropyLoss,
    "mean_square_error": MeanSquareErrorLoss,
    "mean_absolute_error": MeanAbsoluteErrorLoss,
    "cosine_distance": CosineDistanceLoss,
    "hinge": HingeLoss,
    "log": LogLoss,
}
"""Losses that need no arguments, by name."""

__dir__ = _of_module(__name__)
