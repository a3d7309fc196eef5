"""Numbers that no C type or no machine can hold, for every integer argument: refused in our words, or taken.

The calls are those of the examples in the docstrings. Every function and method is replaced by one that first calls the
real one with each integer changed, one at a time.
"""

from __future__ import annotations

import doctest
import functools
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from openbnns import capi

NUMBERS = (1 << 31, 1 << 63, 1 << 64, -1)


def is_integer(value: Any) -> bool:
    return type(value) is int


def changed(value: Any) -> Iterator[Any]:
    """Every value with one integer replaced."""
    if is_integer(value):
        yield from NUMBERS
    elif type(value) in (tuple, list) and value and all(map(is_integer, value)):
        for number in NUMBERS:
            yield type(value)([number, *value[1:]])
            yield type(value)([*value[:-1], number])


def ours(name: str, error: BaseException) -> bool:
    """True for an exception that helps a user: it names the call, or the field of a struct."""
    if isinstance(error, bn.BNNSError):
        return True
    return isinstance(error, (TypeError, ValueError)) and str(error).startswith((name.split(".")[0], "BNNS"))


class Tried:
    """Calls the real function with changed integers, notes what goes wrong, then makes the call itself."""

    def __init__(self) -> None:
        self.calls, self._inside = 0, False
        self.wrong: list[str] = []

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*arguments: Any, **named: Any) -> Any:
            if not self._inside:
                self._inside = True
                try:
                    self._vary(name, function, arguments, named)
                finally:
                    self._inside = False
            return function(*arguments, **named)

        return wrapped

    def _vary(self, name: str, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        for place, value in [*enumerate(arguments), *named.items()]:
            for other in changed(value):
                if isinstance(place, int):
                    self._try(name, function, (*arguments[:place], other, *arguments[place + 1 :]), named, place, other)
                else:
                    self._try(name, function, arguments, named | {place: other}, place, other)

    def _try(self, name: str, function: Any, arguments: Any, named: Any, place: Any, other: Any) -> None:
        self.calls += 1
        try:
            function(*arguments, **named)
        except Exception as error:
            if not ours(name, error):
                self.wrong.append(f"{name}, argument {place} = {other}: {type(error).__name__}: {error}")


def examples(owner: Any) -> list[str]:
    return [e.source for e in doctest.DocTestParser().get_examples(inspect.getdoc(owner) or "")]


def sweep() -> tuple[int, list[str]]:
    tried = Tried()
    modules = {"capi": capi, "openbnns": bn}
    public = {
        name: getattr(module, name) for module in modules.values() for name in dir(module) if not name.startswith("_")
    }
    functions = {name: value for name, value in public.items() if inspect.isfunction(value)}
    classes = {
        name: value
        for name, value in public.items()
        if inspect.isclass(value) and value.__module__.startswith(("openbnns.layers", "openbnns.capi"))
    }
    wrapped = {name: tried.around(name, function) for name, function in functions.items()}
    for name, kind in classes.items():
        if issubclass(kind, capi.BNNSNDArrayDescriptor.__mro__[-2]):  # structs
            wrapped[name] = tried.around(name, kind)
            continue
        for method, function in list(vars(kind).items()):
            if inspect.isfunction(function) and (not method.startswith("_") or method == "__init__"):
                setattr(kind, method, tried.around(name if method == "__init__" else f"{name}.{method}", function))
    for name, owner in (functions | classes).items():
        texts = examples(owner)
        for method in vars(owner).values() if inspect.isclass(owner) else []:
            texts += examples(method) if inspect.isfunction(method) else []
        scope: dict[str, Any] = {}
        for text in texts:
            if text.startswith(("from openbnns", "import openbnns")):
                exec(text, scope)
                scope.update({key: wrapped[key] for key in scope.keys() & wrapped.keys()})
                continue
            try:
                exec(compile(text, name, "single"), scope)
            except Exception as error:  # examples of failures
                if not isinstance(error, (bn.BNNSError, TypeError, ValueError, AttributeError)):
                    raise
    return tried.calls, tried.wrong


if __name__ == "__main__":
    import logging
    import resource

    logging.disable(logging.CRITICAL)
    np.seterr(all="ignore")
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))  # what would take all memory is to fail
    calls, wrong = sweep()
    sys.stdout.write("\n".join([f"\ncalls {calls}", *wrong]))


def test_every_integer_argument() -> None:
    script = Path(__file__)
    result = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)], capture_output=True, text=True, timeout=300, cwd=script.parent
    )
    assert result.returncode == 0, result.stderr
    calls, *wrong = result.stdout[result.stdout.rindex("calls ") :].splitlines()
    assert not wrong, "\n".join(wrong)
    assert int(calls.split()[1]) > 1000


@pytest.mark.parametrize("count", NUMBERS[:3])
def test_number_of_threads(count: int) -> None:
    with pytest.raises(ValueError, match=r"set_num_threads: count is .* more than any machine has"):
        bn.set_num_threads(count)
