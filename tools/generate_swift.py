"""Write the uniform parts of the Swift package, src/openbnns/swift/Sources/Accelerate/Generated, from the facts in tools/facts.

    python tools/generate_swift.py            write the files
    python tools/generate_swift.py --check    only say whether they are up to date (exit code 1 if not)

Enums and what they are in C, shapes, structs of parameters, constants of C types, operations of graphs. The classes are written
by hand, in the folder above. The results are committed; a test compares them with the output of this tool.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from typing import Any

from generate_abi import ROOT, read_facts

TARGET = ROOT / "src" / "openbnns" / "swift" / "Sources" / "Accelerate" / "Generated"
WRITTEN_BY = "// Written by tools/generate_swift.py: edit its facts, not this file."

CHOICES = {
    "BNNS.ArithmeticBinaryFunction": ("bnnsArithmeticFunction", "BNNSArithmeticFunction"),
    "BNNS.ArithmeticTernaryFunction": ("bnnsArithmeticFunction", "BNNSArithmeticFunction"),
    "BNNS.ArithmeticUnaryFunction": ("bnnsArithmeticFunction", "BNNSArithmeticFunction"),
    "BNNS.CropResizeLayer.BoxCoordinateMode": ("bnnsBoxCoordinateMode", "BNNSBoxCoordinateMode"),
    "BNNS.CropResizeLayer.LinearSamplingMode": ("bnnsLinearSamplingMode", "BNNSLinearSamplingMode"),
    "BNNS.DataLayout": ("bnnsDataLayout", "BNNSDataLayout"),
    "BNNS.DescriptorType": ("bnnsDescriptorType", "BNNSDescriptorType"),
    "BNNS.InterpolationMethod": ("bnnsInterpolationMethod", "BNNSInterpolationMethod"),
    "BNNS.LossFunction": ("bnnsLossFunction", "BNNSLossFunction"),
    "BNNS.LossReduction": ("bnnsLossReductionFunction", "BNNSLossReductionFunction"),
    "BNNS.NormalizationType": ("bnnsFilterType", "BNNSFilterType"),
    "BNNS.PaddingMode": ("bnnsPaddingMode", "BNNSPaddingMode"),
    "BNNS.RandomGeneratorMethod": ("bnnsRandomGeneratorMethod", "BNNSRandomGeneratorMethod"),
    "BNNS.ReductionFunction": ("bnnsReduceFunction", "BNNSReduceFunction"),
    "BNNS.ShuffleType": ("bnnsShuffleType", "BNNSShuffleType"),
    "BNNS.SparsityType": ("bnnsSparsityType", "BNNSSparsityType"),
}
"""Enums of which every case is one constant of C, and the property that tells it."""

PLAIN = ("BNNS.ConvolutionType", "BNNS.LearningPhase", "BNNS.PoolingType", "BNNS.SparseLayout", "BNNS.GradientClipping",
         "BNNS.ConvolutionPadding")  # fmt: skip
"""Enums of which only the cases are uniform."""

SCALARS = {
    "Float": "Float32", "Float16": "Float16", "Bool": "Boolean", "Int8": "Int8", "Int16": "Int16", "Int32": "Int32",
    "Int64": "Int64", "UInt8": "UInt8", "UInt16": "UInt16", "UInt32": "UInt32", "UInt64": "UInt64",
}  # fmt: skip

STATICS = {
    "BNNSDataType": {
        "float": "BNNSDataTypeFloat32",
        "float16": "BNNSDataTypeFloat16",
        "indexed8": "BNNSDataTypeIndexed8",
    }
    | {f"{sign}int{bits}": f"BNNSDataType{sign.upper()}Int{bits}" for sign in ("", "u") for bits in (8, 16, 32)},
    "BNNSPoolingFunction": {
        "max": "BNNSPoolingFunctionMax",
        "average": "BNNSPoolingFunctionAverageCountIncludePadding",
    },
    "BNNSActivationFunction": {},
}
"""Properties of C types, and the constants that they are; where none is given it has the name of the property."""

Facts = dict[str, Any]


def argument(facts: Facts) -> str:
    """An argument as a declaration has it: ``label name: type = default``."""
    label = (
        facts["label"] if facts.get("name", facts["label"]) == facts["label"] else f"{facts['label']} {facts['name']}"
    )
    default = f" = {facts['default']}" if "default" in facts else ""
    return f"{label}: {facts['type']}{default}"


def case(facts: Facts) -> str:
    """A case of an enum with its values."""
    values = []
    for value in facts["values"]:
        label = "" if value["label"] == "_" else f"{value['label']}: "
        default = f" = {value['default']}" if "default" in value else ""
        values.append(f"{label}{value['type']}{default}")
    return f"case {escaped(facts['name'])}" + (f"({', '.join(values)})" if values else "")


def escaped(name: str) -> str:
    return f"`{name}`" if name in ("default", "repeat", "in") else name


def constant(facts: Facts) -> str:
    """The C constant of a case, without remarks."""
    return str(facts["c"]).split()[0].rstrip(",;")


def indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}".rstrip() for line in lines]


def nested(name: str, lines: list[str]) -> list[str]:
    """Lines in an extension of the type that contains the named one."""
    outer = name.rpartition(".")[0]
    return [f"extension {outer} {{", *indented(lines), "}", ""] if outer else [*lines, ""]


def enum_head(facts: Facts) -> str:
    attribute = "@frozen " if facts.get("frozen") else ""
    conforms = [c for c in facts["conforms"] if c not in ("Equatable", "Hashable")]
    if not facts.get("frozen") and facts["conforms"]:
        conforms.append("Sendable")
    inherits = f": {', '.join(conforms)}" if conforms else ""
    return f"{attribute}public enum {facts['name'].rpartition('.')[2]}{inherits} {{"


def cases(facts: Facts) -> list[str]:
    lines = []
    for one in facts["cases"]:
        lines += [f"/// In C: {one['c'].partition(';')[0]}."] if one["c"].startswith("BNNS") else []
        lines.append(case(one))
    return lines


def choice(facts: Facts, name: str, c_type: str) -> list[str]:
    """An enum, and its C constant by case."""
    public = "public " if any(p["name"] == name for p in facts["properties"]) else ""
    body = [*cases(facts), "", "/// What C has for this case.", f"{public}var {name}: {c_type} {{", "    switch self {"]
    by_constant: dict[str, list[str]] = {}
    for one in facts["cases"]:
        by_constant.setdefault(constant(one), []).append(f".{escaped(one['name'])}")
    body += [f"    case {', '.join(names)}: return {c_name}" for c_name, names in by_constant.items()]
    return nested(facts["name"], [enum_head(facts), *indented([*body, "    }", "}"]), "}"])


def activation(facts: Facts) -> list[str]:
    """The enum of activations, and the struct of C by case."""
    body = [*cases(facts), "", "/// The function with its parameters, as C has them."]
    body += ["public var bnnsActivation: BNNSActivation {", "    switch self {"]
    for one in facts["cases"]:
        labels = [value["label"] for value in one["values"]]
        bound = f"(let {', let '.join(labels)})" if labels else ""
        given = [f"{label}: {label}" for label in labels]
        if labels == ["bounds"]:
            given = ["alpha: bounds.lowerBound", "beta: bounds.upperBound"]
        given += [f"{label}: 0" for label in ("alpha", "beta") if not any(g.startswith(label) for g in given)]
        made = f"BNNSActivation(function: {constant(one)}, {', '.join(given)})"
        body += [f"    case .{one['name']}{bound}:", f"        return {made}"]
    return nested(facts["name"], [enum_head(facts), *indented([*body, "    }", "}"]), "}"])


def choices_source(types: dict[str, Facts]) -> list[str]:
    lines: list[str] = activation(types["BNNS.ActivationFunction"])
    for name, (getter, c_type) in CHOICES.items():
        lines += choice(types[name], getter, c_type)
    for name in PLAIN:
        lines += nested(name, [enum_head(types[name]), *indented(cases(types[name])), "}"])
    operators = types["BNNS.RelationalOperator"]
    body = ["let bnnsRelationalOperator: BNNSRelationalOperator", ""]
    for one in operators["properties"]:
        logical = one["name"] in ("and", "or", "not", "nand", "nor", "xor")
        c_name = f"Logical{one['name'].upper()}" if logical else one["name"][0].upper() + one["name"][1:]
        body.append(f"public static var {one['name']}: BNNS.RelationalOperator {{")
        body += [f"    Self(bnnsRelationalOperator: BNNSRelationalOperator{c_name})", "}"]
    head = "@frozen public struct RelationalOperator: Sendable {"
    return lines + nested("BNNS.RelationalOperator", [head, *indented(body), "}"])


def shape_source(types: dict[str, Facts]) -> list[str]:
    """The enum of shapes, and what a descriptor has for each."""
    facts = types["BNNS.Shape"]
    body = cases(facts)
    sizes = ["size0", "size1", "size2", "size3", "size4", "size5", "size6", "size7"]
    into, outof = [], []
    for one in facts["cases"]:
        rank = len(one["values"]) - 1
        bound = [f"let {size}" for size in sizes[:rank]]
        strides = ["stride"] if rank == 1 else [f"stride.{axis}" for axis in range(rank)]
        into += [
            f"    case .{one['name']}({', '.join(bound)}, let stride):",
            f"        return ({constant(one)}, {rank},",
            f"                ({', '.join(sizes[:rank] + ['0'] * (8 - rank))}),",
            f"                ({', '.join(strides + ['0'] * (8 - rank))}))",
        ]
        given = [f"size.{axis}" for axis in range(rank)]
        packed = "stride.0" if rank == 1 else f"({', '.join(f'stride.{axis}' for axis in range(rank))})"
        outof += [
            f"    case {constant(one)}.rawValue:",
            f"        self = .{one['name']}({', '.join(given)}, stride: {packed})",
        ]
    eight = "(Int, Int, Int, Int, Int, Int, Int, Int)"
    four = "stride: (stride.0, stride.1, stride.2, stride.3)"
    body += [
        "",
        "/// Layout, number of axes, sizes and strides, as a descriptor has them.",
        f"var fields: (layout: BNNSDataLayout, rank: Int, size: {eight}, stride: {eight}) {{",
        "    switch self {", *into, "    }", "}",
        "",
        "/// The shape with this layout. One without a case, as those of rotated kernels, becomes the one of its rank that has",
        "/// the same order of memory.",
        f"init(layout: BNNSDataLayout, size: {eight}, stride: {eight}) {{",
        "    switch layout.rawValue {", *outof,
        "    case BNNSDataLayoutFullyConnectedSparse.rawValue:",
        "        self = .matrixRowMajor(size.0, size.1, stride: (stride.0, stride.1))",
        "    case BNNSDataLayoutMHA_DHK.rawValue:",
        "        self = .tensor3DLastMajor(size.0, size.1, size.2, stride: (stride.0, stride.1, stride.2))",
        "    case let other where other >> 16 == 4:",
        f"        self = .convolutionWeightsOIHW(size.0, size.1, size.2, size.3, {four})",
        "    default:",
        "        self = .vector(size.0, stride: stride.0)",
        "    }", "}",
    ]  # fmt: skip
    head = "public enum Shape: ExpressibleByArrayLiteral, Sendable {"
    return nested("BNNS.Shape", [head, *indented(body), "}"])


def parameters_source(types: dict[str, Facts]) -> list[str]:
    """Structs that hold what their initializer is given."""
    lines: list[str] = []
    names = [name for name in types if name.startswith("BNNS.Fused") and name.endswith("Parameters")]
    for name in (*sorted(names), "BNNS.LossFunction.YoloParameters", "BNNS.SparseParameters"):
        facts = types[name]
        inherits = f": {', '.join(facts['conforms'])}" if facts["conforms"] else ""
        body = [f"public {'var' if p['settable'] else 'let'} {p['name']}: {p['type']}" for p in facts["properties"]]
        (initializer,) = facts["initializers"]
        body += ["", f"public init({', '.join(map(argument, initializer['args']))}) {{"]
        body += [f"    self.{a['label']} = {a['label']}" for a in initializer["args"]] + ["}"]
        lines += nested(name, [f"public struct {name.rpartition('.')[2]}{inherits} {{", *indented(body), "}"])
    return lines


def constants_source(types: dict[str, Facts], constants: Facts) -> list[str]:
    """Properties of C types that stand for constants, and the element types of Swift's numbers."""
    lines: list[str] = []
    for name, own in STATICS.items():
        body = []
        for one in types[name]["properties"]:
            c_name = own.get(one["name"]) or f"{name}{one['name'][0].upper()}{one['name'][1:]}"
            if c_name not in constants[name]:
                raise SystemExit(f"generate_swift: {name} has no {c_name}.")
            body.append(f"public static var {one['name']}: {name} {{ {c_name} }}")
        lines += [f"extension {name} {{", *indented(body), "}", ""]
    for name, element in SCALARS.items():
        lines.append(f"extension {name}: BNNSScalar {{")
        lines += [f"    public static var bnnsDataType: BNNSDataType {{ BNNSDataType{element} }}", "}", ""]
    return lines


