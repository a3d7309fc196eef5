"""A network as C source code."""

from __future__ import annotations

import math
from collections.abc import Iterable
from textwrap import indent
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

_SIZE_MAX = 2**64 - 1


def _without_zeros(entries: tuple[Any, ...]) -> tuple[Any, ...]:
    """The entries of an array without trailing zeros, which C fills in."""
    used = max((i + 1 for i, entry in enumerate(entries) if not _is_zero(entry)), default=1)
    return entries[:used]


def _array(entries: tuple[Any, ...]) -> str:
    return f"{{{', '.join(map(C.expression, _without_zeros(entries)))}}}"


def _is_zero(entry: Any) -> bool:
    return not entry.fields if isinstance(entry, StructValue) else entry in (0, 0.0, None)


def _struct(value: StructValue) -> str:
    return f"{{{', '.join(f'.{name} = {_field(name, entry)}' for name, entry in value.fields) or '0'}}}"


def _field(name: str, value: Any) -> str:
    """The value of a field. The memory of a descriptor is not constant in C, even if it is only read."""
    if isinstance(value, BufferPlace) and value.buffer.constant:
        return f"(void *)({expression(value)})" if value.offset else f"(void *){expression(value)}"
    return expression(value)


C = Language(
    width=110,
    types={
        "float32": "float",
        "int64": "int64_t",
        "uint64": "size_t",
        "bool": "bool",
        "uint8": "uint8_t",
        "int32": "int32_t",
    },
    null="NULL",
    infinity="INFINITY",
    nan="NAN",
    single="f",
    batch="BATCH",
    members={"buffer": "net->{}.", "filter": "net->filters.", "cache": "net->caches."},
    expressions={
        int: lambda value: "SIZE_MAX" if value == _SIZE_MAX else str(value),
        Constant: lambda value: " | ".join(value.names) or "0",
        Text: lambda value: f'"{value.text}"',
        tuple: _array,
        StructValue: _struct,
    },
)
type_of, expression, wrapped = C.type_of, C.expression, C.wrapped


def declaration(type_name: str, name: str, value: StructValue) -> str:
    """A local variable, on one line if it is short, else with one field on each."""
    line = f"{type_name} {name} = {expression(value)};"
    if len(line) <= C.width:
        return line
    return "\n".join([f"{type_name} {name} = {{", *_field_lines(value, "    "), "};"])


def _field_lines(value: StructValue, margin: str) -> list[str]:
    lines = []
    for name, entry in value.fields:
        line = f"{margin}.{name} = {_field(name, entry)},"
        if len(line) <= C.width or not isinstance(entry, StructValue):
            lines.append(line)
        else:
            lines += [f"{margin}.{name} = {{", *_field_lines(entry, margin + "    "), f"{margin}}},"]
    return lines


def rendered_call(function: str, arguments: list[tuple[str, Any]], before: str, after: str) -> list[str]:
    """Local variables for the structs that a call takes, and a line with the call, broken where it is too long."""
    lines: list[str] = []
    texts = [_argument(name, value, lines) for name, value in arguments]
    return [*lines, *wrapped(f"{before}{function}(", texts, f"){after}")]


def _argument(name: str, value: Any, lines: list[str]) -> str:
    if isinstance(value, Address):
        lines.append(declaration(value.of.type, name, _with_locals(value.of, name, lines)))
        return f"&{name}"
    if isinstance(value, Items):
        entries = [
            _argument(f"{name}_{i}", entry, lines) if isinstance(entry, Address) else expression(entry)
            for i, entry in enumerate(value.entries)
        ]
        space = "" if value.type.endswith("*") else " "
        lines.append(f"{value.type}{space}{name}[] = {{{', '.join(entries)}}};")
        return name
    return expression(value)


def _with_locals(value: StructValue, name: str, lines: list[str]) -> StructValue:
    """The struct with local variables in place of structs that it points to."""
    fields: list[tuple[str, Any]] = []
    for field, entry in value.fields:
        if isinstance(entry, Address):
            local = f"{name}_{field}"
            lines.append(declaration(entry.of.type, local, _with_locals(entry.of, local, lines)))
            fields.append((field, Constant((f"&{local}",), "")))
        else:
            fields.append((field, entry))
    return StructValue(value.type, tuple(fields))


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


