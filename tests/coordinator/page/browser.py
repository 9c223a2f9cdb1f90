# SPDX-License-Identifier: Apache-2.0
"""What tests of the page share: a headless Chromium, driven over a pipe (--remote-debugging-pipe) so that no library is needed, and
processes of Stretto."""

import base64
import json
import os
import shutil
import signal
import subprocess
import time

DEADLINE_SECONDS = 90
SIZES = {"desk": (1440, 1000), "phone": (390, 844)}


def find_chromium():
    """Returns the program, or None after a line that says why the test is skipped."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        print("skipped: no chromium here (deploy/install_packages.sh --with-full-tests)")
    return program


class Browser:
    """One tab of a Chromium."""

    def __init__(self, program, folder):
        """Its home, with the certificates that it trusts, is the folder."""
        to_browser, ours_out = os.pipe()
        ours_in, from_browser = os.pipe()
        # The browser reads what we ask from descriptor 3 and answers on 4.
        self.child = subprocess.Popen(
            ["bash", "-c", f'exec 3<&{to_browser} 4>&{from_browser}; exec "$0" "$@"', program, "--headless=new", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
             "--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}", "about:blank"],
            pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL,
            stderr=open(folder / "chromium.log", "w"), start_new_session=True,
            env={**os.environ, "HOME": str(folder)})
        os.close(to_browser)
        os.close(from_browser)
        self.out, self.incoming = os.fdopen(ours_out, "wb", 0), os.fdopen(ours_in, "rb", 0)
        self.number, self.rest, self.session = 0, b"", None
        self.errors, self.requests = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.note(answer)

    def read(self):
        while b"\0" not in self.rest:
            block = os.read(self.incoming.fileno(), 1 << 20)
            assert block, "chromium has ended"
            self.rest += block
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def note(self, event):
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(parameters["exceptionDetails"])[:600])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(parameters["args"])[:600])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, (expression, result)
        return result["result"].get("value")

    def until(self, expression):
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self.evaluate(expression):
            assert time.monotonic() < deadline, (expression, self.evaluate("document.body.innerText")[:2000], self.errors)
            time.sleep(0.1)

    def show(self, url, size, scheme):
        """Returns why the address could not be opened, or ""."""
        width, height = SIZES[size]
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url="about:blank")
        return self.call("Page.navigate", url=url).get("errorText", "")

    def picture(self, path):
        height = min(self.evaluate("document.documentElement.scrollHeight"), 4000)
        width = self.evaluate("innerWidth")
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})["data"]
        path.write_bytes(base64.b64decode(data))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()


def run(*command, code=0):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout
