# SPDX-License-Identifier: Apache-2.0
"""Programs and libraries: what each needs, and where this machine has it."""
import functools
import pathlib
import platform
import re
import subprocess


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


@functools.lru_cache(maxsize=None)
def dynamic(path):
    """Libraries that a file needs itself, and folders of its search path."""
    shown = subprocess.run(["readelf", "--dynamic", "--wide", path], stdout=subprocess.PIPE, text=True,
                           check=True, env={"LC_ALL": "C", "PATH": "/usr/local/bin:/usr/bin:/bin"}).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", shown)
    folders = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", shown)
    return needed, [folder for line in folders for folder in line.split(":") if folder.startswith("/")]


def known_to_loader():
    """The loader's cache: a path for each name of a library of this kind of processor."""
    kind = {"x86_64": "x86-64", "aarch64": "AArch64"}.get(platform.machine(), "")
    ldconfig = next((path for path in ("/sbin/ldconfig", "/usr/sbin/ldconfig") if pathlib.Path(path).exists()), "ldconfig")
    shown = subprocess.run([ldconfig, "-p"], stdout=subprocess.PIPE, text=True, check=True).stdout
    paths = {}
    for name, flags, path in re.findall(r"^\s+(\S+) \((.*)\) => (\S+)$", shown, re.M):
        if kind in flags:
            paths.setdefault(name, path)
    return paths


class Libraries:
    """Finds libraries where they were linked from. A search path relative to the program counts for
    nothing: what is there in a package is a copy."""

    def __init__(self, folders):
        self.folders = folders
        self.known = known_to_loader()

    def find(self, name, wanted_by):
        _, own = dynamic(wanted_by)
        for folder in [*own, *self.folders]:
            if pathlib.Path(folder, name).exists():
                return str(pathlib.Path(folder, name))
        if name not in self.known:
            raise SystemExit(f"library {name}, needed by {wanted_by}, is not on this machine")
        return self.known[name]

    def closure(self, paths):
        """The libraries that files need, and those need in turn: pairs of who needs and what, by path."""
        edges, seen, left = set(), set(), list(paths)
        while left:
            path = left.pop()
            if path in seen:
                continue
            seen.add(path)
            for name in dynamic(path)[0]:
                library = self.find(name, path)
                edges.add((path, library))
                left.append(library)
        return edges
