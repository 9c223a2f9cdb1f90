#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the compiler makes of each kernel, as the table of docs/reference/kernels.md has it (for its
# toolkit), where none spills but those that `exceptions` names, and what must hold of each file
# with any toolkit: attention uses tensor cores, kernels bound by memory load packs of 16 bytes,
# and the emulated link does not spill and fits beside other blocks.
#
#   kernel_resources.sh NVCC ARCHITECTURE TABLE CACHE "-I FOLDER..." FILE...
#
# With STRETTO_REWRITE_KERNELS=1 it writes the table. nvdisasm, which prints instructions and the sizes of blocks, is the
# toolkit's, else that of nvdisasm.txt, which stays in CACHE. Where neither is there, only what ptxas reports is checked.
set -uo pipefail
nvcc=$1 architecture=$2 table=$3 cache=$4 includes=$5
shift 5
here=$(dirname "${BASH_SOURCE[0]}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
PATH=$(dirname "$nvcc"):$PATH
disassembles=true
if ! command -v nvdisasm > /dev/null; then
  fetched=$(python3 -B "$here/fetch_nvdisasm.py" "$version" "$cache")
  case $? in
    0) PATH=$PATH:$fetched ;;
    77) disassembles=false ;;
    *) echo "$fetched"; exit 1 ;;
  esac
fi
link=(64 512)  # registers of a thread and threads of a block of link.cu

# File, kernel, bytes stored and loaded, reason. A kernel that spills no more must leave this list.
exceptions() {
  cat <<'END'
attention_forward.cu | Forward<Tile<96, false, false>> | 16 | heads of 96 take all 255 registers of a thread; two words are left over
attention_key_grad.cu | Backward<OfDocuments<Tile<96, true, true>>> | 16 | as for the other one
dropout.cu | BiasResidualRows<ResidualRow<Form<BF16, true, 2>, false>> | 8 | 32 registers, so that two blocks of 1,024 threads fit on an SM; the number of the thread is read again for each row
END
}
# The name of a kernel without namespaces and parameters.
name_of() { c++filt | sed 's/^void //; s/(anonymous namespace):://g; s/stretto::\(cuda::\)\?//g; s/(.*//; s/> >/>>/g; s/> >/>>/g'; }

cat > "$work/table" <<END
# Resources of the CUDA kernels

CUDA $version makes this for sm_$architecture. A row has all forms of a template: its types, widths and shapes.
It has the largest number of any form, except:

- HMMA, LDG.128: instructions of tensor cores (HMMA and HGMMA) and loads of 16 bytes, in all forms.
- Occupancy: the lowest of any form, in blocks as large as its \`__launch_bounds__\`, else of 256
  threads. An SM has 65,536 registers, 64 warps and 228 KiB of shared memory.
- Link: the number of blocks of \`link.cu\` that fit on an SM beside one such block, the lowest of
  any form.

Shared memory is what a kernel declares, without what a launch adds. Written by
\`tests/kernels/kernel_resources.sh\` ([why](../design/0056-room-for-collectives.md)).

| file | kernel | forms | registers | stack, bytes | spilled, bytes | shared, bytes | HMMA | LDG.128 | occupancy | link |
|---|---|---|---|---|---|---|---|---|---|---|
END
failed=0
: > "$work/spills"
wrong() { echo "$1"; failed=1; }
for file in "$@"; do
  # shellcheck disable=SC2086
  if ! "$nvcc" -std=c++20 -O2 --expt-relaxed-constexpr -Xptxas -v -cubin -o "$work/kernels.cubin" $includes \
    "-gencode=arch=compute_$architecture,code=sm_$architecture" "$file" > "$work/log" 2>&1; then
    cat "$work/log"
    echo "$file does not compile"
    exit 1
  fi
  : > "$work/sass"
  ! $disassembles || nvdisasm "$work/kernels.cubin" > "$work/sass" || exit 1
  : > "$work/spilling"
  sed -n "s/.*Compiling entry function '\(.*\)' for .*/\1/p" "$work/log" > "$work/symbols"
  [[ -s $work/symbols ]] || continue
  name=$(basename "$file")
  paste -d' ' "$work/symbols" <(name_of < "$work/symbols" | sed 's/<.*//') > "$work/names"
  awk -v registers="${link[0]}" -v threads="${link[1]}" -v spilling="$work/spilling" \
    -f "$here/kernel_resources.awk" "$work/names" "$work/log" "$work/sass" > "$work/rows"
  sed "s/^\([^ ]*\) /| \`$name\` | \`\1\` /; s/$/ |/" "$work/rows" >> "$work/table"
  read -r registers spilled products loads beside < <(awk -F'|' -v beside=99 '
    { if ($3 > registers) registers = $3; spilled += $5; products += $7; loads += $8; if ($10 < beside) beside = $10 }
    END { print registers + 0, spilled, products, loads, beside + 0 }' "$work/rows")
  while read -r kernel bytes; do
    echo "$name | $(name_of <<< "$kernel") | $bytes" >> "$work/spills"
  done < "$work/spilling"
  if [[ $name == link.cu ]]; then
    ((registers <= link[0] && spilled == 0)) ||
      wrong "$name: $registers registers and $spilled bytes spilled, expected at most ${link[0]} and 0"
  fi
  $disassembles || continue
  case $name in
    attention_plain.cu) ;;  # shapes without tiles for tensor cores
    attention_*.cu) ((products > 0)) || wrong "$name: found no HMMA, expected products on tensor cores" ;;
    activation.cu | dropout.cu | embedding.cu | optimizer.cu | rotary.cu | *_norm.cu)
      ((loads > 0)) || wrong "$name: found no LDG.E.128, expected loads of 16 bytes" ;;&
    activation.cu | embedding.cu | optimizer.cu | rotary.cu)
      ((beside > 0)) || wrong "$name: no block of link.cu fits beside one of its, expected at least one" ;;
  esac
done
cat >> "$work/table" <<END

No other kernel spills. These do:

| file | kernel | bytes | why it stays |
|---|---|---|---|
$(exceptions | sed 's/^\(.*\) | \(.*\) | \(.*\) | \(.*\)$/| `\1` | `\2` | \3 | \4 |/')
END
# The columns of ptxas alone, where there are no others.
columns() { if $disassembles; then cat "$1"; else cut -d'|' -f1-8 "$1"; fi; }
if [[ ${STRETTO_REWRITE_KERNELS:-} == 1 ]]; then
  $disassembles || { echo "found no nvdisasm beside $nvcc or in PATH: $fetched"; exit 1; }
  cp "$work/table" "$table"
elif grep -q "CUDA $version makes this for sm_$architecture\." "$table"; then
  diff <(columns "$table") <(columns "$work/table") || wrong "$table differs; STRETTO_REWRITE_KERNELS=1 writes it"
  diff <(exceptions | sed 's/ | [^|]*$//' | sort) <(sort "$work/spills") ||
    wrong "kernels that spill (>), and those that may (<), differ: expected the same"
else
  echo "the table is not of CUDA $version for sm_$architecture; only the bounds were checked"
fi
$disassembles || echo "no nvdisasm (${fetched#skipped: }): instructions, occupancy and room for the link were not checked"
exit "$failed"
