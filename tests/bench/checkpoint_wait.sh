#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# For how long checkpoints block a step: a job on one rank of this machine saves synchronously and asynchronously in turn. Needs
# build/release.
#
#   tests/bench/checkpoint_wait.sh [--layers N] [--rounds N] [--out FILE]
#
#   --layers N  of a GPT of hidden size 768 (default 4: 53 million parameters, a checkpoint of 0.6 GB)
#   --rounds N  of both jobs (default 3)
#   --out FILE  a report as JSON
# Prints for both ways the median seconds that training waited for a checkpoint, those of 30 steps, and their ratios.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
layers=4 rounds=3 out=/dev/null
while (($#)); do
  case "$1" in
    --layers) layers=$2 ;;
    --rounds) rounds=$2 ;;
    --out) out=$2 ;;
    *) sed -n '3,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift 2
done
PATH=$PWD/build/release/bin:$PATH
work=$(mktemp -d) cluster=
trap '[[ -z "$cluster" ]] || { kill "$cluster"; wait "$cluster"; } 2>/dev/null; rm -rf "$work"' EXIT
: >"$work/up.log"
stretto up --slots 1 --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 --state-dir "$work/state" >"$work/up.log" 2>&1 &
cluster=$!
STRETTO_COORDINATOR=$(timeout 60 tail -f -n +1 --pid="$cluster" "$work/up.log" | sed -n '/STRETTO_COORDINATOR=/{s/.*STRETTO_COORDINATOR=\([^ ]*\).*/\1/p;q}') || true # sed leaves early
export STRETTO_COORDINATOR
stretto data prepare docs --output "$work/state/data/text" >/dev/null

for ((round = 1; round <= rounds; ++round)); do
  for asynchronous in false true; do
    name=$([[ $asynchronous == true ]] && echo asynchronous || echo synchronous)-$round
    cat >"$work/job.yaml" <<YAML
name: $name
model: {family: gpt, layers: $layers, hidden: 768, heads: 12, sequence_length: 128, vocab_size: 32000}
data: {prefix: text}
steps: 41
micro_batch_size: 2
checkpoint: {interval_steps: 10, keep: 1, asynchronous: $asynchronous}
YAML
    stretto job submit "$work/job.yaml" --follow >/dev/null
    stretto job metrics "$name" -o json >"$work/$name.json"
    rm -rf "$work/state/checkpoints/$name"
  done
done

python3 - "$work" "$rounds" "$out" <<'PYTHON'
import json, statistics, sys
work, rounds, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
report = {}
for name in ("synchronous", "asynchronous"):
    waits, walls = [], []
    for number in range(1, rounds + 1):
        steps = json.load(open(f"{work}/{name}-{number}.json"))
        # The last checkpoint is synchronous in both, and the first steps warm caches up.
        steps = [step for step in steps if 10 <= step["step"] < 40]
        walls.append(sum(step["wall_seconds"] for step in steps))
        for begin in range(0, len(steps), 10):  # all that belongs to one checkpoint
            waits.append(sum(step["checkpoint_wait_seconds"] for step in steps[begin:begin + 10]))
    report[name] = {"wait_seconds": statistics.median(waits), "waits": waits,
                    "run_seconds": statistics.median(walls), "runs": walls}
    print(f"{name}: training waited {report[name]['wait_seconds']:.3f} s "
          f"({min(waits):.3f} to {max(waits):.3f}) for a checkpoint, steps 10 to 39 took "
          f"{report[name]['run_seconds']:.2f} s ({min(walls):.2f} to {max(walls):.2f})")
for key, what in (("wait_seconds", "wait"), ("run_seconds", "run")):
    report[f"{what}_ratio"] = report["synchronous"][key] / report["asynchronous"][key]
    print(f"{what}: synchronous / asynchronous {report[f'{what}_ratio']:.2f}")
json.dump(report, open(out, "w"), indent=1)
PYTHON
