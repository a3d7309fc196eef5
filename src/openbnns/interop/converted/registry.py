"""Tables of the operations that can be converted from another library; documentation and error messages are made from
them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Handler = Callable[..., Any]


class Registry:
    """Handlers by name, and the names by kind in the order of the documentation."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        self.groups: dict[str, list[str]] = {}

    def register(self, group: str, *names: str) -> Callable[[Handler], Handler]:
        """A decorator that registers a handler."""

        def decorate(handler: Handler) -> Handler:
            for name in names:
                self.add(group, name, handler)
            return handler

        return decorate

    def add(self, group: str, name: str, handler: Handler) -> None:
        assert name not in self.handlers, name
        self.handlers[name] = handler
        self.groups.setdefault(group, []).append(name)
