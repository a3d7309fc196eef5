"""``openbnns c-flags``, pkg-config and CMake: what builds of C programs ask the installation."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import openbnns
from c_compilers import INCLUDE, PACKAGE
from openbnns import cli
from openbnns.clib import flags


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package folder with a space in its name, and a library in it."""
    folder = tmp_path / "site packages" / "openbnns"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "libopenbnns.so").touch()
    monkeypatch.setattr(flags, "prefix", lambda: folder)
    return folder


def printed(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    """The words that a shell makes of what ``openbnns c-flags`` prints."""
    assert cli.main(["c-flags", *options]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return shlex.split(captured.out)


def test_flags(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiling = [f"-I{installation / 'include'}"]
    linking = [f"-L{installation / 'lib'}", "-lopenbnns", f"-Wl,-rpath,{installation / 'lib'}"]
    assert printed(capsys) == compiling + linking
    assert printed(capsys, "--cflags", "--libs") == compiling + linking
    assert printed(capsys, "--cflags") == compiling
    assert printed(capsys, "--libs") == linking
    assert printed(capsys, "--quiet") == []


def test_prefix(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["c-flags", "--prefix"]) == 0
    assert capsys.readouterr().out == f"{installation}\n"
    assert cli.main(["c-flags", "--prefix", "--libs"]) == 2
    assert "--prefix prints a folder, --cflags and --libs print flags." in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--cflags", "--libs", "--prefix", "--quiet"])
def test_an_installation_without_the_library_says_so(
    installation: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (installation / "lib" / "libopenbnns.so").unlink()
    assert cli.main(["c-flags", option]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(
        r"openbnns c-flags: this installation of openbnns has no C library: .*libopenbnns\.so does not exist\. "
        r"Install a wheel for Linux, or run `pip install \.` in a checkout\.\n",
        captured.err,
    )


def test_all_files_tell_one_version() -> None:
    package = (PACKAGE / "lib" / "pkgconfig" / "openbnns.pc").read_text(encoding="utf-8")
    cmake = (PACKAGE / "lib" / "cmake" / "OpenBNNS" / "OpenBNNSConfigVersion.cmake").read_text(encoding="utf-8")
    assert f"Version: {openbnns.__version__}\n" in package
    assert f'set(PACKAGE_VERSION "{openbnns.__version__}")\n' in cmake


def test_the_header_is_where_the_flags_say() -> None:
    assert flags.compile_flags() == [f"-I{INCLUDE}"]
    assert (INCLUDE / "Accelerate" / "Accelerate.h").exists()
