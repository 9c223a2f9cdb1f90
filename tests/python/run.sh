#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a test of the Python client with the package in SITE. STRETTO_PYTHON names another interpreter than Debian's.
#
#   run.sh SITE TEST ARGUMENTS...
set -euo pipefail
site=$1 test=$2
shift 2
python=${STRETTO_PYTHON:-/usr/bin/python3}
"$python" -c 'import grpc, google.protobuf, yaml' ||
  { echo "skipped: $python lacks a module (Debian packages python3-grpcio, python3-protobuf, python3-yaml)"; exit 77; }
exec env PYTHONPATH="$site" "$python" "$(dirname "${BASH_SOURCE[0]}")/$test" "$@"
