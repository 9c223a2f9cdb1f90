#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a reviewer should not have to look for. Prints every finding; exit 1 when there is one, 77 (skipped) when a tool is missing.
#
#   tests/tidy/tidy.sh includes|sizes|switches|links|lines|words|openings|spdx|metrics|messages|mutants|format
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
sources() { find proto/base proto/metrics proto/spec proto/tls proto/monitoring kernels worker coordinator tests -name '*.h' -o -name '*.cc'; }

# Vendor headers stay where DESIGN section 2 puts them.
includes() {
  local rules=(
    'grpcpp/|^(proto/tls|coordinator/(service|cli/client|store/etcd)|worker/(daemon|trainer)|tests)/'
    'oneapi/dnnl|^kernels/cpu/'
    'gloo/|^worker/comm/gloo/'
    'cu[A-Za-z_]*\.h|^(kernels/cuda|worker/engine/exec/backend_cuda|worker/comm/nccl|tests)/'
    'nccl|^(worker/comm/nccl|tests)/'
    'sqlite3\.h|^(coordinator/store|tests)/'
    'sentencepiece_processor\.h|^worker/data/text/'
    'prometheus/|^(proto/metrics|coordinator/telemetry|worker/daemon)/'
    'yaml-cpp/|^(coordinator/cli/(yaml|explain)|tests)/'
    # Locks are annotated (proto/base/mutex.h); std::call_once is none.
    'mutex>|^(proto/base/mutex\.h|coordinator/service/server\.cc|tests/)'
    'condition_variable>|^(proto/base/mutex\.h|tests/)'
  )
  local rule header allowed
  for rule in "${rules[@]}"; do
    header=${rule%%|*} allowed=${rule#*|}
    sources | xargs grep -nE "#include <$header" | grep -vE "$allowed" | awk -v where="$allowed" '{print $0 ": belongs in " where}'
  done
  # The pure core and the coordinator's core know no thread, clock, file or environment.
  find worker/engine/{spec,layout,model,program,schedule,memory,cost,reshard,exec/backend_sim} coordinator/{core,membership,placement} -name '*.h' -o -name '*.cc' |
    grep -v 'core/driver' |
    xargs grep -nE '#include (<(thread|mutex|chrono|fstream|cstdlib|random|condition_variable|unistd\.h|fcntl\.h)>|"proto/base/mutex\.h")|getenv|absl::Now' |
    awk '{print $0 ": the pure core has none of this"}'
}

# Files a reader can hold in mind, and folders: tests may be longer.
sizes() {
  sources | xargs wc -l | awk '$2 == "total" {next} {most = $2 ~ /^tests\// ? 500 : 400}
    $1 > most {print $2 ": " $1 " lines, expected at most " most}'
  find proto coordinator worker kernels -name '*.cc' -o -name '*.cu' | xargs -n1 dirname | sort | uniq -c |
    awk '$1 > 25 {print $2 ": " $1 " sources, expected at most 25"}'
}

# A switch over an enum of ours names every value, and the compiler (-Wall -Werror) says which one is
# missing; `default` would silence it. Over numbers and enums of others it says which values it
# stands for.
switches() {
  { sources; find kernels worker tests -name '*.cu'; } |
    xargs grep -nE '^ *default:( *$| *[^ /])' |
    sed -E 's/: *default:.*/: default without a comment that says which foreign values it stands for/'
}

# Links, anchors and paths of the documents exist, and so does every page, DESIGN section and design note that a source cites.
links() { tests/tidy/documents.py links; }

# Lines and table cells of the documents, and comments of sources, are short enough to read and to review.
lines() {
  tests/tidy/documents.py lines
  # clang-format breaks no comments.
  { sources; find kernels worker tests -name '*.cu' -o -name '*.cuh'; find proto/stretto -name '*.proto'; } |
    sort | xargs grep -nE '^ *//' /dev/null |
    LC_ALL=C.UTF-8 sed -nE 's/^([^:]+:[0-9]+):.{101,}$/\1: found a longer line, expected at most 100 characters/p'
}

# The documents use the standard words (docs/STYLE.md), and say nothing twice on a page.
words() { tests/tidy/documents.py words; }

# Every product source of 120 lines or more opens with a comment that says what it does and how: before any code, besides
# the licence.
openings() {
  find proto coordinator worker kernels -name '*.cc' -o -name '*.cu' | sort | while read -r file; do
    [[ $(wc -l <"$file") -ge 120 ]] || continue
    awk '/SPDX-License-Identifier/ || /^#/ || /^$/ {next} {exit !/^\/\//}' "$file" ||
      echo "$file: found code, expected a comment that says what the file does and how"
  done
}

# Every source names its licence in its first five lines.
spdx() {
  local file
  { sources; find kernels worker tests -name '*.cu' -o -name '*.cuh'
    find proto/stretto -name '*.proto'
    find cmake proto kernels worker coordinator tests deploy -name CMakeLists.txt -o -name '*.cmake'
    find deploy tests -name '*.sh' -o -name '*.py'; } | sort | while read -r file; do
    head -5 "$file" | grep -qE '^(//|#) SPDX-License-Identifier: Apache-2\.0$' ||
      echo "$file: found no SPDX-License-Identifier: Apache-2.0 in its first five lines"
  done
}

# Rules, dashboards and documents name metrics that docs/METRICS.md lists, which a test compares with the code (tests/proto/metrics).
# It lists every rule, too, and no other.
metrics() {
  local file exported recorded
  exported=$(sed -nE 's/^\| `(stretto_[a-z_]+)`.*/\1/p' docs/METRICS.md)
  recorded=$(sed -n 's/^ *- record: //p' deploy/prometheus/recording.yml)
  for file in deploy/prometheus/*.yml deploy/grafana/*.json docs/{METRICS,RUNBOOKS}.md docs/operations/*.md; do
    grep -ohE '\b([a-z_]+:)?stretto_[a-z_]+(:[a-z0-9]+)?' "$file" | sort -u | while read -r name; do
      grep -qxF -e "$name" -e "${name%_sum}" -e "${name%_count}" -e "${name%_bucket}" <<<"$exported"$'\n'"$recorded" ||
        echo "$file names $name, which nothing exposes or records"
    done
  done
  comm -3 <(sort <<<"$recorded") <(sed -nE 's/^\| `([a-z_]+:stretto_[a-z0-9_:]+)`.*/\1/p' docs/METRICS.md | sort) |
    sed 's/\t//; s/$/ stands in one of deploy\/prometheus\/recording.yml and docs\/METRICS.md only/'
}

# Every entry of a golden file of messages has its test; prefixes and names of parameters are left out.
messages() {
  comm -23 <(sed -nE '/^[A-Za-z]/ {s#^[A-Za-z0-9]+/##; s#/.*##; p}' tests/golden/messages/*.txt | sort -u) \
    <(find tests -name '*_test.cc' -exec cat {} + | tr '\n' ' ' |
      grep -oE 'TEST(_F|_P)?\([A-Za-z0-9]+, *[A-Za-z0-9]+\)' | sed -E 's/.*\(//; s/, */./; s/\)//' | sort -u) |
    sed 's/$/: stands in tests\/golden\/messages, but is no test/'
}

# Every mutant still finds the line that it breaks.
mutants() { tests/mutants.sh --check; }

format() {
  sources | xargs clang-format --dry-run 2>&1 | grep -E 'warning' | sed 's/warning.*/not formatted/' | sort -u
}

case "${1:-}" in
  format) command -v clang-format >/dev/null || { echo "skipped: no clang-format here"; exit 77; } ;;&
  includes | sizes | switches | links | lines | words | openings | spdx | metrics | messages | mutants | format) found=$("$1") ;;
  *) sed -n '3,6s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
[[ -z "$found" ]] && exit 0
echo "$found"
exit 1
