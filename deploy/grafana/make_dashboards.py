#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
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
    ("pipeline_wait", "#ffa6b0"),
    ("data_wait", "#ff9830"),
    ("checkpoint_wait", "#b877d9"),
    ("evaluation", "#f2cc0c"),
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


def stacked(title, targets, unit, width=12, height=8, **more):
    drawn = {"lineWidth": 0, "fillOpacity": 85, "showPoints": "never", "stacking": {"mode": "normal", "group": "A"}}
    return panel(title, "timeseries", targets, unit, width, height, custom=drawn, **more)


def cluster():
    return dashboard("stretto-cluster", "Stretto: cluster", [], [
        stat("Running jobs", [target('sum(stretto_jobs{state="RUNNING"})')], "none"),
        stat("Waiting jobs", [target('sum(stretto_jobs{state="PENDING"})')], "none"),
        stat("Workers ready", [target('sum(stretto_workers{state="READY"})')], "none"),
        stat("Workers lost", [target('sum(stretto_workers{state="LOST"})')], "none"),
        stat("Free slots", [target('sum by (device) (stretto_slots{state="FREE"})', "{{device}}")], "none"),
        stat("Tokens a second", [target("sum(training_job:stretto_tokens:rate5m)")], "short"),
        lines("Tokens a second", [target("training_job:stretto_tokens:rate5m", "{{training_job}}")], "short"),
        lines("Model FLOP/s", [target("training_job:stretto_model_flops:rate5m", "{{training_job}}")], "flops",
              description="What the models' own mathematics takes, whatever schedules compute on top."),
        lines("MFU", [target("training_job:stretto_mfu:ratio5m", "{{training_job}}")], "percentunit",
              description="Model FLOP/s over what the devices can do at most. Jobs on CPUs have none."),
        lines("Overlap ratio", [target("training_job:stretto_overlap:ratio5m", "{{training_job}}")], "percentunit",
              description="Of the time in which tensors travel, the share under computation."),
        lines("Effective training time", [target("training_job:stretto_effective_training:ratio", "{{training_job}}")],
              "percentunit", description="Of the time since submission, the share in which steps were taken that count: no "
              "evaluations, no waits for data and checkpoints, nothing that was lost."),
        lines("Slowest rank", [target("max by (training_job) (training_job_rank:stretto_straggler:rate5m)", "{{training_job}}")],
              "percentunit", description="Of their time, the share in which ranks wait for the slowest one of their stage."),
        stacked("Jobs by state", [target("sum by (state) (stretto_jobs)", "{{state}}")], "none"),
        stacked("Slots", [target("sum by (device, state) (stretto_slots)", "{{device}} {{state}}")], "none"),
        lines("Waiting for slots, the oldest job", [target(
            "time() - min by (device) (stretto_oldest_pending_job_timestamp_seconds)", "{{device}}")], "s",
            description="Nothing while nobody waits."),
        lines("Time in the queue, 90th percentile", [target(
            "histogram_quantile(0.9, sum by (le) (increase(stretto_job_queue_wait_seconds_bucket[1h])))", "p90")], "s"),
        lines("Since the last heartbeat, by worker", [target(
            "time() - stretto_worker_last_heartbeat_timestamp_seconds", "{{worker}}")], "s"),
        lines("Workers with a session, sessions opened and leases expired", [
            target("sum(stretto_coordinator_connected)", "with a session"),
            target("sum(increase(stretto_worker_sessions_total[10m]))", "opened in 10 minutes"),
            target("sum(increase(stretto_worker_leases_expired_total[10m]))", "expired in 10 minutes")], "none"),
        lines("Commits to the store, 99th percentile", [target(
            "histogram_quantile(0.99, sum by (le) (rate(stretto_store_commit_seconds_bucket[5m])))", "p99")], "s"),
        lines("Commits to the store that failed", [target("sum(increase(stretto_store_commits_failed_total[10m]))", "in 10 minutes")],
              "none"),
        lines("Calls a second", [target("sum by (method, code) (rate(stretto_rpcs_total[5m]))", "{{method}} {{code}}")], "reqps"),
        lines("Duration of calls, 99th percentile", [target(
            "histogram_quantile(0.99, sum by (le, method) (rate(stretto_rpc_duration_seconds_bucket[5m])))", "{{method}}")], "s"),
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
        stat("Model FLOP/s", [target(of_job("training_job:stretto_model_flops:rate5m"))], "flops"),
        stat("MFU", [target(of_job("training_job:stretto_mfu:ratio5m"))], "percentunit",
             description="None for a job on CPUs, or on devices whose peak is not known."),
        stat("Exposed share", [target(of_job("training_job:stretto_exposed:ratio5m"))], "percentunit"),
        lines("Loss", [target(f"max({of_job('stretto_loss')})", "loss")], "none"),
        lines("Loss and perplexity on held-out data", [
            target(f"max({of_job('stretto_eval_loss')})", "loss"),
            target(f"max({of_job('stretto_eval_perplexity')})", "perplexity")], "none",
            description="Of a job that evaluates, when it last did."),
        lines("Gradient norm", [target(f"max({of_job('stretto_grad_norm')})", "norm")], "none"),
        lines("Tokens a second", [target(of_job("training_job:stretto_tokens:rate5m"), "tokens/s")], "short"),
        lines("MFU, overlap ratio, effective training time", [
            target(of_job("training_job:stretto_mfu:ratio5m"), "MFU"),
            target(of_job("training_job:stretto_overlap:ratio5m"), "overlap"),
            target(of_job("training_job:stretto_effective_training:ratio"), "effective training")], "percentunit"),
        lines("Time of a step, by rank", [target(of_job("training_job_rank:stretto_step_seconds:mean5m"), "rank {{rank}}")], "s"),
        lines("Stragglers: time that the others of its stage wait for a rank", [target(
            of_job("training_job_rank:stretto_straggler:rate5m"), "rank {{rank}}")], "percentunit",
            description="What a rank's own work takes longer than theirs."),
        stacked("Planned memory of a rank, by arena", [target(
            f"max by (arena) ({of_job('stretto_arena_bytes')})", "{{arena}}")], "bytes",
            description="Of the rank that has most, on its device."),
        lines("Memory of trainers", [target(of_job("stretto_trainer_resident_bytes"), "rank {{rank}}")], "bytes",
              description="Of their nodes; what lies on a GPU is not in it."),
        lines("Since the last step, since the last checkpoint", [
            target(f"time() - max({of_job('stretto_last_step_timestamp_seconds')})", "step"),
            target(f"time() - max({of_job('stretto_checkpoint_timestamp_seconds')})", "checkpoint")], "s"),
        lines("Time of a checkpoint", [target(
            f"sum(increase({of_job('stretto_checkpoint_seconds_total')}[1h]))"
            f" / sum(increase({of_job('stretto_checkpoints_total')}[1h]) + increase({of_job('stretto_checkpoints_failed_total')}[1h]))",
            "mean of an hour")], "s"),
        lines("Size of a checkpoint", [target(
            f"sum(increase({of_job('stretto_checkpoint_bytes_total')}[1h]))"
            f" / sum(increase({of_job('stretto_checkpoints_total')}[1h]))", "mean of an hour")], "bytes"),
        lines("Skipped updates, failed checkpoints", [
            target(f"max({of_job('stretto_updates_skipped_total')})", "skipped updates"),
            target(f"max({of_job('stretto_checkpoints_failed_total')})", "failed checkpoints")], "none"),
        stacked("Where the time since submission went", [
            target(f"sum by (state) ({of_job('stretto_job_seconds_total')})", "{{state}}")], "s",
            description="Waiting for slots, getting ready, running."),
        panel("Times of steps", "heatmap", [{**target(
            f"sum by (le) (increase({of_job('stretto_step_seconds_bucket')}[1m]))", "{{le}}"), "format": "heatmap"}], "none", 12,
            options={"calculate": False, "yAxis": {"unit": "s"}}),
    ])


