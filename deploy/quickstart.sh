#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a clean clone to a trained transformer: installs what is missing, builds what is shipped, starts a
# local cluster, trains a GPT of about 10 million parameters on real text with overlapped
# tensor parallelism, then compares schedules on an emulated slow link and on the real one.
#
#   deploy/quickstart.sh [--report FILE] [--steps N] [--state-dir DIR]
#
#   --report FILE    also write the figures as JSON
#   --steps N        steps of the training run (default 150)
#   --state-dir DIR  where jobs, data and checkpoints go (default build/quickstart-state, emptied first)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

report="" steps=150 state="$PWD/build/quickstart-state"
usage() { sed -n '3,11s/^# \{0,1\}//p' "$0"; }
while [[ $# -gt 0 ]]; do
  case "$1" in
    --report | --steps | --state-dir)
      [[ $# -ge 2 ]] || { echo "$1 needs a value" >&2; exit 2; }
      case "$1" in
        --report) report=$2 ;;
        --steps) steps=$2 ;;
        --state-dir) state=$2 ;;
      esac
      shift 2
      ;;
    -h | --help) usage; exit 0 ;;
    *) echo "unknown argument: $1" >&2; usage >&2; exit 2 ;;
  esac
done
[[ "$steps" =~ ^[1-9][0-9]*$ ]] || { echo "--steps: found '$steps', expected a positive number" >&2; exit 2; }

say() { printf '\n== %s\n' "$*"; }

say "install what is missing"
deploy/install_packages.sh
# Real text that every Debian has as a package: the Perl manual, about 10 MB of prose and code.
if ! ls /usr/share/perl/*/pod/perlfunc.pod >/dev/null 2>&1; then
  sudo=(); [[ $EUID -eq 0 ]] || sudo=(sudo)
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends perl-doc
fi
text=$(dirname "$(ls /usr/share/perl/*/pod/perlfunc.pod | head -1)")

say "build"
mkdir -p build
# A folder that tests/run.sh configured is used as it is.
[[ -f build/release/build.ninja ]] || cmake --preset release -DSTRETTO_TESTS=OFF >build/configure-release.log ||
  { cat build/configure-release.log; exit 1; }
cmake --build --preset release --target programs
PATH="$PWD/build/release/bin:$PATH"

say "start a cluster: a coordinator and a worker with two slots"
rm -rf "$state"
mkdir -p "$state/data"
stretto up --slots 2 --listen 127.0.0.1:0 --state-dir "$state" >"$state/up.log" 2>&1 &
cluster=$!
stop_cluster() {
  kill -INT "$cluster" 2>/dev/null || return 0
  wait "$cluster" 2>/dev/null || true
}
trap stop_cluster EXIT
trap 'exit 130' INT TERM
address=""
for _ in $(seq 300); do
  address=$(sed -n 's/.*STRETTO_COORDINATOR=\([^ ]*\).*/\1/p' "$state/up.log" | head -1)
  [[ -n "$address" ]] && break
  kill -0 "$cluster" 2>/dev/null || break
  sleep 0.1
done
[[ -n "$address" ]] || { cat "$state/up.log" >&2; echo "the cluster did not start" >&2; exit 1; }
export STRETTO_COORDINATOR=$address
stretto worker list

say "prepare data: $text"
stretto data prepare "$text" --output "$state/data/perl-manual"

# job_file NAME SCHEDULE SLICES STEPS MICRO_BATCH EXTRA
job_file() {
  cat >"$state/$1.yaml" <<YAML
name: $1
model: {preset: gpt-10m}
data: {prefix: perl-manual}
parallelism: {tp_size: 2}
schedule: $2
optimizer: {learning_rate: 1.0e-3, warmup_steps: $(($3 > 80 ? 40 : $3 / 2))}
precision: f32
steps: $3
micro_batch_size: $4
seed: 1234
$5
YAML
}

say "train: GPT with 10 million parameters, tp_size 2, domino_row"
job_file perl-gpt "{name: domino_row, parameters: {slices: 2}}" "$steps" 8 "checkpoint: {interval_steps: 50, keep: 2}"
stretto job submit "$state/perl-gpt.yaml" --follow
stretto job curve perl-gpt

say "compare schedules: 30 steps each, on an emulated 1 Gbit/s link and on the loopback wire"
runs=()
for link in 1g loopback; do
  for schedule in megatron-sync domino-row; do
    name="$schedule-$link"
    extra=$'checkpoint: {disabled: true}\nprofile: {steps: 3}'
    [[ $link == 1g ]] && extra+=$'\nemulated_link: {gigabits_per_second: 1, latency_microseconds: 50}'
    spec="{name: megatron_sync}"
    [[ $schedule == domino-row ]] && spec="{name: domino_row, parameters: {slices: 2}}"
    job_file "$name" "$spec" 30 4 "$extra"
    stretto job submit "$state/$name.yaml" --wait >/dev/null
    runs+=("$name")
  done
done
stretto job compare "${runs[@]}"

if [[ -n "$report" ]]; then
  # The training run's own figures on top, then the four runs.
  main=$(stretto job compare perl-gpt -o json)
  figure() { sed -n "s/^ *\"$1\": \([-0-9.e+]*\),\{0,1\}$/\1/p" <<<"$main" | head -1; }
  {
    printf '{\n  "first_loss": %s,\n  "last_loss": %s,\n' "$(figure first_loss)" "$(figure last_loss)"
    printf '  "submit_to_first_operation_seconds": %s,\n' "$(figure submit_to_first_operation_seconds)"
    printf '  "submit_to_first_step_seconds": %s,\n' "$(figure submit_to_first_step_seconds)"
    stretto job compare "${runs[@]}" -o json | tail -n +2
  } >"$report"
  echo "report: $report"
fi

say "look further (start the cluster again with: build/release/bin/stretto up --state-dir $state)"
cat <<TEXT
  stretto job describe perl-gpt        conditions, placement, ledger
  stretto job get perl-gpt -o json     everything, for programs
  stretto job logs perl-gpt --rank 0
  stretto job submit --help
  docs/ARCHITECTURE.md                 from job submit to a trained step, in the code
TEXT
