"""OpenBNNS: classic BNNS filters, forward and backward, on any machine.

``openbnns`` holds layers that take NumPy arrays; ``openbnns.capi`` is the C interface under its own names.
"""

__version__ = "0.1.0"

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import capi, compat
from .engines import current as current_engine
from .engines import engine
from .errors import (
    BNNSError,
    InvalidDescriptorError,
    LayerApplyError,
    LayerCreationError,
    OptimizerStepError,
    last_error,
)
from .runtime import get_num_threads, set_num_threads, show_config

if TYPE_CHECKING:
    from . import datasets, layers
    from .gradient_check import GradientReport, gradcheck
    from .layers import (
        ActivationGradients,
        ActivationLayer,
        BinaryArithmeticLayer,
        BinaryLayer,
        ConvolutionLayer,
        DropoutLayer,
        EmbeddingLayer,
        FullyConnectedLayer,
        Gradients,
        InputGradient,
        InputGradients,
        InputGradients3,
        Layer,
        LossLayer,
        LossResult,
        PoolingGradients,
        PoolingLayer,
        TernaryArithmeticLayer,
        UnaryArithmeticLayer,
        UnaryLayer,
        apply_activation,
        dequantize,
        quantize,
        skip,
    )
    from .layers.types import (
        ActivationFunction,
        ArithmeticBinaryFunction,
        ArithmeticTernaryFunction,
        ArithmeticUnaryFunction,
        BoxCoordinateMode,
        ConvolutionPadding,
        ConvolutionType,
        DataLayout,
        DataType,
        DescriptorType,
        GradientClipping,
        InterpolationMethod,
        LearningPhase,
        LinearSamplingMode,
        LossFunction,
        LossReduction,
        Norm,
        NormalizationType,
        PaddingMode,
        PoolingType,
        RandomGeneratorMethod,
        ReductionFunction,
        RegularizationFunction,
        RelationalOperator,
        SGDMomentumVariant,
        Shape,
        ShuffleType,
        SparseLayout,
        SparseParameters,
        SparsityType,
        TargetSystem,
        YoloParameters,
    )

__all__ = [
    "capi",
    "compat",
    "datasets",
    "layers",
    "current_engine",
    "engine",
    "get_num_threads",
    "set_num_threads",
    "show_config",
    "BNNSError",
    "InvalidDescriptorError",
    "LayerApplyError",
    "LayerCreationError",
    "OptimizerStepError",
    "last_error",
    "GradientReport",
    "gradcheck",
    "ActivationGradients",
    "ActivationLayer",
    "BinaryArithmeticLayer",
    "BinaryLayer",
    "ConvolutionLayer",
    "DropoutLayer",
    "EmbeddingLayer",
    "FullyConnectedLayer",
    "Gradients",
    "InputGradient",
    "InputGradients",
    "InputGradients3",
    "Layer",
    "LossLayer",
    "LossResult",
    "PoolingGradients",
    "PoolingLayer",
    "TernaryArithmeticLayer",
    "UnaryArithmeticLayer",
    "UnaryLayer",
    "apply_activation",
    "dequantize",
    "quantize",
    "skip",
    "ActivationFunction",
    "ArithmeticBinaryFunction",
    "ArithmeticTernaryFunction",
    "ArithmeticUnaryFunction",
    "BoxCoordinateMode",
    "ConvolutionPadding",
    "ConvolutionType",
    "DataLayout",
    "DataType",
    "DescriptorType",
    "GradientClipping",
    "InterpolationMethod",
    "LearningPhase",
    "LinearSamplingMode",
    "LossFunction",
    "LossReduction",
    "Norm",
    "NormalizationType",
    "PaddingMode",
    "PoolingType",
    "RandomGeneratorMethod",
    "ReductionFunction",
    "RegularizationFunction",
    "RelationalOperator",
    "SGDMomentumVariant",
    "Shape",
    "ShuffleType",
    "SparseLayout",
    "SparseParameters",
    "SparsityType",
    "TargetSystem",
    "YoloParameters",
]

# Where the names live that load when first used, which keeps ``import openbnns`` light.
_LATE = ("layers", "layers.types", "gradient_check", "datasets")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for place in _LATE:
            module = import_module(f"{__name__}.{place}")
            found = module if name == place else getattr(module, name, None)
            if found is not None:
                globals()[name] = found
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
