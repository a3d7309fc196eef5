"""The pages of the reference, made from the package: every public name with its signature and its docstring."""

from __future__ import annotations

import enum
import inspect
import posixpath
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from docstrings import code, html, use_links
from layout import Entry, Page, pages
from signatures import signature

FACES = {
    "openbnns": ("openbnns", "layers as classes that take NumPy arrays; threads, engines, errors, gradient checks"),
    "capi": ("openbnns.capi", "the functions, structs and constants of BNNS under their C names"),
    "nn": ("openbnns.nn", "networks and training"),
}
HOOKS = {"check", "program"}
"""Methods that networks call, not their users."""


class Reference:
    """All pages with what they hold."""

    def __init__(self) -> None:
        self.pages = pages()
        self.homes: dict[str, Page] = {}
        for page in self.pages:
            for entry in page.entries:
                self.homes.setdefault(f"{page.package}.{entry.name}", page)
        self.classes: dict[type, tuple[Page, str]] = {}
        for page in self.pages:
            for entry in page.entries:
                if inspect.isclass(entry.thing):
                    self.classes.setdefault(entry.thing, (page, entry.name))
        use_links(self.address)

    @cached_property
    def addresses(self) -> dict[str, str]:
        """From a name as docstrings write it to its place, as seen from a page of the reference."""
        places: dict[str, str] = {}
        for name, page in self.homes.items():
            place = f"../../{page.uri.removesuffix('.md')}.html#{name.rpartition('.')[2]}"
            for written in (name, name.removeprefix("openbnns."), name.rpartition(".")[2]):
                places.setdefault(written, place)
        return places

    def address(self, name: str) -> str | None:
        return self.addresses.get(name.removesuffix("()").lstrip("~"))

    def navigation(self) -> list[Any]:
        """The part of the menu: a list of pages for each face."""
        menu: list[Any] = ["api/index.md"]
        menu += [
            {title: [{page.title: page.uri} for page in self.pages if page.face == face]}
            for face, (title, _) in FACES.items()
        ]
        return menu

    def files(self) -> Iterator[tuple[str, str]]:
        """Addresses and Markdown of all pages."""
        yield "api/index.md", "\n".join(self._overview())
        for page in self.pages:
            yield page.uri, "\n".join(self._page(page))

    def _overview(self) -> Iterator[str]:
        yield "# Reference\n"
        yield "Every public name, from its docstring. In Python, `help(name)` shows the same text.\n"
        for face, (title, what) in FACES.items():
            yield f"## `{title}`\n"
            yield f"{what[0].upper()}{what[1:]}.\n"
            yield "| page | names |\n|---|---|"
            for page in self.pages:
                if page.face == face:
                    address = page.uri.removeprefix("api/")
                    names = ", ".join(f"[`{entry.name}`]({address}#{entry.name})" for entry in page.entries[:40])
                    more = f" and {len(page.entries) - 40} more" if len(page.entries) > 40 else ""
                    yield f"| [{page.title}]({address}) | {names}{more} |"
            yield ""

    def _page(self, page: Page) -> Iterator[str]:
        yield f"# {page.title}\n"
        yield html(page.lead)
        for entry in page.entries:
            yield from self._entry(page, entry)

    def _entry(self, page: Page, entry: Entry) -> Iterator[str]:
        yield f"\n## `{entry.name}` {{ #{entry.name} }}\n"
        thing = entry.thing
        if isinstance(thing, type) and issubclass(thing, enum.Enum):
            yield from self._enum(thing)
        elif inspect.isclass(thing):
            yield from self._class(page, entry.name, thing)
        elif callable(thing):
            yield code(signature(entry.name, thing))
            yield html(thing.__doc__)
        elif isinstance(thing, Mapping):
            yield f"The names {', '.join(f'`{key}`' for key in thing)}.\n"
        else:
            yield code(f"{entry.name} = {thing!r}")

    def _enum(self, kind: type[enum.Enum]) -> Iterator[str]:
        yield html(kind.__doc__)
        yield "| member | value |\n|---|---|"
        for name, member in kind.__members__.items():
            yield f"| `{name}` | {int(member) if isinstance(member, int) else f'`{member.value}`'} |"
        yield ""

    def _class(self, page: Page, name: str, kind: type) -> Iterator[str]:
        yield code(f"class {signature(name, kind)}")
        base = next((base for base in kind.__mro__[1:] if base in self.classes), None)
        if base is not None:
            home, base_name = self.classes[base]
            link = f"{posixpath.relpath(home.uri, posixpath.dirname(page.uri))}#{base_name}"
            yield f"Has everything that [`{base_name}`]({link}) has.\n"
        yield html(kind.__dict__.get("__doc__"))
        for key, member in self._members(kind):
            plain = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
            if isinstance(plain, property):
                yield f"### `{key}` {{ #{name}.{key} .member }}\n"
                yield html(plain.__doc__)
            else:
                yield f"### `{key}` {{ #{name}.{key} .member }}\n"
                yield code(signature(key, plain))
                yield html(plain.__doc__)

    def _members(self, kind: type) -> Iterator[tuple[str, Any]]:
        """Methods and properties with a docstring, those of private bases included, but not those of public ones."""
        seen: set[str] = set()
        for base in kind.__mro__:
            if base is not kind and base in self.classes:
                return
            if not base.__module__.startswith("openbnns"):
                continue
            for key, member in vars(base).items():
                plain = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
                known = isinstance(plain, property) or inspect.isroutine(plain)
                if key.startswith("_") or key in HOOKS or key in seen or not known or not plain.__doc__:
                    continue
                seen.add(key)
                yield key, member
