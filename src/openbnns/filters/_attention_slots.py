"""Slots and options of a native attention plan, numbered as in core/kernels/attention/shape.h."""

from __future__ import annotations

# AttentionSlot. The ten parameters follow each other, and so do their gradients.
QUERY, KEY, VALUE, FIRST_PARAMETER = range(4)
OUTPUT, OUTPUT_GRADIENT, QUERY_GRADIENT, KEY_GRADIENT, VALUE_GRADIENT, FIRST_PARAMETER_GRADIENT = range(13, 19)
KEY_MASK, ADDED, CACHE, WORKSPACE = range(28, 32)

# AttentionOption.
CANONICAL_PARAMETERS, ADDED_IS_BOOLEAN, NO_DROPOUT, CAUSAL = 1, 2, 4, 8
