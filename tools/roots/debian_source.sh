#!/bin/sh
# Unpack the source of a Debian package, without Debian's changes: tools/roots/debian_source.sh SUITE PACKAGE FOLDER
set -eu
suite=$1 package=$2
mkdir -p "$3/.apt/lists/partial"
cd "$3"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/$' | head -n 1)
echo "deb-src $mirror $suite main" >.apt/sources.list
apt="apt-get -qq -o Dir::Etc::SourceList=$PWD/.apt/sources.list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$PWD/.apt/lists"
$apt update
$apt source --download-only "$package"
rm -f ./*.asc # signatures, which apt has checked
tar -xf "$package"_*.orig.tar.* --strip-components 1
