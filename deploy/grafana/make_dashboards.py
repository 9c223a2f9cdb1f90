#!/usr/bin/env python3
"""Writes the dashboards beside this file, or with --check says which differ from what it would write.

Classic dashboard JSON, data source and job as variables. Times and rules are those of deploy/prometheus.
"""

import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).parent
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# The ledger's parts (docs/BENCHMARKS.md), bottom to top; what is lost is warm.
PARTS = [
    ("compute_alone", "#1f60c4"),
    ("compute_hiding", "#5794f2"),
    ("exposed", "#e02f44"),
    ("data_wait", "#ff9830"),
    ("checkpoint_wait", "#b877d9"),
    ("idle", "#8e8e8e"),
]


def variable(name, query, label):
    return {
        "name": name, "label": label, "type": "query", "datasource": SOURCE, "query": query,
        "definition": query, "refresh": 2, "sort": 1, "current": {}, "options": [],
    }


def target(expr, legend=""):
    return {"datasource": SOURCE, "expr": expr, "legendFormat": legend}


def panel(title, kind, targets, unit, width, height=8, description="", **more):
    custom = more.pop("custom", {})
    defaults = {"unit": unit, "custom": custom, **more.pop("defaults", {})}
    return {
        "title": title, "type": kind, "datasource": SOURCE, "description": description,
        "targets": [{**t, "refId": chr(ord("A") + i)} for i, t in enumerate(targets)],
        "fieldConfig": {"defaults": defaults, "overrides": more.pop("overrides", [])},
        "options": more.pop("options", {}), "size": (width, height),
    }


def lines(title, targets, unit, width=12, **more):
    return panel(title, "timeseries", targets, unit, width, custom={"lineWidth": 2, "showPoints": "never"}, **more)


def stat(title, targets, unit, **more):
    return panel(title, "stat", targets, unit, 4, 4, **more)


def dashboard(uid, title, variables, panels):
    x = y = row = 0
    placed = []
    for number, one in enumerate(panels, 1):
        width, height = one.pop("size")
        if x + width > 24:
            x, y, row = 0, y + row, 0
        placed.append({"id": number, **one, "gridPos": {"x": x, "y": y, "w": width, "h": height}})
        x, row = x + width, max(row, height)
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
              "current": {}, "options": []}
    return {
        "uid": uid, "title": title, "tags": ["stretto"], "schemaVersion": 38, "version": 1, "editable": True,
        "refresh": "10s", "time": {"from": "now-30m", "to": "now"}, "timezone": "",
        "templating": {"list": [source, *variables]}, "annotations": {"list": []},
        "links": [{"type": "dashboards", "tags": ["stretto"], "title": "Stretto", "asDropdown": False}],
        "panels": placed,
    }


def cluster():
    return dashboard("stretto-cluster", "Stretto: cluster", [], [
        stat("Running jobs", [target('sum(stretto_jobs{state="RUNNING"})')], "none"),
        stat("Waiting jobs", [target('sum(stretto_jobs{state="PENDING"})')], "none"),
        stat("Workers ready", [target('sum(stretto_workers{state="READY"})')], "none"),
        stat("Workers lost", [target('sum(stretto_workers{state="LOST"})')], "none"),
        stat("Trainers", [target("sum(stretto_trainers)")], "none"),
        stat("Tokens a second", [target("sum(training_job:stretto_tokens:rate5m)")], "short"),
        lines("Tokens a second", [target("training_job:stretto_tokens:rate5m", "{{training_job}}")], "short"),
        lines("Overlap ratio", [target("training_job:stretto_overlap:ratio5m", "{{training_job}}")], "percentunit",
              description="Of the time in which tensors travel, the share under computation."),
        lines("Effective training time", [target("training_job:stretto_effective_training:ratio1h", "{{training_job}}")],
              "percentunit", description="Of wall time, the share in which ranks computed."),
        lines("Jobs by state", [target("sum by (state) (stretto_jobs)", "{{state}}")], "none"),
        lines("Time in the queue, 90th percentile", [target(
            "histogram_quantile(0.9, sum by (le) (increase(stretto_job_queue_wait_seconds_bucket[1h])))", "p90")], "s"),
        lines("Calls a second", [target("sum by (method, code) (rate(stretto_rpcs_total[5m]))", "{{method}} {{code}}")], "reqps"),
        lines("Duration of calls, 99th percentile", [target(
            "histogram_quantile(0.99, sum by (le, method) (rate(stretto_rpc_duration_seconds_bucket[5m])))", "{{method}}")], "s"),
        lines("Workers with a session", [target("sum(stretto_coordinator_connected)", "connected")], "none"),
        panel("Builds", "table", [{**target("stretto_build_info"), "format": "table", "instant": True}], "none", 24, 6),
    ])


def gpus():
    return dashboard("stretto-gpus", "Stretto: GPUs", [], [
        lines("In service", [target("stretto_gpu_healthy", "{{instance}} GPU {{gpu}}")], "none"),
        lines("Memory in use", [target("stretto_gpu_memory_used_bytes / stretto_gpu_memory_bytes", "{{instance}} GPU {{gpu}}")],
              "percentunit"),
        lines("Critical events", [target("increase(stretto_gpu_xid_errors_total[1h])", "{{instance}} GPU {{gpu}}")], "none"),
        lines("Uncorrected memory errors", [target("increase(stretto_gpu_ecc_uncorrected_total[1h])", "{{instance}} GPU {{gpu}}")],
              "none"),
    ])


