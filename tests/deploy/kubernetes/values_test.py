#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""values.schema.json takes the values of this repository, refuses wrong ones, and knows every value that the chart reads.

  values_test.py SOURCE
"""

import copy
import json
import pathlib
import re
import sys
import unittest

from manifests import yaml

try:
    import jsonschema
except ImportError:
    print("skipped: found no Python module jsonschema here (Debian package python3-jsonschema)")
    sys.exit(77)

FOLDER = pathlib.Path(sys.argv[1]).resolve() / "deploy/kubernetes"
SCHEMA = json.loads((FOLDER / "chart/values.schema.json").read_text())
DEFAULTS = yaml.safe_load((FOLDER / "chart/values.yaml").read_text())


def merged(under, over):
    """As Helm does: maps key by key, anything else whole, null takes a key away."""
    result = copy.deepcopy(under)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def refused(text):
    validator = jsonschema.Draft7Validator(SCHEMA)
    return "\n".join(error.message for error in validator.iter_errors(merged(DEFAULTS, yaml.safe_load(text))))


class ValuesTest(unittest.TestCase):
    def test_schema_is_one(self):
        jsonschema.Draft7Validator.check_schema(SCHEMA)

    def test_ours_are_taken(self):
        self.assertEqual(refused("{}"), "")
        for path in sorted((FOLDER / "values").glob("*.yaml")):
            with self.subTest(path.name):
                self.assertEqual(refused(path.read_text()), "")

    def test_etcd_is_taken(self):
        for text in ("coordinator: {replicas: 2, etcd: {endpoints: ['e1:2379', 'e2:2379'], tlsSecret: x}}",
                     "coordinator: {replicas: 1, etcd: {endpoints: ['10.0.0.7:2379'], tlsSecret: x, prefix: /}}",
                     "coordinator: {etcd: {tlsSecret: x}}"):
            with self.subTest(text):
                self.assertEqual(refused(text), "")

    def test_wrong_ones_are_refused(self):
        for text in (
            "replicas: 2",  # no such value
            "coordinator: {replicas: 2}",  # each would have a database of its own
            "coordinator: {replicas: 2, etcd: {endpoints: ['e1:2379']}}",  # without TLS
            "coordinator: {replicas: 2, etcd: {tlsSecret: x}}",
            "coordinator: {replicas: 3, etcd: {endpoints: ['e1:2379'], tlsSecret: x}}",
            "coordinator: {etcd: {endpoints: ['e1:2379']}}",
            "coordinator: {etcd: {endpoints: ['https://e1:2379'], tlsSecret: x}}",
            "coordinator: {etcd: {endpoints: ['e1:2379', 'e1:2379'], tlsSecret: x}}",
            "coordinator: {etcd: {endpoints: ['e1:2379'], tlsSecret: x, prefix: stretto}}",
            "coordinator: {tokens: stretto-tokens}",
            "coordinator: {tokens: {file: /etc/tokens}}",
            "coordinator: {page: true}",
            "coordinator: {page: {serviceType: ExternalName}}",
            "coordinator: {page: {hosts: ['https://stretto.example']}}",
            "coordinator: {page: {annotations: {internal: true}}}",
            "networkPolicy: {page: [{cidr: 10.0.0.0/8}]}",
            "coordinator: {maxUnavailable: 2}",
            "coordinator: {storage: {accessMode: ReadWriteMany}}",
            "coordinator: {resources: {cpu: 1.5 cores}}",
            "image: {pullPolicy: Sometimes}",
            "user: {uid: 0}",
            "tls: {mode: off}",
            "tls: {mode: none}",
            "tls: {trustDomain: 'a/b'}",
            "tls: {secrets: {worker: ''}}",
            "tls: {certManager: {duration: 90 days}}",
            "pools: {gpu: {gpus: -1}}",
            "pools: {gpu: {gpus: '8'}}",
            "pools: {gpu: {kind: Deployment}}",
            "pools: {gpu: {stopGraceSeconds: 0}}",
            "pools: {gpu: {resources: {cpu: 1.5}}}",
            "pools: {gpu: {resources: {memory: 10GB}}}",
            "pools: {other: {resources: {cpu: 4}}}",  # a pool's key replaces the whole default
            "pools: {Gpu: {gpus: 1}}",
            "pools: {a-name-longer-than-a-host-name-allows: {gpus: 1}}",
            "pools: {gpu: {extraResources: {rdma: 1}}}",
            "pools: {gpu: {hostNetwork: 'yes'}}",
            "pools: {gpu: {privileged: true}}",
            "worker: {updateStrategy: Recreate}",
            "storage: {data: {size: big}}",
            "storage: {scratch: {size: 1Gi}}",
            "networkPolicy: {users: [{podSelektor: {}}]}",
            "networkPolicy: {users: [{}]}",
            "networkPolicy: {nodeCIDRs: [everywhere]}",
            "monitoring: {serviceMonitor: {interval: 15}}",
            "monitoring: {rules: {enabled: 'true'}}",
            "portForward: {subjects: [{kind: Everybody, name: x}]}",
        ):
            with self.subTest(text):
                self.assertNotEqual(refused(text), "")

    def test_every_value_is_commented(self):
        lines = (FOLDER / "chart/values.yaml").read_text().splitlines()
        tops = [index for index, line in enumerate(lines) if re.match(r"[a-z]\w+:", line)]
        self.assertEqual(sorted(lines[index].split(":")[0] for index in tops), sorted(DEFAULTS))
        for index in tops:
            self.assertRegex(lines[index - 1], r"^# ", lines[index])

    def test_chart_reads_what_there_is(self):
        templates = "\n".join(path.read_text() for path in (FOLDER / "chart/templates").iterdir())
        for path in sorted(set(re.findall(r"\.Values((?:\.\w+)+)", templates))):
            at = DEFAULTS
            for key in path.strip(".").split("."):
                self.assertIn(key, at, f".Values{path}")
                at = at[key]
        for key in set(re.findall(r"\$pool\.(\w+)", templates)):
            self.assertIn(key, DEFAULTS["worker"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
