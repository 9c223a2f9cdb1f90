#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The benchmarks of ranks on a link of its own: two network namespaces joined by a veth pair that tbf
# shapes on both ends, one rank in each, rank r and all its threads on core r, which never sleeps.
set -euo pipefail

FOLDER=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$FOLDER/nodes.sh"

usage() {
  cat <<'TEXT'
usage: tests/bench/overlap_link.sh --gbps RATE [FLAGS] [-- FLAGS OF stretto-bench]
Measures the schedules on a link of RATE Gbit/s (1 or 0.5, say) between two ranks on this machine,
prints a table and writes JSON. Needs root, two cores, ip, tc, taskset, chrt and python3; 3 GB of memory
for the default work, a quarter of an hour for all schedules. With tp2 and pp2 it calibrates
first; if that does not settle, no step is predicted, and no plan is found.
  --gbps RATE         of the link, each direction, frames included
  --json FILE         what was measured (default: overlap.json); the calibration is in FILE.costs
  --layout tp2|pp2|dp2  two ranks that share every layer, and the schedules for them; two stages,
                      and the orders of a pipeline; or two replicas, with and without ZeRO
                      (default: tp2)
  --schedules A,B     names, with tp2 (default: all); with pp2, `-- --orders A,B` chooses
  --repeats N         rounds that medians are over (default: 5)
  --wire f32|bf16     type of activations on the wire (default: f32)
  --peer torch        also measure PyTorch, half before and half after; needs STRETTO_PEER_PYTHON
                      (tests/bench/peer_env.sh makes it), is left out with the reason without it
  --family gpt|llama, --layers, --hidden, --heads, --kv-heads, --ffn, --sequence, --vocab N,
  --batch N (tp2) or --micro-batch N (pp2, dp2), --micro-batches N
                      the work, for both
  --divide A,B        numbers of micro-batches to try for the same sequences, with tp2, for both
  --chunks A,B        numbers of chunks of a stage, with pp2, for both
  --burst-kb N        token bucket of the link, 128 to 1024 (default: 256)
  --bench FILE        stretto-bench (default: build/release/bin/stretto-bench)
Exit: 0; 1 a run failed, a schedule failed parity or a time cannot be; 2 arguments, or not root;
77 namespaces cannot be made here.
TEXT
}

gbps='' json=overlap.json peer='' repeats=5 wire=f32 layout=tp2
bench=$FOLDER/../../build/release/bin/stretto-bench
work=() only_bench=()
while (($# > 0)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --) shift; only_bench+=("$@"); break ;;
    --gbps | --burst-kb | --json | --peer | --layout | --repeats | --wire | --bench | --schedules | \
      --family | --layers | --hidden | --heads | --kv-heads | --ffn | --sequence | --batch | --vocab | \
      --micro-batch | --micro-batches | --divide | --chunks)
      (($# > 1)) || fail 2 "$1: found no value, expected one; see --help" ;;
    *) fail 2 "found argument '$1', expected one of those in --help" ;;
  esac
  case $1 in
    --gbps) gbps=$2 ;;
    --burst-kb) burst_kb=$2 ;;
    --json) json=$2 ;;
    --peer) peer=$2 ;;
    --layout) layout=$2 ;;
    --repeats) repeats=$2 ;;
    --wire) wire=$2 ;;
    --bench) bench=$2 ;;
    --schedules) only_bench+=("$1" "$2") ;;
    *) work+=("$1" "$2") ;;
  esac
  shift 2
done
is_above_zero "$gbps" || fail 2 "--gbps: found '$gbps', expected a number above 0"
is_count "$burst_kb" && ((burst_kb >= LEAST_BURST_KB && burst_kb <= MOST_BURST_KB)) ||
  fail 2 "--burst-kb: found '$burst_kb', expected $LEAST_BURST_KB to $MOST_BURST_KB"
is_count "$repeats" || fail 2 "--repeats: found '$repeats', expected a number above 0"
[[ $wire == f32 || $wire == bf16 ]] || fail 2 "--wire: found '$wire', expected f32 or bf16"
[[ $layout =~ ^(tp2|pp2|dp2)$ ]] || fail 2 "--layout: found '$layout', expected tp2, pp2 or dp2"
[[ -z $peer || $layout != pp2 || $wire == f32 ]] ||
  fail 2 "--wire: found '$wire', expected f32 with --layout pp2 and a peer, which has no other"
[[ $layout == pp2 || " ${work[*]} " != *" --chunks "* ]] ||
  fail 2 "--chunks: found with --layout $layout, expected --layout pp2"
[[ $layout == tp2 || " ${work[*]} " != *" --divide "* ]] ||
  fail 2 "--divide: found with --layout $layout, expected --layout tp2"
