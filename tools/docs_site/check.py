"""Looks at the built site: every link leads somewhere, and no page asks another host for anything.

python tools/docs_site/check.py build/site
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "object": "data",
}
LOADING_LINKS = {"stylesheet", "icon", "preload", "preconnect", "prefetch", "modulepreload", "manifest"}
STYLES = re.compile(r"(?:url\(|@import)\s*[\"']?\s*((?:https?:)?//[^\"')\s]+)")


class Reading(HTMLParser):
    """The names of places in a page, its links, and what a browser loads with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.places.update(given[key] for key in ("id", "name") if key in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and LOADING_LINKS & set(given.get("rel", "").split()):
            self.loaded.append(given["href"])
        if tag in LOADED and LOADED[tag] in given:
            self.loaded.append(given[LOADED[tag]])


def problems(site: Path) -> Iterator[str]:
    """The problems of a site, one line each."""
    pages = {path.relative_to(site).as_posix(): Reading(path.read_text("utf-8")) for path in site.rglob("*.html")}
    files = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    for name, page in sorted(pages.items()):
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme in ("data", "mailto", "javascript"):
                continue
            if parts.scheme or parts.netloc:
                if link in page.loaded:
                    yield f"{name}: loads {link} from another host"
                elif parts.scheme not in ("http", "https") or "." not in parts.netloc or " " in link:
                    yield f"{name}: {link} is not an address"
                continue
            path = unquote(parts.path)
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
            target = posixpath.normpath(path.lstrip("/")) if path.startswith("/") else target
            if target in (".", "") or (site / target).is_dir():
                target = posixpath.normpath(posixpath.join(target, "index.html"))
            if target not in files:
                yield f"{name}: {link} leads nowhere"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
                yield f"{name}: {link} names no place of that page"
    for style in sorted(site.rglob("*.css")):
        for address in STYLES.findall(style.read_text("utf-8")):
            yield f"{style.relative_to(site).as_posix()}: loads {address} from another host"


def main(arguments: list[str]) -> int:
    site = Path(arguments[0])
    faults = list(problems(site))
    for line in faults:
        print(line, file=sys.stderr)
    if not faults:
        print(
            f"{sum(1 for _ in site.rglob('*.html'))} pages: every link leads somewhere, nothing comes from other hosts"
        )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
