"""BNNSGraph in C: programs compile models of every kind of file, ask for arguments, execute, fail and clean up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from c_compilers import C_PROGRAMS, STRICT, compilers, environment_of_programs
from openbnns.clib import flags
from openbnns.clib.layouts import FUNCTIONS
from openbnns.interop import coreml

DENSE = """program(1.3)[buildInfo = dict<string, string>({{"anything", "1"}})]
{
    func main<ios16>(tensor<fp32, [2, 3]> x) {
            tensor<fp32, [3, 4]> W = const()[val = tensor<fp32, [3, 4]>([[1, -2, 3, 0.5], [-1, 0.25, 2, -3], [0.5, 1, -1, 2]])];
            tensor<fp32, [4]> b = const()[val = tensor<fp32, [4]>([0.5, -1, 0.25, 2])];
            bool no = const()[val = bool(false)];
            tensor<fp32, [2, 4]> xw = matmul(transpose_x = no, transpose_y = no, x = x, y = W);
            tensor<fp32, [2, 4]> s = add(x = xw, y = b);
            tensor<fp32, [2, 4]> z = relu(x = s);
        } -> (z);
}
"""
DYNAMIC = """program(1.3) { func main<ios16>(tensor<fp32, [?, 3]> x) {
    tensor<fp32, [?, 3]> z = relu(x = x); } -> (z); }"""
TYPES = """program(1.3) { func main<ios16>(tensor<int32, [4]> a, tensor<int32, [4]> b) {
    tensor<int32, [4]> s = add(x = a, y = b); tensor<bool, [4]> gt = greater(x = a, y = b); } -> (s, gt); }"""
LOGARITHM = """program(1.3) { func main<ios16>(tensor<fp32, [4]> x) {
    tensor<fp32, [4]> y = log(epsilon = fp32(0), x = x); } -> (y); }"""
STREAMING = """program(1.3) {
    func main<ios18>(state<tensor<fp32, [4]>> past, tensor<fp32, [2]> x)
        [BNNSOptions = dict<string, string>({{"StateMode", "Streaming"}})] {
            tensor<fp32, [4]> before = read_state(input = past);
            tensor<fp32, [6]> all = concat(axis = int32(0), interleave = bool(false), values = (before, x));
            tensor<fp32, [1]> y = reduce_sum(axes = tensor<int32, [1]>([0]), keep_dims = bool(true), x = all);
        } -> (y); }"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``graph.c``, built as `openbnns c-flags` says."""
    path = tmp_path_factory.mktemp("graph") / "graph"
    compiler = next(c for c in compilers() if c.standard == "gnu17")
    words = [*flags.compile_flags(), C_PROGRAMS / "graph.c", "-o", path, *flags.link_flags(), "-lm", "-pthread"]
    built = compiler.run(*STRICT, "-O2", *words)
    assert built.returncode == 0, built.stderr
    return path


