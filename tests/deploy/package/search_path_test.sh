#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# No program looks for its libraries in a folder that depends on where it is started: an empty part of a search path, or a
# relative one, is the current folder, and whoever may write there could bring a library of their own.
#
#   search_path_test.sh FOLDER
set -euo pipefail
fail() { echo "$*" >&2; exit 1; }
searched=0
for file in "$1"/*; do
  path=$(readelf -d "$file" 2>/dev/null | sed -n 's/.*R[UN]*PATH).*\[\(.*\)\]$/\1/p' || true)
  [[ -n "$path" ]] || continue
  searched=$((searched + 1))
  while IFS= read -r -d : folder; do
    [[ "$folder" == /* || "$folder" == "\$ORIGIN" || "$folder" == "\$ORIGIN/"* ]] ||
      fail "$file: found the folder '$folder' in its search path $path, expected absolute ones or \$ORIGIN"
  done <<<"$path:"
done
((searched > 0)) || fail "expected files with a search path, found none in $1"
