#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the dashboards beside this file, or with --check says which differ from what it would write.

Classic dashboard JSON, data source and job as variables. Rates have the expressions of deploy/prometheus/recording.yml, over
$__rate_interval in place of five minutes, so that a job of a minute has a curve. Colours are those of our other pictures.
"""

import json
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).parent
ROOT = FOLDER.parent.parent
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Rows of the palette: {"compute_alone", "#2f6f8f", "#4f97ba"}.
COLORS = dict(re.findall(r'\{"(\w+)", "(#[0-9a-f]{6})"', (ROOT / "coordinator/cli/trace/palette.h").read_text()))
# The ledger's parts (docs/BENCHMARKS.md), bottom to top; what is lost is warm.
PARTS = ["compute_alone", "compute_hiding", "exposed", "pipeline_wait", "data_wait", "checkpoint_wait", "evaluation", "idle"]
GOOD, DOUBTFUL, BAD = COLORS["compute_hiding"], COLORS["evaluation"], COLORS["exposed"]
WINDOW = "$__rate_interval"


def rules():
    """What recording.yml records: {name: expression}."""
    text = (ROOT / "deploy/prometheus/recording.yml").read_text()
    found = {}
    for name, expression in re.findall(r"- record: (\S+)\n +expr: (?:>-\n)?((?:.+\n)+)", text):
        found[name] = " ".join(expression.split())
    return found


RULES = rules()


def of_job(metric, more=""):
    return f'{metric}{{training_job="$training_job"{more}}}'


def now(rule, job=False):
    """The expression of a rule over the window of a panel, of all jobs or of the dashboard's."""
    expression = RULES[rule].replace("[5m]", f"[{WINDOW}]")
    if not job:
        return expression
    return re.sub(r"\b(stretto_\w+)(?:\{([^}]*)\})?",
                  lambda found: of_job(found[1], f",{found[2]}" if found[2] else ""), expression)


def variable(name, query, label):
    return {
        "name": name, "label": label, "type": "query", "datasource": SOURCE, "query": query,
        "definition": query, "refresh": 2, "sort": 1, "current": {}, "options": [],
    }


def target(expr, legend=""):
    return {"datasource": SOURCE, "expr": expr, "legendFormat": legend}


def steps(first, *rest):
    return {"mode": "absolute", "steps": [{"color": first, "value": None}, *({"color": c, "value": v} for v, c in rest)]}


def above(doubtful, bad=None):
    """Good below the first bound, doubtful above it and bad above the second; with one bound, bad above it."""
    return steps(GOOD, (doubtful, DOUBTFUL), (bad, BAD)) if bad is not None else steps(GOOD, (doubtful, BAD))


def below(bad, doubtful):
    return steps(BAD, (bad, DOUBTFUL), (doubtful, GOOD))


def panel(title, kind, targets, unit, width, height=8, *, description, thresholds=None, **more):
    """Without thresholds no value is better than another, or it depends on the job; panels_test.py lists these panels."""
    custom = more.pop("custom", {})
    defaults = {"unit": unit, "custom": custom, **more.pop("defaults", {})}
    if thresholds is not None:
        defaults["thresholds"] = thresholds
        if kind == "timeseries":
            custom["thresholdsStyle"] = {"mode": "dashed"}
    return {
        "title": title, "type": kind, "datasource": SOURCE, "description": description,
        "targets": [{**t, "refId": chr(ord("A") + i)} for i, t in enumerate(targets)],
        "fieldConfig": {"defaults": defaults, "overrides": more.pop("overrides", [])},
        "options": more.pop("options", {}), "size": (width, height),
    }


def lines(title, targets, unit, width=12, **more):
    return panel(title, "timeseries", targets, unit, width, custom={"lineWidth": 2, "showPoints": "never"}, **more)


def stacked(title, targets, unit, width=12, height=8, **more):
    drawn = {"lineWidth": 0, "fillOpacity": 85, "showPoints": "never", "stacking": {"mode": "normal", "group": "A"}}
    return panel(title, "timeseries", targets, unit, width, height, custom=drawn, **more)


def stat(title, targets, unit, **more):
    return panel(title, "stat", targets, unit, 4, 4, options={"colorMode": "value"}, **more)


def by_name(name, **properties):
    return {"matcher": {"id": "byName", "options": name}, "properties": [{"id": k, "value": v} for k, v in properties.items()]}


def colored(name, color):
    return by_name(name, color={"mode": "fixed", "fixedColor": color})


