"""Zig's Clang as a compiler for other machines: an old C library, another processor, another system."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import ziglang

ROOT = Path(__file__).resolve().parents[1]

# Zig has names of its own for processors.
WRAPPER = """#!/bin/sh
for word; do
  shift
  case "$word" in
    -march=x86-64-v3) word=-march=x86_64_v3 ;;
    -march=x86-64-v4) word=-march=x86_64_v4 ;;
  esac
  set -- "$@" "$word"
done
exec "{zig}" {command} "$@"
"""


@dataclass(frozen=True)
class Target:
    """A platform to compile for, under Zig's name and the name in wheels."""

    name: str
    processor: str
    system: str
    zig: str
    tag: str


TARGETS = {
    target.name: target
    for target in (
        Target("x86_64-linux-gnu", "x86_64", "Linux", "x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
        Target("aarch64-linux-gnu", "aarch64", "Linux", "aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64.manylinux2014_aarch64"),
        Target("x86_64-linux-musl", "x86_64", "Linux", "x86_64-linux-musl", "musllinux_1_2_x86_64"),
        Target("aarch64-linux-musl", "aarch64", "Linux", "aarch64-linux-musl", "musllinux_1_2_aarch64"),
        Target("aarch64-macos", "arm64", "Darwin", "aarch64-macos.11.0", "macosx_11_0_arm64"),
    )
}  # fmt: skip


def cmake_definitions(target: Target) -> dict[str, str]:
    """The definitions of CMake for the target. Each tool is a file that calls Zig, because CMake needs files."""
    folder = ROOT / "build" / "zig" / target.zig
    folder.mkdir(parents=True, exist_ok=True)
    zig = Path(ziglang.__file__).with_name("zig")
    for name, command in {"c++": f"c++ -target {target.zig} -g0", "ar": "ar", "ranlib": "ranlib"}.items():
        program, text = folder / name, WRAPPER.format(zig=zig, command=command)
        # A file written anew would be a new compiler to caches.
        if not program.exists() or program.read_text(encoding="utf-8") != text:
            program.write_text(text, encoding="utf-8")
            program.chmod(0o755)
    return {
        "CMAKE_CXX_COMPILER": str(folder / "c++"),
        "CMAKE_AR": str(folder / "ar"),
        "CMAKE_RANLIB": str(folder / "ranlib"),
        "CMAKE_SYSTEM_NAME": target.system,
        "CMAKE_SYSTEM_PROCESSOR": target.processor,
        "CMAKE_DISABLE_PRECOMPILE_HEADERS": "ON",  # which Zig cannot use
    }
