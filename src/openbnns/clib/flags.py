"""Where the C library of this installation is, and what a compiler needs to use it.

cc program.c $(openbnns c-flags)
"""

from __future__ import annotations

import shlex
from pathlib import Path


def prefix() -> Path:
    """The folder with ``include`` and ``lib``."""
    return Path(__file__).resolve().parents[1]


def require_library() -> Path:
    """The library; ``RuntimeError`` if this installation has none."""
    library = prefix() / "lib" / "libopenbnns.so"
    if not library.exists():
        raise RuntimeError(
            f"this installation of openbnns has no C library: {library} does not exist. Install a wheel for Linux, or run "
            "`pip install .` in a checkout."
        )
    return library


def compile_flags() -> list[str]:
    """Compiler flags.

    >>> from openbnns.clib.flags import compile_flags
    >>> [flag[:2] for flag in compile_flags()]
    ['-I']
    """
    return [f"-I{prefix() / 'include'}"]


def link_flags() -> list[str]:
    """Linker flags; programs then find the library without any environment variable.

    >>> from openbnns.clib.flags import link_flags
    >>> link_flags()[1]
    '-lopenbnns'
    """
    folder = prefix() / "lib"
    return [f"-L{folder}", "-lopenbnns", f"-Wl,-rpath,{folder}"]


def command_line(*, compiling: bool, linking: bool) -> str:
    """The flags as a shell takes them."""
    require_library()
    return shlex.join([*(compile_flags() if compiling else []), *(link_flags() if linking else [])])
