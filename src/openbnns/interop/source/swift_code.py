"""A network as Swift source code: the same calls as in C, in a class."""

from __future__ import annotations

from typing import Any

from .code_parts import (
    GROUPS,
    Address,
    BNNSCall,
    BufferPlace,
    Cache,
    Constant,
    Copy,
    Filter,
    Heading,
    Items,
    Labels,
    NetworkSource,
    OptimizerStep,
    Program,
    StructValue,
    Text,
)
from .code_writer import Language, Writer, moved, quoted
from .errors import Refused

# Fields that hold bits of an enum as a plain number.
_PLAIN_FLAGS = {"BNNSFlags": "UInt32", "BNNSLayerFlags": "UInt32"}
_ENTRIES = {
    "const void *": "UnsafeRawPointer",
    "BNNSNDArrayDescriptor *": "UnsafeMutablePointer<BNNSNDArrayDescriptor>",
    "const size_t": "Int",
    "const BNNSFilterType": "BNNSFilterType",
}
# Arguments whose entries may be NULL: Swift imports them with another type than the others.
_MAY_BE_NULL = {
    "BNNSArithmeticFilterApplyBackwardBatch": ("in",),
    "BNNSFusedFilterApplyBackwardBatch": ("delta_parameters",),
    "BNNSFusedFilterApplyBackwardMultiInputBatch": ("in", "delta_parameters"),
}


def _constant(value: Constant) -> str:
    if value.kind in _PLAIN_FLAGS:
        return " | ".join(f"{_PLAIN_FLAGS[value.kind]}({name}.rawValue)" for name in value.names)
    if len(value.names) == 1:
        return value.names[0]
    return f"{value.kind}({' | '.join(f'{name}.rawValue' for name in value.names)})"


def _text(value: Text) -> str:
    raise Refused("text in structs has no form in Swift here")


def _tuple(entries: tuple[Any, ...]) -> str:
    return f"({', '.join(map(SWIFT.expression, entries))})"


SWIFT = Language(
    width=118,
    types={"float32": "Float", "int64": "Int64", "uint64": "UInt", "bool": "Bool", "uint8": "UInt8", "int32": "Int32"},
    null="nil",
    infinity="Float.infinity",
    nan="Float.nan",
    single="",
    batch="Self.batch",
    members={"buffer": "{}_", "filter": "filter_", "cache": "cache_"},
    expressions={
        int: lambda value: "Int.max" if value > 2**63 - 1 else str(value),
        Constant: _constant,
        Text: _text,
        tuple: _tuple,
    },
)
type_of, expression, wrapped = SWIFT.type_of, SWIFT.expression, SWIFT.wrapped


def struct_lines(name: str, value: StructValue) -> list[str]:
    """Assignments to the fields of a variable that is zero."""
    lines: list[str] = []
    for field, entry in value.fields:
        path = f"{name}.{field}"
        if isinstance(entry, StructValue):
            lines += struct_lines(path, entry)
        elif isinstance(entry, tuple) and any(isinstance(e, StructValue) for e in entry):
            for i, one in enumerate(entry):
                lines += struct_lines(f"{path}.{i}", one)
        elif isinstance(entry, BufferPlace):
            mutable = f"mutating: {expression(entry)}" if entry.buffer.constant else expression(entry)
            lines.append(f"{path} = UnsafeMutableRawPointer({mutable})")
        elif isinstance(entry, Address):
            lines.append(f"{path} = UnsafeMutableRawPointer({_local(path)})")
        else:
            lines.append(f"{path} = {expression(entry)}")
    return lines


def _local(path: str) -> str:
    return "_".join(path.split("."))


def rendered_call(function: str, arguments: list[tuple[str, Any]], before: str, after: str) -> list[str]:
    """Variables for the structs that a call takes, and the call."""
    lines: list[str] = []
    null = _MAY_BE_NULL.get(function, ())
    texts = [_argument(f"{name}_", value, lines, name.rstrip("_") in null) for name, value in arguments]
    return [*lines, *wrapped(f"{before}{function}(", texts, f"){after}")]


def _argument(name: str, value: Any, lines: list[str], may_be_null: bool) -> str:
    if isinstance(value, Address):
        _declare(name, value.of, lines)
        return f"&{name}"
    if isinstance(value, Items):
        entries = []
        for i, entry in enumerate(value.entries):
            if isinstance(entry, Address):
                entries.append(_pinned(f"{name}{i}", entry.of, lines))
                if value.type == "const void *":
                    entries[-1] = f"UnsafeRawPointer({entries[-1]})"
            elif isinstance(entry, BufferPlace) and value.type == "const void *":
                entries.append(f"UnsafeRawPointer({expression(entry)})")
            else:
                entries.append(expression(entry))
        lines += wrapped(f"var {name}: [{_ENTRIES[value.type]}{'?' if may_be_null else ''}] = [", entries, "]")
        return f"&{name}"
    return expression(value)


