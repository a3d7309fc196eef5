"""Modules made of modules: series, sums, residuals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ._graph import Value
from .module import Module


class _Series(Module):
    """Modules by number."""

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._children.values())

    def __getitem__(self, index: int) -> Module:
        return list(self._children.values())[index]


class Sequential(_Series):
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
        parts: Sequence[Any] = modules
        if len(modules) == 1 and isinstance(modules[0], (list, tuple)):
            parts = modules[0]
        for i, module in enumerate(parts):
            self.append(module) if isinstance(module, Module) else self._refuse(module, i)

    def _name(self, name: Any, module: Any) -> None:
        if not isinstance(name, str) or not name or "." in name or name.startswith("_") or hasattr(self, name):
            raise ValueError(f"Sequential: a part cannot be called {name!r}. Use another name, without dots.")
        setattr(self, name, module) if isinstance(module, Module) else self._refuse(module, len(self))

    def _refuse(self, value: Any, index: int) -> None:
        hint = " Call it to make one, e.g. nn.ReLU()." if isinstance(value, type) else ""
        raise TypeError(f"Sequential: part {index} is {value!r}, which is no module.{hint}")

    def append(self, module: Module) -> Sequential:
        """Add a module at the end."""
        if self.built:
            raise RuntimeError("Sequential.append: the network is built already. Append before its first use.")
        self._children[str(len(self._children))] = module
        return self

    def forward(self, *inputs: Value) -> Value:
        result: Any = inputs
        for child in self.children():
            result = (child(*result),)
        if len(result) != 1:
            raise ValueError("Sequential: an empty network takes one input.")
        value: Value = result[0]
        return value


class ModuleList(_Series):
    """Modules in a list, for a ``forward`` of one's own to use.

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

    def __init__(self, modules: Sequence[Module] = ()) -> None:
        super().__init__()
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> ModuleList:
        self._children[str(len(self._children))] = module
        return self


class Add(Module):
    """The sum of several branches that all read the same input: y = b₁(x) + b₂(x) + ...

    Called with two or more values and no branches, it adds those.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Add(nn.Identity(), nn.ReLU())(np.float32([[-1, 2]])).tolist()
    [[-1.0, 4.0]]
    """

    def __init__(self, *branches: Module) -> None:
        super().__init__()
        for i, branch in enumerate(branches):
            self._children[str(i)] = branch

    def forward(self, *inputs: Value) -> Value:
        parts = [branch(*inputs) for branch in self.children()] or list(inputs)
        total: Value = parts[0]
        for part in parts[1:]:
            total = total + part
        return total


class Residual(Module):
    """y = x + body(x), or shortcut(x) + body(x) where the body changes the shape.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> net = nn.Residual(nn.ReLU())
    >>> net(np.float32([[-1, 2]])).tolist(), net.backward(np.float32([[1, 1]])).tolist()
    ([[-1.0, 4.0]], [[1.0, 2.0]])
    """

    def __init__(self, *body: Module, shortcut: Module | None = None) -> None:
        super().__init__()
        self.body = body[0] if len(body) == 1 else Sequential(*body)
        self.shortcut = shortcut

    def forward(self, *inputs: Value) -> Value:
        (x,) = inputs
        y: Value = self.body(x)
        straight: Value = x if self.shortcut is None else self.shortcut(x)
        if straight.shape != y.shape:
            raise ValueError(
                f"Residual: the body turns {x.shape} into {y.shape}, so its input cannot be added to its output. Give a "
                f"shortcut module that yields {y.shape}."
            )
        return straight + y
