#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The committed manifests are what the chart renders to, and other values render to what they should.

  render_test.py SOURCE

Needs Go with the packages of deploy/kubernetes/render.sh.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import policies
from manifests import Manifest, containers, flags, yaml

SOURCE = pathlib.Path(sys.argv[1]).resolve()
FOLDER = SOURCE / "deploy/kubernetes"
RENDER = FOLDER / "render.sh"
WORK = tempfile.TemporaryDirectory()


def run(*arguments):
    environment = os.environ | {"GOCACHE": os.environ.get("GOCACHE", WORK.name + "/gocache")}
    return subprocess.run([RENDER, *arguments], capture_output=True, text=True, env=environment)


def render(values):
    """Manifest, or the message of a refusal."""
    path = pathlib.Path(WORK.name) / "values.yaml"
    path.write_text(values)
    result = run("--values", path)
    return Manifest(result.stdout) if result.returncode == 0 else result.stderr


def by_name(manifest):
    return {(one["kind"], one["metadata"]["name"]): one for one in manifest.objects}


class RenderTest(unittest.TestCase):
    maxDiff = None

    def test_committed_are_rendered(self):
        out = pathlib.Path(WORK.name) / "manifests"
        out.mkdir()
        self.assertEqual(run(out).returncode, 0)
        committed = {path.stem for path in (FOLDER / "manifests").glob("*.yaml")} - {"namespace"}
        self.assertEqual({path.stem for path in out.iterdir()}, committed)
        for name in committed:
            with self.subTest(manifest=name):
                self.assertEqual(by_name(Manifest.read(out / f"{name}.yaml")),
                                 by_name(Manifest.read(FOLDER / f"manifests/{name}.yaml")),
                                 "deploy/kubernetes/render.sh writes them anew")

    def test_insecure(self):
        manifest = self.rendered("tls: {mode: insecure}")
        for _, _, spec in manifest.pods():
            given = flags(containers(spec)[0])
            self.assertIn("--insecure-listen-beyond-loopback", given)
            self.assertFalse([flag for flag in given if flag.startswith("--tls")])
            self.assertNotIn("tls", [one["name"] for one in spec["volumes"]])

    def test_existing_claims(self):
        manifest = self.rendered("storage: {data: {existingClaim: books}}")
        self.assertEqual([one["metadata"]["name"] for one in manifest.of("PersistentVolumeClaim")], ["stretto-checkpoints"])
        volumes = {one["name"]: one for one in manifest.pod("stretto-worker-gpu")["volumes"]}
        self.assertEqual(volumes["data"]["persistentVolumeClaim"]["claimName"], "books")

    def test_several_pools(self):
        manifest = self.rendered("""
            coordinator: {nodeSelector: {zone: a}, priorityClassName: high}
            worker: {sharedMemory: 4Gi, stopGraceSeconds: 600}
            pools:
              cpu: {kind: StatefulSet, replicas: 2, maxUnavailable: 0, image: {tag: 0.1.0}}
              small: {kind: StatefulSet, gpus: 1, runtimeClassName: nvidia, env: [{name: NCCL_DEBUG, value: INFO}]}""")
        self.assertEqual(policies.all_findings(manifest, SOURCE), [])
        self.assertEqual(len(manifest.of("StatefulSet")), 3)
        small = manifest.pod("stretto-worker-small")
        self.assertEqual(small["terminationGracePeriodSeconds"], 615)
        self.assertEqual(small["runtimeClassName"], "nvidia")
        self.assertIn({"name": "NCCL_DEBUG", "value": "INFO"}, small["containers"][0]["env"])
        self.assertNotIn({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}, small["containers"][0]["env"])
        self.assertIn({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}, manifest.pod("stretto-worker-cpu")["containers"][0]["env"])
        coordinator = manifest.pod("stretto-coordinator")
        self.assertEqual((coordinator["nodeSelector"], coordinator["priorityClassName"]), ({"zone": "a"}, "high"))

    def test_monitoring_is_that_of_the_repository(self):
        manifest = self.rendered("monitoring: {rules: {enabled: true, labels: {release: x}}, dashboards: {enabled: true}}")
        rules = {one["metadata"]["name"]: one for one in manifest.of("PrometheusRule")}
        for name in ("alerts", "recording"):
            groups = yaml.safe_load((SOURCE / f"deploy/prometheus/{name}.yml").read_text())["groups"]
            self.assertEqual(rules[f"stretto-{name}"]["spec"]["groups"], groups)
            self.assertEqual(rules[f"stretto-{name}"]["metadata"]["labels"]["release"], "x")
        boards = {key: one for one in manifest.of("ConfigMap") for key in one["data"]}
        files = {path.name: path for path in (SOURCE / "deploy/grafana").glob("*.json")}
        self.assertEqual(set(boards), set(files))
        for name, path in files.items():
            self.assertEqual(json.loads(boards[name]["data"][name]), json.loads(path.read_text()))
            self.assertEqual(boards[name]["metadata"]["labels"]["grafana_dashboard"], "1")

    def test_one_coordinator_on_etcd(self):
        manifest = self.rendered("""
            coordinator: {etcd: {endpoints: ["e1:2379", "e2:2380"], tlsSecret: e, peers: [{ipBlock: {cidr: 10.0.0.0/8}}]}}""")
        self.assertEqual(policies.all_findings(manifest, SOURCE), [])
        self.assertEqual(manifest.named("StatefulSet", "stretto-coordinator")["spec"]["replicas"], 1)
        egress = manifest.named("NetworkPolicy", "stretto-coordinator")["spec"]["egress"][0]
        self.assertEqual([one["port"] for one in egress["ports"]], [2379, 2380])
        secrets = {one["name"]: one.get("secret", {}).get("secretName") for one in manifest.pod("stretto-coordinator")["volumes"]}
        self.assertEqual(secrets["etcd"], "e")

    def test_tokens_alone(self):
        manifest = self.rendered("coordinator: {tokens: {configMap: keys}}")
        self.assertEqual(policies.all_findings(manifest, SOURCE), [])
        coordinator = manifest.pod("stretto-coordinator")
        given = flags(containers(coordinator)[0])
        self.assertEqual(given["--tokens"], "/etc/stretto/tokens/tokens")
        self.assertNotIn("--page-listen", given)
        volume = next(one for one in coordinator["volumes"] if one["name"] == "tokens")
        self.assertEqual(volume["configMap"], {"name": "keys"})
        self.assertEqual(policies.page_services(manifest), [])

    def test_a_page_for_certificates_alone(self):
        manifest = self.rendered("coordinator: {page: {enabled: true}}")
        self.assertEqual(policies.all_findings(manifest, SOURCE), [])
        given = flags(containers(manifest.pod("stretto-coordinator"))[0])
        self.assertEqual(given["--page-listen"], "0.0.0.0:7443")
        self.assertNotIn("--tokens", given)

    def test_pages_of_two_coordinators(self):
        manifest = self.rendered("""
            coordinator:
              replicas: 2
              etcd: {endpoints: ["e1:2379"], tlsSecret: e, peers: [{ipBlock: {cidr: 10.0.0.0/8}}]}
              tokens: {secret: t}
              page: {enabled: true, annotations: {load-balancer: internal}}
            networkPolicy: {users: []}
            tls: {mode: cert-manager, certManager: {issuer: {name: x}}}""")
        self.assertEqual(policies.all_findings(manifest, SOURCE), [])
        services = policies.page_services(manifest)
        self.assertEqual([one["metadata"]["name"] for one in services], ["stretto-page-0", "stretto-page-1"])
        for one in services:
            self.assertEqual(one["metadata"]["annotations"], {"load-balancer": "internal"})
            self.assertEqual(one["spec"]["type"], "ClusterIP")
        # Without peers there is no rule: one with an empty list would admit everybody.
        rules = manifest.named("NetworkPolicy", "stretto-coordinator")["spec"]["ingress"]
        self.assertEqual([one["ports"][0]["port"] for one in rules], ["grpc", "metrics"])

    def test_what_cannot_work_is_refused(self):
        self.assertIn("found secret a and configMap b", render("coordinator: {tokens: {secret: a, configMap: b}}"))
        self.assertIn("coordinator.tokens: found tls.mode=insecure", render("{coordinator: {tokens: {secret: a}}, tls: {mode: insecure}}"))
        self.assertIn("coordinator.page.enabled: found tls.mode=insecure",
                      render("{coordinator: {page: {enabled: true}}, tls: {mode: insecure}}"))
        self.assertIn("coordinator.etcd.peers", render("coordinator: {etcd: {endpoints: ['e1:2379'], tlsSecret: x}}"))
        self.assertIn("set networkPolicy.nodeCIDRs", render("pools: {gpu: {hostNetwork: true}}"))
        self.assertIn("tls.certManager.issuer.name", render("tls: {mode: cert-manager}"))

    def rendered(self, values):
        found = render(values)
        self.assertIsInstance(found, Manifest, found)
        return found


if __name__ == "__main__":
    if (probe := run("--values", FOLDER / "values/cpu.yaml")).returncode == 77:
        print(f"skipped: {probe.stderr.strip()}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
