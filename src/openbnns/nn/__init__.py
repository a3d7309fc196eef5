"""Networks and training on top of the layers of ``openbnns``.

>>> import numpy as np
>>> from openbnns import nn
>>> net = nn.Sequential(nn.Conv2d(8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(10))
>>> net.build((1, 8, 8), seed=0)(np.zeros((32, 1, 8, 8), np.float32)).shape
(32, 10)
"""

from typing import TYPE_CHECKING

from .._listing import of_module as _of_module
from ..files import safetensors as weights
from ..graph.numpy_function import Function
from ..graph.parameter import Mismatch, Parameter
from ..graph.seeds import manual_seed
from ..graph.tensor import Tensor as Value
from . import checkpoints, data, functional, initialisers, losses, metrics, models, schedules, transforms, utils
from .activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Activation,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softmax2d,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from .callbacks import Callback, EarlyStopping
from .containers import Add, ModuleDict, ModuleList, Residual, Sequential
from .convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .data import sources
from .ema import EMA
from .history import History
from .layers import (
    Bilinear,
    Concatenate,
    Dropout,
    Dropout1d,
    Dropout2d,
    Embedding,
    EmbeddingBag,
    Flatten,
    Identity,
    Linear,
    Reshape,
    Unflatten,
)
from .losses import (
    BCELoss,
    BCEWithLogitsLoss,
    BNNSLoss,
    CategoricalCrossEntropyLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    FunctionLoss,
    GaussianNLLLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    Loss,
    MarginRankingLoss,
    MSELoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    NLLLoss,
    PoissonNLLLoss,
    SmoothL1Loss,
    SoftMarginLoss,
    SoftmaxCrossEntropyLoss,
    TripletMarginLoss,
)
from .module import Module
from .normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    LocalResponseNorm,
    RMSNorm,
)
from .optimizers import SGD, Adagrad, Adam, Adamax, AdamW, Optimizer, RMSprop
from .padding import (
    CircularPad1d,
    CircularPad2d,
    CircularPad3d,
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
)
from .pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    GlobalAvgPool2d,
    LPPool1d,
    LPPool2d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
)
from .resize import (
    ChannelShuffle,
    Fold,
    PixelShuffle,
    PixelUnshuffle,
    Unfold,
    Upsample,
    UpsamplingBilinear2d,
    UpsamplingNearest2d,
)
from .schedules import (
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
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)
from .sequences import (
    GRU,
    LSTM,
    RNN,
    GRUCell,
    LearnedEncoding,
    LSTMCell,
    MultiheadAttention,
    RNNCell,
    RotaryEncoding,
    SinusoidalEncoding,
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from .trainer import Diverged, Interrupted, Trainer

if TYPE_CHECKING:
    from .. import distributed, report
    from ..interop import onnx
    from ..interop import torch as pytorch
    from ..interop.coreml.mlmodel import from_mlmodel
    from ..interop.coreml.network import from_coreml
    from ..interop.onnx import from_onnx
    from ..interop.torch import from_torch, to_torch_state_dict
    from .files.model_file import ModelCard
    from .files.model_file import load as load_model
    from .predictions import Predictions

__all__ = [
    "Module", "Sequential", "ModuleList", "ModuleDict", "Residual", "Add", "Concatenate", "Parameter", "Value",
    "Function", "Mismatch", "Linear", "Conv2d", "ConvTranspose2d", "MaxPool2d", "AvgPool2d", "GlobalAvgPool2d", "Flatten",
    "Reshape", "Identity", "Activation", "ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "GELU", "SiLU", "Sigmoid",
    "LogSigmoid", "Tanh", "Conv1d", "ConvTranspose1d", "MaxPool1d", "AvgPool1d", "Softplus", "Softsign", "Hardswish",
    "Hardsigmoid", "Softmax", "LogSoftmax", "Dropout", "Embedding", "BatchNorm1d", "BatchNorm2d", "InstanceNorm1d",
    "InstanceNorm2d", "LayerNorm", "GroupNorm", "LSTM", "MultiheadAttention", "TransformerEncoderLayer", "Loss",
    "CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss", "KLDivLoss", "MSELoss", "L1Loss", "SmoothL1Loss",
    "HuberLoss", "CosineEmbeddingLoss", "HingeEmbeddingLoss", "SoftmaxCrossEntropyLoss", "CategoricalCrossEntropyLoss",
    "BNNSLoss", "FunctionLoss", "Optimizer", "SGD", "Adam", "AdamW", "RMSprop", "Trainer", "Diverged", "Interrupted",
    "checkpoints", "data", "distributed", "functional", "initialisers", "losses", "manual_seed", "models", "schedules",
    "weights", "Callback", "EarlyStopping", "metrics", "transforms", "Adagrad", "Adamax", "EMA", "utils", "GRU", "RNN",
    "Transformer", "TransformerEncoder", "TransformerDecoder", "TransformerDecoderLayer", "SinusoidalEncoding",
    "LearnedEncoding", "RotaryEncoding", "LPPool1d", "LPPool2d", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d",
    "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "MaxUnpool1d", "MaxUnpool2d", "ConstantPad1d", "ConstantPad2d", "ZeroPad1d",
    "ZeroPad2d", "ReflectionPad1d", "ReflectionPad2d", "ReplicationPad1d", "ReplicationPad2d", "CircularPad1d",
    "CircularPad2d", "Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d", "PixelShuffle", "PixelUnshuffle",
    "ChannelShuffle", "Unflatten", "Bilinear", "PReLU", "CELU", "Mish", "GLU", "Threshold", "Hardtanh", "Hardshrink",
    "Softshrink", "Tanhshrink", "Softmin", "Softmax2d", "Dropout1d", "Dropout2d", "EmbeddingBag", "RMSNorm", "LSTMCell",
    "GRUCell", "RNNCell", "LRScheduler", "LambdaLR", "StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR",
    "PolynomialLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "OneCycleLR", "ReduceLROnPlateau", "SequentialLR",
    "ChainedScheduler", "from_torch", "to_torch_state_dict", "pytorch", "History", "sources", "load_model", "ModelCard",
    "Predictions", "report", "from_mlmodel", "from_onnx", "onnx", "Conv3d", "ConvTranspose3d", "MaxPool3d", "AvgPool3d",
    "AdaptiveAvgPool3d", "AdaptiveMaxPool3d", "BatchNorm3d", "InstanceNorm3d", "ConstantPad3d", "ZeroPad3d",
    "ReflectionPad3d", "ReplicationPad3d", "CircularPad3d", "from_coreml", "Unfold", "Fold", "LocalResponseNorm",
    "GaussianNLLLoss", "MarginRankingLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss",
    "PoissonNLLLoss", "SoftMarginLoss", "TripletMarginLoss",
]  # fmt: skip

__dir__ = _of_module(__name__)

_LATER = {
    "onnx": ("interop.onnx", None),
    "pytorch": ("interop.torch", None),
    "report": ("report", None),
    "distributed": ("distributed", None),
    "from_onnx": ("interop.onnx", "from_onnx"),
    "from_torch": ("interop.torch", "from_torch"),
    "from_mlmodel": ("interop.coreml.mlmodel", "from_mlmodel"),
    "from_coreml": ("interop.coreml.network", "from_coreml"),
    "to_torch_state_dict": ("interop.torch", "to_torch_state_dict"),
    "load_model": ("nn.files.model_file", "load"),
    "ModelCard": ("nn.files.model_file", "ModelCard"),
    "Predictions": ("nn.predictions", "Predictions"),
}
"""Names that are imported when they are first used: those of the rooms above this one, and those that few programs need.

Each with its module and its name there.
"""


def __getattr__(name: str) -> object:
    """Import a name when it is first used; for a name of PyTorch that is not here, hint at its counterpart."""
    if name in _LATER:
        from importlib import import_module

        home, inside = _LATER[name]
        module = import_module(f"openbnns.{home}")
        return module if inside is None else getattr(module, inside)
    from .._elsewhere import NAMES
    from .._spelling import nearest

    hint = f" {NAMES[name]}" if name in NAMES else nearest(name, __all__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{hint}")
