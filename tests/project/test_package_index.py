"""The package index of a release, as pip sees it: from the disk and from a web server (tools/package_index.py)."""

from __future__ import annotations

import hashlib
import http.server
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "package_index.py"


def wheel(folder: Path, version: str, requires: str) -> Path:
    """A package of one module that holds its version."""
    folder.mkdir(exist_ok=True)
    path, info = folder / f"openbnns-{version}-py3-none-any.whl", f"openbnns-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("openbnns_index_test.py", f"version = {version!r}\n")
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: openbnns\nVersion: {version}\nRequires-Python: {requires}\n",
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


def make_index(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    wheel(tmp_path / "wheels", "0.1.0", ">=3.10")
    wheel(tmp_path / "wheels", "0.2.0", ">=3.10")
    wheel(tmp_path / "wheels", "9.0.0", ">=4")
    wheel(tmp_path / "wheels", "0.1.0", ">=3.10").with_name("another-1.0-py3-none-any.whl").touch()
    made = make_index(tmp_path / "wheels", tmp_path / "nowhere", "--out", tmp_path / "index")
    assert made.returncode == 0, made.stderr
    assert "3 files" in made.stdout
    return tmp_path / "index"


@pytest.fixture
def address(index: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *unused: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(index)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def installed_version(target: Path, *options: str) -> str:
    pip = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    done = subprocess.run(
        [*pip, "--target", str(target), *options, "openbnns"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return (target / "openbnns_index_test.py").read_text(encoding="utf-8").strip()


def test_pip_takes_the_newest_that_this_python_can_use(index: Path, address: str, tmp_path: Path) -> None:
    expected = "version = '0.2.0'"
    assert installed_version(tmp_path / "a", "--no-index", "--find-links", str(index / "openbnns")) == expected
    assert installed_version(tmp_path / "b", "--no-index", "--find-links", address + "openbnns/") == expected
    assert installed_version(tmp_path / "c", "--index-url", address) == expected


def test_a_file_that_was_changed_on_the_way_is_refused(index: Path, address: str, tmp_path: Path) -> None:
    page = index / "openbnns" / "index.html"
    sums = dict(re.findall(r'href="([^#"]+)#sha256=(\w+)"', page.read_text(encoding="utf-8")))
    for name, digest in sums.items():
        assert hashlib.sha256((index / "openbnns" / name).read_bytes()).hexdigest() == digest
    wheel(index / "openbnns", "0.2.0", ">=3.0")
    pip = [sys.executable, "-m", "pip", "--isolated", "install", "--no-deps", "--target", str(tmp_path / "d")]
    refused = subprocess.run([*pip, "--index-url", address, "openbnns"], capture_output=True, text=True, check=False)
    assert refused.returncode != 0 and "DO NOT MATCH THE HASHES" in refused.stderr


def test_without_wheels_there_is_no_index(tmp_path: Path) -> None:
    refused = make_index(tmp_path, "--out", tmp_path / "index")
    assert refused.returncode == 1 and refused.stderr.startswith("index: there is no openbnns-*.whl in")
    assert not (tmp_path / "index").exists()
