"""Importing the package: quick, nothing loaded before it is used, and every name still there for people and tools."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import openbnns
from openbnns import capi, layers

LIMIT = 0.010
"""Seconds that importing may take beyond importing NumPy."""

PACKAGES = [openbnns, capi, layers]


def run(program: str, cache: Path) -> str:
    """The output of a program in a fresh interpreter whose bytecode files are in `cache`."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(cache)
    environment["PYTHONPATH"] = str(Path(openbnns.__file__).parents[1])
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("module", ["openbnns", "openbnns.capi"])
def test_time_beyond_numpy(module: str, tmp_path: Path) -> None:
    """The fastest of fresh interpreters, in processor time: other work on the machine adds to the rest."""
    program = f"import time, numpy; start = time.process_time(); import {module}; print(time.process_time() - start)"
    run(program, tmp_path)  # compiles, as installing does
    times = [float(run(program, tmp_path)) for _ in range(7)]
    assert min(times) <= LIMIT, [f"{t * 1e3:.1f} ms" for t in times]


def test_what_a_python_may_be_compiled_without(tmp_path: Path) -> None:
    missing = ["_lzma", "_bz2", "_ssl", "_sqlite3", "_curses", "_tkinter", "readline"]
    imports = "import openbnns.nn.data, openbnns.interop.weight_files; "
    program = f"import sys; sys.modules.update(dict.fromkeys({missing})); {imports}"
    assert "permute" in run(program + "from openbnns.cli import main; main(['check', 'permute'])", tmp_path)


def loaded(program: str, cache: Path) -> set[str]:
    """Modules of the package that a program loads."""
    return set(run(f"{program}; import sys; print(*sys.modules)", cache).split())


def test_nothing_loads_before_it_is_used(tmp_path: Path) -> None:
    after_import = loaded("import openbnns, openbnns.capi, openbnns.layers", tmp_path)
    packages = ("openbnns.filters", "openbnns.capi.", "openbnns.layers.")
    assert {name for name in after_import if name.startswith(packages)} == {
        "openbnns.capi._names",
        "openbnns.layers._names",
    }
    assert not {"logging", "hashlib", "dataclasses"} & (after_import - loaded("import numpy", tmp_path))
    after_use = loaded("from openbnns import capi; capi.BNNSFilterCreateLayerFullyConnected(None)", tmp_path)
    assert "openbnns.filters.fully_connected" in after_use
    for family in ("lstm", "attention", "convolution", "loss", "optimizer", "random_numbers"):
        assert f"openbnns.filters.{family}" not in after_use
    after_class = loaded("import openbnns; openbnns.ConvolutionLayer", tmp_path)
    assert "openbnns.filters.convolution" in after_class
    assert not {"openbnns.filters.lstm", "openbnns.layers.lstm", "openbnns.filters.attention"} & after_class


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
class TestNames:
    def test_all_are_there(self, package: ModuleType) -> None:
        assert len(package.__all__) == len(set(package.__all__)) > 60
        for name in package.__all__:
            assert getattr(package, name) is not None
        assert set(package.__all__) <= set(dir(package))

    def test_star_import(self, package: ModuleType) -> None:
        namespace: dict[str, object] = {}
        exec(f"from {package.__name__} import *", namespace)
        assert set(package.__all__) <= set(namespace)

    def test_stub_says_the_same(self, package: ModuleType) -> None:
        """The names that type checkers and editors see are those of run time, from the same modules."""
        stub = ast.parse(Path(str(package.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
        seen: set[str] = set()
        for statement in stub.body:
            if not isinstance(statement, ast.ImportFrom):
                continue
            home = importlib.import_module("." * statement.level + (statement.module or ""), package.__name__)
            for alias in statement.names:
                if alias.name == "*":
                    seen.update(home.__all__)
                    continue
                assert alias.asname == alias.name
                assert getattr(package, alias.name) is getattr(home, alias.name)
                seen.add(alias.name)
        assert seen == set(package.__all__)

    def test_unknown_name(self, package: ModuleType) -> None:
        for name in ("BNNSNoSuchThing", "no_such_thing", "__no_such_thing__"):
            assert not hasattr(package, name)
        with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'Nothing'"):
            _ = package.Nothing
        with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
            exec(f"from {package.__name__} import Nothing")


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match="Did you mean BNNSFilterApply\\?"):
        capi.BNNSFilterAply  # noqa: B018
    with pytest.raises(AttributeError, match="Did you mean BNNSFilterCreateLayerConvolution\\?"):
        capi.BNNSFilterCreateLayerConv  # noqa: B018  # the beginning of a name counts more than its length
    with pytest.raises(AttributeError, match="Did you mean FullyConnectedLayer\\?"):
        openbnns.FullyConectedLayer  # noqa: B018
