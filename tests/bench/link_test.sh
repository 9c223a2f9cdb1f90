#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# overlap_link.sh on a small model: the table, the JSON, and nothing left behind.
# usage: link_test.sh STRETTO_BENCH. Exit 77: skipped, with the reason.
set -uo pipefail

bench=$1
here=$(dirname "${BASH_SOURCE[0]}")
script=$here/overlap_link.sh
. "$here/expect.sh"

((EUID == 0)) || { echo "skipped: needs root, to make network namespaces"; exit 77; }

namespaces() { ip netns list | grep -c '^stretto-'; }
before=$(namespaces)
awake() { # PID: of a script that keeps cores awake
  local file args
  for file in /proc/[0-9]*/cmdline; do
    { mapfile -d '' -t args <"$file"; } 2>/dev/null || continue
    ((${#args[@]} > 1)) && [[ ${args[-1]} == "$1" && ${args[*]} == *"while kill -0"* ]] && return
  done
  return 1
}
sleep_again() { # PID
  timeout 60 bash -c "$(declare -f awake); while awake $1; do :; done"
}

expect "a rate of 0 is refused" exits_with 2 "$script" --gbps 0 --bench "$bench"
expect "a bucket that tbf cannot use is refused" exits_with 2 "$script" --gbps 1 --burst-kb 64
expect "an unknown argument is refused" exits_with 2 "$script" --gbps 1 --tempo 2
expect "the refusal says which" grep -q -- "--tempo" "$scratch/said"
expect "divisions belong to tensor parallelism" exits_with 2 "$script" --gbps 1 --layout pp2 \
  --divide 2,4
expect "the refusal names the layout" \
  grep -q -- "--divide: found with --layout pp2, expected --layout tp2" "$scratch/said"
expect "help is no error" exits_with 0 "$script" --help

ip netns add "stretto-$$-segments"
segments=(ip netns exec "stretto-$$-segments" python3 -B "$here/segments.py")
expect "a device takes segments above 64 KiB" exits_with 0 "${segments[@]}" lo 196608
expect "it does not take more than Linux has" exits_with 1 "${segments[@]}" lo 1048576
expect "which says what was found" grep -q "lo: found segments of 196608 bytes, expected 1048576" \
  "$scratch/said"
expect "a device that is not there is named" exits_with 2 "${segments[@]}" none 196608
ip netns delete "stretto-$$-segments"

small=(--gbps 2 --bench "$bench" --schedules "megatron_sync,domino_row,helix" --repeats 1
  --layers 2 --hidden 256 --heads 4 --batch 12 --micro-batches 2 --divide 2 --burst-kb 128)
"$script" "${small[@]}" --peer torch --json "$scratch/link.json" -- --slices 1,2 >"$scratch/table"
code=$?
if ((code == 77)); then
  echo "skipped: no network namespaces or tbf queue here"
  exit 77
fi
cat "$scratch/table"
# 1 is a time below its bound, which a busy machine can do; the JSON must be there all the same.
expect "it ends well or with a measuring error" test "$code" -le 1
expect "the JSON holds what ran" python3 - "$scratch/link.json" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
assert [s["schedule"] for s in report["schedules"]] == ["megatron_sync", "domino_row", "helix"], report
assert all(c["parity"] for c in report["searched"]), report["searched"]
assert report["gbps"] == 2 and report["least_collective_bytes"] == 12 * 256 * 256 * 4, report
assert report["work"]["micro_batches"] == 2, report["work"]
for schedule in report["schedules"]:
    assert abs(2 * schedule["t_ideal_pairs"] - schedule["t_ideal_phase"] -
               schedule["t_ideal_step"]) < 1e-9, schedule
    # The link really is shaped: the collectives alone take what the wire needs, or more.
    assert schedule["t_comm"] >= 0.99 * report["wire_seconds"], schedule
    assert schedule["peer"] is not None
    # A machine that builds meanwhile disturbs the run, which then has no ratios.
    assert (schedule["slowdown"] is None) == bool(report["disturbed"]), schedule
# What only a schedule that weaves has.
for schedule in report["schedules"]:
    woven, calibrated = schedule["schedule"] == "helix", schedule["t_simulated"] is not None
    assert (schedule["plan"] is not None) == woven, schedule
    assert (schedule["plan_over_bound"] is not None) == (woven and calibrated), schedule
    assert schedule["hidden_ceiling_paired"] <= 1, schedule
    assert not calibrated or not woven or schedule["plan_over_bound"] > 0.99, schedule
assert report["schedules"][2]["mixes_phases"], report
figures = {f["figure"]: f for f in report["figures"]}
paired, = (f for name, f in figures.items() if name.endswith("plan / t_ideal_pairs"))
for figure in paired, figures["faster than the best domino_row"]:
    assert (figure["value"] is None) == bool(report["disturbed"]), figure
for error in report["errors"]:
    assert "expected at least 0.99 of" in error, error
PYTHON
expect "a collective of a few bursts is an error" exits_with 1 "$script" --gbps 2 \
  --bench "$bench" --schedules megatron_sync --repeats 1 --layers 1 --hidden 64 --heads 4 \
  --json "$scratch/small.json"
expect "which says what to change" grep -q "expected at least 20 times the link's burst of 262144: \
raise --sequence or --batch, or lower --burst-kb" "$scratch/said"
expect "the table has a row for each schedule" grep -q '^domino_row' "$scratch/table"
expect "that of helix has its plan" grep -qE '^helix (default|found) ' "$scratch/table"
expect "the figures follow the table" grep -qE '^helix, (default|found) plan / t_ideal_pairs ' \
  "$scratch/table"

# Two stages, on the same link.
expect "stages run on it" exits_with 0 "$script" --gbps 2 --bench "$bench" --layout pp2 \
  --peer torch --layers 4 --hidden 64 --heads 4 --micro-batches 4 --sequence 16 --vocab 64 \
  --chunks 2 --repeats 1 --json "$scratch/stages.json" -- --model gpt-tiny
expect "every order is in the JSON, predicted if the calibration settled" \
  python3 - "$scratch/stages.json" "$scratch/said" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
assert [o["order"] for o in report["orders"]] == [
    "1f1b", "eager_1f1b", "1f1b_blocking", "gpipe", "interleaved_1f1b x 2", "slack"], report
assert "skipped" in report["peer"] or len(report["peer"]["variants"]) == 3, report["peer"]
settled = "calibration did not settle" not in open(sys.argv[2]).read()
for order in report["orders"]:
    assert (order["simulated_seconds"] is not None) == settled, order
PYTHON
# Two replicas.
expect "replicas run on it" exits_with 0 "$script" --gbps 2 --bench "$bench" --layout dp2 \
  --peer torch --layers 2 --hidden 64 --heads 4 --micro-batch 2 --micro-batches 2 --sequence 16 \
  --vocab 64 --repeats 1 --json "$scratch/replicas.json" -- --model gpt-tiny
expect "every variant is in the JSON" python3 - "$scratch/replicas.json" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
assert [v["name"] for v in report["variants"]] == ["synchronous", "all_reduce", "zero"]
assert "skipped" in report["peer"] or len(report["peer"]["variants"]) == 2, report["peer"]
PYTHON
expect "PyTorch sends f32 between stages" exits_with 2 "$script" --gbps 1 --layout pp2 \
  --peer torch --wire bf16
expect "an unknown layout is refused" exits_with 2 "$script" --gbps 1 --layout tp3

# Cores sleep again when a script was killed.
bash -c "$(declare -f awake)"'
. "$1"
nodes=1 node_ranks=1 awake=()
keep_awake
until awake $$; do :; done
kill -KILL $$' killed "$here/nodes.sh" &
killed=$!
wait "$killed"
expect "a script is killed while it keeps a core awake" test $? -eq 137
expect "it leaves no loop" sleep_again "$killed"

# A script that is interrupted right after it started a loop ends that one, too, even if the loop
# does not get a SIGTERM: a child of bash loses one that comes before its exec.
timeout 60 bash -c "$(declare -f awake)"'
. "$1"
nodes=1 node_ranks=1
need_nodes taskset chrt
chrt() { trap "" TERM; exec chrt "$@"; }
interrupt() {
  until awake $$; do :; done
  kill -TERM $$
}
set -T
trap "[[ \$BASH_COMMAND != awake+=* ]] || interrupt" DEBUG
keep_awake' interrupted "$here/nodes.sh"
expect "it ends although its loop is not in the list yet" test $? -eq 143

# A run that is interrupted cleans up, too.
"$script" "${small[@]}" --json "$scratch/none.json" >/dev/null 2>&1 &
script_id=$!
until awake "$script_id"; do kill -0 "$script_id" 2>/dev/null || break; done
expect "a run has namespaces" test "$(namespaces)" -gt "$before"
kill -TERM "$script_id"
wait "$script_id"
expect "an interrupted run says so" test $? -eq 143
expect "cores sleep again" sleep_again "$script_id"
expect "no namespace is left behind" test "$(namespaces)" -eq "$before"
((failures == 0))
