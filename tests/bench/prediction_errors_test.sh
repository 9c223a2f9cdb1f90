#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# prediction_errors.py on made-up reports: the errors, the regret, what is left out, and nothing left
# at all.
set -uo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
. "$here/expect.sh"

report() { # FILE DISTURBED TIME...: a report with one schedule per predicted time; each took a second
  # or, with SIMULATED:MEASURED, as long as behind the colon
  python3 - "$@" <<'PYTHON'
import json, sys
file, disturbed, *times = sys.argv[1:]
names = ["helix", "nanotron", "domino_row"]
times = [(time.split(":") + ["1"])[:2] for time in times]
schedules = [{"schedule": name, "micro_batches": 4, "batch": 2, "slices": 1, "plan": "found",
              "t_overlap": float(took), "t_simulated": None if t == "none" else float(t),
              "t_comp_sliced": 2, "t_comp_simulated": 1.98,
              "t_simulated_interleaved": 1.03 if file.endswith("a") else None}
             for name, (t, took) in zip(names, times)]
json.dump({"work": {"family": "gpt", "model": ""}, "gbps": 0.5, "schedules": schedules,
           "disturbed": [{"program": "helix", "spread": 0.2}] if disturbed == "yes" else []},
          open(file, "w"))
PYTHON
}
said() { grep -qF -- "$1" "$scratch/said"; }

report "$scratch/a" no 0.98 1.01 none
report "$scratch/b" no 0.90
report "$scratch/c" yes 3
expect "errors of several runs" exits_with 0 "$here/prediction_errors.py" "$scratch"/[abc]
expect "a row for each schedule" said \
  "  -2.0%    -1.0%    +3.0%        -  gpt 0.5 Gbit/s 4 x 2 helix slices 1 found"
expect "their statistics" said \
  "in advance, 3 rows: median 2.0%, p95 10.0%, max 10.0%, signed mean -3.7%"
expect "those of computation" said \
  "its computation alone, 3 rows: median 1.0%, p95 1.0%, max 1.0%, signed mean -1.0%"
expect "those that were measured between" said \
  "with interleaved computations, 2 rows: median 3.0%, p95 3.0%, max 3.0%, signed mean +3.0%"
expect "a disturbed run is named" said "$scratch/c: left out: the run was disturbed"
expect "a row without a prediction is named" said "found has no prediction"
report "$scratch/d" no 0.99 1.98:2.2 0.97:1.05
expect "a run of which the predictions choose a slower one" exits_with 0 \
  "$here/prediction_errors.py" "$scratch"/[bd]
expect "what is chosen, and what that loses" said \
  "$scratch/d: the predictions choose domino_row, 5.0% slower than the fastest"
expect "the regret of both" said "regret, 2 runs: median 2.5%, max 5.0%"
expect "nothing left is an error" exits_with 1 "$here/prediction_errors.py" "$scratch/c"
((failures == 0))
