"""``openbnns swift-flags``: what swiftc needs."""

from __future__ import annotations

import argparse

from .arguments import OK, Commands, print_json


def add(commands: Commands) -> None:
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
    flags.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from ..clib import swift

    flags = swift.command_line()
    if options.json:
        print_json({"flags": flags})
    elif not options.quiet:
        print(flags)
    return OK
