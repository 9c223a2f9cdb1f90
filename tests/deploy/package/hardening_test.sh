#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every file that is built has what makes a memory fault harder to use: addresses that differ from run to run, relocations
# that are read-only once it runs, no executable stack, and checks of the stack. Programs also have bounded copies.
#
#   hardening_test.sh FOLDER
set -euo pipefail
fail() { echo "$*" >&2; exit 1; }
looked=0
for file in "$1"/*; do
  header=$(readelf -hlWd "$file" 2>/dev/null) || continue
  looked=$((looked + 1))
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
  [[ "$(basename "$file")" != stretto* ]] || grep -qE ' __[a-z_]+_chk(@|$)' <<<"$symbols" ||
    fail "$file: found no bounded copy, expected calls such as __memcpy_chk"
done
((looked > 0)) || fail "expected programs, found none in $1"
