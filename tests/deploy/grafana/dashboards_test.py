#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every query of every dashboard and every rule returns data from a real Prometheus that scrapes a real cluster with jobs on cores
and on emulated GPUs, and what is scraped is what docs/METRICS.md lists.

  dashboards_test.py SOURCE BIN FAKES
"""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

# FAKES: emulated/ has a plug-in, driver/ and nvml/ what it takes for GPUs (tests/integration/gpu).
SOURCE, BIN, FAKES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
DEADLINE_SECONDS = 150
JOB = """\
name: NAME
model: MODEL
device: DEVICE
data: {prefix: text}
parallelism: PARALLELISM
schedule: {name: domino_row, parameters: {slices: 2}}
precision: f32
steps: 1000000
micro_batch_size: 2
checkpoint: {interval_steps: INTERVAL}
eval: {interval_steps: INTERVAL, batches: 1, prefix: held}
"""
JOBS = {  # what a dashboard's variable is set to: its job file
    "gpt": {"MODEL": "{preset: gpt-tiny}", "DEVICE": "cpu", "INTERVAL": "50", "PARALLELISM": "{pp_size: 2}"},
    # Kernels take a fiber for each of their threads: the smallest model there is.
    "gpu": {"MODEL": "{family: gpt, layers: 2, hidden: 16, heads: 2, ffn_hidden: 32, sequence_length: 8, vocab_size: 257}",
            "DEVICE": "cuda", "INTERVAL": "2", "PARALLELISM": "{tp_size: 2}"},
}
# Of that model, for a token: 6 (L (4 h^2 + 2 h f) + h v) + 6 L h S (docs/BENCHMARKS.md).
GPU_FLOPS_PER_TOKEN = 6 * (2 * (4 * 16**2 + 2 * 16 * 32) + 16 * 257) + 6 * 2 * 16 * 8
PEAK = 989.4e12  # of the emulated device's name


class Cluster:
    """Programs in the background, ended in the opposite order."""

    def __init__(self, folder):
        self.folder, self.children = folder, []

    def start(self, name, *command, line=None):
        """Starts a program; with `line`, waits for a line of its output that holds it, and returns it."""
        child = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.children.append(child)
        log = open(self.folder / f"{name}.log", "w")
        if line is None:
            threading.Thread(target=shutil.copyfileobj, args=(child.stdout, log), daemon=True).start()
            return None
        watchdog = threading.Timer(DEADLINE_SECONDS, child.kill)
        watchdog.start()
        for text in child.stdout:
            log.write(text)
            log.flush()
            if line in text:
                watchdog.cancel()
                threading.Thread(target=shutil.copyfileobj, args=(child.stdout, log), daemon=True).start()
                return text
        raise AssertionError(f"{name} ended without a line with '{line}': {(self.folder / f'{name}.log').read_text()}")

    def stop(self):
        for child in reversed(self.children):
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}"


# Not by a proxy that the environment may name.
DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(url, **parameters):
    query = urllib.parse.urlencode(parameters)
    with DIRECTLY.open(f"{url}?{query}" if query else url, timeout=10) as answer:
        return json.load(answer)


def queries():
    """What dashboards ask, and what rules record: (where, expression, whether it is to return data; None: it may)."""
    for path in sorted((SOURCE / "deploy/grafana").glob("*.json")):
        dashboard = json.loads(path.read_text().replace("$__rate_interval", "10s"))  # of scrapes every second
        for variable in dashboard["templating"]["list"]:
            for name in re.findall(r"^label_values\((\w+), \w+\)$", variable["query"]):
                yield f"{path.name}: variable {variable['name']}", name, True
        for event in dashboard["annotations"]["list"]:
            # Whether something fails, or an alert fires, depends on the machine.
            expected = True if event["name"] == "Checkpoints" else None
            yield f"{path.name}: annotation {event['name']}", event["expr"].replace("$training_job", "gpt"), expected
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                where, expression = f"{path.name}: {panel['title']} {target['refId']}", target["expr"]
                # Nobody knows what cores can do at most, a rank alone in its stage is no straggler, and a GPU has no stages.
                lacks = {"gpt": ["stretto_peak_flops", "stretto_straggler_seconds"], "gpu": ['part=~"pipeline_wait"'], "any": []}
                for job in JOBS if "$training_job" in expression else ["any"]:
                    expected = not any(lack in expression for lack in lacks[job])
                    yield f"{where} of {job}", expression.replace("$training_job", job), expected
    recording = (SOURCE / "deploy/prometheus/recording.yml").read_text()
    for name in re.findall(r"- record: (\S+)", recording):
        yield f"recording.yml: {name}", name, True


def documented():
    """The tables of docs/METRICS.md: {daemon: {metric: (type, labels)}}."""
    tables, rows = {}, None
    for line in (SOURCE / "docs/METRICS.md").read_text().splitlines():
        if marker := re.fullmatch(r"<!-- (/?)(coordinator|worker) -->", line):
            rows = None if marker[1] else tables.setdefault(marker[2], {})
        elif rows is not None and (row := re.fullmatch(r"\| `(\w+)` \| (\w+) \| [^|]* \| ([^|]*) \| .* \|", line)):
            rows[row[1]] = (row[2], frozenset(re.findall(r"`(\w+)`", row[3])))
    return tables


def scraped(address):
    """What one daemon shows, in the same form."""
    with DIRECTLY.open(f"http://{address}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M))
    assert set(types) == set(re.findall(r"^# HELP (\w+) \S", text, re.M)), text
    labels = {}
    for name, pairs in re.findall(r"^(\w+?)(?:\{(.*)\})? \S+$", text, re.M):
        family = name if name in types else re.sub("_(bucket|sum|count)$", "", name)
        found = frozenset(re.findall(r'(\w+)="(?:[^"\\]|\\.)*"', pairs)) - {"le"}
        assert labels.setdefault(family, found) == found, f"{family}: found labels {set(found)} and {set(labels[family])}"
    assert set(labels) == set(types), text
    return {name: (types[name], labels[name]) for name in labels}


def check_metrics(coordinator, workers):
    expected = documented()
    assert set(expected) == {"coordinator", "worker"}, expected
    del expected["coordinator"]["stretto_project_slots_limit"]  # needs a --quota
    del expected["coordinator"]["stretto_revocation_lists_current"]  # needs --tls-crl
    seen = scraped(coordinator)
    assert seen == expected["coordinator"], set(seen.items()) ^ set(expected["coordinator"].items())
    found = {}
    for address in workers:
        for name, what in scraped(address).items():
            assert found.setdefault(name, what) == what, (name, what, found[name])
    assert found == expected["worker"], (found, expected["worker"])


def check_mfu(prometheus):
    """One counter by another, of one scrape, and the ratio by hand."""
    share = '{training_job="gpu",rank="1"}'
    [rule] = [rule for group in get(f"http://{prometheus}/api/v1/rules")["data"]["groups"] for rule in group["rules"]
              if rule["name"] == "training_job:stretto_mfu:ratio5m"]
    # The rule's expression, not what it recorded: one query compares both sides at one instant, while a rate over the few
    # seconds that the job has run changes from one evaluation to the next.
    for query, expected in [
            (f"stretto_model_flops_total{share} / stretto_tokens_total{share}", GPU_FLOPS_PER_TOKEN / 2),
            (f"stretto_peak_flops_per_second{share}", PEAK),
            (f'sum(rate(stretto_model_flops_total{{training_job="gpu"}}[5m])) / {2 * PEAK} / scalar({rule["query"]})', 1)]:
        answers = get(f"http://{prometheus}/api/v1/query", query=query)["data"]["result"]
        assert abs(float(answers[0]["value"][1]) / expected - 1) < 1e-9, (query, answers)


def start_gpus(cluster, folder, coordinator, data):
    """A worker with emulated GPUs; where its metrics are. `up` has certificates for its own workers only."""
    tls = data.parent / "tls"
    run(BIN / "stretto", "ca", "issue", tls, "--worker", "gpus")
    # Away from the plug-in that may lie beside the program.
    shutil.copy(BIN / "stretto-trainer", folder / "stretto-trainer")
    ready = cluster.start("gpus", "env", f"STRETTO_PLUGIN_PATH={FAKES / 'emulated'}", f"LD_LIBRARY_PATH={FAKES / 'driver'}",
                          BIN / "stretto-worker", "--coordinator", coordinator, "--state-dir", folder / "gpus", "--name", "gpus",
                          "--slots", "1", "--data-root", data, "--nvml", FAKES / "nvml/libtwo_gpus.so",
                          "--trainer", folder / "stretto-trainer", "--tls-ca", tls / "ca.crt", "--tls-certificate",
                          tls / "worker-gpus.crt", "--tls-key", tls / "worker-gpus.key", line="ready worker=")
    return "127.0.0.1:" + re.search(r"metrics=(\d+)", ready).group(1)


def submit(coordinator, folder, name, facts):
    text = JOB.replace("NAME", name)
    for fact, value in facts.items():
        text = text.replace(fact, value)
    (folder / f"{name}.yaml").write_text(text)
    run(BIN / "stretto", "--coordinator", coordinator, "job", "submit", folder / f"{name}.yaml")


def await_data(folder, prometheus):
    """Until every query returns what it should; those that should return nothing are asked once the others have."""
    asked = list(queries())
    missing = {where: expression for where, expression, expected in asked if expected}
    assert len(missing) > 80, missing
    deadline = time.monotonic() + DEADLINE_SECONDS
    errors = {}
    while missing and time.monotonic() < deadline:
        for where, expression in list(missing.items()):
            try:
                answer = get(f"http://{prometheus}/api/v1/query", query=expression)
            except OSError as error:
                errors[where] = str(error)
                continue
            if answer["data"]["result"]:
                del missing[where]
        time.sleep(0.5)
    logs = "\n".join(f"== {path.name}\n{path.read_text()[-1500:]}" for path in folder.glob("*.log"))
    assert not missing, f"no data after {DEADLINE_SECONDS} s from {json.dumps(missing, indent=1)}\n{errors}\n{logs}"
    for where, expression, expected in asked:
        answer = get(f"http://{prometheus}/api/v1/query", query=expression)
        assert answer["status"] == "success", (where, answer)
        assert expected is not False or not answer["data"]["result"], (where, answer)


def main():
    if shutil.which("prometheus") is None:
        print("skipped: no prometheus here")
        return 77
    generated = subprocess.run([SOURCE / "deploy/grafana/make_dashboards.py", "--check"], capture_output=True, text=True)
    assert generated.returncode == 0, generated.stderr

    folder = pathlib.Path(tempfile.mkdtemp(prefix="stretto-dashboards-"))
    cluster = Cluster(folder)
    try:
        state = folder / "state"
        cluster.start("up", BIN / "stretto", "up", "--slots", "2", "--listen", "127.0.0.1:0", "--state-dir", state,
                      line="Next, in another terminal")
        coordinator = re.search(r"^coordinator +(\S+)", (folder / "up.log").read_text(), re.M).group(1)
        gpus = start_gpus(cluster, folder, coordinator, state / "data")
        prometheus = f"127.0.0.1:{free_port()}"
        cluster.start("observe", SOURCE / "deploy/local/observe.sh", "--state-dir", state, "--prometheus", prometheus,
                      "--interval", "1s", "--target", gpus, line="logs ")

        (folder / "text.txt").write_text("The quick brown fox jumps over the lazy dog.\n" * 400)
        for data in ("text", "held"):
            run(BIN / "stretto-data", "prepare", folder / "text.txt", "--output", state / "data" / data)
        for name, facts in [*JOBS.items(), ("waiting", JOBS["gpt"])]:  # for slots that the first has
            submit(coordinator, folder, name, facts)
        await_data(folder, prometheus)
        check_mfu(prometheus)
        # `up` lists its coordinator first.
        [coordinator_metrics, *workers] = json.loads((state / "prometheus-targets.json").read_text())[0]["targets"]
        check_metrics(coordinator_metrics, [*workers, gpus])
        groups = get(f"http://{prometheus}/api/v1/rules")["data"]["groups"]
        unwell = [rule for group in groups for rule in group["rules"] if rule["health"] != "ok"]
        assert len(groups) == 2 and not unwell, unwell
    finally:
        cluster.stop()
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
