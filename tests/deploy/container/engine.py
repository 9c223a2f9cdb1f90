# SPDX-License-Identifier: Apache-2.0
"""buildah and podman with a storage of their own, that leaves nothing behind, on machines where containers are not set up:
no systemd, no overlay, and perhaps not every capability."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

TOOLS = ("buildah", "podman", "runc", "iptables", "catatonit", "debootstrap")
CAP_SYS_RESOURCE = 24

# runc raises limits of processes, for which it needs CAP_SYS_RESOURCE; without it containers keep ours.
RUNC_WITHOUT_LIMITS = """#!/usr/bin/env python3
import json, os, sys
for option in ("--bundle", "-b"):
    if option in sys.argv:
        path = os.path.join(sys.argv[sys.argv.index(option) + 1], "config.json")
        with open(path) as file:
            config = json.load(file)
        config["process"].pop("rlimits", None)
        with open(path, "w") as file:
            json.dump(config, file)
os.execvp("runc", ["runc", *sys.argv[1:]])
"""


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def need():
    if os.geteuid() != 0:
        skip("containers need the rights of root here")
    for tool in TOOLS:
        if shutil.which(tool) is None:
            skip(f"found no {tool} on PATH; deploy/install_packages.sh --with-full-tests installs it")


def has_capability(number):
    line = next(line for line in open("/proc/self/status") if line.startswith("CapEff:"))
    return int(line.split()[1], 16) >> number & 1 == 1


class Engine:
    """A storage in `folder`, which goes with it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        runtime = self.folder / "runtime"
        storage = ["--storage-driver", "vfs", "--root", self.folder / "images", "--runroot", self.folder / "run"]
        self._buildah = ["buildah", *storage]
        self._podman = ["podman", *storage, "--cgroup-manager", "cgroupfs", "--tmpdir", self.folder / "tmp",
                        "--runtime", "runc" if has_capability(CAP_SYS_RESOURCE) else runtime,
                        "--network-config-dir", self.folder / "networks"]
        self.end()  # what a run left that was killed
        self.folder.mkdir(parents=True)
        runtime.write_text(RUNC_WITHOUT_LIMITS)
        runtime.chmod(0o700)

    def buildah(self, *arguments, **options):
        return self._run([*self._buildah, *arguments], **options)

    def podman(self, *arguments, **options):
        return self._run([*self._podman, *arguments], **options)

    def json(self, *arguments):
        return json.loads(self.podman(*arguments).stdout)

    @staticmethod
    def _run(command, check=True, timeout=300, **options):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=timeout, **options)
        if check and done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def end(self):
        """Ends what runs, then deletes the storage."""
        if not self.folder.exists():
            return
        self.podman("pod", "rm", "--force", "--all", check=False)
        self.podman("rm", "--force", "--all", check=False)
        self.podman("network", "rm", "--force", "stretto", check=False)
        for line in open("/proc/self/mounts"):
            if line.split()[1].startswith(str(self.folder)):
                subprocess.run(["umount", "--lazy", line.split()[1]], check=False)
        shutil.rmtree(self.folder)
