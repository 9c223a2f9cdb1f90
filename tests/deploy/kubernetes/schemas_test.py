#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every committed object is what Kubernetes's published schemas say, of all releases since the chart's oldest; custom resources
are what the schemas beside this file say.

  schemas_test.py SOURCE CACHE

The schemas come with the PyPI package kubernetes-validate, which is downloaded into CACHE once and not installed.
"""

import copy
import functools
import json
import pathlib
import re
import sys
import unittest
import zipfile

from manifests import Manifest, yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from pinned_wheel import fetch  # noqa: E402

try:
    import jsonschema
except ImportError:
    print("skipped: found no Python module jsonschema here (Debian package python3-jsonschema)")
    sys.exit(77)

SOURCE, CACHE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
FOLDER = SOURCE / "deploy/kubernetes"
PINNED = pathlib.Path(__file__).with_name("schemas.txt")
MANIFESTS = [Manifest.read(path) for path in sorted((FOLDER / "manifests").glob("*.yaml"))] + [Manifest.read(FOLDER / "examples/cli.yaml")]
CUSTOM = {schema["properties"]["kind"]["const"]: schema
          for schema in (json.loads(path.read_text()) for path in pathlib.Path(__file__).with_name("schemas").glob("*.json"))}


class Schemas:
    """Of all releases, out of the package's archive."""

    def __init__(self, wheel):
        self.archive = zipfile.ZipFile(wheel)
        self.folders = {}
        for name in self.archive.namelist():
            if match := re.search(r"/v1\.(\d+)\.\d+-local-strict/_definitions\.json$", name):
                self.folders[int(match[1])] = name.removesuffix("_definitions.json")

    @functools.lru_cache(maxsize=None)
    def definitions(self, minor):
        return json.loads(self.archive.read(self.folders[minor] + "_definitions.json"))["$defs"]

    @functools.lru_cache(maxsize=None)
    def validator(self, minor, name):
        """The schema in one piece, with the definitions it leads to."""
        schema = json.loads(self.archive.read(f"{self.folders[minor]}{name}.json"))
        schema["$defs"], pending = {}, [schema]
        while pending:
            for key in re.findall(r'#/\$defs/([^"]+)"', json.dumps(pending.pop())):
                if key not in schema["$defs"]:
                    schema["$defs"][key] = self.definitions(minor)[key]
                    pending.append(schema["$defs"][key])
        return jsonschema.Draft7Validator(json.loads(json.dumps(schema).replace('"/api/_definitions.json#', '"#')))

    def errors(self, minor, one):
        group, _, version = one["apiVersion"].rpartition("/")
        parts = [one["kind"].lower()] + ([group.split(".")[0]] if group else []) + [version]
        return [f"{one['kind']} {one['metadata']['name']}: {error.json_path}: {error.message}"
                for error in self.validator(minor, "-".join(parts)).iter_errors(one)]


SCHEMAS = None


class SchemasTest(unittest.TestCase):
    def oldest(self):
        chart = yaml.safe_load((FOLDER / "chart/Chart.yaml").read_text())
        return int(re.fullmatch(r">=1\.(\d+)\.0-0", chart["kubeVersion"])[1])

    def test_published(self):
        minors = [minor for minor in sorted(SCHEMAS.folders) if minor >= self.oldest()]
        self.assertIn(self.oldest(), minors)
        checked = 0
        for minor in minors:
            for manifest in MANIFESTS:
                for one in manifest.objects:
                    if one["kind"] not in CUSTOM:
                        with self.subTest(release=f"1.{minor}", manifest=manifest.name):
                            self.assertEqual(SCHEMAS.errors(minor, one), [])
                        checked += 1
        print(f"{checked} objects under Kubernetes 1.{minors[0]} to 1.{minors[-1]}")

    def test_damage_is_found(self):
        manifest = next(one for one in MANIFESTS if one.name == "gpu")
        newest = max(SCHEMAS.folders)
        for kind, damage in (
            ("DaemonSet", lambda spec: spec["template"]["spec"]["containers"][0].update(livenesProbe={})),
            ("StatefulSet", lambda spec: spec.update(replicas="one")),
            ("StatefulSet", lambda spec: spec.pop("template")),
            ("NetworkPolicy", lambda spec: spec.update(policyTypes="Ingress")),
            ("Service", lambda spec: spec["ports"][0].update(targetport=1)),
            ("PersistentVolumeClaim", lambda spec: spec.update(accessMode="ReadWriteMany")),
        ):
            one = copy.deepcopy(manifest.of(kind)[0])
            self.assertEqual(SCHEMAS.errors(newest, one), [])
            damage(one["spec"])
            self.assertNotEqual(SCHEMAS.errors(newest, one), [], kind)

    def test_custom_resources(self):
        seen = set()
        for manifest in MANIFESTS:
            for one in manifest.objects:
                if one["kind"] in CUSTOM:
                    seen.add(one["kind"])
                    with self.subTest(one["metadata"]["name"]):
                        errors = jsonschema.Draft7Validator(CUSTOM[one["kind"]]).iter_errors(one)
                        self.assertEqual([error.message for error in errors], [])
        self.assertEqual(seen, set(CUSTOM))

    def test_damaged_custom_resources_are_found(self):
        manifest = next(one for one in MANIFESTS if one.name == "operators")
        for kind, damage in (
            ("Certificate", lambda spec: spec.update(uriSANs=[])),
            ("Certificate", lambda spec: spec["issuerRef"].pop("name")),
            ("PrometheusRule", lambda spec: spec["groups"][0]["rules"][0].update(record="x", alert="y")),
            ("PrometheusRule", lambda spec: spec["groups"][0]["rules"][0].pop("expr")),
            ("ServiceMonitor", lambda spec: spec["endpoints"][0].update(interval="often")),
        ):
            one = copy.deepcopy(manifest.of(kind)[0])
            damage(one["spec"])
            self.assertFalse(jsonschema.Draft7Validator(CUSTOM[kind]).is_valid(one), kind)


if __name__ == "__main__":
    SCHEMAS = Schemas(fetch("kubernetes-validate", PINNED, CACHE))
    unittest.main(argv=sys.argv[:1])
