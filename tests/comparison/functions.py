"""Record answers of every function of ``nn.functional``, as JSON: ``python -m comparison.functions [--signatures FILE]``.

Each function gets lists of arguments that are drawn by their names: most fit, some have the wrong type, shape, count or
name. An answer is the shapes, element types and bits of the results, or the type and message of the exception. Every list is
given twice, the second time with other numbers in its arrays, for functions that keep what they have made for such arguments.
``--signatures`` takes those of the output of another build, so that both builds get the same lists.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import warnings
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from openbnns import nn
from openbnns.graph.structure import flatten

from .networks import hashed

LISTS = 30
Signature = list[list[Any]]
"""Name, kind and whether there is a default, of each parameter."""

SHAPES: dict[str, str] = {
    "conv": "input NCS weight OCK bias O", "conv_transpose": "input NCS weight COK bias O",
    "linear": "input NC weight OC bias O", "bmm": "input NCO mat2 NOC", "matmul": "input NC other CO",
    "outer": "input C vec2 O", "batch_norm": "input NCS running_mean C running_var C weight C bias C",
    "instance_norm": "input NCS running_mean C running_var C weight C bias C", "group_norm": "input NCS weight C bias C",
    "layer_norm": "input NC weight C bias C", "rms_norm": "input NC weight C", "prelu": "input NCS weight C",
    "embedding": "input NC weight 9O", "cross_entropy": "input NC target N weight C", "multilabel_margin": "input NC target NC",
    "nll_loss": "input NC target N weight C", "multi_margin_loss": "input NC target N weight C",
    "cosine_embedding_loss": "input1 NC input2 NC target N", "cdist": "x1 NC x2 OC", "cross": "input N3 other N3",
    "scaled_dot_product_attention": "query NCO key NCO value NCO attn_mask CC", "index_add": "input CO index C source CO",
    "gather": "input 34 index 34", "scatter": "input 34 index 34 src 34", "take_along_dim": "input 34 indices 34",
    "index_select": "input NCO index C", "fft": "input NCO2", "local_response_norm": "input NCS", "interpolate": "input NCS",
    "unfold": "input NCS", "pixel_shuffle": "input 4CS", "pixel_unshuffle": "input NCS", "pool": "input NCS",
    "unpool": "input NCS indices NCS", "channel_shuffle": "input N4S", "unflatten": "input 6N", "fold": "input N4C",
    "reshape": "input 6N", "view": "input 6N", "pad": "input NCS", "einsum": "operands CC", "expand": "input 1C",
}  # fmt: skip
"""Shapes of arrays by a part of the function's name. N, C, O are drawn, S and K are sizes of signals or windows."""

INTEGERS = {"index", "indices", "cross_entropy target", "nll_loss target", "multi_margin_loss target",
            "multilabel_margin_loss target", "embedding input", "one_hot input"}  # fmt: skip
"""Arrays that are indices."""

AXES = {"dim", "dim0", "dim1", "dim2", "start_dim", "end_dim", "source", "destination"}
CHOICES: dict[str, tuple[Any, ...]] = {
    "dims": ((0, 1), (1, 0), 0, (0,), (0, 0), (3, 1), None), "sizes size shape": (2, 3, -1, (2, 3), 1, (4, -1), (6,), 0, -2, "2"),
    "keepdim inplace largest sorted descending stable training full log_input swap ceil_mode count_include_pad return_indices"
    " is_causal align_corners log_target use_input_stats recompute_scale_factor": (True, False, True, False, True, 1, "no", None),
    "kernel_size stride": (2, 1, 3, 2, 1, (2, 1), (1, 2), (2,), 0, -1, 2.5, "2", 40), "dilation": (1, 2, (1, 2), 0, -1, "1"),
    "padding output_padding": (0, 1, 0, 1, (0, 1), "same", "valid", 3, -1, 1.5), "groups num_groups": (1, 2, 3, 0, -1, 1.5, True),
    "upscale_factor downscale_factor": (2, 1, 2, 3, 0, "2"), "padding_mode": ("zeros", "reflect", "circular", "zero"),
    "output_size": (2, (2, 3), 1, (4, 4), (None, 2), None, 0, -1, "2"), "normalized_shape": ("C", (3,), 5, (), "x"),
    "pad": ((1, 1), (0, 2, 1, 0), (1,), 1, (-1, 0), (9, 9)), "scale_factor": (2, None, 0.5, (2, 1.5), 0, -1, "2"),
    "mode": ("nearest", "bilinear", "linear", "constant", "reflect", "replicate", "circular", "area", "nearby"),
    "reduction": ("mean", "sum", "none", "avg", None, 1), "approximate": ("none", "tanh", "fast"),
    "norm": (None, "ortho", "forward", "backwards"), "equation": ("ij,jk->ik", "ij,kj->ik", "ij,ij->", "ij->ji", "i->ij", "ab"),
    "p norm_type": (2, 1, 2.0, 0.5, 3, 0, float("inf"), -1, "2", 1.5), "indexing": ("ij", "xy", "yx"),
    "eps": (1e-5, 1e-3, 0, -1, "x"), "correction": (1, 0, 2, -1), "ignore_index padding_idx": (None, 0, 1, -1, 99),
    "n k num_classes chunks repeats start length step": (1, 2, 3, 5, 0, -1, 2.5, "2", None, 9), "s": (None, (4, 4), (2, 8), 3),
    "split_size_or_sections indices_or_sections": (1, 2, (1, 2), 3, (1, 1, 1), 0, -1), "offset diagonal": (0, 1, -1, 9, 1.5),
    "shifts": (1, -1, 2, (1, 1), 0),
    "fill_value threshold min_val max_val negative_slope lambd": (0.5, 2, -1.0, 0, None, "1", True),
}  # fmt: skip
"""Values of arguments by name, usual ones first. All others are arrays if they are required, else numbers."""

