"""Public declarations of a Swift module, from the interface that swiftc emits, and those that the facts list, in one spelling."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

Facts = dict[str, Any]

_SCOPE = re.compile(
    r"\b(class|enum|struct|protocol|extension) ([\w.]+)(?:<[^>]*>)?(?:\s*:\s*([^{]*?))?(?:\s+where [^{]*)?\s*\{"
)
_NOISE = re.compile(
    r"@\w+(?:\([^)]*\))?\s+|\b(?:public|convenience|final|override|mutating|prefix|required|indirect|nonisolated)\b\s*"
)
_MODULES = re.compile(r"\b(?:Accelerate|COpenBNNS|Swift)\.(?=\w)")


@dataclass
class Declared:
    """The members of a type, under its full name."""

    kind: str = "extension"
    members: set[str] = field(default_factory=set)
    inherits: set[str] = field(default_factory=set)


def _plain(text: str) -> str:
    return " ".join(_MODULES.sub("", text).replace("rethrows", "throws").split())


def read(text: str) -> dict[str, Declared]:
    """The declarations of an interface, by type; those outside of types have the name ""."""
    declarations: dict[str, Declared] = {"": Declared()}
    scopes: list[str] = [""]
    pending: list[str] = []  # a property, until its accessors have been read
    skipping = False
    body = 0  # braces that are open in the body of an inlinable function
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("#"):  # of two spellings for compilers the first is the newer
            skipping = line.startswith("#else") or (skipping and not line.startswith("#endif"))
            continue
        if skipping or not line or line.startswith(("//", "import", "@_exported")):
            continue
        if body:
            body += line.count("{") - line.count("}")
            continue
        if pending:
            if line == "}":
                declarations[scopes[-1]].members.add(" ".join(pending))
                pending = []
            elif line == "set":
                pending[-1] = "{ get set }"
            continue
        scope = _SCOPE.search(_plain(line))
        if scope and not re.search(r"\b(?:func|init|var|let|case)\b", line):
            kind, name, inherits = scope.groups()
            full = name if kind == "extension" or not scopes[-1] else f"{scopes[-1]}.{name}"
            declared = declarations.setdefault(full, Declared())
            declared.kind = declared.kind if kind == "extension" else kind
            declared.inherits |= set(filter(None, re.split(r"\s*,\s*", _NOISE.sub("", (inherits or "") + " ").strip())))
            if not line.endswith("}"):
                scopes.append(full)
            continue
        if line == "}":
            scopes.pop()
            continue
        member = _member(line)
        if re.search(r"\b(?:func|init)\b", line) and line.count("{") > line.count("}"):
            body = 1
        elif member and line.endswith("{"):
            pending = [member, "{ get }"]
        if member and not pending:
            declarations[scopes[-1]].members.add(member)
    return declarations


def _member(line: str) -> str:
    text = _plain(_NOISE.sub("", _plain(line) + " "))
    accessors = re.search(r"\{ (get(?: set)?) \}$", text)  # of a protocol
    if accessors:
        return text
    text = text.removesuffix("{").strip()
    if re.match(r"(?:static )?let ", text):
        return f"{text.replace('let ', 'var ', 1)} {{ get }}"
    if re.match(r"(?:static )?var ", text) and not line.endswith("{"):
        return f"{text} {{ get set }}"
    if text.startswith("subscript"):
        return f"{text} {{ get set }}" if not line.endswith("{") else text
    return text if re.match(r"(?:static )?(?:var|func|init|case|typealias)\b", text) else ""


def expected(facts: Facts) -> set[str]:
    """The members that the facts list for a type."""
    members = set()
    for case in facts["cases"]:
        values = [("" if v["label"] == "_" else f"{v['label']}: ") + v["type"] + _default(v) for v in case["values"]]
        name = f"`{case['name']}`" if case["name"] in ("default", "repeat") else case["name"]
        members.add(f"case {name}" + (f"({', '.join(values)})" if values else ""))
    for one in facts["properties"]:
        access = "{ get set }" if one["settable"] else "{ get }"
        members.add(f"{'static ' if one['static'] else ''}var {one['name']}: {one['type']} {access}")
    for one in facts["initializers"]:
        mark = "?" if one["failable"] else ""
        members.add(f"init{mark}{_call(one)}")
    for one in facts["methods"]:
        returns = "" if one["returns"] == "Void" else f" -> {one['returns']}"
        space = "" if one["name"].isalnum() else " "  # behind an operator
        members.add(f"{'static ' if one['static'] else ''}func {one['name']}{space}{_call(one, returns)}")
    for one in facts.get("subscripts", []):
        access = "{ get set }" if one["settable"] else "{ get }"
        members.add(f"subscript{_call(one | {'throws': False}, ' -> ' + one['returns'])} {access}")
    members |= {f"typealias {name} = {target}" for name, target in facts.get("typealiases", {}).items()}
    return {_plain(member) for member in members}


def _default(value: Facts) -> str:
    return f" = {value['default']}" if "default" in value else ""


def _call(facts: Facts, returns: str = "") -> str:
    arguments = []
    for one in facts["args"]:
        name = f" {one['name']}" if "name" in one and one["name"] != one["label"] else ""
        arguments.append(f"{one['label']}{name}: {one['type']}{_default(one)}")
    generic = facts.get("generic", "")
    generic = f"<{generic.strip('<>')}>" if generic else ""
    where = f" where {facts['where'].removeprefix('where ')}" if facts.get("where") else ""
    effects = f"{' async' if facts.get('async') else ''}{' throws' if facts['throws'] else ''}"
    return f"{generic}({', '.join(arguments)}){effects}{returns}{where}"
