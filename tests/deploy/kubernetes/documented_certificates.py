# SPDX-License-Identifier: Apache-2.0
"""Certificates made by docs/KUBERNETES.md's own commands; kubectl is played by a script that does nothing."""

import os
import re
import subprocess


def make_certificates(source, folder):
    commands = re.search(r"^openssl req -x509.*?^done$", (source / "docs/KUBERNETES.md").read_text(), re.M | re.S)[0]
    (folder / "kubectl").write_text("#!/bin/sh\n")
    (folder / "kubectl").chmod(0o700)
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-ec", f"umask 077\n{commands}"], cwd=folder, env=environment, check=True, capture_output=True)
