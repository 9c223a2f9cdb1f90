#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All checks and benchmarks of a GPU, in order, each with its PyTorch peer right behind it. Runs from an unpacked bundle
# (bin/ beside it) and from the source tree.
set -uo pipefail

FOLDER=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'TEXT'
usage: gpu.sh [FLAGS]
Writes one JSON and one text file per part to a folder, and clocks.csv with the GPU's clocks and power second by second.
A part that cannot run has {"skipped": "the reason"}, one that fails {"failed": code}. Steps and schedules are measured only
where the checks have passed into the same folder.
  --out FOLDER      (default: gpu-results)
  --budget SECONDS  in all; a part that no longer fits is skipped (default: 590)
  --parts LIST      by comma, a name or the begin of one (default: all)
                    checks  kernels.MODEL  step.MODEL  overlap.MODEL  of gpt3-2.7b and llama2-7b; peer.* run with theirs
  --device-index N  of `stretto-bench devices` (default: 0)
  --bench FILE      stretto-bench (default: bin/stretto-bench here, else build/release/bin/stretto-bench of the tree)
environment:
  STRETTO_PEER_PYTHON     a Python with PyTorch for CUDA (default: python3)
  STRETTO_CUDA_LIBRARIES  folders of CUDA's libraries that the system does not know
Exit: 0; 1 a part failed; 2 arguments; 77 there is no GPU, with the reason.
TEXT
}

fail() { # CODE MESSAGE
  echo "gpu.sh: $2" >&2
  exit "$1"
}

