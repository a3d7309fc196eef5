#!/bin/sh
# Run a command where Swift is: tools/roots/swift.sh FOLDER:... COMMAND [ARGUMENT ...]
#
#   tools/roots/swift.sh "$PWD:/tmp" swiftc -version
#
# If this machine has swiftc, the command runs here. If not, it runs in a root of Debian 13, which has Swift 6.0: the first call
# makes the root (about 2 minutes, 2.6 GB), later ones find it in OPENBNNS_SWIFT_ROOT or in the user's cache. The command sees
# the given folders, and works in the current one, which must be among them. Needs root, debootstrap and, at first, a network;
# `make test-swift` calls it.
set -eu
folders=$1
shift
if command -v swiftc >/dev/null; then exec "$@"; fi
root=${OPENBNNS_SWIFT_ROOT:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/openbnns/swift-trixie}

make_root='
  root=$1
  rm -rf --one-file-system "$root.partial"
  debootstrap --variant=minbase trixie "$root.partial"
  cp /etc/resolv.conf "$root.partial/etc/resolv.conf"
  # Docs are not read here, and nothing has to survive a power failure.
  printf "%s\n" "path-exclude /usr/share/doc/*" force-unsafe-io >"$root.partial/etc/dpkg/dpkg.cfg.d/small-and-quick"
  chroot "$root.partial" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends swiftlang libc6-dev libstdc++-14-dev
  chroot "$root.partial" apt-get clean
  mv "$root.partial" "$root"
'

if [ ! -e "$root" ]; then
  if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
    echo "There is no Swift here. Install it (https://www.swift.org/install), or let this script install Debian's Swift in $root:" \
      "run it as root, on a machine with debootstrap (apt-get install debootstrap)." >&2
    exit 3
  fi
  mkdir -p "$(dirname "$root")"
  exec 9>"$root.lock"
  flock -n 9 || { echo "Another run is making the root of Debian 13 in $root: waiting for it" >&2; flock 9; }
  if [ ! -e "$root" ]; then # nobody else has made it meanwhile
    echo "Making a root of Debian 13 with Swift in $root: about 2 minutes" >&2
    # A shell of its own: in a condition, sh would go on after an error. Its mounts are its own, too, so that a run which is
    # killed leaves none behind, and the next one can remove what it has made. It holds the lock for as long as it lives.
    set +e
    unshare --mount sh -euc "$make_root" sh "$root" >"$root.log" 2>&1
    status=$?
    set -e
    if [ "$status" != 0 ]; then
      tail -n 20 "$root.log" >&2
      echo "The root could not be made; the whole story is in $root.log." >&2
      exit 3
    fi
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
