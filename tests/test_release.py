"""One version everywhere, and what stops a release (tools/release.py)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import openbnns

ROOT = Path(__file__).resolve().parents[1]


def git(folder: Path, *arguments: str) -> None:
    person = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
    subprocess.run(["git", *person, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A project that can be released."""
    for name in ("tools/release.py", "src/openbnns/__init__.py", "CITATION.cff"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {openbnns.__version__} (2030-01-31)\n", encoding="utf-8")
    git(tmp_path, "init")
    git(tmp_path, "config", "user.name", "Somebody")
    git(tmp_path, "config", "user.email", "somebody@example.org")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "release: everything")
    return tmp_path


def release(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tools/release.py", *arguments]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)


def test_a_release(repository: Path) -> None:
    name = f"v{openbnns.__version__}"
    assert release(repository, "check").stdout == f"{name} can be released.\n"
    assert release(repository, "tag").stdout == f"Tagged {name}. To publish it: git push origin {name}\n"
    assert f"{name} exists already" in release(repository, "check").stderr
    assert release(repository, "check", "--tagged", name).returncode == 0
    assert "the tag is v9.9.9, but" in release(repository, "check", "--tagged", "v9.9.9").stderr


def test_what_stops_a_release(repository: Path) -> None:
    (repository / "CHANGELOG.md").write_text(
        "# Changelog\n\n## Unreleased\n\n## 0.0.9 (unreleased)\n", encoding="utf-8"
    )
    (repository / "CITATION.cff").write_text("version: 0.0.9\n", encoding="utf-8")
    refused = release(repository, "check")
    assert refused.returncode == 1 and refused.stdout == ""
    for words in (
        "the tree is not clean",
        " M CHANGELOG.md",
        "CHANGELOG.md has no heading",
        "CHANGELOG.md has a part `## Unreleased`",
        "CHANGELOG.md has a part `## 0.0.9 (unreleased)`",
        "CITATION.cff has another",
    ):
        assert words in refused.stderr
    assert release(repository, "tag").returncode == 1


def test_every_file_tells_one_version() -> None:
    assert f"version: {openbnns.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in project and 'input = "src/openbnns/__init__.py"' in project
