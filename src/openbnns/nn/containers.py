"""Modules made of modules: series, sums, residuals."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, Self, overload

from ..graph.parameter import Parameter
from ..graph.tensor import Tensor
from .module import Layer, Module, check_module, nested

if TYPE_CHECKING:

    class Part(Module):
        """The type of a module in a container for type checkers: any module, with the parameters that most have."""

        weight: Parameter
        bias: Any

        def __getattr__(self, name: str) -> Any: ...


def hold(parent: Module, name: str, module: Module) -> None:
    """Let a module hold another one under a name that need not be an attribute."""
    parent._replace(parent._children, name, module)


class _Series(Module):
    """Modules in an order, under their numbers unless they have names."""

    _is_container = True

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Part]:
        parts: Any = self._children.values()
        return iter(parts)

    def __contains__(self, module: object) -> bool:
        return any(child is module for child in self)

    @overload
    def __getitem__(self, index: int) -> Part: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> Any:
        """The module at a position; for a slice, a container of the same class with these modules."""
        if isinstance(index, slice):
            return self._part(list(self._children)[index])
        return self._children[self._key(index)]

    def _part(self, names: list[str]) -> Self:
        raise NotImplementedError

    def __setitem__(self, index: int, module: Module) -> None:
        check_module(module, f"{type(self).__name__}: part {index}")
        self._replace(self._children, self._key(index), module)

    def __delitem__(self, index: int | slice) -> None:
        named = list(self._children.items())
        del named[index if isinstance(index, slice) else list(self._children).index(self._key(index))]
        self._renumber(named)

    def _key(self, index: Any) -> str:
        who, keys = type(self).__name__, list(self._children)
        if not hasattr(index, "__index__"):
            held = f" Write .{index} for a module by its name." if index in keys else ""
            raise TypeError(f"{who}: {index!r} is not a position of a module. Use a whole number or a slice.{held}")
        place: int = index.__index__()
        if not -len(keys) <= place < len(keys):
            raise IndexError(f"{who}: there is no module {place}, as it has {len(keys)}.")
        return keys[place]

    def _fill(self, modules: Iterable[Module]) -> None:
        """Hold these modules, by number."""
        self._renumber([("", module) for module in self._checked(modules)])

    def _checked(self, modules: Iterable[Module]) -> list[Module]:
        if isinstance(modules, Module) and not isinstance(modules, _Series):
            raise TypeError(f"{type(self).__name__} takes a list of modules, not one {type(modules).__name__}.")
        children = list(modules)
        for i, module in enumerate(children):
            check_module(module, f"{type(self).__name__}: part {i}")
        return children

    def _renumber(self, named: list[tuple[str, Module]]) -> None:
        """Hold these modules and no others. Names stay; numbers become positions again."""
        for name in list(self._children):
            self._replace(self._children, name, None)
        for i, (name, module) in enumerate(named):
            hold(self, name if name and not name.isdecimal() else str(i), module)

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        check_module(module, f"{type(self).__name__}.append: the argument")
        number = len(self)
        while str(number) in self._children:  # parts of a series keep their numbers
            number += 1
        self._replace(self._children, str(number), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add several modules at the end."""
        for module in self._checked(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Insert a module before the one at this position."""
        check_module(module, f"{type(self).__name__}.insert: the argument")
        named = list(self._children.items())
        named.insert(index, ("", module))
        self._renumber(named)
        return self

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def pop(self, index: int = -1) -> Part:
        """Take a module out."""
        module = self[index]
        del self[index]
        return module


class Sequential(_Series, Layer):
    """Modules one after the other; each takes what the one before gives.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> net = nn.Sequential(nn.Linear(32), nn.ReLU(), nn.Linear(10))
    >>> net(np.zeros((4, 64), np.float32)).shape
    (4, 10)
    """

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):  # PyTorch's OrderedDict of named parts
            for name, module in modules[0].items():
                self._name(name, module)
            return
        parts: Any = modules
        if len(modules) == 1 and isinstance(modules[0], (list, tuple)):
            parts = modules[0]
        self._fill(parts)

    def _name(self, name: Any, module: Any) -> None:
        if not isinstance(name, str) or not name or "." in name or name.startswith("_") or hasattr(self, name):
            raise ValueError(f"Sequential: a part cannot be called {name!r}. Use another name, without dots.")
        check_module(module, f"Sequential: part {len(self)}")
        hold(self, name, module)

    def _part(self, names: list[str]) -> Self:
        """The modules of a slice under their old names, as in PyTorch; a plain Sequential if a subclass overrides
        ``__init__``."""
        part: Any = Sequential() if type(self).__init__ is not Sequential.__init__ else type(self)()
        for name in names:
            hold(part, name, self._children[name])
        return part  # type: ignore[no-any-return]

    def __add__(self, other: Iterable[Module]) -> Sequential:
        """The modules of both, renumbered."""
        if not isinstance(other, Iterable):
            return NotImplemented
        return Sequential(*self, *self._checked(other))

    def __mul__(self, times: int) -> Sequential:
        """The same modules again and again, with shared parameters, as in PyTorch."""
        if not hasattr(times, "__index__"):
            return NotImplemented
        if int(times) < 1:
            raise ValueError(f"Sequential: cannot be repeated {times} times. Use a number of at least 1.")
        return Sequential(*list(self) * int(times))

    __rmul__ = __mul__

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Part:
            """Modules that were given by name."""

    def forward(self, *inputs: Tensor) -> Tensor:
        result: Any = inputs
        for child in self.children():
            result = (child(*result),)
        if len(result) != 1:
            raise ValueError("Sequential: an empty network takes one input.")
        value: Tensor = result[0]
        return value


class ModuleList(_Series):
    """Modules in a list, for a custom ``forward`` to use.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> class Stack(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layers = nn.ModuleList([nn.Linear(4), nn.Linear(2)])
    ...     def forward(self, x):
    ...         for layer in self.layers:
    ...             x = layer(x)
    ...         return x
    >>> list(Stack().build((3,)).state_dict())
    ['layers.0.weight', 'layers.0.bias', 'layers.1.weight', 'layers.1.bias']
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self._fill(modules)

    def _part(self, names: list[str]) -> Self:
        """The modules of a slice; a plain ModuleList if a subclass overrides ``__init__``."""
        part: Any = ModuleList() if type(self).__init__ is not ModuleList.__init__ else type(self)()
        part._fill([self._children[name] for name in names])
        return part  # type: ignore[no-any-return]

    def __add__(self, modules: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *modules])

    def __repr__(self) -> str:
        """The usual text, but with equal modules in a row shown once, with their number."""
        shown: list[tuple[str, list[str]]] = []
        for name, child in self._children.items():
            text = repr(child)
            if shown and shown[-1][0] == text:
                shown[-1][1].append(name)
            else:
                shown.append((text, [name]))
        lines = [
            (names[0], text) if len(names) == 1 else (f"{names[0]}-{names[-1]}", f"{len(names)} x {text}")
            for text, names in shown
        ]
        return nested(type(self).__name__, self.extra_repr(), lines)


class ModuleDict(Module):
    """Modules by name, for a custom ``forward`` to use.

    >>> from openbnns import nn
    >>> class Branches(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.heads = nn.ModuleDict({"left": nn.Linear(4), "right": nn.Linear(4)})
    ...     def forward(self, x):
    ...         return self.heads["left"](x) + self.heads["right"](x)
    >>> net = Branches().build((3,))
    >>> list(net.heads), list(net.state_dict())[:2]
    (['left', 'right'], ['heads.left.weight', 'heads.left.bias'])
    """

    _is_container = True

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] = ()) -> None:
        super().__init__()
        self.update(modules)

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[str]:
        return iter(self._children)

    def __contains__(self, name: object) -> bool:
        return name in self._children

    def __getitem__(self, name: str) -> Part:
        if name not in self._children:
            raise KeyError(f"ModuleDict: there is no {name!r}. It has {', '.join(map(repr, self)) or 'no modules'}.")
        part: Any = self._children[name]
        return part  # type: ignore[no-any-return]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Part:
            """Modules by name."""

    def __setitem__(self, name: str, module: Module) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise ValueError(f"ModuleDict: a module cannot be called {name!r}. Use a text without dots.")
        check_module(module, f"ModuleDict: {name!r}")
        self._replace(self._children, name, module)

    def __delitem__(self, name: str) -> None:
        self.pop(name)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._children.keys()

    def values(self) -> ValuesView[Module]:
        """The modules."""
        return self._children.values()

    def items(self) -> ItemsView[str, Module]:
        """Names and modules."""
        return self._children.items()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add modules, or put them in place of those with the same names."""
        for name, module in dict(modules).items():
            self[name] = module

    def pop(self, name: str) -> Part:
        """Take a module out."""
        module = self[name]
        self._replace(self._children, name, None)
        return module

    def clear(self) -> None:
        """Remove all modules."""
        for name in list(self):
            self.pop(name)


class Add(Layer):
    """The sum of several branches that all read the same input: y = b₁(x) + b₂(x) + ...

    Called with two or more values and no branches, it adds those.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Add(nn.Identity(), nn.ReLU())(np.float32([[-1, 2]])).tolist()
    [[-1.0, 4.0]]
    """

    _is_container = True

    def __init__(self, *branches: Module) -> None:
        super().__init__()
        for i, branch in enumerate(branches):
            check_module(branch, f"Add: branch {i}")
            self._children[str(i)] = branch

    def forward(self, *inputs: Tensor) -> Tensor:
        parts = [branch(*inputs) for branch in self.children()] or list(inputs)
        total: Tensor = parts[0]
        for part in parts[1:]:
            total = total + part
        return total


class Residual(Layer):
    """y = x + body(x), or shortcut(x) + body(x) where the body changes the shape.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> net = nn.Residual(nn.ReLU())
    >>> net(np.float32([[-1, 2]])).tolist(), net.backward(np.float32([[1, 1]])).tolist()
    ([[-1.0, 4.0]], [[1.0, 2.0]])
    """

    _is_container = True

    def __init__(self, *body: Module, shortcut: Module | None = None) -> None:
        super().__init__()
        for i, module in enumerate(body):
            check_module(module, f"Residual: part {i}")
        self.body = body[0] if len(body) == 1 else Sequential(*body)
        self.shortcut = shortcut

    def forward(self, input: Tensor) -> Tensor:
        x = input
        y: Tensor = self.body(x)
        straight: Tensor = x if self.shortcut is None else self.shortcut(x)
        if straight.shape[1:] != y.shape[1:]:
            raise ValueError(
                f"Residual: the body turns {x.shape[1:]} into {y.shape[1:]}, so its input cannot be added to its output. Give a "
                f"shortcut module that yields {y.shape[1:]}."
            )
        return straight + y


class ForeignPart(Module):
    """A part of a network from elsewhere, not a layer of this library: it holds layers and parameters under their names."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def place(self, name: str, part: Any) -> None:
        """Hold a module, a parameter or an array under a name, which may be one that modules use for something else."""
        # Not hasattr(self, name): for a name that is not there a module looks for similar ones, among thousands.
        free = name not in vars(self) and not hasattr(type(self), name) and not name.startswith("_")
        if isinstance(part, (Module, Parameter)) and free and name.isidentifier():
            setattr(self, name, part)
        elif isinstance(part, (Module, Parameter)):
            table: dict[str, Any] = self._children if isinstance(part, Module) else self._parameters
            table[name] = part
        elif free:
            self.register_buffer(name, part)
        else:
            self._buffers[name] = part

    def module(self, name: str) -> Module | None:
        """The module that it holds under a name, if there is one."""
        return self._children.get(name)

    def extra_repr(self) -> str:
        return f"{self._kind}," if self._children else self._kind
