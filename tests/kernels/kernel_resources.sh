#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What ptxas reports of each kernel: the emulated link's fits beside another block, and the most of
# each file is what the table of docs/reference/kernels.md has (for its toolkit).
#
#   kernel_resources.sh NVCC ARCHITECTURE TABLE "-I FOLDER..." FILE...
#
# With STRETTO_REWRITE_KERNELS=1 it writes the table.
set -uo pipefail
nvcc=$1 architecture=$2 table=$3 includes=$4
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')

cat > "$work/table" <<END
# Registers of the CUDA kernels

\`ptxas\` of CUDA $version reports this for sm_$architecture. A row has the largest number of any kernel in
the file; an SM has 65,536 registers. Shared memory is what a kernel declares, without what a launch
adds. Written by \`tests/kernels/kernel_resources.sh\` ([why](../design/0056-room-for-collectives.md)).

| file | kernels | registers of a thread | stack, bytes | spilled, bytes | shared memory, bytes |
|---|---|---|---|---|---|
END
failed=0
for file in "$@"; do
  # shellcheck disable=SC2086
  if ! "$nvcc" -std=c++20 -O2 --expt-relaxed-constexpr -Xptxas -v -cubin -o "$work/kernels.cubin" $includes \
    "-gencode=arch=compute_$architecture,code=sm_$architecture" "$file" > "$work/log" 2>&1; then
    cat "$work/log"
    echo "$file does not compile"
    exit 1
  fi
  row=$(awk '
    function most(name, value) { if (value + 0 > top[name]) top[name] = value + 0 }
    /Compiling entry function/ { ++kernels }
    /bytes stack frame/ { most("stack", $1); most("spilled", $5 + $9) }
    match($0, /Used [0-9]+ registers/) { most("registers", substr($0, RSTART + 5)) }
    match($0, /[0-9]+ bytes smem/) { most("shared", substr($0, RSTART)) }
    END { printf "%d | %d | %d | %d | %d", kernels, top["registers"], top["stack"], top["spilled"], top["shared"] }
  ' "$work/log")
  IFS='|' read -r kernels registers _ spilled _ <<<"$row"
  ((kernels > 0)) || continue
  name=$(basename "$file")
  echo "| \`$name\` | $row |" >> "$work/table"
  if [[ $name == link.cu ]] && ((registers > 64 || spilled > 0)); then
    echo "$name: $registers registers and $spilled bytes spilled, expected at most 64 (half of an SM's) and 0"
    failed=1
  fi
done
if [[ ${STRETTO_REWRITE_KERNELS:-} == 1 ]]; then
  cp "$work/table" "$table"
elif grep -q "CUDA $version reports this for sm_$architecture\." "$table"; then
  diff "$table" "$work/table" || { echo "$table differs; STRETTO_REWRITE_KERNELS=1 writes it"; failed=1; }
else
  echo "the table is not of CUDA $version for sm_$architecture; only the bounds were checked"
fi
exit "$failed"
