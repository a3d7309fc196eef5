#!/bin/sh
# The wheel for Python 3.11 that `make wheels TARGET=...` has made, or what to do: tools/roots/wheel.sh TARGET PLATFORM
set -eu
cd "$(dirname "$0")/../.."
set -- "$1" dist/wheels/openbnns-*-cp311-cp311-$2*_"${1%%-*}".whl
target=$1
shift
if [ $# -ne 1 ] || [ ! -e "$1" ]; then
  echo "dist/wheels must have one wheel for Python 3.11 on $target: rm -rf dist/wheels, then make wheels TARGET=$target" >&2
  exit 1
fi
echo "$1"
