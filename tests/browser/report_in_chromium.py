"""The report in a real browser: no errors, nothing cut off, readable by everyone. ``make test-report`` runs this.

It needs Playwright and axe-core, which the make target installs, and Chromium, which may be anywhere in PATH, or where
``OPENBNNS_CHROMIUM`` says. Screenshots go to the folder of ``OPENBNNS_SCREENSHOTS`` if it is set.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

import report_pages

WIDTHS = (390, 800, 1280)
SCHEMES = ("light", "dark")

_OVERFLOWING = """() => {
  const width = document.documentElement.clientWidth;
  const found = document.documentElement.scrollWidth > width ? ["the page"] : [];
  for (const element of document.body.querySelectorAll("*")) {
    if (element.closest(".skip, #tip, svg, .scroll")) continue;
    const box = element.getBoundingClientRect();
    if (box.width && (box.right > width + 0.5 || box.left < -0.5)) found.push(element.outerHTML.slice(0, 120));
  }
  for (const card of document.querySelectorAll("article, header, footer")) {
    if (card.scrollWidth > card.clientWidth) found.push("inside of " + card.textContent.slice(0, 60));
  }
  return found;
}"""


def chromium() -> str:
    given = os.environ.get("OPENBNNS_CHROMIUM")
    browser = given or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert browser, "There is no Chromium. Install it (apt-get install chromium), or set OPENBNNS_CHROMIUM to its path."
    return browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pages")
    for name, make in report_pages.PAGES.items():
        make(place / f"{name}.html")
    return place


@pytest.fixture(scope="module")
def axe() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


class Opened:
    """A report in a window, and whatever it complained about or asked for."""

    def __init__(self, browser: Browser, path: Path, width: int, scheme: Any) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        self.page: Page = self.context.new_page()
        self.trouble: list[str] = []
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.goto(path.as_uri())

    def _asked(self, url: str) -> None:
        if not url.startswith(("file:", "data:")):
            self.trouble.append(f"asks for {url}")

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *error: object) -> None:
        self.context.close()


@pytest.mark.parametrize("name", report_pages.PAGES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_fits_and_is_quiet(browser: Browser, folder: Path, axe: str, name: str, scheme: str) -> None:
    """No message, no request, nothing cut off at any width, and nothing that axe calls serious."""
    with Opened(browser, folder / f"{name}.html", WIDTHS[0], scheme) as opened:
        page = opened.page
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            for open_ in (False, True):
                page.evaluate(
                    "(open) => document.querySelectorAll('details').forEach((one) => { one.open = open; })", open_
                )
                assert page.evaluate(_OVERFLOWING) == [], width
                if not open_ and "OPENBNNS_SCREENSHOTS" in os.environ:
                    target = Path(os.environ["OPENBNNS_SCREENSHOTS"]) / f"{name}-{scheme}-{width}.png"
                    page.screenshot(path=target, full_page=True)
        page.evaluate(axe)
        result = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        serious = [
            f"{one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary']}"
            for one in result["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == []
        assert opened.trouble == []


def test_the_colors_follow_the_reader(browser: Browser, folder: Path) -> None:
    grounds = []
    for scheme in SCHEMES:
        with Opened(browser, folder / "two.html", 800, scheme) as opened:
            grounds.append(opened.page.evaluate("() => getComputedStyle(document.body).backgroundColor"))
    light, dark = (sum(int(part) for part in ground.strip("rgb()").split(",")) for ground in grounds)
    assert light > 600 and dark < 150


def test_charts_answer_to_pointer_and_keys(browser: Browser, folder: Path) -> None:
    with Opened(browser, folder / "two.html", 1280, "light") as opened:
        page = opened.page
        plot, tip = page.get_by_role("slider", name="loss by epoch"), page.locator("#tip")
        assert not tip.is_visible()
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 1, box["y"] + 20)
        assert tip.inner_text().startswith("epoch 1\ntraining: ")
        page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 20)
        assert tip.inner_text().startswith("epoch 20\n")
        page.mouse.move(5, 5)
        assert not tip.is_visible()
        plot.focus()
        page.keyboard.press("Home")
        assert (plot.get_attribute("aria-valuetext") or "").startswith("epoch 1, training: ")
        page.keyboard.press("ArrowRight")
        assert plot.get_attribute("aria-valuenow") == "2"
        assert tip.is_visible()
        page.keyboard.press("Escape")
        assert not tip.is_visible()
        assert opened.trouble == []


def test_boards_answer_to_keys(browser: Browser, folder: Path) -> None:
    for name, role in (("two", "table"), ("hundred", "group")):
        with Opened(browser, folder / f"{name}.html", 390, "dark") as opened:
            page = opened.page
            board = page.get_by_role(role, name="Confusion matrix")  # type: ignore[arg-type]
            readout = page.locator(".readout").first
            board.focus()
            page.keyboard.press("ArrowRight")
            first = readout.inner_text()
            assert "predicted as" in first
            page.keyboard.press("ArrowDown")
            assert "recognized" in readout.inner_text()
            assert page.evaluate(_OVERFLOWING) == []
            assert opened.trouble == []


def test_the_menu_tells_what_became_of_a_class(browser: Browser, folder: Path) -> None:
    with Opened(browser, folder / "hundred.html", 800, "light") as opened:
        opened.page.get_by_label("What became of class").select_option("beaver 3")
        told = opened.page.locator(".became").inner_text()
        assert "beaver 3 was predicted as" in told and "What was predicted as beaver 3" in told
        assert "beaver 3: " in told


def test_tables_are_sorted_by_their_headings(browser: Browser, folder: Path) -> None:
    with Opened(browser, folder / "digits.html", 800, "light") as opened:
        table = opened.page.locator("#classes table.sortable").first
        heading = table.get_by_role("button", name="samples")
        orders = []
        for _ in range(2):
            heading.click()
            orders.append([int(text) for text in table.locator("tbody tr td:nth-child(2)").all_inner_texts()])
        assert orders[0] == sorted(orders[0], reverse=True)
        assert orders[1] == sorted(orders[1])


def test_a_legend_brings_out_a_line(browser: Browser, folder: Path) -> None:
    with Opened(browser, folder / "two.html", 800, "light") as opened:
        chart = opened.page.locator("#training figure").first
        button = chart.get_by_role("button", name="validation")
        button.focus()
        opened.page.keyboard.press("Enter")
        assert button.get_attribute("aria-pressed") == "true"
        assert chart.locator("path.line.s1.chosen").count() == 1
        assert chart.locator(".plot path.line.s0.chosen").count() == 0


def test_text_in_charts_can_be_selected(browser: Browser, folder: Path) -> None:
    with Opened(browser, folder / "digits.html", 800, "light") as opened:
        opened.page.evaluate("() => getSelection().selectAllChildren(document.querySelector('#training figure'))")
        chosen = opened.page.evaluate("() => getSelection().toString()")
        for text in ("training", "validation", "best: epoch", "0.1", "epoch"):
            assert text in chosen
