"""Write the tables of the C library from the facts in tools/facts.

    python tools/generate_clib.py            write the files
    python tools/generate_clib.py --check    only say whether they are up to date (exit code 1 if not)

    core/clib/functions.cpp        the exported functions, and how each passes its arguments on
    core/clib/exports.map          the names that the library shows
    core/bindings/c_interface.h    structs and arguments that native code reads without Python
    src/openbnns/clib/layouts.py   structs and functions, for those who read C structs in Python

The results are committed; a test compares them with the output of this tool.
"""

from __future__ import annotations

import argparse
import keyword
import math
import pprint
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

from generate_abi import read_facts

ROOT = Path(__file__).resolve().parents[1]
POINTERS = {"BNNSFilter": "h", "BNNSRandomGenerator": "g", "BNNSNearestNeighbors": "n", "openbnns_graph_builder": "r"}
PAIRS = {"bnns_graph_compile_options_t": "o", "bnns_graph_context_t": "c", "bnns_graph_t": "m"}
"""Structs of a pointer and a size, passed by value. The first two hold a handle, the third a block of memory."""
HANDLES = {**POINTERS, **{name: letter for name, letter in PAIRS.items() if letter != "m"}}
OWN_NAMES = ["openbnns_last_error", "openbnns_set_compat", "openbnns_version"]
OPTIMIZERS = [
    f"BNNSOptimizer{kind}{also}Fields" for kind in ("SGDMomentum", "Adam", "RMSProp") for also in ("", "WithClipping")
]
READ_BY_FIELDS = [
    "BNNSActivation",
    "BNNSLSTMGateDescriptor",
    "BNNSLSTMDataDescriptor",
    "BNNSLayerParametersLSTM",
    *OPTIMIZERS,
]
"""Structs whose fields native code reads one by one."""
MOST_WORDS = 32
"""Letters of a call that known_calls.cpp repeats, at most: kMostPlaces."""
KINDS = {
    "size_t": "U",
    "uint64_t": "U",
    "uint32_t": "u",
    "int32_t": "s",
    "bool": "b",
    "float": "f",
    "BNNSNDArrayDescriptor": "d",
}

FUNCTIONS = read_facts("functions.json") | read_facts("own_functions.json")
STRUCTS = {name: struct for name, struct in read_facts("structs.json").items() if name != "_typedefs"}
ENUMS = set(read_facts("constants.json")) - {"_macros"}


def plain(c_type: str) -> str:
    """A C type without qualifiers, pointers written without spaces: ``BNNSNDArrayDescriptor**``."""
    return (
        re.sub(r"\s+|\bconst\b|_Nonnull|_Nullable", " ", c_type).replace(" ", "").replace("unsignedint", "unsigned int")
    )


def code(c_type: str) -> str:
    """How an argument is passed on: a handle, a pointer, an unsigned or signed number, a truth value, a float."""
    t = plain(c_type)
    if t in HANDLES:
        return HANDLES[t]
    if t in PAIRS:
        return "pu"
    if t.endswith(("*", "_fn_t")):
        return "p"
    if t in ENUMS or t in ("size_t", "uint64_t", "uint32_t", "unsigned int"):
        return "u"
    return {"bool": "b", "float": "f", "int": "i", "int64_t": "i"}[t]


def c_parameter(c_type: str) -> str:
    """The C++ type of a parameter: pointers, handles and functions are plain addresses here."""
    t = plain(c_type)
    if t in PAIRS:
        return "Pair"
    if t in HANDLES or t.endswith(("*", "_fn_t")):
        return "const void*"
    return "uint32_t" if t in ENUMS else t


def failure(fact: dict[str, Any]) -> str:
    """The return value of a function when the library itself cannot work."""
    text = fact["returns"].get("failure") or "0"
    return "-1" if text.startswith(("-1", "SIZE_MAX", "negative")) else "0"


def returned(fact: dict[str, Any]) -> str:
    """The letter of a function's return type: that of an argument, or v for void, d for a descriptor, m for a block of memory."""
    t = plain(fact["returns"]["type"])
    if t in HANDLES or t in PAIRS:
        return {**HANDLES, **PAIRS}[t]
    if t in ENUMS or t in ("size_t", "bool"):
        return "u"
    return {"void": "v", "int": "i", "ssize_t": "i", "int64_t": "i", "BNNSNDArrayDescriptor": "d", "char*": "p"}[t]


def drives_filter(fact: dict[str, Any]) -> bool:
    """True if a function runs a filter, or a context of a graph."""
    letter = code(fact["parameters"][0]["type"]) if fact["parameters"] else ""
    executes = letter == "c" and any(p["name"] == "workspace" for p in fact["parameters"])
    return returned(fact) == "i" and (letter == "h" or executes)


def is_alone(fact: dict[str, Any]) -> bool:
    """True if a function computes something without a filter or any other object."""
    handles = any(code(p["type"]) in "hgn" for p in fact["parameters"])
    return returned(fact) in "iv" and not handles and fact["category"] != "graph"


