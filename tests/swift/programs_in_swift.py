"""Swift programs from beginning to end: training, memory, vectors, `openbnns swift-flags`, a package, and generated sources."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from openbnns import nn
from openbnns.clib import flags
from source_networks import NETWORKS, STEPS
from swift.swift_tools import PROGRAMS, ROOT, Module, run

pytest_plugins = ["swift.swift_fixtures"]

PLAIN = (PROGRAMS / "support.swift",)
DIGITS = ROOT / "examples" / "swift" / "digits.swift"


def test_a_network_learns(module: Module) -> None:
    program = module.compile(DIGITS, name="digits", options=("-parse-as-library", "-O"))
    output = run(program, cwd=module.folder).stdout
    assert float(output.split()[-1]) >= 0.97, output


def test_c_functions_alone(module: Module) -> None:
    program = module.compile(ROOT / "examples" / "swift" / "layer.swift", name="layer")
    assert "all numbers are right" in run(program, cwd=module.folder).stdout


def test_vectors(module: Module) -> None:
    program = module.compile(PROGRAMS / "vectors.swift", name="vectors", options=("-parse-as-library", "-O"))
    assert run(program, cwd=module.folder).stdout == "passed\n"


@pytest.mark.parametrize("name", ["graph", "builder"])
def test_graphs(name: str, module: Module) -> None:
    program = module.compile(PROGRAMS / f"{name}.swift", name=name, options=("-parse-as-library",))
    assert run(program, cwd=module.folder).stdout == "passed\n"


def test_memory_does_not_grow(module: Module) -> None:
    """10,000 creations and releases of layers, as many arrays, generators and stores, 500 graphs of 256 KB."""
    program = module.compile(*PLAIN, PROGRAMS / "memory.swift", name="memory", options=("-parse-as-library", "-O"))
    output = run(program, "2500", cwd=module.folder).stdout  # four layers in each round, and one that is refused
    layers, graphs = map(int, output.split()[1:])
    assert layers < 1500, f"{layers} kB more"  # 0.8 MB, however many rounds: Python's own memory
    assert graphs < 40_000, f"{graphs} kB more"  # they had 192 MB of constants, which Python collects in turns


@pytest.mark.parametrize(
    ("source", "arguments"),
    [
        (PROGRAMS / "classes.swift", ()),
        (PROGRAMS / "memory.swift", ("50",)),
        (PROGRAMS / "builder.swift", ()),
        (DIGITS, ()),
    ],
    ids=lambda value: value.stem if isinstance(value, Path) else "",
)
def test_address_sanitizer_finds_nothing(source: Path, arguments: tuple[str, ...], sanitized: Module) -> None:
    program = sanitized.compile(*PLAIN, source, name=source.stem, options=("-parse-as-library",))
    done = run(
        program, *arguments, cwd=sanitized.folder, ASAN_OPTIONS="detect_leaks=0"
    )  # Python keeps what it has at the end
    assert "Sanitizer" not in done.stderr, done.stderr


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Module:
    return Module(tmp_path_factory.mktemp("sanitized"), "-sanitize=address")


def test_errors_tell_the_reason(module: Module, tmp_path: Path) -> None:
    source = tmp_path / "main.swift"
    source.write_text(
        "import Accelerate\n"
        "let x = BNNSNDArrayDescriptor.allocate(repeating: Float(1), shape: .vector(3))\n"
        "do { try BNNS.transpose(input: x, output: x, firstTransposeAxis: 7, secondTransposeAxis: 0) } catch { print(error) }\n"
        "do { try BNNS.copy(x, to: x) } catch { print(error) }\n"
        "let none = BNNSNDArrayDescriptor(dataType: .float, shape: [3])\n"
        "let layer = BNNS.ActivationLayer(function: .tanh, input: x, output: x)!\n"
        "do { try layer.apply(batchSize: 1, input: none, output: x) } catch BNNS.Error.arrayDescriptorInvalidData { print(1) }\n",
        encoding="utf-8",
    )
    lines = run(module.compile(source, name="errors"), cwd=tmp_path).stdout.splitlines()
    assert re.match(r"BNNS\.Error\.layerApplyFail: BNNSTranspose: axis0 is 7, but .* has axes 0 to 0", lines[0])
    assert lines[-1] == "1"


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (
            "BNNSNDArrayDescriptor.allocate(initializingFrom: [1, 2] as [Float], shape: [3])",
            "has 2 elements, but 1 of this",
        ),
        ("BNNS.Shape([1, 2], dataLayout: .vector)", "vector has 1 axes, got 2 sizes"),
        (
            "BNNS.NearestNeighbors(capacity: 0, dimensionCount: 1, neighborCount: 1, dataType: .float)",
            "BNNSCreateNearestN",
        ),
        ("BNNSVectorDescriptor(size: 1, data_type: .indexed8)", "vectors have no table"),
        (
            "BNNSImageStackDescriptor("
            "width: 1, height: 1, channels: 1, row_stride: 1, image_stride: 1, data_type: .indexed8)",
            "images have no table",
        ),
        ("BNNSLayerData(data: nil, data_type: .indexed8)", "indexed8 needs a table"),
        ("vDSP.gather([1, 2] as [Float], indices: [3, 1] as [UInt])", "got the place 3, but places are 1 to 2"),
        (
            "BNNSTensor.allocate(repeating: Float(1), shape: [2], stride: [1]).makeArray(of: Int16.self)",
            "the tensor has elements",
        ),
    ],
)
def test_what_cannot_throw_ends_with_the_reason(statement: str, reason: str, module: Module, tmp_path: Path) -> None:
    source = tmp_path / "main.swift"
    source.write_text(f"import Accelerate\n_ = {statement}\n", encoding="utf-8")
    done = run(module.compile(source, name="ending"), cwd=tmp_path, check=False)
    assert done.returncode != 0
    assert reason in done.stderr, done.stderr


def test_programs_without_optimization_compare_types_of_c(module: Module, tmp_path: Path) -> None:
    """Several types at once: functions that compare them are in the program and in the module, and only one of each is linked."""
    source = tmp_path / "main.swift"
    source.write_text(
        "import Accelerate\n"
        "func same<T: Equatable>(_ a: T, _ b: T) -> Bool { a == b }\n"
        "var parameters = BNNSFilterParameters()\n"
        "parameters.options.insert(.useClientPointer)\n"
        "print(parameters.options.contains(.useClientPointer), parameters.flags)\n"
        "switch BNNSDataType.float16 {\n"
        "case .float: print(32)\n"
        "case .float16: print(16)\n"
        "default: print(0)\n"
        "}\n"
        "print(same(BNNSDataLayoutImageCHW, BNNS.Shape.imageCHW(1, 2, 3).layout), same(BNNSActivationFunction.tanh, .sigmoid))\n",
        encoding="utf-8",
    )
    program = module.compile(source, name="unoptimized", options=("-Onone",))
    assert run(program, cwd=tmp_path).stdout.splitlines() == ["true 1", "16", "true false"]
    comparisons = re.findall(rb"\$sSo\d+(\w+?)VSQSCSQ2ee", (module.folder / "libAccelerate.a").read_bytes())
    assert set(comparisons) == {b"BNNSFlags"}  # the reason is in Descriptors.swift


# How users build programs.


def test_swift_flags(tmp_path: Path) -> None:
    """A folder with a space in its name, and a cache that is empty at first."""
    folder = tmp_path / "a program"
    folder.mkdir()
    (folder / "main.swift").write_text("import Accelerate\nprint(BNNS.Shape.vector(3).batchStride)\n", encoding="utf-8")
    script = f'eval "swiftc main.swift -o program $({sys.executable} -m openbnns swift-flags)" && ./program'
    for _ in range(2):  # builds the module, and finds it
        done = run("sh", "-c", script, cwd=folder, XDG_CACHE_HOME=str(tmp_path / "cache"), HOME=str(tmp_path))
        assert done.stdout == "3\n"
    assert len(list((tmp_path / "cache" / "openbnns" / "swift").iterdir())) == 1


def test_a_package(tmp_path: Path) -> None:
    """The manifest and the link of docs/swift.md; the program starts without any variable of the environment."""
    text = (ROOT / "docs" / "swift.md").read_text(encoding="utf-8")
    manifest = next(
        block for block in re.findall(r"```swift\n(.*?)```", text, re.DOTALL) if "swift-tools-version" in block
    )
    program = next(
        block for block in re.findall(r"```swift\n(.*?)```", text, re.DOTALL) if "FullyConnectedLayer" in block
    )
    sources = tmp_path / "Sources" / "Program"
    sources.mkdir(parents=True)
    (tmp_path / "Package.swift").write_text(manifest, encoding="utf-8")
    (tmp_path / "openbnns").symlink_to(flags.prefix())
    (sources / "main.swift").write_text(program, encoding="utf-8")
    done = run("swift", "build", "--disable-sandbox", cwd=tmp_path, HOME=str(tmp_path), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stdout + done.stderr
    assert run(tmp_path / ".build" / "debug" / "Program", cwd=tmp_path).stdout == "[6.0, 15.0]\n"


def test_the_graph_of_the_docs(module: Module, tmp_path: Path) -> None:
    """It prints what its comments say."""
    text = (ROOT / "docs" / "swift.md").read_text(encoding="utf-8")
    (program,) = (block for block in re.findall(r"```swift\n(.*?)```", text, re.DOTALL) if "makeContext" in block)
    (tmp_path / "main.swift").write_text(program, encoding="utf-8")
    output = run(module.compile(tmp_path / "main.swift", name="documented"), cwd=tmp_path).stdout
    assert output.splitlines() == re.findall(r"print\(.*\)  // (.*)", program)


# Networks as Swift source code: losses, weights and outputs are those of the network, bit for bit.

MAIN = """
import Foundation

