"""The documentation site in a real browser: no errors, nothing cut off, no other hosts. ``make test-site`` runs this.

It opens the pages of build/site from the disk, without a network. Screenshots go to the folder of ``OPENBNNS_SCREENSHOTS`` if it
is set.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

SITE = Path(__file__).resolve().parents[2] / "build" / "site"
PAGES = (
    "index", "tutorial", "gallery", "coming_from_pytorch", "troubleshooting", "tables", "scoreboard", "api/index",
    "api/nn/training", "api/capi/enums", "api/openbnns/fully_connected", "notebooks/first_network", "filters/attention",
)  # fmt: skip
WIDTHS = (390, 800, 1280)

_TOO_WIDE = """() => {
  const width = document.documentElement.clientWidth;
  const scrolls = (e) => e && (["auto", "scroll"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  const found = document.documentElement.scrollWidth > width ? ["the page"] : [];
  for (const element of document.querySelectorAll(".md-content *")) {
    const box = element.getBoundingClientRect();
    if (box.width && box.right > width + 1 && !element.closest("svg") && !scrolls(element.parentElement))
      found.push(element.outerHTML.slice(0, 120));
  }
  return found;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get("OPENBNNS_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    assert path, "There is no Chromium. Install it (apt-get install chromium), or set OPENBNNS_CHROMIUM to its path."
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_fits_and_is_quiet(browser: Browser, name: str, scheme: Any) -> None:
    context = browser.new_context(offline=True, color_scheme=scheme, reduced_motion="reduce")
    page, trouble = context.new_page(), []
    page.on("console", lambda message: trouble.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda r: trouble.append(f"asks for {r.url}") if r.url.startswith("http") else None)
    page.goto((SITE / f"{name}.html").as_uri())
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        if "OPENBNNS_SCREENSHOTS" in os.environ:
            target = f"{name.replace('/', '-')}-{scheme}-{width}.png"
            page.screenshot(path=Path(os.environ["OPENBNNS_SCREENSHOTS"]) / target)
        assert page.evaluate(_TOO_WIDE) == [], width
    images = "() => [...document.images].filter((i) => i.offsetWidth && !i.naturalWidth).map((i) => i.src)"
    assert page.evaluate(images) == [], "images that do not load"
    assert trouble == []
    context.close()


def test_search_finds_a_layer_without_a_network(browser: Browser) -> None:
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto((SITE / "index.html").as_uri())
    page.click(".md-search__input")
    page.keyboard.type("MultiheadAttention")
    page.wait_for_selector(".md-search-result__item", timeout=20_000)
    assert "MultiheadAttention" in page.inner_text(".md-search-result__list")
    context.close()
