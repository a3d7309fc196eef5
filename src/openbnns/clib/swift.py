"""The Swift module ``Accelerate``, built from the package that lies in ``openbnns/swift``, and what swiftc needs to use it.

swiftc program.swift $(openbnns swift-flags)

Swift has no stable binary interface on Linux, so that every compiler needs a build of its own. It is made when it is first
asked for, and kept in the user's cache.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import flags


def package() -> Path:
    """The folder of the Swift package, for ``Package.swift`` of a program.

    >>> from openbnns.clib import swift
    >>> (swift.package() / "Package.swift").is_file()
    True
    """
    return flags.prefix() / "swift"


def command_line() -> str:
    """The flags as a shell takes them; builds the module if this compiler has none yet."""
    flags.require_library()
    compiler = shutil.which("swiftc")
    if compiler is None:
        raise RuntimeError(
            "there is no swiftc in the search path. Install Swift 6.0 or newer (https://www.swift.org/install, or the package "
            "swiftlang of Debian 13); everything else of openbnns works without it."
        )
    folder = _cache() / _key(compiler)
    if not folder.exists():
        _build(compiler, folder)
    return shlex.join(swift_flags(folder))


def swift_flags(folder: Path) -> list[str]:
    """The flags of swiftc for the module in a folder; programs then find the library without any environment variable."""
    library = flags.prefix() / "lib"
    return [
        f"-I{folder}", f"-I{package() / 'Sources' / 'COpenBNNS'}", f"-L{folder}", "-lAccelerate", f"-L{library}",
        "-lopenbnns", "-Xlinker", "-rpath", "-Xlinker", str(library),
    ]  # fmt: skip


def build_command(compiler: str, folder: Path) -> list[str]:
    """The command that builds the module in a folder."""
    sources = sorted((package() / "Sources" / "Accelerate").rglob("*.swift"))
    return [
        compiler, "-O", "-whole-module-optimization", "-parse-as-library", "-module-name", "Accelerate",
        f"-I{package() / 'Sources' / 'COpenBNNS'}", "-emit-module", "-emit-module-path",
        str(folder / "Accelerate.swiftmodule"), "-emit-library", "-static", "-o", str(folder / "libAccelerate.a"),
        *map(str, sources),
    ]  # fmt: skip


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "openbnns" / "swift"


def _key(compiler: str) -> str:
    """Changes with the compiler, with where the package is, and with its text."""
    version = subprocess.run([compiler, "-version"], capture_output=True, check=False).stdout
    digest = hashlib.sha256(version + str(package()).encode())
    headers = sorted((flags.prefix() / "include" / "openbnns").glob("*.h"))
    for path in (*headers, *sorted(path for path in (package() / "Sources").rglob("*") if path.is_file())):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _build(compiler: str, folder: Path) -> None:
    """Build the module; a folder with its name is complete, also if two builds end at once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        command = build_command(compiler, Path(made) / "module")
        (Path(made) / "module").mkdir()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{compiler} could not build the module Accelerate:\n{done.stderr.rstrip()}")
        try:
            os.rename(Path(made) / "module", folder)
        except OSError:
            if not folder.exists():
                raise