# From a series of a job to its dashboard, at the same time.
TO_JOB = {"links": [{
    "title": "Open the job", "icon": "dashboard", "tooltip": "Its dashboard, at the same time",
    "url": "/d/stretto-job?var-datasource=${datasource}&var-training_job=${__field.labels.training_job}&${__url_time_range}"}]}


def annotation(name, color, expr, title, **more):
    return {"name": name, "datasource": SOURCE, "enable": True, "iconColor": color, "expr": expr, "titleFormat": title,
            "step": "", "textFormat": "", "tagKeys": "", **more}


def alerts(matchers=""):
    return annotation("Alerts", BAD, f'ALERTS{{alertname=~"Stretto.*",alertstate="firing"{matchers}}}', "{{alertname}}",
                      tagKeys="severity")


CLUSTER_EVENTS = [
    annotation("Failures", DOUBTFUL, f"sum by (cause) (increase(stretto_job_restarts_total[{WINDOW}])) > 0",
               "a job starts again after {{cause}}"),
    alerts(),
]
JOB_EVENTS = [
    annotation("Checkpoints", GOOD, f"max({of_job('stretto_checkpoint_timestamp_seconds')}) * 1000", "checkpoint",
               useValueForTime=True),
    annotation("Failures", BAD, f"max(increase({of_job('stretto_lost_seconds_total')}[{WINDOW}])) > 0",
               "steps were lost at a failure"),
    alerts(',training_job=~"$training_job|"'),
]


def dashboard(uid, title, variables, events, panels):
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
        "templating": {"list": [source, *variables]}, "annotations": {"list": events},
        "links": [{"type": "dashboards", "tags": ["stretto"], "title": "Stretto", "icon": "dashboard",
                   "tooltip": "The same time in the other dashboards", "asDropdown": False, "keepTime": True}],
        "panels": placed,
    }


