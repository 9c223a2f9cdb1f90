#!/usr/bin/env python3
"""Every query of every dashboard and every rule returns data from a real Prometheus that scrapes a real cluster with a job.

  dashboards_test.py SOURCE BIN FAKE_NVML
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

SOURCE, BIN, FAKE_NVML = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
DEADLINE_SECONDS = 90
JOB = """\
name: gpt
model: {preset: gpt-tiny}
data: {prefix: text}
parallelism: {tp_size: 2}
schedule: {name: domino_row, parameters: {slices: 2}}
precision: f32
steps: 1000000
micro_batch_size: 2
checkpoint: {interval_steps: 50}
"""


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
    """What dashboards ask, and what rules record: (where, expression)."""
    for path in sorted((SOURCE / "deploy/grafana").glob("*.json")):
        dashboard = json.loads(path.read_text())
        for variable in dashboard["templating"]["list"]:
            for name in re.findall(r"^label_values\((\w+), \w+\)$", variable["query"]):
                yield f"{path.name}: variable {variable['name']}", name
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                yield f"{path.name}: {panel['title']} {target['refId']}", target["expr"].replace("$training_job", "gpt")
    recording = (SOURCE / "deploy/prometheus/recording.yml").read_text()
    for name in re.findall(r"- record: (\S+)", recording):
        yield f"recording.yml: {name}", name


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
        ready = cluster.start("gpus", BIN / "stretto-worker", "--coordinator", coordinator, "--state-dir", folder / "gpus",
                              "--name", "gpus", "--slots", "1", "--nvml", FAKE_NVML, line="ready worker=")
        gpus = "127.0.0.1:" + re.search(r"metrics=(\d+)", ready).group(1)
        prometheus = f"127.0.0.1:{free_port()}"
        cluster.start("observe", SOURCE / "deploy/local/observe.sh", "--state-dir", state, "--prometheus", prometheus,
                      "--interval", "1s", "--target", gpus, line="logs ")

        (folder / "text.txt").write_text("The quick brown fox jumps over the lazy dog.\n" * 400)
        (folder / "job.yaml").write_text(JOB)
        run(BIN / "stretto-data", "prepare", folder / "text.txt", "-o", state / "data/text")
        run(BIN / "stretto", "--coordinator", coordinator, "job", "submit", folder / "job.yaml")

        missing = dict(queries())
        assert len(missing) > 40, missing
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
        groups = get(f"http://{prometheus}/api/v1/rules")["data"]["groups"]
        unwell = [rule for group in groups for rule in group["rules"] if rule["health"] != "ok"]
        assert len(groups) == 2 and not unwell, unwell
    finally:
        cluster.stop()
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
