"""The operations of networks, most of them on one layer of ``openbnns`` each."""

from ..operation import Convert
from .activation import Activation, Prelu
from .attention import Attention, Forbidden, LatestAttention
from .attention_heads import AttentionHeads, Part, Rotate, parts_of
from .composite import Composite
from .control import Branch, Choice
from .convolution import Convolution, GroupedTransposedConvolution
from .custom_function import CustomFunction, FunctionContext, SizedByData, as_list
from .fourier import FourierTransform
from .fused import NormalizedOperation
from .indexing import AddEntries, Embedding, FlatIndex, PutAlong, Range, Take, TakeAlong
from .keeping_plan import KeepingPlan
from .lstm import Lstm
from .moves import Concatenate, Detach, Expand, Permute, Pick, Slice, Split
from .node import Node, broadcast
from .normalization import Normalization
from .padding import PADDINGS, Padding, pad
from .pooling import MaxPoolingWithIndices, MaxUnpooling, Pooling
from .products import Contraction, Linear, MatrixProduct
from .random_numbers import Dropout, RandomNumbers
from .recurrent import InitialState, Recurrent, for_samples
from .reduction import Cumulative, Reduction, Sort
from .resize import PixelShuffle, Resize
from .window import Window

__all__ = [
    "PADDINGS", "Activation", "AddEntries", "Attention", "AttentionHeads", "Branch", "Choice",
    "Composite", "Concatenate", "Contraction", "Convert", "Convolution", "Cumulative", "CustomFunction", "Detach", "Dropout",
    "Embedding", "Expand", "FlatIndex", "Forbidden", "FourierTransform", "FunctionContext",
    "GroupedTransposedConvolution", "InitialState", "KeepingPlan", "LatestAttention", "Linear", "Lstm", "MatrixProduct",
    "MaxPoolingWithIndices", "MaxUnpooling", "Node", "Normalization", "NormalizedOperation", "Padding", "Part", "Permute", "Pick",
    "PixelShuffle", "Pooling", "Prelu", "PutAlong", "RandomNumbers", "Range", "Recurrent", "Reduction", "Resize", "Rotate",
    "SizedByData", "Slice", "Sort", "Split", "Take", "TakeAlong", "Window", "as_list", "broadcast", "for_samples", "pad",
    "parts_of",
]  # fmt: skip
