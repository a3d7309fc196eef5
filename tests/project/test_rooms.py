"""The order of the packages: each imports only from those below it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import openbnns

ROOT = Path(openbnns.__file__).parent
REPOSITORY = Path(__file__).resolve().parents[2]

# From the ground up; rooms on one line do not know each other.
ORDER = [
    {"_cached", "_core", "_flags", "_listing", "_plural", "_spelling", "_table", "supervisor"},
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
    {"capi", "layers"},
    {"gradients", "datasets", "clib"},
    {"graph"},
    {"nn"},
    {"interop"},
    {"distributed", "coreml"},
    {"report"},
    {"cli", "sklearn"},
    {"__main__"},
]
# The methods that Swift gives a descriptor take and make Shapes; they look up when they are called.
# Contexts belong to graphs, but execute ML programs; they are looked up when asked for.
EXCEPT = {"abi/memory.py", "graph/__init__.py"}
# Networks still import from above where they should only look up a name when a method is called.
EXCEPT |= {
    "nn/__init__.py", "nn/_exports.py", "nn/_orders.py", "nn/files/layer_file.py", "nn/files/graph_file.py",
    "nn/files/model_file.py", "nn/trainer.py",
}  # fmt: skip
FLOOR = {room: floor for floor, rooms in enumerate(ORDER) for room in rooms}


def absolute(parts: tuple[str, ...], node: ast.ImportFrom) -> list[str]:
    """Where a module below openbnns imports from."""
    return [*parts[: len(parts) - node.level], *(node.module.split(".") if node.module else [])]


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """The rooms that a module imports from when it is loaded or type-checked, each with the line that does."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = {id(node) for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or id(node) in inside or node.level == 0:
            continue
        target = absolute(parts, node)
        for name in [target[0]] if target else [alias.name for alias in node.names]:
            yield name, f"{'/'.join(parts)}.py line {node.lineno}: {name}"


def test_every_room_has_its_floor() -> None:
    rooms = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert rooms - {"__init__", "examples"} == set(FLOOR) - {"_core"}


def test_imports_go_down() -> None:
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        if path.relative_to(ROOT).as_posix() in EXCEPT:
            continue
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for target, line in imports(path):
            if room in FLOOR and target in FLOOR and target != room and FLOOR[target] >= FLOOR[room]:
                wrong.append(line)
    assert not wrong


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
# What rooms above nn still use of its modules, trainers and optimizers.
NOT_PRIVATE |= {
    "_accuracy", "_base_rate", "_bundles", "_children", "_count", "_empty_graph", "_epsilon_after_correction", "_graph",
    "_has_state", "_input_shapes", "_named_state", "_on_step", "_recording", "_recordings", "_refresh", "_say",
    "_shares_norm", "_traced", "_traced_apart", "_trial", "_with_free_sizes",
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
    """The string constants of a module that are no documentation, with the parts of f-strings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value


def test_rules_leave_the_word_for_null_to_the_face_that_was_called() -> None:
    modules = [path for room in ("tensors", "calls", "filters") for path in sorted((ROOT / room).glob("*.py"))]
    assert [path.name for path in modules for text in texts(path) if "NULL" in text] == []


# Modules and pages of these folders that are no family's, or part of one.
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


def test_what_tests_share_is_in_modules_beside_them() -> None:
    """No test file imports another one but as a member of its folder, to run its tests again through another face."""
    files = sorted((REPOSITORY / "tests").rglob("*.py"))
    assert [
        path.name for path in files if re.search(r"^\s*(?:from|import) test_", path.read_text(), re.MULTILINE)
    ] == []
