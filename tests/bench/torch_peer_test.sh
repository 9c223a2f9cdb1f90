#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# torch_peer.py: its arguments, which need no PyTorch; and a step of each family, which does
# (STRETTO_PEER_PYTHON). Then the peers of stages and replicas in the same way. Exit 77: the
# arguments are right, the steps were skipped.
set -uo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
peer=$here/torch_peer.py
. "$here/expect.sh"

refuses() { # MESSAGE ARGUMENTS...
  exits_with 2 python3 "$peer" "${@:2}" && grep -qF -- "$1" "$scratch/said"
}
expect "help is no error" exits_with 0 python3 "$peer" --help
expect "an unknown family" refuses "--family: invalid choice: 'bert'" --family bert
expect "an unknown variant" refuses "--variants: found async, expected eager or compile" \
  --variants async
expect "ranks without a folder" refuses "--rendezvous: expected a folder" --ranks 2
expect "heads that share no keys" refuses "--heads: found 12, expected a multiple of --kv-heads, 5" \
  --kv-heads 5
expect "keys that ranks cannot share" \
  refuses "--kv-heads: found 3, expected a multiple of --ranks, 2" \
  --ranks 2 --rendezvous . --kv-heads 3
expect "an MLP that ranks cannot share" refuses "--ffn: found 5, expected a multiple of --ranks, 2" \
  --ranks 2 --rendezvous . --ffn 5
expect "a division that is not even" \
  refuses "--divide: found 3, expected a divisor of 8, the sequences of a step" --divide 1,3
expect "divisions that are no numbers" refuses "--divide: found '1,x', expected numbers" \
  --divide 1,x
for peer_of in torch_pipeline torch_replicas; do
  peer=$here/$peer_of.py
  expect "help of $peer_of is no error" exits_with 0 python3 "$peer" --help
  expect "$peer_of without a folder" refuses "required: --rendezvous" --ranks 2
  expect "heads that $peer_of cannot cut" \
    refuses "--hidden: found 64, expected a multiple of --heads, 5" \
    --rendezvous . --hidden 64 --heads 5
done
peer=$here/torch_pipeline.py
expect "chunks that layers cannot fill" \
  refuses "--chunks: found 2, expected at least 2, and --layers, 6, a multiple of chunks x ranks, 4" \
  --rendezvous . --chunks 2
peer=$here/torch_peer.py
((failures == 0)) || exit 1

python=${STRETTO_PEER_PYTHON-}
[[ -n $python ]] || { echo "skipped: steps, as STRETTO_PEER_PYTHON is not set"; exit 77; }
small=(--layers 2 --hidden 64 --heads 8 --sequence 16 --batch 2 --micro-batches 2 --vocab 128
  --repeats 1)
for family in gpt llama; do
  work=("${small[@]}" --family "$family")
  [[ $family == gpt ]] || work+=(--kv-heads 4 --ffn 96)
  mkdir "$scratch/$family"
  "$python" "$peer" "${work[@]}" --ranks 2 --rank 1 --rendezvous "$scratch/$family" &
  # Compares every gradient with plain autograd on one rank before it times anything.
  expect "two ranks of $family" exits_with 0 "$python" "$peer" "${work[@]}" --ranks 2 --rank 0 \
    --rendezvous "$scratch/$family"
  expect "the report says its family" grep -q "\"family\": \"$family\"" "$scratch/said"
  wait
  expect "one rank of divided $family" exits_with 0 "$python" "$peer" "${work[@]}" \
    --variants eager --divide 1,4
  expect "each division is in the report" python3 - "$scratch/said" <<'PYTHON'
import json, sys
report = json.loads(open(sys.argv[1]).read().strip().splitlines()[-1])
assert [v["name"] for v in report["variants"]] == ["eager, 1 x 4", "eager, 4 x 1"], report
PYTHON
  expect "one rank of $family" exits_with 0 "$python" "$peer" "${work[@]}" --variants eager
done
for peer_of in torch_pipeline torch_replicas; do
  variants=2
  work=(--layers 4 --hidden 64 --heads 8 --sequence 16 --micro-batches 4 --vocab 128 --repeats 1
    --ranks 2 --rendezvous "$scratch/$peer_of")
  [[ $peer_of != torch_pipeline ]] || { work+=(--chunks 2) variants=3; }
  mkdir "$scratch/$peer_of"
  "$python" "$here/$peer_of.py" "${work[@]}" --rank 1 &
  # Compares the gradient's norm with plain autograd's before it times anything.
  expect "two ranks of $peer_of" exits_with 0 "$python" "$here/$peer_of.py" "${work[@]}" --rank 0
  expect "every variant of $peer_of is timed" \
    test "$(grep -o '"step_seconds"' "$scratch/said" | wc -l)" -eq "$variants"
  wait
done
((failures == 0))
