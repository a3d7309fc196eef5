"""``openbnns c-flags`` and ``openbnns swift-flags``: the flags that compilers need to build programs with OpenBNNS."""

from __future__ import annotations

import argparse

from .arguments import OK, Commands, print_json


def add(commands: Commands) -> None:
    _add_c(commands)
    _add_swift(commands)


def _add_c(commands: Commands) -> None:
    flags = commands.add_parser(
        "c-flags", help="what a C compiler needs: cc program.c $(openbnns c-flags)",
        description="Print what a C or C++ compiler needs to build a program with OpenBNNS: cc program.c $(openbnns c-flags)",
        examples=("cc program.c $(openbnns c-flags)", "openbnns c-flags --libs"),
    )  # fmt: skip
    flags.add_argument("--cflags", action="store_true", help="print only what compiling needs")
    flags.add_argument("--libs", action="store_true", help="print only what linking needs")
    flags.add_argument("--prefix", action="store_true", help="print only the folder with include and lib, for CMake")
    flags.add_argument(
        "--quiet", action="store_true", help="print nothing; the exit code says whether there is a C library"
    )
    flags.add_argument("--json", action="store_true", help="print one JSON object with all of it in place of text")
    flags.set_defaults(run=_c)


def _c(options: argparse.Namespace) -> int:
    from ..clib import flags

    if options.prefix and (options.cflags or options.libs):
        raise ValueError("--prefix prints a folder, --cflags and --libs print flags. Use one or the other.")
    both = options.cflags == options.libs
    line = flags.command_line(compiling=both or options.cflags, linking=both or options.libs)
    if options.json:
        cflags, libs = (flags.command_line(compiling=c, linking=not c) for c in (True, False))
        print_json({"cflags": cflags, "libs": libs, "prefix": str(flags.prefix())})
    elif not options.quiet:
        print(flags.prefix() if options.prefix else line)
    return OK


def _add_swift(commands: Commands) -> None:
    flags = commands.add_parser(
        "swift-flags", help="what a Swift compiler needs: swiftc program.swift $(openbnns swift-flags)",
        description="Print what swiftc needs to build a program that imports Accelerate. The first call builds the module, in "
        "about 20 s; it is kept in the user's cache for this compiler.",
        examples=("swiftc program.swift $(openbnns swift-flags)",),
    )  # fmt: skip
    flags.add_argument(
        "--quiet", action="store_true", help="print nothing; the exit code says whether there is a compiler"
    )
    flags.add_argument("--json", action="store_true", help="print one JSON object with the flags in place of text")
    flags.set_defaults(run=_swift)


def _swift(options: argparse.Namespace) -> int:
    from ..clib import swift

    flags = swift.command_line()
    if options.json:
        print_json({"flags": flags})
    elif not options.quiet:
        print(flags)
    return OK
