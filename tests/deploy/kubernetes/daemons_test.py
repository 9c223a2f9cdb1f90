#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemons start with the arguments of the committed manifests, in a network of their own, with the secrets that
docs/KUBERNETES.md makes: probes answer, the worker registers over TLS, users with a certificate or a token see it, on the page
too, and nobody else does.

  daemons_test.py SOURCE BIN

Needs user namespaces (or root).
"""

import os
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from documented_certificates import make_secrets
from manifests import Manifest, containers

SOURCE, BIN = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
POD_IP = "10.1.2.3"
SERVICE = "stretto-coordinator.stretto.svc"
FIELDS = {"status.podIP": POD_IP, "metadata.name": "stretto-worker-cpu-0", "limits.cpu": "2"}


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def own_namespaces():
    """Runs this program again where addresses and /etc/hosts are ours."""
    for tool in ("unshare", "ip"):
        if shutil.which(tool) is None:
            skip(f"found no {tool} on PATH")
    inside = ["unshare", "--user", "--map-root-user", "--mount", "--net"]
    probe = subprocess.run([*inside, "true"], capture_output=True, text=True)
    if probe.returncode != 0:
        skip(f"no namespaces here: {probe.stderr.strip()}")
    os.execvp(inside[0], [*inside, sys.executable, __file__, *sys.argv[1:3], "inside"])


class Pod:
    """The daemon of a pod, its mounts in a folder of their own."""

    def __init__(self, manifest, name, root, secrets):
        spec = manifest.pod(name)
        container = containers(spec)[0]
        named = {volume["name"]: volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume}
        for mount in container["volumeMounts"]:
            (root / mount["mountPath"][1:]).mkdir(parents=True, exist_ok=True)
            if mount["name"] in named:
                shutil.copytree(secrets / named[mount["name"]], root / mount["mountPath"][1:], dirs_exist_ok=True)
        variables = {one["name"]: one.get("value") or FIELDS[next(iter(one["valueFrom"].values())).get("fieldPath", "limits.cpu")]
                     for one in container["env"]}
        arguments = []
        for argument in container["args"]:
            argument = re.sub(r"\$\((\w+)\)", lambda match: variables[match[1]], argument)
            arguments.append(argument.replace("=/", f"={root}/"))
        environment = {**os.environ, **variables, "HOME": str(root / "var/lib/stretto")}
        self.process = subprocess.Popen([BIN / container["command"][0], *arguments], env=environment, stdout=subprocess.PIPE, text=True)
        self.probes = [container[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")]
        self.port = {one["name"]: one["containerPort"] for one in container["ports"]}["metrics"]

    def wait_for(self, start):
        for line in self.process.stdout:
            if line.startswith(start):
                return
        sys.exit(f"{self.process.args[0]} ended before it said '{start}'")

    def probe(self):
        for one in self.probes:
            answer = urllib.request.urlopen(f"http://{POD_IP}:{self.port}{one['path']}", timeout=10)
            assert answer.status == 200, (one, answer.status)

    def end(self):
        self.process.terminate()
        code = self.process.wait(30)
        assert code == 0, f"{self.process.args[0]} ended with {code}"


def stretto(address, *tls):
    return subprocess.run([BIN / "stretto", "--coordinator", f"{address}:7070", *tls, "worker", "list"],
                          capture_output=True, text=True, timeout=100)


def look_at_page(tls, headers):
    """Status and text of what the page asks for, at a forwarded port."""
    request = urllib.request.Request("https://127.0.0.1:7443/api/workers", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10, context=ssl.create_default_context(cafile=tls / "ca.crt")) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()


def give_up(*_):
    sys.exit("the daemons did not find each other within a minute")


def main():
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "address", "add", f"{POD_IP}/32", "dev", "lo"], check=True)
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        (work / "hosts").write_text(f"127.0.0.1 localhost\n{POD_IP} {SERVICE}\n")
        subprocess.run(["mount", "--bind", work / "hosts", "/etc/hosts"], check=True)
        make_secrets(SOURCE, BIN, work)
        # The coordinator of page.yaml has tokens and the page beside what that of cpu.yaml has.
        cpu, page = (Manifest.read(SOURCE / f"deploy/kubernetes/manifests/{name}.yaml") for name in ("cpu", "page"))
        pods = []
        try:
            pods.append(Pod(page, "stretto-coordinator", work / "c", work))
            pods[0].wait_for("listening grpc=7070 metrics=9090 page=7443")
            pods.append(Pod(cpu, "stretto-worker-cpu", work / "w", work))
            pods[1].wait_for("ready worker=stretto-worker-cpu-0 metrics=9091")
            for pod in pods:
                pod.probe()
            ours = [f"--tls-{flag}={work / 'stretto-user-tls' / file}" for flag, file in
                    (("ca", "ca.crt"), ("certificate", "tls.crt"), ("key", "tls.key"))]
            token = work / "tls/user-dash.token"
            with_token = [ours[0], f"--token-file={token}"]
            # As pods call it, and as a forwarded port does.
            for address, who in ((SERVICE, ours), ("127.0.0.1", ours), (SERVICE, with_token)):
                listed = stretto(address, *who)
                assert re.search(r"^stretto-worker-cpu-0 +READY", listed.stdout, re.M), listed
            workers = [one.replace("stretto-user-tls", "stretto-worker-tls") for one in ours]
            for refused in (stretto("127.0.0.1"), stretto("127.0.0.1", *workers)):
                assert refused.returncode != 0 and "READY" not in refused.stdout, refused
            shown = look_at_page(work / "tls", {"Authorization": f"Bearer {token.read_text().strip()}"})
            assert shown[0] == 200 and "stretto-worker-cpu-0" in shown[1], shown
            hidden = look_at_page(work / "tls", {})
            assert hidden[0] == 401 and "stretto-worker" not in hidden[1], hidden
            for pod in reversed(pods):
                pod.end()
        finally:
            for pod in pods:
                pod.process.kill()
    print("ok")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        own_namespaces()
    main()
