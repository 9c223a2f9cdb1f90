#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Both clients against real daemons, and compared with what `stretto` prints.

  cluster_test.py SOURCE BIN     (the installed package is on PYTHONPATH)
"""
import asyncio
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import stretto

SOURCE, BIN = (pathlib.Path(argument).resolve() for argument in (sys.argv.pop(1), sys.argv.pop(1)))
JOB = {"model": {"preset": "gpt-tiny"}, "data": {"prefix": "text"}, "parallelism": {"tp_size": 2},
       "schedule": {"name": "domino_row", "parameters": {"slices": 2}}, "precision": "f32",
       "steps": 6, "micro_batch_size": 2}
GIANT = {"family": "gpt", "layers": 48, "hidden": 32768, "heads": 256, "sequence_length": 2048,
         "vocab_size": 257}
# Some 26 collectives of a step take 4 ms each or more, without burning CPU.
SLOW = {"emulated_link": {"gigabits_per_second": 100, "latency_microseconds": 2000}}
NOBODY = "127.0.0.1:1"


class Daemons(unittest.TestCase):
    """A coordinator and a worker of two slots in a folder of their own."""

    @classmethod
    def setUpClass(cls):
        for name in [name for name in os.environ if name.startswith(("STRETTO_", "XDG_"))]:
            del os.environ[name]
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="stretto-py-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        os.environ["HOME"] = str(cls.folder)
        path = mock.patch.dict(os.environ, {"PATH": f"{BIN}:{os.environ['PATH']}"})
        path.start()
        cls.addClassCleanup(path.stop)
        cls.children, cls.port = {}, "0"
        cls.addClassCleanup(cls.stop)
        cls.prepare_data()
        cls.start_coordinator()
        cls.start_worker()

    @classmethod
    def prepare_data(cls):
        draw = random.Random(7)
        words = "the voice enters before last one has finished its theme".split()
        (cls.folder / "text.txt").write_text(" ".join(draw.choice(words) for _ in range(8000)))
        (cls.folder / "data").mkdir()
        subprocess.run([BIN / "stretto-data", "prepare", cls.folder / "text.txt", "--output",
                        cls.folder / "data/text"], check=True, capture_output=True)

    @classmethod
    def start(cls, name, ready, *command):
        child = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
        cls.children[name] = child
        lines = []
        for line in child.stdout:
            lines.append(line)
            if found := re.search(ready, line):
                # The rest is read, so that the pipe never fills.
                threading.Thread(target=collections.deque, args=(child.stdout, 0)).start()
                return found
        raise AssertionError(f"{name} ended without '{ready}': {''.join(lines)}")

    @classmethod
    def start_coordinator(cls, *flags):
        found = cls.start("coordinator", r"grpc=(\S+)", BIN / "stretto-coordinator", "--listen",
                          f"127.0.0.1:{cls.port}", "--metrics-listen", "127.0.0.1:0",
                          "--state-dir", cls.folder / "coordinator", *flags)
        cls.port = found[1].rpartition(":")[2]
        cls.address = f"127.0.0.1:{cls.port}"

    @classmethod
    def start_worker(cls, *flags):
        cls.start("worker", "registered", BIN / "stretto-worker", "--name", "a", "--slots", "2",
                  "--data-root", cls.folder / "data", "--checkpoint-root", cls.folder / "saved",
                  "--state-dir", cls.folder / "a", "--coordinator", cls.address, *flags)

    @classmethod
    def stop(cls):
        for child in reversed(cls.children.values()):
            child.send_signal(signal.SIGTERM)
        for child in cls.children.values():
            try:
                child.wait(60)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def cli(self, *arguments):
        return subprocess.run([BIN / "stretto", "--coordinator", self.address, *arguments],
                              capture_output=True, text=True, timeout=120)


class ClusterTest(Daemons):
    def setUp(self):
        self.client = stretto.Client(self.address)
        self.addCleanup(self.client.close)

    def test_a_job_from_submit_to_trace(self):
        job = self.client.submit(JOB, name="first")
        self.assertEqual(job.name, "jobs/first")
        events = list(self.client.follow("first"))
        self.assertEqual(events[-1].state, stretto.Job.SUCCEEDED)
        steps = [event.step for event in events if isinstance(event, stretto.StepReport)]
        self.assertEqual(steps, [1, 2, 3, 4, 5, 6])
        self.assertEqual(self.client.wait("first").progress.steps, 6)
        self.assertIn("first", [job.name.removeprefix("jobs/") for job in self.client.jobs()])
        self.assertEqual([worker.name for worker in self.client.workers()], ["workers/a"])
        self.assertTrue(self.client.events("first"))

        for form in ("json", "yaml"):
            whole = self.cli("job", "get", "first", "-o", form).stdout
            self.assertEqual(stretto.parse_job(whole).spec, self.client.get("first").spec)

        table = self.client.metrics("first", first=2)
        printed = json.loads(self.cli("job", "metrics", "first", "-o", "json", "--steps", "2:").stdout)
        self.assertEqual(list(table), printed)  # each column, each value, each bit
        try:
            frame = table.to_pandas()
        except stretto.MissingLibrary as error:
            print(f"not checked: {error}")
        else:
            self.assertEqual(list(frame["step"]), [2, 3, 4, 5, 6])
            self.assertEqual(list(frame["loss"]), [row["loss"] for row in printed])

        ledger = self.client.ledger("first", rank=1)
        wall = self.client.get("first").progress.rank_ledgers[1].wall_seconds
        self.assertAlmostEqual(sum(row["seconds"] for row in ledger), wall, delta=1e-6 * wall + 1e-6)

        logs = "".join(text for rank, text in self.client.logs("first", rank=0))
        self.assertIn("step", logs)
        self.assertEqual(logs, self.cli("job", "logs", "first", "--rank", "0").stdout)

        ranks = self.client.trace("first", first=6, last=6)
        self.assertEqual(sorted(rank.rank for rank in ranks), [0, 1])
        rows = stretto.trace_table(ranks)
        self.assertEqual(len(rows), sum(rank.program.operation_count for rank in ranks))
        self.assertEqual({row["step"] for row in rows}, {6})

        with self.assertRaises(stretto.FailedPrecondition) as ended:
            self.client.cancel("first")
        self.assertEqual(ended.exception.reason, "JOB_ALREADY_ENDED")
        with self.assertRaises(stretto.AlreadyExists):
            self.client.submit({**JOB, "name": "first"})
        self.client.delete("first")
        with self.assertRaisesRegex(stretto.NotFound, "first"):
            self.client.get("first")

    def test_a_refused_spec_is_refused_in_the_words_of_the_command_line(self):
        for text in ("name: bad\nsteps: 5\nparallelism: {tp_size: 3}\nmodel: {preset: gpt-tiny}\n"
                     "data: {prefix: text}\nmicro_batch_size: 2\nschedule: {name: domino_row}\n",
                     "name: Bad\nsteps: -5\n"):
            path = self.folder / "bad.yaml"
            path.write_text(text)
            with self.assertRaises(stretto.InvalidArgument) as raised:
                self.client.submit(path)
            self.assertIn("bad.yaml:", str(raised.exception))
            printed = self.cli("job", "submit", str(path)).stderr
            mine = {line.split(": ", 1)[1] for line in str(raised.exception).splitlines()}
            if "name: Bad" not in text:  # that one `stretto` refuses itself
                theirs = {line.removeprefix("error: ").split(": ", 1)[1]
                          for line in printed.splitlines() if line.startswith("error: ")}
                self.assertEqual(mine, theirs)

    def test_a_job_that_does_not_fit_is_refused_in_the_words_of_the_command_line(self):
        path = self.folder / "giant.yaml"
        path.write_text(json.dumps({**JOB, "name": "giant", "model": GIANT}))
        printed = self.cli("job", "submit", str(path)).stderr
        self.assertIn("memory of node", printed)
        expected = [line.removeprefix("error: ") for line in printed.splitlines()
                    if line.startswith("error: ")]
        for options in ({}, {"dry_run": True}):
            with self.assertRaises(stretto.InvalidArgument) as raised, \
                    self.assertNoLogs("stretto", "WARNING"):
                self.client.submit(path, **options)
            self.assertEqual(str(raised.exception).splitlines(), expected)
        with self.assertRaises(stretto.NotFound):
            self.client.get("giant")

    def test_one_that_fits_is_created_without_a_warning(self):
        with self.assertNoLogs("stretto", "WARNING"):
            self.client.submit({**JOB, "steps": 1}, name="small")
            self.assertEqual(self.client.wait("small").state, stretto.Job.SUCCEEDED)
        with mock.patch.dict(os.environ, {"PATH": str(self.folder)}), \
                self.assertLogs("stretto", "WARNING") as logged:
            self.client.submit({**JOB, "steps": 1}, name="unseen")
        self.assertEqual(self.client.wait("unseen").state, stretto.Job.SUCCEEDED)
        (record,) = logged.records
        self.assertIn("not checked: memory: found no `stretto` on PATH", record.getMessage())

    def test_a_dry_run_stores_nothing(self):
        job = self.client.submit(SOURCE / "deploy/examples/first-job.yaml", dry_run=True)
        self.assertEqual(job.spec.optimizer.name, "adamw")  # defaults are filled in
        with self.assertRaises(stretto.NotFound):
            self.client.get("first-job")

    def test_jobs_are_found_by_label_and_state_and_continue(self):
        for name, labels in (("one", {"sweep": "a"}), ("two", {"sweep": "b", "kept": ""})):
            self.client.submit({**JOB, "steps": 2, "labels": labels}, name=name)
            self.assertEqual(self.client.wait(name).state, stretto.Job.SUCCEEDED)

        def found(**selected):
            return [job.name for job in self.client.jobs(**selected)]

        self.assertEqual(found(labels={"sweep": "a"}), ["jobs/one"])
        self.assertEqual(found(labels={"sweep": None}, states=["succeeded"]),
                         ["jobs/two", "jobs/one"])
        self.assertEqual(found(labels={"sweep": "a", "kept": None}), [])
        self.assertEqual(found(labels={"sweep": None}, states=["failed", "running"]), [])
        self.assertEqual(found(retired=True), [])
        with self.assertRaises(stretto.InvalidArgument):
            found(retired=True, labels={"sweep": "a"})  # labels of retired jobs are not kept
        with self.assertRaises(stretto.InvalidArgument):
            found(labels={"no label": "x"})
        self.client.resume("one", steps=4)
        self.assertEqual(self.client.wait("one").progress.steps, 4)
        last = [text for rank, text in self.client.logs("one", rank=0, tail=1, grep="step 4 loss")]
        self.assertEqual(len(last), 1)
        self.assertRegex(last[0], r"^[^\n]*step 4 loss[^\n]*\n$")

    def test_addresses(self):
        with stretto.Client(f"{NOBODY},{self.address}") as client:
            self.assertEqual(len(client.workers()), 1)
        with stretto.Client(NOBODY) as client, self.assertRaisesRegex(stretto.Unavailable, NOBODY):
            client.workers()

    def test_a_follower_is_cancelled_and_then_the_job(self):
        async def follow_and_cancel():
            async with stretto.AsyncClient(self.address) as client:
                await client.submit({**JOB, **SLOW, "steps": 100000}, name="long")
                trained = asyncio.Event()

                async def follow():
                    async for event in client.follow("long"):
                        if isinstance(event, stretto.StepReport):
                            trained.set()

                task = asyncio.create_task(follow())
                await trained.wait()
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertEqual((await client.get("long")).state, stretto.Job.RUNNING)
                last = None
                async for last in client.follow("long"):
                    if isinstance(last, stretto.StepReport) and last.step > 3:
                        await client.cancel("long")
                        break
                return await client.wait("long")

        self.assertEqual(asyncio.run(follow_and_cancel()).state, stretto.Job.CANCELLED)

    def test_following_outlasts_a_killed_coordinator(self):
        self.client.submit({**JOB, **SLOW, "steps": 40}, name="restart")
        steps, killed = [], False
        with self.assertLogs("stretto") as logs:
            for event in self.client.follow("restart"):
                if isinstance(event, stretto.StepReport):
                    steps.append(event.step)
                if len(steps) == 3 and not killed:
                    killed = True
                    self.children["coordinator"].kill()
                    self.children["coordinator"].wait()
                    del self.children["coordinator"]
                    self.start_coordinator()
        self.assertEqual(event.state, stretto.Job.SUCCEEDED)
        self.assertEqual(steps, list(range(1, 41)))
        self.assertRegex("\n".join(logs.output), "lost the coordinator at .*\n.*reconnected to")

    def test_an_export_without_its_library_says_what_is_missing(self):
        done = subprocess.run(
            [sys.executable, "-c", "import sys; sys.modules.update(tensorboard=None, wandb=None)\n"
             "from stretto.__main__ import main; sys.exit(main(sys.argv[1:]))", "job", "metrics",
             "none", "--tensorboard", str(self.folder), "--coordinator", self.address],
            capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "^error: .*none")


class TlsTest(Daemons):
    @classmethod
    def setUpClass(cls):
        tls = pathlib.Path(tempfile.mkdtemp(prefix="stretto-py-tls-"))
        cls.addClassCleanup(shutil.rmtree, tls)
        cls.tls = tls
        for folder, hosts in ((tls, ["127.0.0.1", "localhost"]), (tls / "other", ["127.0.0.1"])):
            for command in (["init"], ["issue", "--coordinator-host", *hosts, "--worker", "a",
                                       "--user", "me"]):
                subprocess.run([BIN / "stretto", "ca", command[0], folder, *command[1:]],
                               check=True, capture_output=True)
        cls.token("issue", "--user", "me", "dash/viewer")
        super().setUpClass()

    @classmethod
    def token(cls, command, *arguments):
        subprocess.run([BIN / "stretto", "ca", "token", command, cls.tls, *arguments], check=True,
                       capture_output=True)

    @classmethod
    def flags(cls, name):
        return ["--tls-ca", cls.tls / "ca.crt", "--tls-certificate", cls.tls / f"{name}.crt",
                "--tls-key", cls.tls / f"{name}.key"]

    @classmethod
    def start_coordinator(cls):
        super().start_coordinator(*cls.flags("coordinator"), "--tokens", cls.tls / "tokens")

    @classmethod
    def start_worker(cls):
        super().start_worker(*cls.flags("worker-a"))

    def files(self, folder, name="user-me", ca=None):
        return stretto.TlsFiles(str((ca or folder) / "ca.crt"), str(folder / f"{name}.crt"),
                                str(folder / f"{name}.key"))

    def refused(self, pattern, tls, kind=stretto.Unavailable):
        with stretto.Client(self.address, tls=tls) as client:
            with self.assertRaisesRegex(kind, pattern):
                client.workers()

    def test_the_files_of_the_command_line_are_taken(self):
        for address in (self.address, f"localhost:{self.port}", f"{NOBODY},{self.address}"):
            with stretto.Client(address, tls=self.files(self.tls)) as client:
                self.assertEqual([worker.name for worker in client.workers()], ["workers/a"])

    def test_asyncio_and_a_context(self):
        config = self.folder / ".config/stretto/config.yaml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(f"contexts:\n  lab:\n    coordinator: {self.address}\n    tls: {{ca: "
                          f"{self.tls}/ca.crt, certificate: {self.tls}/user-me.crt, key: "
                          f"{self.tls}/user-me.key}}\n")

        async def workers():
            async with stretto.AsyncClient(context="lab") as client:
                await client.submit(JOB, name="tried", dry_run=True)
                return await client.workers()

        with self.assertNoLogs("stretto", "WARNING"):  # memory is compared with this certificate
            self.assertEqual(len(asyncio.run(workers())), 1)

    def test_a_token_takes_the_place_of_a_certificate(self):
        def files(name):
            return stretto.TlsFiles(ca=str(self.tls / "ca.crt"),
                                    token_file=str(self.tls / f"{name}.token"))

        async def workers():
            async with stretto.AsyncClient(self.address, tls=files("user-me")) as client:
                return await client.workers()

        self.assertEqual(len(asyncio.run(workers())), 1)
        with stretto.Client(self.address, tls=files("user-me")) as mine, \
                stretto.Client(self.address, tls=files("user-dash")) as dash:
            with self.assertNoLogs("stretto", "WARNING"):  # memory is compared with this token
                job = mine.submit({**JOB, "steps": 2}, name="by-token")
            self.assertEqual(job.owner, "me")
            self.assertEqual(mine.wait("by-token").state, stretto.Job.SUCCEEDED)
            with self.assertRaises(stretto.PermissionDenied):
                dash.delete("by-token")
            self.token("revoke", "user-dash")
            with self.assertRaisesRegex(stretto.CallError, "of dash: found it revoked"):
                for _ in range(200):  # the coordinator looks at its file twice a second
                    dash.get("by-token")
                    time.sleep(0.05)
            self.assertEqual(mine.get("by-token").owner, "me")

    def test_who_does_not_belong_is_told_why(self):
        other = self.tls / "other"
        self.refused("it speaks TLS, and this client came without", None)
        self.refused("its certificate does not pass with ca .*other/ca.crt", self.files(other))
        both = self.tls / "both"
        both.mkdir(exist_ok=True)
        (both / "ca.crt").write_text((self.tls / "ca.crt").read_text())
        self.refused("it refuses our certificate .*other/user-me.crt",
                     self.files(other, ca=both))
        self.refused("role worker|not allowed|expected", self.files(self.tls, "worker-a"),
                     stretto.CallError)

    def test_a_peer_of_another_role_is_no_coordinator(self):
        from fake import Coordinator, job
        import grpc
        read = [(self.tls / name).read_bytes() for name in ("user-me.key", "user-me.crt", "ca.crt")]
        credentials = grpc.ssl_server_credentials([(read[0], read[1])], read[2], True)
        with Coordinator({"GetJob": [job()]}, credentials) as fake:
            with stretto.Client(fake.address, tls=self.files(self.tls)) as client:
                with self.assertRaisesRegex(stretto.Unavailable, "certificate|role coordinator"):
                    client.get("gpt")
            self.assertEqual(fake.requests, [])


if __name__ == "__main__":
    unittest.main()
