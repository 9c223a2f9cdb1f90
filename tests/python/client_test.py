#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Both clients against a coordinator that answers as each test says: reconnection, several addresses,
cancellation, and which exception an error becomes.

  client_test.py     (the installed package is on PYTHONPATH)
"""
import asyncio
import datetime
import inspect
import logging
import os
import unittest
from unittest import mock

import grpc

import stretto
from fake import HANG, Asyncio, Blocking, Coordinator, Refuse, Served, job, step, told
from stretto.v1alpha1 import job_pb2 as pb

Code = grpc.StatusCode
SHUTDOWN = Refuse(Code.UNAVAILABLE, "the coordinator is shutting down", "SHUTTING_DOWN")
STANDBY = Refuse(Code.UNAVAILABLE, "a leads", "STANDBY")
NOBODY = "127.0.0.1:1"  # a port on which nothing listens
NO_PROGRAM = "/nowhere/stretto"
MEMORY = f"job gpt: not checked: memory: {NO_PROGRAM}: found no program, expected `stretto`"


class ClientCases(Served):
    def setUp(self):
        program = mock.patch.dict(os.environ, {"STRETTO_PROGRAM": NO_PROGRAM})
        program.start()
        self.addCleanup(program.stop)
        patch = mock.patch("stretto.reconnect.RETRY_SECONDS", 0.0)
        patch.start()
        self.addCleanup(patch.stop)
        logging.getLogger("stretto").addHandler(logging.NullHandler())

    # ---- errors

    def test_each_code_is_an_exception_of_its_own(self):
        for code, kind in [(Code.NOT_FOUND, stretto.NotFound),
                           (Code.ALREADY_EXISTS, stretto.AlreadyExists),
                           (Code.FAILED_PRECONDITION, stretto.FailedPrecondition),
                           (Code.RESOURCE_EXHAUSTED, stretto.ResourceExhausted),
                           (Code.PERMISSION_DENIED, stretto.PermissionDenied),
                           (Code.DATA_LOSS, stretto.CallError)]:
            with self.subTest(code=code):
                server = self.serve(GetJob=[Refuse(code, "job gpt: found none", "SOME_REASON")])
                with self.assertRaises(stretto.CallError) as raised:
                    self.client(server).call("get", "gpt")
                self.assertIs(type(raised.exception), kind)
                self.assertEqual(str(raised.exception), "job gpt: found none")
                self.assertEqual(raised.exception.reason, "SOME_REASON")
                self.assertEqual(raised.exception.code, code)

    def test_refused_fields_have_their_place_in_the_text(self):
        server = self.serve(CreateJob=[Refuse(
            Code.INVALID_ARGUMENT, "2 fields", "INVALID_FIELD",
            [("job.spec.parallelism.tp_size", "found 3, expected a divisor of 4"),
             ("spec.optimizer.clip_norm", "found -1, expected at least 0")])])
        text = "name: gpt\nparallelism:\n  tp_size: 3\n"
        with self.assertRaises(stretto.InvalidArgument) as raised:
            self.client(server).call("submit", stretto.parse_job(text, "gpt.yaml"))
        self.assertEqual(
            str(raised.exception),
            "gpt.yaml:3:12: job.spec.parallelism.tp_size: found 3, expected a divisor of 4\n"
            "gpt.yaml: spec.optimizer.clip_norm: found -1, expected at least 0")
        self.assertEqual(raised.exception.violations[0].field, "job.spec.parallelism.tp_size")

    def test_submit_sends_the_job_once_and_can_name_it(self):
        server = self.serve(CreateJob=[job()])
        with self.assertLogs("stretto", "WARNING") as logged:
            self.client(server).call("submit", {"name": "gpt", "steps": 5}, name="other",
                                     dry_run=True)
        self.assertEqual([record.getMessage() for record in logged.records],
                         [MEMORY.replace("gpt", "other")])
        (request,) = server.requests
        self.assertEqual((request.job_id, request.job.spec.steps, request.validate_only),
                         ("other", 5, True))
        self.assertTrue(request.request_id)

    def test_submit_looks_before_it_creates(self):
        server = self.serve(CreateJob=[job(), job()])
        with self.assertLogs("stretto", "WARNING") as logged:
            self.client(server).call("submit", {"name": "gpt", "steps": 5}, request_id="r-1")
        self.assertEqual([record.getMessage() for record in logged.records], [MEMORY])
        self.assertEqual([(request.validate_only, request.request_id)
                          for request in server.requests], [(True, "r-1"), (False, "r-1")])
        server.requests.clear()
        with self.assertNoLogs("stretto", "WARNING"):
            self.client(server).call("submit", {"name": "gpt"}, look=False)
        self.assertEqual([request.validate_only for request in server.requests], [False])

    def test_what_a_worker_does_not_find_creates_no_job(self):
        server = self.serve(CreateJob=[
            Refuse(Code.INVALID_ARGUMENT, "1 field", "INVALID_FIELD",
                   [("spec.data", "worker a: text.bin: not found")]), job()])
        with self.assertRaisesRegex(stretto.InvalidArgument, "spec.data: worker a: text.bin"):
            self.client(server).call("submit", {"name": "gpt"})
        self.assertEqual(len(server.requests), 1)

    def test_a_name_that_is_taken_is_for_the_request_to_judge(self):
        server = self.serve(CreateJob=[
            Refuse(Code.ALREADY_EXISTS, "job gpt exists", "JOB_ALREADY_EXISTS"), job()])
        self.assertEqual(self.client(server).call("submit", {"name": "gpt"}).name, "jobs/gpt")

    def test_without_a_worker_that_looks_a_warning_says_so(self):
        unknown = pb.Condition(type="Inspected", status=pb.Condition.UNKNOWN,
                               message="no worker is connected")
        server = self.serve(CreateJob=[job(conditions=[unknown]), job()])
        with self.assertLogs("stretto", "WARNING") as logged:
            self.client(server).call("submit", {"name": "gpt"})
        self.assertEqual([record.getMessage() for record in logged.records],
                         ["job gpt: not checked: data, weights and checkpoints: "
                          "no worker is connected", MEMORY])
        self.assertEqual(len(server.requests), 2)

    def test_a_call_to_nobody_names_the_address(self):
        with self.assertRaisesRegex(stretto.Unavailable, "cannot reach the coordinator at "
                                    f"{NOBODY}: .*expected one that listens there"):
            self.client(NOBODY).call("get", "gpt")

    def test_a_call_that_is_not_answered_ends_at_its_deadline(self):
        server = self.serve(GetJob=[job()])
        with mock.patch.object(Coordinator, "_one", lambda self, *_: self.cancelled.wait(60)):
            with self.assertRaisesRegex(stretto.DeadlineExceeded,
                                        f"no answer from the coordinator at {server.address}"):
                self.client(server, timeout=0.5).call("cancel", "gpt")
        server.cancelled.set()

    def test_a_closed_client_is_refused(self):
        server = self.serve(GetJob=[job()])
        face = self.client(server)
        face.call("get", "gpt")
        face.call("close") if self.Face is Asyncio else face.close()
        with self.assertRaisesRegex(stretto.InvalidInput, "found it closed"):
            face.call("get", "gpt")

    # ---- several addresses

    def test_a_dead_address_and_a_standby_are_passed_over(self):
        standby = self.serve(GetJob=[STANDBY], WatchJob=[[STANDBY]])
        leader = self.serve(GetJob=[job(steps=7)], WatchJob=[[told(pb.Job.SUCCEEDED)]])
        face = self.client(NOBODY, standby, leader)
        self.assertEqual(face.call("get", "gpt").progress.steps, 7)
        self.assertEqual(len(face.stream("follow", "gpt")), 1)
        self.assertEqual(len(standby.requests), 1)  # the one that served last is asked first

    def test_a_stream_passes_over_a_standby(self):
        standby = self.serve(WatchJob=[[STANDBY]])
        leader = self.serve(WatchJob=[[told(pb.Job.SUCCEEDED)]])
        self.assertEqual(len(self.client(standby, leader).stream("follow", "gpt")), 1)

    def test_only_standbys_are_an_error_at_the_deadline(self):
        standby = self.serve(GetJob=[STANDBY])
        with self.assertRaises(stretto.Unavailable) as raised:
            self.client(standby, NOBODY, timeout=1.0).call("get", "gpt")
        self.assertIn(raised.exception.reason, ("STANDBY", ""))

    def test_an_error_of_the_leader_is_not_asked_for_twice(self):
        first = self.serve(GetJob=[Refuse(Code.NOT_FOUND, "no job", "JOB_NOT_FOUND")])
        second = self.serve(GetJob=[job()])
        with self.assertRaises(stretto.NotFound):
            self.client(first, second).call("get", "gpt")
        self.assertEqual(second.requests, [])

    # ---- following

    def test_follow_continues_behind_the_last_step_after_a_loss(self):
        server = self.serve(WatchJob=[
            [told(pb.Job.RUNNING), step(1), step(2), SHUTDOWN],
            [told(pb.Job.RUNNING, 2), step(2), step(3), Refuse(Code.INTERNAL, "stream reset")],
            [told(pb.Job.RUNNING, 3), step(4), told(pb.Job.SUCCEEDED, 4)]])
        with self.assertLogs("stretto") as logs:
            events = self.client(server).stream("follow", "gpt")
        self.assertEqual([event.step for event in events if isinstance(event, stretto.StepReport)],
                         [1, 2, 3, 4])
        self.assertEqual(events[-1].state, pb.Job.SUCCEEDED)
        self.assertEqual([request.after_step for request in server.requests], [0, 2, 3])
        lost, back = [line for line in logs.output if "lost" in line], logs.output[1]
        self.assertEqual(len(lost), 2)
        self.assertIn(f"lost the coordinator at {server.address} (the coordinator is shutting",
                      lost[0])
        self.assertIn(f"reconnected to {server.address}", back)

    def test_follow_reconnects_when_the_stream_ends_before_the_job(self):
        server = self.serve(WatchJob=[[told(pb.Job.RUNNING)], [told(pb.Job.FAILED)]])
        events = self.client(server).stream("follow", "gpt")
        self.assertEqual([event.state for event in events], [pb.Job.RUNNING, pb.Job.FAILED])

    def test_follow_gives_up_after_its_time(self):
        server = self.serve(WatchJob=[[SHUTDOWN]])
        with self.assertRaisesRegex(stretto.Unavailable, "shutting down; gave up after 0 s"):
            self.client(server, give_up=0.0).stream("follow", "gpt")

    def test_follow_reports_what_will_not_pass_at_once(self):
        server = self.serve(WatchJob=[[Refuse(Code.NOT_FOUND, "no job gpt", "JOB_NOT_FOUND")]])
        with self.assertRaisesRegex(stretto.NotFound, "no job gpt"):
            self.client(server).stream("follow", "gpt")
        self.assertEqual(len(server.requests), 1)

    def test_leaving_a_loop_cancels_the_stream(self):
        server = self.serve(WatchJob=[[told(pb.Job.RUNNING), step(1), HANG]])
        self.client(server).stream("follow", "gpt", take=2)
        self.assertTrue(server.cancelled.wait(30))
        self.assertEqual(len(server.requests), 1)

    def test_wait_returns_the_job_as_it_ended(self):
        server = self.serve(GetJob=[job()],
                            WatchJob=[[told(pb.Job.RUNNING), SHUTDOWN], [told(pb.Job.CANCELLED)]])
        self.assertEqual(self.client(server).call("wait", "gpt").state, pb.Job.CANCELLED)
        self.assertEqual(server.requests[-1].after_step, 9)  # no steps are sent

    # ---- logs, metrics, traces

    def test_a_log_has_each_line_once_across_a_loss(self):
        def lines(rank, data, offset):
            return pb.StreamJobLogsResponse(
                rank=rank, data=data, end=pb.LogPosition(rank=rank, epoch=7, offset=offset))

        server = self.serve(StreamJobLogs=[
            [lines(0, b"a\n", 2), lines(1, b"x\n", 2), SHUTDOWN],
            [lines(0, b"b\n", 4), lines(1, b"\xff\n", 4)]])
        self.assertEqual(self.client(server).stream("logs", "gpt", follow=True),
                         [(0, "a\n"), (1, "x\n"), (0, "b\n"), (1, "\ufffd\n")])
        first, second = server.requests
        self.assertFalse(first.HasField("rank"))
        self.assertEqual(len(first.after), 0)
        self.assertEqual([(end.rank, end.epoch, end.offset) for end in second.after],
                         [(0, 7, 2), (1, 7, 2)])

    def test_lines_of_a_log_are_selected_there(self):
        server = self.serve(StreamJobLogs=[[]])
        client = self.client(server)
        noon = datetime.datetime(2026, 11, 26, 12, tzinfo=datetime.timezone.utc)
        client.stream("logs", "gpt", tail=0, since=noon, grep="loss")
        selection = server.requests[0].selection
        self.assertTrue(selection.HasField("tail_lines"))
        self.assertEqual((selection.tail_lines, selection.grep, selection.since.seconds),
                         (0, "loss", int(noon.timestamp())))
        client.stream("logs", "gpt")
        self.assertFalse(server.requests[1].selection.ListFields())
        with self.assertRaisesRegex(stretto.InvalidInput, "tail: found -1, expected at least 0"):
            client.stream("logs", "gpt", tail=-1)
        with self.assertRaisesRegex(stretto.InvalidInput, "since: found .*without a time zone"):
            client.stream("logs", "gpt", since=datetime.datetime(2026, 11, 26))
        self.assertEqual(len(server.requests), 2)

    # ---- lists

    def test_a_list_has_all_pages_of_what_is_selected(self):
        pages = [pb.ListJobsResponse(jobs=[job()], next_page_token="more"),
                 pb.ListJobsResponse(jobs=[job(pb.Job.FAILED)])]
        server = self.serve(ListJobs=pages)
        jobs = self.client(server).call("jobs", project="speech", states=["running", "failed"],
                                        labels={"team": "asr", "sweep": None})
        self.assertEqual([one.state for one in jobs], [pb.Job.RUNNING, pb.Job.FAILED])
        self.assertEqual([request.page_token for request in server.requests], ["", "more"])
        for request in server.requests:
            self.assertEqual(request.project, "speech")
            self.assertEqual(list(request.states), [pb.Job.RUNNING, pb.Job.FAILED])
            self.assertEqual([(one.key, one.HasField("value"), one.value)
                              for one in request.labels],
                             [("team", True, "asr"), ("sweep", False, "")])

    def test_a_state_that_no_job_has_is_refused_here(self):
        server = self.serve(ListJobs=[pb.ListJobsResponse()])
        client = self.client(server)
        self.assertEqual(client.call("jobs", states="running"), [])
        with self.assertRaisesRegex(stretto.InvalidInput, "states: found 'runing', expected one of:"
                                    ' pending, .*; did you mean "running"'):
            client.call("jobs", states=["runing"])
        self.assertEqual(len(server.requests), 1)

    def test_a_job_resumes_with_more_steps_or_as_it_was(self):
        server = self.serve(ResumeJob=[job()])
        client = self.client(server)
        client.call("resume", "gpt")
        client.call("resume", "gpt", steps=90)
        self.assertEqual([request.HasField("steps") for request in server.requests], [False, True])
        self.assertEqual(server.requests[1].steps, 90)

    def test_a_log_that_is_not_followed_is_asked_for_once(self):
        server = self.serve(StreamJobLogs=[[SHUTDOWN]])
        with self.assertRaises(stretto.Unavailable):
            self.client(server).stream("logs", "gpt", rank=0)
        self.assertTrue(server.requests[0].HasField("rank"))

    def test_metrics_end_with_the_step_that_is_done(self):
        server = self.serve(WatchJob=[[told(pb.Job.RUNNING, 3), step(2), step(3), HANG]])
        table = self.client(server).call("metrics", "gpt", first=2)
        self.assertEqual([row["step"] for row in table], [2, 3])
        self.assertEqual(table[0]["loss"], 0.5)
        self.assertIsNone(table[0]["idle_seconds"])  # the ledger is not kept
        self.assertEqual(server.requests[0].after_step, 1)
        self.assertTrue(server.cancelled.wait(30))

    def test_metrics_of_a_job_without_steps_are_a_table_without_rows(self):
        server = self.serve(WatchJob=[[told(pb.Job.PENDING), HANG]])
        table = self.client(server).call("metrics", "gpt")
        self.assertEqual((list(table), table.columns[:2]), ([], ["step", "loss"]))

    def test_impossible_steps_and_ranks_are_refused_here(self):
        server = self.serve(GetJob=[job()])
        with self.assertRaisesRegex(stretto.InvalidInput, "found 0 to 5, expected steps from 1"):
            self.client(server).call("steps", "gpt", first=0, last=5)
        with self.assertRaisesRegex(stretto.InvalidInput, "rank: found 2, expected one of the 0"):
            self.client(server).call("ledger", "gpt", rank=2)

    def test_a_trace_merges_the_pieces_of_large_messages(self):
        def record(**fields):
            return pb.StreamJobTraceResponse(rank=1, record=pb.TraceRecord(**fields))

        def operations(begin):
            return pb.TraceIntervals(begin_nanoseconds=[begin], duration_nanoseconds=[5])

        server = self.serve(StreamJobTrace=[[
            record(program=pb.TraceProgram(lanes=["compute"], operation_count=2, shapes=["add"],
                                           operations=[pb.TraceOperation(label="a")])),
            record(program=pb.TraceProgram(shapes=["mul"], operations=[
                pb.TraceOperation(label="b", shape=1)])),
            record(step=pb.TraceStep(step=3, begin_nanoseconds=9, operations=operations(10))),
            record(step=pb.TraceStep(step=3, operations=operations(20))),
            record(step=pb.TraceStep(step=4, operations=operations(0))),
            record(warning="steps were lost")]])
        (rank,) = self.client(server).call("trace", "gpt")
        self.assertEqual((rank.rank, rank.warnings), (1, ["steps were lost"]))
        rows = stretto.trace_table([rank])
        self.assertEqual([(row["step"], row["label"], row["begin_ns"], row["step_begin_ns"])
                          for row in rows], [(3, "a", 10, 9), (3, "b", 20, 9), (4, "a", 0, 0)])
        self.assertEqual([row["shape"] for row in rows], ["add", "mul", "add"])

    def test_a_trace_of_an_older_version_has_no_shapes(self):
        rank = stretto.RankTrace(rank=0)
        rank.program.operations.add(label="a")
        rank.program.lanes.append("compute")
        operations = pb.TraceIntervals(begin_nanoseconds=[1], duration_nanoseconds=[5])
        rank.steps.append(pb.TraceStep(step=3, operations=operations))
        self.assertEqual([row["shape"] for row in stretto.trace_table([rank])], [""])


class BlockingClientTest(ClientCases, unittest.TestCase):
    Face = Blocking


class AsyncioClientTest(ClientCases, unittest.TestCase):
    Face = Asyncio

    def test_cancelling_a_task_cancels_its_stream(self):
        server = self.serve(WatchJob=[[told(pb.Job.RUNNING), HANG]])

        async def follow_and_cancel():
            begun = asyncio.Event()

            async def follow():
                async for _ in face.client.follow("gpt"):
                    begun.set()

            task = asyncio.create_task(follow())
            await begun.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        face = self.client(server)
        face.runner.run(follow_and_cancel())
        self.assertTrue(server.cancelled.wait(30))


class SameMethodsTest(unittest.TestCase):
    def test_both_clients_have_the_same_methods(self):
        def methods(kind):
            return {name: list(inspect.signature(member).parameters)
                    for name, member in vars(kind).items()
                    if inspect.isfunction(member) and not name.startswith("__")}

        self.assertEqual(methods(stretto.Client), methods(stretto.AsyncClient))
        self.assertFalse(any(map(inspect.iscoroutinefunction, vars(stretto.Client).values())))


if __name__ == "__main__":
    unittest.main()
