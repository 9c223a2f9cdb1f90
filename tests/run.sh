#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test. The last line is "N passed, M failed, K skipped".
#
#   tests/run.sh [--fast] [--full] [--sanitizers]
#
#   --fast        without the tests labelled slow
#   --full        also parity of every combination of schedule, layout and model (3,024 cases)
#   --sanitizers  also the unit tests under address, undefined-behaviour and thread sanitizers
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

select=()
sanitizers=false
full=OFF
for argument in "$@"; do
  case "$argument" in
    --fast) select=(-LE slow) ;;
    --full) full=ON ;;
    --sanitizers) sanitizers=true ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done

deploy/install_packages.sh --with-tests

passed=0 failed=0 skipped=0 status=0
# run_preset PRESET CTEST_ARGS...: builds and tests one preset and adds to the totals.
run_preset() {
  local preset=$1 junit="build/$1/junit.xml"
  shift
  cmake --preset "$preset" -DSTRETTO_TESTS=ON -DSTRETTO_FULL_MATRIX="$full" >"build/configure-$preset.log" 2>&1 || { cat "build/configure-$preset.log"; exit 1; }
  cmake --build --preset "$preset"
  rm -f "$junit"
  ctest --preset "$preset" -j "$(nproc)" --output-junit "$PWD/$junit" --no-tests=error "$@" || status=$?
  [[ -f "$junit" ]] || { echo "ctest wrote no $junit" >&2; exit 1; }
  count() { grep -o "<testsuite[^>]*" -z "$junit" | tr '\0' ' ' | grep -o "$1=\"[0-9]*\"" | head -1 | tr -dc 0-9; }
  local tests fails skips disabled
  tests=$(count tests) fails=$(count failures) skips=$(count skipped) disabled=$(count disabled)
  passed=$((passed + tests - fails - skips - disabled)) failed=$((failed + fails)) skipped=$((skipped + skips + disabled))
}

mkdir -p build
run_preset release "${select[@]}"
if $sanitizers; then
  run_preset dev
  run_preset tsan
fi
echo "$passed passed, $failed failed, $skipped skipped"
exit "$status"
