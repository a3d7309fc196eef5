#!/bin/sh
# Test a Python of another Debian in a root of it, with its own C library and compilers, which C programs need:
#
#   tools/roots/unpack_python.sh sid 3.14 build/pythons/3.14
#   make test-pythons PYTHONS="--compile --numpy oldest --pythons build/pythons/3.14/bin/python3.14"
#   tools/roots/test_in_root.sh sid 3.14 oldest tests/c/test_*.py
#
# The environment of `make test-pythons` is copied. Needs root, debootstrap and a network.
set -eu
suite=$1 version=$2 numpy=$3
shift 3
cd "$(dirname "$0")/../.."
project=$PWD root=$PWD/build/roots/$suite
made=$project/build/pythons/environments/$version-$numpy own=$project/build/pythons/environments/$version-$numpy-$suite

if [ ! -e "$root/.complete" ]; then
  debootstrap --variant=minbase \
    --include="python$version-dev,python$version-venv,libpython$version,gcc,g++,make,cmake,pkg-config" "$suite" "$root"
  touch "$root/.complete"
fi
mkdir -p "$root$project"
unshare --mount sh -eu -s "$@" <<END
mount --bind "$project" "$root$project"
mount --bind /dev "$root/dev"
mount -t proc proc "$root/proc"
chroot "$root" "python$version" -m venv --without-pip --clear "$own"
cp -a "$made/lib/python$version/site-packages/." "$own/lib/python$version/site-packages/"
cp -a --no-clobber "$made/bin/." "$own/bin/"
grep -lIs "$made/" "$own"/bin/* | xargs -r sed -i "s|$made/|$own/|g"
chroot "$root" env -C "$project" "$own/bin/python" -m pytest -q -p no:cacheprovider -n 2 -m "not peers" "\$@"
END
