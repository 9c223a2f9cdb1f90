# SPDX-License-Identifier: Apache-2.0
"""The rule of worker/bench/common/disturbance.h for the rounds of a peer."""


def add(report, name, seconds):
    """Adds a variant of the peer to the disturbed programs of a report of stretto-bench, if it is
    one by the report's own limit."""
    spread = max(seconds) / min(seconds) - 1
    if spread > report["most_spread"]:
        report["disturbed"].append({"program": f"torch {name}", "spread": spread})


def text(report):
    """The lines of stretto-bench about a disturbed run; empty without any."""
    lines = [f"disturbed: rounds of {each['program']} differ by {each['spread']:.1%}, expected at "
             f"most {report['most_spread']:.0%}" for each in report["disturbed"]]
    if lines:
        lines.append("The run was disturbed: it has no ratios. Repeat it on an idle machine.")
    return "\n".join(lines)
