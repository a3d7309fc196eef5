"""Subjects of gradcheck, one file per family of filters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import Problem
from ..filters._base import Filter, UnaryFilter
from ..filters._contraction import Contraction
from ..filters.activation import ActivationFilter
from ..filters.arithmetic import Arithmetic
from ..filters.attention import MultiheadAttention
from ..filters.dropout import Dropout
from ..filters.embedding import Embedding
from ..filters.fused import Fused
from ..filters.loss import Loss
from ..filters.normalization import Normalization
from ..filters.pooling import Pooling
from ._base import Subject, UnarySubject
from .activation import ActivationSubject
from .arithmetic import ArithmeticSubject
from .attention import AttentionSubject
from .contraction import ContractionSubject
from .dropout import DropoutSubject
from .embedding import EmbeddingSubject
from .fused import FusedSubject
from .loss import LossSubject
from .normalization import NormalizationSubject
from .pooling import pooling_subject

SUBJECTS: dict[type[Filter], Callable[[Any], Subject]] = {
    Arithmetic: ArithmeticSubject,
    Fused: FusedSubject,
    Dropout: DropoutSubject,
    Embedding: EmbeddingSubject,
    Loss: LossSubject,
    Normalization: NormalizationSubject,
    MultiheadAttention: AttentionSubject,
    ActivationFilter: ActivationSubject,
    Contraction: ContractionSubject,
    Pooling: pooling_subject,
    UnaryFilter: UnarySubject,
}
"""How to check each family; a filter uses the entry of its nearest base class."""


def subject_of(filter: Filter) -> Subject:
    """The subject of a filter's family."""
    for kind in type(filter).__mro__:
        if kind in SUBJECTS:
            return SUBJECTS[kind](filter)
    raise Problem(
        f"gradcheck: a filter of family {filter.family} has no gradient that could be checked.", unsupported=True
    )
