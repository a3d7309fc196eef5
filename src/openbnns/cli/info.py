"""``openbnns info``: what this installation is and runs on."""

from __future__ import annotations

import argparse

from .. import __version__
from .arguments import OK, Commands


def add(commands: Commands) -> None:
    info = commands.add_parser("info", help="version, engine, instruction set, threads")
    info.add_argument("--quiet", action="store_true", help="print the version only")
    info.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from .. import show_config

    if options.quiet:
        print(__version__)
    else:
        show_config()
    return OK
