#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The bundle of a program runs from an empty folder, without environment, with its own libraries.
#
#   bundle_test.sh SCRIPTS STRETTO_BENCH GPU_SCRIPT
set -euo pipefail
scripts=$1 bench=$2 gpu=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; exit 1; }

echo right >"$work/answers.txt"
"$scripts/make.sh" --driver 580 --golden "$work/answers.txt" --script "$gpu" "$work/a.tar.gz" "$bench" >"$work/make.log" || fail "$(cat "$work/make.log")"
grep -qE 'MiB, needs glibc 2\.[0-9]+, NVIDIA driver 580$' "$work/make.log" || fail "printed: $(cat "$work/make.log")"
mkdir "$work/elsewhere"
tar -C "$work/elsewhere" -xzf "$work/a.tar.gz"
cd "$work/elsewhere/stretto-bundle"

env -i ./bin/stretto-bench --help | grep -q 'usage: stretto-bench' || fail "no --help without environment"
env -i ./run.sh --help | grep -q 'needs driver 580' || fail "run.sh --help does not say what it needs"
# The script of all benchmarks finds the program beside it; without a GPU it prints the reason.
code=0
env -i PATH="$PATH" CUDA_VISIBLE_DEVICES= ./gpu.sh --out "$work/results" >"$work/gpu.log" 2>&1 || code=$?
[[ $code -eq 77 ]] && grep -q '^skipped: ' "$work/gpu.log" || fail "gpu.sh ends with $code: $(cat "$work/gpu.log")"
# Every library that is not the C library's comes from the bundle.
foreign=$(env -i /usr/bin/ldd bin/stretto-bench | awk '$2 == "=>" {print $1, $3}' | grep -v "$PWD/bin/../lib/" |
  grep -vE '^(lib(c|m|pthread|dl|rt|resolv)\.so|linux-vdso)' || true)
[[ -z "$foreign" ]] || fail "not from the bundle: $foreign"
[[ -z "$(find . -name 'libc.so*' -o -name 'ld-linux*' -o -name 'libcuda.so*' -o -name 'libcublas*')" ]] || fail "packs what the machine has"

# CUDA's libraries are found in a Python's wheels; what the system knows, or the user names, comes first.
mkdir -p "$work"/{tools,site/nvidia/{cu13,cudnn,nccl}/lib,mine}
touch "$work"/site/nvidia/{cu13/lib/libcublasLt.so.13,cu13/lib/libnvrtc.so.13,cudnn/lib/libcudnn.so.9,nccl/lib/libnccl.so.2}
tool() { printf '#!/bin/sh\n%s\n' "$2" >"$work/tools/$1"; chmod +x "$work/tools/$1"; }
tool ldd 'echo "	libcublasLt.so.13 => not found"'
tool ldconfig 'echo "	libnvrtc.so.13 (libc6,x86-64) => /usr/lib/libnvrtc.so.13"; cat "$0.more"'
folders() { # ENVIRONMENT...: those that are found
  env -i PATH="$work/tools:$PATH" PYTHONPATH="$work/site" CUDA_HOME=/nowhere "$@" bash -c '. ./cuda_libraries.sh; cuda_libraries plug-in python3'
}
finds() { # FOLDERS ENVIRONMENT...
  local found
  found=$(folders "${@:2}")
  [[ "$found" == "$1" ]] || fail "found CUDA's libraries in '$found', expected '$1'"
}
wheels=$work/site/nvidia
touch "$work/tools/ldconfig.more"
finds "$wheels/cu13/lib:$wheels/cudnn/lib:$wheels/nccl/lib"
echo "	libcudnn.so.9 (libc6,x86-64) => /usr/lib/libcudnn.so.9" >"$work/tools/ldconfig.more"
finds "$wheels/cu13/lib:$wheels/nccl/lib"
# A wheel's cuDNN that is newer than the system's comes before it, an older one does not.
cudnn() { # VERSION FILE
  echo "unsigned long cudnnGetVersion(void) { return $1; }" | cc -shared -fPIC -x c -o "$2" -
}
mkdir "$work/system"
cudnn 91400 "$work/system/libcudnn.so.9"
cudnn 91900 "$wheels/cudnn/lib/libcudnn.so.9"
finds "$wheels/cu13/lib:$wheels/cudnn/lib:$wheels/nccl/lib" LD_LIBRARY_PATH="$work/system"
cudnn 92000 "$work/system/libcudnn.so.9"
finds "$wheels/cu13/lib:$wheels/nccl/lib" LD_LIBRARY_PATH="$work/system"
touch "$work/mine/libnccl.so.2"
finds "$work/mine:$wheels/cu13/lib" STRETTO_CUDA_LIBRARIES="$work/mine"
mkdir -p "$work/cuda/lib64" && touch "$work/cuda/lib64/libcublasLt.so.13"
finds "$work/cuda/lib64:$wheels/nccl/lib" CUDA_HOME="$work/cuda"

