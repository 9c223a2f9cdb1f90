#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# reshard_link.sh on a small tensor: the table, the JSON, and nothing left behind.
# usage: reshard_link_test.sh STRETTO_BENCH. Exit 77: skipped, with the reason.
set -uo pipefail

bench=$1
here=$(dirname "${BASH_SOURCE[0]}")
script=$here/reshard_link.sh
. "$here/expect.sh"

((EUID == 0)) || { echo "skipped: needs root, to make network namespaces"; exit 77; }

namespaces() { ip netns list 2>/dev/null | grep -c "^stretto-$1-"; }

refuses() { # MESSAGE ARGUMENTS...
  exits_with 2 "$script" "${@:2}" && grep -qF -- "$1" "$scratch/said"
}
expect "help is no error" exits_with 0 "$script" --help
expect "a rate of 0" refuses "--gbps: found '0', expected a number above 0" --gbps 0
expect "no repeats" refuses "--repeats: found '0', expected a number above 0" --repeats 0
expect "another peer" refuses "--peer: found 'mpi', expected torch" --peer mpi
expect "no program" refuses "--bench: found no program /nowhere" --bench /nowhere
expect "an unknown argument" refuses "found argument '--tempo'" --tempo 2
expect "a flag without a value" refuses "--json: found no value" --json

small=(--gbps 0.2 --bench "$bench" --repeats 1)
"$script" "${small[@]}" --peer torch --json "$scratch/out.json" -- --mebibytes 4 \
  --cases one_to_2x2,alpa3 --modes send,chain >"$scratch/said" 2>&1 &
script_id=$! # which the names of its namespaces have
wait "$script_id"
code=$?
if ((code == 77)); then
  echo "skipped: no network namespaces or tbf queue here"
  exit 77
fi
cat "$scratch/said"
expect "it ends well" test "$code" -eq 0
expect "the table has a row for each" test "$(grep -cE '^(one_to_2x2|alpa3) +(send|chain)' \
  "$scratch/said")" -eq 4
expect "the JSON holds what ran" python3 - "$scratch/out.json" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
times = {(r["case"], r["mode"]): r["over_wire"] for r in report["results"]}
assert len(times) == 4, times
# The link really is shaped: a sender's interface carries four copies, less what the bucket of tbf
# lets pass at once, a sixteenth of a copy, and what ranks of a busy machine begin apart.
assert times["one_to_2x2", "send"] >= 3.5, times
assert all(len(r["runs"]) == 1 for r in report["results"])
assert sum(size for _, _, size in report["results"][0]["plain_transfers"]) == 16 << 20
PYTHON
if [[ -n ${STRETTO_PEER_PYTHON-} ]]; then
  expect "PyTorch's times are in it" grep -q '"peer"' "$scratch/out.json"
else
  expect "it says why PyTorch is left out" grep -q "PyTorch is left out" "$scratch/said"
fi
expect "no namespace is left behind" test "$(namespaces "$script_id")" -eq 0
expect "wrong flags of stretto-bench end it" exits_with 2 "$script" "${small[@]}" \
  --json "$scratch/none.json" -- --cases alpa6

# A run that is interrupted cleans up, too.
"$script" "${small[@]}" --json "$scratch/none.json" -- --mebibytes 64 >/dev/null 2>&1 &
script_id=$!
until (($(namespaces "$script_id") == 5)); do kill -0 "$script_id" 2>/dev/null || break; done
kill -TERM "$script_id"
wait "$script_id"
expect "an interrupted run says so" test $? -eq 143
expect "and leaves no namespace" test "$(namespaces "$script_id")" -eq 0
((failures == 0))
