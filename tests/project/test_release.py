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
START = "<!-- towncrier release notes start -->\n"


def git(folder: Path, *arguments: str) -> None:
    person = ["-c", "user.name=Someone", "-c", "user.email=someone@example.org"]
    subprocess.run(["git", *person, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A project that can be released."""
    for name in (
        "tools/release.py",
        "src/openbnns/__init__.py",
        "CITATION.cff",
        "README.md",
        "docs/install.md",
        "pyproject.toml",
        "changes/README.md",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(
        f"# Changelog\n\n{START}\n## {openbnns.__version__} (2030-01-31)\n\n- Everything.\n\n"
        "## 0.0.9 (2029-01-31)\n\n- Little.\n",
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
    (repository / "changes" / "+tables.fixed.md").write_text("Tables.\n", encoding="utf-8")
    (repository / "CITATION.cff").write_text("version: 0.0.9\n", encoding="utf-8")
    (repository / "docs" / "install.md").write_text("/releases/expanded_assets/v0.0.9\n", encoding="utf-8")
    refused = release(repository, "check")
    assert refused.returncode == 1 and refused.stdout == ""
    for words in (
        "the tree is not clean",
        " M CHANGELOG.md",
        "CHANGELOG.md has no heading",
        "changes/ has +tables.fixed.md; move them",
        "CITATION.cff states version 0.0.9, but",
        "docs/install.md states version 0.0.9, but",
    ):
        assert words in refused.stderr
    assert release(repository, "tag").returncode == 1


def develop(repository: Path) -> None:
    """Begin the next version, with changes."""
    module = repository / "src" / "openbnns" / "__init__.py"
    text = module.read_text(encoding="utf-8").replace(f'"{openbnns.__version__}"', '"9.2.0.dev0"')
    module.write_text(text, encoding="utf-8")
    for name, words in (("+b.fixed", "One more\nthing."), ("+a.fixed", "A thing."), ("+c.added", "Something new.")):
        (repository / "changes" / f"{name}.md").write_text(f"{words}\n", encoding="utf-8")
    git(repository, "add", ".")
    git(repository, "commit", "-m", "release: begin the next version")


def test_fragments_become_the_changelog_of_a_version(repository: Path) -> None:
    develop(repository)
    assert "9.2.0.dev0 is in development; `python tools/release.py prepare`" in release(repository, "tag").stderr
    assert release(repository, "prepare").returncode == 0
    text = (repository / "CHANGELOG.md").read_text(encoding="utf-8")
    head = (
        f"# Changelog\n\n{START}\n## 9.2.0 ({datetime.date.today()})\n\n### Added\n\n- Something new.\n\n### Fixed\n\n"
    )
    rest = f"\n\n## {openbnns.__version__} (2030-01-31)\n\n- Everything.\n\n## 0.0.9 (2029-01-31)\n\n- Little.\n"
    assert text.startswith(head) and text.endswith(rest)
    fixed = text.removeprefix(head).removesuffix(rest)
    assert sorted(fixed.strip().split("\n- ")) == ["- A thing.", "One more\n  thing."]
    assert [path.name for path in (repository / "changes").iterdir()] == ["README.md"]
    assert release(repository, "notes").stdout.startswith("### Added\n\n- Something new.\n")
    git(repository, "commit", "--all", "-m", "release: 9.2.0")
    assert release(repository, "check").stdout == "v9.2.0 can be released.\n"


def test_a_rehearsal_leaves_everything_as_it_is(repository: Path) -> None:
    assert release(repository, "rehearse").stdout == f"v{openbnns.__version__} can be released.\n"
    develop(repository)
    (repository / "notes.txt").write_text("Not committed.\n", encoding="utf-8")
    assert release(repository, "rehearse").stdout.endswith("v9.2.0 can be released.\n")
    assert len(list((repository / "changes").iterdir())) == 4
    assert "9.2.0" not in (repository / "CHANGELOG.md").read_text(encoding="utf-8")


def test_a_rehearsal_finds_what_would_stop_a_release(repository: Path) -> None:
    develop(repository)
    (repository / "changes" / "news.md").write_text("Of no kind.\n", encoding="utf-8")
    git(repository, "add", ".")
    git(repository, "commit", "-m", "tables: change something")
    refused = release(repository, "rehearse")
    assert refused.returncode == 1 and "Invalid news fragment name: news.md" in refused.stderr


def test_the_changelog_is_short_and_for_users() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert START in text
    first, left = text[text.index("## 0.1.0 (") :].split("### What left, and what to use instead\n")
    assert len(first.splitlines()) <= 40 and "###" not in first + left


def test_the_version_has_one_place() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in project and 'input = "src/openbnns/__init__.py"' in project
