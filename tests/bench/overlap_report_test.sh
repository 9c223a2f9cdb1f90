#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# overlap_report.py on made-up reports: its table, its figures, and none of a disturbed run or peer.
set -uo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
. "$here/expect.sh"

made_up() { # FILE SPREAD SCHEDULES: a report of them; SPREAD of the rounds of the first one
  python3 - "$@" <<'PYTHON'
import json, sys
file, spread, names = sys.argv[1:]
known = {  # t_overlap, t_simulated, plan, slices
    "async": ("megatron_async", 16.0, 16.8, None, 1), "row": ("domino_row", 12.0, 12.0, None, 1),
    "found": ("helix", 10.0, 9.9, "found", 1), "blocks": ("helix", 10.4, 10.5, "blocks", 1),
    "sliced": ("helix", 10.1, 10.1, "blocks", 2)}
schedules = []
for name in names.split(","):
    schedule, t, simulated, plan, slices = known[name]
    schedules.append({
        "schedule": schedule, "plan": plan, "micro_batches": 4, "batch": 1, "slices": slices,
        "splits": 1, "sequence_parallel": False, "defer_wgrads": 0, "t_overlap": t,
        "t_simulated": simulated, "t_serial": 18.0, "t_ideal": 9.0, "t_ideal_step": 8.5,
        "t_ideal_phase": 9.5, "t_ideal_pairs": 9.0, "t_comp": 8.0, "t_comp_sliced": 8.0,
        "t_comm": 8.0, "comm_cpu_seconds": 0.5, "mixes_phases": plan is not None,
        "plan_over_bound": 1.02 if plan else None, "slowdown": 1.1, "hidden_forward": 0.5,
        "hidden_ceiling_forward": 0.6, "hidden_backward": 0.5, "hidden_ceiling_backward": 0.6,
        "hidden_paired": 0.91, "hidden_ceiling_paired": 0.995, "tokens_per_second": 400,
        "activations": 140 if plan == "found" else 130, "activations_serial": 100,
        "loss_first": 6.2})
json.dump({
    "gbps": 0.5, "dtype": "f32", "wire": "f32", "repeats": 2, "wire_bytes": 10**9,
    "least_collective_bytes": 10**7, "runs_left_out": 0, "refused": [], "errors": [],
    "most_spread": 0.1, "work": {"family": "gpt", "model": "", "layers": 4},
    "disturbed": [{"program": "x", "spread": float(spread)}] if float(spread) > 0.1 else [],
    "schedules": schedules}, open(file, "w"))
PYTHON
}
made_up_peer() { # FILE SPREAD: of the rounds of its async
  python3 - "$@" <<'PYTHON'
import json, sys
file, spread = sys.argv[1:]
variants = [{"name": name, "t_step": t, "t_forward": t / 3, "t_backward": 2 * t / 3,
             "t_optimizer": 0.1, "tokens_per_second": 400, "loss_first": 6.2,
             "samples": [[t / 3, 2 * t / 3, t * times, 0.1] for times in rounds]}
            for name, t, rounds in (("sync", 20.0, [1]), ("async", 17.0, [1, 1, 1 + float(spread)]))]
json.dump({"version": "2", "loss_expected_first": 6.2, "variants": variants}, open(file, "w"))
PYTHON
}
made_up_peer "$scratch/peer" 0
made_up_peer "$scratch/disturbed-peer" 0.2
report() { # FILE PEER...
  python3 -B "$here/overlap_report.py" --burst 1000 --out "$scratch/out" "$@"
}
# figure TEXT REST...: the row that begins with the text has these columns.
figure() {
  grep -F -- "$1" "$scratch/said" | tr -s ' ' | grep -qF -- "$1 ${*:2}"
}

