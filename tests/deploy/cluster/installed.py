# SPDX-License-Identifier: Apache-2.0
"""A manifest that the namespace's owner has applied, and what must be true of it."""

import json

from adapt import adapted
from cluster import GPU_NODE, NODES, SECRETS, SPACE
from fake_nodes import is_ready, name_of
from manifests import Manifest, gibibytes


class Installed:
    def __init__(self, cluster, name):
        self.cluster = cluster
        path = cluster.source / f"deploy/kubernetes/manifests/{name}.yaml"
        self.manifest = Manifest.read(path)
        text, changes = adapted(cluster.server, path)
        self.file = cluster.folder / path.name
        self.file.write_text(text)
        print(f"{path.name} on Kubernetes {cluster.server.version}: "
              f"{'; '.join(changes) or 'as it is'}", flush=True)
        cluster.kubectl("apply", "-f", self.file)

    def expected(self):
        """{workload: names of its pods}. Pods of a DaemonSet are told by their nodes."""
        found = {name_of(one): [name for name, node in NODES.items() if node is GPU_NODE]
                 for one in self.manifest.of("DaemonSet")}
        for one in self.manifest.of("StatefulSet"):
            name = name_of(one)
            found[name] = [f"{name}-{index}" for index in range(one["spec"]["replicas"])]
        return found

    def runs(self):
        """Whether the pods that are ready are those that are expected."""
        found = {workload: [] for workload in self.expected()}
        for name, pod in self.cluster.pods(instance="stretto").items():
            owner = pod["metadata"]["ownerReferences"][0]
            if is_ready(pod):
                of_node = owner["kind"] == "DaemonSet"
                found[owner["name"]].append(pod["spec"]["nodeName"] if of_node else name)
        return {one: sorted(names) for one, names in found.items()} == self.expected()

    def check(self):
        cluster, name = self.cluster, self.manifest.name
        cluster.wait_for(f"the pods of {name}.yaml are ready: {self.expected()}", self.runs)
        self._check_claims()
        cluster.wait_for("the disruption budgets count their pods", self._budgets_count)
        for service in self.manifest.of("Service"):
            expected = self._pods_of(service["spec"]["selector"])
            cluster.wait_for(f"service {name_of(service)} has {expected} addresses",
                             lambda: self._addresses(name_of(service)) == expected)
        before = self._generations()
        cluster.kubectl("apply", "-f", self.file)
        changed = dict(set(self._generations().items()) - set(before.items()))
        assert not changed, f"{name}.yaml, applied again, changes {set(changed)}"

    def _generations(self):
        """{object: what counts the changes of its fields}. Those without a generation have no
        controller that writes to them once the pods run."""
        found = self.cluster.kubectl("get", "-f", self.file, "--output=json").stdout
        return {f"{one['kind']} {name_of(one)}":
                one["metadata"].get("generation", one["metadata"]["resourceVersion"])
                for one in json.loads(found)["items"]}

    def _pods_of(self, labels):
        selected = [name for name, _, _ in self.manifest.selected(labels)]
        assert selected, f"{self.manifest.name}.yaml has no pod with labels {labels}"
        return sum(len(self.expected()[name]) for name in selected)

    def claims_of_pods(self):
        """{name: template} of what a StatefulSet claims for each of its pods."""
        return {f"{name_of(template)}-{name_of(one)}-{index}": template
                for one in self.manifest.of("StatefulSet")
                for template in one["spec"].get("volumeClaimTemplates", [])
                for index in range(one["spec"]["replicas"])}

    def _check_claims(self):
        wanted = {name_of(one): one for one in self.manifest.of("PersistentVolumeClaim")}
        wanted |= self.claims_of_pods()
        found = {name_of(one): one
                 for one in self.cluster.api.items(f"{SPACE}/persistentvolumeclaims")}
        assert set(found) == set(wanted), f"claims are {set(found)}, expected {set(wanted)}"
        for name, claim in found.items():
            spec, status = wanted[name]["spec"], claim["status"]
            assert status["phase"] == "Bound", f"claim {name} is {status['phase']}"
            assert status["accessModes"] == spec["accessModes"], (name, status)
            asked = spec["resources"]["requests"]["storage"]
            assert gibibytes(status["capacity"]["storage"]) >= gibibytes(asked), (name, status)

    def _budgets_count(self):
        budgets = {name_of(one): one["status"] for one in self.cluster.api.items(
            "/apis/policy/v1beta1/namespaces/stretto/poddisruptionbudgets")}
        for one in self.manifest.of("PodDisruptionBudget"):
            pods = self._pods_of(one["spec"]["selector"]["matchLabels"])
            status = budgets[name_of(one)]
            counted = status["expectedPods"], status["currentHealthy"], status["disruptionsAllowed"]
            if counted != (pods, pods, one["spec"]["maxUnavailable"]):
                return False
        return True

    def _addresses(self, service):
        subsets = self.cluster.api.get(f"{SPACE}/endpoints/{service}").get("subsets", [])
        return sum(len(subset.get("addresses", [])) for subset in subsets)

    def uninstall(self):
        """`kubectl delete -f` deletes data and checkpoints too, and leaves the coordinator's volume
        and the secrets, as the page says."""
        cluster = self.cluster
        cluster.kubectl("delete", "-f", self.file)
        cluster.wait_for("the pods are gone", lambda: not cluster.pods())
        left = {name_of(one) for one in cluster.api.items(f"{SPACE}/persistentvolumeclaims")}
        expected = set(self.claims_of_pods())
        assert left == expected, f"claims {left} are left, expected {expected}"
        secrets = {name_of(one) for one in cluster.api.items(f"{SPACE}/secrets")
                   if one["type"] == "Opaque"}
        assert secrets == SECRETS, f"secrets {secrets} are left, expected {SECRETS}"
        if left:
            cluster.kubectl("delete", "pvc", "--namespace=stretto", *left)
