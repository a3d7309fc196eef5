"""The documentation site and reports in a real browser: no errors, nothing cut off, no other hosts, and search that finds things.

``make test-site`` runs this. It opens the pages of build/site, and reports of made-up runs, from the disk, without a network.
Screenshots go to the folder of ``OPENBNNS_SCREENSHOTS`` if it is set.
"""

from __future__ import annotations

import http.server
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

import report_pages

SITE = Path(__file__).resolve().parents[2] / "build" / "site"
PAGES = (
    "index", "tutorial", "gallery", "coming_from_pytorch", "troubleshooting", "tables", "api/index",
    "api/nn/training", "api/capi/enums", "api/openbnns/fully_connected", "notebooks/gradients", "filters/attention",
)  # fmt: skip
WIDTHS = (390, 800, 1280)
SCHEMES = ("light", "dark")

EASY = {
    "csv": "tables", "install": "install", "onnx": "onnx", "resume": "saving", "save a model": "saving",
    "checkpoint": "saving", "scikit-learn": "sklearn", "swift": "coming_from_swift", "gpu": "faq",
}  # fmt: skip
"""Questions by the page that has to come first."""
QUESTIONS = {
    **EASY,
    "how do I install it without a compiler": "install",
    "does it run on Windows": "install",
    "train on a table of numbers": "tables",
    "missing values in a column": "sklearn",
    "decimal point": "tables",
    "load images from a folder": "data",
    "openbnns.datasets.load_digits": "data",
    "freeze layers": "layers",
    "custom layer": "networks",
    "gradcheck": "networks",
    "learning rate schedule": "losses_and_optimizers",
    "cross entropy": "losses_and_optimizers",
    "early stopping": "trainer",
    "interrupted training": "saving",
    "confusion matrix": "report",
    "f1 score": "report",
    "command line options": "commands",
    "predict": "commands",
    "convert a PyTorch model": "from_torch",
    "load PyTorch weights": "weight_files",
    "safetensors": "weight_files",
    "fine-tune an ONNX model": "onnx",
    "Core ML": "core_ml",
    "export to C": "source_code",
    "compile a C program with gcc": "c",
    "mpirun": "distributed",
    "how many threads does it use": "running",
    "reproducible results": "running",
    "is it faster than PyTorch": "speed",
    "error message": "troubleshooting",
    "add an activation": "contributing",
    "quantize int8": "filters/quantization",
    "batch norm": "filters/normalization",
    "MultiheadAttention": "filters/attention",
    "nn.Conv2d": "api/nn/convolution",
    "nn.functional.softmax": "api/nn/module_functional",
    "BNNSFilterApplyBackward": "api/capi/apply",
    "BNNSActivationFunctionGELU": "api/capi/enums",
}
"""Searches, by a page that has to be among the first three."""
ADDRESS_OF_ROOT = "document.baseURI.slice(0, document.baseURI.lastIndexOf('/') + 1)"

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


_CUT_OFF = """() => {
  const width = document.documentElement.clientWidth;
  const found = document.documentElement.scrollWidth > width ? ["the page"] : [];
  for (const element of document.body.querySelectorAll("*")) {
    if (element.closest(".skip, svg")) continue;
    const box = element.getBoundingClientRect();
    if (box.width && (box.right > width + 0.5 || box.left < -0.5)) found.push(element.outerHTML.slice(0, 120));
  }
  for (const card of document.querySelectorAll("article, header, footer")) {
    if (card.scrollWidth > card.clientWidth) found.push("inside of " + card.textContent.slice(0, 60));
  }
  return found;
}"""


_POINTED = """() => [...document.querySelectorAll(".plot:has(.hover)")].map((plot) => {
  plot.scrollIntoView({block: "center", behavior: "instant"});
  const box = plot.getBoundingClientRect();
  const found = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  return found.querySelector("title").textContent.includes("\\n");
})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get("OPENBNNS_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    assert path, "There is no Chromium. Install it (apt-get install chromium), or set OPENBNNS_CHROMIUM to its path."
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()


def look(browser: Browser, path: Path, name: str, scheme: Any, cut_off: str, whole: bool = False) -> Page:
    """A page that fits all widths, loads what it shows, asks for nothing else, and complains about nothing."""
    context = browser.new_context(offline=True, color_scheme=scheme, reduced_motion="reduce")
    page, trouble = context.new_page(), []
    page.on("console", lambda message: trouble.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda r: trouble.append(f"asks for {r.url}") if r.url.startswith("http") else None)
    page.goto(path.as_uri())
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        if "OPENBNNS_SCREENSHOTS" in os.environ:
            target = f"{name.replace('/', '-')}-{scheme}-{width}.png"
            page.screenshot(path=Path(os.environ["OPENBNNS_SCREENSHOTS"]) / target, full_page=whole)
        assert page.evaluate(cut_off) == [], width
    images = "() => [...document.images].filter((i) => i.offsetWidth && !i.naturalWidth).map((i) => i.src)"
    assert page.evaluate(images) == [], "images that do not load"
    assert trouble == []
    return page


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_page_fits_and_is_quiet(browser: Browser, name: str, scheme: str) -> None:
    look(browser, SITE / f"{name}.html", name, scheme, _TOO_WIDE).context.close()


@pytest.mark.parametrize("name", report_pages.PAGES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_report_fits_and_everyone_can_read_it(browser: Browser, tmp_path: Path, name: str, scheme: str) -> None:
    """Folded parts included; nothing that axe calls serious; colours follow the reader."""
    report_pages.PAGES[name](tmp_path / "report.html")
    page = look(browser, tmp_path / "report.html", name, scheme, _CUT_OFF, whole=True)
    assert all(page.evaluate(_POINTED)), "a chart shows no values under the pointer"
    page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate(_CUT_OFF) == []
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    result = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    serious = [
        f"{one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary']}"
        for one in result["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []
    ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (sum(int(part) for part in ground.strip("rgb()").split(",")) > 400) is (scheme == "light")
    page.context.close()


def first_hits(page: Page, question: str) -> list[str]:
    """The pages of the first three results, without `.html`."""
    for text, state in ("", "detached"), (question, "visible"):
        page.fill(".md-search__input", text)
        page.press(".md-search__input", "End")  # the theme waits for a key
        page.locator(".md-search-result__item").first.wait_for(state=state, timeout=60_000)
    addresses = page.eval_on_selector_all(
        ".md-search-result__item > a", f"(links) => links.map((link) => link.href.replace({ADDRESS_OF_ROOT}, ''))"
    )
    return [address.split("?")[0].split("#")[0].removesuffix(".html") for address in addresses[:3]]


def test_search_answers_without_a_network(browser: Browser) -> None:
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto((SITE / "index.html").as_uri())
    page.click(".md-search__input")
    missed = {}
    for question, answer in QUESTIONS.items():
        hits = first_hits(page, question)
        if answer not in (hits[:1] if question in EASY else hits):
            missed[question] = f"{answer} is not among {hits}"
    context.close()
    assert len(QUESTIONS) >= 40 and missed == {}


def test_search_answers_on_a_server(browser: Browser) -> None:
    """Where a worker does it, instead of the frame in pages from the disk."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *unused: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
    page.click(".md-search__input")
    assert first_hits(page, "how do I install it")[0] == "install"
    assert first_hits(page, "fine-tune an ONNX model")[0] == "onnx"
    context.close()
    server.shutdown()
    server.server_close()
