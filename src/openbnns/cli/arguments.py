"""Exit codes, the parser, and the kinds of numbers that options take, for all commands."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Collection, Sequence
from typing import Any, NoReturn, TypeAlias

from .._elsewhere import OPTIONS, WORDS
from .launcher import speaks

OK, FAILED, UNUSABLE, DIVERGED, STOPPED = 0, 1, 2, 3, 130
EXIT_CODES = {
    OK: "success",
    FAILED: "the command ran, and its result is a failure, such as a wrong gradient, or a model that cannot run",
    UNUSABLE: "the command could not start or not finish: bad arguments, data or files",
    DIVERGED: "training diverged: the loss or the weights are no longer finite, or the loss rose by orders of magnitude",
    STOPPED: "stopped by a signal, after a checkpoint in the case of train",
}
UNUSABLE_ERRORS = (ValueError, TypeError, RuntimeError, OSError, OverflowError, MemoryError, ImportError)
"""Errors of a command that could not start or continue; ImportError stands for a package that is not installed."""


class Parser(argparse.ArgumentParser):
    """A parser that exits with our code for unusable arguments, after one line that names the fault and the help. All ranks
    of an MPI job have the same arguments; only the first one prints the line.
    """

    given: Sequence[str] = ()
    """The words of the command line, while they are parsed."""

    def error(self, message: str) -> NoReturn:
        self._refuse(f"{message}.")

    def _refuse(self, message: str) -> NoReturn:
        if not speaks():
            self.exit(UNUSABLE)
        if "--json" in self.given:
            print_json({"error": message, "exit_code": UNUSABLE})
        self.exit(UNUSABLE, f"{self.prog}: {message} {self.prog} --help shows what there is.\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            hint = WORDS.get(value) or f"{_nearest(str(value), choices)} Use {', '.join(choices)}".lstrip()
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}. {hint.rstrip('.')}")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments; the error for an unknown option names the command and a similar option."""
        self.given = list(sys.argv[1:] if args is None else args)
        parsed, rest = super().parse_known_args(args, namespace)
        if rest and self.get_default("run"):
            name = rest[0].partition("=")[0]
            if name in OPTIONS:
                self._refuse(f"{name} is not an option. {OPTIONS[name]}")
            known = [name for action in self._actions for name in action.option_strings]
            self._refuse(f"unrecognized arguments: {' '.join(rest)}.{_nearest(rest[0], known)}")
        return parsed, rest

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), exit_codes: bool = False, **named: Any) -> None:
        lists = {"examples": examples}
        if exit_codes:
            lists["exit codes"] = [f"{code:3d}  {meaning}" for code, meaning in EXIT_CODES.items()]
        parts = ["\n  ".join([f"{title}:", *lines]) for title, lines in lists.items() if lines]
        named |= {"epilog": "\n\n".join(parts) or None, "formatter_class": _Help}
        super().__init__(*arguments, **named)


def _nearest(name: str, choices: Sequence[str]) -> str:
    from .._spelling import nearest

    return nearest(name, choices)


class _Help(argparse.HelpFormatter):
    """A formatter that keeps the lines of lists, such as the examples, and wraps other text."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Declare the options of every command about what it prints."""
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    parser.add_argument("--json", action="store_true", help="print one JSON object in place of text")


def given_options(
    options: argparse.Namespace, group: str | None = None, without: Collection[str] = ()
) -> dict[str, list[str]]:
    """The options of a command that differ from their defaults, by name, each as words of a command line that repeats it.

    ``group`` is the title of a group of options, to which the answer is limited.
    """
    words: dict[str, list[str]] = {}
    for action in options.parser._actions:
        value = getattr(options, action.dest, action.default)
        differs = (
            action.option_strings and action.dest not in without and value != options.parser.get_default(action.dest)
        )
        if differs and group in (None, action.container.title) and (said := _words(action, value)):
            words[action.dest] = said
    return words


def _words(action: argparse.Action, value: Any) -> list[str]:
    """An option with a value; nothing if another option of the same name stands for it."""
    if isinstance(action, argparse.BooleanOptionalAction):
        return [action.option_strings[0 if value else -1]]
    if action.nargs == 0:
        return [action.option_strings[0]] if value == action.const else []
    joined = "," if isinstance(value, list) else "x" if isinstance(value, tuple) else ""
    return [action.option_strings[0], joined.join(map(str, value)) if joined else str(value)]


def print_json(value: Any) -> None:
    """One object on standard output, for programs; numbers that JSON does not have are null."""
    print(json.dumps(_finite(value), ensure_ascii=False), flush=True)


def fail(options: argparse.Namespace, message: str, code: int) -> int:
    """Report why a command failed: a line of text, and with ``--json`` an object for programs as well; returns the exit
    code."""
    print(f"openbnns {options.command}: {message}", file=sys.stderr)
    if getattr(options, "json", False):
        print_json({"error": message, "exit_code": code})
    return code


def show(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on the screen."""
    widths = [max(len(row[i]) for row in (titles, *rows)) for i in range(len(titles))]
    for row in (titles, ["-" * width for width in widths], *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(name): _finite(part) for name, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, (list, tuple)) else value


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def seed(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 0 to {2**32 - 1}")
    return int(text)


def rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 0 and below 1")
    return value


def byte_limit(text: str) -> int:
    from ..files.memory_limit import byte_count

    try:
        return byte_count(text, "it")
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes such as 500M or 8G") from None
