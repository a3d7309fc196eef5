#!/bin/sh
# Unpack Debian's packages of a Python and its C library, and make it run here: tools/roots/unpack_python.sh SUITE VERSION FOLDER
#
#   tools/roots/unpack_python.sh sid 3.14 build/pythons/3.14      for `make wheels`
#
# Needs debootstrap and a network. C programs of this machine cannot start such a Python, because their C library is older.
set -eu
suite=$1 version=$2
mkdir -p "$3"
root=$(cd "$3" && pwd)
debootstrap --foreign --variant=minbase --include="python$version-dev,python$version-venv,libpython$version" "$suite" "$root"
for package in "$root"/var/cache/apt/archives/*.deb; do dpkg -x "$package" "$root"; done
rm -r "$root/var/cache/apt/archives"
mv "$root/usr/bin/python$version" "$root/usr/bin/unpacked-python$version"
cat >"$root/usr/bin/python$version" <<END
#!/bin/sh
exec $root/lib64/ld-linux-x86-64.so.2 --library-path $root/usr/lib/x86_64-linux-gnu --argv0 "\$0" \\
  $root/usr/bin/unpacked-python$version "\$@"
END
chmod +x "$root/usr/bin/python$version"
# Headers where this Python looks for them, without those of its C library beside them.
mv "$root/usr/include/x86_64-linux-gnu/python$version/pyconfig.h" "$root/usr/include/python$version/pyconfig.h"
ln -s usr/include "$root/include"
echo "Unpacked $("$root/bin/python$version" --version) in $root"
