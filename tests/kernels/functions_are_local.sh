#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The AVX-512 objects define no function that other objects might define too: the linker keeps one
# copy of those, and a CPU without AVX-512 could not run it.
#
#   functions_are_local.sh NM OBJECT...
set -uo pipefail
defined=$("$1" -C --defined-only "${@:2}" | grep -E ' [TWiu] ')
grep -q avx512::CpuOps <<<"$defined" || { echo "no operations in $*"; exit 1; }
shared=$(grep -v avx512:: <<<"$defined")
[[ -z "$shared" ]] || { echo "shared functions:"; echo "$shared"; exit 1; }