out=gpu-results budget=590 parts="" device_index=0
bench=$FOLDER/bin/stretto-bench
[[ -x $bench ]] || bench=$FOLDER/../../build/release/bin/stretto-bench
while (($# > 0)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --out | --budget | --parts | --device-index | --bench)
      (($# > 1)) || fail 2 "$1: found no value, expected one; see --help"
      name=${1#--}
      declare "${name//-/_}=$2"
      shift 2
      ;;
    *) fail 2 "found argument '$1', expected one of those in --help" ;;
  esac
done
[[ $budget =~ ^[1-9][0-9]*$ ]] || fail 2 "--budget: found '$budget', expected a number of seconds above 0"
[[ $device_index =~ ^[0-9]+$ ]] || fail 2 "--device-index: found '$device_index', expected a number"
[[ $out != *[[:space:]]* ]] || fail 2 "--out: found '$out', expected a path without spaces"
[[ -x $bench ]] || fail 2 "--bench: found no program $bench; build stretto-bench first"

# A part, the seconds that it needs at least, and its command; {} is the file that it writes JSON to.
GPU="--device cuda --device-index $device_index --tuning $out/tuning"
GPT="--model gpt3-2.7b --dtype bf16 --micro-batch 8"
LLAMA="--model llama2-7b --dtype bf16 --micro-batch 1 --recompute selective"
peer="${STRETTO_PEER_PYTHON:-python3} $FOLDER/torch_gpu_peer.py"
PARTS=(
  "checks 60 $FOLDER/run.sh"
  "kernels.gpt3-2.7b 60 $bench kernels $GPU $GPT --epilogues --json {}"
  "peer.kernels.gpt3-2.7b 40 $peer kernels --device-index $device_index --like $out/kernels.gpt3-2.7b.json --json {}"
  "kernels.llama2-7b 60 $bench kernels $GPU --model llama2-7b --dtype bf16 --micro-batch 2 --json {}"
  "peer.kernels.llama2-7b 40 $peer kernels --device-index $device_index --like $out/kernels.llama2-7b.json --json {}"
  "step.gpt3-2.7b 150 $bench step $GPU $GPT --json {}"
  "peer.step.gpt3-2.7b 200 $peer step --device-index $device_index --like $out/step.gpt3-2.7b.json --json {}"
  "step.llama2-7b 300 $bench step $GPU $LLAMA --json {}"
  "peer.step.llama2-7b 250 $peer step --device-index $device_index --like $out/step.llama2-7b.json --json {}"
  "overlap.llama2-7b 200 $bench overlap $GPU --model llama2-7b --layers 8 --ranks 8 --batch 2 --dtype bf16 --wire bf16
     --schedules megatron_sync,megatron_async,domino_row --slices 2,1 --repeats 3 --link-latency-us 12
     --link-gbytes 135,270 --link-blocks 2,4 --json {}"
)
NAMES=$(for part in "${PARTS[@]}"; do echo "${part%% *}"; done)

selected() { # NAME
  local wanted
  [[ -n $parts ]] || return 0
  for wanted in ${parts//,/ }; do
    [[ $1 == "$wanted"* || $1 == "peer.$wanted"* ]] && return 0
  done
  return 1
}
for wanted in ${parts//,/ }; do
  grep -qE "^(peer\.)?${wanted//./\\.}" <<<"$NAMES" ||
    fail 2 "--parts: found '$wanted', expected some of $(tr '\n' ' ' <<<"$NAMES")"
done

export LD_LIBRARY_PATH="${STRETTO_CUDA_LIBRARIES:-}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
devices=$("$bench" devices 2>&1) || { echo "skipped: ${devices#error: }"; exit 77; }
echo "$devices"

mkdir -p "$out/tuning"
sampler=""
if command -v nvidia-smi >/dev/null; then
  nvidia-smi -i "$device_index" -l 1 --format=csv \
    --query-gpu=timestamp,name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu,ecc.errors.uncorrected.volatile.total \
    >"$out/clocks.csv" 2>&1 &
  sampler=$!
fi
trap '[[ -z $sampler ]] || kill "$sampler" 2>/dev/null' EXIT

failures=0
note() { # NAME KEY VALUE: the JSON of a part that wrote none
  [[ -s $out/$1.json ]] || printf '{"%s": "%s"}\n' "$2" "$(tr -d '"\\\n' <<<"$3")" >"$out/$1.json"
}
run() { # NAME SECONDS COMMAND...
  local name=$1 needs=$2 left=$((budget - SECONDS)) command=("${@:3}") code
  rm -f "$out/$name.json"
  if [[ $name == step.* || $name == overlap.* ]] && ! grep -q '"passed"' "$out/checks.json" 2>/dev/null; then
    note "$name" skipped "the checks have not passed into $out; run --parts checks,${name%%.*}"
    echo "skipped: $name: the checks have not passed into $out; run --parts checks,${name%%.*}"
    return
  fi
  if ((left < needs)); then
    note "$name" skipped "$left s of the budget left, $needs s needed"
    echo "skipped: $name: $left s of the budget left, $needs s needed"
    return
  fi
  [[ -e ${command[0]} ]] || command -v "${command[0]}" >/dev/null || {
    note "$name" skipped "no ${command[0]}"
    echo "skipped: $name: no ${command[0]}"
    return
  }
  timeout -k 10 "$left" "${command[@]//\{\}/$out/$name.json}" >"$out/$name.txt" 2>&1
  code=$?
  case $code in
    0)
      note "$name" passed "see $name.txt"
      echo "passed: $name ($SECONDS s so far)"
      ;;
    77)
      note "$name" skipped "$(tail -1 "$out/$name.txt" | sed 's/^skipped: //')"
      echo "skipped: $name: $(tail -1 "$out/$name.txt" | sed 's/^skipped: //')"
      ;;
    *)
      note "$name" failed "$code"
      failures=$((failures + 1))
      echo "failed: $name: exit code $code: $(tail -1 "$out/$name.txt")"
      ;;
  esac
}
for part in "${PARTS[@]}"; do
  read -r -d '' -a words <<<"$part"
  selected "${words[0]}" && run "${words[@]}"
done

# Ours and the peer's, side by side.
command -v python3 >/dev/null && python3 - "$out" <<'PYTHON'
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
def load(name):
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}
for model in ("gpt3-2.7b", "llama2-7b"):
    ours, peer = load(f"kernels.{model}"), load(f"peer.kernels.{model}")
    if "copy" in ours:
        print(f"{model}: copy {ours['copy']['bytes_per_second'] / 1e9:.0f} GB/s, "
              f"product {ours['product']['flops_per_second'] / 1e12:.0f} TFLOP/s; PyTorch: " +
              (", ".join(f"{row['operation']} {row['bytes_per_second'] / 1e9:.0f} GB/s"
                         if row["bytes"] else
                         f"{row['operation']} {row['flops_per_second'] / 1e12:.0f} TFLOP/s"
                         for row in peer["kernels"]) if "kernels" in peer else
               peer.get("skipped", "not run")))
    ours, peer = load(f"step.{model}"), load(f"peer.step.{model}")
    if "tokens_per_second" in ours:
        mfu = f", MFU {ours['mfu']:.1%}" if ours["mfu"] else ""
        print(f"{model}: {ours['tokens_per_second']:.0f} tokens/s{mfu}")
        for v in peer.get("variants", []):
            print(f"  PyTorch {v['name']}: " + (v.get("skipped") or
                  f"{v['tokens_per_second']:.0f} tokens/s, ours is "
                  f"{ours['tokens_per_second'] / v['tokens_per_second']:.3f} of it"))
PYTHON
exit $((failures > 0))
