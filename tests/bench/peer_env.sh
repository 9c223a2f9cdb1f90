#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The PyTorch that benchmarks are compared with and golden files come from, in an environment of its
# own. Prints one line for the shell:  eval "$(tests/bench/peer_env.sh)"
set -euo pipefail

# The default package index has only the wheel with CUDA; on the CPU it runs as the CPU wheel does.
readonly TORCH=2.15.0 NUMPY=2.4.6

usage() {
  cat <<'TEXT'
usage: tests/bench/peer_env.sh
Makes a Python environment with the pinned versions of torch and numpy (2 GB of downloads, 6 GB of
disk) and prints the line `export STRETTO_PEER_PYTHON=...`. Keeps what is there already.
environment:
  STRETTO_PEER_ENV  its folder (default: build/peer)
  PYTHON            the interpreter it is made from, 3.11 or newer (default: python3)
TEXT
}

case "${1-}" in
  '') ;;
  -h | --help) usage; exit 0 ;;
  *) echo "peer_env.sh: found argument '$1', expected none" >&2; exit 2 ;;
esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${STRETTO_PEER_ENV:-$root/build/peer}
python=$folder/bin/python

installed() {
  "$python" - 2>/dev/null <<PYTHON
from importlib.metadata import version
raise SystemExit(version('torch') != '$TORCH' or version('numpy') != '$NUMPY')
PYTHON
}

if ! installed; then
  "${PYTHON:-python3}" -m venv "$folder" >&2
  "$python" -m pip install --quiet --disable-pip-version-check \
    "torch==$TORCH" "numpy==$NUMPY" >&2
fi
"$python" -c 'import torch, numpy' # fails here, with the reason, rather than in a benchmark
printf 'export STRETTO_PEER_PYTHON=%q\n' "$python"
