#!/bin/sh
# Unpack the source of a Debian package, without Debian's changes: tools/roots/debian_source.sh SUITE PACKAGE FOLDER
# From the mirror of this machine or, if it is not one of Debian, from Debian's own. Needs debian-archive-keyring.
set -eu
suite=$1 package=$2
mkdir -p "$3/.apt/lists/partial"
cd "$3"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/$' | head -n 1)
mirror=${mirror:-http://deb.debian.org/debian/}
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >.apt/sources.list
apt="apt-get -qq -o Dir::Etc::SourceList=$PWD/.apt/sources.list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$PWD/.apt/lists"
$apt update
$apt source --download-only "$package"
rm -f ./*.asc # signatures, which apt has checked
tar -xf "$package"_*.orig.tar.* --strip-components 1
