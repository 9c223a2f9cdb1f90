#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists what the programs of a build are made of besides its own sources: whose headers were compiled
into them and whose static libraries were linked, by the build's own record of what it read.

  materials.py --build FOLDER --source FOLDER --out FILE --version V [--tool PATH]...
               [--component PREFIX|NAME|VERSION|SUPPLIER]... TARGET...

A file belongs to its Debian package, else to the first component whose prefix its path has, else it
is named itself. FILE is JSON for bill_of_materials.py.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import debian  # noqa: E402


def ninja_log(build):
    """A function that asks ninja about the build. It reads a copy of its log, since a build may be
    running that writes it."""
    if not (build / "build.ninja").exists():
        raise SystemExit(f"{build}: found no build.ninja, expected a build by Ninja, whose log has the headers of each source")
    copy = tempfile.TemporaryDirectory(prefix="stretto-materials-")
    for name in ("build.ninja", "CMakeFiles"):
        os.symlink(build / name, pathlib.Path(copy.name, name))
    for name in (".ninja_deps", ".ninja_log"):
        if (build / name).exists():
            shutil.copy(build / name, copy.name)

    def ask(*question):
        done = subprocess.run(["ninja", "-n", "-C", copy.name, "-t", *question], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"ninja -t {question[0]} of {build} ends with {done.returncode}: {done.stderr.strip()}")
        return [line for line in done.stdout.splitlines() if not line.startswith("ninja: Entering")]

    ask.copy = copy
    return ask


def foreign(paths, own):
    """Absolute paths outside of the folders."""
    found = set()
    for path in paths:
        path = os.path.normpath(path)
        if path.startswith("/") and not any(path.startswith(f"{folder}/") for folder in own):
            found.add(path)
    return found


def read_by(ask, target, own):
    """Paths of headers and of static libraries."""
    inputs = ask("inputs", target)
    archives = foreign((path for path in inputs if path.endswith(".a")), own)
    made = [path for path in inputs if path.endswith((".o", ".gch", ".pch"))]
    if not made:
        raise SystemExit(f"{target}: found no object among its inputs, expected those that it was linked from")
    lines = []
    for begin in range(0, len(made), 500):
        lines += ask("deps", *made[begin:begin + 500])
    headers = foreign((line.strip() for line in lines if line.startswith("    ")), own)
    if not headers:
        raise SystemExit(f"{target}: found no headers in the build's log, expected those of its {len(made)} objects; "
                         "build it again")
    return headers, archives


class Owners:
    def __init__(self, components):
        self.components = components
        self.packages = {}

    def learn(self, paths):
        self.packages.update(debian.owners(paths))

    def of(self, path):
        """deb:PACKAGE, component:NAME, or path:FILE; of a header that nobody owns, the folder that its
        #include begins with."""
        if path in self.packages:
            return f"deb:{self.packages[path]}"
        for component in self.components:
            if any(name.startswith(component["prefix"]) for name in (path, os.path.realpath(path))):
                return f"component:{component['name']}"
        short = re.match(r".*/include/[^/]+", path)
        return f"path:{short[0] if short else path}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--tool", action="append", default=[])
    parser.add_argument("--component", action="append", default=[])
    parser.add_argument("targets", nargs="+")
    arguments = parser.parse_args()

    keys = ("prefix", "name", "version", "supplier")
    components = [dict(zip(keys, component.split("|"))) for component in arguments.component]
    for component in components:
        component["prefix"] = os.path.realpath(component["prefix"]) + ("/" if os.path.isdir(component["prefix"]) else "")
    own = {str(folder) for given in (arguments.build, arguments.source) for folder in (given.absolute(), given.resolve())}
    build = arguments.build.resolve()
    ask = ninja_log(build)
    read = {}
    for target in arguments.targets:
        read[pathlib.Path(target).name] = read_by(ask, os.path.relpath(target, arguments.build), own)
    tools = [os.path.realpath(tool) for tool in arguments.tool]

    owners = Owners(components)
    owners.learn(set(tools).union(*(paths for both in read.values() for paths in both)))
    made_of = {
        name: {"headers": sorted({owners.of(path) for path in headers}),
               "archives": sorted({owners.of(path) for path in archives})}
        for name, (headers, archives) in read.items()}
    text = json.dumps({"version": arguments.version, "components": components,
                       "tools": sorted({owners.of(tool) for tool in tools}), "targets": made_of}, indent=1, sort_keys=True)
    arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
