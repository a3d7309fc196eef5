"""Modules as parts of each other: access by path and as attributes, and traversal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from .._listing import public
from .._spelling import nearest, spelled
from ..graph.parameter import Parameter
from ..graph.tensor import Array

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
    """The submodules of a module: access by path and as attributes."""

    _children: dict[str, Module]
    _parameters: dict[str, Parameter]
    _buffers: dict[str, Array]
    _unlisted: ClassVar[frozenset[str]] = frozenset({"program"})  # public names that users do not need

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

    def children(self) -> Iterator[Module]:
        """The modules that this one holds itself."""
        yield from self._children.values()

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that this one holds itself, with their names."""
        yield from self._children.items()

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once: ``("", self)``, ``("0", ...)``, ``("0.body", ...)``."""
        seen: set[Module] = set()
        for path, module in self._paths(prefix):
            if module not in seen:
                seen.add(module)
                yield path, module

    def _paths(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, under every path that leads to them."""
        own: Any = self  # every tree is a module
        yield prefix, own
        for name, child in self._children.items():
            yield from child._paths(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        for _, module in self.named_modules():
            yield module

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Every parameter once, with its first path, such as ``("0.weight", Parameter(...))``."""
        seen: set[int] = set()
        for path, module in self.named_modules():
            for name, parameter in module._parameters.items():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield (f"{path}.{name}" if path else name), parameter

    def parameters(self) -> Iterator[Parameter]:
        """Every parameter once, for optimizers."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_buffers(self) -> Iterator[tuple[str, Array]]:
        """Arrays that are saved but not trained, with their paths."""
        for path, module in self.named_modules():
            for name, array in module._buffers.items():
                yield (f"{path}.{name}" if path else name), array

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

    @spelled
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set every gradient to zero. Not needed before ``backward``, which overwrites.

        ``set_to_none`` of PyTorch is taken and makes no difference: gradients keep their memory.
        """
        for parameter in self.parameters():
            if parameter.used:
                parameter.grad[...] = 0

    @spelled
    def requires_grad_(self: _SomeTree, requires_grad: bool = True) -> _SomeTree:
        """Train all parameters, or with False freeze them: neither gradients nor steps, but running statistics move on.

        >>> from openbnns import nn
        >>> net = nn.Sequential(nn.Linear(8), nn.ReLU(), nn.Linear(2))
        >>> frozen = net[0].requires_grad_(False)  # before it is built or after
        >>> [name for name, parameter in net.named_parameters() if parameter.requires_grad]
        ['2.weight', '2.bias']
        """
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self


def _same(value: Any, usual: Any) -> bool:
    """True for the default, or the default repeated for every axis: (1, 1) is a stride of 1."""
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
