#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The image is built by buildah from the recipe, and run by podman: read-only, without rights and with bounded memory a job
trains; and the pods of the committed manifest, two workers on a bridge, train one job over its network.

  image_test.py SOURCE PACKAGES FOLDER

PACKAGES: Debian packages to install, in place of the recipe's build stages, which compile everything. FOLDER: the
build, for its client, for clean roots, which stay, and for images, which go.

The pods are played with what podman 4.3 lacks put in: secrets and claims are folders, variables are filled in, the service
has a line in /etc/hosts, and probes, for which podman wants systemd, are asked by this program.
"""

import copy
import json
import os
import pathlib
import re
import sys
import time
import urllib.request

import yaml
from engine import Engine, need, skip
from recipe import base_image, build_from_packages

SOURCE, PACKAGES, FOLDER = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
sys.path.insert(0, str(SOURCE / "tests/deploy/kubernetes"))
from manifests import Manifest  # noqa: E402
from documented_certificates import make_secrets  # noqa: E402

USER, SERVICE, IMAGE = 10001, "stretto-coordinator.stretto.svc", "localhost/stretto"
GIB = 2**30


def build(engine):
    build_from_packages(engine, SOURCE, PACKAGES, base_image(engine, SOURCE, FOLDER), IMAGE)


def one_container_trains(engine):
    script = SOURCE / "tests/deploy/package/train_a_job.sh"
    run = ["run", "--rm", "--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--memory", "1g",
           "--network", "none", "--volume", f"{script}:/train_a_job.sh:ro", "--env", "HOME=/tmp", IMAGE]
    trial = engine.podman(*run, "true", check=False)
    if trial.returncode != 0:
        skip(f"no container runs here: {trial.stderr.strip()}")
    who = engine.podman(*run, "sh", "-c", "id -u; touch /usr/written 2>&1 || true").stdout
    assert who.startswith(f"{USER}\n") and "Read-only file system" in who, who
    engine.podman(*run, "bash", "/train_a_job.sh", "/usr/share/stretto/examples")


class Pods:
    """The pods of the manifest on a bridge."""

    def __init__(self, engine, work):
        self.engine, self.work = engine, work
        self.manifest = Manifest.read(SOURCE / "deploy/kubernetes/manifests/cpu.yaml")
        engine.podman("network", "create", "stretto")
        subnet = engine.json("network", "inspect", "stretto")[0]["subnets"][0]["subnet"]
        self.network = subnet.rsplit(".", 1)[0]
        make_secrets(SOURCE, FOLDER / "bin", work)
        for folder in ("data", "checkpoints"):
            self.own(work / folder)

    @staticmethod
    def own(folder):
        folder.mkdir(exist_ok=True)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, USER, USER)

    def folder_of(self, name, volume, role):
        if volume == "tls":
            folder = self.work / f"stretto-{role}-tls"
        else:
            folder = self.work / (volume if volume in ("data", "checkpoints") else f"{name}-{volume}")
        self.own(folder)
        return folder

    def play(self, workload, name, role, address, memory):
        spec = copy.deepcopy(self.manifest.pod(workload))
        container = spec["containers"][0]
        fields = {"status.podIP": address, "metadata.name": name, "limits.cpu": "1"}
        for one in container["env"]:
            if source := one.pop("valueFrom", None):
                field = next(iter(source.values()))
                one["value"] = fields[field.get("fieldPath") or field["resource"]]
        variables = {one["name"]: one["value"] for one in container["env"]}
        container["args"] = [re.sub(r"\$\((\w+)\)", lambda match: variables[match[1]], one) for one in container["args"]]
        container.update(image=IMAGE, imagePullPolicy="Never", resources={"limits": {"cpu": "1", "memory": str(memory)}})
        for left_out in ("ports", "startupProbe", "livenessProbe", "readinessProbe"):
            del container[left_out]
        spec["hostAliases"] = [{"ip": f"{self.network}.10", "hostnames": [SERVICE]}]
        spec["volumes"] = [{"name": one["name"], "hostPath": {"path": str(self.folder_of(name, one["name"], role))}}
                           for one in container["volumeMounts"]]
        file = self.work / f"{name}.yaml"
        file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}))
        self.engine.podman("kube", "play", "--network", "stretto", "--ip", address, file)

    def ready(self, name, address, port):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                if urllib.request.urlopen(f"http://{address}:{port}/readyz", timeout=5).status == 200:
                    return
            except OSError:
                time.sleep(0.1)
        logs = self.engine.podman("pod", "logs", name, check=False)
        sys.exit(f"{name} was not ready within a minute:\n{logs.stdout}{logs.stderr}")

    def stretto(self, *arguments):
        """As a user, from a container on the same bridge."""
        certificates = self.folder_of("user", "tls", "user")
        done = self.engine.podman(
            "run", "--rm", "--network", "stretto", "--add-host", f"{SERVICE}:{self.network}.10", "--volume",
            f"{certificates}:/tls:ro", IMAGE, "stretto", "--coordinator", f"{SERVICE}:7070", "--tls-ca=/tls/ca.crt",
            "--tls-certificate=/tls/tls.crt", "--tls-key=/tls/tls.key", *arguments, check=False)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout


def two_pods_train(engine):
    work = engine.folder / "pods"
    work.mkdir()
    pods = Pods(engine, work)
    engine.podman("run", "--rm", "--volume", f"{work}/data:/data", IMAGE, "stretto", "data", "prepare",
                  "/usr/share/common-licenses/GPL-3", "--output", "/data/text")
    pods.play("stretto-coordinator", "stretto-coordinator-0", "coordinator", f"{pods.network}.10", GIB)
    pods.ready("stretto-coordinator-0", f"{pods.network}.10", 9090)
    workers = {f"stretto-worker-cpu-{number}": f"{pods.network}.{11 + number}" for number in range(2)}
    for name, address in workers.items():
        pods.play("stretto-worker-cpu", name, "worker", address, GIB)
    for name, address in workers.items():
        pods.ready(name, address, 9091)

    listed = json.loads(pods.stretto("worker", "list", "-o", "json"))["workers"]
    memory = {one["name"].split("/")[-1]: [device["memory_bytes"] for device in one["devices"]] for one in listed}
    assert memory == {name: [GIB] for name in workers}, f"workers offer {memory}, expected the limit of their pods, {GIB}"
    pods.stretto("job", "submit", "/usr/share/stretto/examples/first-job.yaml", "--set", "placement.split_blocks=true", "--wait")
    job = json.loads(pods.stretto("job", "get", "first-job", "-o", "json"))
    assert job["state"] == "succeeded", job
    ranks = {one["worker"].split("/")[-1] for one in job["placement"]}
    assert ranks == set(workers), f"ranks ran on {ranks}, expected {set(workers)}"


def main():
    need()
    engine = Engine(FOLDER / "images")
    try:
        build(engine)
        one_container_trains(engine)
        two_pods_train(engine)
    finally:
        engine.end()
    print("ok")


if __name__ == "__main__":
    main()
