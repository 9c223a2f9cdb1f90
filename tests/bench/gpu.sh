#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks and benchmarks of a GPU, each benchmark with its PyTorch peer behind it. Runs from an unpacked bundle (bin/ beside it)
# and from the source tree. Whatever a part does, the next one runs, and what is known so far is packed after each.
set -uo pipefail

FOLDER=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'TEXT'
usage: gpu.sh [FLAGS] [CALL]
Three calls, in this order; without one all three.
  truth    the checks; kernels with cuDNN's attention off and on; a step of 4 layers of full width, and its ledger against
           CUPTI's trace; the peers of both
  step     the step of llama2-7b (of 16 layers below 130 GiB of memory) and its peer; compute-sanitizer's racecheck of attention's
           tiles and of sliced steps
  overlap  where blocks run under a limit on SMs; schedules over an emulated link, leaving 8, 0, 4 and 16 SMs to collectives
Prints every row as soon as it is known, and a table of at most 60 lines last. A part that fails, ends too late or cannot run is
a row with its reason. Figures are `verified` if every check that they need has passed with these programs on this device, else
`unverified`.
  --out FOLDER      gets results.tar.gz and table.txt (default: gpu-results). A results.tar.gz that is there is continued:
                    its checks count, its measured choices of algorithms are used, its other results are kept
  --budget SECONDS  in all; a part that no longer fits is skipped (default: 540 for each call)
  --parts LIST      by comma, a name or the beginning of one (default: all of the call)
  --list            prints the parts with the seconds that they are expected to take, and runs none
  --device-index N  of `stretto-bench devices` (default: 0)
  --bench FILE      stretto-bench (default: bin/stretto-bench here, else build/release/bin/stretto-bench of the tree)
  --dry-run         tiny shapes in f32: shows that all parts run and report, on an emulated device too
environment:
  STRETTO_COMPUTE_SANITIZER  compute-sanitizer (default: the one on PATH)
  STRETTO_PEER_PYTHON     a Python with PyTorch for CUDA (default: python3)
  STRETTO_CUDA_LIBRARIES  folders of CUDA's libraries to look in before CUDA's own and the Python's wheels
Exit: 0; 1 a part failed or ended too late; 2 arguments; 77 there is no GPU, with the reason.
TEXT
}

fail() { # CODE MESSAGE
  echo "gpu.sh: $2" >&2
  exit "$1"
}

