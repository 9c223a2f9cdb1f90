# SPDX-License-Identifier: Apache-2.0
"""The rule of worker/bench/common/disturbance.h for the rounds of a peer."""


def add(report, name, seconds):
    """Adds a variant of the peer to the peer's disturbed programs if it is one by the limit of the
    report of stretto-bench."""
    spread = max(seconds) / min(seconds) - 1
    if spread > report["most_spread"]:
        report["peer"].setdefault("disturbed", []).append(
            {"program": f"torch {name}", "spread": spread})


def of_peer(report):
    """The disturbed programs of the peer, if there is one."""
    return (report["peer"] or {}).get("disturbed", [])


def programs(report):
    """All of them. With any there is nothing to compare with the peer."""
    return report["disturbed"] + of_peer(report)


def text(report):
    """The lines of stretto-bench about a disturbed run; empty without any."""
    lines = [f"disturbed: rounds of {each['program']} differ by {each['spread']:.1%}, expected at "
             f"most {report['most_spread']:.0%}" for each in programs(report)]
    if report["disturbed"]:
        lines.append("The run was disturbed: it has no ratios. Repeat it on an idle machine.")
    elif lines:
        lines.append("The peer was disturbed: nothing is compared with it. Repeat the run on an "
                     "idle machine.")
    return "\n".join(lines)
