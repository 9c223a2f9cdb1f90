#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What every dashboard owes its reader: a description and thresholds on each panel, windows that suit a short job, links from the
cluster to a job, events as annotations, and the colours of our other pictures.

  panels_test.py SOURCE
"""

import json
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(sys.argv[1]).resolve()
# Panels of which no value is good or bad by itself, or which show several things, of which one bound says nothing.
UNBOUNDED = {
    "stretto-cluster": {
        "Running jobs", "Tokens a second", "Model FLOP/s", "Jobs by state", "Slots", "Calls a second", "Builds",
        "Workers with a session, sessions opened and leases expired", "Duration of calls, 99th percentile"},
    "stretto-gpus": set(),
    "stretto-job": {
        "Step", "Loss", "Tokens a second", "Model FLOP/s", "Held-out loss and perplexity", "Gradient norm",
        "MFU, overlap ratio, effective training time", "Time of a step, by rank", "Planned memory of a rank, by arena",
        "Memory of trainers", "Size of a checkpoint", "Where the time since submission went", "Times of steps"},
    "stretto-anatomy": {
        "Where every second of a step goes", "The same, by group and phase",
        "Computation that hides communication, by group and phase", "Busy time of each rank, in seconds a second",
        "Communication by rank"},
}
EVENTS = {
    "stretto-cluster": ["Failures", "Alerts"],
    "stretto-gpus": ["Alerts"],
    "stretto-job": ["Checkpoints", "Failures", "Alerts"],
    "stretto-anatomy": ["Checkpoints", "Failures", "Alerts"],
}
# Of what happens seldom: a count in that time, or a mean over it.
COUNTED = {"10m", "1h"}


def palette():
    text = (SOURCE / "coordinator/cli/trace/palette.h").read_text()
    return set(re.findall(r"\"(#[0-9a-f]{6})\"", text))


def faults_of_panel(uid, panel):
    """Yields what is missing."""
    description = panel.get("description", "")
    if not re.fullmatch(r"[A-Z1].{15,}\.", description):
        yield f"found description {description!r}, expected a sentence"
    defaults = panel["fieldConfig"]["defaults"]
    bounded = len(defaults.get("thresholds", {}).get("steps", [])) >= 2
    if bounded == (panel["title"] in UNBOUNDED[uid]):
        yield f"found {'' if bounded else 'no '}thresholds, expected {'none' if bounded else 'some'} (UNBOUNDED)"
    for target in panel["targets"]:
        expression = target["expr"]
        for function, window in re.findall(r"(\w+)\([^()\[]*\[([^\]]+)\]", expression):
            if window != "$__rate_interval" and not (function == "increase" and window in COUNTED):
                yield f"found {function} over {window}, expected $__rate_interval"
        if re.search(r":(rate|ratio|mean)5m", expression):
            yield f"found {expression}, which is a mean of five minutes, expected $__rate_interval"
        if uid == "stretto-cluster" and "{{training_job}}" in target["legendFormat"]:
            urls = [link["url"] for link in defaults.get("links", [])]
            if not any("/d/stretto-job?" in url and "var-training_job=${__field.labels.training_job}" in url for url in urls):
                yield f"found links {urls}, expected one to the job"


def faults_of_dashboard(dashboard):
    uid = dashboard["uid"]
    titles = [(panel["title"], panel["type"]) for panel in dashboard["panels"]]
    for twice in {title for title in titles if titles.count(title) > 1}:
        yield f"found two panels {twice}"
    for unknown in UNBOUNDED[uid] - {panel["title"] for panel in dashboard["panels"]}:
        yield f"found no panel {unknown!r}, which UNBOUNDED names"
    for panel in dashboard["panels"]:
        for fault in faults_of_panel(uid, panel):
            yield f"{panel['title']}: {fault}"
    events = [event["name"] for event in dashboard["annotations"]["list"]]
    if events != EVENTS[uid]:
        yield f"found annotations {events}, expected {EVENTS[uid]}"
    for color in re.findall(r"#[0-9a-f]{6}", json.dumps(dashboard)):
        if color not in palette():
            yield f"found colour {color}, expected one of the palette"


def check_axes(job):
    [panel] = [panel for panel in job["panels"] if panel["title"] == "Held-out loss and perplexity"]
    sides = {one["matcher"]["options"]: {p["id"]: p["value"] for p in one["properties"]}.get("custom.axisPlacement", "left")
             for one in panel["fieldConfig"]["overrides"]}
    assert sides == {"loss": "left", "perplexity": "right"}, sides


def check_faults_are_found(dashboard):
    """Each rule finds its fault in a dashboard that has it."""
    for change, expected in [
            (lambda d: d["panels"][6].pop("description"), "expected a sentence"),
            (lambda d: d["panels"][3]["fieldConfig"]["defaults"].pop("thresholds"), "expected some"),
            (lambda d: d["panels"][6]["fieldConfig"]["defaults"].pop("links"), "expected one to the job"),
            (lambda d: d["panels"][6]["targets"][0].update(expr="rate(stretto_tokens_total[5m])"), "rate over 5m"),
            (lambda d: d["panels"][6]["targets"][0].update(expr="training_job:stretto_tokens:rate5m"), "five minutes"),
            (lambda d: d["annotations"]["list"].pop(), "found annotations"),
            (lambda d: d["panels"][3]["fieldConfig"]["defaults"].update(color="#123456"), "of the palette")]:
        damaged = json.loads(json.dumps(dashboard))
        change(damaged)
        found = list(faults_of_dashboard(damaged))
        assert len(found) == 1 and expected in found[0], (expected, found)


def main():
    generated = subprocess.run([SOURCE / "deploy/grafana/make_dashboards.py", "--check"], capture_output=True, text=True)
    assert generated.returncode == 0, generated.stderr
    dashboards = {path.stem: json.loads(path.read_text()) for path in (SOURCE / "deploy/grafana").glob("*.json")}
    assert set(dashboards) == set(UNBOUNDED), set(dashboards)
    faults = [f"{name}: {fault}" for name, one in sorted(dashboards.items()) for fault in faults_of_dashboard(one)]
    print("\n".join(faults), end="\n" if faults else "")
    check_axes(dashboards["stretto-job"])
    check_faults_are_found(dashboards["stretto-cluster"])
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
