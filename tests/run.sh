#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, and runs every test. The last line is "N passed, M failed, K skipped".
#
#   tests/run.sh [--fast] [--full] [--sanitizers]
#   tests/run.sh --lint
#
#   --fast        without the tests labelled slow
#   --full        also parity of every combination of schedule, layout and model (3,456 cases), the tables of faults
#                 and of attacks, 20,000 executions of each fuzz target, the page in a browser, the container images,
#                 and the Kubernetes manifests on a real API server
#   --sanitizers  also the unit tests under address, undefined-behaviour and thread sanitizers
#   --lint        instead of the tests: the tidy rules, every source through clang with -Wthread-safety -Werror, and the
#                 products through clang-tidy (.clang-tidy)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

select=()
sanitizers=false
lint=false
full=OFF
for argument in "$@"; do
  case "$argument" in
    --fast) select=(-LE slow) ;;
    --full) full=ON ;;
    --sanitizers) sanitizers=true ;;
    --lint) lint=true ;;
    *) sed -n '3,15s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done

# clang-tidy is clang without code generation: it reports what the compiler would, so nothing is compiled but what makes sources
# and headers, messages for example. The tests are not tidied. nvcc's sources are none of clang's.
run_lint() {
  deploy/install_packages.sh --with-tests --with-lint
  mkdir -p build
  cmake --preset lint -DSTRETTO_TESTS=ON >build/configure-lint.log 2>&1 || { cat build/configure-lint.log; exit 1; }
  cmake --build --preset lint || exit 1
  local failed=false
  ctest --test-dir build/lint -R '^tidy\.' --output-on-failure --no-tests=error || failed=true
  run-clang-tidy -p build/lint -quiet "^$PWD/(build/lint/)?(proto|kernels|worker|coordinator)/.*\.(cc|cxx)$" || failed=true
  # clang-tidy refuses to run without a check, and a diagnostic of the compiler is none.
  run-clang-tidy -p build/lint -quiet -checks='-*,clang-diagnostic-*,misc-unused-using-decls' \
    "^$PWD/(build/lint/)?tests/.*\.(cc|cxx)$" || failed=true
  ! $failed
}
if $lint; then
  run_lint && echo "lint passed" || { echo "lint failed" >&2; exit 1; }
  exit 0
fi

if [[ $full == ON ]]; then
  deploy/install_packages.sh --with-tests --with-full-tests
else
  deploy/install_packages.sh --with-tests
fi
# With CUDA attention by cuDNN is compiled and tested too. Its headers come from the network, without which the build does not
# have it, and its test is skipped.
if command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then
  timeout 300 deploy/install_packages.sh --with-cuda ||
    echo "cannot fetch the headers of cuDNN's frontend (exit code $?): attention by cuDNN is not tested" >&2
fi

passed=0 failed=0 skipped=0 status=0 architectures=()
# run_preset PRESET CTEST_ARGS...: builds and tests one preset and adds to the totals.
run_preset() {
  local preset=$1 junit="build/$1/junit.xml"
  shift
  cmake --preset "$preset" -DSTRETTO_TESTS=ON -DSTRETTO_FULL_MATRIX="$full" "${architectures[@]}" >"build/configure-$preset.log" 2>&1 || { cat "build/configure-$preset.log"; exit 1; }
  cmake --build --preset "$preset"
  rm -f "$junit"
  ctest --preset "$preset" -j "$(nproc)" --output-junit "$PWD/$junit" --no-tests=error "$@" || status=$?
  [[ -f "$junit" ]] || { echo "ctest wrote no $junit" >&2; exit 1; }
  count() { grep -o "<testsuite[^>]*" -z "$junit" | tr '\0' ' ' | grep -o "$1=\"[0-9]*\"" | head -1 | tr -dc 0-9; }
  local tests fails skips disabled
  tests=$(count tests) fails=$(count failures) skips=$(count skipped) disabled=$(count disabled)
  passed=$((passed + tests - fails - skips - disabled)) failed=$((failed + fails)) skipped=$((skipped + skips + disabled))
}

# A plug-in for one kind of GPU takes half the time to compile. A build that somebody may install is for all.
if [[ ${CI:-} == true && $full == OFF ]]; then
  architectures=(-DSTRETTO_CUDA_ARCHITECTURES=90a)
fi
mkdir -p build
run_preset release "${select[@]}"
if $sanitizers; then
  run_preset dev
  run_preset tsan
fi
echo "$passed passed, $failed failed, $skipped skipped"
exit "$status"
