"""Write the C header, src/openbnns/include/openbnns/bnns.h, from the facts in tools/facts and the words in header_text.

    python tools/make_header.py            write the header
    python tools/make_header.py --check    only say whether it is up to date (exit code 1 if not)

The result is committed, so that people and editors can read it; a test compares it with the output of this tool.
Edit the facts, the words or this file, never the result.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import textwrap
from collections.abc import Iterable
from typing import Any

from generate_abi import BIT_MASKS, ENUM_SUMMARIES, ROOT, WIDTH, read_facts
from header_text import Section, general, graph, layers, tensors

TARGET = ROOT / "src" / "openbnns" / "include" / "openbnns"
SECTIONS: tuple[Section, ...] = (*general.SECTIONS, *layers.SECTIONS, *tensors.SECTIONS, *graph.SECTIONS)
WRITTEN_BY = "Written by tools/make_header.py: edit its facts and text, not this file."
HEXADECIMAL = {"BNNSDataType", "BNNSDataLayout", *BIT_MASKS}
UNEXPLAINED = {"filter", "F", "generator", "knn", "filter_params"}
"""Parameters for which the opening comment explains NULL."""

MACROS = {"_Nonnull": "OPENBNNS_NONNULL", "_Nullable": "OPENBNNS_NULLABLE"}

HANDLES = {
    "BNNSFilter": "A filter; NULL stands for a failed creation.",
    "BNNSRandomGenerator": "A random generator.",
    "BNNSNearestNeighbors": "A store of points for nearest neighbours.",
    "openbnns_graph_builder": "A graph that is being described. This name is ours.",
}

GRAPH_STRUCTS = {
    "bnns_graph_t": "graph",
    "bnns_graph_context_t": "context",
    "bnns_graph_compile_options_t": "options",
}

CALLBACKS = """
/** Allocates memory as posix_memalign does; 0 is success. */
typedef int (*BNNSAlloc)(void **memptr, size_t alignment, size_t size);
/** Frees what a BNNSAlloc allocated. */
typedef void (*BNNSFree)(void *ptr);
"""

OWN_FUNCTIONS = {
    "const char *openbnns_last_error(void);": """
Why the latest call of this thread failed, in UTF-8; NULL if it succeeded, or if there was none. Calls that release
something do not change it, so that cleaning up does not hide the reason. The text stays valid until the next call of this
thread.
""",
    "const char *openbnns_version(void);": """
The version of the library, such as "0.1.0".
""",
    "int openbnns_set_compat(const char *names);": """
Choose the behaviour where BNNS's documentation leaves it open: "documented" (the default), "macos15" (as observed on macOS
15), or names of switches separated by commas. The choice applies to the whole process and to filters that are created
afterwards.

Returns 0, or a negative number, with nothing changed, if a name is not known.
""",
}

PROLOGUE = """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h> /* ssize_t */

/* Enums have 32 bits, and are distinct types where the language allows it: in C++, in C23, with Clang. */
#if defined(__cplusplus)
#define OPENBNNS_ENUM(name) enum name : uint32_t
#elif defined(__clang__) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 202311L)
#define OPENBNNS_ENUM(name) \\
    enum name : uint32_t;   \\
    typedef enum name name; \\
    enum name : uint32_t
#else
#define OPENBNNS_ENUM(name) \\
    typedef uint32_t name;  \\
    enum
#endif

/* Pointers that must not be NULL, which Swift imports as other types than those that may. */
#if defined(__clang__)
#define OPENBNNS_NONNULL _Nonnull
#define OPENBNNS_NULLABLE _Nullable
#else
#define OPENBNNS_NONNULL
#define OPENBNNS_NULLABLE
#endif

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wnullability-completeness" /* as in Apple's headers, some pointers do not say */
#pragma clang diagnostic ignored "-Wnullability-extension"
#if !defined(__cplusplus)
#pragma clang diagnostic ignored "-Wpedantic" /* enums with a fixed type, as Apple's headers have them */
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif
"""

EPILOGUE = """
#ifdef __cplusplus
}
#endif

