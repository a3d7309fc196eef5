#!/bin/sh
# The wheel of Python 3.11 for musl, the C library of Alpine Linux, on a Python that is compiled against Debian's package of
# musl, with NumPy's wheel for musl: gradients of every family, training, and tests in small portions (PORTION=2/10 is the next
# one). Needs musl-tools, dpkg-dev, debian-archive-keyring and a network; `make test-musl` calls it.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-.venv/bin/python}
wheel=$(tools/roots/wheel.sh x86_64-linux-musl musllinux)
root=${ROOT:-$PWD/build/roots/musl}

# musl's compiler, with the headers of Linux and the libraries below; it says that it is for glibc, whose headers Python would take.
mkdir -p "$root/include"
ln -sfn /usr/include/linux "$root/include/linux"
ln -sfn /usr/include/asm-generic "$root/include/asm-generic"
ln -sfn "/usr/include/$(gcc -print-multiarch)/asm" "$root/include/asm"
cat >"$root/compiler" <<END
#!/bin/sh
case "\$1" in
  *-print-multiarch) echo "$(uname -m)-linux-musl" ;;
  *) exec musl-gcc -isystem $root/include -L$root/lib "\$@" ;;
esac
END
chmod +x "$root/compiler"
export CC="$root/compiler" PKG_CONFIG_PATH="$root/lib/pkgconfig"

# What Python needs of other libraries: zlib for the built-in digits, libffi for ctypes.
build_library() {
  tools/roots/debian_source.sh bookworm "$1" "$root/source"
  (cd "$root/source" && CFLAGS="-O1 -fPIC" ./configure --prefix="$root" "$2" && make --silent && make --silent install) >"$root/$1.txt" 2>&1
  rm -r "$root/source"
}
[ -e "$root/lib/libz.a" ] || build_library zlib --static
[ -e "$root/lib/libffi.a" ] || build_library libffi --disable-shared
[ -x "$root/bin/python3.11" ] || tools/roots/compile_python.sh bookworm 3.11 "$root"

# Wheels of NumPy for musllinux_1_2 bring libraries with packed relocations, which musl knows from 1.2.4 on; Debian 12 has 1.2.3.
rm -rf "$root/site"
"$python" -m pip install --quiet --no-compile --target "$root/site" --only-binary=:all: --python-version 3.11 \
  --platform musllinux_1_2_x86_64 --platform musllinux_1_1_x86_64 "numpy<2" pytest hypothesis "$wheel"
inside() { env -u LD_LIBRARY_PATH PYTHONPATH="$root/site" "$root/bin/python3.11" "$@"; }
inside -m openbnns info
inside -m openbnns check
inside -m openbnns train --epochs 2 --no-report --out build/roots/musl-out --force
inside -m pytest -q -p no:cacheprovider -m "not peers" --portion "${PORTION:-1/10}" \
  ${TESTS:-tests/filters/test_contract.py tests/filters/test_contract_cases.py tests/filters/test_values.py tests/filters/test_gradients.py}
