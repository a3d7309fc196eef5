#!/bin/sh
# The wheel for Python 3.11 in a root of Debian 11, whose C library (2.31) is older than that of most machines that build it.
# Debian 11 has only Python 3.9, so Debian's source of Python 3.11 is compiled there first: some minutes. Needs root, debootstrap
# and a network; `make test-debian11` calls it.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-.venv/bin/python}
wheel=$(tools/roots/wheel.sh x86_64-linux-gnu manylinux)
root=${ROOT:-$PWD/build/roots/debian11}

if [ ! -e "$root/etc/debian_version" ]; then
  mkdir -p "$root"
  debootstrap --variant=minbase --include=gcc,libc6-dev,make,zlib1g-dev,libffi-dev,dpkg-dev,ca-certificates bullseye "$root"
fi
if [ ! -x "$root/opt/python/bin/python3.11" ]; then
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  cp tools/roots/compile_python.sh tools/roots/debian_source.sh "$root/opt"
  chroot "$root" /opt/compile_python.sh bookworm 3.11 /opt/python
fi

rm -rf "$root/site"
"$python" -m pip install --quiet --no-compile --target "$root/site" --only-binary=:all: --python-version 3.11 \
  --platform manylinux2014_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_28_x86_64 numpy "$wheel"
inside() { chroot "$root" env PYTHONPATH=/site "$@"; }
inside /opt/python/bin/python3.11 -c 'import platform, openbnns; print(*platform.libc_ver(), openbnns.current_engine()); openbnns.show_config()' |
  tee build/roots/debian11.txt
grep -q '^glibc 2.31 native$' build/roots/debian11.txt
inside /opt/python/bin/python3.11 -m openbnns check
inside /opt/python/bin/python3.11 -m openbnns train --epochs 2 --no-report --out /tmp/out --force

# A C program, compiled there and run without any help.
cp examples/c/mlp.c "$root/tmp/mlp.c"
inside sh -euc 'gcc -O2 /tmp/mlp.c -o /tmp/mlp $(/opt/python/bin/python3.11 -m openbnns c-flags) -lm
  OPENBNNS_PYTHON=/opt/python/bin/python3.11 /tmp/mlp' | tail -n 2
echo "Debian 11: all passed"
