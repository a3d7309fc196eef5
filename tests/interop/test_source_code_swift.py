"""Networks as Swift source code, read as far as a test can without a compiler; `make test-swift` builds and runs it.

Brackets must match, every name must be declared, every call of BNNS must have the arguments that the C
function has, and every field that is assigned must be one of its struct.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from openbnns import capi, nn
from openbnns.abi.values import Struct
from source_networks import NETWORKS

VOCABULARY = set(
    """
    import Accelerate Foundation final class struct Error let var static private func init deinit throws throw try if else guard
    do defer for in return nil true false self Self String Int Int32 Int64 UInt UInt8 UInt32 Float Double Bool Data URL map
    UnsafeMutableRawPointer UnsafeRawPointer UnsafeMutablePointer UnsafePointer open O_RDONLY close stat fstat mmap munmap
    PROT_READ PROT_WRITE MAP_PRIVATE MAP_FAILED pow T _ discardableResult
    """.split()  # noqa: SIM905
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The four networks, each with a training step and without."""
    written = tmp_path_factory.mktemp("swift")
    for name, make in NETWORKS.items():
        net, sample = make()
        net.build(sample, seed=1)
        net.to_swift(written, name=name)
        net.to_swift(written, True, name=f"{name}_training", loss="cross_entropy", optimizer="adam", batch_size=4)
    return written


def plain(text: str) -> str:
    """Without comments and strings."""
    return re.sub(r'//.*|"(?:\\.|[^"\\])*"', '""', text)


def calls(text: str) -> list[tuple[str, list[str]]]:
    """Functions of BNNS and their arguments."""
    entries = []
    for match in re.finditer(r"\b(BNNS\w+)\(", text):
        depth, start, arguments = 1, match.end(), []
        for place in range(match.end(), len(text)):
            depth += (text[place] in "([{") - (text[place] in ")]}")
            if depth == 0 or (depth == 1 and text[place] == ","):
                arguments.append(text[start:place].strip())
                start = place + 1
            if depth == 0:
                break
        entries.append((match[1], [argument for argument in arguments if argument]))
    return entries


def field_types(struct: type[Struct]) -> dict[str, type[Struct] | None]:
    zero = struct()
    return {name: type(v) if isinstance(v := getattr(zero, name), Struct) else None for name in struct._kinds}


@pytest.mark.parametrize("name", [f"{name}{ending}" for name in NETWORKS for ending in ("", "_training")])
def test_swift_reads_well(name: str, folder: Path) -> None:
    text = plain((folder / f"{name}.swift").read_text())
    assert ("trainStep" in text) == name.endswith("training")
    stack: list[str] = []
    for character in text:
        if character in "([{":
            stack.append(")]}"["([{".index(character)])
        elif character in ")]}":
            assert stack.pop() == character
    assert stack == []
    declared = set(re.findall(r"\b(?:let|var|func|class|struct|for)\s+(\w+)", text))
    declared |= set(re.findall(r"[(,]\s*(?:_\s+)?(\w+):", text))  # parameters and labels
    declared |= set(re.findall(r"\{ (\w+), (\w+) in", text)[0] if "enumerated" in text else ())
    used = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", text))
    unknown = {n for n in used - declared - VOCABULARY if not n.startswith("BNNS")}
    assert unknown == set()
    unknown = {n for n in used if n.startswith("BNNS") and not hasattr(capi, n)}
    assert unknown == set()
    made = calls(text)
    assert len(made) > 5
    for function, arguments in made:
        thing = getattr(capi, function)
        if inspect.isfunction(thing):
            assert len(arguments) == len(inspect.signature(thing).parameters), (function, arguments)
    check_fields(text)


def check_fields(text: str) -> None:
    """Every assignment to a field is to one that the struct of the variable has."""
    structs: dict[str, str] = {}
    count = 0
    for line in text.splitlines():
        made = re.search(r"\bvar (\w+) = (BNNS\w+)\(", line)
        if made:
            structs[made[1]] = made[2]
        match = re.match(r"\s*(\w+)\.([\w.]+) = ", line)
        if match is None:
            continue
        variable, path = match.groups()
        count += 1
        if variable == "fields":
            variable = "optimizer_0"
        struct: type[Struct] | None = getattr(capi, structs[variable])
        for part in path.split("."):
            if part.isdigit():
                continue
            assert struct is not None, line
            fields = field_types(struct)
            assert part in fields, line
            struct = capi.BNNSNDArrayDescriptor if part == "iw_desc" else fields[part]
    assert count > 20


def test_pointers_have_the_types_of_macos(folder: Path) -> None:
    """Entries of lists that must not be NULL are not optional, and a struct with such a field has no zero to begin with."""
    cnn, lstm = ((folder / f"{name}_training.swift").read_text(encoding="utf-8") for name in ("cnn", "lstm"))
    assert "layer_params_: [UnsafeRawPointer] = [" in cnn
    assert "delta_parameters_: [UnsafeMutablePointer<BNNSNDArrayDescriptor>?] = [" in cnn
    assert ") -> [UnsafeMutablePointer<BNNSNDArrayDescriptor>] {" in cnn
    assert "var accumulators: [UnsafeMutablePointer<BNNSNDArrayDescriptor>?] = " in cnn
    assert "BNNSLayerParametersArithmetic(" in lstm
    assert "BNNSLayerParametersArithmetic()" not in lstm


def test_both_languages_have_the_same_weights(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 2)).build((3,))
    net.to_c(tmp_path / "c")
    net.to_swift(tmp_path / "swift")
    names = sorted(path.name for path in (tmp_path / "swift").iterdir())
    assert names == ["network.swift", "network.weights"]
    assert (tmp_path / "c/network.weights").read_bytes() == (tmp_path / "swift/network.weights").read_bytes()
