#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The coordinator's page in headless Chromium, on a real cluster: a job that has trained, one that failed with a text that would be
markup, and one that waits. At two sizes, light and dark: what people see is there, nothing is wider than the window, no script
fails, and nothing is loaded from elsewhere. Pictures are kept for whoever wants to look.

  browser_test.py BIN PICTURES
"""

import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from browser import SIZES, Browser, find_chromium, run

BIN, PICTURES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
MARKUP = "<img src=x onerror=alert(1)>"
JOB = """\
name: {name}
model: {{preset: gpt-tiny}}
data: {{prefix: "{data}"}}
parallelism: {{tp_size: 2}}
schedule: {{name: domino_row, parameters: {{slices: 2}}}}
precision: f32
steps: {steps}
micro_batch_size: 2
checkpoint: {{interval_steps: 20}}
eval: {{interval_steps: 10, batches: 1, prefix: held}}
emulated_link: {{gigabits_per_second: 2, latency_microseconds: 50}}
"""


def start_cluster(folder):
    """`stretto up` with three jobs; returns it, the address of the page, and what opens it."""
    up = subprocess.Popen([BIN / "stretto", "up", "--slots", "2", "--listen", "127.0.0.1:0", "--state-dir", folder / "state"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    text = ""
    while "job submit" not in text:
        line = up.stdout.readline()
        assert line, text
        text += line
    page, key = re.search(r"^page +(http://\S+/)(#key=\S+)$", text, re.M).groups()
    coordinator = re.search(r"^coordinator +(\S+)", text, re.M)[1]
    (folder / "text.txt").write_text("The quick brown fox jumps over the lazy dog.\n" * 400)
    for data in ("text", "held"):
        run(BIN / "stretto-data", "prepare", folder / "text.txt", "--output", folder / "state/data" / data)
    stretto = [BIN / "stretto", "--coordinator", coordinator]

    def submit(name, *flags, data="text", steps=60, code=0):
        (folder / "job.yaml").write_text(JOB.format(name=name, data=data, steps=steps))
        run(*stretto, "job", "submit", folder / "job.yaml", *flags, code=code)

    submit("trained", "--wait")
    submit("failed", "--no-look", "--wait", data=MARKUP, code=3)
    submit("training", steps=1_000_000)
    submit("waiting")
    return up, page, key


# What each look must find, as expressions that are true.
LIST = ["document.querySelectorAll('tbody tr').length === 4", "document.body.innerText.includes('1 worker ready')",
        "[...document.querySelectorAll('.badge')].map(b => b.innerText).join() === 'pending,running,failed,succeeded'",
        "document.querySelector('.bar.small span') !== null"]
TRAINED = [
    "document.querySelector('h1').innerText === 'trained'",
    "document.querySelector('img.timeline').naturalWidth > 0 && !document.querySelector('img.timeline').hidden",
    "document.querySelectorAll('.curve').length === 2",  # training and held-out
    "document.querySelectorAll('.rank .bar').length === 2",
    "document.body.innerText.includes('held-out loss')",
    "[...document.querySelectorAll('h2')].map(h => h.innerText).join() === "
    "'Loss,Where every second goes,Timeline of a step,Ranks,Conditions,Events'",
]
FAILED = [
    "document.querySelector('.failure .message').innerText.includes('<img src=x onerror=alert(1)>')",
    "document.querySelectorAll('img[src=x]').length === 0",
]
EVERYWHERE = [
    "document.documentElement.scrollWidth <= innerWidth",
    "getComputedStyle(document.body).backgroundColor === (matchMedia('(prefers-color-scheme: dark)').matches"
    " ? 'rgb(21, 24, 27)' : 'rgb(251, 250, 247)')",
]


def check(browser, page, key):
    browser.show(page + key, "desk", "light")
    browser.until("document.querySelectorAll('tbody tr').length === 4")
    assert browser.evaluate("location.hash") == "#/", "the key stays in the address"
    for size in SIZES:
        for scheme in ("light", "dark"):
            for name, path, facts in (("jobs", "#/", LIST), ("job", "#/jobs/trained", TRAINED),
                                      ("failed", "#/jobs/failed", FAILED)):
                browser.show(page + path, size, scheme)
                browser.until("document.querySelector('main .card') !== null")
                for fact in [*facts, *EVERYWHERE]:
                    browser.until(fact)
                browser.picture(PICTURES / f"{name}-{size}-{scheme}.png")
    # By click, and back; a running job moves on by itself.
    browser.show(page, "desk", "light")
    browser.until("document.querySelector('a[href=\"#/jobs/training\"]') !== null")
    browser.evaluate("document.querySelector('a[href=\"#/jobs/training\"]').click()")
    browser.until("document.querySelector('h1')?.innerText === 'training'")
    step = browser.evaluate("document.querySelector('.fact dd').innerText")
    browser.until(f"document.querySelector('.fact dd').innerText !== {json.dumps(step)}")
    browser.evaluate("history.back()")
    browser.until("document.querySelectorAll('tbody tr').length === 4")
    assert not browser.errors, browser.errors
    elsewhere = [url for url in browser.requests if not url.startswith((page, "about:", f"blob:{page}"))]
    assert not elsewhere, elsewhere
    # A job that does not exist is an error in words.
    browser.show(page + "#/jobs/none", "desk", "light")
    browser.until("(document.querySelector('main')?.innerText ?? '').includes('no job \"none\"')")
    # Who has no key is asked for one, and a browser forgets it.
    browser.evaluate("document.getElementById('forget').click()")
    browser.until("document.getElementById('key') !== null && document.getElementById('forget').hidden")
    browser.picture(PICTURES / "key-desk-light.png")
    for text, found in (("no key", "'neither a key'"), ("abc", "'found another key'"), (key.removeprefix("#key="), "'no job'")):
        browser.until("document.getElementById('key') !== null")
        browser.evaluate(f"document.getElementById('key').value = {json.dumps(text)};"
                         "document.querySelector('main button').click()")
        browser.until(f"(document.querySelector('main')?.innerText ?? '').includes({found})")
    assert not browser.evaluate("document.getElementById('forget').hidden")


def main():
    program = find_chromium()
    if program is None:
        return 77
    PICTURES.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="stretto-page-"))
    up, page, key = start_cluster(folder)
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(page, timeout=10) as answer:
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"], answer.headers
        try:
            opener.open(page + "api/jobs", timeout=10)
            raise AssertionError("jobs are shown without the key")
        except urllib.error.HTTPError as refused:
            assert refused.code == 401, refused
        with Browser(program, folder) as browser:
            check(browser, page, key)
    finally:
        up.send_signal(signal.SIGINT)
        up.wait(60)
    shutil.rmtree(folder, ignore_errors=True)
    print(f"pictures in {PICTURES}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