class CWriter(Writer):
    """A writer of the two C files of a network."""

    def __init__(self, source: NetworkSource) -> None:
        super().__init__(source)
        self.name = source.name
        self.upper = source.name.upper()

    # The header.

    def header(self) -> str:
        s = self.source
        batch, name = f"{self.upper}_BATCH", self.name
        arguments = ", ".join(b.name for b in (*s.predict.inputs, *s.predict.outputs))
        lines = [
            f"/* {self.name}: a network of BNNS filters, written by OpenBNNS. {self.name}.c says how it is built.",
            " *",
            f' *     {name} *net = {name}_create("{name}.weights");',
            f" *     int status = {name}_predict(net, {arguments});",
            f" *     {self.name}_destroy(net);",
            " *",
            " * Functions return 0, or -1 on failure. A network may be used by one thread at a time. */",
            f"#ifndef {self.upper}_H",
            f"#define {self.upper}_H",
            "",
            "#include <stddef.h>",
            "#include <stdint.h>",
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            f"#define {batch} {s.batch} /* samples in every call */",
            "",
            f"typedef struct {self.name} {self.name};",
            "",
            "/* The network, with the weights of a file. NULL if the file is not the one that belongs to this code, or if a "
            "filter",
            " * cannot be made. */",
            f"{self.name} *{self.name}_create(const char *weights_path);",
            "",
            *_comment(["The outputs for a batch of inputs, one sample after the other.", *self._sizes(s.predict)]),
            f"int {self.name}_predict({self._parameters(s.predict)});",
            "",
        ]
        if s.train is not None and s.targets is not None:
            kinds = "class numbers" if s.targets.dtype.kind == "i" else "targets"
            lines += [
                *_comment(
                    [
                        f"One step of training on a batch and its {kinds}: forward, loss, backward, optimizer.",
                        f"targets: {s.targets.count} numbers. loss, unless it is NULL, receives the loss before the step.",
                    ]
                ),
                f"{self._train_step_head()};",
                "",
                "/* The learning rate of all steps from now on. */",
                f"void {self.name}_set_learning_rate({self.name} *net, float learning_rate);",
                "",
                f"/* Write the weights as they are now to a file that {self.name}_create reads. */",
                f"int {self.name}_save(const {self.name} *net, const char *weights_path);",
                "",
            ]
        if s.classes:
            lines += [
                "/* What the outputs are called. */",
                f"extern const char *const {name}_classes[{len(s.classes)}];",
                "",
            ]
        lines += [
            "/* Which step failed in the latest call of this thread that did. */",
            f"const char *{self.name}_error(void);",
            "",
            f"void {self.name}_destroy({self.name} *net);",
            "",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "",
            "#endif",
            "",
        ]
        return "\n".join(lines)

    def _sizes(self, program: Program) -> list[str]:
        batch = self.source.batch
        return [
            f"{b.name}: {b.count // batch} {type_of(b.dtype)} per sample" for b in (*program.inputs, *program.outputs)
        ]

    def _parameters(self, program: Program) -> str:
        inputs = [f"const {type_of(b.dtype)} *{b.name}" for b in program.inputs]
        outputs = [f"{type_of(b.dtype)} *{b.name}" for b in program.outputs]
        return ", ".join([f"{self.name} *net", *inputs, *outputs])

    def _train_step_head(self) -> str:
        train, targets = self.source.train, self.source.targets
        assert train is not None and targets is not None
        return f"int {self.name}_train_step({self._parameters(train)}, const {type_of(targets.dtype)} *targets, float *loss)"

    # The source.

    def body(self) -> str:
        s = self.source
        parts = [
            self._opening(), self._struct(), self._helpers(), self._memory(), self._filters(), self._creation(),
            self._function(f"int {self.name}_predict({self._parameters(s.predict)})", self.steps(s.predict)),
        ]  # fmt: skip
        if s.train is not None:
            parts += self._training()
        parts.append(self._destruction())
        return "\n".join(parts)

    def _opening(self) -> str:
        description = [f" *     {line}".rstrip() for line in self.source.description]
        has_math = any(step.epsilon is not None for step in self.source.optimizers) or self._needs_infinity()
        lines = [
            f"/* {self.name}: the network",
            " *",
            *description,
            " *",
            f" * as calls of BNNS, written by OpenBNNS. Weights are read from {self.name}.weights.",
            " *",
            f" *     macOS:  cc {self.name}.c main.c -framework Accelerate",
            f" *     Linux:  cc {self.name}.c main.c -lm $(openbnns c-flags) */",
            "#ifndef __APPLE__",
            "#define _POSIX_C_SOURCE 200809L",
            "#endif",
            "",
            f'#include "{self.name}.h"',
            "",
            "#include <fcntl.h>",
            *(["#include <math.h>"] if has_math else []),
            "#include <stdbool.h>",
            *(["#include <stdio.h>"] if self.source.train is not None else []),
            "#include <stdlib.h>",
            "#include <string.h>",
            "#include <sys/mman.h>",
            "#include <sys/stat.h>",
            "#include <unistd.h>",
            "",
            "#ifdef __APPLE__",
            "#include <Accelerate/Accelerate.h>",
            "#else",
            "#include <openbnns/bnns.h>",
            "#endif",
            "",
            f"#define BATCH {self.upper}_BATCH",
            f"#define WEIGHTS_BYTES {max(self.source.bytes['weights'], 1)}",
            "",
        ]
        return "\n".join(lines)

    def _needs_infinity(self) -> bool:
        programs = [p for p in (self.source.predict, self.source.train) if p is not None]
        values: list[Any] = [filter.arguments for filter in self.source.filters]
        values += [step.arguments for p in programs for step in p.steps if isinstance(step, BNNSCall)]
        return any(_has_infinity(value) for value in values)

    def _struct(self) -> str:
        s = self.source
        notes = {
            "weights": "parameters and constants, in the mapped file; what training changes stays in memory",
            "predict": "what layers give in predict",
            "train": "what layers give in train_step, gradients, and accumulators of the optimizer",
            "scratch": "work memory of layers",
        }
        lines = [f"struct {self.name} {{", "  void *file;", "  char *memory;"]
        for group in GROUPS:
            members = s.members(group)
            if members:
                lines += [f"  struct {{ /* {notes[group]} */"]
                for b in members:
                    shape = "" if b.contents is None else " " + "".join(f"[{n}]" for n in b.contents.shape)
                    lines.append(f"    {type_of(b.dtype)} *{b.name}; /* {shape.strip() or f'[{b.count}]'} */")
                lines.append(f"  }} {group};")
        if s.filters:
            lines.append("  struct {")
            lines += [f"    BNNSFilter {f.name}; /* {f.note} */" for f in s.filters]
            lines.append("  } filters;")
        if s.caches:
            lines.append("  struct { /* what layers keep for the backward pass; BNNS says how much that is */")
            lines += [f"    void *{name};\n    size_t {name}_bytes;" for name in s.caches]
            lines.append("  } caches;")
        for step in s.optimizers:
            lines += [f"  {step.fields.type} {step.name};", f"  size_t {step.name}_steps;"]
        return "\n".join([*lines, "};", ""])

    def _helpers(self) -> str:
        return "\n".join(
            [
                'static _Thread_local const char *latest_error = "";',
                "",
                "static int failed(const char *step) {",
                "  latest_error = step;",
                "  return -1;",
                "}",
                "",
                f"const char *{self.name}_error(void) {{ return latest_error; }}",
                "",
                *self._classes(),
            ]
        )

    def _classes(self) -> list[str]:
        if not self.source.classes:
            return []
        head = f"const char *const {self.name}_classes[{len(self.source.classes)}] = {{"
        return [*wrapped(head, [quoted(text) for text in self.source.classes], "};"), ""]

    def _memory(self) -> str:
        s = self.source
        lines = [
            "/* The file with the weights, mapped so that changes stay in memory. */",
            f"static int map_weights({self.name} *net, const char *path) {{",
            "  int file = open(path, O_RDONLY);",
            '  if (file < 0) return failed("opening the file with the weights");',
            "  struct stat status;",
            "  if (fstat(file, &status) != 0 || status.st_size != WEIGHTS_BYTES) {",
            "    close(file);",
            '    return failed("the file has another size than the weights of this network");',
            "  }",
            "  void *mapped = mmap(NULL, WEIGHTS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);",
            "  close(file);",
            '  if (mapped == MAP_FAILED) return failed("mapping the file with the weights");',
            "  net->file = mapped;",
        ]
        if s.members("weights"):
            lines.append("  char *file_start = mapped;")
        lines += self._pointers(["weights"], "file_start")
        lines += ["  return 0;", "}", ""]
        lines += [
            "/* Memory for what layers compute. */",
            f"static int make_memory({self.name} *net) {{",
            "  void *memory = NULL;",
            f'  if (posix_memalign(&memory, 64, {s.memory}) != 0) return failed("allocating memory");',
            f"  memset(memory, 0, {s.memory});",
            "  net->memory = memory;",
            *self._pointers(GROUPS[1:], "net->memory"),
            "  return 0;",
            "}",
            "",
        ]
        return "\n".join(lines)

    def _pointers(self, groups: Iterable[str], base: str) -> list[str]:
        return [
            f"  net->{group}.{b.name} = ({type_of(b.dtype)} *)({base} + {self.source.place(b)});"
            for group in groups
            for b in self.source.members(group)
        ]

    def _filters(self) -> str:
        lines = ["/* The layers. */", f"static int make_filters({self.name} *net) {{"]
        for f in self.source.filters:
            lines += [f"  {{ /* {f.note} */", *self._creation_of(f), "  }"]
        if not self.source.filters:
            lines.append("  (void)net;")
        return "\n".join([*lines, "  return 0;", "}", ""])

    def _creation_of(self, f: Filter) -> list[str]:
        return [
            *_indented(rendered_call(f.function, f.arguments, f"net->filters.{f.name} = ", ";"), 4),
            f"    if (net->filters.{f.name} == NULL) return failed({quoted(f.note)});",
        ]

    def _creation(self) -> str:
        lines = [
            f"{self.name} *{self.name}_create(const char *weights_path) {{",
            f"  {self.name} *net = calloc(1, sizeof *net);",
            "  if (net == NULL) {",
            '    failed("allocating memory");',
            "    return NULL;",
            "  }",
        ]
        for step in self.source.optimizers:
            lines += [
                f"  net->{step.name} = ({step.fields.type}){expression(step.fields)};",
                f"  net->{step.name}_steps = {step.steps};",
            ]
        lines += [
            "  if (map_weights(net, weights_path) != 0 || make_memory(net) != 0 || make_filters(net) != 0) {",
            f"    {self.name}_destroy(net);",
            "    return NULL;",
            "  }",
            "  return net;",
            "}",
            "",
        ]
        return "\n".join(lines)

    def _function(self, head: str, steps: list[str]) -> str:
        unused = [] if any("net->" in line for line in steps) else ["  (void)net;"]
        return "\n".join([f"{head} {{", *unused, *steps, "  return 0;", "}", ""])

    # Steps.

    def heading(self, heading: Heading) -> list[str]:
        return ["", f"  /* -- {heading.text} -- */"]

    def labels(self, step: Labels) -> list[str]:
        return labels_lines(step)

    def copy(self, step: Copy) -> list[str]:
        return copy_lines(step)

    def call(self, call: BNNSCall) -> list[str]:
        lines = rendered_call(call.function, call.arguments, "if (", " != 0)")
        lines.append(f"  return failed({quoted(call.note)});")
        if lines[0].startswith("if ("):  # no variables
            return [f"  /* {call.note} */", *_indented(lines, 2)]
        return [f"  {{ /* {call.note} */", *_indented(lines, 4), "  }"]

    def cache(self, cache: Cache) -> list[str]:
        bytes_ = f"net->caches.{cache.name}_bytes"
        before, after = (f"{bytes_} = ", ";") if cache.returns else ("if (", " != 0)")
        lines = rendered_call(cache.query.function, cache.query.arguments, before, after)
        if not cache.returns:
            lines.append(f"  return failed({quoted(cache.query.note)});")
        return [
            f"  if (net->caches.{cache.name} == NULL) {{ /* {cache.query.note}: memory for the backward pass */",
            *_indented(lines, 4),
            f"    net->caches.{cache.name} = malloc({bytes_});",
            f"    if (net->caches.{cache.name} == NULL) return failed({quoted(cache.query.note)});",
            "  }",
        ]

    # Training.

    def _training(self) -> list[str]:
        s = self.source
        assert s.train is not None and s.targets is not None and s.loss is not None
        steps = self.steps(s.train)
        steps += self.heading(Heading("Optimizer"))
        for step in s.optimizers:
            steps += self._optimizer(step)
        steps.append(f"  if (loss != NULL) *loss = *{expression(s.loss)};")
        rates = [f"  net->{step.name}.learning_rate = learning_rate;" for step in s.optimizers]
        save = [
            f"int {self.name}_save(const {self.name} *net, const char *weights_path) {{",
            '  FILE *file = fopen(weights_path, "wb");',
            '  if (file == NULL) return failed("opening the file with the weights");',
            "  size_t written = fwrite(net->file, 1, WEIGHTS_BYTES, file);",
            '  if (fclose(file) != 0 || written != WEIGHTS_BYTES) return failed("writing the file with the weights");',
            "  return 0;",
            "}",
            "",
        ]
        return [
            self._function(self._train_step_head(), steps),
            "\n".join(
                [f"void {self.name}_set_learning_rate({self.name} *net, float learning_rate) {{", *rates, "}", ""]
            ),
            "\n".join(save),
        ]

    def _optimizer(self, step: OptimizerStep) -> list[str]:
        count, roles = len(step.parameters), len(step.accumulators)
        fields = f"net->{step.name}"
        lines = [
            f"  {{ /* {step.function.names[0]} */",
            *_table("float *const values", map(expression, step.parameters)),
            *_table("float *const gradient_values", map(expression, step.gradients)),
            *_table("const size_t counts", map(str, step.counts_of)),
            f"    BNNSNDArrayDescriptor parameter[{count}], gradient[{count}], *parameters[{count}];",
            f"    const BNNSNDArrayDescriptor *gradients[{count}];",
            f"    for (size_t i = 0; i < {count}; i++) {{",
            "      parameter[i] = gradient[i] = (BNNSNDArrayDescriptor){.layout = BNNSDataLayoutVector,",
            "                                                           .size = {counts[i]},",
            "                                                           .data_type = BNNSDataTypeFloat32};",
            "      parameter[i].data = values[i];",
            "      gradient[i].data = gradient_values[i];",
            "      parameters[i] = &parameter[i];",
            "      gradients[i] = &gradient[i];",
            "    }",
        ]
        accumulators = "NULL"
        if roles:
            accumulators = "accumulators"
            lines += [
                *_table("float *const accumulator_values", map(expression, step.accumulators)),
                f"    BNNSNDArrayDescriptor accumulator[{roles}], *accumulators[{roles}];",
                f"    for (size_t i = 0; i < {roles}; i++) {{",
                f"      accumulator[i] = parameter[i % {count}];",
                "      accumulator[i].data = accumulator_values[i];",
                "      accumulators[i] = &accumulator[i];",
                "    }",
            ]
        lines.append(f"    {step.fields.type} fields = {fields};")
        if step.counts:
            lines.append(f"    fields.time_step = (float)({fields}_steps + 1);")
        if step.epsilon is not None:
            lines += [
                "    /* Epsilon is added to the corrected root, as PyTorch does, while BNNS adds it to the root itself. */",
                "    fields.epsilon = (float)((double)fields.epsilon *",
                "                             sqrt(1 - pow((double)fields.beta2, (double)fields.time_step)));",
            ]
        function = step.function.names[0]
        arguments = [function, "&fields", str(count), "parameters", "gradients", accumulators, "NULL"]
        return [
            *lines,
            *_indented(wrapped("if (BNNSOptimizerStep(", arguments, ") != 0)"), 4),
            f'      return failed("{step.function.names[0]}");',
            f"    {fields}_steps++;",
            "  }",
        ]

    def _destruction(self) -> str:
        s = self.source
        lines = [f"void {self.name}_destroy({self.name} *net) {{", "  if (net == NULL) return;"]
        lines += [f"  if (net->filters.{f.name} != NULL) BNNSFilterDestroy(net->filters.{f.name});" for f in s.filters]
        lines += [f"  free(net->caches.{name});" for name in s.caches]
        lines += [
            "  free(net->memory);",
            "  if (net->file != NULL) munmap(net->file, WEIGHTS_BYTES);",
            "  free(net);",
            "}",
            "",
        ]
        return "\n".join(lines)


def _indented(lines: Iterable[str], spaces: int) -> list[str]:
    return [indent(line, " " * spaces) for line in lines]


def _table(head: str, entries: Iterable[str]) -> list[str]:
    return _indented(wrapped(f"{head}[] = {{", list(entries), "};"), 4)


def _comment(sentences: list[str]) -> list[str]:
    first, *others = sentences
    if not others:
        return [f"/* {first} */"]
    return [f"/* {first}", *(f" * {line}" for line in others[:-1]), f" * {others[-1]} */"]


def _has_infinity(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, (tuple, list)):
        return any(map(_has_infinity, value))
    return any(_has_infinity(getattr(value, name)) for name in ("fields", "of", "entries") if hasattr(value, name))
