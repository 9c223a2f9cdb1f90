# SPDX-License-Identifier: Apache-2.0
"""Looks for what is wrong with a bill of materials. What a program needs is asked of ldd, readelf and
dpkg here, not of the scripts that wrote the document.

  bill.py ROOT PLACE    ROOT: the files of a package; PLACE: the document's path among them
"""
import functools
import hashlib
import json
import pathlib
import re
import subprocess
import sys

IDENTIFIER = r"SPDXRef-[a-zA-Z0-9.-]+"
LICENCE = r"NOASSERTION|[A-Za-z0-9.-]+( (AND|OR) [A-Za-z0-9.-]+)*"
TEXT = r"(?s).+"
# Of the schema of SPDX 2.3 (https://spdx.org/rdf/terms/2.3), the fields that our documents have: a pattern for a text, a type,
# a list of one shape, or a record. Those with a question mark may be absent; the others it demands, or a reader of ours needs.
CHECKSUMS = [{"algorithm": "SHA1|SHA256", "checksumValue": "[0-9a-f]{40,64}"}]
SHAPE = {
    "spdxVersion": r"SPDX-2\.3", "dataLicense": r"CC0-1\.0", "SPDXID": "SPDXRef-DOCUMENT", "name": TEXT,
    "documentNamespace": "https://[^#]+", "documentDescribes": [IDENTIFIER],
    "creationInfo": {"created": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "creators": ["(Person|Organization|Tool): .+"]},
    "packages": [{
        "SPDXID": IDENTIFIER, "name": TEXT, "downloadLocation": TEXT, "filesAnalyzed": bool,
        "supplier": "(Organization|Person): .+|NOASSERTION", "licenseConcluded": LICENCE, "licenseDeclared": LICENCE,
        "copyrightText": TEXT, "versionInfo?": TEXT, "homepage?": TEXT, "sourceInfo?": TEXT, "licenseComments?": TEXT,
        "comment?": TEXT, "checksums?": CHECKSUMS, "licenseInfoFromFiles?": [LICENCE],
        "packageVerificationCode?": {"packageVerificationCodeValue": "[0-9a-f]{40}", "packageVerificationCodeExcludedFiles": [TEXT]},
        "externalRefs?": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                           "referenceLocator": r"pkg:[a-z]+(/[A-Za-z0-9._%+-]+)+(@[A-Za-z0-9.:~_%-]+)?(\?[a-z]+=.+)?"}]}],
    "files": [{"SPDXID": IDENTIFIER, "fileName": r"\./.+", "checksums": CHECKSUMS, "licenseConcluded": LICENCE, "copyrightText": TEXT}],
    "relationships": [{
        "spdxElementId": IDENTIFIER, "relatedSpdxElement": IDENTIFIER, "comment?": TEXT,
        "relationshipType": "DESCRIBES|CONTAINS|DYNAMIC_LINK|STATIC_LINK|BUILD_DEPENDENCY_OF|BUILD_TOOL_OF|RUNTIME_DEPENDENCY_OF"
                            "|OPTIONAL_DEPENDENCY_OF"}],
}


def misshapen(value, shape, path=""):
    """Sentences about what has another shape."""
    expected = shape if isinstance(shape, type) else {str: str, list: list, dict: dict}[type(shape)]
    if not isinstance(value, expected):
        yield f"{path}: found {value!r:.80}, expected {expected.__name__}"
    elif isinstance(shape, str) and not re.fullmatch(shape, value):
        yield f"{path}: found '{value:.80}', expected {shape}"
    elif isinstance(shape, list):
        if not value:
            yield f"{path}: found an empty list, expected at least one"
        for index, item in enumerate(value):
            yield from misshapen(item, shape[0], f"{path}/{index}")
    elif isinstance(shape, dict):
        known = {name.rstrip("?"): (inner, name.endswith("?")) for name, inner in shape.items()}
        for name in sorted(set(value) | set(known)):
            if name not in known:
                yield f"{path}/{name}: SPDX has no such field, or no document of ours"
            elif name in value:
                yield from misshapen(value[name], known[name][0], f"{path}/{name}")
            elif not known[name][1]:
                yield f"{path}/{name}: found none, expected it"


# Where Debian has libraries; what a package brings along was copied from there.
FOLDERS = ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib"]