def cluster():
    return dashboard("stretto-cluster", "Stretto: cluster", [], CLUSTER_EVENTS, [
        stat("Running jobs", [target('sum(stretto_jobs{state="RUNNING"})')], "none",
             description="Jobs all of whose ranks train."),
        stat("Waiting jobs", [target('sum(stretto_jobs{state="PENDING"})')], "none", thresholds=above(1, 100),
             description="Jobs that wait for slots, for their quota, or for their next attempt."),
        stat("Workers ready", [target('sum(stretto_workers{state="READY"})')], "none", thresholds=steps(BAD, (1, GOOD)),
             description="Workers that can be given ranks."),
        stat("Workers lost", [target('sum(stretto_workers{state="LOST"})')], "none", thresholds=above(1),
             description="Workers whose lease has ended or whose session is broken. Forget those that will not come back."),
        stat("Free slots", [target('sum by (device) (stretto_slots{state="FREE"})', "{{device}}")], "none",
             thresholds=steps(DOUBTFUL, (1, GOOD)), description="Slots of ready workers that no job holds."),
        stat("Tokens a second", [target(f"sum({now('training_job:stretto_tokens:rate5m')})")], "short",
             description="Of all jobs together."),
        lines("Tokens a second", [target(now("training_job:stretto_tokens:rate5m"), "{{training_job}}")], "short", defaults=TO_JOB,
              description="By job. It compares runs of one model."),
        lines("Model FLOP/s", [target(now("training_job:stretto_model_flops:rate5m"), "{{training_job}}")], "flops",
              defaults=TO_JOB,
              description="What the models' own mathematics takes, whatever schedules compute on top. It compares runs of any model."),
        lines("MFU", [target(now("training_job:stretto_mfu:ratio5m"), "{{training_job}}")], "percentunit", defaults=TO_JOB,
              thresholds=below(0.2, 0.4),
              description="Model FLOP/s over what the devices can do at most. Jobs on CPUs have none."),
        lines("Overlap ratio", [target(now("training_job:stretto_overlap:ratio5m"), "{{training_job}}")], "percentunit",
              defaults=TO_JOB, thresholds=below(0.5, 0.9),
              description="Of the time in which tensors travel, the share under computation."),
        lines("Effective training time", [target(now("training_job:stretto_effective_training:ratio"), "{{training_job}}")],
              "percentunit", defaults=TO_JOB, thresholds=below(0.5, 0.9),
              description="Of the time since submission, the share in which steps were taken that count: no "
              "evaluations, no waits for data and checkpoints, nothing that was lost."),
        lines("Slowest rank", [target(f"max by (training_job) ({now('training_job_rank:stretto_straggler:rate5m')})",
                                      "{{training_job}}")], "percentunit", defaults=TO_JOB, thresholds=above(0.05, 0.1),
              description="Of their time, the share in which ranks wait for the slowest one of their stage."),
        stacked("Jobs by state", [target("sum by (state) (stretto_jobs)", "{{state}}")], "none",
                description="Jobs that the coordinator knows, with those that ended and are still kept."),
        stacked("Slots", [target("sum by (device, state) (stretto_slots)", "{{device}} {{state}}")], "none",
                description="Slots of ready workers: held by a job, free, or out of service because of a fault."),
        lines("Waiting for slots, the oldest job", [target(
            "time() - min by (device) (stretto_oldest_pending_job_timestamp_seconds)", "{{device}}")], "s",
            thresholds=above(600, 3600), description="For how long the job waits that has waited longest. Nothing while nobody waits."),
        lines("Time in the queue, 90th percentile", [target(
            "histogram_quantile(0.9, sum by (le) (increase(stretto_job_queue_wait_seconds_bucket[1h])))", "p90")], "s",
            thresholds=above(600, 3600), description="From submission to placement, of the jobs that were placed in the last hour."),
        lines("Since the last heartbeat, by worker", [target(
            "time() - stretto_worker_last_heartbeat_timestamp_seconds", "{{worker}}")], "s", thresholds=above(5, 10),
            description="A saw-tooth of some seconds is healthy. After --lease, 10 s by default, the worker is lost."),
        lines("Workers with a session, sessions opened and leases expired", [
            target("sum(stretto_coordinator_connected)", "with a session"),
            target("sum(increase(stretto_worker_sessions_total[10m]))", "opened in 10 minutes"),
            target("sum(increase(stretto_worker_leases_expired_total[10m]))", "expired in 10 minutes")], "none",
            description="Sessions that open again and again are of a network or a daemon that breaks them."),
        lines("Commits to the store, 99th percentile", [target(
            f"histogram_quantile(0.99, sum by (le) (rate(stretto_store_commit_seconds_bucket[{WINDOW}])))", "p99")], "s",
            thresholds=above(0.1, 1), description="Most of it is an fsync of the coordinator's disk, or a round of etcd."),
        lines("Commits to the store that failed", [target("sum(increase(stretto_store_commits_failed_total[10m]))",
                                                           "in 10 minutes")], "none", thresholds=above(1),
              description="While commits fail nothing new is accepted. Jobs continue."),
        lines("Calls a second", [target(f"sum by (method, code) (rate(stretto_rpcs_total[{WINDOW}]))", "{{method}} {{code}}")],
              "reqps", description="Calls of people, workers and ranks that have ended, with their code."),
        lines("Duration of calls, 99th percentile", [target(
            f"histogram_quantile(0.99, sum by (le, method) (rate(stretto_rpc_duration_seconds_bucket[{WINDOW}])))", "{{method}}")],
            "s", description="A stream (WatchJob, Session) is one call and lasts as long as its client."),
        panel("Builds", "table", [{**target("stretto_build_info"), "format": "table", "instant": True}], "none", 24, 6,
              description="Version of each daemon, and of the protocol between them."),
    ])


def gpus():
    name = "{{instance}} GPU {{gpu}}"
    return dashboard("stretto-gpus", "Stretto: GPUs", [], [alerts()], [
        lines("In service", [target("stretto_gpu_healthy", name)], "none", thresholds=steps(BAD, (1, GOOD)),
              description="1 while ranks may be placed on the GPU, 0 while it has a fault."),
        lines("Memory in use", [target("stretto_gpu_memory_used_bytes / stretto_gpu_memory_bytes", name)], "percentunit",
              thresholds=above(0.95, 0.99), description="By all processes, as NVML reports it."),
        lines("Critical events", [target("increase(stretto_gpu_xid_errors_total[1h])", name)], "none", thresholds=above(1),
              description="Events of the driver (Xid) in an hour that put the GPU out of service."),
        lines("Uncorrected memory errors", [target("increase(stretto_gpu_ecc_uncorrected_total[1h])", name)], "none",
              thresholds=above(1), description="Errors in an hour that the memory could not correct."),
    ])


JOB = variable("training_job", "label_values(stretto_steps_total, training_job)", "Job")