# Graphs.


def snake(name: str) -> str:
    """The name that an operation, an argument or a choice of a graph has in Python."""
    for word, plain in (("ReLU", "Relu"), ("LSTM", "Lstm"), ("ND", "Nd"), ("MatMul", "Matmul")):
        name = name.replace(word, plain)
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def graph_choices_source(types: list[Facts]) -> list[str]:
    """Enums whose cases are words of the library, as arguments of operations."""
    lines: list[str] = []
    for facts in types:
        if not facts["cases"] or any(one["values"] for one in facts["cases"]) or ".Builder." not in facts["name"]:
            continue
        body = [case(one) for one in facts["cases"]]
        body += ["", "var json: String {", "    switch self {"]
        body += [f'    case .{one["name"]}: return "\\"{snake(one["name"])}\\""' for one in facts["cases"]]
        head = f"public enum {facts['name'].rpartition('.')[2]}: Sendable, GraphArgument {{"
        lines += nested(facts["name"], [head, *indented([*body, "    }", "}"]), "}"])
    return lines


def operation(facts: Facts) -> list[str]:
    """A method of a tensor that adds an operation to the graph, whose arguments it passes on."""
    name = snake(facts["name"]) if facts["operation"] is True else facts["operation"]
    generic = f"<{facts['generic']}>" if "generic" in facts else ""
    where = f" where {facts['where']}" if "where" in facts else ""
    arguments = []
    for one in facts["args"]:
        held = one.get("name", one["label"])
        given = f"operand({held})" if one["type"].startswith("some ") else held
        given = f"[{held}.lowerBound, {held}.upperBound]" if one["type"].startswith("ClosedRange") else given
        arguments.append(f'"{snake(one["label"] if one["label"] != "_" else held)}": {given}')
    made = f'adding("{name}"' + (f", [{', '.join(arguments)}])" if arguments else ")")
    head = f"public func {facts['name']}{generic}({', '.join(map(argument, facts['args']))}) -> {facts['returns']}{where} {{"
    if "results" not in facts:
        return [head, f"    {made}", "}"]
    first, *others = facts["results"]
    following = [f"{first}.following({place})" for place, _ in enumerate(others, 1)]
    return [head, f"    let {first}: Self = {made}", f"    return ({', '.join([first, *following])})", "}"]


