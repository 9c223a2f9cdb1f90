# SPDX-License-Identifier: Apache-2.0
"""Kubernetes objects of a manifest, and what belongs to what among them."""

import pathlib
import sys

try:
    import yaml
except ImportError:
    print("skipped: found no Python module yaml here (Debian package python3-yaml)")
    sys.exit(77)

# Kinds whose template makes pods.
WORKLOADS = ("StatefulSet", "DaemonSet")
# A label of each pod of a StatefulSet.
POD_NAME = "statefulset.kubernetes.io/pod-name"


class Manifest:
    def __init__(self, text, name="manifest"):
        self.name = name
        self.objects = [one for one in yaml.safe_load_all(text) if one is not None]

    @classmethod
    def read(cls, path):
        path = pathlib.Path(path)
        return cls(path.read_text(), path.stem)

    def of(self, *kinds):
        return [one for one in self.objects if one["kind"] in kinds]

    def named(self, kind, name):
        return next((one for one in self.of(kind) if one["metadata"]["name"] == name), None)

    def pods(self):
        """(name, labels, spec) of every pod, or of the template that makes it."""
        for one in self.of("Pod"):
            yield one["metadata"]["name"], one["metadata"].get("labels", {}), one["spec"]
        for one in self.of(*WORKLOADS):
            template = one["spec"]["template"]
            yield one["metadata"]["name"], template["metadata"]["labels"], template["spec"]

    def pod(self, name):
        return next(spec for pod, _, spec in self.pods() if pod == name)

    def selected(self, labels):
        """Pods with all these labels, one of which may be what Kubernetes gives to a pod of a StatefulSet."""
        pod_name = labels.get(POD_NAME)
        others = {key: value for key, value in labels.items() if key != POD_NAME}
        return [pod for pod in self.pods() if others.items() <= pod[1].items() and pod_name in (None, *self.pod_names(pod[0]))]

    def pod_names(self, name):
        """Of the StatefulSet of that name; [] if there is none."""
        owner = self.named("StatefulSet", name)
        return [f"{name}-{index}" for index in range(owner["spec"]["replicas"])] if owner else []


def containers(spec):
    return spec.get("initContainers", []) + spec["containers"]


def flags(container):
    """{flag: value} of the arguments `--flag=value`, `--flag value` and `--flag`."""
    found, last = {}, None
    for argument in container.get("args", []):
        if argument.startswith("--"):
            last, _, value = argument.partition("=")
            found[last] = value
        else:
            found[last] = argument
    return found


def coordinators(container):
    """[(host, port)] of --coordinator."""
    return [tuple(one.split(":")) for one in flags(container).get("--coordinator", "").split(",") if one]


def port(spec, name):
    """The number of a container's named port, None if there is none."""
    return next((one["containerPort"] for container in containers(spec) for one in container.get("ports", [])
                 if one.get("name") == name), None)


def gibibytes(quantity):
    units = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
    unit = quantity[-2:]
    return int(quantity[:-2]) * units[unit] / 2**30 if unit in units else int(quantity) / 2**30