# run.sh passes, fails and skips as the packed tests do, and prints which.
put() { printf '#!/bin/sh\n%s\n' "$2" >"bin/$1"; chmod +x "bin/$1"; }
put good_test 'grep -q right "$STRETTO_GOLDEN/answers.txt"'
put idle_test 'echo "skipped: no GPU: none"; exit 77'
env -i PATH="$PATH" ./run.sh >"$work/run.log" || fail "$(cat "$work/run.log")"
grep -q '^passed: good_test$' "$work/run.log" || fail "$(cat "$work/run.log")"
grep -q '^skipped: idle_test: no GPU: none$' "$work/run.log" || fail "$(cat "$work/run.log")"

# Under compute-sanitizer, where there is one and it is let in.
put kernels_good_test 'exit 0'
sanitize() { env -i PATH="$PATH" STRETTO_COMPUTE_SANITIZER="$work/sanitizer" ./run.sh --sanitize >"$work/run.log"; }
sanitizer() { printf '#!/bin/sh\n%s\n' "$1" >"$work/sanitizer"; chmod +x "$work/sanitizer"; }
sanitize || fail "$(cat "$work/run.log")"
grep -q "^skipped: compute-sanitizer: no $work/sanitizer on this machine" "$work/run.log" || fail "$(cat "$work/run.log")"
sanitizer 'echo "device not supported"; exit 1'
sanitize || fail "$(cat "$work/run.log")"
grep -q '^skipped: compute-sanitizer: it cannot watch a program here: device not supported$' "$work/run.log" || fail "$(cat "$work/run.log")"
sanitizer 'shift 4; case "$*" in *devices) exit 0 ;; esac; exec "$@"'
sanitize || fail "$(cat "$work/run.log")"
for line in 'passed: memcheck good_test' 'passed: memcheck kernels_good_test' 'passed: racecheck kernels_good_test' \
  'skipped: memcheck idle_test: no GPU: none'; do
  grep -q "^$line\$" "$work/run.log" || fail "no '$line' in: $(cat "$work/run.log")"
done
! grep -q 'racecheck good_test' "$work/run.log" || fail "racecheck of what is no kernel test"
sanitizer 'case "$2 $*" in *devices) exit 0 ;; racecheck*) exit 99 ;; esac; shift 4; exec "$@"'
if sanitize; then fail "what the sanitizer finds passes"; fi
grep -q '^failed: racecheck kernels_good_test$' "$work/run.log" || fail "$(cat "$work/run.log")"

put bad_test 'exit 1'
if env -i PATH="$PATH" ./run.sh >"$work/run.log"; then fail "a failed test passes"; fi
grep -q '^failed: bad_test$' "$work/run.log" || fail "$(cat "$work/run.log")"

# An archive above its limit is an error.
if "$scripts/make.sh" --limit 0 "$work/b.tar.gz" /bin/true >/dev/null 2>"$work/error"; then fail "no limit"; fi
grep -q 'expected at most 0 MiB' "$work/error" || fail "$(cat "$work/error")"
