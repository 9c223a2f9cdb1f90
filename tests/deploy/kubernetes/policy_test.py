#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Policies hold in every committed manifest, and each sees what it is there for.

  policy_test.py SOURCE BIN
"""

import copy
import pathlib
import re
import sys
import unittest

import policies
from manifests import Manifest
from network import allowed

SOURCE, BIN = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
FOLDER = SOURCE / "deploy/kubernetes"
VARIANTS = {name: Manifest.read(FOLDER / f"manifests/{name}.yaml") for name in ("gpu", "cpu", "infiniband", "operators", "page", "standby")}
# The one opt-in, and what it costs.
OPTED = {"infiniband": ["stretto-worker-gpu: hostNetwork"]}
HOME = "stretto"


class PolicyTest(unittest.TestCase):
    def test_every_variant_is_looked_at(self):
        committed = {path.stem for path in (FOLDER / "manifests").glob("*.yaml")} - {"namespace"}
        self.assertEqual(committed, set(VARIANTS))
        self.assertEqual({path.stem for path in (FOLDER / "values").glob("*.yaml")} | {"gpu"}, set(VARIANTS))

    def test_policies_hold(self):
        for name, manifest in VARIANTS.items():
            with self.subTest(name):
                self.assertEqual(policies.all_findings(manifest, SOURCE), OPTED.get(name, []))

    def test_namespace_and_pod_of_the_user(self):
        together = Manifest((FOLDER / "manifests/namespace.yaml").read_text() + "---\n" + (FOLDER / "examples/cli.yaml").read_text())
        for policy in (policies.restricted, policies.limits, policies.accounts, policies.references, policies.names):
            self.assertEqual(list(policy(together)), [])
        self.assertEqual(list(policies.versions(together, SOURCE)), [])
        labels = together.named("Namespace", "stretto")["metadata"]["labels"]
        self.assertEqual(labels["pod-security.kubernetes.io/enforce"], "restricted")

    def test_daemons_know_every_flag(self):
        for name, manifest in VARIANTS.items():
            with self.subTest(name):
                self.assertEqual(list(policies.known_flags(manifest, BIN)), [])

    def test_versions_are_one(self):
        chart = Manifest.read(FOLDER / "chart/Chart.yaml").objects[0]
        version = re.search(r"project\(stretto VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
        self.assertEqual([chart["version"], chart["appVersion"]], [version, version])

    def test_pool_kinds(self):
        gpu = VARIANTS["gpu"].named("DaemonSet", "stretto-worker-gpu")["spec"]
        self.assertEqual(gpu["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], "8")
        cpu = VARIANTS["cpu"].named("StatefulSet", "stretto-worker-cpu")["spec"]
        self.assertEqual(cpu["podManagementPolicy"], "Parallel")
        self.assertEqual(VARIANTS["cpu"].named("Service", cpu["serviceName"])["spec"]["clusterIP"], "None")
        self.assertIsNone(VARIANTS["cpu"].named("DaemonSet", "stretto-worker-gpu"))


class NetworkTest(unittest.TestCase):
    """Who may call whom on the pods' network; the nodes' own has no policies."""

    def ends(self, manifest):
        def inside(labels, spec=None):
            end = {"pod": labels, "namespace": {"kubernetes.io/metadata.name": HOME}, "name": HOME}
            return end | ({"spec": spec} if spec else {})

        def outside(name, pod=None, **labels):
            return {"pod": pod or {}, "namespace": {"kubernetes.io/metadata.name": name} | labels, "name": name}

        pods = {labels["app.kubernetes.io/component"]: inside(labels, spec) for _, labels, spec in manifest.pods()}
        return pods | {
            "stranger": inside({"app": "other"}), "user": inside({"stretto-user": "true"}), "elsewhere": outside("default"),
            "users": outside("team", **{"stretto-users": "true"}), "monitoring": outside("monitoring"),
            "etcd": outside("etcd"), "impostor": outside("default", pod=pods["worker"]["pod"]), "dns": outside("kube-system", pod={"k8s-app": "kube-dns"}),
            "internet": {"ip": "192.0.2.1"}, "office": {"ip": "10.20.0.7"},
        }

    def test_matrix(self):
        grpc, page, metrics, worker_metrics, rank, etcd = 7070, 7443, 9090, 9091, 40123, 2379
        to_page = {("user", "coordinator", page), ("users", "coordinator", page), ("office", "coordinator", page)}
        to_etcd = {("coordinator", "etcd", etcd), ("coordinator", "dns", 53)}
        all_lets = {
            ("worker", "coordinator", grpc), ("user", "coordinator", grpc), ("users", "coordinator", grpc),
            ("monitoring", "coordinator", metrics), ("monitoring", "worker", worker_metrics),
            ("worker", "worker", rank), ("worker", "worker", worker_metrics), ("worker", "worker", grpc),
            ("worker", "worker", page), ("worker", "worker", metrics), ("worker", "worker", 53), ("worker", "worker", etcd), ("worker", "dns", 53),
        }
        for name in ("gpu", "cpu", "operators", "page", "standby"):
            lets = all_lets | {"page": to_page, "standby": to_etcd}.get(name, set())
            ends = self.ends(VARIANTS[name])
            ours = ("coordinator", "worker")
            for source in ends:
                for target in ends:
                    if source not in ours and target not in ours:
                        continue
                    for number in (grpc, page, metrics, worker_metrics, rank, etcd, 53):
                        with self.subTest(manifest=name, source=source, target=target, port=number):
                            self.assertEqual(allowed(VARIANTS[name], ends[source], ends[target], number),
                                             (source, target, number) in lets)


def worker(manifest):
    return manifest.pod("stretto-worker-gpu")


def container(manifest):
    return worker(manifest)["containers"][0]


def volume(manifest, name):
    return next(one for one in worker(manifest)["volumes"] if one["name"] == name)


def replace_argument(manifest, old, new):
    arguments = container(manifest)["args"]
    arguments[arguments.index(old)] = new


# A change to the default manifest, and words of the finding it must cause.
DAMAGES = {
    "root": (lambda m: worker(m)["securityContext"].update(runAsUser=0), "may run as root"),
    "seccomp": (lambda m: worker(m)["securityContext"].pop("seccompProfile"), "seccomp"),
    "host network": (lambda m: worker(m).update(hostNetwork=True), "hostNetwork"),
    "host path": (lambda m: worker(m)["volumes"].append({"name": "x", "hostPath": {"path": "/"}}), "volume x is"),
    "privileges": (lambda m: container(m)["securityContext"].update(privileged=True), "may gain privileges"),
    "capability": (lambda m: container(m)["securityContext"]["capabilities"].update(add=["IPC_LOCK"]), "keeps capabilities"),
    "root file system": (lambda m: container(m)["securityContext"].pop("readOnlyRootFilesystem"), "can write its root"),
    "port of the node": (lambda m: container(m)["ports"][0].update(hostPort=80), "takes a port of its node"),
    "no limit": (lambda m: container(m)["resources"]["limits"].pop("memory"), "no limit or request of memory"),
    "GPUs": (lambda m: container(m)["resources"]["requests"].update({"nvidia.com/gpu": "4"}), "is requested as 4"),
    "endless folder": (lambda m: volume(m, "tmp")["emptyDir"].pop("sizeLimit"), "emptyDir tmp has no limit"),
    "shm on disk": (lambda m: volume(m, "shm")["emptyDir"].pop("medium"), "/dev/shm is not memory"),
    "shm too large": (lambda m: volume(m, "shm")["emptyDir"].update(sizeLimit="1Ti"), "/dev/shm leaves the pod no memory"),
    "probe by command": (lambda m: container(m).update(livenessProbe={"exec": {"command": ["true"]}}), "livenessProbe"),
    "liveness by readiness": (lambda m: container(m)["livenessProbe"]["httpGet"].update(path="/readyz"), "livenessProbe"),
    "short grace": (lambda m: worker(m).update(terminationGracePeriodSeconds=127), "is killed after 127 s"),
    "token": (lambda m: worker(m).pop("automountServiceAccountToken"), "gets a token"),
    "account": (lambda m: worker(m).update(serviceAccountName="default"), "has no account of its own"),
    "service": (lambda m: m.named("Service", "stretto-worker-gpu")["spec"]["selector"].update(x="y"), "selects no pod"),
    "budget": (lambda m: m.objects.remove(m.of("PodDisruptionBudget")[0]), "has no PodDisruptionBudget"),
    "budget of a DaemonSet": (lambda m: m.of("PodDisruptionBudget")[0]["spec"]["selector"]["matchLabels"].update(
        {"app.kubernetes.io/component": "worker"}), "cannot count a DaemonSet"),
    "port of a service": (lambda m: m.named("Service", "stretto-coordinator")["spec"]["ports"][0].update(port=7071), "number 7071"),
    "port of a policy": (lambda m: m.named("NetworkPolicy", "stretto-worker")["spec"]["ingress"][1]["ports"][0].update(port="x"),
                         "has no port x"),
    "traffic of ranks": (lambda m: m.named("NetworkPolicy", "stretto-worker")["metadata"].pop("annotations"), "is not encrypted"),
    "port of a flag": (lambda m: replace_argument(m, "--metrics-listen=$(POD_IP):9091", "--metrics-listen=$(POD_IP):9092"),
                       "the port metrics is 9091"),
    "variable": (lambda m: replace_argument(m, "--interface=$(POD_IP)", "--interface=$(IP)"), "names IP"),
    "folder": (lambda m: replace_argument(m, "--data-root=/data", "--data-root=/dataset"), "where nothing is mounted"),
    "read-only": (lambda m: replace_argument(m, "--checkpoint-root=/checkpoints", "--checkpoint-root=/data"), "cannot be written"),
    "claim": (lambda m: volume(m, "data")["persistentVolumeClaim"].update(claimName="x"), "claim x is missing"),
    "coordinator": (lambda m: replace_argument(m, "--coordinator=stretto-coordinator.stretto.svc:7070", "--coordinator=x:7070"),
                    "which no Service is"),
    "plain text": (lambda m: container(m)["args"].append("--insecure-listen-beyond-loopback"), "has no TLS"),
    "key": (lambda m: replace_argument(m, "--tls-key=/etc/stretto/tls/tls.key", "--tls-key=/tmp/tls.key"), "--tls-key is"),
    "secret": (lambda m: volume(m, "tls")["secret"].update(secretName="stretto-coordinator-tls"), "the secret of role worker"),
    "open key": (lambda m: volume(m, "tls")["secret"].pop("defaultMode"), "can read the key"),
    "twice": (lambda m: m.objects.append(copy.deepcopy(m.objects[0])), "stands twice"),
    "namespace": (lambda m: m.objects[0]["metadata"].update(namespace="default"), "no namespace of ours"),
    "version": (lambda m: container(m).update(image="stretto:latest"), "expected stretto:"),
}
CERTIFICATE_DAMAGES = {
    "role": (lambda one: one["spec"].update(uris=["spiffe://cluster.local/stretto/worker"]), "is not that of role"),
    "name": (lambda one: one["spec"]["dnsNames"].remove("stretto-coordinator.stretto.svc"), "lacks a name"),
    "usage": (lambda one: one["spec"].update(usages=["client auth"]), "cannot be used by"),
}


def coordinators(manifest):
    return manifest.named("StatefulSet", "stretto-coordinator")["spec"]


STANDBY_DAMAGES = {
    "one after the other": (lambda m: coordinators(m).pop("podManagementPolicy"), "starts when the first is ready"),
    "probe": (lambda m: coordinators(m)["template"]["spec"]["containers"][0]["readinessProbe"]["httpGet"].update(path="/readyz"),
              "readinessProbe does not ask /healthz"),
    "third": (lambda m: coordinators(m).update(replicas=3), "there are 3"),
    "plain text": (lambda m: coordinators(m)["template"]["spec"]["containers"][0]["args"].remove("--etcd-ca=/etc/stretto/etcd/ca.crt"),
                   "reaches etcd without --etcd-ca"),
    "database": (lambda m: coordinators(m).update(volumeClaimTemplates=[{"metadata": {"name": "x"}}]), "has a volume"),
    "names": (lambda m: m.named("Service", "stretto-coordinator")["spec"].pop("clusterIP"), "which no Service is"),
    "certificate": (lambda m: m.named("Certificate", "stretto-coordinator-tls")["spec"]["dnsNames"].remove(
        "stretto-coordinator-1.stretto-coordinator.stretto.svc"), "lacks a name"),
}


def page_service(manifest):
    return manifest.named("Service", "stretto-page-0")["spec"]


def coordinator_container(manifest):
    return coordinators(manifest)["template"]["spec"]["containers"][0]


PAGE_DAMAGES = {
    "no TLS": (lambda m: coordinator_container(m)["args"].remove("--tls-ca=/etc/stretto/tls/ca.crt"), "because it has no TLS"),
    "folder of tokens": (lambda m: coordinator_container(m)["volumeMounts"].remove(
        {"name": "tokens", "mountPath": "/etc/stretto/tokens", "readOnly": True}), "where nothing is mounted"),
    "one file": (lambda m: coordinator_container(m)["volumeMounts"][-1].update(subPath="tokens"), "keeps its first content"),
    "port": (lambda m: coordinator_container(m)["ports"][-1].update(containerPort=7444), "the port page is 7444"),
    "any pod": (lambda m: page_service(m)["selector"].pop("statefulset.kubernetes.io/pod-name"), "a page Service each"),
    "another pod": (lambda m: page_service(m)["selector"].update({"statefulset.kubernetes.io/pod-name": "stretto-coordinator-1"}),
                    "selects no pod"),
    "address": (lambda m: page_service(m).pop("externalTrafficPolicy"), "hides callers"),
    "certificate": (lambda m: m.named("Certificate", "stretto-coordinator-tls")["spec"]["dnsNames"].remove(
        "stretto-page-0.stretto.svc"), "lacks a name"),
}


class DamageTest(unittest.TestCase):
    def test_each_of_a_page_is_found(self):
        for name, (damage, words) in PAGE_DAMAGES.items():
            with self.subTest(name):
                manifest = copy.deepcopy(VARIANTS["page"])
                damage(manifest)
                self.assertIn(words, "\n".join(policies.all_findings(manifest, SOURCE)))

    def test_each_of_a_standby_is_found(self):
        for name, (damage, words) in STANDBY_DAMAGES.items():
            with self.subTest(name):
                manifest = copy.deepcopy(VARIANTS["standby"])
                damage(manifest)
                self.assertIn(words, "\n".join(policies.all_findings(manifest, SOURCE)))

    def test_two_databases_are_found(self):
        manifest = copy.deepcopy(VARIANTS["gpu"])
        coordinators(manifest).update(replicas=2)
        self.assertIn("2 coordinators with a database each", "\n".join(policies.all_findings(manifest, SOURCE)))

    def test_each_is_found(self):
        for name, (damage, words) in DAMAGES.items():
            with self.subTest(name):
                manifest = copy.deepcopy(VARIANTS["gpu"])
                damage(manifest)
                self.assertIn(words, "\n".join(policies.all_findings(manifest, SOURCE)))

    def test_damaged_certificates_are_found(self):
        for name, (damage, words) in CERTIFICATE_DAMAGES.items():
            with self.subTest(name):
                manifest = copy.deepcopy(VARIANTS["operators"])
                damage(manifest.named("Certificate", "stretto-coordinator-tls"))
                self.assertIn(words, "\n".join(policies.all_findings(manifest, SOURCE)))

    def test_wider_role_is_found(self):
        manifest = copy.deepcopy(VARIANTS["operators"])
        manifest.of("Role")[0]["rules"][0].pop("resourceNames")
        self.assertIn("more than forwarding", "\n".join(policies.all_findings(manifest, SOURCE)))

    def test_unknown_flag_is_found(self):
        manifest = copy.deepcopy(VARIANTS["gpu"])
        container(manifest)["args"].append("--no-such-flag=1")
        self.assertIn("stretto-worker has no flag --no-such-flag", "\n".join(policies.known_flags(manifest, BIN)))

    def test_wider_network_is_found(self):
        ends = NetworkTest().ends(VARIANTS["gpu"])
        for name in ("stretto-default-deny", "stretto-coordinator"):
            manifest = copy.deepcopy(VARIANTS["gpu"])
            manifest.objects.remove(manifest.named("NetworkPolicy", name))
            changed = [source for source in ("worker", "stranger") for target in ("coordinator", "internet")
                       if source in ends and allowed(manifest, ends[source], ends[target], 7070) !=
                       allowed(VARIANTS["gpu"], ends[source], ends[target], 7070)]
            leaves = allowed(manifest, ends["coordinator"], ends["internet"], 443)
            self.assertTrue(changed or leaves, name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
