"""Write src/openbnns/abi/enums.py and structs.py from the facts in tools/facts.

    python tools/generate_abi.py            write both files
    python tools/generate_abi.py --check    only say whether they are up to date (exit code 1 if not)

The results are committed, so that people, type checkers and editors see plain Python; a test compares them with the
output of this tool. Edit the facts or this file, never the results.
"""

from __future__ import annotations

import argparse
import json
import keyword
import re
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FACTS = ROOT / "tools" / "facts"
TARGET = ROOT / "src" / "openbnns" / "abi"
WIDTH = 120

BIT_MASKS = {"BNNSFlags", "BNNSLayerFlags", "BNNSEmbeddingFlags", "BNNSGraphMessageLevel"}

ENUM_SUMMARIES = {
    "BNNSDataType": "Element type of an array: class bit plus width in bits.",
    "BNNSDataLayout": "Rank of an array and the meaning of its axes; the rank is `layout >> 16`.",
    "BNNSActivationFunction": "Activation applied to a result, alone or fused into another layer.",
    "BNNSPoolingFunction": "Function that reduces the cells of a pooling window to one value.",
    "BNNSFlags": "Options of a filter, for `BNNSFilterParameters.flags`.",
    "BNNSLossFunction": "Loss of a loss layer.",
    "BNNSLossReductionFunction": "Reduction of the losses of a batch to the output of a loss layer.",
    "BNNSArithmeticFunction": "Elementwise operation of an arithmetic layer.",
    "BNNSDescriptorType": "Role of an arithmetic operand: constant, one per sample, or a trained parameter.",
    "BNNSOptimizerFunction": "Update rule of an optimizer step; decides which struct of hyperparameters it takes.",
    "BNNSOptimizerRegularizationFunction": "Penalty on the weights that an optimizer adds to the gradient.",
    "BNNSOptimizerSGDMomentumVariant": "Form of momentum of stochastic gradient descent.",
    "BNNSOptimizerClippingFunction": "Limit that an optimizer puts on gradients.",
    "BNNSNormType": "Norm of the norm and clipping functions.",
    "BNNSFilterType": "Kind of a filter: member of a fused filter, or which normalization to create.",
    "BNNSReduceFunction": "Function that reduces the values along axes to one.",
    "BNNSLayerFlags": "Options of an LSTM, for `BNNSLayerParametersLSTM.lstm_flags`.",
    "BNNSInterpolationMethod": "Method by which resizing interpolates between samples.",
    "BNNSLinearSamplingMode": "Placement of the sample points of crop-and-resize.",
    "BNNSBoxCoordinateMode": "Meaning of the four numbers of a box.",
    "BNNSPaddingMode": "Values that a padding layer writes outside the input.",
    "BNNSRelationalOperator": "Comparison or logical operation on tensors.",
    "BNNSPointerSpecifier": "Internal array of a filter that `BNNSGetPointer` gives access to.",
    "BNNSNDArrayFlags": "Treatment of a gradient's buffer: overwritten or added to.",
    "BNNSEmbeddingFlags": "Options of an embedding layer.",
    "BNNSQuantizerFunction": "Direction of a quantization layer.",
    "BNNSRandomGeneratorMethod": "Algorithm of a random generator.",
    "BNNSSparsityType": "Pattern of the zeros in sparse weights.",
    "BNNSTargetSystem": "Machine that sparse weights are packed for.",
    "BNNSShuffleType": "Rearrangement between channels and space.",
    "BNNSGraphMessageLevel": "Kind of a message of a graph; masks choose kinds, and are 14 unless set.",
    "BNNSGraphOptimizationPreference": "The aim of a compilation: speed, or a small graph.",
    "BNNSGraphArgumentIntent": "The use of an argument by a function of a graph: read, written, or both, as for a state.",
    "BNNSGraphArgumentType": "Form of the arguments of an execution.",
}

IMPORT = ">>> from openbnns.capi import *"
BASES = {"BNNSNDArrayDescriptor": "DescriptorMemory"}

