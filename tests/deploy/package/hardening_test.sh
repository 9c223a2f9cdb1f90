#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every file that is built has what makes a memory fault harder to use: addresses that differ from run to run, relocations
# that are read-only once it runs, no executable stack, and checks of the stack. What is shipped also has bounded copies.
# No file looks for libraries in the current folder.
#
#   hardening_test.sh FOLDER                      every program and library in it
#   hardening_test.sh --packages PACKAGES BUILD   those of ours in the packages, which must be all that the build has for them
set -euo pipefail
fail() { echo "$*" >&2; exit 1; }

hardened() { # FILE
  local file=$1 header symbols path folder
  header=$(readelf -hlWd "$file" 2>/dev/null)
  expect() { # NAME PATTERN
    grep -qE "$2" <<<"$header" || fail "$file: found no $1, expected one (readelf -hlWd)"
  }
  expect "position-independent code" '^ *Type: +DYN'
  expect "read-only relocations" '^ *GNU_RELRO'
  expect "binding of all symbols at start" 'FLAGS_1\).* NOW'
  expect "stack without the right to execute" '^ *GNU_STACK.* RW '
  ! grep -q TEXTREL <<<"$header" || fail "$file: found relocations of code, expected none"
  symbols=$(readelf -W --dyn-syms "$file")
  grep -q __stack_chk_fail <<<"$symbols" || fail "$file: found no check of the stack, expected calls of __stack_chk_fail"
  case "$(basename "$file")" in
    stretto* | libstretto*)
      grep -qE ' __[a-z_]+_chk(@|$)' <<<"$symbols" || fail "$file: found no bounded copy, expected calls such as __memcpy_chk" ;;
  esac
  path=$(sed -n 's/.*R[UN]*PATH).*\[\(.*\)\]$/\1/p' <<<"$header")
  [[ -n "$path" ]] || return 0
  while IFS= read -r -d : folder; do
    [[ "$folder" == /* || "$folder" == "\$ORIGIN" || "$folder" == "\$ORIGIN/"* ]] ||
      fail "$file: found the folder '$folder' in its search path $path, expected absolute ones or \$ORIGIN"
  done <<<"$path:"
}

is_elf() { [[ "$(od -An -tx1 -N4 "$1")" == " 7f 45 4c 46" ]]; }

if [[ "$1" != --packages ]]; then
  looked=0
  for file in "$1"/*; do
    [[ -f "$file" ]] && is_elf "$file" || continue
    looked=$((looked + 1))
    hardened "$file"
  done
  ((looked > 0)) || fail "expected programs, found none in $1"
  exit 0
fi

packages=$2 build=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ours=$(python3 -c 'import json, sys; print("\n".join(sorted(json.load(open(sys.argv[1]))["targets"])))' "$build/share/materials.json")
mkdir "$work/deb" "$work/tgz"
for file in "$packages"/*.deb; do dpkg-deb -x "$file" "$work/deb"; done
for file in "$packages"/*.tar.gz; do tar -C "$work/tgz" -xf "$file"; done
for kind in deb tgz; do
  found=()
  while IFS= read -r -d '' file; do
    is_elf "$file" || continue
    if grep -qxF "$(basename "$file")" <<<"$ours"; then
      found+=("$(basename "$file")")
      hardened "$file"
    elif [[ "$kind" == deb || "$file" != "$work"/tgz/*/lib/lib*.so* ]]; then
      fail "$file: found a program that the build does not have for packages, expected one of: $(xargs <<<"$ours")"
    fi
  done < <(find "$work/$kind" -type f -print0)
  [[ "$(printf '%s\n' "${found[@]}" | sort)" == "$ours" ]] || fail "$kind: found ${found[*]}, expected $(xargs <<<"$ours")"
done
