#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the folder of the pinned nvdisasm, which reads what a CUDA toolkit of the same version or of an older one compiles.

  fetch_nvdisasm.py TOOLKIT CACHE

TOOLKIT: version of the toolkit, as 13.0. CACHE: folder where the program stays. Exit: 0; 1 PyPI has another file than the pinned
one; 77 with the reason: no registry, or a newer toolkit.
"""
import pathlib
import re
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "deploy"))
from pinned_wheel import fetch  # noqa: E402

PACKAGE, PINNED = "nvidia-cuda-nvdisasm", HERE / "nvdisasm.txt"


def numbers(version):
    return [int(number) for number in version.split(".")[:2]]


def main():
    toolkit, cache = sys.argv[1], pathlib.Path(sys.argv[2])
    version = re.search(rf"{PACKAGE}==(\S+)", PINNED.read_text())[1]
    if numbers(toolkit) > numbers(version):
        print(f"skipped: the toolkit is {toolkit}, expected at most nvdisasm's {version}")
        sys.exit(77)
    with zipfile.ZipFile(fetch(PACKAGE, PINNED, cache)) as wheel:
        program = next(name for name in wheel.namelist() if name.endswith("/bin/nvdisasm"))
        extracted = pathlib.Path(wheel.extract(program, cache))
    extracted.chmod(0o755)
    print(extracted.parent)


if __name__ == "__main__":
    main()
