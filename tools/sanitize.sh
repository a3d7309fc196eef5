#!/bin/sh
# Tests on a build with sanitizers, in an environment that has what tests need:
#
#   tools/sanitize.sh address FOLDER WORKERS    AddressSanitizer and UndefinedBehaviorSanitizer, about an hour
#   tools/sanitize.sh thread FOLDER             ThreadSanitizer: the threads and forks of the C library
#
# FOLDER is the virtual environment; the package in it is replaced. With AddressSanitizer run: the C++ tests of the kernels,
# random calls of the families that fuzzing knows, hostile calls of the C library, the programs that are hard on it, and the
# tests that hand odd memory to kernels, all on the best instruction set of this CPU, and what depends on kernels on AVX2 as
# well. The whole suite would take hours. A small quarantine: one of the tests watches the memory in use. PYTHONMALLOC: Python's
# own blocks are watched, too.
set -eu
kind=$1 python=$2/bin/python workers=${3:-2}
PATH=$2/bin:$PATH

"$python" tools/install.py run build
"$python" -m pip install --quiet --force-reinstall --no-deps --no-build-isolation \
  --config-settings=cmake.define.OPENBNNS_SANITIZE="$kind" \
  --config-settings=cmake.define.OPENBNNS_CORE_TESTS="$([ "$kind" = address ] && echo ON || echo OFF)" \
  --config-settings=install.strip=false --config-settings=build-dir="build/sanitize-$kind" .

if [ "$kind" = thread ]; then
  OPENBNNS_ENGINE=reference exec "$python" tests/races.py
fi

sanitized() {
  env LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" PYTHONMALLOC=malloc \
    ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=1:allocator_may_return_null=1 \
    UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 "$python" "$@"
}

on_kernels() {
  for name in axis_activations buffers contract attention fused lstm loss normalization pooling; do
    ls tests/filters/test_"$name"*.py tests/runtime/test_"$name"*.py 2>/dev/null | grep -v _vs_torch || true
  done
}

ctest --test-dir build/sanitize-address --output-on-failure -j "$workers"
sanitized tests/fuzz.py --seconds 300
sanitized tests/fuzz_c.py --calls 100000
# shellcheck disable=SC2046
sanitized -m pytest -q -n "$workers" -p no:cacheprovider -m "not peers" \
  $(on_kernels) tests/graph/test_pooled.py tests/runtime/test_threads.py tests/filters/test_errors*.py \
  tests/layers/test_misuse*.py tests/layers/test_known_calls*.py tests/c/test_clib_*.py
export OPENBNNS_ISA=avx2
sanitized tests/fuzz.py --seconds 150
sanitized tests/fuzz_c.py --calls 20000
# shellcheck disable=SC2046
sanitized -m pytest -q -n "$workers" -p no:cacheprovider -m "not peers" $(on_kernels)