def anatomy():
    rate = "training_job_part_group_phase:stretto_step_ledger_seconds:rate5m"

    def part(names):
        return f', part=~"{names}"'

    def share(by, selected):
        return f"sum by ({by}) ({of_job(rate, part(selected))}) / scalar(sum({of_job(rate)}))"

    colours = [{"matcher": {"id": "byName", "options": name},
                "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}]} for name, colour in PARTS]
    whole = {"max": 1, "min": 0}
    return dashboard("stretto-anatomy", "Stretto: step anatomy", [JOB], [
        stacked("Where every second of a step goes", [target(share("part", name), name) for name, _ in PARTS], "percentunit",
                24, 11, overrides=colours, defaults=whole,
                description="Blue is computation, light where it hides communication; red is communication that nothing hides."),
        stacked("The same, by group and phase", [target(
            share("part, group, phase", ".+"), "{{part}} {{group}} {{phase}}")], "percentunit", 24, 11, defaults=whole),
        stacked("Communication that nothing hides, by group and phase", [target(
            share("group, phase", "exposed"), "{{group}} {{phase}}")], "percentunit"),
        stacked("Computation that hides communication, by group and phase", [target(
            share("group, phase", "compute_hiding"), "{{group}} {{phase}}")], "percentunit"),
        lines("Overlap ratio", [target(of_job("training_job:stretto_overlap:ratio5m"), "overlap")], "percentunit"),
        lines("Exposed share", [target(of_job("training_job:stretto_exposed:ratio5m"), "exposed")], "percentunit"),
        stacked("Evaluating, waiting for data and checkpoints", [target(
            share("part", "data_wait|checkpoint_wait|evaluation"), "{{part}}")], "percentunit"),
        lines("Busy time of each rank, in seconds a second", [target(
            of_job("training_job_rank:stretto_busy:rate5m"), "rank {{rank}}")], "none",
            description="Computing or reading data. Ranks that are less busy than others wait for them."),
        lines("Preempted: without a CPU", [target(
            f"rate({of_job('stretto_preempted_seconds_total')}[5m])", "rank {{rank}}")], "percentunit",
            description="Share of the time in which a thread of the rank was ready to run and other programs had its CPU. Parts "
            "above are too large by as much, also those of ranks that wait for this one: give the trainers CPUs of their own."),
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
