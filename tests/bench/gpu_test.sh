#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu.sh and torch_gpu_peer.py as far as they go without a GPU, and gpu.sh's order with a program that says yes to all.
# usage: gpu_test.sh STRETTO_BENCH
set -uo pipefail

bench=$1
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$folder/expect.sh"

gpu() { "$folder/gpu.sh" --out "$scratch/out" "$@"; }
peer() { PYTHONDONTWRITEBYTECODE=1 python3 "$folder/torch_gpu_peer.py" "$@"; }

expect "help is no error" exits_with 0 gpu --help
expect "an unknown argument is refused" exits_with 2 gpu --tempo 2
expect "a budget of nothing is refused" exits_with 2 gpu --bench "$bench" --budget 0
expect "the refusal says which" grep -q -- "--budget: found '0', expected" "$scratch/said"
expect "an unknown part is refused" exits_with 2 gpu --bench "$bench" --parts kernels,fugue
expect "the refusal names the parts" grep -q "found 'fugue', expected some of checks kernels.gpt3-2.7b" "$scratch/said"
expect "without a GPU it is skipped" env CUDA_VISIBLE_DEVICES= bash -c '"$@"; (($? == 77))' _ \
  "$folder/gpu.sh" --bench "$bench" --out "$scratch/out" >"$scratch/said"
expect "with the reason" grep -q "^skipped: ." "$scratch/said"

# A program that has a GPU, writes what --json asks for, and fails at the step of one model.
cat >"$scratch/stretto-bench" <<'BENCH'
#!/usr/bin/env bash
[[ $1 == devices ]] && { echo "0  fake"; exit; }
[[ "$*" == step*llama2* ]] && { echo "error: no memory"; exit 1; }
while (($# > 0)); do
  if [[ $1 == --json ]]; then
    echo '{"copy": {"bytes_per_second": 4e12}, "product": {"flops_per_second": 7e14}, "kernels": [],
           "tokens_per_second": 30000, "mfu": 0.5}' >"$2"
  fi
  shift
done
BENCH
chmod +x "$scratch/stretto-bench"
without_peer=(env STRETTO_PEER_PYTHON=/nowhere/python "$folder/gpu.sh" --out "$scratch/out" --bench "$scratch/stretto-bench")
expect "what has not been checked is not measured" exits_with 0 "${without_peer[@]}" --parts overlap
expect "and it says so" grep -q "^skipped: overlap.llama2-7b: the checks have not passed into $scratch/out; run --parts checks,overlap" "$scratch/said"
echo '{"passed": "see checks.txt"}' >"$scratch/out/checks.json"
expect "a part that fails fails the run" exits_with 1 "${without_peer[@]}" --parts kernels,step
expect "it says which" grep -q "^failed: step.llama2-7b: exit code 1: error: no memory" "$scratch/said"
expect "the others passed" grep -q "^passed: step.gpt3-2.7b" "$scratch/said"
expect "a peer that is not there is skipped" grep -q "^skipped: peer.step.gpt3-2.7b: no /nowhere/python" "$scratch/said"
expect "the figures stand at the end" grep -q "^gpt3-2.7b: 30000 tokens/s, MFU 50.0%" "$scratch/said"
expect "every part has its JSON" python3 - "$scratch/out" <<'PYTHON'
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
load = lambda name: json.loads((folder / f"{name}.json").read_text())
assert load("step.llama2-7b") == {"failed": "1"}, load("step.llama2-7b")
assert load("peer.step.gpt3-2.7b") == {"skipped": "no /nowhere/python"}
assert load("kernels.llama2-7b")["copy"]["bytes_per_second"] == 4e12
assert load("overlap.llama2-7b")["skipped"].startswith("the checks have not passed"), load("overlap.llama2-7b")
PYTHON
expect "what no longer fits the budget is skipped" exits_with 0 "${without_peer[@]}" --parts overlap --budget 30
expect "with the reason" grep -q "^skipped: overlap.llama2-7b: 30 s of the budget left, 200 s needed" "$scratch/said"

like=$scratch/like.json
echo '{"dtype": "bf16", "work": {"family": "gpt"}}' >"$like"
expect "the peer compiles" env PYTHONPYCACHEPREFIX="$scratch/pycache" python3 -m py_compile "$folder/torch_gpu_peer.py"
expect "the peer wants a report of ours" exits_with 2 peer step --like "$scratch/none.json"
expect "and a whole one" exits_with 2 peer step --like "$like"
expect "saying what is missing" grep -q "found no work.layers, expected the JSON of stretto-bench step" "$scratch/said"
"$bench" step --model gpt-tiny --dtype f32 --sequence 16 --micro-batches 1 --seconds 0 --warm-up-seconds 0 \
  --json "$like" >/dev/null || { echo "FAILED: stretto-bench step"; failures=$((failures + 1)); }
expect "an unknown variant is refused" exits_with 2 peer step --like "$like" --variants eager,jit
expect "the refusal says so" grep -q "found 'jit', expected some of eager,compile" "$scratch/said"
expect "no repeats are refused" exits_with 2 peer kernels --like "$like" --repeats 0
expect "without PyTorch or a GPU the peer is skipped" env CUDA_VISIBLE_DEVICES= bash -c '"$@"; (($? == 77))' _ \
  env PYTHONDONTWRITEBYTECODE=1 python3 "$folder/torch_gpu_peer.py" step --like "$like" >"$scratch/said"
expect "with the reason" grep -q "^skipped: " "$scratch/said"
((failures == 0))
