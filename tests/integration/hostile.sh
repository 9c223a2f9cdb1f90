#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Attacks a cluster of real processes, one way after the other, and writes a table: what was tried, what was seen, and whether
# a healthy client, the memory, other jobs and what was acknowledged came through it (docs/TESTING.md).
#
#   tests/integration/hostile.sh [--report FILE] [--rows PATTERN] [--list]
#
#   --report FILE   where the table goes, in Markdown; build/hostile.md by default
#   --rows PATTERN  only these rows, as --gtest_filter has them: '*Spec*'
#   --list          prints the rows
#
# The programs are those of build/release: cmake --preset release && cmake --build --preset release --target hostile_test
# Exit: 0 every row held or was skipped; 1 one was missed; 2 usage, or no row to run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  sed -n '6,10s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
report=build/hostile.md rows='*' list=false
while (($# > 0)); do
  case "$1" in
    --report | --rows)
      (($# > 1)) || usage
      declare "${1#--}=$2"
      shift ;;
    --list) list=true ;;
    *) usage ;;
  esac
  shift
done
program=build/release/bin/hostile_test
[[ -x $program ]] || { echo "hostile.sh: found no $program; build it first, as the head of this script says" >&2; exit 2; }
all=$("$program" --gtest_list_tests --gtest_filter="$rows" | awk '/^[^ ].*\.$/ {suite = $1} /^  / {print suite $1}')
[[ -n $all ]] || { echo "hostile.sh: found no row that matches '$rows', expected at least one; --list prints all" >&2; exit 2; }
if $list; then
  echo "$all"
  exit 0
fi

mkdir -p "$(dirname "$report")"
cat >"$report" <<EOF
Attacks on real processes at $(git rev-parse --short HEAD 2>/dev/null || echo "an unknown commit"), $(date -u +%F), $(nproc) cores.

| tried | seen | verdict |
|---|---|---|
EOF
export STRETTO_HOSTILE_REPORT=$PWD/$report
[[ $report != /* ]] || STRETTO_HOSTILE_REPORT=$report
missed=0 log=$(mktemp)
trap 'rm -f "$log"' EXIT
while read -r row; do
  echo "$row"
  before=$(wc -l <"$report")
  if ! timeout 300 "$program" --gtest_filter="$row" >"$log" 2>&1 </dev/null; then
    missed=$((missed + 1))
    sed 's/^/  /' "$log" | tail -40
  else
    grep '^| ' "$log" || true
  fi
  (($(wc -l <"$report") > before)) || echo "| $row | - | **missed**: it ended without a verdict |" >>"$report"
done <<<"$all"
echo "$report: $missed missed"
((missed == 0))
