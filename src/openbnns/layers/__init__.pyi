# Written by tools/generate_stubs.py from __init__.py; edit that, not this file.
from .base import (
    Gradients as Gradients,
    InputGradient as InputGradient,
    InputGradients as InputGradients,
    Layer as Layer,
    UnaryLayer as UnaryLayer,
)
from ._binary import (
    BinaryLayer as BinaryLayer,
)
from ._fused_parameters import (
    FusableLayerParameters as FusableLayerParameters,
    FusedBinaryArithmeticParameters as FusedBinaryArithmeticParameters,
    FusedConvolutionParameters as FusedConvolutionParameters,
    FusedDequantizationParameters as FusedDequantizationParameters,
    FusedFullyConnectedParameters as FusedFullyConnectedParameters,
    FusedNormalizationParameters as FusedNormalizationParameters,
    FusedQuantizationParameters as FusedQuantizationParameters,
    FusedTernaryArithmeticParameters as FusedTernaryArithmeticParameters,
    FusedUnaryArithmeticParameters as FusedUnaryArithmeticParameters,
)
from ._ports import (
    skip as skip,
)
from .activation import (
    ActivationGradients as ActivationGradients,
    ActivationLayer as ActivationLayer,
    apply_activation as apply_activation,
)
from .arithmetic import (
    BinaryArithmeticLayer as BinaryArithmeticLayer,
    InputGradients3 as InputGradients3,
    TernaryArithmeticLayer as TernaryArithmeticLayer,
    UnaryArithmeticLayer as UnaryArithmeticLayer,
)
from .attention import (
    AttentionGradients as AttentionGradients,
    MultiheadAttentionLayer as MultiheadAttentionLayer,
)
from .clipping import (
    clip as clip,
    clip_by_global_norm as clip_by_global_norm,
    clip_by_norm as clip_by_norm,
    compute_norm as compute_norm,
    compute_norm_backward as compute_norm_backward,
)
from .contraction import (
    TensorContractionLayer as TensorContractionLayer,
)
from .convolution import (
    ConvolutionLayer as ConvolutionLayer,
)
from .crop_resize import (
    CropResizeLayer as CropResizeLayer,
)
from .dropout import (
    DropoutLayer as DropoutLayer,
)
from .embedding import (
    EmbeddingLayer as EmbeddingLayer,
)
from .fully_connected import (
    FullyConnectedLayer as FullyConnectedLayer,
)
from .fused import (
    FusedConvolutionNormalizationLayer as FusedConvolutionNormalizationLayer,
    FusedFullyConnectedNormalizationLayer as FusedFullyConnectedNormalizationLayer,
    FusedGradients as FusedGradients,
    FusedGradients2 as FusedGradients2,
    FusedGradients3 as FusedGradients3,
    FusedLayer as FusedLayer,
    FusedParametersLayer as FusedParametersLayer,
)
from .gram import (
    GramLayer as GramLayer,
)
from .loss import (
    LossLayer as LossLayer,
    LossResult as LossResult,
)
from .lstm import (
    LSTMGradients as LSTMGradients,
    LSTMLayer as LSTMLayer,
    LSTMResult as LSTMResult,
)
from .matmul import (
    BroadcastMatrixMultiplyLayer as BroadcastMatrixMultiplyLayer,
    apply_matrix_multiplication as apply_matrix_multiplication,
    matrix_multiplication_workspace_size as matrix_multiplication_workspace_size,
)
from .moves import (
    compare as compare,
    copy as copy,
    copy_band_part as copy_band_part,
    shuffle as shuffle,
    tile as tile,
    tile_backward as tile_backward,
    transpose as transpose,
)
from .nearest_neighbors import (
    NearestNeighbors as NearestNeighbors,
    Neighbors as Neighbors,
)
from .normalization import (
    NormalizationGradients as NormalizationGradients,
    NormalizationLayer as NormalizationLayer,
)
from .optimizer import (
    AdamOptimizer as AdamOptimizer,
    AdamWOptimizer as AdamWOptimizer,
    Optimizer as Optimizer,
    RMSPropOptimizer as RMSPropOptimizer,
    SGDMomentumOptimizer as SGDMomentumOptimizer,
)
from .padding import (
    PaddingLayer as PaddingLayer,
)
from .permute import (
    PermuteLayer as PermuteLayer,
)
from .pooling import (
    PoolingGradients as PoolingGradients,
    PoolingLayer as PoolingLayer,
)
from .quantization import (
    dequantize as dequantize,
    quantize as quantize,
)
from .random_numbers import (
    RandomGenerator as RandomGenerator,
    RandomGeneratorState as RandomGeneratorState,
)
from .reduction import (
    ReductionLayer as ReductionLayer,
    apply_reduction as apply_reduction,
)
from .resize import (
    ResizeLayer as ResizeLayer,
)
from .selection import (
    TopK as TopK,
    apply_in_top_k as apply_in_top_k,
    apply_top_k as apply_top_k,
    gather as gather,
    gather_nd as gather_nd,
    scatter as scatter,
    scatter_nd as scatter_nd,
)