INTEGER_KINDS = {
    "size_t": "SIZE",
    "ssize_t": "SIGNED_SIZE",
    "uint8_t": "UINT8",
    "uint32_t": "UINT32",
    "uint64_t": "UINT64",
    "int32_t": "INT32",
}


def read_facts(name: str) -> dict[str, Any]:
    """One of the JSON files of tools/facts."""
    facts: dict[str, Any] = json.loads((FACTS / name).read_text(encoding="utf-8"))
    return facts


def header(summary: str) -> list[str]:
    """Opening lines of a generated module."""
    return [
        f'"""{summary}',
        "",
        "Written by tools/generate_abi.py from tools/facts; edit those, not this file.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
    ]


def enum_example(name: str, members: dict[str, int]) -> list[str]:
    """A member is a name of the module, an int, and known by its number."""
    member, value = next(pair for pair in reversed(members.items()) if list(members.values()).count(pair[1]) == 1)
    return [IMPORT, f">>> int({member}), {name}({value})", f"({value}, {member})"]


def enums_source() -> str:
    """Text of enums.py."""
    facts = read_facts("constants.json")
    macros: dict[str, int] = facts.pop("_macros")
    lines = header("Enums of the BNNS C interface; every member is also a name of this module.")
    lines += ["from typing import TYPE_CHECKING", "", "from .values import CEnum, CFlag", ""]
    lines += [f"{macro} = {value}" for macro, value in macros.items()]
    for name, members in facts.items():
        base = "CFlag" if name in BIT_MASKS else "CEnum"
        lines += ["", "", f"class {name}({base}):", f'    """{ENUM_SUMMARIES[name]}']
        lines += ["", *(f"    {line}" for line in enum_example(name, members)), '    """', ""]
        lines += [f"    {member} = {value}" for member, value in members.items()]
        lines += ["", "", *unpacked(list(members), f"{name}.__members__.values()")]
    # A type checker needs no list: to it, all names that are not imported are public.
    lines += [
        "",
        "if not TYPE_CHECKING:",
        '    __all__ = sorted(name for name in globals() if name.startswith("BNNS"))',
    ]
    return "\n".join(lines) + "\n"


def unpacked(names: list[str], values: str) -> list[str]:
    """An assignment of several values as the formatter lays it out."""
    if len(names) == 1:
        return [f"({names[0]},) = {values}"]
    line = f"{', '.join(names)} = {values}"
    return [line] if len(line) <= WIDTH else ["(", *(f"    {name}," for name in names), f") = {values}"]


@dataclass(frozen=True)
class Field:
    """One field of a struct, in Python terms."""

    name: str
    meaning: str
    annotation: str
    """Type of the attribute and, where that is the same, of the constructor argument."""
    kind: str
    """Expression for the `Kind` that checks it."""


def field(fact: dict[str, str], enums: set[str], structs: set[str]) -> Field:
    """Translate a C field."""
    name = fact["name"] + "_" if keyword.iskeyword(fact["name"]) else fact["name"]
    mask = re.search(r"mask of (BNNS\w+)", fact["meaning"])
    c_type = mask.group(1) if mask else re.sub(r" _N\w+$", "", fact["type"])
    base, _, dimensions = c_type.partition("[")
    if dimensions:
        annotation, kind = array_types(base, [int(n) for n in dimensions.rstrip("]").split("][")])
    elif "*" in c_type or c_type in ("BNNSAlloc", "BNNSFree"):
        annotation, kind = "Any", "POINTER"
    elif c_type in enums:
        annotation, kind = f"{c_type} | int", f"enumeration({c_type})"
    elif c_type == "BNNSActivation":  # C code often writes its function alone
        function = "BNNSActivationFunction"
        annotation, kind = f"Short[{c_type}, {function}]", f"structure({c_type}, {function})"
    elif c_type in structs:
        annotation, kind = f"Nested[{c_type}]", f"structure({c_type})"
    elif c_type == "float":
        annotation, kind = "float", "SCALE" if name == "data_scale" else "FLOAT"
    elif c_type == "bool":
        annotation, kind = "bool", "BOOL"
    else:
        annotation, kind = "int", INTEGER_KINDS[c_type]
    return Field(name, fact["meaning"], annotation, kind)


