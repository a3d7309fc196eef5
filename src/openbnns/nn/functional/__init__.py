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
    atan2,
    atanh,
    ceil,
    clamp,
    clamp_max,
    clamp_min,
    clip,
    cos,
    cosh,
    div,
    erf,
    erfc,
    exp,
    exp2,
    expm1,
    floor,
    floor_divide,
    fmod,
    frac,
    hypot,
    lerp,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    masked_fill,
    maximum,
    minimum,
    mul,
    nan_to_num,
    neg,
    pow,
    reciprocal,
    remainder,
    round,
    rsqrt,
    sign,
    sin,
    sinc,
    sinh,
    sqrt,
    square,
    sub,
    tan,
    trunc,
    where,
)
from ._arrangements import (
    cdist,
    cross,
    diag_embed,
    diagonal,
    diff,
    fold,
    meshgrid,
    moveaxis,
    movedim,
    repeat_interleave,
    rot90,
    swapdims,
    tensor_split,
    trace,
    unfold,
)
from ._arrangements import unwindowed as unwindowed
from ._arrangements import windows as windows
from ._arrangements import windows_along as windows_along
from ._attention import scaled_dot_product_attention
from ._comparisons import (
    all,
    any,
    eq,
    ge,
    gt,
    isfinite,
    isinf,
    isnan,
    le,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    lt,
    ne,
)
from ._comparisons import of_masks as of_masks
from ._creation import (
    arange,
    bernoulli,
    full,
    full_like,
    ones,
    ones_like,
    rand,
    rand_like,
    randn,
    randn_like,
    randperm,
    zeros,
    zeros_like,
)
from ._fourier import (
    fft,
    fft2,
    ifft,
    ifft2,
    irfft,
    irfft2,
    rfft,
    rfft2,
)
from ._layers import as_integers as as_integers
from ._layers import as_numbers as as_numbers
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
from ._positions import (
    argsort,
    cumprod,
    cumsum,
    gather,
    index_add,
    scatter,
    scatter_add,
    sort,
    take_along_dim,
    topk,
)
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
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    lp_pool1d,
    lp_pool2d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_unpool1d,
    max_unpool2d,
)

__all__ = [
    "abs", "acos", "acosh", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "add", "addcmul", "all", "amax", "amin",
    "any", "arange", "argmax", "argmin", "argsort", "asin", "asinh", "atan", "atan2", "atanh", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "batch_norm", "bernoulli", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "bmm", "cat", "cdist", "ceil", "celu", "channel_shuffle", "chunk", "clamp",
    "clamp_max", "clamp_min", "clip", "concat", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "cos", "cosh", "cosine_embedding_loss", "cosine_similarity", "cross",
    "cross_entropy", "cumprod", "cumsum", "detach", "diag_embed", "diagonal", "diff", "div", "dropout", "einsum",
    "elu", "embedding", "eq", "erf", "erfc", "exp", "exp2", "expand", "expm1", "fft", "fft2", "flatten", "flip",
    "floor", "floor_divide", "fmod", "fold", "frac", "full", "full_like", "gather", "ge", "gelu", "glu",
    "group_norm", "gt", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hinge_embedding_loss", "huber_loss",
    "hypot", "ifft", "ifft2", "index", "index_add", "index_select", "instance_norm", "interpolate", "irfft",
    "irfft2", "isfinite", "isinf", "isnan", "kl_div", "l1_loss", "layer_norm", "le", "leaky_relu", "lerp", "linear",
    "log", "log10", "log1p", "log2", "log_softmax", "logaddexp", "logical_and", "logical_not", "logical_or",
    "logical_xor", "logsigmoid", "logsumexp", "lp_pool1d", "lp_pool2d", "lt", "masked_fill", "matmul", "max",
    "max_pool1d", "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "maximum", "mean", "meshgrid", "min",
    "minimum", "mish", "moveaxis", "movedim", "mse_loss", "mul", "nan_to_num", "narrow", "ne", "neg", "nll_loss",
    "norm", "normalize", "one_hot", "ones", "ones_like", "outer", "pad", "pairwise_distance", "permute",
    "pixel_shuffle", "pixel_unshuffle", "pow", "prelu", "prod", "rand", "rand_like", "randn", "randn_like",
    "randperm", "reciprocal", "relu", "relu6", "remainder", "repeat", "repeat_interleave", "reshape", "rfft",
    "rfft2", "rms_norm", "roll", "rot90", "round", "rsqrt", "scaled_dot_product_attention", "scatter",
    "scatter_add", "select", "selu", "sigmoid", "sign", "silu", "sin", "sinc", "sinh", "smooth_l1_loss", "softmax",
    "softmin", "softplus", "softshrink", "softsign", "sort", "split", "sqrt", "square", "squeeze", "stack", "std",
    "sub", "sum", "swapdims", "take_along_dim", "tan", "tanh", "tanhshrink", "tensor_split", "threshold", "topk",
    "trace", "transpose", "tril", "triu", "trunc", "unbind", "unflatten", "unfold", "unsqueeze", "var", "where",
    "zeros", "zeros_like",
]  # fmt: skip

__dir__ = _of_module(__name__)

_document(globals())


def __getattr__(name: str) -> object:
    """What was meant by a name that is not here."""
    from .._value import DEPENDS_ON_NUMBERS
    from ..choose import nearest

    if name in ("nonzero", "masked_select", "unique", "argwhere"):
        raise AttributeError(f"nn.functional.{name}: does not exist. {DEPENDS_ON_NUMBERS}")

    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{nearest(name, __all__)}")
