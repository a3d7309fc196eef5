"""Which wheel is tested on other systems (tools/roots/wheel.sh), and what one is told who has made none."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MANY = "openbnns-1.2.3-cp311-cp311-manylinux_2_17_{0}.manylinux2014_{0}.whl"
MUSL = "openbnns-1.2.3-cp311-cp311-musllinux_1_2_{0}.whl"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tools" / "roots").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "roots" / "wheel.sh", tmp_path / "tools" / "roots")
    (tmp_path / "dist" / "wheels").mkdir(parents=True)
    return tmp_path


def wheel_for(project: Path, target: str, platform: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["tools/roots/wheel.sh", target, platform], cwd=project, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("target", "platform", "name"),
    [
        ("x86_64-linux-gnu", "manylinux", MANY.format("x86_64")),
        ("aarch64-linux-gnu", "manylinux", MANY.format("aarch64")),
        ("x86_64-linux-musl", "musllinux", MUSL.format("x86_64")),
    ],
)
def test_one_of_many(project: Path, target: str, platform: str, name: str) -> None:
    for made in (MANY, MUSL, MANY.replace("311", "312"), MANY.replace("cp311-cp311", "cp313-cp313t")):
        for processor in ("x86_64", "aarch64"):
            (project / "dist" / "wheels" / made.format(processor)).touch()
    assert wheel_for(project, target, platform).stdout == f"dist/wheels/{name}\n"


def test_none_or_two(project: Path) -> None:
    problem = "dist/wheels must have one wheel for Python 3.11 on x86_64-linux-gnu"
    cure = f"{problem}: rm -rf dist/wheels, then make wheels TARGET=x86_64-linux-gnu\n"
    nothing = wheel_for(project, "x86_64-linux-gnu", "manylinux")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (1, "", cure)
    for version in ("1.2.3", "1.2.4"):
        (project / "dist" / "wheels" / MANY.format("x86_64").replace("1.2.3", version)).touch()
    assert wheel_for(project, "x86_64-linux-gnu", "manylinux").stderr == cure
