# SPDX-License-Identifier: Apache-2.0
"""What every manifest of ours must keep. Each policy yields findings, sentences that name the object; none means kept."""

import re
import subprocess

from manifests import POD_NAME, WORKLOADS, containers, coordinators, flags, gibibytes, port

SHARED_FILES = {"--tls-ca": "ca.crt", "--tls-certificate": "tls.crt", "--tls-key": "tls.key"}
# Volumes that Restricted pod security knows.
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def is_daemon(container):
    return container["command"][0] in ("stretto-coordinator", "stretto-worker")


def restricted(manifest):
    """Restricted pod security (kubernetes.io/docs/concepts/security/pod-security-standards), and a root that cannot be written."""
    for name, _, spec in manifest.pods():
        security = spec.get("securityContext", {})
        for field in ("hostNetwork", "hostPID", "hostIPC"):
            if spec.get(field):
                yield f"{name}: {field}"
        if security.get("runAsNonRoot") is not True or security.get("runAsUser", 0) == 0:
            yield f"{name}: may run as root"
        if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{name}: has no seccomp profile"
        for volume in spec.get("volumes", []):
            if not set(volume) - {"name"} <= VOLUMES:
                yield f"{name}: volume {volume['name']} is {set(volume) - {'name'}}"
        for container in containers(spec):
            own = container.get("securityContext", {})
            if own.get("allowPrivilegeEscalation") is not False or own.get("privileged"):
                yield f"{name}: may gain privileges"
            if own.get("capabilities") != {"drop": ["ALL"]}:
                yield f"{name}: keeps capabilities"
            if own.get("readOnlyRootFilesystem") is not True:
                yield f"{name}: can write its root file system"
            if own.get("runAsUser") == 0 or own.get("runAsNonRoot") is False:
                yield f"{name}: may run as root"
            if any("hostPort" in one for one in container.get("ports", [])):
                yield f"{name}: takes a port of its node"


def limits(manifest):
    for name, _, spec in manifest.pods():
        for container in containers(spec):
            resources = container.get("resources", {})
            bound, asked = resources.get("limits", {}), resources.get("requests", {})
            for resource in ("cpu", "memory", "ephemeral-storage"):
                if resource not in bound or resource not in asked:
                    yield f"{name}: no limit or request of {resource}"
            for resource in set(bound) | set(asked):
                # Daemons are Guaranteed, so that no other pod takes what a rank counts on; devices cannot be shared.
                if (is_daemon(container) or "/" in resource) and bound.get(resource) != asked.get(resource):
                    yield f"{name}: {resource} is requested as {asked.get(resource)}, limited to {bound.get(resource)}"
        for volume in spec.get("volumes", []):
            if "emptyDir" in volume and "sizeLimit" not in volume["emptyDir"]:
                yield f"{name}: emptyDir {volume['name']} has no limit"


def shared_memory(manifest):
    for name, _, spec in manifest.pods():
        for container in containers(spec):
            if container["command"] != ["stretto-worker"]:
                continue
            mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
            volume = next((one for one in spec["volumes"] if one["name"] == mounts.get("/dev/shm")), {})
            memory = volume.get("emptyDir", {})
            if memory.get("medium") != "Memory":
                yield f"{name}: /dev/shm is not memory"
            elif gibibytes(memory["sizeLimit"]) >= gibibytes(container["resources"]["limits"].get("memory", "0")):
                yield f"{name}: /dev/shm leaves the pod no memory"