def functions_source() -> str:
    """Text of functions.cpp."""
    lines = [
        "// The exported functions: each passes its arguments on. Written by tools/generate_clib.py from tools/facts; edit",
        "// those, not this file.",
        '#include "clib/call.h"',
        '#include "clib/handles.h"',
        "",
        "namespace openbnns {",
        "namespace clib {",
        "",
        "const Function functions[] = {",
    ]
    driving = [name for name, fact in FUNCTIONS.items() if drives_filter(fact)]
    for name, fact in FUNCTIONS.items():
        codes = "".join(code(p["type"]) for p in fact["parameters"])
        if returned(fact) in "dm":
            codes = "p" + codes  # where the struct goes
        native = str(driving.index(name)) if name in driving else "kAlone" if is_alone(fact) else "kInPython"
        lines.append(f'    {{"{name}", "{codes}", \'{returned(fact)}\', {failure(fact)}, {len(codes)}, {native}}},')
    lines += [
        "};",
        "const size_t function_count = sizeof functions / sizeof functions[0];",
        f"static_assert(kDriving == {len(driving)} && sizeof functions / sizeof functions[0] <= kMostFunctions);",
        "",
        "}  // namespace clib",
        "}  // namespace openbnns",
        "",
        "using namespace openbnns::clib;",
        "// clang-format off",
        'extern "C" {',
    ]
    for number, (name, fact) in enumerate(FUNCTIONS.items()):
        lines += function_source(number, name, fact)
    lines += ["", '}  // extern "C"']
    return "\n".join(lines) + "\n"


def function_source(number: int, name: str, fact: dict[str, Any]) -> list[str]:
    """One exported function."""
    parameters = ", ".join(f"{c_parameter(p['type'])} {p['name']}" for p in fact["parameters"])
    words = [word for p in fact["parameters"] for word in words_of(p["name"], p["type"])]
    kind = returned(fact)
    c_type = "void" if kind == "v" else RETURNED.get(kind) or plain(fact["returns"]["type"])
    c_type = "uint32_t" if c_type in ENUMS else c_type
    if kind in "dm":
        words = ["word(static_cast<const void*>(&result))", *words]
    calls = f"call({number}, {'words' if words else 'nullptr'})"
    statement = {
        "v": f"{calls};",
        "d": f"{calls};\n  return result;",
        "m": f"{calls};\n  return result;",
        "p": f"return static_cast<const char*>({calls}.pointer);",
    }.get(kind) or f"return static_cast<{c_type}>({calls}.number);"
    if c_type == "void*":
        statement = f"return const_cast<void*>({calls}.pointer);"
    elif kind in "oc":
        statement = f"return pair_of({calls}.pointer);"
    lines = ["", f"OPENBNNS_EXPORT {c_type} {name}({parameters}) {{"]
    lines += [f"  {c_type} result{{}};"] if kind in "dm" else []
    lines += [f"  const Word words[] = {{{', '.join(words)}}};"] if words else []
    lines += [f"  {statement}", "}"]
    if "also" in fact:  # another spelling of the same function
        lines.append(f'OPENBNNS_EXPORT {c_type} {fact["also"]}({parameters}) __attribute__((alias("{name}")));')
    return lines


RETURNED = {"d": "Descriptor", "m": "Pair", "o": "Pair", "c": "Pair", "p": "const char*"} | dict.fromkeys(
    "hgnr", "void*"
)


def words_of(name: str, c_type: str) -> list[str]:
    """The words that a parameter becomes: two for a block of memory, the handle alone for another pair."""
    if code(c_type) == "pu":
        return [f"word({name}.data)", f"word({name}.size)"]
    return [f"word({name}.data)" if plain(c_type) in PAIRS else f"word({name})"]


def exports_source() -> str:
    """Text of exports.map."""
    spellings = [name for first, fact in FUNCTIONS.items() for name in (first, fact.get("also")) if name]
    names = "".join(f"    {name};\n" for name in [*spellings, *OWN_NAMES])
    return f"{{\n  global:\n{names}  local:\n    *;\n}};\n"


def field_row(fact: dict[str, Any]) -> tuple[str, str, int, tuple[int, ...]]:
    """Name, type, offset and array lengths of a field."""
    base, _, rest = plain(fact["type"]).partition("[")
    lengths = tuple(int(n) for n in rest.rstrip("]").split("][")) if rest else ()
    name = fact["name"] + "_" if keyword.iskeyword(fact["name"]) else fact["name"]
    return name, base, fact["offset_lp64"], lengths


def field_kind(base: str) -> str:
    """The kind of a field, by a letter of ``core/bindings/struct_view.h``."""
    return "u" if base in ENUMS else "p" if base.endswith("*") else KINDS.get(base, "(")


