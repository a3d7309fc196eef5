#!/bin/sh
# Install a program that a test needs, as root, or say how to get it: tools/need.sh chromium|swift
set -eu

can_install() { [ "$(id -u)" = 0 ] && apt-get update -qq && apt-get install -qq -y --no-install-recommends "$1"; }

any() { for program; do if command -v "$program" >/dev/null; then return 0; fi; done; return 1; }

case $1 in
  chromium)
    any "${OPENBNNS_CHROMIUM:-chromium}" chromium-browser google-chrome || can_install chromium ||
      { echo "This needs Chromium: apt-get install chromium, or set OPENBNNS_CHROMIUM to its path" >&2; exit 1; } ;;
  swift)
    any swiftc debootstrap || can_install debootstrap ||
      { echo "This needs Swift 6.0 or newer (https://www.swift.org/install) or, as root, debootstrap. All else works without it." >&2
        exit 1; } ;;
  *) echo "tools/need.sh chromium|swift" >&2; exit 2 ;;
esac