SPECIAL: dict[str, tuple[Any, ...]] = {
    "unflatten sizes": ((2, 3), (3, -1), (6,), (4, 2), 6), "full size": ((2, 3), 2, (), -1), "arange end": (3, 7, 0, None, 2.5),
    "local_response_norm size": (2, 1, 3, 0, 1.5), "select index": (0, 1, -1, 7, 1.5, "0"),
    "fold output_size": ((2, 5), (3, 3), 2),
    "index key": (0, (0, 0), slice(1, 2), -1, None, ..., (slice(None), 0), 9, "0", 1.5, np.array([0, 0]), [0, 0], True),
    "fold kernel_size": ((2, 2), 2, (1, 4), 3), "masked_fill value": (0.5, -1, 3, None, "1", np.float32(2)),
    "interpolate scale_factor": (2, 0.5, (2, 1.5), 0, None), "threshold value": (0.5, 2, -1.0, None, "1"),
    "reshape shape": (3, 2, -1, 6, (2, 3)), "gaussian_nll_loss full": (False, True, 1),
    "poisson_nll_loss full": (False, True, 1), "zeros size": (2, 3, 0, -1, 1.5),
}  # fmt: skip
"""Values of an argument of one function, by both names."""

ARRAYS = {"input", "other", "mask", "condition", "target", "weight", "bias", "prepend", "append", "pos_weight", "attn_mask",
          "running_mean", "running_var", "src", "index", "var", "end"}  # fmt: skip
"""Arguments that are arrays even if they may be left out."""


class Drawing:
    """Lists of arguments of a function, each drawn from its number alone."""

    def __init__(self, function: str, number: int) -> None:
        self.function = function
        self.random = np.random.default_rng([zlib.crc32(function.encode()), number])
        self.sizes = {letter: int(self.random.integers(1, 5)) for letter in "NCO"}
        self.axes = int(function[-2]) if function[-2:] in ("1d", "2d", "3d") else 2
        self.usual = tuple(int(n) for n in self.random.integers(1, 5, self.one([2, 1, 3, 4, 0])))
        name = max((part for part in SHAPES if part in function), key=len, default="")
        given = SHAPES.get(name, "").split()
        self.known = dict(zip(given[::2], given[1::2], strict=True))

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def one(self, choices: Any) -> Any:
        """One of the choices, rather an early one."""
        return choices[int(len(choices) * self.random.random() ** 2)]

    def shape(self, name: str) -> tuple[int, ...]:
        if name in self.known:
            spatial = {"S": (6,) * self.axes, "K": (int(self.random.integers(1, 4)),) * self.axes}
            letters = self.known[name]
            return sum((spatial.get(c) or ((int(c),) if c.isdigit() else (self.sizes[c],)) for c in letters), ())
        if name in ("input", "tensors") or self.chance(0.6):
            return self.usual
        if self.chance(0.7):  # which broadcasting fits
            return tuple(1 if self.chance(0.4) else n for n in self.usual)[int(self.random.integers(0, 2)) :]
        return self.one([(), (3,), (2, 3), (0, 2), (2, 1, 3), (0,), (1, 2, 2, 3)])

    def array(self, name: str) -> Any:
        shape = self.shape(name) if self.chance(0.95) else self.one([(), (0, 2), (2, 3), (1,)])
        if name in INTEGERS or f"{self.function} {name}" in INTEGERS:
            return self.random.integers(0, 3, shape)
        if self.chance(0.2):
            kind = self.one([np.int64, np.int32, np.uint8, np.bool_, np.float64, np.float16, np.int16])
            return self.random.integers(0 if kind in (np.uint8, np.bool_) else -9, 9, shape).astype(kind)
        if not self.known and self.chance(0.04 if name == "input" else 0.15):
            return self.one([2, 0.5, -1, True, 3000000007, np.float32(1.5), -0.0, np.int64(2)])
        numbers = self.random.standard_normal((*shape, 2)).astype(np.float32)
        array = numbers[..., 0] if self.chance(0.2) else numbers[..., 0].copy()
        if array.size and self.chance(0.1):
            array[(0,) * array.ndim] = self.one([np.nan, np.inf, -np.inf, -0.0])
        return array

    def value(self, name: str, required: bool) -> Any:
        if name in AXES and name not in self.known:
            rank = len(self.known.get("input", self.usual))
            if self.chance(0.8):
                return int(self.random.integers(-rank, rank or 1))
            return self.one([None, (0, 1), 7, "1", True, 1.5, np.int64(0)])
        if name == "tensors" and self.function != "meshgrid":
            return [self.array(name) for _ in range(int(self.random.integers(1, 4)))]
        choices = SPECIAL.get(f"{self.function} {name}")
        if choices is None:
            choices = next((CHOICES[names] for names in CHOICES if name in names.split()), ())
        if choices:
            chosen = self.one(choices)
            if isinstance(chosen, tuple) and len(chosen) == 2 and self.function.endswith("d") and self.chance(0.8):
                return (chosen * 2)[: self.axes]
            return self.sizes["C"] if isinstance(chosen, str) and chosen == "C" else chosen
        return self.array(name) if required or name in ARRAYS else self.one([0.5, 1, 2.0, 0, -1, None, "1", True])

    def arguments(self, signature: Signature) -> tuple[list[Any], dict[str, Any]]:
        """Arguments by position and by name."""
        given: list[Any] = []
        named: dict[str, Any] = {}
        for name, kind, optional in signature:
            if kind == "VAR_POSITIONAL":
                given += [self.value(name, True) for _ in range(self.one([2, 1, 3, 0]))]
            elif not optional and kind != "KEYWORD_ONLY" and not named:
                given.append(self.value(name, True))
            elif not optional or self.chance(0.7 if f"{self.function} {name}" in SPECIAL else 0.25):
                named[name] = self.value(name, False)
        if self.chance(0.2):
            self.spoil(given, named)
        return given, named

    def spoil(self, given: list[Any], named: dict[str, Any]) -> None:
        """Make a mistake in the arguments."""
        place = int(self.random.integers(len(given))) if given else 0
        wrong = self.one(
            [None, "text", [1.0], np.array([1j]), np.array(["a"]), object, {}, np.zeros((2, 7), np.float32)]
        )
        mistake = self.one(["replace", "drop", "add", "misspell", "by name"])
        if mistake == "add" or not given:
            given.append(wrong if self.chance(0.5) else 1)
        elif mistake == "replace":
            given[place] = wrong
        elif mistake == "drop":
            del given[place]
        elif mistake == "misspell":
            named[self.one(["axis", "keepdims", "inptu", "Dim", "reductoin", "alpa", "out"])] = 1
        else:
            named["input"] = given[0]