def array_types(base: str, dimensions: list[int]) -> tuple[str, str]:
    """Type and kind of an array field."""
    is_integer = base in INTEGER_KINDS
    annotation, kind = ("int", INTEGER_KINDS[base]) if is_integer else (base, f"structure({base})")
    for length in reversed(dimensions):
        kind = f"array({kind}, {length})"
    return f"{'Array' if len(dimensions) == 1 else 'Array2D'}[{annotation}]", kind


def docstring_opening(summary: str) -> list[str]:
    """First lines of a docstring; an addition after a semicolon moves to its own paragraph when it does not fit."""
    if len(summary) + 7 <= WIDTH:
        return [f'    """{summary}']
    first, _, rest = summary.partition("; ")
    return [f'    """{first}.', "", f"    {rest[0].upper()}{rest[1:]}"]


def struct_examples() -> dict[str, list[str]]:
    """Lines of the example of each struct."""
    _, *parts = (Path(__file__).with_name("struct_examples.txt")).read_text(encoding="utf-8").split("## ")
    return {name: lines for name, *lines in (part.strip().split("\n") for part in parts)}


def struct_source(name: str, summary: str, fields: list[Field], example: list[str]) -> list[str]:
    """Lines of one struct class."""
    base = BASES.get(name, "Struct")
    lines = ["", "", f"class {name}({base}):", *docstring_opening(summary), "", "    Fields:"]
    for each in fields:
        text = f"{each.name}: {each.meaning}."
        lines += textwrap.wrap(text, WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 12)
    lines += ["", *(f"    {line}" for line in [IMPORT, *example]), '    """', ""]
    return lines + [f"    {each.name}: {each.annotation} = {each.kind}" for each in fields]


def import_order(name: str) -> tuple[bool, bool, list[Any]]:
    """Constants, then classes, then functions; UINT8 before UINT32."""
    return not name.isupper(), name[0].islower(), [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", name)]


def structs_source() -> str:
    """Text of structs.py."""
    facts = read_facts("structs.json")
    del facts["_typedefs"]
    enums = set(read_facts("constants.json")) - {"_macros"}
    translated = {name: [field(each, enums, set(facts)) for each in struct["fields"]] for name, struct in facts.items()}
    body: list[str] = []
    examples = struct_examples()
    for name, fields in translated.items():
        body += struct_source(name, facts[name]["summary"], fields, examples[name])
    text = "\n".join(body)
    lines = header("Structs of the BNNS C interface; `FixedList` is the type of their array fields.")
    lines += ["from typing import Any", ""]
    public = ["FixedList", "Struct"]
    tools = [*public, "Array", "Array2D", "Nested", "Short", "array", "enumeration", "structure"]
    tools += ["BOOL", "FLOAT", "POINTER", "SCALE", *INTEGER_KINDS.values()]
    for module, names in (("enums", sorted(enums)), ("memory", [*BASES.values()]), ("values", tools)):
        used = [each for each in names if re.search(rf"\b{each}\b", text) or each in public]
        used.sort(key=import_order)
        if len(used) == 1:
            lines += [f"from .{module} import {used[0]}"]
        else:
            lines += [f"from .{module} import (", *(f"    {each}," for each in used), ")"]
    lines += ["", "__all__ = [", *(f'    "{name}",' for name in sorted([*facts, *public])), "]"]
    return "\n".join(lines) + "\n" + text + "\n"


def main() -> int:
    """Write the files, or check them."""
    parser = argparse.ArgumentParser(description="Write src/openbnns/abi/enums.py and structs.py from tools/facts.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is out of date")
    options = parser.parse_args()
    outdated = 0
    for path, text in ((TARGET / "enums.py", enums_source()), (TARGET / "structs.py", structs_source())):
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        outdated += 1
        if options.check:
            print(f"{path.name} is out of date; run tools/generate_abi.py", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.name}")
    return 1 if options.check and outdated else 0


if __name__ == "__main__":
    sys.exit(main())