def _declare(name: str, value: StructValue, lines: list[str]) -> None:
    for field, entry in value.fields:
        if isinstance(entry, Address):
            _pinned(_local(f"{name}.{field}"), entry.of, lines)
    if value.type == "BNNSLayerParametersArithmetic":  # a pointer that must not be NULL: there is no zero to begin with
        operands = f"UnsafeMutableRawPointer({_local(f'{name}.arithmetic_function_fields')})"
        function = expression(dict(value.fields)["arithmetic_function"])
        texts = [
            f"arithmetic_function: {function}",
            f"arithmetic_function_fields: {operands}",
            "activation: BNNSActivation()",
        ]
        lines += wrapped(f"var {name} = {value.type}(", texts, ")")
        given = ("arithmetic_function", "arithmetic_function_fields")
        value = StructValue(value.type, tuple(field for field in value.fields if field[0] not in given))
    else:
        lines.append(f"var {name} = {value.type}()")
    lines += struct_lines(name, value)


def _pinned(name: str, value: StructValue, lines: list[str]) -> str:
    """A struct at an address that is valid until the end of the block."""
    _declare(f"{name}_value", value, lines)
    lines += [f"let {name} = pinned({name}_value)", f"defer {{ {name}.deallocate() }}"]
    return name


_INSET = "        "  # of statements in a method


