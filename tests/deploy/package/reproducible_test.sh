#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two builds give the same packages, byte by byte.
#
#   reproducible_test.sh SOURCE BUILD             packs the programs of BUILD again: in other folders of other names, for
#                                                 another user where root runs this, with another umask, time zone and
#                                                 language, from files of another date. BUILD/packages is the first packing.
#   reproducible_test.sh --compile SOURCE BUILD   compiles everything twice, in two folders (STRETTO_REPRODUCIBLE), without
#                                                 the plug-in, where nvcc makes names of the sources' paths
#
# Debian packages, the archive, the wheel of the Python client and a bundle of one program.
set -euo pipefail
compile=false
if [[ "$1" == --compile ]]; then compile=true; shift; fi
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
fail() { echo "$*" >&2; exit 1; }
provenance=$("$source/deploy/package/provenance.sh")
export ${provenance?}

copy_source() { # FOLDER: without what git does not have, as far as names tell
  local entry
  mkdir -p "$1"
  for entry in "$source"/*; do
    [[ "$(basename "$entry")" == build ]] || cp -r "$entry" "$1/"
  done
  find "$1" -exec touch -h -d '2001-02-03 04:05:06' {} +
}
# As BUILD is configured.
options=(-G Ninja -D CMAKE_BUILD_TYPE=Release -D STRETTO_TESTS=OFF)
while IFS= read -r option; do options+=(-D "$option"); done \
  < <(grep -E '^(STRETTO_(CUDA|CUDA_ARCHITECTURES|CPU_ARCH|UNITY|REPRODUCIBLE|BUNDLE_CUDA_LIBRARIES)|CMAKE_C(XX)?_COMPILER):' "$build/CMakeCache.txt")
configure() { # SOURCE BUILD OPTIONS...
  cmake -S "$1" -B "$2" "${options[@]}" "${@:3}" >"$work/configure.log" 2>&1 || fail "$(tail -20 "$work/configure.log")"
}

as=()  # for whom the second packing is
own() { :; }
if [[ $EUID -eq 0 ]]; then
  own() { chown -R 65534:65534 "$1"; }
  as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
fi
elsewhere() { # COMMAND...
  (umask 077 && cd / && "${as[@]}" env PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin TZ=Pacific/Kiritimati LC_ALL=C.UTF-8 \
    HOME="$work/home" TMPDIR="$work/tmp" "$@") >"$work/elsewhere.log" 2>&1 || fail "$(tail -20 "$work/elsewhere.log")"
}
same() { # ONE OTHER
  [[ -f "$2" ]] || fail "found no $2, expected a second packing of $1"
  cmp -s "$1" "$2" && { echo "same bytes: $(sha256sum <"$1" | cut -c1-16) $(basename "$1")"; return; }
  mkdir -p "$work/differ"/{1,2}
  local side=1 file
  for file in "$1" "$2"; do
    case "$file" in
      *.deb) dpkg-deb --fsys-tarfile "$file" | tar -tvf - >"$work/differ/$side/files"; dpkg-deb --raw-extract "$file" "$work/differ/$side/all" ;;
      *.whl) python3 -m zipfile -l "$file" >"$work/differ/$side/files"; python3 -m zipfile -e "$file" "$work/differ/$side/all" ;;
      *) tar -tvf "$file" >"$work/differ/$side/files"; mkdir "$work/differ/$side/all"; tar -C "$work/differ/$side/all" -xf "$file" ;;
    esac
    side=2
  done
  diff -r "$work"/differ/{1,2} | head -20 >&2 || true
  fail "$(basename "$1"): found other bytes in the second packing, expected the same"
}
all_same() { # PACKAGES OTHERS
  local names
  names=$(cd "$1" && ls -- *.deb *.tar.gz)
  [[ "$names" == "$(cd "$2" && ls -- *.deb *.tar.gz)" ]] || fail "found $(ls "$2"), expected $names"
  while IFS= read -r name; do same "$1/$name" "$2/$name"; done <<<"$names"
}

mkdir "$work/home" "$work/tmp"
own "$work/home"
own "$work/tmp"
if $compile; then
  for tree in "$work/one" "$work/another/of/a/longer/name"; do
    (umask 022 && copy_source "$tree")
    configure "$tree" "$tree/build" -D STRETTO_REPRODUCIBLE=ON -D STRETTO_CUDA=OFF
    cmake --build "$tree/build" --target packages >"$work/build.log" 2>&1 || fail "$(tail -20 "$work/build.log")"
  done
  all_same "$work/one/build/packages" "$work/another/of/a/longer/name/build/packages"
  ! grep -rlaF "$work" "$work/one/build/bin" || fail "found the name of the build's folder in the programs above, expected none"
  exit 0
fi

other=$work/else/where
(umask 077 && copy_source "$other")
configure "$other" "$work/other-build"
mkdir -p "$work/other-build/bin"
while IFS= read -r name; do cp "$build/bin/$name" "$work/other-build/bin/"; done \
  < <(python3 -c 'import json, sys; print("\n".join(json.load(open(sys.argv[1]))["targets"]))' "$build/share/materials.json")
cp -r "$build"/share/{man,completions,materials.json} "$work/other-build/share/"
chmod 755 "$work/else"
own "$work/else"
own "$work/other-build"
elsewhere "$other/deploy/package/make.sh" "$work/other-build"
all_same "$build/packages" "$work/other-build/packages"

wheel() { # RUN SOURCE OUT
  mkdir "$3"
  own "$3"
  "$1" /usr/bin/python3 -m pip --isolated wheel -q --no-build-isolation --no-deps --no-index -w "$3" "$2/deploy/python"
}
here() { (umask 022 && "$@") >"$work/here.log" 2>&1 || fail "$(tail -20 "$work/here.log")"; }
wheel here "$source" "$work/wheel"
wheel elsewhere "$other" "$work/other-wheel"
one=("$work"/wheel/*.whl)
same "${one[0]}" "$work/other-wheel/$(basename "${one[0]}")"

bundle() { # RUN SOURCE BUILD OUT
  mkdir "$4"
  own "$4"
  "$1" "$2/deploy/bundle/make.sh" --materials "$3/share/materials.json" "$4/stretto-bundle.tar.gz" "$3/bin/stretto-bench"
}
bundle here "$source" "$build" "$work/bundle"
bundle elsewhere "$other" "$work/other-build" "$work/other-bundle"
same "$work"/{,other-}bundle/stretto-bundle.tar.gz
