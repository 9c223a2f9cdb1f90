# SPDX-License-Identifier: Apache-2.0
"""Certificates made by docs/KUBERNETES.md's own commands. Where no cluster is, kubectl is played by
a script that does nothing."""

import os
import re
import subprocess


def certificate_commands(source):
    page = (source / "docs/KUBERNETES.md").read_text()
    return re.search(r"^openssl req -x509.*?^done$", page, re.M | re.S)[0]


def make_certificates(source, folder):
    (folder / "kubectl").write_text("#!/bin/sh\n")
    (folder / "kubectl").chmod(0o700)
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-ec", f"umask 077\n{certificate_commands(source)}"], cwd=folder, env=environment, check=True, capture_output=True)
