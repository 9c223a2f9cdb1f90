#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the checks of this bundle on this machine: what it needs, the GPUs, and every test that is packed. Exits 1 when one
# fails. What cannot run here is skipped, with the reason.
#
#   run.sh [--help] [--sanitize] [GTEST FLAGS...]
#
# --sanitize: every test again under compute-sanitizer's memcheck, and tests of kernels under its racecheck; slow.
# STRETTO_COMPUTE_SANITIZER: that program (default: compute-sanitizer on PATH).
# CUDA's libraries (cuBLASLt, cuDNN, NCCL) are found where the system's loader, CUDA's installation or a Python's wheels have
# them. STRETTO_CUDA_LIBRARIES: folders, separated by colons, to look in first. STRETTO_PEER_PYTHON: the Python (python3).
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [[ "${1:-}" == --help || "${1:-}" == -h ]]; then
  sed -n '3,11s/^# \{0,1\}//p' "$0"
  sed 's/^/needs /' "$here/needs.txt"
  exit 0
fi

sanitize=false
if [[ "${1:-}" == --sanitize ]]; then
  sanitize=true
  shift
fi

passed=0 failed=0 skipped=0
report() {  # report RESULT NAME REASON
  echo "$1: $2${3:+: $3}"
  case "$1" in
    passed) passed=$((passed + 1)) ;;
    failed) failed=$((failed + 1)) ;;
    skipped) skipped=$((skipped + 1)) ;;
  esac
}

read -r _ needed <<<"$(grep '^glibc' "$here/needs.txt")"
found=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
echo "glibc $found, needed $needed; NVIDIA driver $(cat /sys/module/nvidia/version 2>/dev/null || echo none), needed $(sed -n 's/^driver //p' "$here/needs.txt")"
if [[ "$(printf '%s\n%s\n' "$needed" "$found" | sort -V | head -1)" != "$needed" ]]; then
  echo "failed: found glibc $found, expected at least $needed" >&2
  exit 1
fi

[[ ! -d "$here/golden" ]] || export STRETTO_GOLDEN="$here/golden"
# Tests are linked to CUDA's libraries; stretto-bench opens them itself.
. "$here/cuda_libraries.sh"
STRETTO_CUDA_LIBRARIES=$(cuda_libraries "$here/bin/libstretto_cuda.so" "${STRETTO_PEER_PYTHON:-python3}")
export STRETTO_CUDA_LIBRARIES LD_LIBRARY_PATH="$STRETTO_CUDA_LIBRARIES${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
if devices=$("$here/bin/stretto-bench" devices 2>&1); then
  echo "$devices"
  report passed devices ""
else
  report skipped devices "$devices"
fi

check() {  # check NAME COMMAND...
  local name=$1 log
  shift
  log=$(mktemp)
  "$@" 2>&1 | tee "$log"
  case ${PIPESTATUS[0]} in
    0) report passed "$name" "" ;;
    77) report skipped "$name" "$(sed -n 's/^skipped: //p' "$log" | tail -1)" ;;
    *) report failed "$name" "" ;;
  esac
  rm -f "$log"
}

shopt -s nullglob
tests=()
for test in "$here"/bin/*_test; do
  name=$(basename "$test")
  missing=$(ldd "$test" 2>/dev/null | awk '/not found/ {printf "%s ", $1}')
  if [[ -n "$missing" ]]; then
    report skipped "$name" "missing ${missing% }; STRETTO_CUDA_LIBRARIES names folders to look in"
    continue
  fi
  tests+=("$test")
  check "$name" "$test" --gtest_brief=1 "$@"
done

# An exit code of their own tells the sanitizer's findings from a test's.
sanitizer=${STRETTO_COMPUTE_SANITIZER:-compute-sanitizer}
sanitized() {  # sanitized TOOL TEST...
  check "$1 $(basename "$2")" "$sanitizer" --tool "$1" --error-exitcode 99 "${@:2}" --gtest_brief=1
}
if $sanitize; then
  # Some machines, of clouds above all, do not let it in: asked with the smallest program that uses a GPU.
  if ! command -v "$sanitizer" >/dev/null; then
    report skipped compute-sanitizer "no $sanitizer on this machine; STRETTO_COMPUTE_SANITIZER names it"
  elif ! probe=$("$sanitizer" --tool memcheck --error-exitcode 99 "$here/bin/stretto-bench" devices 2>&1); then
    report skipped compute-sanitizer "it cannot watch a program here: $(tail -1 <<<"$probe")"
  else
    for test in "${tests[@]}"; do
      sanitized memcheck "$test" "$@"
      [[ "$(basename "$test")" != kernels* ]] || sanitized racecheck "$test" "$@"
    done
  fi
fi
echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 ]]
