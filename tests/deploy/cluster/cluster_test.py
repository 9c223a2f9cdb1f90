#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The committed manifests on a real API server, with nodes on which nothing runs (fake_nodes.py).
The administrator of a namespace installs each of them. RBAC, admission and a quota accept
everything, claims bind, every pod is scheduled to where it belongs, a drained node's worker moves,
and uninstalling leaves what docs/KUBERNETES.md says.

  cluster_test.py SOURCE BUILD

BUILD has bin/stretto, and keeps the programs that build_kubernetes.sh builds. It needs namespaces,
etcd and what deploy/install_packages.sh --with-full-tests installs.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
sys.path.insert(0, str(SOURCE / "tests/deploy/kubernetes"))
from manifests import Manifest, yaml  # noqa: E402
from cluster import SPACE, Cluster  # noqa: E402
from fake_nodes import is_ready  # noqa: E402
from installed import Installed  # noqa: E402

BUILD_KUBERNETES = pathlib.Path(__file__).resolve().with_name("build_kubernetes.sh")


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def build():
    """Returns the folder of the control plane's programs."""
    for tool in ("etcd", "openssl", "unshare", "ip"):
        if shutil.which(tool) is None:
            skip(f"found no {tool} on PATH; deploy/install_packages.sh --with-tests installs it")
    built = subprocess.run([BUILD_KUBERNETES, BUILD / "kubernetes"], stdout=subprocess.PIPE,
                           text=True)
    last = (built.stdout.splitlines() or [""])[-1]
    if built.returncode == 77:
        skip(last.removeprefix("skipped: "))
    if built.returncode != 0:
        sys.exit(f"{BUILD_KUBERNETES.name} ended with {built.returncode}: {built.stdout}")
    return last


def own_namespaces(programs):
    """Runs this program again where all ports are free, and where every process ends with it."""
    inside = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork",
              "--kill-child", "--mount-proc"]
    probe = subprocess.run([*inside, "true"], capture_output=True, text=True)
    if probe.returncode != 0:
        skip(f"no namespaces here: {probe.stderr.strip()}")
    os.execvp(inside[0], [*inside, sys.executable, __file__, *sys.argv[1:3], programs])


def a_user_has_a_shell(cluster):
    """The page's pod runs; admission refuses it with the node's network, the quota without
    limits."""
    cluster.page_command("kubectl apply -f deploy/kubernetes/examples/cli.yaml", "owner")
    cluster.wait_for("the shell runs", lambda: is_ready(cluster.pods()["stretto-cli"]))
    pod = Manifest.read(SOURCE / "deploy/kubernetes/examples/cli.yaml").objects[0]
    pod["metadata"]["name"] = "other"
    unbounded = [{**pod["spec"]["containers"][0], "resources": {}}]
    for change, reason in (({"hostNetwork": True}, "Host network is not allowed"),
                           ({"containers": unbounded}, "failed quota")):
        changed = yaml.safe_dump({**pod, "spec": {**pod["spec"], **change}})
        refused = cluster.kubectl("apply", "-f", "-", input=changed, check=False)
        assert refused.returncode != 0 and reason in refused.stderr, (change, refused)
    cluster.kubectl("delete", "pod", "stretto-cli", "--namespace=stretto")


def drained_workers_move(cluster, installed):
    """The node with most workers is drained: one worker after the other moves, with its grace."""
    before = cluster.pods(component="worker")
    nodes = [pod["spec"]["nodeName"] for pod in before.values()]
    node = max(sorted(set(nodes)), key=nodes.count)
    assert nodes.count(node) == 2, f"workers are on {nodes}, expected two on one of three nodes"
    cluster.drain(node)
    cluster.wait_for(f"the workers of {node} run elsewhere", installed.runs)
    for name, pod in cluster.pods(component="worker").items():
        was, now = before[name]["spec"]["nodeName"], pod["spec"]["nodeName"]
        stayed = pod["metadata"]["uid"] == before[name]["metadata"]["uid"]
        assert now != node, f"{name} is on {node}, which is drained"
        assert stayed == (was != node), f"{name} was on {was}; it stayed: {stayed}"
        grace = cluster.nodes.graces.get(name)
        assert stayed or grace == 135, f"{name} had {grace} s to end, expected 135"
    fewest = cluster.nodes.fewest["worker"]
    assert fewest == 3, f"{fewest} workers were ready, expected 3: one may be evicted at a time"
    cluster.kubectl("uncordon", node, user="admin")


