"""Notebooks as pages: their text, their code, and what it gave when it was run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def markdown(path: Path) -> str:
    """A notebook as Markdown. Nothing is run: the outputs are those in the file."""
    note = f"[Download this notebook]({path.name}){{ .md-button download={path.name} }}\n"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join([*_cell(cells[0]), note, *(line for cell in cells[1:] for line in _cell(cell))])


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield f"{text}\n"
        return
    yield f"```python\n{text}\n```\n"
    for output in cell["outputs"]:
        yield from _output(output)


def _output(output: dict[str, Any]) -> Iterator[str]:
    data = output.get("data", {})
    if "text/html" in data:
        yield f'<div class="output">\n{_joined(data["text/html"])}\n</div>\n'
    elif "image/svg+xml" in data:
        yield f'<div class="output">\n{_joined(data["image/svg+xml"])}\n</div>\n'
    else:
        said = _joined(output["text"] if output["output_type"] == "stream" else data["text/plain"])
        yield f"```text {{ .output }}\n{said.rstrip()}\n```\n"


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)