#if defined(__clang__)
#pragma clang diagnostic pop
#endif
"""


def wrapped(text: str, width: int) -> list[str]:
    """Lines of a text: paragraphs filled to the width, formulas and list items kept apart."""
    lines: list[str] = []
    for paragraph in text.strip("\n").split("\n\n"):
        lines += [""] if lines else []
        pieces = paragraph.split("\n")
        if all(piece.startswith("    ") for piece in pieces):
            lines += pieces
        elif paragraph.startswith("- "):
            for item in paragraph.removeprefix("- ").split("\n- "):
                item_text = " ".join(item.split())
                lines += textwrap.wrap(item_text, width, initial_indent="- ", subsequent_indent="  ")
        else:
            lines += textwrap.wrap(" ".join(paragraph.split()), width, break_on_hyphens=False)
    return lines


def comment(text: str, opening: str = "/**") -> list[str]:
    """A text as a block comment, on one line if it fits."""
    lines = wrapped(text, WIDTH - 3)
    if len(lines) == 1 and len(opening) + len(lines[0]) + 4 <= WIDTH:
        return [f"{opening} {lines[0]} */"]
    return [opening, *(f" * {line}".rstrip() for line in lines), " */"]


def declared(c_type: str, name: str) -> str:
    """A field or parameter as C writes it: macros for what compilers know of NULL, brackets behind the name."""
    words = [MACROS.get(word, word) for word in c_type.replace("*", " * ").split()]
    base, bracket, dimensions = " ".join(words).partition("[")
    text = f"{base} {name}{bracket}{dimensions}"
    return text.replace("* ", "*")


def parameter_type(c_type: str, in_swift: str) -> str:
    """Type of a parameter: a pointer that is not optional in Swift says so; const says nothing of one passed by value."""
    if "*" not in c_type:
        return c_type.removeprefix("const ")
    return c_type if in_swift.endswith("?") or not c_type.endswith("*") else f"{c_type} _Nonnull"


def commented(line: str, text: str) -> list[str]:
    """A line of a struct or enum with its comment behind it, or before it where that does not fit."""
    full = f"    {line} /**< {text} */"
    if len(full) <= WIDTH:
        return [full]
    return [*(f"    {part}" for part in comment(text)), f"    {line}"]


def enum_lines(name: str, members: dict[str, int]) -> list[str]:
    lines = ["", *comment(ENUM_SUMMARIES[name].replace("`", "")), f"OPENBNNS_ENUM({name}) {{"]
    for member, value in members.items():
        line = f"{member} = {value:#x}," if name in HEXADECIMAL else f"{member} = {value},"
        text = general.MEMBERS.get(member)
        lines += commented(line, text) if text else [f"    {line}"]
    return [*lines, "};"]


def struct_lines(name: str, facts: dict[str, Any]) -> list[str]:
    lines = ["", *comment(facts["summary"]), f"typedef struct {name} {{"]
    for _, fields in itertools.groupby(facts["fields"], lambda field: field["offset_lp64"]):
        rows = [(declared(field["type"], field["name"]) + ";", field["meaning"]) for field in fields]
        if len(rows) == 1:
            lines += commented(*rows[0])
        else:  # fields that share their place
            lines += ["    union {", *(f"    {line}" for row in rows for line in commented(*row)), "    };"]
    return [*lines, f"}} {name};"]


def returns_text(facts: dict[str, Any]) -> str:
    """The sentence on a function's return value, from the facts: one wording for all of them."""
    c_type, failure = facts["type"], facts.get("failure", "")
    if c_type == "void":
        return ""
    if c_type in GRAPH_STRUCTS:
        return f"Returns the {GRAPH_STRUCTS[c_type]}; data is NULL on failure."
    if c_type in ("bool", "BNNSGraphOptimizationPreference", "const char *") or "if none" in facts["success"]:
        return "Returns the setting; that of default options on failure."
    if c_type == "int":
        success = facts["success"] if facts["success"].startswith("0 if") else "0"
        return f"Returns {success}, or a negative number on failure."
    if c_type == "BNNSNDArrayDescriptor":
        return "Returns the descriptor; its data is NULL on failure."
    if c_type in HANDLES:
        things = ("filter", "generator", "store", "builder")
        return f"Returns the {dict(zip(HANDLES, things, strict=True))[c_type]}, or NULL on failure."
    value = "a negative number" if failure == "negative" else failure.split()[0]
    return f"Returns the number, or {value} on failure."


