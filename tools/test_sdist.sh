#!/bin/sh
# Build and try the source archive in an environment of its own: tools/test_sdist.sh PYTHON [REQUIREMENT of NumPy]
#
# The archive has every file of the project, and building needs nothing but the archive and the packages that it names.
set -eu
rm -rf build/sdist
mkdir -p build/sdist
tar -xzf dist/sdist/openbnns-*.tar.gz -C build/sdist --strip-components 1
git ls-files ':!.ci' | (cd build/sdist && xargs ls >/dev/null)
$1 -m venv build/sdist/.venv
bin=build/sdist/.venv/bin
"$bin/python" build/sdist/tools/install.py run build ${2:+"$2"}
"$bin/python" -m pip install --no-index --no-build-isolation --no-deps -C cmake.define.OPENBNNS_ISAS=native ./build/sdist
"$bin/openbnns" check
