#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes the packages of a build into BUILD/packages, each with its bill of materials (share/stretto/NAME.spdx.json). The same
# programs give the same bytes in any folder, for any user and at any time. `cmake --build BUILD --target packages` calls it.
#
#   make.sh BUILD
#
# SOURCE_DATE_EPOCH and STRETTO_COMMIT in the environment: what provenance.sh says.
set -euo pipefail
[[ $# -eq 1 && -f "$1/share/packages.env" ]] ||
  { sed -n '3,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$1" && pwd)
out=$build/packages
. "$build/share/packages.env"  # CMAKE CPACK ARCHIVE COMPONENTS, by cmake/package.cmake
umask 022
export LC_ALL=C
provenance=$("$here/provenance.sh")
export ${provenance?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

bill() { # NAME FILE ROOT: FILE is a path in ROOT
  "$here/bill/bill_of_materials.py" --materials "$build/share/materials.json" --name "$1" --out "$2" "$3"
}

# cpack knows what is installed, and what the package depends on. Its folders count as long as the file system says, and the
# number of processors decides how it compresses, so the file itself is made here.
finish_deb() { # FILE
  local name tree
  name=$(dpkg-deb --field "$1" Package)
  tree=$work/$name
  dpkg-deb --raw-extract "$1" "$tree"
  bill "$name" "usr/share/stretto/$name.spdx.json" "$tree"
  (cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum >"$work/md5sums")
  cp "$work/md5sums" "$tree/DEBIAN/md5sums"
  # As Debian's policy has it: files in KiB, and one for whatever else.
  local size
  size=$(cd "$tree" && find . -path ./DEBIAN -prune -o -printf '%y %s\n' |
    awk '{sum += $1 == "f" ? int(($2 + 1023) / 1024) : 1} END {print sum}')
  sed -i "s/^Installed-Size: .*/Installed-Size: $size/" "$tree/DEBIAN/control"
  chmod -R u=rwX,go=rX "$tree"
  find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group -Zxz --build "$tree" "$1" >/dev/null
}

rm -f "$out"/*.deb "$out"/*.tar.gz
(cd "$build" && "$CPACK" -G DEB -B "$out" >"$work/cpack.log" 2>&1) || { cat "$work/cpack.log" >&2; exit 1; }
for deb in "$out"/*.deb; do finish_deb "$deb"; done

stage=$work/$ARCHIVE
for component in $COMPONENTS; do
  "$CMAKE" --install "$build" --prefix "$stage" --component "$component" --strip >"$work/install.log" ||
    { cat "$work/install.log" >&2; exit 1; }
done
bill stretto share/stretto/stretto.spdx.json "$stage"
"$here/pack.sh" "$out/$ARCHIVE.tar.gz" "$stage"
(cd "$out" && sha256sum -- *.deb *.tar.gz)
