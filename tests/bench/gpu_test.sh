#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu.sh and torch_gpu_peer.py as far as they go without a GPU: programs that pretend to have one and fail in every way, and
# a dry run of the three calls on the emulated device.
# usage: gpu_test.sh STRETTO_BENCH FAKES    FAKES has the emulated plug-in and a driver (tests/integration/gpu)
set -uo pipefail

bench=$1 fakes=$2
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$folder/expect.sh"

gpu() { "$folder/gpu.sh" --out "$scratch/out" "$@"; }
peer() { PYTHONDONTWRITEBYTECODE=1 python3 "$folder/torch_gpu_peer.py" "$@"; }
said() { sed 's/ ([0-9]* s)//' "$scratch/said" | grep -qF -- "$1"; } # how long a part took is not compared
unpack() { rm -rf "$scratch/results" && tar -C "$scratch" -xzf "${1:-$scratch/out}/results.tar.gz"; }

expect "help is no error" exits_with 0 gpu --help
expect "an unknown argument is refused" exits_with 2 gpu --tempo 2
expect "a budget of nothing is refused" exits_with 2 gpu --bench "$bench" --budget 0
expect "the refusal says which" said "--budget: found '0', expected"
expect "without a GPU it is skipped" env CUDA_VISIBLE_DEVICES= bash -c '"$@"; (($? == 77))' _ \
  "$folder/gpu.sh" --bench "$bench" --out "$scratch/out" >"$scratch/said"
expect "with the reason" grep -q "^skipped: ." "$scratch/said"

# Programs that have a GPU. stretto-bench writes what --json asks for. A part does as $scratch/bin/PART.does says.
mkdir "$scratch/bin"
cat >"$scratch/bin/program" <<'PROGRAM'
#!/usr/bin/env bash
name=$(basename "$0") folder=$(dirname "$0")
[[ $1 == devices ]] && { echo "0  NVIDIA H200  GPU-1  capability 9.0  132 SMs  139.8 GiB"; exit; }
[[ $name != stretto-bench ]] || name=$1
case "$*" in *:-Cuda*) ;; *CudaProductsTest*) name=products ;; *Cudnn*) name=cudnn ;;
  *SmRoomTest*) name=room ;; esac
