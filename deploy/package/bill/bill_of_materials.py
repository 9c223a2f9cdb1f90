#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the bill of materials of one package, an SPDX document, from the files that are packed: every
file with its checksums, every library that a program needs, directly or through another one, whose
headers and static libraries are compiled into it, and what compiled it.

  bill_of_materials.py --materials FILE --name NAME --out PATH ROOT

ROOT is the tree that is packed, PATH is the document's place in it. Libraries are looked for where
they were linked from, on this machine, and a library that is not here is an error. SOURCE_DATE_EPOCH
and STRETTO_COMMIT: as provenance.sh prints them.
"""
import argparse
import json
import os
import pathlib
import sys

sys.dont_write_bytecode = True
import debian  # noqa: E402
import elf  # noqa: E402
import spdx  # noqa: E402


class Bill:
    def __init__(self, document, materials):
        self.document = document
        self.components = {component["name"]: component for component in materials["components"]}
        self.described = {}

    def learn(self, owners):
        names = {owner[4:] for owner in owners if owner.startswith("deb:")}
        self.described = debian.describe(names)

    def component_of(self, path):
        return next((c for c in self.components.values()
                     if any(name.startswith(c["prefix"]) for name in (path, os.path.realpath(path)))), None)

    def element(self, owner):
        """The identifier of deb:PACKAGE, component:NAME or path:FILE, which is added once."""
        kind, _, name = owner.partition(":")
        key = spdx.identifier({"deb": "Debian", "component": "Component", "path": "Unowned"}[kind], name)
        if key in self.document.packages:
            return key
        if kind == "deb":
            values = self.described[name]
            expression, sentence = debian.licence(values["Package"])
            self.document.add_package(
                key, values["Package"], values["Version"], supplier(values["Maintainer"]), purl=debian.purl(values),
                homepage=values["Homepage"], licenseDeclared=expression, licenseComments=sentence,
                sourceInfo=f"source package {values['source:Package']} {values['source:Version']}")
        elif kind == "component":
            component = self.components[name]
            self.document.add_package(key, name, component["version"], f"Organization: {component['supplier']}")
        else:
            component = self.component_of(name)
            self.document.add_package(
                key, pathlib.Path(name).name, component and component["version"],
                component and f"Organization: {component['supplier']}",
                comment=f"{name} belongs to no package that dpkg knows.",
                checksums=[{"algorithm": "SHA256", "checksumValue": spdx.checksums(name)["sha256"]}]
                if os.path.isfile(name) else None)
        return key


def supplier(maintainer):
    name, _, address = maintainer.partition(" <")
    words = ("team", "maintainers", "group", "developers", "project")
    kind = "Organization" if any(word in name.lower() for word in words) else "Person"
    return f"{kind}: {name}" + (f" ({address.rstrip('>')})" if address else "")


def packed(root, out):
    """Regular files of the tree, besides what dpkg reads and the document."""
    return [str(path.relative_to(root)) for path in root.rglob("*")
            if path.is_file() and not path.is_symlink() and path.relative_to(root).parts[0] != "DEBIAN" and
            path != root / out]


def names_of(library):
    """Of the name that programs ask for and the file behind it, packages have either."""
    return {os.path.basename(library), os.path.basename(os.path.realpath(library))}


def add_libraries(bill, programs, copies, libraries):
    """Libraries that the programs need. `copies` are those that the package has itself, by name."""
    edges = libraries.closure(programs)
    owners = debian.owners({library for _, library in edges})
    owner = {library: f"deb:{owners[library]}" if library in owners else f"path:{library}" for _, library in edges}
    bill.learn(set(owner.values()))
    document = bill.document
    for one, library in edges:
        who = document.main if one in programs else bill.element(owner[one])
        what = bill.element(owner[library])
        if who != what:
            document.relate(who, "DYNAMIC_LINK", what)
        if copies & names_of(library):
            document.relate(document.main, "CONTAINS", what)
    unknown = sorted(copies.difference(*(names_of(library) for library in owner)))
    if unknown:
        raise SystemExit(f"{document.name}: found {', '.join(unknown)} in the package, which no program of it needs; "
                         "expected targets of the build and libraries that they need")


def add_materials(bill, materials, names):
    """What was compiled into the programs of these names, and by what."""
    document = bill.document
    owners = set(materials["tools"])
    for name in names:
        owners.update(materials["targets"][name]["headers"], materials["targets"][name]["archives"])
    bill.learn(owners)
    for name in names:
        for owner in materials["targets"][name]["headers"]:
            document.relate(bill.element(owner), "BUILD_DEPENDENCY_OF", document.main, "Its headers are compiled into programs.")
        for owner in materials["targets"][name]["archives"]:
            document.relate(document.main, "STATIC_LINK", bill.element(owner))
    for owner in materials["tools"]:
        document.relate(bill.element(owner), "BUILD_TOOL_OF", document.main)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--materials", type=pathlib.Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("root", type=pathlib.Path)
    arguments = parser.parse_args()
    materials = json.loads(arguments.materials.read_text())
    root, out = arguments.root.resolve(), arguments.out

    document = spdx.Document(arguments.name, materials["version"], int(os.environ["SOURCE_DATE_EPOCH"]),
                             os.environ["STRETTO_COMMIT"])
    names = packed(root, out)
    binaries = {pathlib.Path(name).name: str(root / name) for name in names if elf.is_elf(root / name)}
    programs = {name: path for name, path in binaries.items() if name in materials["targets"]}
    bill = Bill(document, materials)
    folders = [folder for component in materials["components"]
               for folder in (component["prefix"] + "lib", component["prefix"] + "lib64")]
    add_libraries(bill, set(programs.values()), set(binaries) - set(programs), elf.Libraries(folders))
    add_materials(bill, materials, sorted(programs))
    document.add_files(root, names, out)
    (root / out).parent.mkdir(parents=True, exist_ok=True)
    (root / out).write_text(document.text())


if __name__ == "__main__":
    main()
