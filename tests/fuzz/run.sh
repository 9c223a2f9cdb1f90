#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzz targets with clang under address and undefined-behaviour sanitizers and runs each.
#
#   tests/fuzz/run.sh [SECONDS_EACH]    default 60; needs the Debian packages clang and libclang-rt-14-dev
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seconds=${1:-60}
command -v clang++ >/dev/null || { echo "no clang++ here: apt-get install clang libclang-rt-14-dev" >&2; exit 1; }
cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug \
  -DSTRETTO_FUZZ=ON -DSTRETTO_SANITIZER=address,undefined,fuzzer-no-link -DSTRETTO_UNITY=OFF
# Seeds: where the first file ends (2 bytes), then a file of each version, whole and cut short.
token_files() {
  local zeros; zeros=$(printf '\\0%.0s' {1..1012})
  printf "\x04\x06\x88\xd8\x34\x01\x01\0\0\0\x03\0\0\0${zeros}\x50\xc4\x01\0\x50\xc4" >"$1/gpt2"
  printf "\x04\x08\xa1\xd9\x34\x01\x07\0\0\0\x02\0\0\0${zeros}\0\xf4\x01\0\x01\0\0\0" >"$1/llama3"
  head -c 1028 "$1/gpt2" >"$1/short"
}
targets=(program_text_fuzz checkpoint_fuzz dataset_fuzz token_files_fuzz tokenizer_json_fuzz hf_config_fuzz llmc_model_fuzz job_file_fuzz)
cmake --build build/fuzz --target "${targets[@]}"
for target in "${targets[@]}"; do
  mkdir -p "build/fuzz/corpus/$target"
  [[ $target == program_text_fuzz ]] && cp tests/golden/schedule/*.txt "build/fuzz/corpus/$target/"
  [[ $target == checkpoint_fuzz ]] && cp tests/golden/manifest/*.json "build/fuzz/corpus/$target/"
  [[ $target == tokenizer_json_fuzz ]] && cp tests/golden/tokenizer/*_kind.json "build/fuzz/corpus/$target/"
  [[ $target == hf_config_fuzz ]] && cp --parents tests/golden/models/*/*.json "build/fuzz/corpus/$target/"
  [[ $target == llmc_model_fuzz ]] && # one layer of width 1
    { printf '\xc6\xd7\x34\x01\x05\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x80\x00\x00\x00'; head -c 312 /dev/zero; } >"build/fuzz/corpus/$target/tiny"
  [[ $target == token_files_fuzz ]] && token_files "build/fuzz/corpus/$target"
  echo "== $target"
  "build/fuzz/bin/$target" -max_total_time="$seconds" -rss_limit_mb=4096 -print_final_stats=1 "build/fuzz/corpus/$target" 2>&1 |
    tail -n 12
done
