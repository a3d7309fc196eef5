"""Packages whose names load when first used, so that importing such a package costs little.

The ``__init__.pyi`` of such a package imports every name plainly, for type checkers and editors.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from ._listing import public as listed


def attach(
    package: str,
    homes: Mapping[str, Iterable[str]],
    *,
    modules: Iterable[str] = (),
    tables: Iterable[str] = (),
    elsewhere: Iterable[str] = (),
    hints: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package.

    ``homes`` gives for each module the public names that it holds. ``modules`` are public themselves. ``tables`` are
    modules all of whose public names, which begin with a capital or "bnns_", belong to the package too; they are searched
    last.
    ``__all__`` is built from all three when it is first used. The message about an unknown name says which package of
    ``elsewhere`` has it; ``hints`` are messages about further names.
    """
    home = {name: module for module, names in homes.items() for name in names}
    here = vars(sys.modules[package])

    def load(module: str) -> Any:
        return import_module(f".{module}", package)

    def public() -> list[str]:
        return [*modules, *home, *(name for module in tables for name in load(module).__all__)]

    def nearest(name: str) -> str:
        if name.startswith("_") or name == name.lower():  # asked for by tools, or by the import system first
            return ""
        if hints and name in hints:
            return f". {hints[name]}"
        for module in elsewhere:
            if name in load(module).__all__:
                return f". It is {package}.{module}.{name}"
        from ._spelling import right_word

        names = public()
        longer = sorted((n for n in names if n.startswith(name)), key=len) if len(name) > 4 else []
        word = longer[0] if longer else right_word(name, names)
        return "" if word is None else f". Did you mean {word}?"

    def find(name: str) -> Any:
        if name in home:
            return getattr(load(home[name]), name)
        if name in homes or name in modules or name in tables:
            return load(name)
        if name == "__all__":
            return public()
        if name[0].isupper() or name.startswith("bnns_"):  # see nearest
            for module in map(load, tables):
                if name in module.__all__:
                    return getattr(module, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}{nearest(name)}")

    def __getattr__(name: str) -> Any:
        value = here[name] = find(name)
        return value

    def __dir__() -> list[str]:
        return listed([*public(), *(name for name in here if name.startswith("__"))])

    return __getattr__, __dir__
