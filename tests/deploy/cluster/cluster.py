# SPDX-License-Identifier: Apache-2.0
"""The cluster of the test: a control plane, nodes, the namespace of Stretto with its owner, quota
and rules of admission, and kinds of operators that do not run. Commands come from KUBERNETES.md."""

import json
import pathlib
import re
import shlex
import subprocess

import yaml
from adapt import Server
from control_plane import ControlPlane
from documented_certificates import certificate_commands, token_commands
from fake_nodes import FakeNodes, name_of

SPACE = "/api/v1/namespaces/stretto"
GPU_NODE = {
    "labels": {"nvidia.com/gpu.present": "true"},
    "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
    "capacity": {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "500Gi",
                 "nvidia.com/gpu": "8", "rdma/hca": "1"}}
# A node has room for two workers of the CPU pool, so two of the three nodes have room for all four.
CPU_NODE = {"capacity": {"cpu": "20", "memory": "96Gi", "ephemeral-storage": "100Gi"}}
NODES = {"cpu-0": CPU_NODE, "cpu-1": CPU_NODE, "cpu-2": CPU_NODE,
         "gpu-0": GPU_NODE, "gpu-1": GPU_NODE}
SECRETS = {"stretto-coordinator-tls", "stretto-worker-tls", "stretto-user-tls",
           "stretto-etcd-client-tls", "stretto-tokens"}
# The CA of etcd's certificates is another one in life.
ETCD_SECRET = ("kubectl -n stretto create secret generic stretto-etcd-client-tls "
               "--from-file=tls/ca.crt --from-file=tls.crt=tls/user-admin.crt "
               "--from-file=tls.key=tls/user-admin.key")


class Cluster(ControlPlane):
    """`stretto`: the folder of the program of that name, which makes certificates."""

    def __init__(self, source, stretto, programs, folder):
        super().__init__(programs, folder)
        self.source = source
        self.stretto = stretto
        self.page = (source / "docs/KUBERNETES.md").read_text()
        self.nodes = None

    def start(self):
        super().start()
        self.nodes = FakeNodes(self.api, NODES)
        self.nodes.register()
        self.nodes.start()
        self.server = Server(self.api)
        self.page_command("kubectl apply -f deploy/kubernetes/manifests/namespace.yaml", "admin")
        self.kubectl("apply", "-f", pathlib.Path(__file__).with_name("admission.yaml"),
                     user="admin")
        self._make_custom_kinds()
        self.wait_for("the nodes are ready", self._nodes_are_ready)
        self._make_secrets()

    def _nodes_are_ready(self):
        taints = [taint["key"] for node in self.api.items("/api/v1/nodes")
                  for taint in node["spec"].get("taints", [])]
        return "node.kubernetes.io/not-ready" not in taints

    def check(self):
        super().check()
        if self.nodes is not None:
            self.nodes.check()

    def state(self):
        waiting = self.nodes.waiting if self.nodes is not None else {}
        return "\n".join([super().state(), *(f"{pod}: {why}" for pod, why in waiting.items())])

    def page_command(self, start, user, **replaced):
        """Runs the one command of the page that starts so; words that are keys of `replaced` become
        its values."""
        found = re.findall(rf"^{re.escape(start)}.*?(?= +#|$)", self.page, re.M)
        assert len(found) == 1, f"the page has {len(found)} commands '{start}', expected one"
        words = [replaced.get(word, word) for word in shlex.split(found[0])]
        return self.kubectl(*words[1:], user=user, cwd=self.source)

    def _make_custom_kinds(self):
        """Those of cert-manager and of the Prometheus operator, whose fields schemas_test.py
        checks. Their installers give the administrators of namespaces rights in this way."""
        made, groups = [], set()
        folder = self.source / "tests/deploy/kubernetes/schemas"
        for path in sorted(folder.glob("*.json")):
            known = json.loads(path.read_text())["properties"]
            group, version = known["apiVersion"]["const"].split("/")
            kind = known["kind"]["const"]
            names = {"kind": kind, "singular": kind.lower(), "plural": f"{kind.lower()}s"}
            schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            made.append({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{names['plural']}.{group}"},
                "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [
                    {"name": version, "served": True, "storage": True,
                     "schema": {"openAPIV3Schema": schema}}]}})
            groups.add(group)
        made.append({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "operators",
                         "labels": {"rbac.authorization.k8s.io/aggregate-to-admin": "true"}},
            "rules": [{"apiGroups": sorted(groups), "resources": ["*"], "verbs": ["*"]}]})
        self.kubectl("apply", "-f", "-", user="admin", input=yaml.safe_dump_all(made))
        for one in made[:-1]:
            self.kubectl("wait", "--for=condition=Established", f"crd/{name_of(one)}", user="admin")
        self.wait_for("the owner may make certificates", lambda: self.may(
            "create", "certificates.cert-manager.io", "--as=owner"))

    def _make_secrets(self):
        """As the page does; and that of etcd, which the page leaves to its reader."""
        work = self.folder / "certificates"
        work.mkdir()
        environment = self.environment("owner")
        environment["PATH"] = f"{self.stretto}:{environment['PATH']}"
        for commands in (certificate_commands(self.source), token_commands(self.source),
                         ETCD_SECRET):
            subprocess.run(["bash", "-ec", commands], cwd=work, env=environment, check=True,
                           capture_output=True)

    def may(self, *asked):
        """`kubectl auth can-i` in the namespace."""
        return self.kubectl("auth", "can-i", *asked, "--namespace=stretto", user="admin",
                            check=False).returncode == 0

    def pods(self, **labels):
        """{name: pod} by labels of app.kubernetes.io."""
        asked = [f"app.kubernetes.io/{key}%3D{value}" for key, value in labels.items()]
        return {name_of(one): one
                for one in self.api.items(f"{SPACE}/pods?labelSelector={'%2C'.join(asked)}")}

    def place(self, pod):
        return self.pods()[pod]["spec"]["nodeName"]

    def drain(self, node):
        self.nodes.forget()
        self.page_command("kubectl drain NODE", "admin", NODE=node)