out=gpu-results budget="" parts="" device_index=0 call="" dry_run=false list=false
bench=$FOLDER/bin/stretto-bench
[[ -x $bench ]] || bench=$FOLDER/../../build/release/bin/stretto-bench
while (($# > 0)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --dry-run) dry_run=true; shift ;;
    --list) list=true; shift ;;
    --out | --budget | --parts | --device-index | --bench)
      (($# > 1)) || fail 2 "$1: found no value, expected one; see --help"
      name=${1#--}
      declare "${name//-/_}=$2"
      shift 2
      ;;
    truth | step | overlap) call=$1; shift ;;
    *) fail 2 "found argument '$1', expected truth, step, overlap or one of those in --help" ;;
  esac
done
[[ -n $budget ]] || budget=$((540 * (${#call} > 0 ? 1 : 3)))
[[ $budget =~ ^[1-9][0-9]*$ ]] || fail 2 "--budget: found '$budget', expected a number of seconds above 0"
[[ $device_index =~ ^[0-9]+$ ]] || fail 2 "--device-index: found '$device_index', expected a number"
[[ $out != *[[:space:]]* ]] || fail 2 "--out: found '$out', expected a path without spaces"
[[ -x $bench ]] || fail 2 "--bench: found no program $bench; build stretto-bench first"
bench=$(cd "$(dirname "$bench")" && pwd)/$(basename "$bench")
BIN=$(dirname "$bench") PYTHON=${STRETTO_PEER_PYTHON:-python3}
LIBRARIES=$FOLDER/cuda_libraries.sh
[[ -e $LIBRARIES ]] || LIBRARIES=$FOLDER/../../deploy/bundle/cuda_libraries.sh
. "$LIBRARIES"
[[ ! -d $FOLDER/golden ]] || export STRETTO_GOLDEN=$FOLDER/golden # a bundle's

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
RESULTS=$WORK/results

libraries=$(cuda_libraries "$BIN/libstretto_cuda.so" "$PYTHON")
# PyTorch has libraries of its own, which ours must not replace: only our programs see these folders.
ours=(env "STRETTO_CUDA_LIBRARIES=$libraries" "LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
$list || devices=$(timeout -k 10 60 "${ours[@]}" "$bench" devices 2>&1) || { echo "skipped: ${devices#error: }"; exit 77; }
device=$(sed -n "s/^$device_index  *//p" <<<"${devices-}")
memory=$(sed -n 's/.* \([0-9]*\)\.[0-9] GiB$/\1/p' <<<"$device")

# The work of the parts. 7B with f32 masters and moments is 113 GiB before activations.
full="--model llama2-7b --dtype bf16" layers=32 many="--repeats 10"
((${memory:-0} >= 130)) || layers=16
brief="--warm-up-seconds 4 --seconds 8" long="--warm-up-seconds 10 --seconds 30" once="--warm-up-seconds 0 --seconds 0" cupti=1
wide="--model llama2-7b --layers 4 --ranks 8 --batch 2 --micro-batches 8 --dtype bf16 --wire bf16 --repeats 1"
tokens=65536 few=32768 alpha=12 peer_flags=""
# GB/s of an all-reduce, its blocks, and the SMs left to them, the best known first. As many blocks as NCCL has channels, and the
# fewest that can move as much (37 GB/s each).
links="270:8:8 270:8:0 270:8:4 270:8:16 270:16:16 270:16:0"
if $dry_run; then
  full="--model llama-tiny --dtype f32 --sequence 16" layers=1 many="--limit-size 64 --working-set-mib 1 --repeats 1 --warm-up 0"
  brief=$once long=$once cupti="" tokens=32 few=32 alpha=50 peer_flags=--dry-run
  links="270:1:8 270:1:0 270:1:4 270:1:16 270:2:16 270:2:0"
  wide="--model llama-tiny --layers 1 --ranks 2 --batch 2 --micro-batches 2 --sequence 16 --repeats 1 --steps 1 --warm-up-steps 0"
fi
gpu="--device cuda --device-index $device_index --tuning $RESULTS/tuning"
peer="$PYTHON -u $FOLDER/torch_gpu_peer.py --device-index $device_index $peer_flags"
kernels="$bench kernels $gpu $full --layers $layers $many --micro-batch 2 --json {}"
step="$bench step $gpu $full --micro-batch 1 --json {}"
products=CudaProductsTest.* attention=*Cudnn*:*CudaAttention* room=SmRoomTest.*
sanitizer=${STRETTO_COMPUTE_SANITIZER:-compute-sanitizer}
race="$sanitizer --tool racecheck --error-exitcode 99"

# CALL NAME EXPECTED LIMIT CHECKS COMMAND: the part takes EXPECTED seconds or less where all is well; it is skipped where fewer are
# left, and ended after LIMIT. Those EXPECTED of a call fit its budget (gpu_test.sh). Its figures need CHECKS, by comma; `-`: it
# is a check; `peer`: they are PyTorch's. {} is the file that it writes JSON to.
PARTS=(
  "truth checks.kernels 50 100 - $BIN/kernels_cuda_test --gtest_filter=*:-$products:$attention:$room"
  "truth checks.products 20 60 - $BIN/kernels_cuda_test --gtest_filter=$products"
  "truth checks.cudnn 40 60 - $BIN/kernels_cuda_test --gtest_filter=$attention"
  "truth checks.steps 60 100 - $BIN/cuda_steps_test"
  "truth kernels.own 50 70 kernels,products env STRETTO_CUDNN=0 $kernels"
  "truth kernels.cudnn 20 40 kernels,cudnn env STRETTO_CUDNN=1 $kernels --only attention"
  "truth peer.kernels 40 60 peer $peer kernels --like $RESULTS/kernels.own.json --json {}"
  "truth step.wide.own 50 70 kernels,products,steps env STRETTO_CUDNN=0 $step --layers $((layers > 4 ? 4 : layers)) --tokens $few $brief"
  "truth step.wide.cudnn 50 70 kernels,products,cudnn,steps env STRETTO_CUDNN=1 $step --layers $((layers > 4 ? 4 : layers)) --tokens $few $brief"
  "truth step.ledger 40 60 kernels,products,cudnn,steps env STRETTO_CUPTI=$cupti $step --layers $((layers > 4 ? 4 : layers)) --tokens $few $once"
  "truth peer.step.wide 90 150 peer $peer step --like $RESULTS/step.wide.own.json --json {} $brief"
  "step step.7b 110 150 kernels,products,cudnn,steps $step --layers $layers --tokens $tokens $long"
  "step step.7b.selective 80 120 kernels,products,cudnn,steps $step --layers $layers --tokens $tokens --recompute selective $brief"
  "step peer.step.7b 200 220 peer $peer step --like $RESULTS/step.7b.json $RESULTS/step.7b.selective.json --json {} $brief
    --variants compile.cudnn,compile.flash,eager.flash"
  "step race.attention 60 70 - $race $BIN/kernels_cuda_test --gtest_filter=*/AttentionTilesTest.*/bf16"
  "step race.steps 60 70 - $race $BIN/cuda_steps_test --gtest_filter=*/CudaStepsTest.*gpt_domino_row_tp2*"
  "overlap checks.room 30 60 - $BIN/kernels_cuda_test --gtest_filter=$room"
)
for link in $links; do
  IFS=: read -r gbytes blocks sms <<<"$link"
  PARTS+=("overlap overlap.${gbytes}x$blocks.sms-$sms 80 130 kernels,products,cudnn,steps $bench overlap $gpu --json {}
    --collective-sms $sms $wide --schedules megatron_sync,megatron_async,domino_row,helix --slices 1,2
    --link-latency-us $alpha --link-gbytes $gbytes --link-blocks $blocks")
done
NAMES=$(for part in "${PARTS[@]}"; do awk '{print $2; exit}' <<<"$part"; done)

selected() { # CALL NAME
  local wanted
  [[ -z $call || $call == "$1" ]] || return 1
  [[ -n $parts ]] || return 0
  for wanted in ${parts//,/ }; do
    [[ $2 == "$wanted"* || $2 == "peer.$wanted"* ]] && return 0
  done
  return 1
}
for wanted in ${parts//,/ }; do
  grep -qE "^(peer\.)?${wanted//./\\.}" <<<"$NAMES" ||
    fail 2 "--parts: found '$wanted', expected some of $(tr '\n' ' ' <<<"$NAMES")"
done

if $list; then
  for part in "${PARTS[@]}"; do
    read -r -d '' -a words <<<"$part"
    ! selected "${words[0]}" "${words[1]}" || printf '%-8s %-24s %4s s, at most %s s\n' "${words[@]:0:4}"
  done
  exit 0
fi

mkdir -p "$out"
out=$(cd "$out" && pwd)
[[ ! -e $out/results.tar.gz ]] || tar -C "$WORK" -xzf "$out/results.tar.gz" ||
  fail 2 "--out: found $out/results.tar.gz, which cannot be unpacked, expected one of gpu.sh"
mkdir -p "$RESULTS/tuning"
# A check counts for the programs that it ran with, on its device.
identity=$({ cat "$BIN"/{stretto-bench,libstretto_cuda.so,kernels_cuda_test,cuda_steps_test} 2>/dev/null
  echo "$device $(cat /sys/module/nvidia/version 2>/dev/null)"; } | sha256sum | cut -c1-16)
{
  echo "$device"
  echo "driver $(cat /sys/module/nvidia/version 2>/dev/null || echo unknown), programs $identity, CUDA's libraries in ${libraries:-the system}"
} | tee "$RESULTS/machine.txt"
sampler=""
if command -v nvidia-smi >/dev/null; then
  nvidia-smi -i "$device_index" -l 1 --format=csv \
    --query-gpu=timestamp,name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu,ecc.errors.uncorrected.volatile.total \
    >>"$RESULTS/clocks.csv" 2>&1 &
  sampler=$!
fi

pack() {
  tar -C "$WORK" -czf "$out/.results" results && mv "$out/.results" "$out/results.tar.gz"
}
finish() {
  trap - TERM INT
  [[ -z $sampler ]] || kill "$sampler" 2>/dev/null
  python3 "$FOLDER/gpu_table.py" "$RESULTS" >"$out/table.txt" 2>"$WORK/error" ||
    { cat "$RESULTS/machine.txt"; cut -f2-6 "$RESULTS/parts.tsv"; tail -1 "$WORK/error"; } | head -60 >"$out/table.txt"
  cp "$out/table.txt" "$RESULTS/"
  pack
  echo
  cat "$out/table.txt"
}
# Bash calls this between commands and while it waits for a part.
interrupted() {
  [[ -z $running ]] || { kill "$(cat "$WORK/pid")" 2>/dev/null; note failed "$running" $((SECONDS - began)) "" "gpu.sh was interrupted"; }
  finish
  exit 1
}
running="" began=0
trap interrupted TERM INT

failures=0
note() { # STATUS NAME SECONDS MARK REASON: the part's row, and the line of parts.tsv in place of an earlier one
  { awk -F'\t' -v name="$2" '$3 != name' "$RESULTS/parts.tsv" 2>/dev/null
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$identity" "$1" "$2" "$3" "$4" "$(tr '\t\n' '  ' <<<"$5")"; } >"$WORK/parts"
  mv "$WORK/parts" "$RESULTS/parts.tsv"
  echo "$1: $2 ($3 s)${4:+ $4}${5:+: $5}"
  pack
}
mark_of() { # CHECKS: what figures that need them carry
  local check found
  case $1 in - | peer) return ;; esac
  $dry_run && { echo "unverified (dry run)"; return; }
  for check in ${1//,/ }; do
    found=$(awk -F'\t' -v id="$identity" -v name="checks.$check" '$1 == id && $3 == name {print $2}' "$RESULTS/parts.tsv" 2>/dev/null)
    [[ $found == passed ]] || { echo "unverified (checks.$check: ${found:-not run})"; return; }
  done
  echo verified
}
show() { # NAME MARK: the rows of a part as they come; a test that passes is none
  local line count=0
  while IFS= read -r line || [[ -n $line ]]; do
    [[ $line != "[ RUN "* && $line != "[       OK"* && -n $line ]] || continue
    ((++count <= 100)) && printf '%s%s | %s\n' "$1" "${2:+ ${2%% *}}" "$line"
    ((count != 101)) || echo "$1 | more rows in $1.txt of results.tar.gz"
  done
}
# A group of tests has passed if tests passed in it: one that ran none proves nothing.
checked() { # NAME
  local passed
  passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests\{0,1\}\.$/\1/p' "$RESULTS/$1.txt" | tail -1)
  ((${passed:-0} > 0)) && echo "$passed tests"
}
# Steps under STRETTO_CUPTI fail where the ledger disagrees; none of them proves nothing.
compared() { # NAME
  local steps
  steps=$(grep -c "^ledger against CUPTI's " "$RESULTS/$1.txt")
  ((steps > 0)) && echo "$steps steps agree"
}
reason_of() { # NAME
  local failed
  failed=$(sed -n 's/^\[  FAILED  \] \(.*\) (.*ms)$/\1/p' "$RESULTS/$1.txt")
  if [[ -n $failed ]]; then
    echo "$(wc -l <<<"$failed") tests failed, the first: $(head -1 <<<"$failed")"
  else
    grep -v '^$' "$RESULTS/$1.txt" | tail -1 | sed 's/^skipped: //' | cut -c1-300
  fi
}
run() { # CALL NAME EXPECTED LIMIT CHECKS COMMAND...
  local name=$2 expected=$3 limit=$4 checks=$5 command=("${@:6}") left=$((budget - 10 - SECONDS)) mark program
  mark=$(mark_of "$checks")
  rm -f "$RESULTS/$name".{json,txt}
  ! $dry_run || expected=1
  ((left >= expected)) || { note skipped "$name" 0 "" "$left s of the budget left, $expected s needed"; return; }
  ((left > limit)) || limit=$left
  program=${command[0]}
  [[ $program != env ]] || program=${command[2]}
  command -v "$program" >/dev/null || { note skipped "$name" 0 "" "no $program on this machine"; return; }
  command=("${command[@]//\{\}/$RESULTS/$name.json}")
  [[ $checks == peer ]] || command=("${ours[@]}" "${command[@]}")
  running=$name began=$SECONDS
  {
    exec 3>&1
    [[ $name != overlap.* ]] || exec 3>/dev/null # the JSON, which is in a file; for people it uses standard error
    timeout -k 10 "$limit" "${command[@]}" 2>&1 >&3 &
    echo $! >"$WORK/pid"
    wait $!
    echo $? >"$WORK/code"
  } | tee "$RESULTS/$name.txt" | show "$name" "$mark" &
  wait $!
  running=""
  ended "$name" "$checks" "$mark" "$limit" $((SECONDS - began)) "$(cat "$WORK/code")"
}
ended() { # NAME CHECKS MARK LIMIT SECONDS CODE
  local tests=""
  case $6 in
    0)
      if [[ $2 == - ]] && ! tests=$(checked "$1"); then
        note skipped "$1" "$5" "" "ran no test: $(reason_of "$1")"
      elif [[ $1 == step.ledger ]] && ! tests=$(compared "$1"); then
        note skipped "$1" "$5" "" "no step was compared"
      else
        note passed "$1" "$5" "$3" "$tests"
      fi
      ;;
    77) note skipped "$1" "$5" "" "$(reason_of "$1")" ;;
    124 | 137)
      failures=$((failures + 1))
      note timeout "$1" "$5" "$3" "the limit is $4 s; last: $(reason_of "$1")"
      ;;
    *)
      if [[ $1 == step.ledger ]] && grep -qE 'cannot open CUPTI|this build had no cupti' "$RESULTS/$1.txt"; then
        note skipped "$1" "$5" "" "$(reason_of "$1")"
        return
      fi
      # Some machines, of clouds above all, do not let the sanitizer in, and then no test begins.
      if [[ $1 == race.* ]] && ! grep -q '^\[==========\] Running' "$RESULTS/$1.txt"; then
        note skipped "$1" "$5" "" "compute-sanitizer cannot watch a program here: $(reason_of "$1")"
        return
      fi
      failures=$((failures + 1))
      note failed "$1" "$5" "$3" "exit code $6: $(reason_of "$1")"
      ;;
  esac
}
for part in "${PARTS[@]}"; do
  read -r -d '' -a words <<<"$part"
  selected "${words[0]}" "${words[1]}" && run "${words[@]}"
done
finish
exit $((failures > 0))
