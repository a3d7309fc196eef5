"""Losses of networks: those with PyTorch's names have PyTorch's meaning, and :class:`BNNSLoss` has BNNS's.

``targets`` are as in PyTorch: class numbers for losses of classes, or arrays of the network's output shape.
"""

from typing import Literal

from ..._listing import of_module as _of_module
from ._base import BoundLoss, Loss, LossAndGradient
from .bnns import BNNSLoss
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
    "BCELoss", "BCEWithLogitsLoss", "BNNSLoss", "BoundLoss", "CategoricalCrossEntropyLoss", "CosineEmbeddingLoss",
    "CrossEntropyLoss", "FunctionLoss", "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "Loss",
    "LossAndGradient", "LossName", "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss",
    "MultiMarginLoss", "NAMED", "NLLLoss", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "SoftmaxCrossEntropyLoss",
    "TripletMarginLoss",
]  # fmt: skip

LossName = Literal[
    "cross_entropy", "mse", "l1", "huber", "bce_with_logits", "bce", "nll", "kl_div", "smooth_l1", "hinge_embedding",
    "poisson_nll", "soft_margin", "multi_margin", "multilabel_soft_margin",
    "softmax_cross_entropy", "categorical_cross_entropy",
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
    "categorical_cross_entropy": CategoricalCrossEntropyLoss,
}
"""Losses that need no arguments, by name."""

__dir__ = _of_module(__name__)
