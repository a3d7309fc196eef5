"""Gradient checks: :func:`gradcheck` (check.py), the layers of ``openbnns check`` (cases.py), and what families add."""

from __future__ import annotations

from ..filters.activation import ActivationFilter
from ..filters.arithmetic import Arithmetic
from ..filters.attention import MultiheadAttention
from ..filters.base import Filter
from ..filters.embedding import Embedding
from ..filters.fused import Fused
from ..filters.loss import Loss
from ..filters.pooling import Pooling
from ..layers.base import Layer
from ..layers.lstm import LSTMLayer
from ._base import Subject
from .activation import ActivationSubject
from .arithmetic import ArithmeticSubject
from .attention import AttentionSubject
from .embedding import EmbeddingSubject
from .fused import FusedSubject
from .loss import LossSubject
from .lstm import LstmSubject
from .pooling import PoolingSubject

SUBJECTS: dict[type[Filter], type[Subject]] = {
    ActivationFilter: ActivationSubject,
    Arithmetic: ArithmeticSubject,
    Embedding: EmbeddingSubject,
    Fused: FusedSubject,
    Loss: LossSubject,
    MultiheadAttention: AttentionSubject,
    Pooling: PoolingSubject,
}
"""Families about which their records do not say all."""


def subject_of(layer_or_filter: Layer | Filter) -> Subject:
    """What to check of a layer or filter."""
    if isinstance(layer_or_filter, LSTMLayer):
        return LstmSubject(layer_or_filter)
    filter = layer_or_filter.bnns_filter if isinstance(layer_or_filter, Layer) else layer_or_filter
    return SUBJECTS.get(type(filter), Subject)(filter)
