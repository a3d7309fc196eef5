"""The journey from a messy table to a model that is used: what the terminal, the model file and the report in Chromium say."""

from __future__ import annotations

import csv
import random
import re
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from browser.report_in_chromium import chromium
from openbnns import nn
from openbnns.nn.data.preprocessing import TablePreparation


def messy(path: Path, count: int = 600, seed: int = 0) -> Path:
    """Customers of a shop, as an office suite exports them: money, percentages, dates, spellings, gaps, an id and a leak."""
    draw = random.Random(seed)
    head = "Customer No;Joined;Income;Discount;Balance;City;Visits;Cancelled on;Stays"
    lines = ["\ufeff" + head, ""]
    for i in range(count):
        income, discount, balance = draw.lognormvariate(10, 0.8), draw.random(), draw.gauss(0, 3000)
        stays = income / 30_000 - 3 * discount + balance / 3000 + draw.gauss(0, 0.2) > -0.7
        owed = f"(€ {-balance:,.2f})" if balance < 0 else f"€ {balance:,.2f}"
        owed = owed.translate({44: ".", 46: ","})
        city = draw.choice(["Bern", "bern", " BERN", "Oslo", "Rome", "n/a"])
        joined = f"{draw.randint(1, 28)}.{draw.randint(1, 12)}.{draw.randint(2015, 2024)}"
        visits = draw.choice(["", "-", str(draw.randint(0, 90))])
        money = f"{income:,.0f}".replace(",", ".")
        percent = f"{discount:.1%}".replace(".", ",")
        cells = [40_000 + (i * 37) % 4999, joined, money, percent, owed, city, visits, "" if stays else "x"]
        lines.append(";".join(map(str, [*cells, "yes" if stays else "no"])))
        if i % 100 == 99:
            lines.append(";" * 8)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def openbnns(folder: Path, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-m", "openbnns", *arguments], capture_output=True, text=True, cwd=folder)
    return done.returncode, done.stdout, done.stderr


def test_from_a_messy_table_to_a_model_that_is_used(tmp_path: Path) -> None:
    messy(tmp_path / "customers.csv")
    code, said, _ = openbnns(tmp_path, "train", "customers.csv", "--dry-run")
    assert code == 0 and not (tmp_path / "runs").exists()
    for piece in (
        "Read 600 rows of 9 columns: semicolon as separator", "6 lines without any value are skipped.",
        "Column 'Customer No' has a different whole number in every row. If it is an id",
        "The class follows from column 'Cancelled on' alone.", "Stays target of the classification",
        "31/3/2024; used are day count, year, month, day of week",
        "thousands separators '.' removed", "'%' removed", "'€' removed", "numbers in parentheses read as negative",
        "3 categories: ", "counted as the same", "those that are missing marked",
    ):  # fmt: skip
        assert piece in " ".join(said.split()), (piece, said)
    chosen = ["--drop", "Customer No,Cancelled on"]
    code, said, _ = openbnns(tmp_path, "train", "customers.csv", *chosen)
    assert code == 0 and "it has the lowest validation loss" in said and (tmp_path / "out").is_symlink()
    accuracy = re.search(r"Test accuracy: ([\d.]+)%", said)
    assert accuracy is not None and float(accuracy[1]) > 85

    network = nn.load_model(tmp_path / "out" / "model.safetensors")
    card = network.model_card
    assert card is not None and isinstance(card.preparation, TablePreparation)
    assert card.preparation.left_out == {"Customer No": "--drop", "Cancelled on": "--drop"}
    assert card.preparation.formats is not None and card.preparation.formats["Balance"].example == "€1.234,5"

    messy(tmp_path / "new.csv", 50, seed=7)
    code, said, _ = openbnns(
        tmp_path, "predict", "out/model.safetensors", "new.csv", "--keep", "Customer No", "-o", "a.csv"
    )
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    with (tmp_path / "new.csv").open(newline="", encoding="utf-8-sig") as file:
        truth = [row for row in csv.DictReader(file, delimiter=";") if row["Stays"]]
    assert code == 0 and [row["Customer No"] for row in rows] == [row["Customer No"] for row in truth]
    right = sum(row["prediction"] == wanted["Stays"] for row, wanted in zip(rows, truth, strict=True))
    assert right >= 42
    code, said, warned = openbnns(tmp_path, "evaluate", "out/model.safetensors", "customers.csv")
    assert (
        code == 0 and "among those that the model was trained on" in warned and "Without the training samples: " in said
    )

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((tmp_path / "out" / "report.html").resolve().as_uri())
        assert accuracy[1] in page.locator("#results").inner_text().replace(" ", " ").replace(" %", "%").replace(
            " ", ""
        )
        columns = page.locator("#data").inner_text()
        assert "target of the classification" in columns and "left out: --drop" in columns
        wrong = page.locator("#wrong")
        place = re.search(r"customers\.csv, line (\d+)", wrong.inner_text())
        assert place is not None
        wrong.locator("summary", has_text="Their rows in the file").click()
        line = (tmp_path / "customers.csv").read_text(encoding="utf-8-sig").splitlines()[int(place[1]) - 1]
        for cell in filter(None, line.split(";")):
            assert cell.strip() in wrong.inner_text(), cell
        order = page.locator("#columns article").first.locator("tbody th").all_inner_texts()
        assert set(order[:3]) == {"Income", "Discount", "Balance"}
        assert "Results by group" in page.locator("#columns").inner_text()
        assert not errors
        browser.close()