class SwiftWriter(Writer):
    """A writer of the Swift file of a network."""

    def __init__(self, source: NetworkSource) -> None:
        super().__init__(source)
        self.class_name = "".join(part.capitalize() for part in source.name.split("_"))

    def text(self) -> str:
        s = self.source
        lines = [*self._opening(), *self._properties(), *self._init(), *self._deinit(), *self._predict()]
        if s.train is not None:
            lines += self._training()
        return "\n".join([*lines, *self._helpers(), "}", ""])

    def _opening(self) -> list[str]:
        name = self.source.name
        return [
            f"// {self.class_name}: the network",
            "//",
            *(f"//     {line}".rstrip() for line in self.source.description),
            "//",
            f"// as calls of BNNS, written by OpenBNNS. Weights are read from {name}.weights.",
            "//",
            f'//     let network = try {self.class_name}(weightsPath: "{name}.weights")',
            f"//     try network.predict({self._example()})",
            "",
            "import Accelerate",
            "import Foundation",
            "",
            "/// A network may be used by one thread at a time.",
            f"final class {self.class_name} {{",
            "    /// Which step failed.",
            "    struct Failure: Error { let step: String }",
            "",
            "    /// Samples in every call.",
            f"    static let batch = {self.source.batch}",
            "",
            *self._classes(),
        ]

    def _classes(self) -> list[str]:
        if not self.source.classes:
            return []
        lines = wrapped("static let classes = [", [quoted(text) for text in self.source.classes], "]")
        return ["    /// What the outputs are called.", *(f"    {line}" for line in lines), ""]

    def _example(self) -> str:
        return ", ".join(f"{b.name}: {b.name}" for b in (*self.source.predict.inputs, *self.source.predict.outputs))

    def _properties(self) -> list[str]:
        s = self.source
        lines = [
            "    private let file: UnsafeMutableRawPointer  // the weights, mapped; what training changes stays in memory",
            f"    private static let weightsBytes = {max(s.bytes['weights'], 1)}",
            "    private let memory: UnsafeMutableRawPointer  // for what layers compute",
        ]
        for group in GROUPS:
            lines += [
                f"    private let {group}_{b.name}: UnsafeMutablePointer<{type_of(b.dtype)}>" for b in s.members(group)
            ]
        lines += [f"    private var filter_{f.name}: BNNSFilter?  // {f.note}" for f in s.filters]
        for name in s.caches:
            lines += [
                f"    private var cache_{name}: UnsafeMutableRawPointer?",
                f"    private var cache_{name}_bytes: Int = 0",
            ]
        for step in s.optimizers:
            lines += [
                f"    private var {step.name} = {step.fields.type}()",
                f"    private var {step.name}_steps = {step.steps}",
            ]
        return [*lines, ""]

    def _init(self) -> list[str]:
        s = self.source
        lines = [
            "    init(weightsPath: String) throws {",
            "        let descriptor = open(weightsPath, O_RDONLY)",
            '        if descriptor < 0 { throw Failure(step: "opening the file with the weights") }',
            "        defer { close(descriptor) }",
            "        var status = stat()",
            f"        if fstat(descriptor, &status) != 0 || Int(status.st_size) != {self.class_name}.weightsBytes {{",
            '            throw Failure(step: "the file has another size than the weights of this network")',
            "        }",
            "        guard let mapped = mmap(",
            f"            nil, {self.class_name}.weightsBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor, 0),",
            "            mapped != MAP_FAILED",
            '        else { throw Failure(step: "mapping the file with the weights") }',
            "        file = mapped",
            f"        memory = UnsafeMutableRawPointer.allocate(byteCount: {s.memory}, alignment: 64)",
            f"        memory.initializeMemory(as: UInt8.self, repeating: 0, count: {s.memory})",
        ]
        for group in GROUPS:
            base = "file" if group == "weights" else "memory"
            for b in s.members(group):
                place = f"({base} + {s.place(b)}).assumingMemoryBound(to: {type_of(b.dtype)}.self)"
                lines.append(f"        {group}_{b.name} = {place}")
        for step in s.optimizers:
            lines += [f"{_INSET}{line}" for line in struct_lines(step.name, step.fields)]
        for f in s.filters:
            lines += self._creation_of(f)
        return [*lines, "    }", ""]

    def _creation_of(self, f: Filter) -> list[str]:
        body = rendered_call(f.function, f.arguments, f"filter_{f.name} = ", "")
        return [
            f"        do {{  // {f.note}",
            *(f"            {line}" for line in body),
            f"            if filter_{f.name} == nil {{ throw Failure(step: {quoted(f.note)}) }}",
            "        }",
        ]

    def _deinit(self) -> list[str]:
        s = self.source
        lines = ["    deinit {"]
        lines += [f"        if let filter = filter_{f.name} {{ BNNSFilterDestroy(filter) }}" for f in s.filters]
        lines += [f"        cache_{name}?.deallocate()" for name in s.caches]
        return [
            *lines,
            "        memory.deallocate()",
            f"        munmap(file, {self.class_name}.weightsBytes)",
            "    }",
            "",
        ]

    def _parameters(self, program: Program) -> list[str]:
        inputs = [f"{b.name}: UnsafePointer<{type_of(b.dtype)}>" for b in program.inputs]
        return inputs + [f"{b.name}: UnsafeMutablePointer<{type_of(b.dtype)}>" for b in program.outputs]

    def _predict(self) -> list[str]:
        program = self.source.predict
        sizes = [
            f"{b.name} has {b.count // self.source.batch} numbers per sample"
            for b in (*program.inputs, *program.outputs)
        ]
        return [
            f"    /// The outputs for a batch of inputs, one sample after the other: {', '.join(sizes)}.",
            f"    func predict({', '.join(self._parameters(program))}) throws {{",
            *self._steps(program),
            "    }",
            "",
        ]

    # Steps.

    def _steps(self, program: Program) -> list[str]:
        return [f"{_INSET}{line}" for line in self.steps(program)]

    def heading(self, heading: Heading) -> list[str]:
        return [f"// MARK: {heading.text}"]

    def labels(self, step: Labels) -> list[str]:
        return _labels(step)

    def copy(self, step: Copy) -> list[str]:
        return _copy(step)

    def call(self, call: BNNSCall) -> list[str]:
        body = rendered_call(call.function, call.arguments, "let status = ", "")
        return [
            f"do {{  // {call.note}",
            *(f"    {line}" for line in body),
            f"    if status != 0 {{ throw Failure(step: {quoted(call.note)}) }}",
            "}",
        ]

    def cache(self, cache: Cache) -> list[str]:
        before = f"cache_{cache.name}_bytes = " if cache.returns else "let status = "
        body = rendered_call(cache.query.function, cache.query.arguments, before, "")
        if not cache.returns:
            body.append(f"if status != 0 {{ throw Failure(step: {quoted(cache.query.note)}) }}")
        return [
            f"if cache_{cache.name} == nil {{  // {cache.query.note}: memory for the backward pass",
            *(f"    {line}" for line in body),
            f"    cache_{cache.name} = UnsafeMutableRawPointer.allocate(byteCount: cache_{cache.name}_bytes, alignment: 64)",
            "}",
        ]

    # Training.

    def _training(self) -> list[str]:
        s = self.source
        assert s.train is not None and s.targets is not None and s.loss is not None
        targets = f"targets: UnsafePointer<{type_of(s.targets.dtype)}>"
        parameters = ", ".join([*self._parameters(s.train), targets])
        lines = [
            "    /// One step of training on a batch: forward, loss, backward, optimizer. Gives the loss before it.",
            "    @discardableResult",
            f"    func trainStep({parameters}) throws -> Float {{",
            *self._steps(s.train),
        ]
        lines.append(f"{_INSET}// MARK: Optimizer")
        for step in s.optimizers:
            lines += [f"{_INSET}{line}" for line in self._optimizer(step)]
        rates = [f"        {step.name}.learning_rate = learningRate" for step in s.optimizers]
        return [
            *lines,
            f"        return {expression(s.loss)}.pointee",
            "    }",
            "",
            "    /// The learning rate of all steps from now on.",
            "    func setLearningRate(_ learningRate: Float) {",
            *rates,
            "    }",
            "",
            "    /// Write the weights as they are now to a file that init reads.",
            "    func save(weightsPath: String) throws {",
            f"        let data = Data(bytesNoCopy: file, count: {self.class_name}.weightsBytes, deallocator: .none)",
            "        try data.write(to: URL(fileURLWithPath: weightsPath))",
            "    }",
            "",
        ]

    def _optimizer(self, step: OptimizerStep) -> list[str]:
        function = step.function.names[0]
        lines = [
            f"do {{  // {function}",
            *_table("values", step.parameters),
            *_table("gradientValues", step.gradients),
            *_table("accumulatorValues", step.accumulators),
            *(f"    {line}" for line in wrapped("let counts = [", list(map(str, step.counts_of)), "]")),
            "    var parameters = pinned(values, counts)",
            "    var gradients = pinned(gradientValues, counts).map { UnsafePointer($0) }",
            "    var accumulators: [UnsafeMutablePointer<BNNSNDArrayDescriptor>?] = pinned(accumulatorValues, counts)",
            "    defer {",
            "        for pointer in accumulators { pointer?.deallocate() }",
            "        for pointer in parameters { pointer.deallocate() }",
            "        for pointer in gradients { pointer.deallocate() }",
            "    }",
            f"    var fields = {step.name}",
        ]
        if step.counts:
            lines.append(f"    fields.time_step = Float({step.name}_steps + 1)")
        if step.epsilon is not None:
            lines += [
                "    // Epsilon is added to the corrected root, as PyTorch does, while BNNS adds it to the root itself.",
                "    fields.epsilon = Float(",
                "        Double(fields.epsilon) * (1 - pow(Double(fields.beta2), Double(fields.time_step))).squareRoot())",
            ]
        return [
            *lines,
            "    let status = BNNSOptimizerStep(",
            f"        {function}, &fields, {len(step.parameters)}, &parameters, &gradients, &accumulators, nil)",
            f"    if status != 0 {{ throw Failure(step: {quoted(function)}) }}",
            f"    {step.name}_steps += 1",
            "}",
        ]

    def _helpers(self) -> list[str]:
        lines = [
            "    /// A copy of a struct at an address of its own.",
            "    private func pinned<T>(_ value: T) -> UnsafeMutablePointer<T> {",
            "        let pointer = UnsafeMutablePointer<T>.allocate(capacity: 1)",
            "        pointer.initialize(to: value)",
            "        return pointer",
            "    }",
        ]
        if self.source.optimizers:
            lines += [
                "",
                "    /// Descriptors of arrays, whose sizes repeat.",
                "    private func pinned(",
                "        _ values: [UnsafeMutablePointer<Float>], _ counts: [Int]",
                "    ) -> [UnsafeMutablePointer<BNNSNDArrayDescriptor>] {",
                "        return values.enumerated().map { index, value in",
                "            var descriptor = BNNSNDArrayDescriptor()",
                "            descriptor.layout = BNNSDataLayoutVector",
                "            descriptor.size.0 = counts[index % counts.count]",
                "            descriptor.data = UnsafeMutableRawPointer(value)",
                "            descriptor.data_type = BNNSDataTypeFloat32",
                "            return pinned(descriptor)",
                "        }",
                "    }",
            ]
        return lines