[[ $wire == f32 || $layout != dp2 ]] ||
  fail 2 "--wire: found '$wire', expected f32 with --layout dp2, which sends gradients alone"
[[ -z $peer || $peer == torch ]] || fail 2 "--peer: found '$peer', expected torch"
[[ -x $bench ]] || fail 2 "--bench: found no program $bench; build stretto-bench first"
(($(nproc) >= 2)) || fail 77 "found $(nproc) core, expected 2, one for each rank"
nodes=2 node_ranks=1 pinned=yes
need_nodes taskset chrt

run_peer() { # FILE PROGRAM
  [[ $peer == torch ]] || return 0
  if [[ -z ${STRETTO_PEER_PYTHON-} ]]; then
    echo '{"skipped": "STRETTO_PEER_PYTHON is not set; tests/bench/peer_env.sh"}' >"$1"
    return
  fi
  echo "PyTorch" >&2
  run_ranks "$STRETTO_PEER_PYTHON" "$FOLDER/$2" --ranks 2 --interface shaped --json "$1" \
    --repeats $(((repeats + 1) / 2)) "${same[@]}"
}

# measure_beside PEER PARTS COMMAND...: a command of stretto-bench between two halves of its peer. Of
# its report, PARTS are what it has timed.
measure_beside() {
  local program=$1 parts=$2 code=0
  run_peer "$scratch/peer.before.json" "$program"
  by_address=yes run_ranks "$bench" "${@:3}" --json "$json" --repeats "$repeats" "${same[@]}" \
    "${only_bench[@]}" || code=$?
  ((code == 0)) && [[ -n $peer ]] || return "$code"
  run_peer "$scratch/peer.after.json" "$program"
  PYTHONPATH=$FOLDER python3 - "$json" "$parts" "$scratch"/peer.*.json <<'PYTHON'
import json, statistics, sys
import disturbed
report, after, before = (json.load(open(path)) for path in (sys.argv[1], *sys.argv[3:]))
report["peer"] = after
for first, v in zip(before.get("variants", []), after.get("variants", [])):
    if "skipped" not in v:
        v["samples"] = first["samples"] + v["samples"]
        v["step_seconds"] = statistics.median(v["samples"])
for v in after.get("variants", []):
    if "skipped" not in v:
        disturbed.add(report, v["name"], v["samples"])
json.dump(report, open(sys.argv[1], "w"), indent=2)
ours = min(report[sys.argv[2]], key=lambda v: v["step_seconds"])
for v in after.get("variants", [{"name": "", **after}]):
    print(f"torch {v['name']}: " + (v.get("skipped") or f"{v['step_seconds']:.3f} s" + (
        "" if disturbed.programs(report) else
        f", {v['step_seconds'] / ours['step_seconds']:.3f} of the "
        f"time of {ours.get('name') or ours['order']}")))
if disturbed.programs(report):
    print(disturbed.text(report))
PYTHON
}

# calibrate COMMAND FLAGS...: measures the costs that predict what the command will measure, with
# programs that it does not run. Sets `costs`, the flag of the command.
calibrate() {
  local code=0
  costs=()
  rm -f "$json.costs"
  echo "calibration" >&2
  by_address=yes run_ranks "$bench" calibrate "$json.costs" "$@" "${same[@]}" \
    "${only_bench[@]}" || code=$?
  case $code in
    0) costs=(--costs "$json.costs") ;;
    3) echo "$ME: the calibration did not settle: no step is predicted from it, and no plan found" >&2 ;;
    *) fail "$code" "stretto-bench calibrate failed" ;;
  esac
}

same=("${work[@]}")
make_pair "$gbps" || fail 77 "network namespaces or the tbf queue cannot be made here"
keep_awake
case $layout in
  pp2)
    [[ -n $peer ]] || same+=(--wire "$wire")
    calibrate pipeline --pp 2
    measure_beside torch_pipeline.py orders pipeline --pp 2 "${costs[@]}"
    exit
    ;;
  dp2)
    measure_beside torch_replicas.py variants replicas --dp 2
    exit
    ;;
esac
same+=(--wire "$wire")
calibrate overlap --ranks 2
run_peer "$scratch/peer.before.json" torch_peer.py
code=0
by_address=yes run_ranks "$bench" overlap --ranks 2 --gbps "$gbps" --json "$scratch/overlap.json" \
  --repeats "$repeats" "${costs[@]}" "${same[@]}" "${only_bench[@]}" || code=$?
[[ -s $scratch/overlap.json ]] || fail "$code" "stretto-bench overlap failed"
run_peer "$scratch/peer.after.json" torch_peer.py
python3 "$FOLDER/overlap_report.py" --burst $((burst_kb * 1024)) --load "$load" --out "$json" \
  "$scratch/overlap.json" "$scratch"/peer.*.json || code=1
exit "$code"
