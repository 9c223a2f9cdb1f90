#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every package has a bill of materials that is right: its fields, the checksums of its files, and all
libraries that ldd and readelf find. Damaged ones are found. The wheel is built here.

  bill_of_materials_test.py SOURCE PACKAGES
"""
import copy
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.dont_write_bytecode = True
import bill  # noqa: E402

SOURCE, PACKAGES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
PROVENANCE = dict(pair.split("=", 1) for pair in subprocess.run(
    [SOURCE / "deploy/package/provenance.sh"], stdout=subprocess.PIPE, text=True, check=True).stdout.split())


class Package:
    """One unpacked package."""

    def __init__(self, file, work):
        self.root = work / file.name
        self.root.mkdir()
        if file.suffix == ".deb":
            name = file.name.partition("_")[0]
            subprocess.run(["dpkg-deb", "-x", file, self.root], check=True)
            self.place = f"usr/share/stretto/{name}.spdx.json"
        elif file.suffix == ".whl":
            zipfile.ZipFile(file).extractall(self.root)
            self.place = str(next(self.root.glob("*.dist-info/sboms/*.spdx.json")).relative_to(self.root))
        else:
            subprocess.run(["tar", "-C", self.root, "--strip-components=1", "-xf", file], check=True)
            self.place = "share/stretto/stretto.spdx.json"
        self.document = bill.read(self.root, self.place)

    def findings(self, document=None):
        return bill.look(document or self.document, self.root, self.place)

    def made_of(self, kind):
        keys = {one for one, _ in bill.Checked(self.document).related.get(kind, [])}
        return {package["name"] for package in self.document["packages"] if package["SPDXID"] in keys}


class BillTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        work = tempfile.TemporaryDirectory()
        cls.addClassCleanup(work.cleanup)
        folder = pathlib.Path(work.name)
        subprocess.run(["/usr/bin/python3", "-m", "pip", "--isolated", "wheel", "-q", "--no-build-isolation", "--no-deps",
                        "--no-index", "-w", folder / "wheels", SOURCE / "deploy/python"], check=True)
        files = sorted([*PACKAGES.glob("*.deb"), *PACKAGES.glob("*.tar.gz"), *(folder / "wheels").glob("*.whl")])
        cls.packages = {file.name: Package(file, folder) for file in files}
        cls.deb = next(package for name, package in cls.packages.items() if name.startswith("stretto_"))
        cls.wheel = next(package for name, package in cls.packages.items() if name.endswith(".whl"))

    def test_every_package_has_a_right_one(self):
        self.assertGreaterEqual(len(self.packages), 3)
        for name, package in self.packages.items():
            with self.subTest(package=name):
                self.assertEqual(not list(bill.binaries(package.root)), package is self.wheel)
                self.assertEqual(package.findings(), [])

    def test_the_documents_name_the_build(self):
        for name, package in self.packages.items():
            with self.subTest(package=name):
                main = bill.Checked(package.document).packages[package.document["documentDescribes"][0]]
                version = re.search(r"^project\(stretto VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text(), re.M)[1]
                self.assertEqual(main["versionInfo"], version)
                self.assertEqual(main["sourceInfo"], f"commit {PROVENANCE['STRETTO_COMMIT']}")
                created = subprocess.run(["date", "-u", "-d", f"@{PROVENANCE['SOURCE_DATE_EPOCH']}", "+%Y-%m-%dT%H:%M:%SZ"],
                                         stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
                self.assertEqual(package.document["creationInfo"]["created"], created)

    # Every package of development files that a build installs has headers in the programs, those without a library too.
    def test_headers_of_every_dependency_are_there(self):
        script = (SOURCE / "deploy/install_packages.sh").read_text()
        wanted = re.findall(r"\S+-dev\b", re.search(r"^packages=\((.*?)\)", script, re.M | re.S)[1])
        self.assertIn("nlohmann-json3-dev", wanted)
        self.assertEqual(set(wanted) - self.deb.made_of("BUILD_DEPENDENCY_OF"), set())
        self.assertLessEqual({"g++-12", "protobuf-compiler", "protobuf-compiler-grpc", "cmake"}, self.deb.made_of("BUILD_TOOL_OF"))

    def test_the_wheel_has_what_the_client_needs(self):
        self.assertEqual(self.wheel.made_of("RUNTIME_DEPENDENCY_OF"), {"grpcio", "protobuf", "PyYAML"})
        self.assertLessEqual({"pandas"}, self.wheel.made_of("OPTIONAL_DEPENDENCY_OF"))
        self.assertEqual(self.wheel.made_of("BUILD_TOOL_OF"), {"protobuf-compiler", "protobuf-compiler-grpc"})

    def test_every_package_of_debian_has_name_version_supplier_and_address(self):
        for package in self.deb.document["packages"]:
            if package["SPDXID"].startswith("SPDXRef-Debian-"):
                with self.subTest(package=package["name"]):
                    self.assertNotEqual(package["supplier"], "NOASSERTION")
                    self.assertRegex(package["externalRefs"][0]["referenceLocator"], r"^pkg:deb/[a-z]+/.+@.+\?arch=\w+&distro=.+$")
                    self.assertIn(package["versionInfo"], subprocess.run(
                        ["dpkg-query", "-W", "-f=${Version}\n", package["name"]], stdout=subprocess.PIPE, text=True, check=True).stdout)
        licences = {p["name"]: p["licenseDeclared"] for p in self.deb.document["packages"]}
        self.assertEqual(licences["libgrpc++1.51"], "Apache-2.0")

    def test_what_is_damaged_is_found(self):
        library = next(p["SPDXID"] for p in self.deb.document["packages"] if p["name"] == "libssl3")

        def without_a_library(document):
            document["packages"] = [p for p in document["packages"] if p["SPDXID"] != library]
            document["relationships"] = [r for r in document["relationships"]
                                         if library not in (r["spdxElementId"], r["relatedSpdxElement"])]

        def without_a_link(document):
            document["relationships"] = [r for r in document["relationships"] if r["relatedSpdxElement"] != library]

        def of_another_version(document):
            next(p for p in document["packages"] if p["SPDXID"] == library)["versionInfo"] = "1.0"

        def with_another_checksum(document):
            document["files"][0]["checksums"][0]["checksumValue"] = "0" * 40

        cases = [
            (without_a_library, r"needs libssl\.so\.3"), (without_a_link, r"needs libssl\.so\.3"),
            (of_another_version, r"needs libssl\.so\.3"), (with_another_checksum, "has other checksums"),
            (lambda document: document["files"].pop(), "in the package but not listed"),
            (lambda document: document["packages"].pop(0), "which is no element"),
            (lambda document: document["packages"].append(document["packages"][0]), "two elements have the identifier"),
            (lambda document: document["packages"][0].pop("supplier"), "packages/0/supplier: found none"),
            (lambda document: document["creationInfo"].update(created="today"), "creationInfo/created: found 'today'"),
            (lambda document: document.pop("documentNamespace"), "documentNamespace: found none"),
            (lambda document: document["relationships"][0].update(relationshipType="KNOWS"), "relationshipType: found 'KNOWS'"),
        ]
        for damage, expected in cases:
            document = copy.deepcopy(self.deb.document)
            damage(document)
            with self.subTest(expected=expected):
                self.assertRegex("\n".join(self.deb.findings(document)), expected)


if __name__ == "__main__":
    os.environ["LC_ALL"] = "C"
    unittest.main(argv=sys.argv[:1])