made_up "$scratch/all" 0 async,row,found,blocks
expect "a report with a peer" exits_with 0 report "$scratch/all" "$scratch/peer"
expect "the share of communication" grep -q '^figures at x = 1.00$' "$scratch/said"
expect "the ideal of pairs" figure "helix, found plan / t_ideal_pairs" 1.111 at most 1.12 1.06
expect "megatron_async" figure "speed-up over megatron_async" 1.600 at least 1.35 1.55
expect "megatron_sync" figure "speed-up over megatron_sync (t_serial)" 1.800
expect "domino_row" figure "faster than the best domino_row" 20.0% at least 5 % 9 %
expect "the others" figure "behind the best of the other schedules" -16.7% at most 2 % 1 %
expect "hidden" figure "hidden in paired cells" 91.0% at least 90 % 97 % a ceiling of 99 % or more\; it is 99.5%
expect "PyTorch's async, not the faster of its variants" figure "speed-up over PyTorch, async" 1.700 above 1
expect "the most activations" figure "activations / megatron_sync's" 1.400 at most 1.500
expect "the two searches" figure "found plan faster than blocks plan, which has barriers" 4.0% at least 0 %
expect "the median of predictions" figure "errors of 4 predictions, median" 1.0% at most 2 % 1 %
expect "their p95" figure "errors of 4 predictions, p95" 5.0% at most 5 % 3 %
expect "their maximum" figure "errors of 4 predictions, max" 5.0% at most 8 % 5 %
expect "the same numbers as in prediction_errors.py" exits_with 0 "$here/prediction_errors.py" "$scratch/all"
expect "which prints them" grep -q "4 rows: median 1.0%, p95 5.0%, max 5.0%" "$scratch/said"
expect "figures are in the JSON" python3 - "$scratch/out" <<'PYTHON'
import json, sys
figures = {f["figure"]: f["value"] for f in json.load(open(sys.argv[1]))["figures"]}
assert figures["speed-up over megatron_async"] == 1.6, figures
PYTHON

made_up "$scratch/few" 0 found
expect "a report of helix alone" exits_with 0 report "$scratch/few"
expect "what was not measured has no number" figure "speed-up over megatron_async" - at least 1.35
expect "nor has its other plan" figure "found plan faster than blocks plan, which has barriers" - at least 0 %
expect "what was measured has" figure "helix, found plan / t_ideal_pairs" 1.111
made_up "$scratch/segments" 0 found,blocks,sliced
expect "a report of other slices" exits_with 0 report "$scratch/segments"
expect "plans are compared on the same segments" \
  figure "found plan faster than blocks plan, which has barriers" 4.0% at least 0 %

made_up "$scratch/disturbed" 0.2 async,row,found,blocks
expect "a disturbed run" exits_with 0 report "$scratch/disturbed" "$scratch/peer"
expect "has no ideal" figure "helix, found plan / t_ideal_pairs" - at most 1.12
expect "no domino_row" figure "faster than the best domino_row" - at least 5 %
expect "and no errors" figure "predictions, median" - at most 2 %
expect "and says so" grep -q "The run was disturbed: it has no ratios." "$scratch/said"

expect "a disturbed peer" exits_with 0 report "$scratch/all" "$scratch/disturbed-peer"
expect "is named" grep -q "disturbed: rounds of torch async differ by 20.0%" "$scratch/said"
expect "and compared with nothing" figure "speed-up over PyTorch, async" - above 1
expect "the report names the reason" grep -q "The peer was disturbed: nothing is compared with it." "$scratch/said"
expect "ours has its ratios" figure "helix, found plan / t_ideal_pairs" 1.111 at most 1.12
expect "and no speed-up" python3 - "$scratch/out" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
assert not report["disturbed"] and report["peer"]["disturbed"][0]["program"] == "torch async", report
assert all(s["peer"]["speed_up"] is None for s in report["schedules"]), report["schedules"]
PYTHON

made_up "$scratch/none" 0 row
expect "a report without a schedule that weaves" exits_with 0 report "$scratch/none"
expect "has no figures" test "$(grep -c figures "$scratch/said")" -eq 0
((failures == 0))
