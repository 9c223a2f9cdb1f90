#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of the exports with Debian's Python, the oldest that the client supports, and with TensorBoard and W&B of PyPI,
# which Debian lacks. These may bring newer libraries than Debian's. Skipped without PyPI.
#
#   oldest.sh SITE ENVIRONMENT BIN
#
#   SITE         the installed package
#   ENVIRONMENT  a folder for the virtual environment, which is made once
set -euo pipefail
site=$1 environment=$2 bin=$3
here=$(dirname "${BASH_SOURCE[0]}")
source "$here/extras.sh"

version=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [[ ! -e "$environment/made" || $(cat "$environment/made") != "$version" ]]; then
  rm -rf "$environment"
  /usr/bin/python3 -m venv --system-site-packages "$environment" ||
    { echo "skipped: found no venv for Python $version (Debian package python3-venv)"; exit 77; }
  echo "$version" > "$environment/made"
fi
install_extras "$environment" "$version" tensorboard wandb
export STRETTO_PYTHON=$environment/bin/python
echo "Python $version: $("$environment/bin/pip" freeze | grep -iE '^(grpcio|protobuf|tensorboard|wandb)=' | tr '\n' ' ')"
exec "$here/run.sh" "$site" exports_test.py "$bin"
