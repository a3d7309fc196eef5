"""End with one line that says what to install if there is no C++ compiler: ``python tools/need_compiler.py``."""

from __future__ import annotations

import os
import platform
import shlex
import shutil

COMPILERS = ("c++", "g++", "clang++")
PACKAGES = {
    "debian": "apt-get install g++",
    "fedora": "dnf install gcc-c++",
    "rhel": "dnf install gcc-c++",
    "suse": "zypper install gcc-c++",
    "arch": "pacman -S gcc",
    "alpine": "apk add g++",
    "gentoo": "emerge sys-devel/gcc",
    "void": "xbps-install gcc",
}
"""The command by the names that distributions have in /etc/os-release, as ID or ID_LIKE."""


def main() -> None:
    if (message := problem()) is not None:
        raise SystemExit(message)


def problem() -> str | None:
    named = shlex.split(os.environ.get("CXX", ""))
    if named:
        return (
            None
            if shutil.which(named[0])
            else f"CXX names the compiler {named[0]}, which is not there: unset it, or correct it."
        )
    if any(map(shutil.which, COMPILERS)):
        return None
    return f"There is no C++ compiler ({', '.join(COMPILERS)}), which building needs. Install one: {command()}"


def command() -> str:
    """How this system gets a compiler."""
    if platform.system() == "Darwin":
        return "xcode-select --install"
    try:
        facts = platform.freedesktop_os_release()
    except OSError:
        facts = {}
    for name in (facts.get("ID", ""), *facts.get("ID_LIKE", "").split()):
        family = next((known for known in PACKAGES if name.startswith(known) or name.endswith(known)), None)
        if family:
            return ("" if os.geteuid() == 0 else "sudo ") + PACKAGES[family]
    return "GCC 11 or newer, or Clang, with the package manager of this system"


if __name__ == "__main__":
    main()