def members(struct: str) -> str:
    """The kinds of all fields of a struct, those of structs within it in their place; "?" for truth values."""
    letters = ""
    for _, base, _, lengths in map(field_row, STRUCTS[struct]["fields"]):
        kind = field_kind(base).replace("b", "?")
        letters += (members(base) if kind == "(" else kind) * math.prod(lengths)
    return letters


def word(parameter: dict[str, Any]) -> str:
    """The kind of an argument, by the letters of ``core/bindings/known_calls.cpp``; "?" if these calls have none such."""
    c_type = plain(parameter["type"])
    if c_type == "BNNSNDArrayDescriptor*":
        return "o" if parameter["nullable"] else "d"
    if c_type == "void*":
        return "-" if parameter["name"] == "workspace" else "m"
    if c_type in ("BNNSFilterParameters*", "bool", "float"):
        return {"BNNSFilterParameters*": "n", "bool": "b", "float": "f"}[c_type]
    if c_type.endswith("*"):
        return f"({members(c_type[:-1])})" if c_type[:-1] in STRUCTS else "?"
    return "i"


def wrapped(text: str, *, indent: int) -> list[str]:
    """Lines of at most 120 characters."""
    return textwrap.wrap(text, 120, initial_indent=" " * indent, subsequent_indent=" " * (indent + 4))


def interface_source() -> str:
    """Text of c_interface.h."""
    lines = [
        "// Structs and functions of the C interface as native code reads them, without Python: a field is a name, a kind",
        "// (struct_view.h) and an offset, and a function the kinds of its arguments (known_calls.cpp). Written by",
        "// tools/generate_clib.py from tools/facts; edit those, not this file.",
        "#pragma once",
        '#include "bindings/struct_view.h"',
        "",
        "// clang-format off",
        "namespace openbnns {",
    ]
    for name in READ_BY_FIELDS:
        rows = [field_row(f) for f in STRUCTS[name]["fields"]]
        fields = ", ".join(f"{{\"{field}\", '{field_kind(base)}', {offset}}}" for field, base, offset, _ in rows)
        lines += ["", f"struct {name} {{"]
        lines += wrapped(f"enum Index {{ {', '.join(field for field, *_ in rows)} }};", indent=2)
        lines += [*wrapped(f"static constexpr CField fields[] = {{{fields}}};", indent=2), "};"]
    rows = [f'    {{"{name}", {name}::fields, std::size({name}::fields)}},' for name in OPTIMIZERS]
    lines += ["", "inline constexpr CStruct kOptimizerStructs[] = {", *rows, "};"]
    words = {name: "".join(map(word, fact["parameters"])) for name, fact in FUNCTIONS.items() if is_alone(fact)}
    words = {name: letters for name, letters in words.items() if "?" not in letters and len(letters) <= MOST_WORDS}
    rows = [f'    {{"{name}", "{letters}"}},' for name, letters in words.items()]
    lines += ["", "inline constexpr CFunction kFunctionsAlone[] = {", *rows, "};", "", "}  // namespace openbnns"]
    return "\n".join(lines) + "\n"


def layouts_source() -> str:
    """Text of layouts.py."""
    structs = {name: (s["sizeof_lp64"], [field_row(f) for f in s["fields"]]) for name, s in STRUCTS.items()}
    calls = [
        (name, returned(fact), [(p["name"], plain(p["type"])) for p in fact["parameters"]])
        for name, fact in FUNCTIONS.items()
    ]
    return "\n".join(
        [
            '"""Structs and functions of the C interface on 64-bit machines.',
            "",
            "Written by tools/generate_clib.py from tools/facts; edit those, not this file.",
            '"""',
            "",
            "# fmt: off",
            "STRUCTS: dict[str, tuple[int, list[tuple[str, str, int, tuple[int, ...]]]]] = "
            + pprint.pformat(structs, width=120, sort_dicts=False, compact=True),
            '"""Size of each struct, and its fields: name, type, offset, lengths of an array."""',
            "",
            "FUNCTIONS: list[tuple[str, str, list[tuple[str, str]]]] = "
            + pprint.pformat(calls, width=120, sort_dicts=False, compact=True),
            '"""Functions in the order of the library: name, letter of what it returns, parameters with their types."""',
            "",
        ]
    )


def main() -> int:
    """Write the files, or check them."""
    parser = argparse.ArgumentParser(description="Write the tables of the C library from tools/facts.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is out of date")
    options = parser.parse_args()
    outdated = 0
    for path, text in (
        (ROOT / "core" / "clib" / "functions.cpp", functions_source()),
        (ROOT / "core" / "clib" / "exports.map", exports_source()),
        (ROOT / "core" / "bindings" / "c_interface.h", interface_source()),
        (ROOT / "src" / "openbnns" / "clib" / "layouts.py", layouts_source()),
    ):
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        outdated += 1
        if options.check:
            print(f"{path.name} is out of date; run tools/generate_clib.py", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.name}")
    return 1 if options.check and outdated else 0


if __name__ == "__main__":
    sys.exit(main())
