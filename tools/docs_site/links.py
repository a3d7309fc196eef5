"""Links between files of the repository, as links between pages of the site.

Pages link to files by their places in the repository, so that they work where the repository is browsed. On the site, pages of
``docs`` are at the top, a few files of the repository are pages, notebooks have become pages, and programs are
texts.
"""

from __future__ import annotations

import posixpath
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor

PAGES = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
"""Pages of the site that are files at the top of the repository."""

PLACES = {**{file: page for page, file in PAGES.items()}, "README.md": "index.md"}
SOURCES = "source"
"""Where programs are, under their names in the repository."""


def on_the_site(page: str, link: str) -> str:
    """The link of a page to a file of the repository, as one to the page or file that the site has instead."""
    path, mark, anchor = link.partition("#")
    if not path or ":" in path or path.startswith("/"):
        return link
    place = PAGES.get(page, f"docs/{page}")
    file = posixpath.normpath(posixpath.join(posixpath.dirname(place), path))
    if file.startswith("docs/"):
        target = file.removeprefix("docs/")
        if target.endswith(".ipynb") and mark != "#" and not page.startswith("notebooks/"):
            target = target.removesuffix(".ipynb") + ".md"
    elif file in PLACES:
        target = PLACES[file]
    else:
        target = f"{SOURCES}/{file}.txt"
    return posixpath.relpath(target, posixpath.dirname(page) or ".") + mark + anchor


class RepositoryLinks(Extension):
    """Changes links of the page that is set, before MkDocs looks at them."""

    page = ""

    def extendMarkdown(self, md: Markdown) -> None:
        md.treeprocessors.register(_Links(md, self), "repository_links", 5)


class _Links(Treeprocessor):
    def __init__(self, md: Markdown, extension: RepositoryLinks) -> None:
        super().__init__(md)
        self.extension = extension

    def run(self, root: Element) -> None:
        for element in root.iter():
            for key in ("href", "src"):
                link = element.get(key)
                if link is not None and isinstance(element.tag, str):
                    element.set(key, on_the_site(self.extension.page, link))
