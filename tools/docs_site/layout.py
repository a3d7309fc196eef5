"""Which public name is on which page of the reference."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

import openbnns
from openbnns import capi, nn

NETWORKS = {
    "networks": (
        "Networks",
        "What every network is made of and can do.",
        ("module", "containers", "function", "graph"),
    ),
    "layers": ("Linear layers, embedding, dropout, shapes", "Layers for samples of any kind.", ("layers",)),
    "convolution": (
        "Convolutions",
        "Signals (channels, length) and images (channels, height, width).",
        ("convolution",),
    ),
    "pooling": ("Pooling", "Windows of signals and images.", ("pooling",)),
    "sizes": ("Padding and resizing", "Layers that change the size of signals and images.", ("padding", "resize")),
    "normalization": ("Normalization", "Batch, instance, layer, group and root mean square.", ("normalization",)),
    "activation": ("Activations", "Functions of elements, and softmax.", ("activation",)),
    "sequences": ("Sequences", "Recurrent layers, attention, transformers, encodings of positions.", ("sequences",)),
    "losses": ("Losses", "Each call gives the loss and its gradient.", ("losses",)),
    "optimizers": ("Optimizers and averages", "Results are PyTorch's.", ("optimizers", "optimizer_base", "ema")),
    "schedules": ("Schedules of the learning rate", "Values are PyTorch's at every step.", ("schedules",)),
    "training": (
        "The trainer",
        "Training, what it measures, and what stops it.",
        ("trainer", "training_run", "callbacks", "history"),
    ),
    "models": ("Files of trained models", "A network with all that it takes to use it.", ("files", "predictions")),
    "in_and_out": (
        "From PyTorch, ONNX and Core ML",
        "Networks that were made elsewhere, weights included.",
        ("interop",),
    ),
}
"""Pages of ``openbnns.nn``: file, title, first line, and the modules that their names are defined in."""

OTHER_FACES = {
    "runtime": ("Threads, engines, accuracy", ("runtime", "engines")),
    "errors": ("Errors and warnings", ("errors", "_strict")),
    "gradcheck": ("Checking gradients", ("gradients",)),
    "descriptors": ("Array descriptors", ("abi",)),
}
"""Pages of ``openbnns`` that do not belong to a family."""

PACKAGE_C = "openbnns.capi"

SHARED = {"_binary": "base", "_fused_parameters": "fused", "_ports": "base", "_calls": "apply"}
"""Modules of layers and C functions whose names stand on the page of another one."""

TITLES = {
    "base": "What all layers have",
    "types": "Choices: functions, shapes, modes",
    "apply": "Applying any filter",
    "legacy": "First-generation creators",
    "utility": "Sizes and ranks",
    "numbers": "Calls by number",
    "crop_resize": "Crop-resize",
    "lstm": "LSTM",
    "matmul": "Matrix products",
    "gram": "Gram matrix",
    "moves": "Copy, transpose, tile, compare, shuffle",
    "nearest_neighbors": "Nearest neighbours",
    "selection": "Top-k, gather, scatter",
}


@dataclass
class Entry:
    """A public name and what it stands for."""

    name: str
    thing: Any


@dataclass
class Page:
    """A page of the reference, at ``api/<face>/<file>.md``, with names of one package."""

    package: str
    face: str
    file: str
    title: str
    lead: str
    entries: list[Entry] = field(default_factory=list)

    @property
    def uri(self) -> str:
        return f"api/{self.face}/{self.file}.md"


def title_of(module: str) -> str:
    return TITLES.get(module, module.lstrip("_").replace("_", " ").capitalize())


def pages() -> list[Page]:
    """All pages, by face."""
    return [*_of_openbnns(), *_of_capi(), *_of_networks()]


def _entries(module: Any, names: Iterable[str]) -> list[Entry]:
    return [Entry(name, getattr(module, name)) for name in sorted(names, key=str.lower)]


def _of_openbnns() -> list[Page]:
    from openbnns.layers._names import HOMES

    by_file: dict[str, Page] = {}
    for module, names in HOMES.items():
        file = SHARED.get(module, module)
        home = import_module(f"openbnns.layers.{file}")
        page = by_file.setdefault(file, Page("openbnns", "openbnns", file, title_of(file), inspect.getdoc(home) or ""))
        page.entries += _entries(openbnns, names)
    placed = {entry.name for page in by_file.values() for entry in page.entries}
    rest = [name for name in openbnns.__all__ if name not in placed]
    modules = [name for name in rest if isinstance(getattr(openbnns, name), ModuleType)]
    others = []
    for file, (title, homes) in OTHER_FACES.items():
        chosen = [n for n in rest if n not in modules and _part(getattr(openbnns, n).__module__, "openbnns") in homes]
        others.append(Page("openbnns", "openbnns", file, title, "", _entries(openbnns, chosen)))
    for name in ("compat", "datasets"):
        module = getattr(openbnns, name)
        public = [n for n in dir(module) if not n.startswith("_") and callable(getattr(module, n))]
        title = f"openbnns.{name}"
        others.append(Page(title, "openbnns", name, title, inspect.getdoc(module) or "", _entries(module, public)))
    first = [by_file.pop("base"), by_file.pop("types")]
    return [*first, *(by_file[file] for file in sorted(by_file)), *others]


def _of_capi() -> list[Page]:
    from openbnns.abi import enums, structs
    from openbnns.capi._names import HOMES

    public = sorted((name for name in HOMES if name not in SHARED), key=lambda name: (name != "apply", name))
    pages = {
        name: Page(PACKAGE_C, "capi", name, title_of(name), inspect.getdoc(import_module(f"{PACKAGE_C}.{name}")) or "")
        for name in public
    }
    for module, names in HOMES.items():
        pages[SHARED.get(module, module)].entries += _entries(capi, names)
    listed = list(pages.values())
    kinds = [name for name in capi.__all__ if inspect.isclass(getattr(enums, name, None))]
    plain = [name for name in enums.__all__ if isinstance(getattr(enums, name), int) and name == name.upper()]
    lead = "Every member of an enum is also a name of ``openbnns.capi``."
    listed.append(Page(PACKAGE_C, "capi", "enums", "Enums", lead, _entries(capi, [*kinds, *plain])))
    lead = "Fields have the names of C, and are 0 or NULL unless they are given."
    listed.append(Page(PACKAGE_C, "capi", "structs", "Structs", lead, _entries(capi, structs.__all__)))
    return listed


def _of_networks() -> list[Page]:
    names = {name: getattr(nn, name) for name in nn.__all__}
    modules = {name: thing for name, thing in names.items() if isinstance(thing, ModuleType)}
    listed = []
    for file, (title, lead, homes) in NETWORKS.items():
        chosen = [n for n, t in names.items() if n not in modules and _home(t.__module__) in homes]
        listed.append(Page("openbnns.nn", "nn", file, title, lead, _entries(nn, chosen)))
    placed = {entry.name for page in listed for entry in page.entries}
    for name, module in sorted(modules.items()):
        own = [n for n in module.__all__ if n not in placed and not isinstance(getattr(module, n), ModuleType)]
        if own:
            lead = inspect.getdoc(module) or ""
            listed.append(
                Page(f"openbnns.nn.{name}", "nn", f"module_{name}", f"nn.{name}", lead, _entries(module, own))
            )
    return listed


def _home(module: str) -> str:
    """The part of ``openbnns.nn`` that a module belongs to; for names that nn has of other rooms, "graph" or "interop"."""
    room = _part(module, "openbnns")
    return _part(module, "openbnns.nn") if room == "nn" else room


def _part(module: str, package: str) -> str:
    """The part of a package that a module belongs to: ``sequences`` for ``openbnns.nn.sequences.cells``."""
    return module[len(package) + 1 :].split(".")[0]
