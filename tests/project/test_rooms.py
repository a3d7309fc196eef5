"""The order of the packages: each imports only from those below it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import openbnns

ROOT = Path(openbnns.__file__).parent
REPOSITORY = Path(__file__).resolve().parents[2]

# From the ground up; rooms on one line do not know each other.
ORDER = [
    {"_cached", "_core", "_elsewhere", "_flags", "_listing", "_plural", "_spelling", "_table"},
    {"_lazy"},
    {"engines"},
    {"errors", "_words", "_strict", "compat"},
    {"abi"},
    {"tensors"},
    {"parameters"},
    {"reference"},
    {"calls"},
    {"filters"},
    {"diagnosis", "runtime"},
    {"capi", "layers", "_machine"},
    {"gradients", "datasets", "clib", "files"},
    {"graph"},
    {"nn"},
    {"interop"},
    {"distributed", "coreml"},
    {"report"},
    {"cli", "sklearn"},
    {"__main__"},
]
INTEROP_ABOVE_NN = {
    "torch", "source", "weight_files", "converted.recorded", "coreml.network", "coreml.exporting", "coreml.mlmodel",
    "onnx.reading", "onnx._network", "onnx.writing", "onnx._preparing", "onnx.described", "onnx._metadata",
}  # fmt: skip
FLOOR = {room: floor for floor, rooms in enumerate(ORDER) for room in rooms}


# The only references to rooms above, and from modules of networks to those that are made of them: functions of one line that look
# a name up when they are called, with the types of their results.
LOOK_UP = {
    "graph/__init__.py": {"__getattr__"},
    "gradients/check.py": {"_of_network"},
    "nn/__init__.py": {"__getattr__"},
    "nn/module.py": {
        "_repr_html_", "compile_inference", "compile_step", "load", "model_card", "predict", "profile", "save", "save_model",
        "summary", "to_c", "to_coreml", "to_onnx", "to_swift", "to_torch_state_dict",
    },
    "nn/trainer.py": {"_check_shards", "_communicator", "_distributed_run"},
    "nn/files/graph_file.py": {"_classes_of"},
    "nn/files/layer_file.py": {"_onnx_network", "_onnx_table", "_public_names"},
}  # fmt: skip
# The methods that Swift gives a descriptor take and make Shapes; the C faces of BNNSGraph execute ML programs; a message asks why
# no kernel was chosen. They look up when they are called.
EXCEPT = {"abi/memory.py", "capi/graph.py", "capi/graph_objects.py", "clib/graph_builders.py", "filters/matmul.py"}
LARGEST_KNOT = 5  # modules that import each other, in a circle or several
PACKAGES_OF_NAMES = {"nn/__init__.py", "graph/__init__.py"}  # which import names for type checkers alone


def absolute(parts: tuple[str, ...], node: ast.ImportFrom) -> list[str]:
    """Where a module below openbnns imports from."""
    return [*parts[: len(parts) - node.level], *(node.module.split(".") if node.module else [])]


def is_one_line(function: ast.FunctionDef) -> bool:
    """True for a function of a docstring, imports and one more line."""
    body = [node for node in function.body if not isinstance(node, (ast.Import, ast.ImportFrom))]
    return len(body) - (ast.get_docstring(function) is not None) == 1


def looked_up(path: Path, tree: ast.Module) -> set[int]:
    """The imports of a module that only look names up, by identity."""
    names = LOOK_UP.get(path.relative_to(ROOT).as_posix(), set())
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name in names]
    lookups = {id(node) for function in functions for node in ast.walk(function) if isinstance(node, ast.ImportFrom)}
    inside = {id(node) for function in functions for node in ast.walk(function)}
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in inside}
    for block in tree.body:
        if not isinstance(block, ast.If) or ast.unparse(block.test) != "TYPE_CHECKING":
            continue
        for node in block.body:  # types of results
            if isinstance(node, ast.ImportFrom):
                types = {alias.asname or alias.name for alias in node.names}
                if path.relative_to(ROOT).as_posix() in PACKAGES_OF_NAMES or (names and not types & used):
                    lookups.add(id(node))
    return lookups


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """The modules that one imports, wherever it does, but for lookups; each with the line that does."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = looked_up(path, tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level and id(node) not in skipped:
            target = absolute(parts, node)
            for alias in node.names:
                inner = ROOT.joinpath(*target, alias.name)
                is_module = inner.with_suffix(".py").is_file() or (inner / "__init__.py").is_file()
                name = ".".join([*target, alias.name] if is_module or not target else target)
                yield name, f"{'/'.join(parts)}.py line {node.lineno}: {name}"


