# SPDX-License-Identifier: Apache-2.0
"""Secrets made by docs/KUBERNETES.md's own commands; kubectl is played by a script that makes a folder of each secret."""

import os
import re
import subprocess

KUBECTL = r"""#!/bin/bash
set -eu
[[ "$1 $2 $3 $4 $5" == "-n stretto create secret generic" ]] || { echo "unexpected: kubectl $*" >&2; exit 1; }
folder=$(dirname "$0")/$6
shift 6
mkdir "$folder"
for argument; do
  file=${argument#--from-file=}
  [[ $file != "$argument" ]] || { echo "unexpected: $argument" >&2; exit 1; }
  key=$(basename "$file")
  [[ $file != *=* ]] || key=${file%%=*}
  cp "${file#*=}" "$folder/$key"
done
"""


def certificate_commands(source):
    return re.search(r"^stretto ca init.*?^done$", (source / "docs/KUBERNETES.md").read_text(), re.M | re.S)[0]


def token_commands(source):
    return re.search(r"^stretto ca token issue.*?^kubectl [^\n]*", (source / "docs/KUBERNETES.md").read_text(), re.M | re.S)[0]


def make_secrets(source, programs, folder):
    """Leaves a folder of each secret in `folder`, with the files that a pod sees. `programs`: the build's bin."""
    (folder / "kubectl").write_text(KUBECTL)
    (folder / "kubectl").chmod(0o700)
    environment = os.environ | {"PATH": f"{folder}:{programs}:{os.environ['PATH']}"}
    commands = f"umask 077\n{certificate_commands(source)}\n{token_commands(source)}"
    done = subprocess.run(["bash", "-ec", commands], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"the commands of docs/KUBERNETES.md failed:\n{done.stdout}{done.stderr}"
