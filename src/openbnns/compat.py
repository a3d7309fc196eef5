"""Switches for the points where public documents leave the behaviour of BNNS open.

Each switch is an attribute of this module and of its object :data:`switches`, which are the same thing; the default is the
reading described on the docs page "Open questions". Change one for the whole process, or for a block of code::

    from openbnns import compat

    compat.transposed_kernel_scatter = True

    with compat.using(max_pool_padding_is_zero=True):
        ...

    compat.use("macos15")  # all that was measured there; "documented" turns everything off

Switches are read when a filter is created, unless the text says otherwise. The environment variable ``OPENBNNS_COMPAT`` sets
them at the start, in the words of :func:`use`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from types import ModuleType
from typing import Any


@dataclass
class Switches:
    """One named switch per entry of the ambiguity register; the number is that entry's."""

    mha_dhk_keras_order: bool = False
    """1: read MHA_DHK as D slowest and K fastest in memory, instead of d*s0 + h*s1 + k*s2."""
    integer_bias_before_scale: bool = False
    """2: convert float to integer as v/scale - bias, the printed form, instead of (v - bias)/scale."""
    kink_derivative_from_right: bool = False
    """3: derivative of RectifiedLinear at 0 is 1 instead of 0."""
    convolution_exact_size: bool = False
    """4: reject convolution outputs that leave a remainder at the right or lower border."""
    transposed_kernel_scatter: bool = False
    """5: transposed convolution scatters with the kernel as stored, instead of rotated by 180 degrees under OIHW."""
    max_pool_padding_is_zero: bool = False
    """6: zero padding takes part in max pooling."""
    max_pool_index_per_sample: bool = False
    """7: max-pool indices count through all channels of a sample, instead of within one plane."""
    moving_statistics_torch: bool = False
    """8: momentum weighs the new statistics, and the moving variance is the unbiased one, as PyTorch has it."""
    softmax_loss_class_factor: bool = False
    """9: divide the softmax cross entropy of a sample by the number of classes."""
    cosine_gradient_plain: bool = False
    """10: gradient of the cosine distance without the tangent-space term."""
    yolo_raw_coordinates: bool = False
    """11: Yolo compares raw x, y instead of their sigmoids."""
    dropout_control_reversed: bool = False
    """12: dropout control bits count from the slowest axis."""
    minmax_tie_split: bool = False
    """13: Minimum and Maximum split the gradient of a tie evenly, instead of giving it to the first operand."""
    resize_asymmetric: bool = False
    """14: linear resize without align_corners reads src = i * in / out, without the half-pixel shift."""
    argmax_last_axis: bool = False
    """15: ArgMax over several axes reports the position along the fastest reduced axis only."""
    embedding_renormalize_in_place: bool = False
    """16: max_norm of an embedding changes the stored dictionary."""
    attention_value_size_from_output: bool = False
    """17: d_value is read from the output descriptor."""
    attention_strict_cache: bool = False
    """18: attention backward without its cache, or with a caller's workspace, fails as seen on macOS 15."""
    optimizer_scale_before_clip: bool = False
    """19: gradients are scaled before they are clipped."""
    adam_epsilon_torch: bool = False
    """20: Adam adds epsilon to the corrected root, as PyTorch does."""
    tile_reversed_axes: bool = False
    """21: BNNSTile reads FirstMajor and RowMajorMatrix sizes in reverse, as seen on macOS 15; LastMajor is as documented."""
    crop_resize_plain_extent: bool = False
    """22: crop-resize takes L instead of L + 1 as the extent of a box."""
    attention_masked_rows_are_zero: bool = False
    """No entry: an attention row in which every key is masked reads nothing and gives 0, instead of NaN."""
    band_part_refuses_matrices: bool = False
    """23: BNNSBandPart fails for RowMajorMatrix and ColumnMajorMatrix, which give garbage on macOS 15."""
    matmul_refuses_mixed_halves: bool = False
    """24: matrix products of Float16 by BFloat16 (either way round) into Float32 fail, as seen on macOS 15."""
    layer_norm_refuses_vectors: bool = False
    """25: beta and gamma of layer normalization of an image fail as a Vector or as ImageCHW (1, 1, C), as on macOS 15."""
    sub_byte_data_size_zero: bool = False
    """26: BNNSNDArrayGetDataSize is 0 for types of less than a byte, as seen on macOS 15."""
    sparse_packed_compactly: bool = False
    """27: sparse weights are packed in fewer bytes than the dense matrix, and BNNSNDArrayGetDataSize returns their number."""

    def __setattr__(self, name: str, value: Any) -> None:
        _require([name], "compat.switches", AttributeError)
        object.__setattr__(self, name, bool(value))
        for forget in on_change:
            forget()


on_change: list[Callable[[], object]] = []
"""Called when a switch is set, so that calls that were recorded are forgotten."""


