#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs programs with every shared library that a stock GPU machine does not have, stripped, so that the archive runs from
# any folder. Prints its size and the glibc and driver it needs. `cmake --build BUILD --target bundle` calls it.
#
#   make.sh [--with-cuda-libraries] [--driver VERSION] [--limit MIB] [--script FILE]... [--golden FILE]...
#           [--materials FILE] ARCHIVE.tar.gz FILE...
#
# --materials: what FILEs are made of (cmake/materials.cmake), for stretto-bundle.spdx.json in the archive.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

with_cuda=false driver="" limit=56 scripts=("$here/run.sh" "$here/cuda_libraries.sh") golden=() materials=""
while [[ "${1:-}" == --* ]]; do
  case "$1" in
    --with-cuda-libraries) with_cuda=true limit=4096; shift ;;
    --driver) driver=$2; shift 2 ;;
    --limit) limit=$2; shift 2 ;;
    --script) scripts+=("$2"); shift 2 ;;
    --golden) golden+=("$2"); shift 2 ;;
    --materials) materials=$2; shift 2 ;;
    *) sed -n '3,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done
[[ $# -ge 2 ]] || { sed -n '3,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
archive=$1
shift

# Of the machine: the C library and what comes with it, the driver, CUDA.
libc='^(linux-vdso|ld-linux-x86-64|libc|libm|libpthread|libdl|librt|libutil|libresolv|libnsl|libcuda|libnvidia-[a-z]+)\.so'
cuda='^(libcudart|libcublas|libcublasLt|libnccl|libcudnn[a-z_]*|libcupti|libnvrtc[a-z.-]*|libnvJitLink)\.so'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/stretto-bundle
mkdir -p "$root/bin" "$root/lib"
cp "$@" "$root/bin/"
cp "${scripts[@]}" "$root/"
if ((${#golden[@]} > 0)); then mkdir "$root/golden" && cp "${golden[@]}" "$root/golden/"; fi

# ldd lists what libraries need in turn.
for file in "$@"; do
  ldd "$file" | awk '$2 == "=>" {print $1, $3 == "not" ? "" : $3}'
done | sort -u | while read -r name path; do
  [[ "$name" =~ $libc ]] && continue
  if [[ "$name" =~ $cuda ]] && ! $with_cuda; then continue; fi
  [[ -n "$path" ]] || { echo "$0: library $name, needed by the bundle, is not on this machine" >&2; exit 1; }
  cp -L "$path" "$root/lib/$name"
done

# Folders of this machine mean nothing on another.
for file in "$root"/bin/*; do
  rpath=$(readelf -d "$file" | sed -n 's/.*R[UN]*PATH).*\[\(.*\)\]$/\1/p')
  [[ "$rpath" == "\$ORIGIN/../lib:"* ]] || continue
  cmake -D FILE="$file" -D FOUND="$rpath" -P "$here/set_rpath.cmake" >/dev/null
done

find "$root/bin" "$root/lib" -type f -exec strip --strip-unneeded {} +
glibc=$(find "$root/bin" "$root/lib" -type f -exec objdump -T {} + 2>/dev/null |
  grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)
{
  echo "glibc ${glibc#GLIBC_}"
  echo "driver ${driver:-none}"
} >"$root/needs.txt"

provenance=$("$here/../package/provenance.sh")
export ${provenance?}
[[ -z "$materials" ]] || "$here/../package/bill/bill_of_materials.py" --materials "$materials" --name stretto-bundle \
  --out stretto-bundle.spdx.json "$root"
mkdir -p "$(dirname "$archive")"
"$here/../package/pack.sh" "$archive" "$root"
bytes=$(stat -c %s "$archive")
echo "$archive: $(((bytes + 1048575) / 1048576)) MiB, needs glibc ${glibc#GLIBC_}, NVIDIA driver ${driver:-none}"
((bytes <= limit << 20)) || { echo "$0: expected at most $limit MiB; build one architecture (STRETTO_CUDA_ARCHITECTURES)" >&2; exit 1; }
