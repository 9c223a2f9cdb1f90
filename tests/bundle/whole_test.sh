#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The whole bundle: it has at most 56 MiB, which is what a machine with a GPU may take, and there it finds CUDA's libraries.
#
#   whole_test.sh CMAKE BUILD CUDA_HOME HAS_CUDNN     the last is 1 if the build has attention by cuDNN
set -euo pipefail
cmake=$1 build=$2 cuda=$3 cudnn=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; exit 1; }

"$cmake" --build "$build" --target bundle >"$work/build.log" 2>&1 || fail "$(tail -20 "$work/build.log")"
bytes=$(stat -c %s "$build/stretto-bundle.tar.gz")
echo "$bytes bytes"
((bytes <= 56 << 20)) || fail "the bundle has $bytes bytes, expected at most $((56 << 20))"
tar -C "$work" -xzf "$build/stretto-bundle.tar.gz"
cd "$work/stretto-bundle"
for file in stretto-bundle.spdx.json bin/{stretto-bench,libstretto_cuda.so,kernels_cuda_test,cuda_steps_test} gpu.sh gpu_table.py torch_gpu_{peer,kernels,step}.py; do
  [[ -s $file ]] || fail "found no $file in the bundle"
done
for program in libstretto_cuda.so kernels_cuda_test; do
  found=0
  ! grep -q cudnnGetVersion "bin/$program" || found=1
  ((found == cudnn)) || fail "attention by cuDNN in $program: found $found, expected $cudnn as in the build"
done
python3 -B "$(dirname "$0")/../deploy/package/bill.py" . stretto-bundle.spdx.json || fail "the bill of materials is wrong"
# Tests start, so that all their libraries were found; without a GPU they say so.
env -i PATH="$PATH" CUDA_HOME="$cuda" CUDA_VISIBLE_DEVICES= ./run.sh >"$work/run.log" 2>&1 || fail "$(cat "$work/run.log")"
for name in kernels_cuda_test cuda_steps_test; do
  grep -q "^skipped: $name: no GPU" "$work/run.log" || fail "$(cat "$work/run.log")"
done