def run(program: Path, *words: str | Path, **variables: str) -> str:
    """The output of a case, which has to succeed."""
    given = environment_of_programs(OPENBNNS_PYTHON=sys.executable, **variables)
    result = subprocess.run([program, *words], capture_output=True, text=True, env=given, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def written(text: str, folder: Path, kind: str) -> Path:
    """A program as a file of a kind."""
    if kind == "mil":
        (folder / "model.mil").write_text(text)
        return folder / "model.mil"
    model = coreml.make_model(coreml.parse(text))
    if kind == "mlmodelc":
        return coreml.write_compiled(model, folder / "model.mlmodelc")
    return coreml.write_package(model, folder / "model.mlpackage")


KINDS = ["mil", "mlmodelc", "mlpackage"]
CASES = {"dynamic": DYNAMIC, "types": TYPES, "callbacks": LOGARITHM, "threads": DENSE, "streaming": STREAMING}


def test_cases(program: Path, tmp_path: Path) -> None:
    """One process for all: dense has the program and the numbers that AppleAccelerate.jl recorded on a Mac."""
    words: list[str | Path] = []
    for kind in KINDS:
        words += ["dense", written(DENSE, tmp_path, kind), ""]
    for case, text in CASES.items():
        folder = tmp_path / case
        folder.mkdir()
        words += [case, written(text, folder, "mil"), ""]
    run(program, *words, "options", tmp_path / "model.mil", tmp_path / "graph.bin")
    assert (tmp_path / "graph.bin").stat().st_mode & 0o777 == 0o600


def test_models_that_cannot_be_compiled(program: Path, tmp_path: Path) -> None:
    """Each with the place of the mistake and what it is."""
    broken = [
        ("nonsense", "1:1", "expected 'program', got 'nonsense'"),
        (DENSE.replace("s = add", "s = plus"), "8:13", "there is no operation 'plus'"),
        (DENSE.replace("y = b)", "y = c)"), "8:13", "reads 'c' as y"),
        (DENSE.replace("add(x = xw", "add(z = xw"), "8:13", "add takes x, y"),
        (DENSE.replace("-> (z)", "-> (z, x)"), "10:14", "an input and an output of function 'main' at once"),
    ]
    words: list[str | Path] = []
    for number, (text, place, _) in enumerate(broken):
        folder = tmp_path / str(number)
        folder.mkdir()
        words += ["broken", written(text, folder, "mil"), f"{number}/model.mil:{place}"]
    said = run(program, *words).splitlines()
    for line, (_, _, message) in zip(said, broken, strict=True):
        assert message in line


def test_operations_that_cannot_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling says so, at its own level and with the place."""
    from openbnns import capi
    from openbnns.interop.coreml.lowering import RECORDED

    monkeypatch.delitem(RECORDED, "relu")
    options = capi.BNNSGraphCompileOptionsMakeDefault()
    seen: list[tuple[int, str, str]] = []
    capi.BNNSGraphCompileOptionsSetMessageLogCallback(options, lambda *message: seen.append(message[:3]))
    assert capi.BNNSGraphCompileFromFile(written(DENSE, tmp_path, "mil"), None, options).data is None
    ((level, text, place),) = seen
    assert level == capi.BNNSGraphMessageLevelUnsupported and place.endswith("model.mil:9:13")
    assert "the operation relu cannot be run here" in text


def test_old_networks_are_refused(tmp_path: Path) -> None:
    from openbnns import capi, last_error

    path = tmp_path / "old.mlmodel"
    path.write_bytes(b"\x08\x01\x12\x00\xa2\x1f\x00")  # version 1, an empty description, an empty neural network
    assert capi.BNNSGraphCompileFromFile(path, None, capi.bnns_graph_compile_options_t()).data is None
    assert "Only ML programs can be compiled" in (last_error() or "")


def test_every_name_links(program: Path, tmp_path: Path) -> None:
    """A program that mentions all functions of BNNSGraph, in both spellings, as foreign bindings do."""
    import json

    facts = json.loads((Path(__file__).parents[2] / "tools/facts/functions.json").read_text())
    names = [name for name in facts if name.startswith("BNNSGraph")]
    names += [fact["also"] for fact in facts.values() if "also" in fact]
    assert len(names) == 42 + 10 and set(names[:42]) < {name for name, _, _ in FUNCTIONS}
    lines = ["#include <vecLib/BNNS/bnns_graph.h>", "int main(void) {", "  void *volatile found;"]
    lines += [f"  found = (void *)(size_t){name};" for name in names]
    source = tmp_path / "names.c"
    source.write_text("\n".join([*lines, "  return found == NULL;", "}", ""]))
    compiler = next(c for c in compilers() if c.standard == "gnu17")
    built = compiler.run(
        *STRICT, *flags.compile_flags(), source, "-o", tmp_path / "names", *flags.link_flags(), "-pthread"
    )
    assert built.returncode == 0, built.stderr
    assert subprocess.run([tmp_path / "names"], check=False).returncode == 0


def test_many_arguments_and_memory(program: Path, tmp_path: Path) -> None:
    """The same block for the same model, and numbers of a random network that are those of NumPy."""
    from openbnns import capi

    random = np.random.default_rng(3)
    weights = random.standard_normal((64, 33)).astype(np.float32)
    values = ", ".join(f"[{', '.join(map(str, row.tolist()))}]" for row in weights)
    text = f"""program(1.3) {{ func main<ios16>(tensor<fp32, [5, 64]> x) {{
        tensor<fp32, [64, 33]> w = const()[val = tensor<fp32, [64, 33]>([{values}])];
        tensor<fp32, [5, 33]> y = matmul(transpose_x = bool(false), transpose_y = bool(false), x = x, y = w);
        }} -> (y); }}"""
    graph = capi.BNNSGraphCompileFromFile(
        written(text, tmp_path, "mlmodelc"), None, capi.bnns_graph_compile_options_t()
    )
    assert graph.data is not None and graph.size > weights.nbytes
    context = capi.BNNSGraphContextMake(graph)
    x = random.standard_normal((5, 64)).astype(np.float32)
    y = np.zeros((5, 33), np.float32)
    arguments = [capi.bnns_graph_argument_t(data_ptr=a, data_ptr_size=a.nbytes) for a in (y, x)]
    assert capi.BNNSGraphContextExecute(context, None, 2, arguments, 0) == 0
    np.testing.assert_allclose(y, x @ weights, rtol=1e-5, atol=1e-5)


HOSTILE = """
import ctypes, sys
from pathlib import Path
import numpy as np
import openbnns
from openbnns.clib.layouts import FUNCTIONS
from openbnns.examples import DENSE

library = ctypes.CDLL(str(Path(openbnns.__file__).parent / "lib" / "libopenbnns.so"))
library.openbnns_last_error.restype = ctypes.c_char_p


class Pair(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


KINDS = {"bool": ctypes.c_bool, "int": ctypes.c_int, "size_t": ctypes.c_size_t, "uint32_t": ctypes.c_uint32,
         "uint64_t": ctypes.c_uint64, "int64_t": ctypes.c_int64}
RETURNED = {"v": None, "i": ctypes.c_int, "u": ctypes.c_size_t, "p": ctypes.c_void_p, "o": Pair, "c": Pair, "m": Pair,
            "r": ctypes.c_void_p}
compile_ = library.BNNSGraphCompileFromFile
compile_.restype, compile_.argtypes = Pair, [ctypes.c_char_p, ctypes.c_char_p, Pair]
make = library.BNNSGraphContextMake
make.restype, make.argtypes = Pair, [Pair]
graph = compile_(str(DENSE).encode(), None, Pair(None, 0))
context = make(graph)
default = library.BNNSGraphCompileOptionsMakeDefault
default.restype = Pair
options = default()
begin = library.openbnns_graph_builder_make
begin.restype = ctypes.c_void_p
builder = begin()
assert graph.data and context.data and options.data
random = np.random.default_rng(int(sys.argv[1]))
room = ctypes.create_string_buffer(4096)
words = [ctypes.create_string_buffer(text) for text in (b"", b"main", b"x", b"other", bytes([255, 254]))]
operations = [ctypes.create_string_buffer(text) for text in (
    b'{"operation": "argument", "arguments": {"shape": [3]}}', b'{"operation": "relu", "tensor": 0}', b'[[]]',
    b'{"operation": "constant", "arguments": {"data_type": 65568, "shape": [0]}}', b'{"operation": 5}',
)]
refused = 0


def argument(name, kind):
    if kind in ("bnns_graph_t", "bnns_graph_context_t", "bnns_graph_compile_options_t"):
        held = {"bnns_graph_t": graph, "bnns_graph_context_t": context}.get(kind, options)
        choices = [held, held, Pair(None, 0)]
        if kind != "bnns_graph_t":  # a graph is memory, which is trusted
            choices += [graph, Pair(0x1234, 16), Pair(held.data + 1, 16), Pair(held.data ^ (1 << 30), 16)]
        else:
            choices += [Pair(ctypes.addressof(room), 64), Pair(ctypes.addressof(room), 8)]
        return choices[random.integers(len(choices))]
    if kind == "openbnns_graph_builder":
        choices = [builder, builder, None, options.data, 0x1234, builder + 1]
        return ctypes.c_void_p(choices[random.integers(len(choices))])
    if name == "operation":
        return operations[random.integers(len(operations))]
    if kind == "char*":
        return ctypes.c_char_p(None) if random.integers(4) == 0 else words[random.integers(len(words))]
    if kind.endswith("_fn_t"):
        return ctypes.c_void_p(None)
    if kind.endswith("*"):
        return ctypes.c_void_p(None if random.integers(4) == 0 else ctypes.addressof(room))
    if name == "log_level_mask" or kind == "size_t":
        return KINDS[kind](int(random.choice([0, 1, 2, 3, 2**31])) if "count" not in name else int(random.integers(4)))
    return KINDS.get(kind, ctypes.c_uint32)(int(random.integers(0, 5)) - (kind == "int"))


for turn in range(1500):
    name, letter, parameters = FUNCTIONS[97 + random.integers(47)]
    if name.endswith(("_destroy", "ContextDestroy", "OptionsDestroy", "SetOutputFD")):
        continue
    ctypes.memset(room, 0, 4096)
    function = getattr(library, name)
    function.restype = RETURNED[letter]
    function(*[argument(*parameter) for parameter in parameters])
    refused += library.openbnns_last_error() is not None
print(refused)
"""


def test_hostile_calls(tmp_path: Path) -> None:
    """NULL, invalid handles, handles of another kind, numbers out of range: a status and a message, never a crash."""
    run = subprocess.run(
        [sys.executable, "-c", HOSTILE, "1"], capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    assert 300 < int(run.stdout) < 1500


def test_executions_allocate_nothing_and_take_no_lock(tmp_path: Path) -> None:
    """Five values of 1 MB, in float32 and float16, by one thread."""
    compiler = next(c for c in compilers() if c.standard == "gnu17")
    program = tmp_path / "allocations"
    words = [*flags.compile_flags(), C_PROGRAMS / "allocations.c", "-o", program, *flags.link_flags()]
    built = compiler.run(*STRICT, "-O2", *words)
    assert built.returncode == 0, built.stderr
    for stored in ("fp32", "fp16"):
        tensor = f"tensor<{stored}, [512, 512]>"
        text = f"""program(1.3) {{ func main<ios16>(tensor<fp32, [512, 512]> x) {{
            {tensor} h = cast(x = x, dtype = string("{stored}")); {tensor} a = square(x = h); {tensor} b = sigmoid(x = a);
            {tensor} c = sub(x = a, y = b); {tensor} d = add(x = c, y = b);
            tensor<fp32, [512, 512]> y = cast(x = d, dtype = string("fp32")); }} -> (y); }}"""
        assert run(program, written(text, tmp_path, "mil"), OPENBNNS_NUM_THREADS="1").split() == ["0", "0", "0"]
