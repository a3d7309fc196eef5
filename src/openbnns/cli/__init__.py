"""The command line: ``openbnns train``, ``predict``, ``evaluate``, ``export``, ``bench`` and others, see ``COMMANDS``.

Exit codes are those of ``arguments.EXIT_CODES``, which ``openbnns --help`` lists.

A module has one command, or a few of one kind: ``add`` declares the options, ``run`` executes the command.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from .. import __version__
from . import bench, check, compiler_flags, evaluate, export, import_model, info, predict, train
from .arguments import STOPPED, UNUSABLE, UNUSABLE_ERRORS, Parser, fail

COMMANDS = (train, predict, evaluate, export, import_model, bench, check, info, compiler_flags)


def parser_of_all() -> Parser:
    """The parser of all commands."""
    parser = Parser(prog="openbnns", description="Train, run and convert neural networks on any CPU.", exit_codes=True)
    parser.add_argument("--version", action="version", version=f"openbnns {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for command in COMMANDS:
        command.add(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    parser = parser_of_all()
    given = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(given)
    if options.command is None:
        parser.print_help()
        return UNUSABLE
    options.command_line = list(given)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except BrokenPipeError:
        return STOPPED
    except MemoryError as error:
        return fail(options, f"not enough memory. {error}".rstrip(), UNUSABLE)
    except UNUSABLE_ERRORS as error:
        return fail(options, _reason(error), UNUSABLE)


def _reason(error: BaseException) -> str:
    """The message of an error; errors of the system name the file first, as ours do."""
    if type(error).__module__ == "builtins" and isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}."
    return str(error)