def job():
    hour_of_checkpoints = (f"(sum(increase({of_job('stretto_checkpoints_total')}[1h])"
                           f" + increase({of_job('stretto_checkpoints_failed_total')}[1h])))")
    return dashboard("stretto-job", "Stretto: job", [JOB], JOB_EVENTS, [
        stat("Step", [target(f"max({of_job('stretto_steps_total')})")], "none",
             description="Steps that this attempt has finished."),
        stat("Loss", [target(f"max({of_job('stretto_loss')})")], "none", defaults={"decimals": 3},
             description="Of the last step, over the whole batch."),
        stat("Tokens a second", [target(now("training_job:stretto_tokens:rate5m", True))], "short",
             description="Of the whole job."),
        stat("Model FLOP/s", [target(now("training_job:stretto_model_flops:rate5m", True))], "flops",
             description="What the model's own mathematics takes, of all ranks."),
        stat("MFU", [target(now("training_job:stretto_mfu:ratio5m", True))], "percentunit", thresholds=below(0.2, 0.4),
             description="None for a job on CPUs, or on devices whose peak is not known."),
        stat("Exposed share", [target(now("training_job:stretto_exposed:ratio5m", True))], "percentunit",
             thresholds=above(0.05, 0.2), description="Of the time of steps, the share in which ranks only wait for communication."),
        lines("Loss", [target(f"max({of_job('stretto_loss')})", "training")], "none",
              overrides=[colored("training", COLORS["forward"])],
              description="It falls, fast at first. A sudden jump points to the data, or to a GPU with errors."),
        lines("Held-out loss and perplexity", [
            target(f"max({of_job('stretto_eval_loss')})", "loss"),
            target(f"max({of_job('stretto_eval_perplexity')})", "perplexity")], "none",
            overrides=[{**colored("loss", COLORS["backward"]), "properties": [
                *colored("loss", COLORS["backward"])["properties"], {"id": "custom.axisLabel", "value": "loss"}]},
                {**colored("perplexity", COLORS["data_wait"]), "properties": [
                    *colored("perplexity", COLORS["data_wait"])["properties"],
                    {"id": "custom.axisPlacement", "value": "right"}, {"id": "custom.axisLabel", "value": "perplexity"}]}],
            description="Of a job that evaluates, when it last did; each has an axis of its own. If this loss rises while that of "
            "training falls, the model memorises its data."),
        lines("Gradient norm", [target(f"max({of_job('stretto_grad_norm')})", "norm")], "none",
              description="Before clipping. A norm that grows step by step precedes a loss that grows."),
        lines("Tokens a second", [target(now("training_job:stretto_tokens:rate5m", True), "tokens/s")], "short",
              description="Of the whole job. Dips are evaluations and checkpoints."),
        lines("MFU, overlap ratio, effective training time", [
            target(now("training_job:stretto_mfu:ratio5m", True), "MFU"),
            target(now("training_job:stretto_overlap:ratio5m", True), "overlap"),
            target(now("training_job:stretto_effective_training:ratio", True), "effective training")], "percentunit",
            description="One number each of the machine, of the communication, and of the time since submission."),
        lines("Time of a step, by rank", [target(now("training_job_rank:stretto_step_seconds:mean5m", True), "rank {{rank}}")], "s",
              description="A mean that rises slowly points to heat or to other work on the node."),
        lines("Stragglers: time that the others of its stage wait for a rank", [target(
            now("training_job_rank:stretto_straggler:rate5m", True), "rank {{rank}}")], "percentunit", thresholds=above(0.05, 0.1),
            description="What a rank's own work takes longer than theirs."),
        stacked("Planned memory of a rank, by arena", [target(
            f"max by (arena) ({of_job('stretto_arena_bytes')})", "{{arena}}")], "bytes",
            description="Of the rank that has most, on its device."),
        lines("Memory of trainers", [target(of_job("stretto_trainer_resident_bytes"), "rank {{rank}}")], "bytes",
              description="Of their nodes; memory of a GPU is not part of it. A trainer that keeps growing is a bug."),
        lines("Since the last step, since the last checkpoint", [
            target(f"time() - max({of_job('stretto_last_step_timestamp_seconds')})", "step"),
            target(f"time() - max({of_job('stretto_checkpoint_timestamp_seconds')})", "checkpoint")], "s",
            thresholds=above(3600, 6 * 3600), description="A saw-tooth each. The height of the second is what a failure costs."),
        lines("Time of a checkpoint", [target(
            f"sum(increase({of_job('stretto_checkpoint_seconds_total')}[1h])) / {hour_of_checkpoints}", "mean of an hour")], "s",
            thresholds=above(30, 300), description="For which training waits, failed ones included."),
        lines("Size of a checkpoint", [target(
            f"sum(increase({of_job('stretto_checkpoint_bytes_total')}[1h]))"
            f" / sum(increase({of_job('stretto_checkpoints_total')}[1h]))", "mean of an hour")], "bytes",
            description="In the files of all ranks."),
        lines("Skipped updates, failed checkpoints", [
            target(f"max({of_job('stretto_updates_skipped_total')})", "skipped updates"),
            target(f"max({of_job('stretto_checkpoints_failed_total')})", "failed checkpoints")], "none", thresholds=above(1),
            description="Steps whose gradient norm was not finite, and checkpoints that could not be written."),
        stacked("Where the time since submission went", [
            target(f"sum by (state) ({of_job('stretto_job_seconds_total')})", "{{state}}")], "s",
            description="Waiting for slots, getting ready, running."),
        panel("Times of steps", "heatmap", [{**target(
            f"sum by (le) (increase({of_job('stretto_step_seconds_bucket')}[{WINDOW}]))", "{{le}}"), "format": "heatmap"}], "none",
            12, options={"calculate": False, "yAxis": {"unit": "s"}},
            description="Two bands mean that some steps do more, usually evaluations and checkpoints."),
    ])


