"""Properties that are computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property:
        """``functools.cached_property`` without the lock that it has before Python 3.12.

        A child forked while another thread holds that lock would wait for it forever. Here two threads may both compute
        a value; the values are equal.
        """

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self.function, self.__doc__ = function, function.__doc__

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.function.__name__] = self.function(instance)
            return value