def _require(names: Iterable[str], who: str, kind: type[Exception]) -> None:
    """Refuse a name that is not a switch: a misspelt one would silently change nothing."""
    known = {f.name for f in fields(Switches)}
    unknown = sorted(set(names) - known)
    if unknown:
        raise kind(f"{who}: there is no switch {unknown[0]!r}. The switches are: {', '.join(sorted(known))}.")


switches = Switches()
"""The switches in force."""

presets: dict[str, tuple[str, ...]] = {
    "documented": (),
    "macos15": (
        "attention_strict_cache",
        "band_part_refuses_matrices",
        "layer_norm_refuses_vectors",
        "matmul_refuses_mixed_halves",
        "sparse_packed_compactly",
        "sub_byte_data_size_zero",
        "tile_reversed_axes",
    ),
}
"""Names for sets of switches: what documents say, and what third parties measured on macOS 15."""


class _Restored:
    """The result of :func:`use`: the end of a ``with`` block restores the switches that were in force before."""

    def __init__(self, before: dict[str, bool]) -> None:
        self._before = before

    def __enter__(self) -> Switches:
        return switches

    def __exit__(self, *error: object) -> None:
        _set(self._before)

    def __repr__(self) -> str:
        return f"<openbnns.compat: {in_force()}>"


def use(names: str) -> _Restored:
    """Set every switch: those that ``names`` lists are on, all others off.

    ``names`` is a preset, ``"documented"`` or ``"macos15"``, or switches and presets separated by commas. The choice holds
    for the whole process, or in a ``with`` statement until its end.

    >>> from openbnns import compat
    >>> with compat.use("macos15"):
    ...     compat.tile_reversed_axes
    True
    >>> compat.use("tile_reversed_axes, adam_epsilon_torch")
    <openbnns.compat: adam_epsilon_torch,tile_reversed_axes>
    >>> compat.use("documented")
    <openbnns.compat: documented>
    """
    if not isinstance(names, str):
        raise TypeError(f"compat.use: names must be text such as 'macos15', not {type(names).__name__}.")
    chosen = check(names, f"compat.use: names is {names!r}")
    before = {f.name: getattr(switches, f.name) for f in fields(Switches)}
    _set({name: name in chosen for name in before})
    return _Restored(before)


def in_force() -> str:
    """The switches that are on, in the form that :func:`use` takes: the name of a preset if they match one.

    >>> from openbnns import compat
    >>> compat.in_force()
    'documented'
    """
    on = tuple(sorted(f.name for f in fields(Switches) if getattr(switches, f.name)))
    return next((name for name, members in presets.items() if tuple(sorted(members)) == on), ",".join(on))


def check(text: str, who: str) -> set[str]:
    """The switches that a text names; ``ValueError``, which begins with ``who``, if it names others."""
    chosen: set[str] = set()
    known = {f.name for f in fields(Switches)}
    for word in (part.strip() for part in text.split(",")):
        if word in presets:
            chosen.update(presets[word])
        elif word in known:
            chosen.add(word)
        elif word or not text.strip():
            from difflib import get_close_matches  # here, so that importing the package stays quick

            near = get_close_matches(word.lower().replace("-", "_"), [*presets, *known], 3, 0.5)
            every = f"The presets are: {', '.join(presets)}. The switches are: {', '.join(sorted(known))}."
            hint = f"Did you mean {' or '.join(near)}?" if near else every
            raise ValueError(f"{who}, but there is no preset or switch {word!r}. {hint}")
    return chosen


def _set(values: dict[str, bool]) -> None:
    for name, value in values.items():
        if getattr(switches, name) != value:
            setattr(switches, name, value)


@contextmanager
def using(**changes: bool) -> Iterator[Switches]:
    """Set some switches for the duration of a ``with`` block.

    >>> from openbnns import compat
    >>> with compat.using(minmax_tie_split=True) as s:
    ...     s.minmax_tie_split
    True
    >>> compat.switches.minmax_tie_split
    False
    """
    _require(changes, "compat.using", TypeError)
    before = {name: getattr(switches, name) for name in changes}
    for name, value in changes.items():
        setattr(switches, name, value)
    try:
        yield switches
    finally:
        for name, value in before.items():
            setattr(switches, name, value)


class _Module(ModuleType):
    """This module: its attributes that are not defined above are the switches."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__ or name.startswith("__"):
            super().__setattr__(name, value)
        else:
            _require([name], "compat", AttributeError)
            setattr(switches, name, value)


def __getattr__(name: str) -> bool:
    if name in Switches.__dataclass_fields__:
        return bool(getattr(switches, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    named = ["Switches", "in_force", "switches", "use", "using", *Switches.__dataclass_fields__]
    return sorted([*named, *(name for name in globals() if name.startswith("__"))])


sys.modules[__name__].__class__ = _Module

if os.environ.get("OPENBNNS_COMPAT", "").strip():
    _set(
        dict.fromkeys(
            check(os.environ["OPENBNNS_COMPAT"], f"OPENBNNS_COMPAT is {os.environ['OPENBNNS_COMPAT']!r}"), True
        )
    )
