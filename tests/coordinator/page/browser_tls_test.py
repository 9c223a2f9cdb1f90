#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page with TLS (--page-listen) in headless Chromium, as users on other machines open it: the browser refuses a CA that nobody
has told it of, and a name that the certificate does not have; then each token shows what its holder may read, and a revoked one
nothing more.

  browser_tls_test.py BIN PICTURES
"""

import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from browser import Browser, find_chromium, run

BIN, PICTURES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
JOB = """\
name: {name}
queue: {{project: {project}}}
model: {{preset: gpt-tiny}}
data: {{prefix: text}}
steps: 4
micro_batch_size: 2
"""


class Cluster:
    """A coordinator with TLS, tokens and a page, a worker, and a job of each of two projects."""

    def __init__(self, folder):
        self.folder, self.tls, self.children = folder, folder / "tls", []

    def begin(self):
        folder = self.folder
        run(BIN / "stretto", "ca", "init", self.tls)
        run(BIN / "stretto", "ca", "issue", self.tls, "--coordinator-host", "localhost", "--worker", "node",
            "--user", "ann/submitter/speech", "bob/submitter/vision")
        run(BIN / "stretto", "ca", "token", "issue", self.tls, "--user", "vera/viewer", "ann/submitter/speech")
        address, self.page = self.start(
            r"listening grpc=(\d+) .*page=(\d+)", "stretto-coordinator", "--listen", "localhost:0", "--metrics-listen",
            "127.0.0.1:0", "--page-listen", "127.0.0.1:0", "--state-dir", folder / "state", "--tls-crl", self.tls / "ca.crl",
            "--tokens", self.tls / "tokens", *self.identity("coordinator"))
        self.address = f"localhost:{address}"
        (folder / "data").mkdir()
        (folder / "text.txt").write_text("The quick brown fox jumps over the lazy dog.\n" * 400)
        run(BIN / "stretto-data", "prepare", folder / "text.txt", "--output", folder / "data/text")
        self.start(r"ready ", "stretto-worker", "--coordinator", self.address, "--name", "node", "--slots", "1", "--data-root",
                   folder / "data", "--checkpoint-root", folder / "saved", "--state-dir", folder / "node", "--metrics-listen",
                   "127.0.0.1:0", *self.identity("worker-node"))
        for user, project in (("ann", "speech"), ("bob", "vision")):
            (folder / "job.yaml").write_text(JOB.format(name=f"of-{project}", project=project))
            run(BIN / "stretto", "--coordinator", self.address, *self.identity(f"user-{user}"), "job", "submit",
                folder / "job.yaml", "--wait")

    def identity(self, name):
        return ("--tls-ca", self.tls / "ca.crt", "--tls-certificate", self.tls / f"{name}.crt", "--tls-key",
                self.tls / f"{name}.key")

    def start(self, ready, program, *flags):
        child = subprocess.Popen([BIN / program, *map(str, flags)], stdout=subprocess.PIPE,
                                 stderr=open(self.folder / f"{program}.log", "w"), text=True)
        self.children.append(child)
        for line in child.stdout:
            if found := re.search(ready, line):
                return found.groups()
        raise AssertionError(f"{program} ended: {(self.folder / f'{program}.log').read_text()}")

    def token(self, user):
        return (self.tls / f"user-{user}.token").read_text().strip()

    def stop(self):
        for child in reversed(self.children):
            child.send_signal(signal.SIGINT)
            child.wait(60)


def trust(folder, certificate):
    database = folder / ".pki/nssdb"
    database.mkdir(parents=True)
    run("certutil", "-d", f"sql:{database}", "-N", "--empty-password")
    run("certutil", "-d", f"sql:{database}", "-A", "-t", "C,,", "-n", "stretto", "-i", certificate)


def refusal(program, folder, url):
    with Browser(program, folder) as browser:
        return browser.show(url, "desk", "light")


def names(browser):
    return browser.evaluate("[...document.querySelectorAll('tbody a')].map(a => a.innerText).sort().join()")


def enter(browser, text):
    browser.until("document.getElementById('key') !== null")
    browser.evaluate(f"document.getElementById('key').value = {json.dumps(text)};"
                     "document.querySelector('main button').click()")


def check(browser, cluster, page):
    assert browser.show(page, "desk", "light") == ""
    browser.until("document.getElementById('key') !== null")
    assert "found no certificate" in browser.evaluate("document.querySelector('main').innerText")
    browser.picture(PICTURES / "token-desk-light.png")
    enter(browser, "abc")
    browser.until("document.querySelector('main').innerText.includes('token')")
    enter(browser, cluster.token("ann"))
    browser.until("document.querySelector('tbody a') !== null")
    assert names(browser) == "of-speech", names(browser)
    browser.show(page + "#/jobs/of-vision", "desk", "light")
    browser.until("document.querySelector('main')?.innerText.includes('user ann')")
    browser.evaluate("document.getElementById('forget').click()")
    browser.show(page + f"#key={cluster.token('vera')}", "desk", "light")
    browser.until("document.querySelectorAll('tbody tr').length === 2")
    assert names(browser) == "of-speech,of-vision", names(browser)
    assert browser.evaluate("location.hash") == "#/", "the token stays in the address"
    browser.show(page + "#/jobs/of-speech", "desk", "light")
    browser.until("document.querySelector('img.timeline')?.naturalWidth > 0")
    # The coordinator reads the list of tokens within a second.
    run(BIN / "stretto", "ca", "token", "revoke", cluster.tls, "user-vera")
    browser.show(page, "desk", "light")
    browser.until("document.querySelector('main')?.innerText.includes('revoked')")


def main():
    program = find_chromium()
    if program is None:
        return 77
    if shutil.which("certutil") is None:
        print("skipped: no certutil here (deploy/install_packages.sh --with-full-tests)")
        return 77
    PICTURES.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="stretto-page-"))
    cluster = Cluster(folder)
    try:
        cluster.begin()
        page = f"https://localhost:{cluster.page}/"
        assert refusal(program, folder, page) == "net::ERR_CERT_AUTHORITY_INVALID"
        trust(folder, cluster.tls / "ca.crt")
        assert refusal(program, folder, page.replace("localhost", "127.0.0.1")) == "net::ERR_CERT_COMMON_NAME_INVALID"
        with Browser(program, folder) as browser:
            check(browser, cluster, page)
    finally:
        cluster.stop()
    shutil.rmtree(folder, ignore_errors=True)
    print(f"pictures in {PICTURES}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