def shown(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout


def binaries(root):
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


@functools.lru_cache(maxsize=None)
def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", shown("readelf", "-dW", str(path)))


@functools.lru_cache(maxsize=None)
def all_needed(path):
    """Names, as the loader finds them, of everything that a file needs."""
    return frozenset(re.findall(r"^\s*(?:/\S*/)?([^/\s]+\.so[.\d]*) (?:=>|\()", shown("ldd", str(path)), re.M)) - {"linux-vdso.so.1"}


@functools.lru_cache(maxsize=None)
def debian_package(name):
    """Name and version of the package that has a library; None if none has."""
    for folder in FOLDERS:
        if not pathlib.Path(folder, name).exists():
            continue
        for path in (f"{folder}/{name}", str(pathlib.Path(folder, name).resolve()),
                     str(pathlib.Path(folder, name).resolve()).removeprefix("/usr")):
            owner = shown("dpkg", "-S", path).partition(": ")[0]
            if owner:
                return tuple(shown("dpkg-query", "-W", "-f=${Package} ${Version}", owner).split())
    return None


class Checked:
    def __init__(self, document):
        self.document = document
        self.packages = {package["SPDXID"]: package for package in document["packages"]}
        self.main = document["documentDescribes"][0]
        self.related = {}
        for relationship in document["relationships"]:
            self.related.setdefault(relationship["relationshipType"], []).append(
                (relationship["spdxElementId"], relationship["relatedSpdxElement"]))

    def linked(self):
        """What the package links, directly; and that with what it links in turn."""
        links = self.related.get("DYNAMIC_LINK", [])
        direct = {other for one, other in links if one == self.main}
        seen, left = set(), list(direct)
        while left:
            one = left.pop()
            if one not in seen:
                seen.add(one)
                left += [other for who, other in links if who == one]
        return direct, seen

    def entry(self, library, among):
        """Whether one of these packages is the library's."""
        package = debian_package(library)
        for key in among:
            if key not in self.packages:
                continue
            found = (self.packages[key]["name"], self.packages[key].get("versionInfo"))
            if found == package or (package is None and found[0] == library):
                return True
        return False


def look(document, root, own_path):
    """Sentences about what is wrong. ROOT has the files of the package."""
    findings = list(misshapen(document, SHAPE))
    if findings:
        return findings
    checked = Checked(document)
    every = [item["SPDXID"] for kind in ("packages", "files") for item in document[kind]]
    findings += [f"two elements have the identifier {key}" for key in sorted({key for key in every if every.count(key) > 1})]
    for pairs in checked.related.values():
        findings += [f"a relationship names {key}, which is no element" for pair in pairs for key in pair
                     if key not in every and key != "SPDXRef-DOCUMENT"]

    direct, all_linked = checked.linked()
    contained = {other for one, other in checked.related.get("CONTAINS", []) if one == checked.main}
    for path in binaries(root):
        own = path.name.startswith(("stretto", "libstretto")) or path.name.endswith("_test")
        for library in needed(path):
            if not checked.entry(library, direct if own else all_linked):
                findings.append(f"{path.name} needs {library}, which the document does not have as linked")
        for library in sorted(all_needed(path) - set(needed(path))):
            if not checked.entry(library, all_linked):
                findings.append(f"{path.name} needs {library} through another library, which the document does not have")
        if not own and not checked.entry(path.name, contained):
            findings.append(f"the package brings {path.name} along, which the document does not have as contained")
    return findings + look_at_files(document, root, own_path)


def look_at_files(document, root, own_path):
    findings = []
    listed = {file["fileName"]: {sum["algorithm"]: sum["checksumValue"] for sum in file["checksums"]} for file in document["files"]}
    excluded = set(document["packages"][[p["SPDXID"] for p in document["packages"]].index(document["documentDescribes"][0])]
                   ["packageVerificationCode"]["packageVerificationCodeExcludedFiles"])
    present = {f"./{path.relative_to(root)}": path for path in root.rglob("*") if path.is_file() and not path.is_symlink()}
    if f"./{own_path}" not in excluded:
        findings.append(f"the document is not among the files without a checksum, expected ./{own_path}")
    for name in sorted((set(present) - excluded) ^ set(listed)):
        findings.append(f"{name} is {'listed but not in the package' if name in listed else 'in the package but not listed'}")
    for name in sorted(set(present) & set(listed)):
        content = present[name].read_bytes()
        if listed[name] != {"SHA1": hashlib.sha1(content).hexdigest(), "SHA256": hashlib.sha256(content).hexdigest()}:
            findings.append(f"{name} has other checksums")
    return findings


def read(root, own_path):
    return json.loads((root / own_path).read_text())


if __name__ == "__main__":
    found = look(read(pathlib.Path(sys.argv[1]), sys.argv[2]), pathlib.Path(sys.argv[1]), sys.argv[2])
    print("\n".join(found) or "nothing is wrong")
    sys.exit(1 if found else 0)
