# SPDX-License-Identifier: Apache-2.0
"""Nodes on which nothing runs, and disks without bytes. One thread plays all kubelets and the
provisioner of the default storage class.

A kubelet here does what the API server can see of a real one, with a real one's rights, those of
its node: it registers the node and renews its lease, reads the secrets and claims of the pods that
are bound to it, reports a pod as running and ready once all of them are there, and deletes a pod
that is to end. It has no containers, probes or logs."""

import datetime
import threading

from control_plane import Refused

PROVISIONER = "disks.test"
SECRET_FILES = {"ca.crt", "tls.crt", "tls.key"}
MERGE = "application/strategic-merge-patch+json"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
VOLUMES = "/api/v1/persistentvolumes"
STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": PROVISIONER,
    "volumeBindingMode": "WaitForFirstConsumer",
    "metadata": {"name": "disks",
                 "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}


def now(timespec="microseconds"):
    at = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec=timespec)
    return at.replace("+00:00", "Z")


def name_of(one):
    return one["metadata"]["name"]


def is_ready(pod):
    if "deletionTimestamp" in pod["metadata"]:
        return False
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


class FakeNodes(threading.Thread):
    """`nodes`: {name: {labels, taints, capacity}}. What it has seen: `waiting` {pod: why it does
    not run}; since forget(), `graces` {pod: seconds that it had to end} and `fewest`
    {app.kubernetes.io/component: least number of ready pods}."""

    def __init__(self, api, nodes):
        super().__init__(daemon=True)
        self.api, self.nodes = api, nodes
        self.waiting, self.graces, self.fewest = {}, {}, {}
        self._failure, self._ended, self._rounds, self._addresses = None, threading.Event(), 0, 0

    def register(self):
        self.api.call("POST", "/apis/storage.k8s.io/v1/storageclasses", STORAGE_CLASS)
        for name, node in self.nodes.items():
            capacity = {"pods": "110", **node["capacity"]}
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady",
                     "lastHeartbeatTime": now("seconds"), "lastTransitionTime": now("seconds")}
            labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
            self.api.call("POST", "/api/v1/nodes", {
                "metadata": {"name": name, "labels": labels | node.get("labels", {})},
                "spec": {"taints": node.get("taints", [])},
                "status": {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}},
                node=name)
            self.api.call("POST", LEASES, {
                "metadata": {"name": name},
                "spec": {"holderIdentity": name, "renewTime": now(), "leaseDurationSeconds": 40}},
                node=name)

    def run(self):
        try:
            while not self._ended.wait(0.1):
                self._rounds += 1
                if self._rounds % 50 == 0:
                    for name in self.nodes:
                        self.api.call("PATCH", f"{LEASES}/{name}", {"spec": {"renewTime": now()}},
                                      MERGE, node=name)
                self._play_kubelets()
                self._play_provisioner()
        except Exception as error:  # for check()
            self._failure = error

    def check(self):
        """Raises what has ended the thread."""
        if self._failure is not None:
            raise self._failure

    def forget(self):
        self.fewest, self.graces = {}, {}

    @staticmethod
    def _attempt(act, *arguments):
        """Returns why the server refuses it for now, or None."""
        try:
            act(*arguments)
        except Refused as refused:
            # 403 until the authorizer of nodes knows the pod; 404 and 409 where something is gone,
            # not there yet, or newer than what was read.
            if refused.code not in (403, 404, 409):
                raise
            return str(refused)
        return None

    def _play_kubelets(self):
        pods, waiting, counts = self.api.items("/api/v1/pods"), {}, {}
        for pod in pods:
            component = pod["metadata"].get("labels", {}).get("app.kubernetes.io/component")
            counts[component] = counts.get(component, 0) + is_ready(pod)
            if pod["spec"].get("nodeName") not in self.nodes:
                continue
            if "deletionTimestamp" in pod["metadata"]:
                self._attempt(self._end_pod, pod)
            elif pod["status"]["phase"] == "Pending":
                if reason := self._attempt(self._run_pod, pod):
                    waiting[name_of(pod)] = reason
        self.waiting = waiting
        fewest = self.fewest
        for component, count in counts.items():
            fewest[component] = min(count, fewest.get(component, count))

    def _run_pod(self, pod):
        node = pod["spec"]["nodeName"]
        namespace = f"/api/v1/namespaces/{pod['metadata']['namespace']}"
        for volume in pod["spec"].get("volumes", []):
            if "secret" in volume:
                name = volume["secret"]["secretName"]
                found = set(self.api.get(f"{namespace}/secrets/{name}", node)["data"])
                if not SECRET_FILES <= found:
                    raise Refused(404, f"secret {name} has {found}, expected {SECRET_FILES}")
            if "persistentVolumeClaim" in volume:
                name = volume["persistentVolumeClaim"]["claimName"]
                claim = self.api.get(f"{namespace}/persistentvolumeclaims/{name}", node)
                if claim["status"]["phase"] != "Bound":
                    raise Refused(404, f"claim {name} is {claim['status']['phase']}")
        self._addresses += 1
        address = f"10.244.{self._addresses // 250}.{self._addresses % 250 + 1}"
        at = now("seconds")
        conditions = [{"type": one, "status": "True", "lastTransitionTime": at}
                      for one in ("Initialized", "ContainersReady", "Ready")]
        containers = [{"name": one["name"], "image": one["image"], "imageID": "", "ready": True,
                       "started": True, "restartCount": 0, "state": {"running": {"startedAt": at}}}
                      for one in pod["spec"]["containers"]]
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
                  "startTime": at, "conditions": conditions, "containerStatuses": containers}
        self.api.call("PATCH", f"{namespace}/pods/{name_of(pod)}/status", {"status": status},
                      MERGE, node=node)

    def _end_pod(self, pod):
        meta = pod["metadata"]
        self.graces[meta["name"]] = meta["deletionGracePeriodSeconds"]
        self.api.call("DELETE", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}",
                      {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}},
                      node=pod["spec"]["nodeName"])

    def _play_provisioner(self):
        """Makes the volume of a claim once the scheduler has chosen a node for its pod, and deletes
        it after the claim."""
        volumes = {name_of(one): one for one in self.api.items(VOLUMES)}
        for claim in self.api.items("/api/v1/persistentvolumeclaims"):
            meta, spec = claim["metadata"], claim["spec"]
            notes, name = meta.get("annotations", {}), f"pvc-{meta['uid']}"
            ours = notes.get("volume.beta.kubernetes.io/storage-provisioner") == PROVISIONER
            chosen = "volume.kubernetes.io/selected-node" in notes
            if not ours or not chosen or name in volumes:
                continue
            self._attempt(self.api.call, "POST", VOLUMES, {
                "metadata": {"name": name,
                             "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
                "spec": {"capacity": spec["resources"]["requests"],
                         "accessModes": spec["accessModes"],
                         "storageClassName": spec["storageClassName"],
                         "persistentVolumeReclaimPolicy": "Delete",
                         "nfs": {"server": PROVISIONER, "path": f"/{name}"},
                         "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                                      "namespace": meta["namespace"], "name": meta["name"],
                                      "uid": meta["uid"]}}})
        for name, volume in volumes.items():
            if volume["status"].get("phase") == "Released":
                self._attempt(self.api.call, "DELETE", f"{VOLUMES}/{name}")
