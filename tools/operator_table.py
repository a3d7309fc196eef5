"""Write the table of operators that ``nn.from_onnx`` reads to docs/onnx.md: ``python tools/operator_table.py``.

``OPENBNNS_ENGINE=reference`` does it without the compiled part. Run it at the top of a checkout.
"""

from __future__ import annotations

from pathlib import Path

from openbnns.interop.onnx._supported import table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "onnx.md"
BEGIN, END = "<!-- written by tools/operator_table.py -->", "<!-- end -->"


def page(text: str) -> str:
    """The page with its table written anew."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