def answer(function: Callable[..., Any], given: list[Any], named: Mapping[str, Any]) -> str:
    """The results of a call in a line, or why there are none."""
    nn.manual_seed(1)
    try:
        results = function(*given, **named)
        parts, structure = flatten(results)
        return f"{structure.kind.__name__ if structure.kind else ''} {', '.join(map(_described, parts))}".strip()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _described(result: Any) -> str:
    if not isinstance(result, np.ndarray):
        return f"{type(result).__name__} {result!r}"
    numbers = f" {result.tolist()}" if result.size <= 4 else ""
    return hashed(result) + numbers


def shown(x: Any) -> str:
    """An argument, in short."""
    if isinstance(x, np.ndarray):
        return f"{x.tolist()}:{x.dtype}" if x.size <= 3 else f"{x.dtype}{list(x.shape)}"
    return f"[{', '.join(map(shown, x))}]" if isinstance(x, list) else repr(x)


def turned(x: Any) -> Any:
    """An argument with other numbers in its arrays."""
    if isinstance(x, list):
        return [turned(part) for part in x]
    if isinstance(x, np.ndarray):
        return x[::-1] if x.ndim else (x + 1).astype(x.dtype)
    return x


def signatures() -> dict[str, Signature]:
    functions = {name: getattr(nn.functional, name) for name in nn.functional.__all__}
    return {
        name: [[p.name, p.kind.name, p.default is not p.empty] for p in inspect.signature(function).parameters.values()]
        for name, function in functions.items()
    }


def answers(name: str, signature: Signature, lists: int) -> dict[str, list[str]]:
    """The answers by list of arguments."""
    by_call = {}
    function = getattr(nn.functional, name)
    for number in range(lists):
        given, named = Drawing(name, number).arguments(signature)
        call = ", ".join([*map(shown, given), *(f"{key}={shown(x)}" for key, x in named.items())])
        others = [turned(x) for x in given], {key: turned(x) for key, x in named.items()}
        by_call[f"{number}: {name}({call})"] = [answer(function, given, named), answer(function, *others)]
    return by_call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lists", type=int, default=LISTS, help="of arguments for each function")
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="functions with this in their names")
    parser.add_argument("--signatures", type=Path, metavar="FILE", help="output of another build")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    own = signatures()
    read = json.loads(options.signatures.read_text())["signatures"] if options.signatures else own
    common = [name for name in own if name in read and options.only in name]
    records = {name: answers(name, read[name], options.lists) for name in common}
    json.dump({"signatures": own, "answers": records}, sys.stdout)


if __name__ == "__main__":
    main()