def infix(name: str, left: str, right: str, result: str, body: str) -> list[str]:
    return [f"public static func {name} (lhs: {left}, rhs: {right}) -> {result} {{", f"    {body}", "}"]


def graph_operations_source(types: list[Facts]) -> list[str]:
    """Operators of tensors with tensors, numbers and arrays, and the methods that are one operation each."""
    lines: list[str] = []
    (parameter,) = (facts for facts in types if facts["name"] == "BNNSGraph.Builder.OperationParameter")
    operators = [facts for facts in parameter["methods"] if "operation" in facts]
    body: list[str] = []
    for facts in operators:
        left, right = (one["type"] for one in facts["args"])
        first, second = ("lhs", "lhs.operand(rhs)") if right == "Self" else ("rhs.operand(lhs)", "rhs")
        made = f'{first}.adding("{facts["operation"]}", ["y": {second}])'
        body += infix(facts["name"], left, right, facts["returns"], made)
    lines += ["extension BNNSGraph.Builder.OperationParameter {", *indented(body), "}", ""]
    body = []  # two tensors would fit both of these operators
    for name, made in {facts["name"]: facts["operation"] for facts in operators}.items():
        body += infix(name, "Self", "Self", "Self", f'lhs.adding("{made}", ["y": rhs])')
    lines += ["extension BNNSGraph.Builder.Tensor {", *indented(body), "}", ""]
    for facts in types:
        if facts["name"] != "BNNSGraph.Builder.Tensor":
            continue
        body = []
        for one in facts["methods"]:
            if one["static"] and len(one["args"]) == 2:
                left, right = (each["type"] for each in one["args"])
                made = f'lhs.adding("{one["operation"]}", ["y": rhs])'
                body += infix(one["name"], left, right, one["returns"], made)
            elif one["static"]:
                head = f"public static prefix func {one['name']} (operand: {one['args'][0]['type']}) -> {one['returns']} {{"
                body += [head, f'    operand.adding("{one["operation"]}")', "}"]
            elif "operation" in one:
                body += operation(one)
        where = f" where {facts['where']}" if "where" in facts else ""
        lines += [f"extension BNNSGraph.Builder.Tensor{where} {{", *indented(body), "}", ""]
    return lines


def sources() -> dict[str, str]:
    """Texts of the files, by name."""
    types = {facts["name"]: facts for facts in read_facts("swift_overlay.json")["types"]}
    graph = read_facts("swift_graph.json")["types"]
    bodies = {
        "Choices.swift": choices_source(types),
        "Constants.swift": constants_source(types, read_facts("constants.json")),
        "Parameters.swift": parameters_source(types),
        "GraphChoices.swift": graph_choices_source(graph),
        "GraphOperations.swift": graph_operations_source(graph),
        "Shapes.swift": shape_source(types),
    }
    return {name: "\n".join([WRITTEN_BY, "", *lines]).rstrip("\n") + "\n" for name, lines in bodies.items()}


def main() -> int:
    """Write the files, or check them."""
    parser = argparse.ArgumentParser(description="Write the uniform part of the Swift package from tools/facts.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is out of date")
    options = parser.parse_args()
    outdated = 0
    for name, text in sources().items():
        path = TARGET / name
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        outdated += 1
        if options.check:
            print(f"{name} is out of date; run tools/generate_swift.py", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return 1 if options.check and outdated else 0


if __name__ == "__main__":
    sys.exit(main())
