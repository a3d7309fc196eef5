#!/bin/sh
# Run a command where Swift is: tools/roots/swift.sh FOLDER:... COMMAND [ARGUMENT ...]
#
#   tools/roots/swift.sh "$PWD:/tmp" swiftc -version
#
# If this machine has swiftc, the command runs here. If not, it runs in a root of Debian 13, which has Swift 6.0: the first call
# makes the root (about 5 minutes, 2.7 GB), later ones find it in ROOT or in the user's cache. The command sees the given folders,
# and works in the current one, which must be among them. Needs root, debootstrap and, at first, a network; `make test-swift` calls it.
set -eu
folders=$1
shift
if command -v swiftc >/dev/null; then exec "$@"; fi
root=${ROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/openbnns/swift-trixie}

if [ ! -e "$root/.complete" ]; then
  if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
    echo "There is no Swift here. Install it (https://www.swift.org/install), or let this script install Debian's Swift in $root:" \
      "run it as root, on a machine with debootstrap (apt-get install debootstrap)." >&2
    exit 3
  fi
  mkdir -p "$root"
  exec 9>"$root.lock"
  flock 9
  if [ ! -e "$root/.complete" ]; then
    echo "Making a root of Debian 13 with Swift in $root: about 5 minutes" >&2
    rm -rf "$root"
    {
      debootstrap --variant=minbase trixie "$root"
      cp /etc/resolv.conf "$root/etc/resolv.conf"
      # Docs are not read here, and nothing has to survive a power failure.
      echo "path-exclude /usr/share/doc/*" >"$root/etc/dpkg/dpkg.cfg.d/without-docs"
      echo force-unsafe-io >>"$root/etc/dpkg/dpkg.cfg.d/without-docs"
      chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends swiftlang libc6-dev libstdc++-14-dev
      chroot "$root" apt-get clean
      touch "$root/.complete"
    } >"$root.log" 2>&1 || {
      tail -n 20 "$root.log" >&2
      exit 3
    }
  fi
  exec 9>&-
fi

# The mounts are those of this process, and vanish with it. swiftc finds its library through /proc.
exec unshare --mount sh -euc '
  root=$1 folders=$2 here=$PWD
  shift 2
  mount -t proc proc "$root/proc"
  mount --bind /dev "$root/dev"
  IFS=:
  for folder in $folders; do
    mkdir -p "$root$folder"
    mount --rbind "$folder" "$root$folder"
  done
  exec chroot "$root" env -C "$here" "$@"
' sh "$root" "$folders" "$@"
