#!/bin/sh
# Compile Debian's source of a Python: tools/roots/compile_python.sh SUITE VERSION FOLDER [OPTION ...]
#
#   tools/roots/compile_python.sh trixie 3.13 build/pythons/3.13t --disable-gil    free-threaded, for `make wheels`
#
# Options are those of Python's configure. Needs apt, a C compiler, make, and the headers of zlib, libffi and, for pip, OpenSSL.
set -eu
suite=$1 version=$2 prefix=$3
shift 3
"$(dirname "$0")/debian_source.sh" "$suite" "python$version" "$prefix/source"
prefix=$(cd "$prefix" && pwd)
cd "$prefix/source"
./configure --quiet --prefix="$prefix" --enable-shared --without-ensurepip --disable-test-modules CFLAGS=-O1 \
  LDFLAGS="-Wl,-rpath,$prefix/lib ${LDFLAGS:-}" "$@" >configure.txt
make --silent -j"$(nproc)" >make.txt
make --silent install >install.txt
rm -r "$prefix/source"
echo "Compiled $("$prefix/bin/python$version" --version) in $prefix"