JOB = variable("training_job", "label_values(stretto_steps_total, training_job)", "Job")


def of_job(metric, more=""):
    return f'{metric}{{training_job="$training_job"{more}}}'


def job():
    return dashboard("stretto-job", "Stretto: job", [JOB], [
        stat("Step", [target(f"max({of_job('stretto_steps_total')})")], "none"),
        stat("Loss", [target(f"max({of_job('stretto_loss')})")], "none", defaults={"decimals": 3}),
        stat("Tokens a second", [target(of_job("training_job:stretto_tokens:rate5m"))], "short"),
        stat("Overlap ratio", [target(of_job("training_job:stretto_overlap:ratio5m"))], "percentunit"),
        stat("Exposed share", [target(of_job("training_job:stretto_exposed:ratio5m"))], "percentunit"),
        stat("Since the last step", [target(f"time() - max({of_job('stretto_last_step_timestamp_seconds')})")], "s"),
        lines("Loss", [target(f"max({of_job('stretto_loss')})", "loss")], "none"),
        lines("Gradient norm", [target(f"max({of_job('stretto_grad_norm')})", "norm")], "none"),
        lines("Tokens a second", [target(of_job("training_job:stretto_tokens:rate5m"), "tokens/s")], "short"),
        lines("Time of a step, by rank", [target(of_job("training_job_rank:stretto_step_seconds:mean5m"), "rank {{rank}}")], "s"),
        lines("Computation of a rank over its job's mean", [target(
            of_job("training_job_rank:stretto_straggler:ratio5m"), "rank {{rank}}")], "none",
            description="A rank above 1 makes the others wait."),
        lines("Age of the last checkpoint", [target(
            f"time() - max({of_job('stretto_checkpoint_timestamp_seconds')})", "age")], "s"),
        lines("Skipped updates, failed checkpoints", [
            target(f"max({of_job('stretto_updates_skipped_total')})", "skipped updates"),
            target(f"max({of_job('stretto_checkpoints_failed_total')})", "failed checkpoints")], "none"),
        panel("Times of steps", "heatmap", [{**target(
            f"sum by (le) (increase({of_job('stretto_step_seconds_bucket')}[1m]))", "{{le}}"), "format": "heatmap"}], "none", 12,
            options={"calculate": False, "yAxis": {"unit": "s"}}),
    ])


def anatomy():
    rate = "training_job_part_group_phase:stretto_step_ledger_seconds:rate5m"

    def share(part):
        return f"sum({of_job(rate, f', part=' + chr(34) + part + chr(34))}) / scalar(sum({of_job(rate)}))"

    colours = [{"matcher": {"id": "byName", "options": part},
                "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}]} for part, colour in PARTS]
    stacked = {"lineWidth": 0, "fillOpacity": 85, "showPoints": "never", "stacking": {"mode": "normal", "group": "A"}}
    return dashboard("stretto-anatomy", "Stretto: step anatomy", [JOB], [
        panel("Where every second of a step goes", "timeseries", [target(share(part), part) for part, _ in PARTS], "percentunit",
              24, 11, custom=stacked, overrides=colours, defaults={"max": 1, "min": 0},
              description="Blue is computation, light where it hides communication; red is communication that nothing hides."),
        lines("Communication that nothing hides, by group and phase", [target(
            f"sum by (group, phase) ({of_job(rate, ', part=' + chr(34) + 'exposed' + chr(34))})", "{{group}} {{phase}}")], "percentunit",
            description="Rank seconds a second."),
        lines("Hidden communication, by group and phase", [target(
            f"sum by (group, phase) ({of_job(rate, ', part=' + chr(34) + 'compute_hiding' + chr(34))})", "{{group}} {{phase}}")],
            "percentunit"),
        lines("Overlap ratio", [target(of_job("training_job:stretto_overlap:ratio5m"), "overlap")], "percentunit"),
        lines("Exposed share", [target(of_job("training_job:stretto_exposed:ratio5m"), "exposed")], "percentunit"),
        lines("Waiting for data and checkpoints", [
            target(f"sum by (part) ({of_job(rate, ', part=~' + chr(34) + 'data_wait|checkpoint_wait' + chr(34))})", "{{part}}")],
            "percentunit"),
        lines("Communication by rank", [target(
            f"sum by (rank) (rate({of_job('stretto_communication_seconds_total')}[5m]))", "rank {{rank}}")], "percentunit"),
    ])


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(f"{sys.argv[0]}: found {sys.argv[1]!r}, expected nothing or --check")
    differ = []
    for one in (cluster(), gpus(), job(), anatomy()):
        path = FOLDER / f"{one['uid']}.json"
        text = json.dumps(one, indent=1) + "\n"
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            differ.append(path.name)
    if differ:
        sys.exit(f"{', '.join(differ)}: not what {sys.argv[0]} writes; run it")


if __name__ == "__main__":
    main()
