"""Steps in C that are not calls of BNNS: copies, and labels from class numbers."""

from __future__ import annotations

from ._c_expressions import expression, type_of
from ._language import moved
from ._program_text import Copy, Labels


def labels_lines(step: Labels) -> list[str]:
    labels, classes = expression(step.target), expression(step.classes)
    own, other = expression(step.own), expression(step.other)
    return [
        "  /* Labels from class numbers. */",
        f"  for (size_t i = 0; i < {step.rows}; i++) {{",
        f'    if ({classes}[i] < 0 || {classes}[i] >= {step.width}) return failed("targets: a class number is out of range");',
        f"    for (int64_t c = 0; c < {step.width}; c++)",
        f"      {_indexed(labels)}[{step.width} * i + (size_t)c] = c == {classes}[i] ? {own} : {other};",
        "  }",
    ]


def _indexed(text: str) -> str:
    return f"({text})" if " " in text else text


def copy_lines(step: Copy) -> list[str]:
    """Loops over all axes but the last, if that lies side by side on both sides."""
    dense, loops = step.dense, step.loops
    size = f"{step.shape[-1]} * sizeof({type_of(step.target.buffer.dtype)})"
    to = moved(expression(step.target), step.target_strides[:loops])
    if step.source is None:
        line = f"memset({to}, 0, {size});" if dense else f"*({to}) = 0;"
    else:
        start = moved(expression(step.source), step.source_strides[:loops])
        line = f"memcpy({to}, {start}, {size});" if dense else f"*({to}) = *({start});"
    lines = [f"  /* {step.note} */"]
    for axis in range(loops):
        lines.append(f"{'  ' * (axis + 1)}for (size_t i{axis} = 0; i{axis} < {step.shape[axis]}; i{axis}++)")
    return [*lines, "  " * (loops + 1) + line]
