#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Models in and out, with real daemons: import, export and training in between change no bit; a run continues from an export;
# logits are compared with those of transformers. Prints one line per stage with its seconds. The commands of
# docs/FINETUNING.md are tested by tests/docs/guides_test.py.
#
#   tests/integration/model_roundtrip.sh [--report FILE] [--keep]
#
#   --report FILE  also write what is printed to FILE
#   --keep         leave the folder with logs and models; its name is printed
# Exit: 0; 1 a stage failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
bin=$PWD/build/release/bin golden=$PWD/tests/golden/models files=$PWD/tests/integration/model_files.py
keep=false report=""
while (($# > 0)); do
  case "$1" in
    --report) [[ $# -gt 1 ]] || { echo "--report: found nothing, expected a file" >&2; exit 2; }
      report=$(realpath -m "$2"); shift 2 ;;
    --keep) keep=true; shift ;;
    *) sed -n '3,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done

source tests/integration/own_home.sh
export PATH=$bin:$PATH
state=$HOME/.local/state/stretto
data=$state/data checkpoints=$state/checkpoints
mkdir -p "$data" "$work/out"
say() { echo "$*"; [[ -z "$report" ]] || echo "$*" >>"$report"; }

cluster_starts() {
  stretto up --slots 2 --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 >"$work/up.log" 2>&1 &
  cluster=$!
  STRETTO_COORDINATOR=$(timeout 60 tail -f -n +1 --pid="$cluster" "$work/up.log" | sed -n '/STRETTO_COORDINATOR=/{s/.*STRETTO_COORDINATOR=\([^ ]*\).*/\1/p;q}')
  export STRETTO_COORDINATOR
  [[ -n "$STRETTO_COORDINATOR" ]] || fail "the cluster did not start: $(cat "$work/up.log")"
}

# NAME of every Hugging Face model of the golden ones.
hf_models() { for folder in "$golden"/*/config.json; do basename "$(dirname "$folder")"; done; }
llmc_models() { for file in "$golden"/*/model.bin; do basename "$(dirname "$file")"; done; }

import_export() {
  local model
  for model in $(hf_models); do
    stretto checkpoint export "hf:$golden/$model" --format hf --output "$work/out/$model" && python3 "$files" same-hf "$golden/$model" "$work/out/$model" || return
  done
  for model in $(llmc_models); do
    stretto checkpoint export "llmc:$golden/$model/model.bin" --format llmc --output "$work/out/$model" &&
      python3 "$files" same-llmc "$golden/$model/model.bin" "$work/out/$model/model.bin" || return
  done
}

# Ranks that a golden model's key heads can be divided among.
tp_size() { if [[ $1 == llama_tied ]]; then echo 1; else echo 2; fi; }

# submit JOB MODEL-NAME STEPS MORE: a job on the golden model, whose own tokens are its data.
submit() {
  local folder
  folder=$(cut -d: -f2 <<<"$2")
  folder=${folder#golden/} folder=${folder%/model.bin}
  python3 "$files" tokens "$golden/$folder" "$data/$folder.bin" || return
  {
    echo "name: $1"
    (cd "$data" && stretto checkpoint inspect "$2" --spec) || return
    cat <<YAML
data: {prefix: "llmc:$folder.bin"}
parallelism: {tp_size: $(tp_size "$folder")}
optimizer: {decay_steps: 6}
steps: $3
micro_batch_size: 2
$4
YAML
  } >"$work/$1.yaml" && stretto job submit "$work/$1.yaml" --wait
}

import_no_steps_export() {
  local model job
  cp -r "$golden" "$data/golden" || return
  for model in $(hf_models); do
    job=import-${model//_/-}
    submit "$job" "hf:golden/$model" 0 "" && stretto checkpoint export "$checkpoints/$job" --format hf --output "$work/out/$job" &&
      python3 "$files" same-hf "$golden/$model" "$work/out/$job" || return
  done
  for model in $(llmc_models); do
    job=import-${model//_/-}
    submit "$job" "llmc:golden/$model/model.bin" 0 "" && stretto checkpoint export "$checkpoints/$job" --format llmc --output "$work/out/$job" &&
      python3 "$files" same-llmc "$golden/$model/model.bin" "$work/out/$job/model.bin" || return
  done
}

train_export_train() {
  local model name rank
  for model in gpt2_prefixed llama3; do
    name=${model//_/-}
    submit "straight-$name" "hf:golden/$model" 6 "" && submit "half-$name" "hf:golden/$model" 3 "" || return
    stretto checkpoint export "$checkpoints/half-$name" --format hf --dtype f32 --optimizer --output "$data/exported-$name" || return
    submit "rest-$name" "hf:golden/$model" 6 "checkpoint: {resume_from: \"hf:exported-$name\"}" || return
    [[ $(stretto job metrics "rest-$name" | wc -l) -eq 4 ]] || fail "rest-$name: expected steps 4 to 6" || return
    for rank in 0 1; do
      cmp "$checkpoints"/{straight,rest}-"$name"/step-00000006/rank-0000$rank.safetensors || return
    done
  done
}

# Of the golden models and of what import_export made of them. Writes the table to $work/logits.
logits() {
  local model folder name difference differences
  for model in $(hf_models) $(llmc_models); do
    differences=()
    for folder in "$golden/$model" "$work/out/$model"; do
      name=hf:$folder
      [[ -e $folder/config.json ]] || name=llmc:$folder/model.bin
      stretto sample "$name" --prompt-ids "$(python3 "$files" prompt "$golden/$model")" --tokens 0 --logits "$work/$model.logits" || return
      difference=$(python3 "$files" logits "$golden/$model" "$work/$model.logits") || return
      differences+=("$difference")
    done
    printf '  %-14s %-10s %s\n' "$model" "${differences[@]}" >>"$work/logits"
  done
}

passed=0 failed=0 begin=$SECONDS
stage() { # FUNCTION WHAT
  local start=$SECONDS code=0
  if [[ "$1" == cluster_starts ]]; then "$1" >"$work/$1.log" 2>&1 || code=$?; else ("$1") >"$work/$1.log" 2>&1 || code=$?; fi
  if ((code == 0)); then
    say "passed   $(printf %4d $((SECONDS - start))) s  $2"; passed=$((passed + 1))
  else
    say "FAILED   $(printf %4d $((SECONDS - start))) s  $2"; tail -n 25 "$work/$1.log" | sed 's/^/    /'; failed=$((failed + 1))
  fi
}

[[ -z "$report" ]] || : >"$report" || exit 2
stage cluster_starts "the cluster starts"
stage import_export "import, export: equal bytes of every tensor"
stage import_no_steps_export "import, train no steps, export: equal bytes of every tensor"
stage train_export_train "train, export, train on: the bits of training on"
stage logits "logits within 1e-4 of those of transformers, of the exports too"
if [[ -s $work/logits ]]; then
  say "  model          greatest difference of a logit, of the export's"
  while IFS= read -r line; do say "$line"; done <"$work/logits"
fi
say "$passed passed, $failed failed in $((SECONDS - begin)) s"
((failed == 0)) || exit 1