def a_drained_coordinator_keeps_its_volume(cluster, installed):
    coordinator = "stretto-coordinator-0"
    claim = f"{SPACE}/persistentvolumeclaims/state-{coordinator}"
    node, volume = cluster.place(coordinator), cluster.api.get(claim)["spec"]["volumeName"]
    cluster.drain(node)
    cluster.wait_for("the coordinator runs elsewhere", installed.runs)
    assert cluster.place(coordinator) != node, f"the coordinator is on {node}, which is drained"
    found = cluster.api.get(claim)["spec"]["volumeName"]
    assert found == volume, f"the coordinator has volume {found}, expected {volume}"
    cluster.kubectl("uncordon", node, user="admin")


def a_tainted_node_loses_its_worker(cluster, installed):
    """That of a DaemonSet ends by the page's taint, and is on its node again without it."""
    taint = re.search(r"^kubectl taint node NODE (\S+) +# later: (\S+)$", cluster.page, re.M)
    cluster.kubectl("taint", "node", "gpu-0", taint[1], user="admin")

    def places():
        return {pod["spec"].get("nodeName") for pod in cluster.pods(component="worker").values()}
    cluster.wait_for("gpu-0 has no worker", lambda: places() == {"gpu-1"})
    cluster.drain("gpu-0")
    assert places() == {"gpu-1"}, f"workers are on {places()}, expected on gpu-1 alone"
    cluster.kubectl("taint", "node", "gpu-0", taint[2], user="admin")
    cluster.kubectl("uncordon", "gpu-0", user="admin")
    cluster.wait_for("gpu-0 has its worker again", installed.runs)


def nobody_has_rights_to_spare(cluster):
    """Accounts of pods have none. Who may forward a port may do so to the coordinator alone."""
    for account in ("stretto-coordinator", "stretto-worker"):
        for asked in ("get secrets", "list pods", "create pods", "get configmaps", "get nodes"):
            may = cluster.may(*asked.split(), f"--as=system:serviceaccount:stretto:{account}")
            assert not may, f"account {account} may {asked}"
    for asked, expected in (
        ("create pods/stretto-coordinator-0 --subresource=portforward", True),
        ("get pods/stretto-coordinator-0", True),
        ("create pods/stretto-coordinator-1 --subresource=portforward", False),
        ("create pods/stretto-coordinator-0 --subresource=exec", False),
        ("get secrets", False),
        ("list pods", False),
    ):
        may = cluster.may(*asked.split(), "--as=somebody", "--as-group=stretto-users")
        assert may == expected, f"a member of stretto-users may {asked}: {may}"
    assert not cluster.may("get", "nodes", "--as=owner"), "the owner is more than that"


def the_nodes_network_must_be_allowed(cluster):
    """infiniband.yaml is accepted where pods are restricted, but none of its pods are."""
    installed = Installed(cluster, "infiniband")
    events = f"{SPACE}/events?fieldSelector=reason%3DFailedCreate"
    cluster.wait_for("pods on the nodes' network are refused", lambda: any(
        "Host network is not allowed" in one["message"] for one in cluster.api.items(events)))
    assert not cluster.pods(component="worker"), "a worker was made all the same"
    cluster.kubectl("create", "rolebinding", "privileged", "--clusterrole=pods-privileged",
                    "--namespace=stretto", "--group=system:serviceaccounts:stretto", user="admin")
    # The controller waits longer after every refusal. It looks at once at what is changed.
    cluster.kubectl("annotate", "daemonset/stretto-worker-gpu", "--namespace=stretto", "x/y=z")
    installed.check()
    installed.uninstall()


def manifests_run(cluster):
    installed = Installed(cluster, "cpu")
    installed.check()
    a_user_has_a_shell(cluster)
    drained_workers_move(cluster, installed)
    a_drained_coordinator_keeps_its_volume(cluster, installed)
    installed.uninstall()

    installed = Installed(cluster, "gpu")
    installed.check()
    a_tainted_node_loses_its_worker(cluster, installed)
    installed.uninstall()

    installed = Installed(cluster, "operators")
    installed.check()
    nobody_has_rights_to_spare(cluster)
    installed.uninstall()

    installed = Installed(cluster, "page")
    installed.check()
    installed.uninstall()

    installed = Installed(cluster, "standby")
    installed.check()
    nodes = {cluster.place(f"stretto-coordinator-{index}") for index in range(2)}
    assert len(nodes) == 2, f"both coordinators are on {nodes}, expected one on each of two nodes"
    installed.uninstall()

    the_nodes_network_must_be_allowed(cluster)


def main(programs):
    with tempfile.TemporaryDirectory() as work:
        cluster = Cluster(SOURCE, BUILD / "bin", programs, work)
        try:
            cluster.start()
            manifests_run(cluster)
        finally:
            cluster.end()
    print("ok")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        own_namespaces(build())
    main(sys.argv[3])