def test_every_room_has_its_floor() -> None:
    rooms = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert rooms - {"__init__", "examples"} == set(FLOOR) - {"_core"}


def test_imports_go_down() -> None:
    """Imports for type checkers and inside of functions count, too."""
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        if path.relative_to(ROOT).as_posix() in EXCEPT:
            continue
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        wrong += [line for target, line in imported(path) if is_above(room, target)]
    assert not wrong


def test_lookups_are_functions_of_one_line() -> None:
    for name, functions in LOOK_UP.items():
        tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
        listed = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name in functions}
        assert listed.keys() == functions, name
        assert [n for n, node in listed.items() if n != "__getattr__" and not is_one_line(node)] == [], name


def knots(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that import each other, in a circle or several (Tarjan 1972)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    components: list[set[str]] = []

    def visit(module: str) -> None:
        numbers[module] = lowest[module] = len(numbers)
        stack.append(module)
        for other in graph.get(module, ()):
            if other not in numbers:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], numbers[other])
        if lowest[module] == numbers[module]:
            at = stack.index(module)
            components.append(set(stack[at:]))
            del stack[at:]

    for module in graph:
        if module not in numbers:
            visit(module)
    return [knot for knot in components if len(knot) > 1]


def is_above(room: str, target: str) -> bool:
    """True if a module stands in a room above, or beside, another one."""
    above = target.partition(".")[0]
    return room in FLOOR and above in FLOOR and above != room and FLOOR[above] >= FLOOR[room]


def imports() -> dict[str, set[str]]:
    """The modules that each one imports, for type checkers and in functions as well, but for references to rooms above."""
    graph: dict[str, set[str]] = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        excepted = path.relative_to(ROOT).as_posix() in EXCEPT
        targets = {target for target, _ in imported(path) if not (excepted and is_above(parts[0], target))}
        graph.setdefault(name, set()).update(targets - {name})
    return graph


def test_knots_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert sorted(map(sorted, knots(graph))) == [["a", "b", "c"], ["d", "e"]]


def test_few_modules_import_each_other() -> None:
    """A module can be read without more than four others that lead back to it."""
    assert [sorted(knot) for knot in knots(imports()) if len(knot) > LARGEST_KNOT] == []


def private(path: Path) -> Iterator[str]:
    """Imports, wherever they stand, of what has a leading underscore in a package that the module is not in."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.level == 0:
            continue
        for alias in node.names:
            target = [*absolute(parts, node), alias.name]
            for depth, name in enumerate(target):
                if name.startswith("_") and not name.startswith("__") and tuple(target[:depth]) != parts[:depth]:
                    yield f"{'/'.join(parts)}.py line {node.lineno}: {'.'.join(target)}"


def test_an_underscore_means_private_to_the_package() -> None:
    wrong = [line for path in sorted(ROOT.rglob("*.py*")) if path.suffix in (".py", ".pyi") for line in private(path)]
    assert not wrong


# The compiled module; what structs and their arrays know besides their fields; names of Python's own; of PyTorch's modules.
NOT_PRIVATE = {
    "_core",
    "_kinds",
    "_element",
    "_asdict",
    "_getframe",
    "_actions",
    "_choices_actions",
    "_SubParsersAction",
    "_fill_text",
}
NOT_PRIVATE |= {
    "_base", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_non_persistent_buffers_set", "_version",
}  # fmt: skip


def defined(node: ast.AST) -> list[str]:
    """The names that a piece of code gives to functions, classes, attributes and variables."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return [node.attr]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def test_private_attributes_are_used_where_they_are_defined() -> None:
    """No package uses an attribute with a leading underscore that only other packages define."""
    known: dict[str, set[str]] = {}
    used: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        room = path.relative_to(ROOT).parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            known.setdefault(room, set()).update(defined(node))
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                place = f"{path.relative_to(ROOT)} line {node.lineno}: {node.attr}"
                used.setdefault(room, []).append((node.attr, place))
    wrong = [place for room in used for name, place in used[room] if name not in known[room] | NOT_PRIVATE]
    assert not wrong


