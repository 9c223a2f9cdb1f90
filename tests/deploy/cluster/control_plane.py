# SPDX-License-Identifier: Apache-2.0
"""A real control plane of Kubernetes: etcd, kube-apiserver, kube-controller-manager and
kube-scheduler, with RBAC, the authorizer of nodes, and admission that judges the security of pods.
It wants a network namespace of its own, in which its ports are free.

Users are told apart by tokens: `admin` may do everything, `owner` may do what RBAC gives him, and
each program of the control plane is the user that Kubernetes has a role for."""

import http.client
import json
import os
import pathlib
import ssl
import subprocess
import sys
import time

import yaml

# {token, which is also the name of the kubeconfig: (user, group)}
USERS = {
    "admin": ("admin", "system:masters"),
    "owner": ("owner", "users"),
    "controllers": ("system:kube-controller-manager", "users"),
    "scheduler": ("system:kube-scheduler", "users"),
}
PORT = 6443
ETCD = "http://127.0.0.1:2379"
# The API server gives it to others, of whom there are none; it must not be a loopback address.
ADVERTISED = "10.1.2.3"


class Refused(Exception):
    """An answer of the API server that is none of 2xx."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Api:
    """Calls with JSON, as a user or, by impersonation, as the kubelet of a node; of any thread."""

    def __init__(self, folder, user):
        self.token = user
        self.context = ssl.create_default_context(cafile=folder / "server.crt")

    def call(self, method, path, body=None, content="application/json", node=None):
        code, text = self._send(method, path, body, content, node)
        if code >= 300:
            raise Refused(code, f"{method} {path}: {code} {text.strip()}")
        return json.loads(text)

    def get(self, path, node=None):
        return self.call("GET", path, node=node)

    def items(self, path):
        return self.get(path)["items"]

    def has(self, path):
        return self._send("GET", path)[0] < 300

    def _send(self, method, path, body=None, content="application/json", node=None):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content,
                   "Accept": "application/json"}
        if node is not None:
            headers["Impersonate-User"] = f"system:node:{node}"
            headers["Impersonate-Group"] = "system:nodes"
        connection = http.client.HTTPSConnection("127.0.0.1", PORT, timeout=60,
                                                 context=self.context)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


class ControlPlane:
    """`programs`: the folder of kube-apiserver, kubectl and the others; `folder`: an empty one for
    state, logs and kubeconfigs."""

    def __init__(self, programs, folder):
        self.programs, self.folder = pathlib.Path(programs), pathlib.Path(folder)
        self.processes = {}

    def start(self):
        for words in ("link set lo up", f"address add {ADVERTISED}/32 dev lo"):
            subprocess.run(["ip", *words.split()], check=True)
        self._make_keys()
        lines = [f'{token},{user},{user},"{group}"\n' for token, (user, group) in USERS.items()]
        (self.folder / "tokens.csv").write_text("".join(lines))
        for user in USERS:
            self._write_kubeconfig(user)
        self.api = Api(self.folder, "admin")
        self._run("etcd", "--data-dir", self.folder / "etcd", "--listen-client-urls", ETCD,
                  "--advertise-client-urls", ETCD)
        self._start_server()
        self.wait_for("the API server is ready", self._ready)
        self._run(self.programs / "kube-controller-manager",
                  "--kubeconfig", self.kubeconfig("controllers"), "--leader-elect=false",
                  "--use-service-account-credentials=true",
                  "--service-account-private-key-file", self.folder / "accounts.key",
                  "--root-ca-file", self.folder / "server.crt", "--bind-address=127.0.0.1",
                  "--port=0")
        self._run(self.programs / "kube-scheduler", "--kubeconfig", self.kubeconfig("scheduler"),
                  "--leader-elect=false", "--bind-address=127.0.0.1", "--port=0")
        self.wait_for("the controllers make accounts", lambda: self.api.has(
            "/api/v1/namespaces/default/serviceaccounts/default"))

    def _make_keys(self):
        """A certificate that clients know, and the key of the tokens of service accounts."""
        for words in ("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
                      "-subj /CN=kube-apiserver -addext subjectAltName=IP:127.0.0.1 "
                      "-keyout server.key -out server.crt", "genrsa -out accounts.key 2048"):
            subprocess.run(["openssl", *words.split()], cwd=self.folder, check=True,
                           capture_output=True)

    def kubeconfig(self, user):
        return self.folder / f"{user}.kubeconfig"

    def _write_kubeconfig(self, user):
        cluster = {"server": f"https://127.0.0.1:{PORT}",
                   "certificate-authority": str(self.folder / "server.crt")}
        self.kubeconfig(user).write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": user,
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": user}}],
            "contexts": [{"name": user, "context": {"cluster": "test", "user": user}}]}))

    def _start_server(self):
        keys, accounts = self.folder / "server", self.folder / "accounts.key"
        self._run(self.programs / "kube-apiserver", "--etcd-servers", ETCD,
                  "--bind-address=127.0.0.1", f"--secure-port={PORT}",
                  f"--advertise-address={ADVERTISED}", "--endpoint-reconciler-type=none",
                  "--service-cluster-ip-range=10.96.0.0/16",
                  "--tls-cert-file", f"{keys}.crt", "--tls-private-key-file", f"{keys}.key",
                  "--token-auth-file", self.folder / "tokens.csv",
                  "--authorization-mode=Node,RBAC", "--allow-privileged=true",
                  "--enable-admission-plugins=NodeRestriction,PodSecurityPolicy",
                  "--service-account-issuer=https://kubernetes.default.svc",
                  "--service-account-key-file", accounts,
                  "--service-account-signing-key-file", accounts)

    def _run(self, program, *arguments):
        name = pathlib.Path(program).name
        with open(self.folder / f"{name}.log", "w") as log:
            self.processes[name] = subprocess.Popen(
                [program, *map(str, arguments)], stdout=log, stderr=subprocess.STDOUT,
                cwd=self.folder, env=self.environment("admin"))

    def _ready(self):
        try:
            return self.api.has("/readyz")
        except ConnectionError:  # it does not listen yet
            return False

    def environment(self, user):
        kept = {name: value for name, value in os.environ.items()
                if not name.lower().endswith("_proxy")}
        return kept | {"KUBECONFIG": str(self.kubeconfig(user)), "HOME": str(self.folder),
                       "PATH": f"{self.programs}:{kept['PATH']}"}

    def kubectl(self, *arguments, user="owner", check=True, **options):
        done = subprocess.run([self.programs / "kubectl", *map(str, arguments)],
                              env=self.environment(user), capture_output=True, text=True,
                              timeout=300, **options)
        if check and done.returncode != 0:
            words = " ".join(map(str, arguments))
            sys.exit(f"kubectl {words} of {user} ended with {done.returncode}:\n"
                     f"{done.stdout}{done.stderr}\n{self.state()}")
        return done

    def wait_for(self, what, condition, seconds=180):
        """Until `condition` is true; returns its value."""
        end = time.monotonic() + seconds
        while not (found := condition()):
            self.check()
            if time.monotonic() > end:
                sys.exit(f"waited {seconds} s until {what}\n{self.state()}")
            time.sleep(0.2)
        return found

    def check(self):
        """Ends the test when a program has ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                sys.exit(f"{name} ended with {process.returncode}:\n{self._tail(name)}")

    def state(self):
        """What to look at when the test fails."""
        shown = self.kubectl("get", "nodes,pods,pvc,events", "--all-namespaces", "--output=wide",
                             user="admin", check=False)
        logs = [f"{name}:\n{self._tail(name)}" for name in self.processes]
        return "\n".join([shown.stdout + shown.stderr, *logs])

    def _tail(self, name):
        text = (self.folder / f"{name}.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-20:])

    def end(self):
        for process in reversed(self.processes.values()):
            process.kill()
        for process in self.processes.values():
            process.wait()
