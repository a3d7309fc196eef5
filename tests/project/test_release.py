"""One version everywhere, and what stops a release (tools/release.py)."""

from __future__ import annotations

import datetime
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import openbnns

ROOT = Path(__file__).resolve().parents[2]


def git(folder: Path, *arguments: str) -> None:
    person = ["-c", "user.name=Someone", "-c", "user.email=someone@example.org"]
    subprocess.run(["git", *person, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A project that can be released."""
    for name in ("tools/release.py", "src/openbnns/__init__.py", "CITATION.cff", "README.md", "docs/install.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## {openbnns.__version__} (2030-01-31)\n\n- Everything.\n\n## 0.0.9 (2029-01-31)\n\n- Little.\n",
        encoding="utf-8",
    )
    git(tmp_path, "init")
    git(tmp_path, "config", "user.name", "Someone")
    git(tmp_path, "config", "user.email", "someone@example.org")
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
    assert release(repository, "notes").stdout == "- Everything.\n"


def test_what_stops_a_release(repository: Path) -> None:
    (repository / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## {openbnns.__version__} (unreleased)\n", encoding="utf-8"
    )
    (repository / "changes").mkdir()
    (repository / "changes" / "fixed-tables.md").write_text("- Tables.\n", encoding="utf-8")
    (repository / "CITATION.cff").write_text("version: 0.0.9\n", encoding="utf-8")
    (repository / "docs" / "install.md").write_text("pip install ./v0.0.9\n", encoding="utf-8")
    refused = release(repository, "check")
    assert refused.returncode == 1 and refused.stdout == ""
    for words in (
        "the tree is not clean",
        " M CHANGELOG.md",
        "CHANGELOG.md has no heading",
        "changes/ has fixed-tables.md; `python tools/release.py gather`",
        "CITATION.cff has another",
        "docs/install.md does not install the wheels of",
    ):
        assert words in refused.stderr
    assert release(repository, "tag").returncode == 1


def test_fragments_become_the_changelog_of_a_version(repository: Path) -> None:
    assert "has no fragments" in release(repository, "gather").stderr
    changes = repository / "changes"
    changes.mkdir()
    (changes / "README.md").write_text("How to write one.\n", encoding="utf-8")
    (changes / "fixed-b.md").write_text("- One more\n  thing.\n", encoding="utf-8")
    (changes / "fixed-a.md").write_text("- A thing.\n", encoding="utf-8")
    (changes / "added-c.md").write_text("- Something new.\n", encoding="utf-8")
    assert f"has {openbnns.__version__} already" in release(repository, "gather").stderr
    module = repository / "src" / "openbnns" / "__init__.py"
    module.write_text('__version__ = "0.2.0"\n', encoding="utf-8")
    (changes / "news.md").write_text("- Of no kind.\n", encoding="utf-8")
    assert "changes/news.md has to begin with one of added, changed" in release(repository, "gather").stderr
    (changes / "news.md").unlink()
    assert release(repository, "gather").returncode == 0
    text = (repository / "CHANGELOG.md").read_text(encoding="utf-8")
    day = datetime.date.today().isoformat()
    assert text.startswith(
        f"# Changelog\n\n## 0.2.0 ({day})\n\n### Added\n\n- Something new.\n\n"
        f"### Fixed\n\n- A thing.\n- One more\n  thing.\n\n## {openbnns.__version__} (2030-01-31)\n"
    )
    assert [path.name for path in changes.iterdir()] == ["README.md"]
    assert release(repository, "notes").stdout.startswith("### Added\n\n- Something new.\n")


def test_the_changelog_is_short_and_for_users() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = text[text.index("## 0.1.0 (") :]
    assert len(first.splitlines()) <= 60 and "### Fixed" not in first


def test_every_file_tells_one_version() -> None:
    assert f"version: {openbnns.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in project and 'input = "src/openbnns/__init__.py"' in project
