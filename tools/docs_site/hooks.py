"""Hooks of MkDocs: pages that are not in ``docs``, because they are made from the package, from notebooks or from other files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import search
from links import PAGES, SOURCES, RepositoryLinks
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from notebook_pages import markdown as notebook

from reference import Reference

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("changes", "examples")
"""Folders whose files pages link to."""

_links = RepositoryLinks()
_reference = Reference()


def on_config(config: Any) -> Any:
    config.markdown_extensions.append(_links)
    for part in config.nav:
        if "Reference" in part:
            part["Reference"] = _reference.navigation()
    return config


def on_files(files: Files, config: Any) -> Files:
    for page, path in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    for uri, text in _reference.files():
        files.append(File.generated(config, uri, content=text))
    for path in sorted((ROOT / "docs").rglob("*.ipynb")):
        uri = path.relative_to(ROOT / "docs").with_suffix(".md").as_posix()
        files.append(File.generated(config, uri, content=notebook(path)))
    for folder in PROGRAMS:
        for path in sorted((ROOT / folder).rglob("*.*")):
            if path.is_file() and "__pycache__" not in path.parts:
                uri = f"{SOURCES}/{path.relative_to(ROOT).as_posix()}.txt"
                files.append(File.generated(config, uri, abs_src_path=str(path)))
    if absent := search.missing(file.src_uri for file in files):
        raise PluginError(f"tools/docs_site/search.py has words for pages that do not exist: {', '.join(absent)}")
    return files


def on_page_markdown(markdown: str, *, page: Any, **unused: Any) -> str:
    _links.page = page.file.src_uri
    search.describe(page.file.src_uri, page.meta)
    return markdown
