#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Breaks a cluster of real processes on purpose, one fault after the other, and writes a table: what was expected, when it
# was seen, when the job trained again, and what was lost (docs/TESTING.md).
#
#   tests/integration/faults.sh [--report FILE] [--rows PATTERN] [--list]
#   tests/integration/faults.sh --storm [--seconds N] [--seed N] [--report FILE]
#
#   --report FILE   where the table goes, in Markdown; build/faults.md by default
#   --rows PATTERN  only these rows, as --gtest_filter has them: '*Hangs*:ScaleTest.*'
#   --list          prints the rows
#   --storm         instead of the rows a fault every few seconds, for --seconds (600), drawn from --seed (1)
#
# The programs are those of build/release: cmake --preset release && cmake --build --preset release --target faults_test
# Some rows need root, for namespaces of their own; the table says why a row was skipped.
# Exit: 0 every row held or was skipped; 1 one was missed; 2 usage, or no row to run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  sed -n '6,13s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
report=build/faults.md rows='*-StormTest.*' list=false seconds=600 seed=1
while (($# > 0)); do
  case "$1" in
    --report | --rows | --seconds | --seed)
      (($# > 1)) || usage
      declare "${1#--}=$2"
      shift ;;
    --storm) rows='StormTest.*' ;;
    --list) list=true ;;
    *) usage ;;
  esac
  shift
done
program=build/release/bin/faults_test
[[ -x $program ]] || { echo "faults.sh: found no $program; build it first, as the head of this script says" >&2; exit 2; }

# Suite.Test, one a line.
list_rows() {
  "$program" --gtest_list_tests --gtest_filter="$rows" |
    awk '/^[^ ].*\.$/ {suite = $1} /^  / {print suite $1}'
}
all=$(list_rows) || { echo "faults.sh: $program --gtest_list_tests failed, expected a list of rows" >&2; exit 2; }
[[ -n $all ]] || { echo "faults.sh: found no row that matches '$rows', expected at least one; --list prints all" >&2; exit 2; }
if $list; then
  echo "$all"
  exit 0
fi

mkdir -p "$(dirname "$report")"
cat >"$report" <<EOF
Faults on real processes at $(git rev-parse --short HEAD 2>/dev/null || echo "an unknown commit"), $(date -u +%F), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg) at the start.

| fault | expected | seen after (s) | training again after (s) | steps lost | verdict |
|---|---|---|---|---|---|
EOF
export STRETTO_FAULTS_REPORT=$PWD/$report STRETTO_STORM_SECONDS=$seconds STRETTO_STORM_SEED=$seed
[[ $report != /* ]] || STRETTO_FAULTS_REPORT=$report
missed=0 log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A process of its own for each row, because namespaces are those of a process.
while read -r row; do
  echo "$row"
  before=$(wc -l <"$report")
  if ! timeout $((900 + seconds)) "$program" --gtest_filter="$row" >"$log" 2>&1 </dev/null; then
    missed=$((missed + 1))
    sed 's/^/  /' "$log" | tail -60
  else
    grep -vE '^(\[|Note:|Running main)|^$' "$log" || true
  fi
  (($(wc -l <"$report") > before)) || echo "| $row | - | - | - | - | **missed**: it ended without a verdict |" >>"$report"
done <<<"$all"
echo "$report: $missed missed"
((missed == 0))
