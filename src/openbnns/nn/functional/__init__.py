"""Functions of the values in ``forward``, with PyTorch's names; ``dim`` counts the batch axis, as there.

Each is recorded as a layer or function of BNNS with a backward pass of its own. Outside of a network they run on arrays
at once.

>>> import numpy as np
>>> from openbnns import nn
>>> from openbnns.nn import functional as F
>>> class Pooled(nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.score = nn.Linear(1)
...     def forward(self, x):
...         return F.sum(F.softmax(self.score(x), dim=1) * x, dim=1)
>>> Pooled()(np.ones((2, 5, 3), np.float32)).shape
(2, 3)
"""

from ._activations import (
    celu,
    elu,
    gelu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_softmax,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    scaled_dot_product_attention,
    selu,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
    threshold,
)
from ._arithmetic import (
    abs,
    acos,
    acosh,
    add,
    addcmul,
    asin,
    asinh,
    atan,
    atanh,
    ceil,
    clamp,
    clip,
    cos,
    cosh,
    div,
    erf,
    exp,
    exp2,
    floor,
    lerp,
    log,
    log2,
    masked_fill,
    maximum,
    minimum,
    mul,
    neg,
    pow,
    reciprocal,
    round,
    rsqrt,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    sub,
    tan,
    where,
)
from ._layers import detach, dropout, embedding, one_hot
from ._normalizations import batch_norm, group_norm, instance_norm, layer_norm, rms_norm
from ._products import bmm, einsum, linear, matmul, outer
from ._reductions import (
    amax,
    amin,
    argmax,
    argmin,
    cosine_similarity,
    logsumexp,
    max,
    mean,
    min,
    norm,
    normalize,
    pairwise_distance,
    prod,
    std,
    sum,
    var,
)
from ._shapes import (
    cat,
    chunk,
    concat,
    expand,
    flatten,
    flip,
    index,
    index_select,
    narrow,
    permute,
    repeat,
    reshape,
    roll,
    select,
    split,
    squeeze,
    stack,
    transpose,
    tril,
    triu,
    unbind,
    unflatten,
    unsqueeze,
)
from ._sizes import channel_shuffle, interpolate, pad, pixel_shuffle, pixel_unshuffle
from ._windows import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    avg_pool1d,
    avg_pool2d,
    conv1d,
    conv2d,
    conv_transpose1d,
    conv_transpose2d,
    lp_pool1d,
    lp_pool2d,
    max_pool1d,
    max_pool2d,
    max_unpool1d,
    max_unpool2d,
)

__all__ = [
    "abs", "acos", "acosh", "add", "addcmul", "amax", "amin", "argmax", "argmin", "asin", "asinh", "atan", "atanh",
    "bmm", "cat", "ceil", "celu", "chunk", "clamp", "clip", "concat", "cos", "cosh", "cosine_similarity", "detach",
    "div", "dropout", "einsum", "elu", "embedding", "erf", "exp", "exp2", "expand", "flatten", "flip", "floor",
    "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "index", "index_select", "leaky_relu",
    "lerp", "linear", "log", "log2", "log_softmax", "logsigmoid", "logsumexp", "masked_fill", "matmul", "max",
    "maximum", "mean", "min", "minimum", "mish", "mul", "narrow", "neg", "norm", "normalize", "one_hot", "outer",
    "pairwise_distance", "permute", "pow", "prelu", "prod", "reciprocal", "relu", "relu6", "repeat", "reshape",
    "roll", "round", "rsqrt", "scaled_dot_product_attention", "select", "selu", "sigmoid", "sign", "silu", "sin",
    "sinh", "softmax", "softmin", "softplus", "softshrink", "softsign", "split", "sqrt", "square", "squeeze", "stack",
    "std", "sub", "sum", "tan", "tanh", "tanhshrink", "threshold", "transpose", "tril", "triu", "unbind", "unflatten",
    "unsqueeze", "var", "where",
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d", "avg_pool1d", "avg_pool2d",
    "batch_norm", "channel_shuffle", "conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d", "group_norm",
    "instance_norm", "interpolate", "layer_norm", "lp_pool1d", "lp_pool2d", "max_pool1d", "max_pool2d", "max_unpool1d",
    "max_unpool2d", "pad", "pixel_shuffle", "pixel_unshuffle", "rms_norm",
]  # fmt: skip
