"""Modules as parts of each other: finding them by path and as attributes, and doing something to all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from .._listing import public
from ._value import Array
from .choose import nearest
from .parameter import Parameter

if TYPE_CHECKING:
    from .module import Module

_SomeTree = TypeVar("_SomeTree", bound="Tree")

_NOT_NEEDED = "Leave it out: everything computes in float32 on the CPU."
_ELSEWHERE = {
    "to": _NOT_NEEDED,
    "cpu": _NOT_NEEDED,
    "cuda": _NOT_NEEDED,
    "float": _NOT_NEEDED,
    "double": f"{_NOT_NEEDED} openbnns.engine('reference') computes in float64, to compare.",
    "half": _NOT_NEEDED,
    "type": _NOT_NEEDED,
    "register_forward_hook": "Give from forward what you want to see, as a further output.",
    "register_full_backward_hook": "Read the grad of parameters after backward, or use an nn.Callback.",
    "fit": "Write nn.Trainer(net, loss, optimizer).fit(x, y, epochs=...).",
    "compile": "Write nn.Trainer(net, loss, optimizer); networks are compiled by themselves.",
}


class Tree:
    """What a module knows of its parts."""

    _children: dict[str, Module]
    _parameters: dict[str, Parameter]
    _buffers: dict[str, Array]
    _unlisted: ClassVar[frozenset[str]] = frozenset({"program"})  # public names that are no concern of users

    if not TYPE_CHECKING:  # so that misspelled attributes of networks are found before they run

        def __getattr__(self, name: str) -> Any:
            children = self.__dict__.get("_children", {})
            if name in children:
                return children[name]
            who = type(self).__name__
            if name.startswith("__") or "_children" not in self.__dict__:
                raise AttributeError(f"{who} has no attribute {name!r}", name=name, obj=self)
            hint = f" {_ELSEWHERE[name]}" if name in _ELSEWHERE else nearest(name, public(dir(self)))
            raise AttributeError(f"{who} has no attribute {name!r}.{hint}", name=name)

    def __dir__(self) -> list[str]:
        named = [name for name in self._children if name.isidentifier()]
        return public([*super().__dir__(), *named], type(self)._unlisted)

    # Finding.

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that this one holds itself, with their names."""
        yield from self._children.items()

    def get_submodule(self, target: str) -> Module:
        """The module at a path such as ``"body.0"``; with ``""`` this one.

        >>> from openbnns import nn
        >>> nn.Sequential(nn.Sequential(nn.ReLU(), nn.Tanh()), nn.Linear(2)).get_submodule("0.1")
        Tanh()
        """
        found: Any = self
        for name in target.split(".") if target else []:
            if name not in found._children:
                known = ", ".join(map(repr, found._children)) or "no modules"
                raise AttributeError(
                    f"{type(self).__name__}.get_submodule: there is no {target!r}, as {type(found).__name__} has no {name!r}. "
                    f"It has {known}."
                )
            found = found._children[name]
        module: Module = found
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path such as ``"body.0.weight"``."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in module._parameters:
            known = ", ".join(map(repr, module._parameters)) or "no parameters"
            raise AttributeError(
                f"{type(self).__name__}.get_parameter: there is no {target!r}, as {type(module).__name__} has no {name!r}. It "
                f"has {known}."
            )
        return module._parameters[name]

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """The same as assigning to an attribute of that name, for names that are computed."""
        if not isinstance(param, (Parameter, type(None))):
            raise TypeError(
                f"{type(self).__name__}.register_parameter: {name} is a {type(param).__name__}. Pass an nn.Parameter."
            )
        setattr(self, name, param)

    # Doing.

    def apply(self: _SomeTree, fn: Callable[[Any], object]) -> _SomeTree:
        """Call ``fn`` with every module, this one last; for values that parameters shall begin with.

        >>> from openbnns import nn
        >>> def begin(module):
        ...     if isinstance(module, nn.Linear):
        ...         module.bias.data[:] = 1
        >>> net = nn.Sequential(nn.Linear(3, 2), nn.ReLU()).apply(begin)
        >>> net[0].bias.data.tolist()
        [1.0, 1.0]
        """
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self


def _same(value: Any, usual: Any) -> bool:
    """Whether a value is the default, or that for every axis: (1, 1) is a stride of 1."""
    if isinstance(value, tuple) and not isinstance(usual, tuple):
        return all(part == usual for part in value)
    return bool(value == usual)


def changed(module: Any, **usual: Any) -> list[str]:
    """``name=value`` for every option of a module that is not as usual. Whether there is a bias is in ``use_bias``."""
    found = {name: getattr(module, "use_bias" if name == "bias" else name) for name in usual}
    return [f"{name}={_text(found[name])}" for name in usual if not _same(found[name], usual[name])]


def options(module: Any, **usual: Any) -> str:
    """The same, each with a comma in front, to stand behind the sizes of a layer."""
    return "".join(f", {text}" for text in changed(module, **usual))


def _text(value: Any) -> str:
    if callable(value):
        return str(getattr(value, "__name__", value))
    return f"{value:g}" if isinstance(value, float) else repr(value)
