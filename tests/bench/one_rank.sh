#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One rank alone on one core: our step and PyTorch's, in turn, so that both meet the same machine.
set -euo pipefail

FOLDER=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'TEXT'
usage: tests/bench/one_rank.sh [FLAGS] [-- FLAGS OF THE WORK]
Measures the step of one rank with stretto-bench and with PyTorch (eager and torch.compile), in
turn, prints the ratios and writes JSON. PyTorch is taken from STRETTO_PEER_PYTHON
(tests/bench/peer_env.sh makes it); without it only ours is measured, and the reason printed.
  --rounds N      turns (default: 4)
  --repeats N     steps of each program in a turn (default: 3)
  --core N        that everything runs on (default: 1)
  --json FILE     what was measured (default: one_rank.json)
  --bench FILE    stretto-bench (default: build/release/bin/stretto-bench)
flags of the work, for both: --layers, --hidden, --heads, --sequence, --batch, --vocab N
Exit: 0; 1 a run failed; 2 arguments.
TEXT
}

fail() { # CODE MESSAGE
  echo "one_rank.sh: $2" >&2
  exit "$1"
}

rounds=4 repeats=3 core=1 json=one_rank.json
bench=$FOLDER/../../build/release/bin/stretto-bench
while (($# > 0)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    --rounds | --repeats | --core | --json | --bench)
      (($# > 1)) || fail 2 "$1: found no value, expected one; see --help"
      declare "${1#--}=$2"
      shift 2
      ;;
    *) fail 2 "found argument '$1', expected one of those in --help" ;;
  esac
done
for name in rounds repeats; do
  [[ ${!name} =~ ^[1-9][0-9]*$ ]] || fail 2 "--$name: found '${!name}', expected a number above 0"
done
[[ -x $bench ]] || fail 2 "--bench: found no program $bench; build stretto-bench first"
taskset -c "$core" true 2>/dev/null || fail 2 "--core: found '$core', expected a core of this machine"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
[[ -n ${STRETTO_PEER_PYTHON-} ]] ||
  echo "one_rank.sh: PyTorch is left out: STRETTO_PEER_PYTHON is not set; tests/bench/peer_env.sh" >&2
for ((round = 0; round < rounds; ++round)); do
  taskset -c "$core" "$bench" overlap --tp1 --repeats "$repeats" --json "$scratch/ours.$round" \
    "$@" >/dev/null || fail 1 "stretto-bench overlap --tp1 failed"
  [[ -z ${STRETTO_PEER_PYTHON-} ]] ||
    taskset -c "$core" "$STRETTO_PEER_PYTHON" "$FOLDER/torch_peer.py" --repeats "$repeats" \
      --json "$scratch/peer.$round" "$@" >/dev/null || fail 1 "torch_peer.py failed"
done

python3 - "$scratch" "$rounds" "$json" <<'PYTHON'
import json, pathlib, statistics, sys
folder, rounds = pathlib.Path(sys.argv[1]), range(int(sys.argv[2]))
load = lambda name: [json.loads(path.read_text()) for path in
                     (folder / f"{name}.{i}" for i in rounds) if path.exists()]
ours, peers = load("ours"), load("peer")
report = {"t_step": [run["t_step"] for run in ours],
          "gemm_share": statistics.median(run["gemm_share"] for run in ours), "peers": []}
print(f"stretto: {statistics.median(report['t_step']):.3f} s a step, "
      f"its matrix products alone {report['gemm_share']:.1%} of it")
for variants in zip(*(peer["variants"] for peer in peers)):
    name = f"torch {peers[0]['version']} {variants[0]['name']}"
    if any("skipped" in v for v in variants):
        reason = next(v["skipped"] for v in variants if "skipped" in v)
        report["peers"].append({"name": name, "skipped": reason})
        print(f"{name}: skipped: {reason}")
        continue
    times = [v["t_step"] for v in variants]
    ratios = [theirs / mine for theirs, mine in zip(times, report["t_step"])]
    report["peers"].append({"name": name, "t_step": times, "speed_up": statistics.median(ratios)})
    print(f"{name}: {statistics.median(times):.3f} s, {statistics.median(ratios):.3f} of ours "
          f"(turns: {', '.join(f'{r:.3f}' for r in ratios)})")
pathlib.Path(sys.argv[3]).write_text(json.dumps(report) + "\n")
PYTHON
