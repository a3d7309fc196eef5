"""The operations of networks, each on one layer of ``openbnns``."""

from ._base import adding
from ._kept import KeepingPlan
from ._window import Window
from .activation import Activation
from .arithmetic import Arithmetic, broadcast
from .attention import Attention, Forbidden, LatestAttention
from .branch import Branch
from .convolution import Convolution, GroupedTransposedConvolution
from .data_sizes import SizedByData
from .dropout import Dropout
from .elementwise import Elementwise
from .embedding import Embedding
from .fourier import FourierTransform
from .function import CustomFunction
from .heads import AttentionHeads, parts_of
from .integers import Convert, FlatIndex, Range
from .linear import Linear
from .lstm import Lstm
from .moves import Concatenate, Detach, Expand, Permute, Pick, Slice, Split
from .normalization import Normalization
from .padding import PADDINGS, pad
from .pooling import MaxPoolingWithIndices, MaxUnpooling, Pooling
from .positions import AddEntries, Cumulative, PutAlong, Sort, Take, TakeAlong
from .prelu import Prelu
from .product import Contraction, MatrixProduct
from .random_numbers import RandomNumbers
from .recurrent import Recurrent
from .reduction import Reduction
from .resize import PixelShuffle, Resize
from .rotary import Rotate

__all__ = [
    "Activation", "Arithmetic", "Attention", "Concatenate", "Contraction", "Convolution", "CustomFunction", "Detach",
    "Dropout", "Embedding", "Expand", "Linear", "Lstm", "MatrixProduct", "Normalization", "Permute", "Pick",
    "Pooling", "Reduction", "Slice", "Split", "adding", "broadcast", "PADDINGS", "GroupedTransposedConvolution",
    "MaxPoolingWithIndices", "MaxUnpooling", "Window", "pad", "Recurrent", "Rotate", "Forbidden", "PixelShuffle",
    "Prelu", "Resize", "AttentionHeads", "parts_of", "KeepingPlan", "LatestAttention", "Elementwise", "FourierTransform",
    "Convert", "FlatIndex", "Range", "AddEntries", "Cumulative", "PutAlong", "Sort", "Take", "TakeAlong",
    "RandomNumbers", "Branch", "SizedByData",
]  # fmt: skip
