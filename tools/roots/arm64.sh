#!/bin/sh
# The wheel of Python 3.11 for arm64 on Debian 12's Python for arm64, under QEMU's emulation of user programs: gradients, contract and
# values of every family in small portions (PORTION=2/10 is the next one), and training. Needs debootstrap, qemu-user-static and
# a network; `make test-arm64` calls it, and `make test-cross TARGET=aarch64-linux-gnu` has the C++ tests of the kernels.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-.venv/bin/python}
wheel=$(tools/roots/wheel.sh aarch64-linux-gnu manylinux)
root=${ROOT:-$PWD/build/roots/arm64}

if [ ! -e "$root/usr/bin/python3.11" ]; then
  mkdir -p "$root"
  debootstrap --foreign --arch=arm64 --variant=minbase --include=python3.11,libpython3.11 bookworm "$root"
  for package in "$root"/var/cache/apt/archives/*.deb; do dpkg -x "$package" "$root"; done
fi

rm -rf "$root/site"
"$python" -m pip install --quiet --no-compile --target "$root/site" --only-binary=:all: --python-version 3.11 \
  --platform manylinux2014_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64 \
  numpy pytest hypothesis "$wheel"
emulated() { env PYTHONPATH="$root/site" QEMU_LD_PREFIX="$root" qemu-aarch64-static "$root/usr/bin/python3.11" "$@"; }
emulated -m openbnns info
emulated -m openbnns check
emulated -m openbnns train --epochs 2 --no-report --out build/roots/arm64-out --force
emulated -m pytest -q -p no:cacheprovider -m "not peers" --portion "${PORTION:-1/10}" \
  ${TESTS:-tests/filters/test_contract.py tests/filters/test_contract_cases.py tests/filters/test_values.py tests/filters/test_gradients.py}