def probes(manifest):
    """By HTTP to the daemon itself, whatever its trainers do. A coordinator that waits to lead is as good as one that leads."""
    for name, _, spec in manifest.pods():
        for container in filter(is_daemon, containers(spec)):
            ready = "/healthz" if "--etcd-endpoints" in flags(container) else "/readyz"
            wanted = {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": ready}
            for probe, path in wanted.items():
                found = container.get(probe, {})
                if {"exec", "grpc", "tcpSocket"} & set(found) or found.get("httpGet") != {"path": path, "port": "metrics"}:
                    yield f"{name}: {probe} does not ask {path} of the port metrics"


def grace(manifest, source):
    """The pod's grace holds --stop-grace and what the daemon needs after it."""
    text = (source / "worker/daemon/daemon.cc").read_text()
    after = int(re.search(r"kReapTime = absl::Seconds\((\d+)\)", text)[1]) + int(re.search(r"kFarewell\{(\d+)\}", text)[1])
    for name, _, spec in manifest.pods():
        for container in filter(is_daemon, containers(spec)):
            needed = int(flags(container).get("--stop-grace", 0)) + after
            if spec.get("terminationGracePeriodSeconds", 30) <= needed:
                yield f"{name}: is killed after {spec.get('terminationGracePeriodSeconds', 30)} s, needs {needed} s"


def accounts(manifest):
    """No pod talks to the Kubernetes API, and the one Role is for people who forward a port."""
    for name, _, spec in manifest.pods():
        if spec.get("automountServiceAccountToken") is not False:
            yield f"{name}: gets a token"
        account = spec.get("serviceAccountName")
        if any(map(is_daemon, containers(spec))) and manifest.named("ServiceAccount", account) is None:
            yield f"{name}: has no account of its own"
    for account in manifest.of("ServiceAccount"):
        if account.get("automountServiceAccountToken") is not False:
            yield f"{account['metadata']['name']}: gives tokens"
    if manifest.of("ClusterRole", "ClusterRoleBinding"):
        yield "rights beyond the namespace"
    for role in manifest.of("Role"):
        for rule in role["rules"]:
            if rule["resources"] not in (["pods"], ["pods/portforward"]) or not rule.get("resourceNames") or \
                    not set(rule["verbs"]) <= {"get", "create"}:
                yield f"{role['metadata']['name']}: more than forwarding a port to one pod"


def selectors(manifest):
    for one in manifest.of(*WORKLOADS):
        name, spec = one["metadata"]["name"], one["spec"]
        if not spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items():
            yield f"{name}: does not select its own pods"
        if one["kind"] == "StatefulSet" and manifest.named("Service", spec["serviceName"]) is None:
            yield f"{name}: service {spec['serviceName']} is missing"
    kinds = {one["metadata"]["name"]: one["kind"] for one in manifest.of(*WORKLOADS)}
    chosen = [(one, one["spec"]["selector"]) for one in manifest.of("Service")]
    chosen += [(one, one["spec"]["selector"]["matchLabels"]) for one in manifest.of("PodDisruptionBudget")]
    chosen += [(one, one["spec"]["podSelector"].get("matchLabels", {})) for one in manifest.of("NetworkPolicy")]
    for one, labels in chosen:
        pods = manifest.selected(labels)
        name = f"{one['kind']} {one['metadata']['name']}"
        if not pods:
            yield f"{name}: selects no pod"
        if one["kind"] != "NetworkPolicy" and len({pod[0] for pod in pods}) > 1:
            yield f"{name}: selects pods of several workloads"
        # Kubernetes counts how many there should be by the scale subresource, which a DaemonSet has not.
        if one["kind"] == "PodDisruptionBudget" and any(kinds.get(pod[0]) == "DaemonSet" for pod in pods):
            yield f"{name}: cannot count a DaemonSet"
    for monitor in manifest.of("ServiceMonitor"):
        labels = monitor["spec"]["selector"]["matchLabels"]
        scraped = {one["port"] for one in monitor["spec"]["endpoints"]}
        services = [one for one in manifest.of("Service") if labels.items() <= one["metadata"]["labels"].items()
                    and scraped & {own["name"] for own in one["spec"]["ports"]}]
        if len(services) != len(kinds):
            yield f"ServiceMonitor: finds {len(services)} services of {len(kinds)} workloads"
    budgets = {pod[0] for one in manifest.of("PodDisruptionBudget")
               for pod in manifest.selected(one["spec"]["selector"]["matchLabels"])}
    for name, kind in kinds.items():
        if kind == "StatefulSet" and name not in budgets:
            yield f"{name}: has no PodDisruptionBudget"


def ports(manifest):
    for service in manifest.of("Service"):
        for pod, _, spec in manifest.selected(service["spec"]["selector"]):
            for one in service["spec"]["ports"]:
                if port(spec, one["targetPort"]) != one["port"]:
                    yield f"Service {service['metadata']['name']}: {pod} has no port {one['targetPort']} of number {one['port']}"
    for policy in manifest.of("NetworkPolicy"):
        for rule in policy["spec"].get("ingress", []):
            for one in rule.get("ports", []):
                for pod, _, spec in manifest.selected(policy["spec"]["podSelector"]["matchLabels"]):
                    if port(spec, one["port"]) is None:
                        yield f"NetworkPolicy {policy['metadata']['name']}: {pod} has no port {one['port']}"
    for name, _, spec in manifest.pods():
        for container in filter(is_daemon, containers(spec)):
            for flag, own in (("--listen", "grpc"), ("--metrics-listen", "metrics"), ("--page-listen", "page")):
                value = flags(container).get(flag)
                if value is not None and value.rpartition(":")[2] != str(port(spec, own)):
                    yield f"{name}: {flag} is {value}, the port {own} is {port(spec, own)}"


def plain_traffic(manifest):
    """Whoever reads the rule that lets ranks meet learns there that it is all that protects them."""
    for policy in manifest.of("NetworkPolicy"):
        labels = policy["spec"]["podSelector"]["matchLabels"]
        text = policy["metadata"].get("annotations", {}).get("kubernetes.io/description", "")
        if labels.get("app.kubernetes.io/component") == "worker" and "ranks (gloo, NCCL) is not encrypted" not in text:
            yield f"NetworkPolicy {policy['metadata']['name']}: does not say that ranks' traffic is not encrypted"


def known_flags(manifest, bin_folder):
    for name, _, spec in manifest.pods():
        for container in filter(is_daemon, containers(spec)):
            text = subprocess.run([bin_folder / container["command"][0], "--help"], capture_output=True, text=True, check=True).stdout
            known = set(re.findall(r"--[a-z][a-z0-9-]*", text))
            for flag in sorted(set(flags(container)) - known):
                yield f"{name}: {container['command'][0]} has no flag {flag}"


def service_of(manifest, host):
    """The Service that gives a host its name, or one of its pods: POD.SERVICE.NAMESPACE.svc, if it is headless."""
    first, second = host.split(".")[:2] if "." in host else (host, "")
    headless = manifest.named("Service", second)
    if first in manifest.pod_names(second) and headless and headless["spec"].get("clusterIP") == "None":
        return headless
    return manifest.named("Service", first)


def standby(manifest):
    """Several coordinators have one state, in etcd, over TLS; all start at once, and every worker knows each of them."""
    for one in manifest.of("StatefulSet"):
        container, name = one["spec"]["template"]["spec"]["containers"][0], one["metadata"]["name"]
        if container["command"] != ["stretto-coordinator"]:
            continue
        given, count = flags(container), one["spec"]["replicas"]
        if "--etcd-endpoints" not in given:
            if count != 1:
                yield f"{name}: {count} coordinators with a database each"
            continue
        if one["spec"].get("volumeClaimTemplates"):
            yield f"{name}: has a volume for a database"
        if one["spec"].get("podManagementPolicy") != "Parallel":
            yield f"{name}: the second starts when the first is ready"
        for flag in ("--etcd-ca", "--etcd-certificate", "--etcd-key"):
            if not given.get(flag):
                yield f"{name}: reaches etcd without {flag}"
        for pod, _, spec in manifest.pods():
            for worker in containers(spec):
                hosts = {host.split(".")[0] for host, _ in coordinators(worker)}
                if hosts and hosts != {f"{name}-{i}" for i in range(count)}:
                    yield f"{pod}: knows the coordinators {sorted(hosts)}, there are {count}"
        advertised = given.get("--advertise", "").replace("$(POD_NAME)", f"{name}-0").partition(":")[0]
        if service_of(manifest, advertised) is None:
            yield f"{name}: --advertise is {given.get('--advertise')}, which no Service is"


def references(manifest):
    """Variables, mounts, claims and host names that arguments and mounts name exist."""
    for name, _, spec in manifest.pods():
        owner = manifest.named("StatefulSet", name)
        templates = owner["spec"].get("volumeClaimTemplates", []) if owner else []
        volumes = {one["name"]: one for one in spec.get("volumes", [])} | {one["metadata"]["name"]: one for one in templates}
        for volume in volumes.values():
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            if claim and manifest.of("PersistentVolumeClaim") and manifest.named("PersistentVolumeClaim", claim) is None:
                yield f"{name}: claim {claim} is missing"
        for container in containers(spec):
            mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
            for one in mounts.values():
                if one["name"] not in volumes:
                    yield f"{name}: volume {one['name']} is missing"
            variables = {one["name"] for one in container.get("env", [])}
            for flag, value in flags(container).items():
                for variable in set(re.findall(r"\$\((\w+)\)", value)) - variables:
                    yield f"{name}: {flag} names {variable}, which is not set"
                mount = next((one for path, one in mounts.items() if f"{value}/".startswith(f"{path}/")), None)
                if value.startswith("/") and mount is None and flag != "--etcd-prefix":
                    yield f"{name}: {flag} is {value}, where nothing is mounted"
                if flag in ("--state-dir", "--checkpoint-root") and (mount is None or mount.get("readOnly")):
                    yield f"{name}: {flag} cannot be written"
            for host, number in coordinators(container):
                if (service := service_of(manifest, host)) is None or int(number) not in [one["port"] for one in service["spec"]["ports"]]:
                    yield f"{name}: --coordinator is {host}:{number}, which no Service is"


def tls(manifest):
    """Mutual TLS on every control connection, each with its own secret, and certificates of the names that are called."""
    for name, labels, spec in manifest.pods():
        for container in filter(is_daemon, containers(spec)):
            role = container["command"][0].removeprefix("stretto-")
            given = flags(container)
            if "--insecure-listen-beyond-loopback" in given:
                yield f"{name}: has no TLS"
            mount = next((one for one in container["volumeMounts"] if one["name"] == "tls"), {})
            for flag, file in SHARED_FILES.items():
                if given.get(flag) != f"{mount.get('mountPath')}/{file}":
                    yield f"{name}: {flag} is {given.get(flag)}, the secret is at {mount.get('mountPath')}"
            secret = next((one["secret"] for one in spec["volumes"] if one["name"] == "tls"), {})
            if secret.get("secretName") != f"stretto-{role}-tls" or not mount.get("readOnly"):
                yield f"{name}: does not mount the secret of role {role}"
            if secret.get("defaultMode", 0o644) & 0o007:
                yield f"{name}: everybody in the container can read the key"
    called = {host for _, _, spec in manifest.pods() for one in containers(spec) for host, _ in coordinators(one)}
    called |= {f"{one['metadata']['name']}.stretto.svc" for one in page_services(manifest)}
    for certificate in manifest.of("Certificate"):
        role = certificate["metadata"]["labels"]["app.kubernetes.io/component"]
        spec = certificate["spec"]
        if spec["secretName"] != f"stretto-{role}-tls" or spec["uris"] != [f"spiffe://cluster.local/stretto/{role}{'/admin/admin' if role == 'user' else ''}"]:
            yield f"Certificate {certificate['metadata']['name']}: is not that of role {role}"
        if role == "coordinator" and not called | {"localhost"} <= set(spec.get("dnsNames", [])):
            yield f"Certificate {certificate['metadata']['name']}: lacks a name of {called | {'localhost'}}"
        if ("server auth" if role == "coordinator" else "client auth") not in spec["usages"]:
            yield f"Certificate {certificate['metadata']['name']}: cannot be used by a {role}"


def page_services(manifest):
    return [one for one in manifest.of("Service") if "page" in [own["name"] for own in one["spec"]["ports"]]]


def page(manifest):
    """The page wants TLS. Each coordinator has a Service for it, which keeps the caller's address."""
    for name, _, spec in manifest.pods():
        given = {flag: value for container in containers(spec) for flag, value in flags(container).items()}
        if "--page-listen" not in given:
            continue
        if "--tls-ca" not in given:
            yield f"{name}: shows the page to nobody, because it has no TLS"
        services = page_services(manifest)
        if sorted(one["spec"]["selector"].get(POD_NAME, "any") for one in services) != manifest.pod_names(name):
            yield f"{name}: its pods have not a page Service each"
        for one in services:
            if one["spec"]["type"] != "ClusterIP" and one["spec"].get("externalTrafficPolicy") != "Local":
                yield f"Service {one['metadata']['name']}: hides callers from the NetworkPolicy"


def fresh_files(manifest):
    """What is read again when it changes is part of a mounted folder: Kubernetes never renews a file that is mounted alone."""
    for name, _, spec in manifest.pods():
        for container in filter(is_daemon, containers(spec)):
            for mount in container["volumeMounts"]:
                if "subPath" in mount:
                    yield f"{name}: {mount['mountPath']} keeps its first content"


def names(manifest):
    seen = set()
    for one in manifest.objects:
        name = (one["kind"], one["metadata"]["name"])
        if name in seen:
            yield f"{name} stands twice"
        seen.add(name)
        if one["kind"] != "Namespace" and one["metadata"].get("namespace") != "stretto":
            yield f"{name} is in no namespace of ours"


def versions(manifest, source):
    version = re.search(r"project\(stretto VERSION ([0-9.]+)", (source / "CMakeLists.txt").read_text())[1]
    for name, _, spec in manifest.pods():
        for container in containers(spec):
            if container["image"] != f"stretto:{version}":
                yield f"{name}: image {container['image']}, expected stretto:{version}"


def all_findings(manifest, source):
    """Of everything but the flags, which need the programs."""
    found = []
    for policy in (restricted, limits, shared_memory, probes, accounts, selectors, ports, plain_traffic, references, standby, tls, page,
                   fresh_files, names):
        found += policy(manifest)
    found += grace(manifest, source)
    found += versions(manifest, source)
    return found
