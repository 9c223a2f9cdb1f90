# SPDX-License-Identifier: Apache-2.0
# Runs a program whose tests are rows of a table (table_row.h) and writes the table. For faults.sh and hostile.sh, which source
# it with their arguments after they have set
#
#   name      of the table, for files
#   title     the begin of its first line
#   header    its columns, "| a | b | verdict |"
#   program   in build/release/bin
#   rows      the filter of GoogleTest that picks rows where --rows does not
#   each      test or program: whether each row has a process of its own
#   limit     seconds of one process
#
#   --report FILE   where the table goes, in Markdown; build/NAME.md by default
#   --rows PATTERN  only these rows, as --gtest_filter has them: '*Hangs*:ScaleTest.*'
#   --list          prints the rows
#
# Exit: 0 every row held or was skipped; 1 one was missed; 2 usage, or no row to run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  sed -n '/^#   --/s/^# \{0,1\}//p' "$0" "${BASH_SOURCE[0]}" >&2
  exit 2
}
report=build/$name.md list=false
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
[[ -x build/release/bin/$program ]] ||
  { echo "$name.sh: found no build/release/bin/$program; build it first, as the head of this script says" >&2; exit 2; }

# Suite.Test, one a line.
all=$("build/release/bin/$program" --gtest_list_tests --gtest_filter="$rows" |
  awk '/^[^ ].*\.( |$)/ {suite = $1} /^  / {print suite $1}') ||
  { echo "$name.sh: $program --gtest_list_tests failed, expected a list of rows" >&2; exit 2; }
[[ -n $all ]] || { echo "$name.sh: found no row that matches '$rows', expected at least one; --list prints all" >&2; exit 2; }
if $list; then
  echo "$all"
  exit 0
fi

mkdir -p "$(dirname "$report")"
cat >"$report" <<EOF
$title at $(git rev-parse --short HEAD 2>/dev/null || echo "an unknown commit"), $(date -u +%F), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg) at the start.

$header
$(sed 's/[^|]\+/---/g' <<<"$header")
EOF
export STRETTO_TABLE=$PWD/$report
[[ $report != /* ]] || STRETTO_TABLE=$report
empty=$(sed 's/[^|]\+/ - /g; s/^| - |/| %s |/; s/| - |$/| **missed**: it ended without a verdict |/' <<<"$header")
# A line for each process: the filter of its rows, and how many they are.
if [[ $each == program ]]; then
  processes="$rows $(wc -l <<<"$all")"
else
  processes=$(sed 's/$/ 1/' <<<"$all")
fi
missed=0 log=$(mktemp)
trap 'rm -f "$log"' EXIT
while read -r filter count; do
  expected=$(($(wc -l <"$report") + count))
  echo "$filter"
  if ! timeout "$limit" "build/release/bin/$program" --gtest_filter="$filter" >"$log" 2>&1 </dev/null; then
    missed=$((missed + 1))
    sed 's/^/  /' "$log" | tail -60
  else
    grep -vE '^(\[|Note:|Running main)|^$' "$log" || true
  fi
  # shellcheck disable=SC2059  # a format
  (($(wc -l <"$report") >= expected)) || printf "$empty\n" "$filter" >>"$report"
done <<<"$processes"
echo "$report: $(grep -c '| held' "$report" || true) held, $missed processes with a row that was missed"
((missed == 0))
