#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# one_rank.sh on a small model. usage: one_rank_test.sh STRETTO_BENCH.
set -uo pipefail

bench=$1
here=$(dirname "${BASH_SOURCE[0]}")
script=$here/one_rank.sh
. "$here/expect.sh"

expect "no turns are refused" exits_with 2 "$script" --rounds 0 --bench "$bench"
expect "the refusal says which" grep -q -- "--rounds: found '0'" "$scratch/said"
expect "an unknown argument is refused" exits_with 2 "$script" --tempo 2
expect "a core that is not there is refused" exits_with 2 "$script" --core 4096 --bench "$bench"
expect "help is no error" exits_with 0 "$script" --help
expect "a model that cannot be is an error" exits_with 1 "$script" --bench "$bench" --core 0 -- \
  --hidden 7
expect "it runs" exits_with 0 env -u STRETTO_PEER_PYTHON "$script" --bench "$bench" --core 0 \
  --rounds 2 --repeats 1 --json "$scratch/one.json" -- --layers 2 --hidden 64 --heads 4
expect "without PyTorch it says so" grep -q "STRETTO_PEER_PYTHON is not set" "$scratch/said"
expect "it prints the step" grep -q "^stretto: .* s a step" "$scratch/said"
expect "the JSON has both turns" python3 -c \
  'import json, sys; r = json.load(open(sys.argv[1])); assert len(r["t_step"]) == 2 and not r["peers"]' \
  "$scratch/one.json"
((failures == 0))