[[ $name != step || -z ${STRETTO_CUPTI-} ]] || name=ledger
echo "$name $*" >>"$folder/calls"
if [[ -e $folder/$name.does ]]; then . "$folder/$name.does"; fi
[[ $name != ledger ]] || { echo "ledger against CUPTI's 9 activities: shift 0.0 us"; exit; }
[[ $name == kernels || $name == step ]] || { echo "[  PASSED  ] 12 tests."; exit; }
while (($# > 0)); do
  if [[ $1 == --json ]]; then
    echo '{"copy": {"bytes": 8, "seconds": 2e-12}, "product": {"flops": 7, "seconds": 1e-14}, "work": {"layers": 32},
           "kernels": [{"place": "fwd qkv gemm", "flops": 6, "seconds": 1e-14}], "recompute": "none",
           "tokens_per_second": 30000, "mfu": 0.5, "memory_bytes": 1}' >"$2"
  fi
  shift
done
PROGRAM
chmod +x "$scratch/bin/program"
for name in stretto-bench kernels_cuda_test cuda_steps_test; do ln -s program "$scratch/bin/$name"; done
does() { echo "$2" >"$scratch/bin/$1.does"; }
alone=(env STRETTO_PEER_PYTHON=/nowhere/python STRETTO_COMPUTE_SANITIZER="$scratch/bin/sanitizer" "$folder/gpu.sh" --out "$scratch/out" --bench "$scratch/bin/stretto-bench")

# The parts of a call in the order of what they are worth, and what they are expected to take.
for call in truth step overlap; do
  "${alone[@]}" --list "$call" >"$scratch/$call.list"
  expect "the parts of $call fit its budget" awk -v call="$call" '
    $1 != call || !($3 > 0) || !($7 > $3) {print "found " $0; wrong = 1}
    {sum += $3}
    END {if (NR == 0 || sum > 540 - 10) {print "found " sum + 0 " s of " NR " parts, expected at most 530 s"; wrong = 1}
      exit wrong}' "$scratch/$call.list"
done
expect "a part of overlap is not begun to be killed" awk '$2 ~ /^overlap/ && $3 < 60 {wrong = 1} END {exit wrong}' \
  "$scratch/overlap.list"
expect "the best settings are first" test "$(awk '{printf "%s ", $2}' "$scratch/overlap.list" | cut -d' ' -f1-3)" = \
  "checks.room overlap.270x8.sms-8 overlap.270x8.sms-0"
expect "a list runs nothing" test ! -e "$scratch/bin/calls"

expect "an unknown part is refused" exits_with 2 gpu --bench "$scratch/bin/stretto-bench" --parts kernels,fugue
expect "the refusal names the parts" said "found 'fugue', expected some of checks.kernels checks.products"

expect "what has not been checked is measured" exits_with 0 "${alone[@]}" --parts step.7b
expect "and is unverified" said "passed: step.7b unverified (checks.kernels: not run)"
expect "a figure says so" grep -q '^unverified step.7b  *32 layers, none' "$scratch/out/table.txt"

does products 'printf "[  FAILED  ] CudaProductsTest.Bits (3 ms)\n[  FAILED  ] CudaProductsTest.Bits\n"; exit 1'
does cudnn 'echo "[  SKIPPED ] 2 tests."; echo "[  PASSED  ] 0 tests."; exit'
does cuda_steps_test 'echo "[ RUN      ] CudaStepsTest.Hangs"; exec sleep 600'
# Truth in the order of its parts, with the time for the checks of steps cut short.
sed 's/"truth checks.steps [0-9]* [0-9]* /"truth checks.steps 1 1 /' "$folder/gpu.sh" >"$scratch/gpu.sh"
ln -s "$folder/gpu_table.py" "$folder/../../deploy/bundle/cuda_libraries.sh" "$scratch"
expect "failed checks do not stop the figures" exits_with 1 env STRETTO_PEER_PYTHON=/nowhere/python bash "$scratch/gpu.sh" truth \
  --out "$scratch/out" --bench "$scratch/bin/stretto-bench"
for row in "passed: checks.kernels: 12 tests" \
  "failed: checks.products: exit code 1: 1 tests failed, the first: CudaProductsTest.Bits" \
  "skipped: checks.cudnn: ran no test" \
  "timeout: checks.steps: the limit is 1 s; last: [ RUN      ] CudaStepsTest.Hangs" \
  "passed: kernels.own unverified (checks.products: failed)" \
  "passed: kernels.cudnn unverified (checks.cudnn: skipped)" \
  "passed: step.wide.own unverified (checks.products: failed)" \
  "skipped: peer.step.wide: no /nowhere/python on this machine"; do
  expect "the row '$row'" said "$row"
done
expect "cuDNN is off and then on" test "$(grep -c '^kernels .*--only attention' "$scratch/bin/calls")" -eq 1
expect "the table is at the end" bash -c 'tail -"$(wc -l <"$1/table.txt")" "$2" | cmp - "$1/table.txt"' _ "$scratch/out" "$scratch/said"
expect "of at most 60 lines" test "$(wc -l <"$scratch/out/table.txt")" -le 60
expect "results of other calls are kept" grep -q "^unverified step.7b  *32 layers, none" "$scratch/out/table.txt"
unpack
expect "figures carry their mark" python3 - "$scratch/results/figures.json" <<'PYTHON'
import json, sys
figures = json.load(open(sys.argv[1]))
assert {f["mark"] for f in figures} == {"unverified"}, figures
assert any(f["part"] == "kernels.own" and f["what"] == "fwd qkv gemm" and f["value"] == 600 for f in figures), figures
PYTHON

rm "$scratch"/bin/*.does
expect "checks that pass" exits_with 0 "${alone[@]}" --parts checks
expect "verify what is measured in a later call" exits_with 0 "${alone[@]}" step
expect "which says so" said "passed: step.7b verified"
expect "a figure says so too" grep -q '^verified  *step.7b  *32 layers, none' "$scratch/out/table.txt"
expect "but what was measured before is as it was" grep -q '^unverified kernels.own ' "$scratch/out/table.txt"
echo "# another build" >>"$scratch/bin/program"
expect "checks of other programs" exits_with 0 "${alone[@]}" --parts step.7b
expect "verify nothing" said "passed: step.7b unverified (checks.kernels: not run)"

# The ledger of a step is compared with CUPTI's trace in a part of its own.
expect "a ledger that agrees" exits_with 0 "${alone[@]}" --parts step.ledger
expect "is a row with its steps" said "passed: step.ledger unverified (checks.kernels: not run): 1 steps agree"
does ledger 'echo "error: INTERNAL: ledger against CUPTI'"'"'s 9 activities: compute: DISAGREES"; exit 1'
expect "one that does not fails" exits_with 1 "${alone[@]}" --parts step.ledger
expect "and says where" said "exit code 1: error: INTERNAL: ledger against CUPTI's 9 activities: compute: DISAGREES"
does ledger 'echo "error: NOT_FOUND: cannot open CUPTI: libcupti.so.13: no such file"; exit 1'
expect "without CUPTI there is none" exits_with 0 "${alone[@]}" --parts step.ledger
expect "with the reason" said "skipped: step.ledger: error: NOT_FOUND: cannot open CUPTI: libcupti.so.13"
does ledger 'exit 0'
expect "steps that were not compared prove nothing" exits_with 0 "${alone[@]}" --parts step.ledger
expect "and say so" said "skipped: step.ledger: no step was compared"
rm "$scratch/bin/ledger.does"
does room 'printf "[  FAILED  ] SmRoomTest.Products (3 ms)\n"; exit 1'
expect "room that collectives do not have" exits_with 1 "${alone[@]}" --parts checks.room
expect "is a row of its own" said "failed: checks.room: exit code 1: 1 tests failed, the first: SmRoomTest.Products"
rm "$scratch/bin/room.does"

# Racecheck of a few tests, where there is a compute-sanitizer and it is let in.
race() { "${alone[@]}" --parts race; }
expect "without a sanitizer there is no check" exits_with 0 race
expect "with the reason" said "skipped: race.attention: no $scratch/bin/sanitizer on this machine"
sanitizer() { printf '#!/usr/bin/env bash\n%s\n' "$1" >"$scratch/bin/sanitizer"; chmod +x "$scratch/bin/sanitizer"; }
sanitizer 'echo "device not supported"; exit 1'
expect "one that is not let in" exits_with 0 race
expect "says why" said "skipped: race.steps: compute-sanitizer cannot watch a program here: device not supported"
sanitizer 'echo "[==========] Running 4 tests"; echo "RACECHECK SUMMARY: 1 hazard"; exit 99'
expect "a hazard fails" exits_with 1 race
expect "and is the reason" said "failed: race.steps: exit code 99: RACECHECK SUMMARY: 1 hazard"
sanitizer 'echo "$*" >>"$0.calls"; shift 4; exec "$@"'
expect "no hazard passes" exits_with 0 race
expect "with the tests" said "passed: race.attention: 12 tests"
expect "of steps too" grep -q '^--tool racecheck --error-exitcode 99 .*/cuda_steps_test --gtest_filter=.*domino_row' \
  "$scratch/bin/sanitizer.calls"

# What is measured when a part dies or the whole run is stopped comes home.
does kernels 'echo "  12.5 us  fwd qkv gemm"; kill -SEGV $$'
expect "a part that dies" exits_with 1 "${alone[@]}" --parts kernels.own,step.wide.own
expect "leaves its rows" said "kernels.own unverified |   12.5 us  fwd qkv gemm"
expect "and is one" said "failed: kernels.own unverified (checks.kernels: not run): exit code 139: "
expect "the next one runs" said "passed: step.wide.own"
unpack
expect "its rows are in the archive" grep -q "12.5 us" "$scratch/results/kernels.own.txt"
does step 'echo "step 1: 0.5 s"; touch "$folder/begun"; exec sleep 600'
"${alone[@]}" --parts kernels.own,step.wide.own >"$scratch/said" 2>&1 &
for ((i = 0; i < 600; ++i)); do [[ ! -e $scratch/bin/begun ]] || break; sleep 0.1; done
kill $!
wait $!
expect "a run that is stopped fails" test $? -eq 1
expect "it says what it did" grep -q "^failed: step.wide.own ([0-9]* s): gpu.sh was interrupted" "$scratch/said"
expect "and ends with the table" grep -q "^failed *step.wide.own .*interrupted" <(tail -30 "$scratch/said")
unpack
expect "with all rows in the archive" grep -q "step 1: 0.5 s" "$scratch/results/step.wide.own.txt"
rm "$scratch"/bin/*.does
expect "what no longer fits the budget is skipped" exits_with 0 "${alone[@]}" --parts overlap.270x8.sms-16 --budget 20
expect "with the reason" grep -q "^skipped: overlap.270x8.sms-16 .* s of the budget left, 80 s needed" "$scratch/said"

# All three calls with the real program on the emulated device.
mkdir "$scratch/dry"
cp "$bench" "$fakes/emulated/libstretto_cuda.so" "$scratch/dry"
cp "$scratch/bin/program" "$scratch/dry/kernels_cuda_test"
cp "$scratch/bin/program" "$scratch/dry/cuda_steps_test"
export LD_LIBRARY_PATH=$fakes/driver
export STRETTO_COMPUTE_SANITIZER=$scratch/bin/sanitizer
dry() { "$folder/gpu.sh" --dry-run --out "$scratch/home" --bench "$scratch/dry/stretto-bench" "$1"; }
for call in truth step; do
  expect "a dry run of $call" exits_with 0 dry $call
done
dry overlap >"$scratch/said" 2>&1 # its rows are below
((failures == 0)) || cat "$scratch/said"
unset LD_LIBRARY_PATH
unpack "$scratch/home"
expect "every part of the calls has its row and its figures" python3 - "$scratch" "$folder/gpu.sh" <<'PYTHON'
import json, pathlib, re, sys
folder = pathlib.Path(sys.argv[1])
rows = [line.split("\t") for line in (folder / "results/parts.tsv").read_text().splitlines()]
found = {row[2]: row[1] for row in rows}
# A time below its bound fails the row, not its figures: the emulated device has a clock of its own, and others use this CPU.
found |= {row[2]: "passed" for row in rows if row[1] == "failed" and " expected at least 0.99 of " in row[5]}
names = re.findall(r'^  "(?:truth|step|overlap) (\S+)', pathlib.Path(sys.argv[2]).read_text(), re.M)
names += [f"overlap.270x{blocks}.sms-{sms}" for blocks, sms in ((1, 8), (1, 0), (1, 4), (1, 16), (2, 16), (2, 0))]
assert set(names) == set(found) and len(names) == 23, (names, found)
assert found.pop("step.ledger") == "skipped", rows  # no CUPTI sees the emulated device
for name in found:
    assert found[name] in (("passed", "skipped") if name.startswith("peer.") else ("passed",)), (name, found)
figures = json.loads((folder / "results/figures.json").read_text())
assert all(f["value"] > 0 and f["mark"] == "unverified" for f in figures), figures
measured = {name for name in found if not re.match("checks|race|peer", name)}
assert {f["part"] for f in figures} == measured, measured
PYTHON
expect "its table has at most 60 lines" test "$(wc -l <"$scratch/home/table.txt")" -le 60

like=$scratch/like.json
echo '{"dtype": "bf16", "work": {"family": "gpt"}}' >"$like"
for script in torch_gpu_peer torch_gpu_kernels torch_gpu_step gpu_table; do
  expect "$script compiles" env PYTHONPYCACHEPREFIX="$scratch/pycache" python3 -m py_compile "$folder/$script.py"
done
expect "the table wants a folder" exits_with 2 python3 "$folder/gpu_table.py" "$scratch/nowhere"
expect "the peer wants a report of ours" exits_with 2 peer step --like "$scratch/none.json"
expect "and a whole one" exits_with 2 peer step --like "$like"
expect "saying what is missing" said "found no work.layers, expected the JSON of stretto-bench step"
cp "$scratch/results/step.7b.json" "$like"
expect "an unknown variant is refused" exits_with 2 peer step --like "$scratch/none.json" "$like" --variants eager.flash,jit.flash
expect "the refusal says so" said "found 'jit.flash', expected MODE.BACKEND with one of compile,eager"
expect "no repeats are refused" exits_with 2 peer kernels --like "$like" --repeats 0
expect "without PyTorch or a GPU the peer is skipped" env CUDA_VISIBLE_DEVICES= bash -c '"$@"; (($? == 77))' _ \
  env PYTHONDONTWRITEBYTECODE=1 python3 "$folder/torch_gpu_peer.py" step --like "$like" >"$scratch/said"
expect "with the reason" grep -q "^skipped: " "$scratch/said"
((failures == 0))
