#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of the Python client with the newest Python of this machine, and with the newest libraries that PyPI has for
# it; the other tests use Debian's Python and libraries, the oldest that the client supports (oldest.sh adds the exports). Skipped
# where there is no newer Python than Debian's, or no PyPI.
#
#   newest.sh SITE ENVIRONMENT SOURCE BIN
#   newest.sh --prepare ENVIRONMENT
#
#   SITE         the installed package
#   ENVIRONMENT  a folder for the virtual environment, which is made once
#   --prepare    make it and run nothing
set -euo pipefail
site=$1 environment=$2 source=${3-} bin=${4-}
here=$(dirname "${BASH_SOURCE[0]}")
source "$here/extras.sh"

newest() {
  local python best=0.0 path=
  shopt -s nullglob
  for python in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3 $(compgen -c python3. | sort -u | xargs -r -n1 which); do
    local version
    version=$("$python" -c 'import sys, venv, ensurepip; print("%d.%d" % sys.version_info[:2])' 2> /dev/null) || continue
    if [[ $(printf '%s\n' "$best" "$version" | sort -V | tail -1) == "$version" && $version != "$best" ]]; then
      best=$version path=$python
    fi
  done
  echo "$best $path"
}

read -r version python <<< "$(newest)"
oldest=$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [[ $(printf '%s\n' "$oldest" "$version" | sort -V | tail -1) == "$oldest" ]]; then
  echo "skipped: found no Python newer than $oldest here (PATH, ~/.pyenv/versions)"
  exit 77
fi
if [[ ! -e "$environment/required" || $(cat "$environment/required") != "$version" ]]; then
  rm -rf "$environment"
  "$python" -m venv "$environment"
  "$environment/bin/pip" install -q --retries 1 --timeout 20 grpcio protobuf PyYAML ||
    { echo "skipped: found no libraries for Python $version (PyPI)"; exit 77; }
  echo "$version" > "$environment/required"
fi
install_extras "$environment" "$version" pandas tensorboard wandb
[[ $site != --prepare ]] || exit 0
export STRETTO_PYTHON=$environment/bin/python
echo "Python $version: $("$environment/bin/pip" freeze | tr '\n' ' ')"
"$here/run.sh" "$site" spec_test.py "$source"
"$here/run.sh" "$site" client_test.py
"$here/run.sh" "$site" memory_test.py
code=0
"$here/run.sh" "$site" exports_test.py "$bin" || code=$?
((code == 0 || code == 77)) || exit "$code"
"$here/run.sh" "$site" cluster_test.py "$source" "$bin"
