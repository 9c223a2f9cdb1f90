# SPDX-License-Identifier: Apache-2.0
"""Packages of PyPI that tests read without installing them."""
import pathlib
import re
import subprocess
import sys


def fetch(package, pinned, cache):
    """The wheel of the version in the requirements file `pinned`, downloaded into `cache` once. Without a registry the test is
    skipped; another file than the pinned one fails it."""
    version = re.search(rf"{package}==(\S+)", pathlib.Path(pinned).read_text())[1]
    wheels = f"{package.replace('-', '_')}-{version}-*.whl"
    if not list(cache.glob(wheels)):
        cache.mkdir(parents=True, exist_ok=True)
        download = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--retries", "1",
                                   "--timeout", "30", "--require-hashes", "-r", pinned, "-d", cache], capture_output=True, text=True)
        if "DO NOT MATCH" in download.stderr:
            print(download.stderr)
            sys.exit(1)
        if download.returncode != 0:
            last = (download.stderr.strip().splitlines() or ["no reason"])[-1]
            print(f"skipped: cannot download {package} with pip: {last}")
            sys.exit(77)
    return next(cache.glob(wheels))
