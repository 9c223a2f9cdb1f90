#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The client and the examples of docs/PYTHON.md pass mypy --strict. Skipped where mypy and the stubs cannot be had from PyPI.
#
#   types.sh SITE ENVIRONMENT SOURCE
#
#   SITE         the installed package
#   ENVIRONMENT  a folder for the virtual environment, which is made once
set -euo pipefail
site=$1 environment=$2 source=$3
if [[ ! -e "$environment/complete" ]]; then
  rm -rf "$environment"
  /usr/bin/python3 -m venv "$environment" ||
    { echo "skipped: /usr/bin/python3 makes no virtual environment (Debian package python3-venv)"; exit 77; }
  "$environment/bin/pip" install -q --retries 1 --timeout 20 mypy types-protobuf types-PyYAML types-grpcio pandas-stubs ||
    { echo "skipped: found no mypy with stubs (PyPI)"; exit 77; }
  touch "$environment/complete"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Each block of the page is a program of its own.
awk -v folder="$work" '/^```python$/ {file = folder "/example_" ++count ".py"; next} /^```$/ {file = ""} file {print > file}' \
  "$source/docs/PYTHON.md"
examples=("$work"/example_*.py)
((${#examples[@]} >= 2)) || { echo "docs/PYTHON.md: found ${#examples[@]} examples, expected at least 2" >&2; exit 1; }
cp -r "$site/stretto" "$work/stretto"
cd "$work"
# Generated code has gaps: types of maps without arguments, and none where the plug-in of gRPC wrote it. Libraries that are
# optional are not installed here.
cat > mypy.ini << 'END'
[mypy]
strict = True
python_version = 3.11
[mypy-stretto.v1alpha1.*,stretto.google_rpc.*,stretto.cli.config_pb2]
disallow_any_generics = False
[mypy-stretto.v1alpha1.job_pb2_grpc]
ignore_errors = True
[mypy-tensorboard.*,wandb.*]
ignore_missing_imports = True
END
mypy() { "$environment/bin/mypy" --cache-dir "$work/cache" "$@"; }
mypy -p stretto
for example in "${examples[@]}"; do mypy "$example"; done
# What it would not find if the package had no types.
printf 'import stretto\n\nstretto.Client().get(5)\n' > wrong.py
if mypy wrong.py > wrong.txt; then
  echo "mypy: found no fault in get(5), expected one, because names are text" >&2
  exit 1
fi
grep -q 'expected "str"' wrong.txt || { cat wrong.txt >&2; exit 1; }
