#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzz targets with clang under address and undefined-behaviour sanitizers, and runs each for a number of executions
# from one seed, so that a run that found something finds it again. Prints a table of what ran, and one of the lines that were
# reached in each parser (coverage.py).
#
#   tests/fuzz/run.sh [--runs N] [--seconds N] [--seed N] [--report FILE] [--floor N] [--replay] [--keep] [TARGET...]
#
#   --runs N       executions of each target; 20000 by default
#   --seconds N    longest time of a target, which then has fewer executions; 600 by default
#   --seed N       1 by default
#   --report FILE  where the tables go, in Markdown; build/fuzz.md by default
#   --floor N      fails if fewer percent of a parser's lines are reached; 0 by default
#   --replay       only the committed inputs, each once
#   --keep         adds inputs that reach something new to tests/fuzz/corpus, the smallest that do
#   TARGET         names of build/fuzz/fuzz_targets.txt, such as job_file; all by default
#
# Needs the Debian packages clang, libclang-rt-14-dev and llvm. What a target found is build/fuzz/found/TARGET-*; a finding
# becomes a file of tests/fuzz/corpus/TARGET with the fix.
# Exit: 0 nothing found; 1 a finding, or a parser below the floor; 2 usage; 77 no clang.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  sed -n '7,16s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
runs=20000 seconds=600 seed=1 report=build/fuzz.md floor=0 replay=false keep=false chosen=()
while (($# > 0)); do
  case "$1" in
    --runs | --seconds | --seed | --report | --floor)
      (($# > 1)) || usage
      declare "${1#--}=$2"
      shift ;;
    --replay) replay=true ;;
    --keep) keep=true ;;
    -*) usage ;;
    *) chosen+=("$1") ;;
  esac
  shift
done
command -v clang++ >/dev/null && command -v llvm-cov >/dev/null ||
  { echo "fuzz: found no clang++ and llvm-cov; apt-get install clang libclang-rt-14-dev llvm" >&2; exit 77; }

mkdir -p build/fuzz/found build/fuzz/profile "$(dirname "$report")"
cmake --preset fuzz >build/configure-fuzz.log 2>&1 || { cat build/configure-fuzz.log; exit 1; }
table=build/fuzz/fuzz_targets.txt
for name in "${chosen[@]}"; do
  grep -q "^$name|" "$table" || { echo "fuzz: found no target '$name'; $table lists them" >&2; exit 2; }
done
is_chosen() { ((${#chosen[@]} == 0)) || [[ " ${chosen[*]} " == *" $1 "* ]]; }
programs=() names=()
while IFS='|' read -r name command _; do
  if is_chosen "$name"; then names+=("$name") programs+=("${command%% *}"); fi
done <"$table"
cmake --build build/fuzz --target $(printf '%s\n' "${programs[@]}" | sort -u)

export LLVM_PROFILE_FILE ASAN_OPTIONS=detect_leaks=1 LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp
what="Fuzzing, seed $seed" limits=(-runs="$runs" -max_total_time="$seconds")
if $replay; then what="Committed inputs" limits=(-runs=0); fi
cat >"$report" <<EOT
$what, at $(git rev-parse --short HEAD 2>/dev/null || echo "an unknown commit"), $(date -u +%F).

| target | executions | a second | committed inputs | all inputs | found |
|---|---|---|---|---|---|
EOT
found=0 log=$(mktemp)
trap 'rm -f "$log"' EXIT
statistic() { sed -n "s/^stat::$1: *//p" "$log" | tail -1; }
while IFS='|' read -r name command folders parsers handlers; do
  is_chosen "$name" || continue
  read -ra words <<<"$command"
  read -ra inputs <<<"$folders"
  committed=$(find "${inputs[@]}" -maxdepth 1 -type f | wc -l)
  grown=build/fuzz/corpus/$name
  mkdir -p "$grown"
  LLVM_PROFILE_FILE=build/fuzz/profile/$name
  rm -f "$LLVM_PROFILE_FILE" "$LLVM_PROFILE_FILE.lcov"
  $replay || inputs=("$grown" "${inputs[@]}")
  status=0
  "build/fuzz/bin/${words[0]}" "${words[@]:1}" -seed="$seed" "${limits[@]}" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/found/$name-" "${inputs[@]}" >"$log" 2>&1 || status=$?
  verdict=nothing
  if ((status != 0)); then
    found=$((found + 1)) verdict="**see build/fuzz/found/$name-***"
    tail -40 "$log"
  fi
  executions=$(statistic number_of_executed_units) rate=$(statistic average_exec_per_sec)
  all=$((committed + $(find "$grown" -type f | wc -l)))
  echo "| $name | ${executions:--} | ${rate:--} | $committed | $all | $verdict |" | tee -a "$report"
  sources=()
  for source in $parsers $handlers; do sources+=("$PWD/$source"); done
  # Without a profile the program has died.
  if llvm-profdata merge -sparse "$LLVM_PROFILE_FILE" -o "$LLVM_PROFILE_FILE.data" 2>/dev/null; then
    llvm-cov export -format=lcov -instr-profile "$LLVM_PROFILE_FILE.data" "build/fuzz/bin/${words[0]}" "${sources[@]}" \
      >"$LLVM_PROFILE_FILE.lcov"
  fi
  if $keep; then
    LLVM_PROFILE_FILE=/dev/null "build/fuzz/bin/${words[0]}" "${words[@]:1}" -merge=1 tests/fuzz/corpus/"$name" "$grown" >/dev/null 2>&1
  fi
done <"$table"
low=0
echo | tee -a "$report"
tests/fuzz/coverage.py "$floor" "$table" build/fuzz/profile "${names[@]}" | tee -a "$report" || low=1
echo "$report: $found targets found something"
((found == 0 && low == 0))
