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

from ..._listing import of_module as _of_module
from .._expression import document as _document
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
from ._attention import scaled_dot_product_attention
from ._layers import detach, dropout, embedding, one_hot
from ._losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    cross_entropy,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
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
    "abs", "acos", "acosh", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "add", "addcmul", "amax", "amin", "argmax", "argmin", "asin", "asinh", "atan", "atanh",
    "avg_pool1d", "avg_pool2d", "batch_norm", "binary_cross_entropy", "binary_cross_entropy_with_logits", "bmm",
    "cat", "ceil", "celu", "channel_shuffle", "chunk", "clamp", "clip", "concat", "conv1d", "conv2d",
    "conv_transpose1d", "conv_transpose2d", "cos", "cosh", "cosine_embedding_loss", "cosine_similarity",
    "cross_entropy", "detach", "div", "dropout", "einsum", "elu", "embedding", "erf", "exp", "exp2", "expand",
    "flatten", "flip", "floor", "gelu", "glu", "group_norm", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
    "hinge_embedding_loss", "huber_loss", "index", "index_select", "instance_norm", "interpolate", "kl_div",
    "l1_loss", "layer_norm", "leaky_relu", "lerp", "linear", "log", "log2", "log_softmax", "logsigmoid", "logsumexp",
    "lp_pool1d", "lp_pool2d", "masked_fill", "matmul", "max", "max_pool1d", "max_pool2d", "max_unpool1d",
    "max_unpool2d", "maximum", "mean", "min", "minimum", "mish", "mse_loss", "mul", "narrow", "neg", "nll_loss",
    "norm", "normalize", "one_hot", "outer", "pad", "pairwise_distance", "permute", "pixel_shuffle",
    "pixel_unshuffle", "pow", "prelu", "prod", "reciprocal", "relu", "relu6", "repeat", "reshape", "rms_norm", "roll",
    "round", "rsqrt", "scaled_dot_product_attention", "select", "selu", "sigmoid", "sign", "silu", "sin", "sinh",
    "smooth_l1_loss", "softmax", "softmin", "softplus", "softshrink", "softsign", "split", "sqrt", "square",
    "squeeze", "stack", "std", "sub", "sum", "tan", "tanh", "tanhshrink", "threshold", "transpose", "tril", "triu",
    "unbind", "unflatten", "unsqueeze", "var", "where",
]  # fmt: skip

__dir__ = _of_module(__name__)

_document(globals())


def __getattr__(name: str) -> object:
    """What was meant by a name that is not here."""
    from ..choose import nearest

    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{nearest(name, __all__)}")
