# SPDX-License-Identifier: Apache-2.0
"""What NetworkPolicies let through: kubernetes.io/docs/concepts/services-networking/network-policies, for selectors by labels."""

import ipaddress

from manifests import port as named_port


def matches(selector, labels):
    return (selector or {}).get("matchLabels", {}).items() <= labels.items()


def peer_matches(peers, end, home):
    """`end`: {pod: labels, namespace: labels, name of the namespace} or {ip}. No peers mean everybody."""
    if peers is None:
        return True
    for peer in peers:
        if "ipBlock" in peer:
            if "ip" in end and ipaddress.ip_address(end["ip"]) in ipaddress.ip_network(peer["ipBlock"]["cidr"]):
                return True
            continue
        if "pod" not in end:
            continue
        if "namespaceSelector" in peer:
            inside = matches(peer["namespaceSelector"], end["namespace"])
        else:
            inside = end["name"] == home
        if inside and matches(peer.get("podSelector"), end["pod"]):
            return True
    return False


def port_matches(ports, number, server):
    """`server`: spec of the pod that listens, for named ports; None if it is none of ours."""
    if ports is None:
        return True
    for one in ports:
        wanted = one["port"]
        if isinstance(wanted, str):
            wanted = named_port(server, wanted) if server else None
        if wanted == number:
            return True
    return False


def direction_allows(policies, direction, ours, other, number, server, home):
    applying = [policy for policy in policies
                if matches(policy["spec"]["podSelector"], ours["pod"]) and direction in policy["spec"]["policyTypes"]]
    if not applying:
        return True
    rules, peers = ("ingress", "from") if direction == "Ingress" else ("egress", "to")
    return any(peer_matches(rule.get(peers), other, home) and port_matches(rule.get("ports"), number, server)
               for policy in applying for rule in policy["spec"].get(rules, []))


def allowed(manifest, source, target, number):
    """Whether `source` may connect to `target`: ends as in peer_matches; `spec` too where the end is a pod of the manifest."""
    policies = manifest.of("NetworkPolicy")
    for one in (source, target):
        one.setdefault("name", None)
    for direction, ours, other in (("Egress", source, target), ("Ingress", target, source)):
        if "spec" in ours and not direction_allows(policies, direction, ours, other, number, target.get("spec"), ours["name"]):
            return False
    return True
