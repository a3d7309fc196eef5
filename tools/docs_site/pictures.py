"""Take the pictures of the README and the first page: the report of a training run on digits, light and dark.

    python tools/docs_site/pictures.py               writes docs/assets/report-light.png and report-dark.png

Needs openbnns, Playwright and Chromium, as `make test-site` does, and Pillow.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from openbnns import cli

ASSETS = Path(__file__).resolve().parents[2] / "docs" / "assets"
SIZE: Any = {"width": 1280, "height": 760}  # the first part of the page: what came out
COLOURS = 64  # a third of the bytes, and no difference to be seen


def main() -> None:
    chromium = os.environ.get("OPENBNNS_CHROMIUM") or shutil.which("chromium")
    schemes: tuple[Any, ...] = ("light", "dark")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        assert cli.main(["train", "--quiet", "--out", folder]) == 0
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for scheme in schemes:
            page = browser.new_page(viewport=SIZE, color_scheme=scheme)
            page.goto((Path(folder) / "report.html").as_uri())
            picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            picture.quantize(COLOURS, dither=Image.Dither.NONE).save(ASSETS / f"report-{scheme}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
