"""The Swift package without a compiler: generated files, `openbnns swift-flags`, and the script that makes a root with Swift.

`make test-swift` has the tests that need a compiler.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from openbnns import cli
from openbnns.clib import flags, swift

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for swiftc that writes what it is asked for, and says what it was asked."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "swiftc"
    program.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && { echo "Swift version 7"; exit; }\n'
        f'echo "$@" >>{tmp_path}/asked.txt\n[ -e {tmp_path}/broken ] && {{ echo "error: no" >&2; exit 1; }}\n'
        'while [ $# -gt 0 ]; do [ "$1" = -o ] && touch "$2"; shift; done\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    library = tmp_path / "site packages" / "openbnns"
    shutil.copytree(flags.prefix() / "swift", library / "swift")
    (library / "include" / "openbnns").mkdir(parents=True)
    (library / "lib").mkdir()
    (library / "lib" / "libopenbnns.so").touch()
    monkeypatch.setattr(flags, "prefix", lambda: library)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_generated_files_are_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "generate_swift.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_package_is_installed_and_small() -> None:
    files = [path for path in swift.package().rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"Package.swift", "module.modulemap", "shim.h", "Layer.swift", "Choices.swift"} <= names
    assert sum(path.stat().st_size for path in files) < 400_000  # a fifth of that in a wheel


def test_flags_build_the_module_once(compiler: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert cli.main(["swift-flags"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    words = shlex.split(first)
    (folder,) = (compiler / "cache" / "openbnns" / "swift").iterdir()
    library = compiler / "site packages" / "openbnns"
    assert words[:2] == [f"-I{folder}", f"-I{library / 'swift' / 'Sources' / 'COpenBNNS'}"]
    assert words[-2:] == ["-Xlinker", str(library / "lib")]
    assert (folder / "libAccelerate.a").exists()
    asked = (compiler / "asked.txt").read_text(encoding="utf-8").splitlines()
    assert len(asked) == 1
    assert "Generated/Choices.swift" in asked[0]


def test_changed_sources_are_built_again(compiler: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["swift-flags"]) == 0
    source = swift.package() / "Sources" / "Accelerate" / "Layer.swift"
    source.write_text(source.read_text(encoding="utf-8") + "// more\n", encoding="utf-8")
    assert cli.main(["swift-flags"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first != second


def test_a_failed_build_says_why_and_leaves_nothing(compiler: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (compiler / "broken").touch()
    assert cli.main(["swift-flags"]) == 2
    assert "could not build the module Accelerate:\nerror: no" in capsys.readouterr().err
    assert list((compiler / "cache" / "openbnns" / "swift").iterdir()) == []


def test_without_swift(compiler: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", str(compiler))
    assert cli.main(["swift-flags"]) == 2
    message = capsys.readouterr().err
    assert "openbnns swift-flags: there is no swiftc in the search path. Install Swift 6.0 or newer" in message
    assert "everything else of openbnns works without it" in message


def test_the_root_says_what_it_needs(tmp_path: Path) -> None:
    """Where there is neither Swift nor debootstrap; in a search path with nothing but a shell's own tools."""
    for name in ("sh", "id", "mkdir"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    script = ROOT / "tools" / "roots" / "swift.sh"
    environment = {"PATH": str(tmp_path), "OPENBNNS_SWIFT_ROOT": str(tmp_path / "root")}
    done = subprocess.run(
        ["/bin/sh", str(script), "/tmp", "swiftc"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "There is no Swift here. Install it (https://www.swift.org/install)" in done.stderr
    assert "run it as root, on a machine with debootstrap" in done.stderr
    assert not (tmp_path / "root").exists()


@pytest.fixture
def stand_ins(tmp_path: Path) -> Path:
    """A search path without Swift, in which root's tools do no more than make folders and call what they are given."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "mkdir", "rm", "cp", "mv", "cat", "tail", "sleep", "dirname", "flock", "env"):
        (tools / name).symlink_to(shutil.which(name) or "")
    programs = {
        "id": "echo 0",
        "unshare": 'shift\nexec "$@"',
        "mount": "exit 0",
        "chroot": f'echo "$@" >>{tmp_path}/asked.txt\nshift\ncase $2 in -C) exec "$@" ;; esac',
        "debootstrap": f"[ ! -e {tmp_path}/broken ] || {{ echo no network >&2; exit 1; }}\n"
        f'echo debootstrap >>{tmp_path}/asked.txt\nsleep 0.5\nmkdir -p "$3/etc/dpkg/dpkg.cfg.d"',
    }
    for name, text in programs.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    return tools


def run_in_root(stand_ins: Path) -> subprocess.Popen[str]:
    script = ROOT / "tools" / "roots" / "swift.sh"
    environment = {"PATH": str(stand_ins), "OPENBNNS_SWIFT_ROOT": str(stand_ins.parent / "root")}
    return subprocess.Popen(
        ["/bin/sh", str(script), "/tmp", "sh", "-c", "echo in the root"],
        env=environment, cwd="/tmp", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_two_runs_at_once_make_one_root(stand_ins: Path) -> None:
    runs = [run_in_root(stand_ins) for _ in range(3)]
    outputs = [one.communicate(timeout=60) for one in runs]
    assert [one.returncode for one in runs] == [0, 0, 0], outputs
    assert [out for out, _ in outputs] == ["in the root\n"] * 3
    asked = (stand_ins.parent / "asked.txt").read_text(encoding="utf-8").splitlines()
    assert asked.count("debootstrap") == 1
    assert sorted(path.name for path in stand_ins.parent.glob("root*")) == ["root", "root.lock", "root.log"]


def test_a_root_that_could_not_be_made_is_made_anew(stand_ins: Path) -> None:
    """Not even a half-made one stands in the way."""
    broken, partial = stand_ins.parent / "broken", stand_ins.parent / "root.partial" / "etc"
    broken.touch()
    partial.mkdir(parents=True)
    failed = run_in_root(stand_ins)
    assert "no network\nThe root could not be made" in failed.communicate(timeout=60)[1]
    assert failed.returncode == 3
    broken.unlink()
    again = run_in_root(stand_ins)
    assert again.communicate(timeout=60)[0] == "in the root\n"
