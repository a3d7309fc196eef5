"""Keep results of benchmarks/run.py in docs/benchmarks, and write docs/benchmarks.md, with a picture of each.

    python tools/benchmark_gallery.py build/bench/*.json     keep these, and write the page
    python tools/benchmark_gallery.py                        the page only, with what is kept

Needs openbnns and nothing else; run it at the top of a checkout.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import page as pages  # noqa: E402
from results import Results  # noqa: E402

PAGE, FOLDER = ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "benchmarks"
TOP = """# Benchmarks by processor

What `make bench` measured: matrix products as a share of the peak, training steps against PyTorch and JAX, inference against
onnxruntime, and training in bfloat16 and inference in int8 against both. Both sides take turns in one process, and results are
compared before they are timed. The peak is the most that multiply-adds on registers reached in the run; the time of a matrix
product is that of its fastest round.

```text
make bench                        # JSON, and a page with plots, in build/bench
python benchmarks/run.py --only sweep/                  # matrix products
python benchmarks/run.py --only training/ --isa avx2    # without AVX-512
python benchmarks/run.py --only bfloat16/ --only int8/  # other precisions
python tools/benchmark_gallery.py build/bench/*.json    # writes this page
openbnns bench                                          # three networks
```

[How fast it is](speed.md) says what the figures mean.
"""


def known() -> dict[str, Results]:
    """Results that are kept, by the names of their files."""
    return {path.stem: Results.read(path) for path in sorted(FOLDER.glob("*.json"))}


def page(kept: dict[str, Results]) -> str:
    """The page as text."""
    parts = [TOP]
    if not kept:
        parts.append("No results of this version are kept yet: run the commands above on your machine.\n")
    for name, results in kept.items():
        about = results.about
        parts.append(f"## {results.title}\n")
        versions = ", ".join(
            f"{p} {about[p]}" for p in ("openbnns", "torch", "jax", "onnxruntime", "numpy") if about[p] != "none"
        )
        parts.append(
            f"{about['cores']} cores, {about['system']}; {versions}; {about['measured']}. "
            f"All numbers: [{name}.json](benchmarks/{name}.json).\n"
        )
        numbers = pages.summary(results)
        if numbers:
            parts.append(
                "\n".join(["| what | figure |", "|---|---|", *(f"| {what} | {figure} |" for what, figure in numbers)])
                + "\n"
            )
        parts.append(
            f"[![{results.title}: times as fast as the best peer](benchmarks/{name}.svg)](benchmarks/{name}.svg)\n"
        )
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="results to keep; they replace those of the same name")
    for path in parser.parse_args().files:
        Results.read(path).write(FOLDER / path.name)
    kept = known()
    for name, results in kept.items():
        (FOLDER / f"{name}.svg").write_text(pages.picture(results), encoding="utf-8")
    PAGE.write_text(page(kept), encoding="utf-8")


if __name__ == "__main__":
    main()
