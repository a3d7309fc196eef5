"""Make a package index of wheels and source archives: a folder that any web server can serve, or that pip reads from the disk.

python tools/package_index.py dist/wheels dist/sdist --out dist/index

pip install openbnns --extra-index-url https://example.org/index/           a "simple" index, PEP 503
pip install openbnns --find-links https://example.org/index/openbnns/       the page of the package alone
pip install openbnns --find-links dist/index/openbnns                       from the disk
"""

from __future__ import annotations

import argparse
import hashlib
import html
import shutil
import zipfile
from email.parser import HeaderParser
from pathlib import Path

PACKAGE = "openbnns"
PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="pypi:repository-version" content="1.0"><title>{title}</title></head>
<body>
<h1>{title}</h1>
{links}
</body>
</html>
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="where the wheels and source archives are")
    parser.add_argument("--out", type=Path, default=Path("dist", "index"))
    options = parser.parse_args()
    files = find(options.folders)
    if not files:
        where = " or ".join(map(str, options.folders))
        raise SystemExit(f"index: there is no openbnns-*.whl in {where}. Build some first: make wheels sdist")
    write(files, options.out)
    print(f"{len(files)} files in {options.out}. pip install {PACKAGE} --find-links {options.out / PACKAGE}")


def find(folders: list[Path]) -> list[Path]:
    """All files of the package, each name once."""
    patterns = (f"{PACKAGE}-*.whl", f"{PACKAGE}-*.tar.gz")
    paths = {path.name: path for folder in folders for pattern in patterns for path in folder.glob(pattern)}
    return [paths[name] for name in sorted(paths)]


def write(files: list[Path], out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    (out / PACKAGE).mkdir(parents=True)
    for path in files:
        shutil.copy(path, out / PACKAGE)
    page(out / "index.html", "Packages", [f'<a href="{PACKAGE}/">{PACKAGE}</a>'])
    page(out / PACKAGE / "index.html", PACKAGE, [link(path) for path in files])


def link(path: Path) -> str:
    """The line of a file: pip checks its sum, and leaves out what is for other Pythons before it loads anything."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    needed = requires_python(path)
    attribute = f' data-requires-python="{html.escape(needed)}"' if needed else ""
    return f'<a href="{path.name}#sha256={digest}"{attribute}>{path.name}</a><br>'


def requires_python(path: Path) -> str | None:
    """The metadata of a wheel; pip reads that of a source archive when it opens it."""
    if path.suffix != ".whl":
        return None
    with zipfile.ZipFile(path) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(wheel.read(name).decode("utf-8"))["Requires-Python"]


def page(path: Path, title: str, links: list[str]) -> None:
    path.write_text(PAGE.format(title=title, links="\n".join(links)), encoding="utf-8")


if __name__ == "__main__":
    main()
