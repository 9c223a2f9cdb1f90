# SPDX-License-Identifier: Apache-2.0
"""A document of SPDX 2.3 in JSON (https://spdx.github.io/spdx-spec/v2.3). The same content gives the
same bytes."""
import datetime
import hashlib
import json
import re

NOTHING = "NOASSERTION"


def checksums(path):
    digests = {name: hashlib.new(name) for name in ("sha1", "sha256")}
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            for digest in digests.values():
                digest.update(part)
    return {name: digest.hexdigest() for name, digest in digests.items()}


def identifier(kind, name):
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


class Document:
    """One package, `name`, its files, and what it is made of."""

    def __init__(self, name, version, epoch, commit):
        self.name = name
        self.version = version
        self.epoch = epoch
        self.main = identifier("Package", name)
        self.packages = {}
        self.files = {}
        self.relationships = {("SPDXRef-DOCUMENT", "DESCRIBES", self.main): None}
        self.add_package(
            self.main, name, version, "Organization: the Stretto maintainers", purl=f"pkg:generic/{name}@{version}",
            licenseDeclared="Apache-2.0", licenseConcluded="Apache-2.0", copyrightText="the Stretto maintainers",
            sourceInfo=f"commit {commit}")

    def add_package(self, key, name, version, supplier, purl=None, **more):
        """A second package of the same identifier is the same package."""
        package = {
            "SPDXID": key, "name": name, "supplier": supplier or NOTHING, "downloadLocation": NOTHING,
            "filesAnalyzed": False, "licenseConcluded": NOTHING, "licenseDeclared": NOTHING, "copyrightText": NOTHING,
            **{field: value for field, value in more.items() if value}}
        if version:
            package["versionInfo"] = version
        if purl:
            package["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                        "referenceLocator": purl}]
        self.packages[key] = package

    def relate(self, one, kind, other, comment=None):
        self.relationships[(one, kind, other)] = comment

    def add_files(self, root, names, document, also=()):
        """Files of the package, by their names in its root. The document cannot have its own checksum, nor
        can what has the document's (`also`)."""
        digests = []
        for name in sorted(names):
            sums = checksums(root / name)
            digests.append(sums["sha1"])
            key = identifier("File", name)
            if key in self.files:  # names that differ in other characters
                key += "-" + hashlib.sha256(name.encode()).hexdigest()[:8]
            self.files[key] = {
                "SPDXID": key, "fileName": f"./{name}", "licenseConcluded": NOTHING, "copyrightText": NOTHING,
                "checksums": [{"algorithm": kind.upper(), "checksumValue": value} for kind, value in sums.items()]}
            self.relate(self.main, "CONTAINS", key)
        package = self.packages[self.main]
        package["filesAnalyzed"] = True
        package["licenseInfoFromFiles"] = [NOTHING]
        package["packageVerificationCode"] = {
            "packageVerificationCodeValue": hashlib.sha1("".join(sorted(digests)).encode()).hexdigest(),
            "packageVerificationCodeExcludedFiles": [f"./{name}" for name in (document, *also)]}

    def text(self):
        relationships = []
        for (one, kind, other), comment in sorted(self.relationships.items()):
            relationships.append({"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other,
                                  **({"comment": comment} if comment else {})})
        content = {
            "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": f"{self.name}-{self.version}",
            "creationInfo": {
                "created": datetime.datetime.fromtimestamp(self.epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "creators": ["Organization: the Stretto maintainers", f"Tool: stretto-bill-of-materials-{self.version}"]},
            "documentDescribes": [self.main],
            "packages": [self.packages[key] for key in sorted(self.packages)],
            "files": [self.files[key] for key in sorted(self.files)],
            "relationships": relationships}
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        content["documentNamespace"] = f"https://stretto.invalid/spdx/{self.name}-{self.version}-{digest}"
        return json.dumps(content, indent=1, sort_keys=True) + "\n"