func read<T>(_ path: String, as type: T.Type) throws -> [T] {
    let data = try Data(contentsOf: URL(fileURLWithPath: path))
    return data.withUnsafeBytes { Array($0.bindMemory(to: T.self)) }
}

func write(_ values: [Float], _ path: String) throws {
    try values.withUnsafeBytes { Data($0) }.write(to: URL(fileURLWithPath: path))
}

if (try? Network(weightsPath: "nowhere")) != nil || (try? Network(weightsPath: "main.swift")) != nil { exit(2) }
let network = try Network(weightsPath: "network.weights")
let samples = try read("input", as: Float.self)
let classes = try read("targets", as: Int64.self)
let (batch, steps) = (Network.batch, classes.count / Network.batch)
let size = samples.count / steps
var losses: [Float] = []
for step in 0..<steps {
    let x = Array(samples[step * size..<(step + 1) * size])
    losses.append(try network.trainStep(input: x, targets: Array(classes[step * batch..<(step + 1) * batch])))
}
try write(losses, "losses")
try network.save(weightsPath: "trained.weights")
var scores = [Float](repeating: 0, count: 5 * batch)
try network.predict(input: samples, output: &scores)
try write(scores, "output")
"""


@pytest.mark.parametrize("name", NETWORKS)
def test_generated_sources_train_and_predict(name: str, module: Module, tmp_path: Path) -> None:
    batch, rng = 4, np.random.default_rng(5)
    net, sample = NETWORKS[name]()
    net.build(sample, seed=1)
    x = rng.standard_normal((STEPS * batch, *sample)).astype(np.float32)
    targets = rng.integers(0, 5, STEPS * batch)
    written = net.to_swift(tmp_path, True, batch_size=batch, loss="cross_entropy", optimizer=nn.Adam(0.01))
    (tmp_path / "main.swift").write_text(MAIN, encoding="utf-8")
    x.tofile(tmp_path / "input")
    targets.tofile(tmp_path / "targets")
    program = module.compile(tmp_path / "main.swift", tmp_path / "network.swift", name=f"generated_{name}")
    run(program, cwd=tmp_path, OPENBNNS_LOG="1", OPENBNNS_NUM_THREADS="1")
    step = net.train().compile_step("cross_entropy", nn.Adam(0.01), batch)
    ours = [step(x[i * batch : (i + 1) * batch], targets[i * batch : (i + 1) * batch]) for i in range(STEPS)]
    assert np.fromfile(tmp_path / "losses", np.float32).tolist() == np.float32(ours).tolist()
    state = net.state_dict()
    for path, array in written.read(tmp_path / "trained.weights").items():
        assert np.array_equal(array, state[path]), path
    assert np.array_equal(np.fromfile(tmp_path / "output", np.float32), net.eval()(x[:batch]).reshape(-1))
