#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How `submit` of both clients takes what the program `stretto` says of memory, and what it does where
there is none or it fails.

  memory_test.py     (the installed package is on PYTHONPATH)
"""
import asyncio
import json
import os
import pathlib
import select
import signal
import sys
import tempfile
import threading
import unittest
from unittest import mock

import stretto
from fake import Asyncio, Blocking, Served, job

FITS = {"job": {}, "fits": True, "shortages": [], "memory_not_compared": ""}
SHORT = {**FITS, "fits": False, "shortages": [
    {"place": f"node 10.0.0.{number}", "asked_bytes": 9, "offered_bytes": 8,
     "description": f"found {number} TiB for the job, expected at most 1 TiB"}
    for number in (7, 8)]}
REASON = "job gpt: not checked: memory: "
GPT = {"name": "gpt", "steps": 5}


class MemoryCases(Served):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith("STRETTO_")}
        patch = mock.patch.dict(os.environ, kept, clear=True)
        patch.start()
        self.addCleanup(patch.stop)
        self.server = self.serve(CreateJob=[job()])

    def script(self, body, name="fake/stretto"):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o700)
        return str(path)

    def says(self, document, code=0, name="fake/stretto"):
        return self.script(f"cat << 'END'\n{json.dumps(document)}\nEND\nexit {code}", name)

    def submit(self, program="", given=GPT, **options):
        return self.client(self.server, program=program).call("submit", given, **options)

    def warned(self, program="", given=GPT, **options):
        """What a submission warns of that creates the job."""
        self.server.requests.clear()
        with self.assertLogs("stretto", "WARNING") as logged:
            self.submit(program, given, **options)
        self.assertEqual(self.created(), [True, False])
        (record,) = logged.records
        self.assertTrue(record.getMessage().startswith(REASON), record.getMessage())
        return record.getMessage().removeprefix(REASON)

    def created(self):
        return [request.validate_only for request in self.server.requests]

    def test_a_job_that_fits_is_created_without_a_warning(self):
        unknown = {key: value for key, value in FITS.items() if key != "fits"}  # it would wait
        for document in (FITS, unknown):
            self.server.requests.clear()
            with self.assertNoLogs("stretto", "WARNING"):
                self.submit(self.says(document))
            self.assertEqual(self.created(), [True, False])

    def test_one_that_does_not_fit_is_refused_with_its_places(self):
        given = stretto.parse_job("name: gpt\nsteps: 5\n", "gpt.yaml")
        for options in ({}, {"dry_run": True}):
            self.server.requests.clear()
            with self.assertRaises(stretto.InvalidArgument) as raised:
                self.submit(self.says(SHORT, code=1), given, **options)
            self.assertEqual(str(raised.exception).splitlines(), [
                "gpt.yaml: memory of node 10.0.0.7: found 7 TiB for the job, expected at most 1 TiB",
                "gpt.yaml: memory of node 10.0.0.8: found 8 TiB for the job, expected at most 1 TiB"])
            self.assertEqual(raised.exception.violations[1].field, "memory of node 10.0.0.8")
            self.assertEqual(self.created(), [True])
        with self.assertNoLogs("stretto", "WARNING"):
            self.submit(self.says(SHORT, code=1), look=False)
        self.assertEqual(self.created(), [True, False])

    def test_the_program_reports_why_it_did_not_compare(self):
        partly = {**FITS, "memory_not_compared": "no worker is READY"}
        del partly["fits"]
        self.assertEqual(self.warned(self.says(partly)), "no worker is READY")

    def test_the_program_gets_the_job_and_the_cluster_of_the_client(self):
        (self.folder / "answer").write_text(json.dumps(FITS))
        program = self.script(f'cd {self.folder}\necho "$@" > arguments\nenv > environment\n'
                              "cat > input\ncat answer")
        os.environ["STRETTO_CONTEXT"] = os.environ["STRETTO_TLS_KEY"] = "of another cluster"
        with mock.patch.object(stretto.TlsFiles, "check"), mock.patch.dict(
                os.environ, {"STRETTO_TLS_KEY": ""}):
            face = self.client(self.server, program=program)
        given = {**GPT, "precision": "bf16", "data": {"prefix": "Grüße"}, "labels": {"a": "b"}}
        with self.assertNoLogs("stretto", "WARNING"):
            face.call("submit", given, name="other")
        self.assertEqual(json.loads((self.folder / "input").read_text()),
                         {**given, "name": "other"})
        self.assertEqual((self.folder / "arguments").read_text(),
                         "job submit - --dry-run -o json\n")
        environment = (self.folder / "environment").read_text().splitlines()
        self.assertIn(f"STRETTO_COORDINATOR={self.server.address}", environment)
        self.assertIn("STRETTO_TLS_KEY=", environment)
        self.assertFalse([line for line in environment if line.startswith("STRETTO_CONTEXT")])

    def test_which_program_compares(self):
        def named(name):
            return self.says({**FITS, "memory_not_compared": name}, name=f"{name}/stretto")

        def beside(python):
            return mock.patch.object(sys, "executable", python)

        os.environ["PATH"] = str(self.folder / "nothing")
        with beside(str(self.folder / "venv/python")):
            self.assertRegex(self.warned(), "^found no `stretto` on PATH or beside Python, ")
            named("venv")
        with beside(""):
            self.assertRegex(self.warned(), "^found no `stretto` on PATH or beside Python, ")
        os.environ["PATH"] += ":/usr/bin:/bin"  # of `cat`
        with beside(str(self.folder / "venv/python")):
            self.assertEqual(self.warned(), "venv")
            os.environ["PATH"] += ":" + os.path.dirname(named("path"))
            self.assertEqual(self.warned(), "path")
            os.environ["STRETTO_PROGRAM"] = named("variable")
            self.assertEqual(self.warned(), "variable")
            self.assertEqual(self.warned(named("argument")), "argument")
            self.assertEqual(self.warned("/nowhere/stretto"),
                             "/nowhere/stretto: found no program, expected `stretto`")

    def test_a_program_that_fails_is_a_warning(self):
        for body, reason in (
                ("echo 'error: unknown flag \"--dry-run\"' >&2; echo usage >&2; exit 2",
                 'unknown flag "--dry-run" (exit code 2)'),
                ("echo 'error: it is away' >&2; exit 1", "it is away (exit code 1)"),
                ("kill -SEGV $$", 'found "", expected the document of a dry run (killed by signal '
                 "11)"),
                ("exit 3", 'found "", expected the document of a dry run (exit code 3)'),
                ("printf 'hello\\033[2J\\377\\nworld'",
                 'found "hello?[2J\ufffd", expected the document of a dry run (exit code 0)'),
                ("echo '[1]'", 'found "[1]", expected the document of a dry run (exit code 0)')):
            program = self.script(body)
            self.assertEqual(self.warned(program), f"{program}: {reason}")
        for document in ({"job": {}, "fits": False},  # of another version
                         {**FITS, "fits": "no"}, {**FITS, "shortages": 3},
                         {**SHORT, "shortages": [{"room": "node a"}]}):
            program = self.says(document)
            self.assertRegex(self.warned(program), f'^{program}: found "{{.*expected the document')
        for code in (3, 5):
            program = self.says(SHORT, code)
            self.assertRegex(self.warned(program), rf"\(exit code {code}\)$")

    def test_output_that_cannot_be_read_is_a_warning(self):
        for output in (b"[" * 100000, b"\xff\xfe{", b'{"fits": ' + b"9" * 100000 + b"}"):
            (self.folder / "output").write_bytes(output)
            self.assertRegex(self.warned(self.script(f"cat {self.folder}/output")),
                             "expected the document of a dry run")

    def test_a_program_that_does_not_read_or_cannot_start_is_a_warning(self):
        long = {**GPT, "data": {"prefix": "x" * 300000}}  # more than a pipe holds
        self.assertRegex(self.warned(self.script("exit 3"), long), r"\(exit code 3\)$")
        broken = self.script("")
        pathlib.Path(broken).write_bytes(b"\x7fELF of nothing")
        self.assertRegex(self.warned(broken), f"{broken}")

    # ---- a program that does not end

    def hanging(self, after=":"):
        """A program that writes to a pipe after a command, and has a child; both keep the pipe open.
        The child has none of the client's pipes, for which the client might wait."""
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        self.pipe = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, self.pipe)
        return self.script(f"exec 9> {fifo}\nsleep 60 < /dev/null > /dev/null 2>&1 &\n{after}\n"
                           "echo >&9\nexec sleep 60")

    def wait(self, event):
        poll = select.poll()
        poll.register(self.pipe, event)
        ready = poll.poll(30000)
        self.assertTrue(ready and ready[0][1] & event, "found nothing in 30 s")

    def ended(self):
        self.wait(select.POLLHUP)  # nobody has the pipe open

    def test_a_program_that_hangs_is_killed_with_its_children(self):
        program = self.hanging()
        with mock.patch("stretto.memory.SECONDS", 1.0):
            self.assertEqual(self.warned(program), f"{program}: found no answer within 1 s")
        self.ended()