def _table(name: str, places: list[Any]) -> list[str]:
    lines = wrapped(f"let {name}: [UnsafeMutablePointer<Float>] = [", list(map(expression, places)), "]")
    return [f"    {line}" for line in lines]


def _labels(step: Labels) -> list[str]:
    labels, classes = expression(step.target), expression(step.classes)
    own, other = expression(step.own), expression(step.other)
    return [
        "// Labels from class numbers.",
        f"for i in 0..<{step.rows} {{",
        f"    if {classes}[i] < 0 || {classes}[i] >= {step.width} {{",
        '        throw Failure(step: "targets: a class number is out of range")',
        "    }",
        f"    for c in 0..<{step.width} {{",
        f"        ({labels})[{step.width} * i + c] = c == Int({classes}[i]) ? {own} : {other}",
        "    }",
        "}",
    ]


def _copy(step: Copy) -> list[str]:
    loops = step.loops
    to = moved(expression(step.target), step.target_strides[:loops])
    count = step.shape[-1] if step.dense else 1
    if step.source is None:
        line = f"({to}).update(repeating: 0, count: {count})"
    else:
        line = f"({to}).update(from: {moved(expression(step.source), step.source_strides[:loops])}, count: {count})"
    lines = [f"// {step.note}"]
    for axis in range(loops):
        lines.append(f"{'    ' * axis}for i{axis} in 0..<{step.shape[axis]} {{")
    lines.append("    " * loops + line)
    return lines + ["    " * axis + "}" for axis in reversed(range(loops))]