def anatomy():
    rate = now("training_job_part_group_phase:stretto_step_ledger_seconds:rate5m", True)

    def part(names):
        return rate.replace('training_job="$training_job"', f'training_job="$training_job", part=~"{names}"')

    def share(by, selected):
        return f"sum by ({by}) ({part(selected)}) / scalar(sum({rate}))"

    colours = [colored(name, COLORS[name]) for name in PARTS]
    whole = {"max": 1, "min": 0}
    return dashboard("stretto-anatomy", "Stretto: step anatomy", [JOB], JOB_EVENTS, [
        stacked("Where every second of a step goes", [target(share("part", name), name) for name in PARTS], "percentunit",
                24, 11, overrides=colours, defaults=whole,
                description="Blue is computation, green where it hides communication; red is communication that nothing hides."),
        stacked("The same, by group and phase", [target(
            share("part, group, phase", ".+"), "{{part}} {{group}} {{phase}}")], "percentunit", 24, 11, defaults=whole,
            description="Shares of the time of all ranks."),
        stacked("Communication that nothing hides, by group and phase", [target(
            share("group, phase", "exposed"), "{{group}} {{phase}}")], "percentunit", thresholds=above(0.05, 0.2),
            description="What overlap can remove. tp, dp and pp are the groups of tensor, data and pipeline parallelism."),
        stacked("Computation that hides communication, by group and phase", [target(
            share("group, phase", "compute_hiding"), "{{group}} {{phase}}")], "percentunit",
            description="Communication that costs nothing, as long as it does not slow computation down."),
        lines("Overlap ratio", [target(now("training_job:stretto_overlap:ratio5m", True), "overlap")], "percentunit",
              thresholds=below(0.5, 0.9),
              description="Of the time in which tensors travel, the share under computation. Read it together with tokens a second."),
        lines("Exposed share", [target(now("training_job:stretto_exposed:ratio5m", True), "exposed")], "percentunit",
              thresholds=above(0.05, 0.2), description="Of the time of steps, the share in which ranks only wait for communication."),
        stacked("Evaluating, waiting for data and checkpoints", [target(
            share("part", "data_wait|checkpoint_wait|evaluation"), "{{part}}")], "percentunit", overrides=colours,
            thresholds=above(0.05, 0.2), description="Between steps, or before one begins."),
        lines("Busy time of each rank, in seconds a second", [target(
            now("training_job_rank:stretto_busy:rate5m", True), "rank {{rank}}")], "none",
            description="Computing or reading data. Ranks that are less busy than others wait for them."),
        lines("Preempted: without a CPU", [target(
            f"rate({of_job('stretto_preempted_seconds_total')}[{WINDOW}])", "rank {{rank}}")], "percentunit",
            thresholds=above(0.02, 0.1),
            description="Share of the time in which a thread of the rank was ready to run and other programs had its CPU. Parts "
            "above are too large by as much, also those of ranks that wait for this one: give the trainers CPUs of their own."),
        lines("Communication by rank", [target(
            f"sum by (rank) (rate({of_job('stretto_communication_seconds_total')}[{WINDOW}]))", "rank {{rank}}")], "percentunit",
            description="Share of the time in which tensors of the rank travel, hidden or not."),
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
