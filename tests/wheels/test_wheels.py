"""Wheels for other people's machines (`make wheels`), looked at as installers, linkers and auditors do (`make test-wheels`)."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

import openbnns

WHEELS = sorted(Path(os.environ["OPENBNNS_WHEELS"]).glob("*.whl"))
GLIBC = (2, 17)
"""The C library that wheels say they are content with: their tag is manylinux_2_17."""

LARGEST = 6_000_000
LIBRARIES = {"libc.so", "libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1",
             "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}  # fmt: skip

wheels = pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.name)


def programs(wheel: Path) -> dict[str, ELFFile]:
    """The compiled files by name."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".so")]
        return {name: ELFFile(io.BytesIO(archive.read(name))) for name in names}


def platform_of(wheel: Path) -> tuple[str, str, str]:
    """The last tag of its platform, the processor in it, and the C library as names of modules have it."""
    tag = wheel.stem.split("-")[-1].split(".")[-1]
    match = re.fullmatch(r"(manylinux_2_17|musllinux_1_2)_(x86_64|aarch64)", tag)
    assert match, f"{tag} is none of the platforms that `make wheels` builds for"
    return tag, match[2], "musl" if match[1].startswith("musl") else "gnu"


def test_there_are_wheels() -> None:
    assert WHEELS, f"no wheels in {os.environ['OPENBNNS_WHEELS']}: run `make wheels` first"


@wheels
def test_contents(wheel: Path) -> None:
    """One module for the Python of the tag, the C library, everything that is in RECORD and nothing else."""
    name, version, python, abi, _ = wheel.stem.split("-")
    tag, processor, library = platform_of(wheel)
    assert (name, version) == ("openbnns", openbnns.__version__)
    assert abi in (python, f"{python}t")  # which is free-threaded
    module = f"openbnns/_core.cpython-{abi.removeprefix('cp')}-{processor}-linux-{library}.so"
    assert sorted(programs(wheel)) == sorted([module, "openbnns/lib/libopenbnns.so"])
    with zipfile.ZipFile(wheel) as archive:
        (record,) = (n for n in archive.namelist() if n.endswith(".dist-info/RECORD"))
        rows = {row[0]: row[1] for row in csv.reader(io.StringIO(archive.read(record).decode()))}
        assert sorted(rows) == sorted(archive.namelist())
        for file, stated in rows.items():
            if file != record:
                digest = base64.urlsafe_b64encode(hashlib.sha256(archive.read(file)).digest()).rstrip(b"=").decode()
                assert stated == f"sha256={digest}", file
        information = archive.read(record.replace("RECORD", "WHEEL")).decode()
        assert f"Tag: {python}-{abi}-{tag}\n" in information


@wheels
def test_size(wheel: Path) -> None:
    assert wheel.stat().st_size <= LARGEST
    for name, program in programs(wheel).items():
        assert program.get_section_by_name(".symtab") is None, f"{name} is not stripped"
        assert program.get_section_by_name(".eh_frame") is not None, f"stacks in {name} cannot be unwound"


@wheels
def test_nothing_is_newer_than_the_tag_says(wheel: Path) -> None:
    """Only the C library is needed, in the version of the tag or any later one."""
    for name, program in programs(wheel).items():
        dynamic = program.get_section_by_name(".dynamic")
        assert isinstance(dynamic, DynamicSection)
        assert {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")} <= LIBRARIES
        assert not [*dynamic.iter_tags("DT_RPATH"), *dynamic.iter_tags("DT_RUNPATH")], f"{name} looks elsewhere"
        if platform_of(wheel)[2] == "musl":  # which has no versions of symbols
            continue
        versions = program.get_section_by_name(".gnu.version_r")
        assert isinstance(versions, GNUVerNeedSection)
        asked = {version.name for _, auxiliary in versions.iter_versions() for version in auxiliary}
        assert asked, f"{name} asks for nothing of the C library, so this test looks at the wrong place"
        for version in asked:
            number = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", version)
            assert number, f"{name} asks for {version}"
            assert (int(number[1]), int(number[2])) <= GLIBC, f"{name} asks for {version}"


@wheels
def test_hardening(wheel: Path) -> None:
    """Addresses of functions are bound at the start and read-only from then on; no stack can be executed."""
    for name, program in programs(wheel).items():
        kinds = {segment["p_type"]: segment["p_flags"] for segment in program.iter_segments()}
        assert "PT_GNU_RELRO" in kinds, name
        assert kinds["PT_GNU_STACK"] & 1 == 0, name
        dynamic = program.get_section_by_name(".dynamic")
        assert isinstance(dynamic, DynamicSection)
        flags = [tag["d_val"] for tag in dynamic.iter_tags("DT_FLAGS")]
        assert flags and flags[0] & 8, f"{name} is not linked with -z now"


@wheels
def test_exports(wheel: Path) -> None:
    """The module shows its start, the library the functions of the header; neither any of the C++ library."""
    for name, program in programs(wheel).items():
        table = program.get_section_by_name(".dynsym")
        seen = {s.name for s in table.iter_symbols() if s["st_shndx"] != "SHN_UNDEF" and s.name}
        if "_core" in name:
            assert seen == {"PyInit__core"}
        else:
            assert len(seen) == 100
            assert all(symbol.startswith(("BNNS", "openbnns_")) for symbol in seen)


@wheels
def test_bill_of_materials(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if ".dist-info/sboms/" in n)
        bill = json.loads(archive.read(name))
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["version"] == openbnns.__version__
    parts = {part["name"]: part["version"] for part in bill["components"]}
    assert set(parts) == {"nanobind", "libc++", "Optical Recognition of Handwritten Digits"}
    assert all(parts.values())


@pytest.mark.parametrize("wheel", [w for w in WHEELS if "manylinux" in w.name], ids=lambda wheel: wheel.name)
def test_auditwheel_agrees(wheel: Path) -> None:
    """auditwheel takes wheels for musl only if they call the C library as Alpine does; libc.so is its name everywhere."""
    command = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    words = " ".join(shown.split())
    match = re.search(r'is consistent with the following platform tag: "manylinux_2_(\d+)_\w+"', words)
    assert match, shown
    assert int(match[1]) <= GLIBC[1]