def prototype(name: str, returned: str, parameters: Iterable[tuple[str, str]]) -> list[str]:
    """A declaration, wrapped behind its parenthesis."""
    lines = [declared(returned, name).lstrip() + "("]
    indent = " " * len(lines[0])
    pieces = [declared(c_type, parameter) for c_type, parameter in parameters] or ["void"]
    for piece in [f"{piece}, " for piece in pieces[:-1]] + [f"{pieces[-1]})"]:
        if len(lines[-1]) + len(piece.rstrip()) >= WIDTH - 1:
            lines = [*lines[:-1], lines[-1].rstrip(), indent]
        lines[-1] += piece
    return lines


def function_lines(name: str, facts: dict[str, Any], text: str) -> list[str]:
    words = text.replace(",", " ").replace(".", " ").replace(";", " ").replace(":", " ").replace("->", " ").split()
    for parameter in facts["parameters"]:
        if parameter["nullable"] and parameter["name"] not in UNEXPLAINED and parameter["name"] not in words:
            raise SystemExit(f"header_text: {name} does not say what a NULL {parameter['name']} means.")
    returned = returns_text(facts["returns"])
    lines = ["", *comment(f"{text.rstrip()}\n\n{returned}" if returned else text)]
    in_swift = facts.get("swift", ["?"] * len(facts["parameters"]))
    parameters = [(parameter_type(p["type"], s), p["name"]) for p, s in zip(facts["parameters"], in_swift, strict=True)]
    for spelling in filter(None, (name, facts.get("also"))):
        declaration = prototype(spelling, facts["returns"]["type"], parameters)
        lines += [*declaration[:-1], declaration[-1] + ";"]
    return lines


def section_lines(section: Section, facts: dict[str, dict[str, Any]]) -> list[str]:
    lines = ["", "/* " + "-" * (WIDTH - 6) + " */"]
    lines += comment("\n\n".join([section.title, section.text.strip("\n")]).strip(), "/*")
    for enum in section.enums:
        lines += enum_lines(enum, facts["constants"].pop(enum))
    for struct in section.structs:
        lines += struct_lines(struct, facts["structs"].pop(struct))
    lines += section.types.rstrip("\n").split("\n") if section.types else []
    for name, text in section.functions.items():
        lines += function_lines(name, facts["functions"].pop(name), text)
    return lines


def header_source() -> str:
    """Text of bnns.h."""
    facts = {name: read_facts(f"{name}.json") for name in ("constants", "structs", "functions")}
    facts["functions"] |= read_facts("own_functions.json")
    for imported in read_facts("swift_signatures.json")["functions"]:
        facts["functions"][imported["function"]]["swift"] = imported["parameters"]
    macros = facts["constants"].pop("_macros")
    del facts["structs"]["_typedefs"]
    lines = [*comment(general.OPENING, "/*"), "", f"/* {WRITTEN_BY} */", "", "#ifndef OPENBNNS_BNNS_H"]
    lines += ["#define OPENBNNS_BNNS_H", *PROLOGUE.rstrip("\n").split("\n"), ""]
    lines += [f"#define {macro} {value} /* axes of an array at most */" for macro, value in macros.items()]
    for name, text in HANDLES.items():
        lines += ["", *comment(text), f"typedef void *{name};"]
    lines += CALLBACKS.rstrip("\n").split("\n")
    own, *others = SECTIONS
    lines += section_lines(own, facts)
    for declaration, text in OWN_FUNCTIONS.items():
        lines += ["", *comment(text), declaration]
    for section in others:
        lines += section_lines(section, facts)
    left = [name for table in facts.values() for name in table]
    if left:
        raise SystemExit(f"header_text: no section has {', '.join(left)}.")
    lines += EPILOGUE.rstrip("\n").split("\n")
    lines += ["", "#endif /* OPENBNNS_BNNS_H */"]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the file, or check it."""
    parser = argparse.ArgumentParser(description="Write the C header from tools/facts and tools/header_text.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is out of date")
    options = parser.parse_args()
    path, text = TARGET / "bnns.h", header_source()
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    if options.check:
        print(f"{path.name} is out of date; run tools/make_header.py", file=sys.stderr)
        return 1
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