class BlockingMemoryTest(MemoryCases, unittest.TestCase):
    Face = Blocking

    def test_an_interrupt_kills_the_program(self):
        program = self.hanging(after="cat")

        def interrupt():
            self.wait(select.POLLIN)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            self.submit(program)
        thread.join()
        self.assertEqual(self.created(), [True])
        self.ended()


class AsyncioMemoryTest(MemoryCases, unittest.TestCase):
    Face = Asyncio

    def test_cancelling_a_task_kills_the_program(self):
        face = self.client(self.server, program=self.hanging(after="cat"))

        async def submit_and_cancel():
            task = asyncio.create_task(face.client.submit(GPT))
            await asyncio.to_thread(self.wait, select.POLLIN)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        face.runner.run(submit_and_cancel())
        self.assertEqual(self.created(), [True])
        self.ended()

    def test_cancelling_a_task_kills_a_program_that_just_starts(self):
        face = self.client(self.server, program=self.hanging())
        start = asyncio.create_subprocess_exec
        tasks = []

        async def start_and_cancel(*command, **options):
            child = await start(*command, **options)
            await asyncio.to_thread(self.wait, select.POLLIN)
            tasks[0].cancel()
            await asyncio.sleep(0)  # what starts the program would be cancelled here
            return child

        async def submit():
            tasks.append(asyncio.create_task(face.client.submit(GPT)))
            with self.assertRaises(asyncio.CancelledError):
                await tasks[0]

        with mock.patch("asyncio.create_subprocess_exec", start_and_cancel):
            face.runner.run(submit())
        self.ended()


if __name__ == "__main__":
    unittest.main()
