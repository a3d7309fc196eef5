"""How processors of arm64 compute products: the loops that the compiler made, and how many instructions they take."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator

import capstone
import pytest
from elftools.elf.elffile import ELFFile

from cross.test_programs import FOLDER, emulator

CONVERSIONS = {"scvtf", "ucvtf", "fcvtl", "fcvtl2", "shll", "shll2", "sshll", "sshll2", "ushll", "ushll2", "tbl"}


class Loop:
    """The instructions of a loop that has no loop inside."""

    def __init__(self, instructions: list[capstone.CsInsn]) -> None:
        self.count = len(instructions)
        self.names = Counter(i.mnemonic for i in instructions)
        self.fused = sum(i.mnemonic == "fmla" and ".4s" in i.op_str for i in instructions)
        self.unfused = sum(i.mnemonic in ("fmul", "fadd", "fmadd") for i in instructions)


def inner_loops(source: str) -> list[Loop]:
    """Innermost loops of the kernels in one source file, from its object file."""
    loops = []
    with (FOLDER / "CMakeFiles" / "kernels_base.dir" / f"{source}.o").open("rb") as file:
        for section in ELFFile(file).iter_sections():
            if section["sh_flags"] & 4:  # instructions
                loops += list(loops_of(list(disassembler().disasm(section.data(), 0))))
    return loops


def disassembler() -> capstone.Cs:
    return capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)


def loops_of(instructions: list[capstone.CsInsn]) -> Iterator[Loop]:
    jumps = []
    for i in instructions:
        if i.mnemonic.startswith("b.") or i.mnemonic in ("b", "cbz", "cbnz", "tbz", "tbnz"):
            target = int(i.op_str.split("#")[-1], 16)
            if target < i.address:
                jumps.append((target, i.address))
    for start, end in jumps:
        if not any((start, end) != other and start <= other[0] and other[1] <= end for other in jumps):
            yield Loop(instructions[start // 4 : end // 4 + 1])


@pytest.mark.parametrize(
    ("source", "share"),
    [("micro_kernel", 0.7), ("micro_kernel_pair", 0.6), ("micro_kernel_product", 0.6), ("gemm_small", 0.4)],
)
def test_products_are_fused_multiply_adds_on_vectors(source: str, share: float) -> None:
    """The float32 loop with most fused multiply-adds: how many of its instructions they are, all on four lanes."""
    loops = [loop for loop in inner_loops(f"core/gemm/{source}.cpp") if not CONVERSIONS & loop.names.keys()]
    loop = max(loops, key=lambda loop: loop.fused)
    assert loop.fused >= share * loop.count, loop.names
    assert loop.unfused == 0, loop.names


def instructions_per_multiply_add(who: str, rows: int) -> float:
    """QEMU's list of what it runs has one line for each instruction: three products have one product more than two."""
    counts = []
    for times in ("2", "3"):
        command = [*emulator(), "-singlestep", "-d", "exec,nochain", FOLDER / "products_base", who, str(rows), times]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            assert process.stderr
            counts.append(sum(line.startswith(b"Trace") for line in process.stderr))
        assert process.returncode == 0
    return (counts[1] - counts[0]) / (rows * 64 * 64)


@pytest.mark.parametrize(("rows", "most", "least_gain"), [(64, 0.65, 4.5), (1, 1.1, 2.5)])
def test_instructions_per_multiply_add(
    rows: int, most: float, least_gain: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """Instructions of a matrix, or a row of dot products, all included, against loops compiled with the same options."""
    ours, naive = (instructions_per_multiply_add(who, rows) for who in ("ours", "naive"))
    with capsys.disabled():
        print(f"\n{rows} x 64 x 64: {ours:.3f} instructions per multiply-add, naive loops {naive:.3f}")
    assert ours <= most
    assert naive >= least_gain * ours