def texts(path: Path) -> Iterator[str]:
    """The string constants of a module that are not documentation, with the parts of f-strings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value


def test_rules_leave_the_word_for_null_to_the_face_that_was_called() -> None:
    modules = [path for room in ("tensors", "calls", "filters") for path in sorted((ROOT / room).glob("*.py"))]
    assert [path.name for path in modules for text in texts(path) if "NULL" in text] == []


# Modules and pages of these folders that do not belong to a family, or are part of one.
OTHERS = {
    "capi": {"apply", "graph", "graph_objects", "legacy", "numbers", "utility"},
    "layers": {"base", "descriptor_memory", "shape", "types", "written_calls"},
    "gradients": {"cases", "check"},
    "parameters": set(),
    "reference": set(),
}
OF_NETWORKS = {"exchange", "recurrent"}  # kernels of networks that no filter has


def test_a_family_has_one_name_in_every_folder() -> None:
    families = {path.stem for path in (ROOT / "filters").glob("*.py")} - {"base", "direct"}
    for folder, others in OTHERS.items():
        names = {path.stem for path in (ROOT / folder).glob("*.py") if not path.name.startswith("_")}
        assert names - families == others, folder
    kernels = {path.name for path in (REPOSITORY / "core" / "kernels").iterdir() if path.is_dir()}
    assert kernels - families == OF_NETWORKS
    assert {path.stem for path in (REPOSITORY / "docs" / "filters").glob("*.md")} <= families


def test_a_family_takes_ten_files_and_three_edits() -> None:
    """Permute, which CONTRIBUTING.md walks through: its files, and no other module that would have to know it."""
    guide = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    walk = guide[guide.index("## Adding a family") : guide.index("## Rules")]
    files = [*(path.relative_to(ROOT) for path in ROOT.glob("*/permute.py"))]
    for pattern in (
        "core/kernels/permute/*",
        "tests/cases/permute.py",
        "tests/*/test_permute*",
        "docs/filters/permute.md",
    ):
        files += [path.relative_to(REPOSITORY) for path in REPOSITORY.glob(pattern)]
    assert len(files) == 10
    assert [path for path in files if f"| `{path.as_posix()}` |" not in walk] == []
    edited = re.findall(r"^\d\. `(.*?)`", walk, re.MULTILINE)
    assert len(edited) == 3
    assert [name for name in edited if "permute" not in (REPOSITORY / name).read_text(encoding="utf-8")] == []
    # What is generated and networks, which use some families and need no others, may name it.
    code = [
        path
        for path in ROOT.rglob("*.py")
        if path.stem not in ("permute", "_names") and not {"graph", "nn", "interop"} & {*path.parts}
    ]
    naming = re.compile(r'"permute"|import .*\bpermute\b|\bpermute import')
    assert [path for path in code if naming.search(path.read_text(encoding="utf-8"))] == []


def test_an_activation_takes_twelve_files() -> None:
    """Snake, with which CONTRIBUTING.md begins; and Softmin, for one that is there: no other module here has to know it."""
    guide = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    walk = guide[guide.index("## Your first change") : guide.index("## An operation")]
    files = set(re.findall(r"`((?:src|tests|docs|changes)/[\w/.+-]+\.(?:py|md))`", walk))
    assert len(files) == 12
    code = [path for path in ROOT.rglob("*.py") if "interop" not in path.parts]
    naming = {path for path in code if re.search(r"\bsoftmin\b", path.read_text(encoding="utf-8"), re.IGNORECASE)}
    inside = {name.removeprefix("src/openbnns/") for name in files if name.startswith("src/")}
    assert {path.relative_to(ROOT).as_posix() for path in naming} == inside


def test_what_tests_share_is_in_modules_beside_them() -> None:
    """No test file imports another one but as a member of its folder, to run its tests again through another face."""
    files = sorted((REPOSITORY / "tests").rglob("*.py"))
    assert [
        path.name for path in files if re.search(r"^\s*(?:from|import) test_", path.read_text(), re.MULTILINE)
    ] == []


def test_formats_without_networks_stand_below_those_with_them() -> None:
    """Two floors in one package: files, tables and operations of formats, and what makes networks of them or writes these."""
    above = tuple(f"interop.{name}" for name in INTEROP_ABOVE_NN)
    wrong = []
    for path in sorted((ROOT / "interop").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if not f"{module}.".startswith(tuple(f"{name}." for name in above)):
            wrong += [
                line
                for target, line in imported(path)
                if f"{target}.".startswith(("nn.", *(f"{name}." for name in above)))
            ]
    assert not wrong


def test_contexts_load_no_networks() -> None:
    """Compiling and executing ML programs stands below networks: neither imports any."""
    code = "import sys, openbnns.interop.coreml.context; print(*(name for name in sys.modules if name.startswith('openbnns.nn')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not loaded
