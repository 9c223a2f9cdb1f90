# SPDX-License-Identifier: Apache-2.0
"""A coordinator that answers as a test says, on a free port of loopback, and both clients behind one
face, so that each test runs with both.
"""
import asyncio
import concurrent.futures
import threading

import grpc
from google.protobuf import any_pb2

import stretto
from stretto.google_rpc import error_details_pb2, status_pb2
from stretto.v1alpha1 import job_pb2 as pb
from stretto.v1alpha1 import job_pb2_grpc


def refusal(code, message, reason, violations=()):
    """The trailer of an error of a coordinator."""
    def packed(name, detail):
        return any_pb2.Any(type_url=f"type.googleapis.com/google.rpc.{name}",
                           value=detail.SerializeToString())

    details = [packed("ErrorInfo", error_details_pb2.ErrorInfo(reason=reason))]
    if violations:
        details.append(packed("BadRequest", error_details_pb2.BadRequest(field_violations=[
            {"field": field, "description": text} for field, text in violations])))
    status = status_pb2.Status(code=code.value[0], message=message, details=details)
    return (("grpc-status-details-bin", status.SerializeToString()),)


class Refuse(Exception):
    def __init__(self, code, message, reason="", violations=()):
        super().__init__(message)
        self.code, self.reason, self.violations = code, reason, violations

    def send(self, context):
        if self.reason:
            context.set_trailing_metadata(
                refusal(self.code, str(self), self.reason, self.violations))
        context.abort(self.code, str(self))


class Coordinator(job_pb2_grpc.JobServiceServicer):
    """`answers` has what the next calls of a method get, in order, the last one forever: a message,
    a list of messages of a stream, in which a Refuse ends it, or a Refuse."""

    def __init__(self, answers, credentials=None, port=0):
        self.answers = {method: list(given) for method, given in answers.items()}
        self.requests = []
        self.cancelled = threading.Event()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        job_pb2_grpc.add_JobServiceServicer_to_server(self, self.server)
        at = f"127.0.0.1:{port}"
        self.port = (self.server.add_secure_port(at, credentials) if credentials
                     else self.server.add_insecure_port(at))
        self.address = f"127.0.0.1:{self.port}"
        self.server.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(0).wait()

    def _next(self, method, request):
        self.requests.append(request)
        given = self.answers[method]
        return given.pop(0) if len(given) > 1 else given[0]

    def _one(self, method, request, context):
        answer = self._next(method, request)
        if isinstance(answer, Refuse):
            answer.send(context)
        return answer

    def _many(self, method, request, context):
        answers = self._next(method, request)
        # At the begin: gRPC does not ask for more of a stream that the client has cancelled.
        if HANG in answers and not context.add_callback(self.cancelled.set):
            self.cancelled.set()
        for answer in answers:
            if isinstance(answer, Refuse):
                answer.send(context)
            if answer is HANG:
                self.cancelled.wait(60)
                return
            yield answer

    def CreateJob(self, request, context):
        return self._one("CreateJob", request, context)

    def GetJob(self, request, context):
        return self._one("GetJob", request, context)

    def ListJobs(self, request, context):
        return self._one("ListJobs", request, context)

    def ResumeJob(self, request, context):
        return self._one("ResumeJob", request, context)

    def CancelJob(self, request, context):
        return self._one("CancelJob", request, context)

    def WatchJob(self, request, context):
        return self._many("WatchJob", request, context)

    def StreamJobLogs(self, request, context):
        return self._many("StreamJobLogs", request, context)

    def StreamJobTrace(self, request, context):
        return self._many("StreamJobTrace", request, context)


HANG = object()  # in a stream: nothing more comes until the client cancels


def job(state=pb.Job.RUNNING, steps=0, **fields):
    return pb.Job(name="jobs/gpt", state=state, progress=pb.Progress(steps=steps, total_steps=9),
                  **fields)


def told(state, steps=0):
    return pb.WatchJobResponse(job=job(state, steps))


def step(number):
    return pb.WatchJobResponse(step=pb.StepReport(step=number, loss=1 / number))


class Blocking:
    """The synchronous client."""

    def __init__(self, address, **options):
        self.client = stretto.Client(address, **options)

    def call(self, method, *arguments, **options):
        return getattr(self.client, method)(*arguments, **options)

    def stream(self, method, *arguments, take=None, **options):
        """The first `take` items, or all."""
        items = []
        stream = getattr(self.client, method)(*arguments, **options)
        for item in stream:
            items.append(item)
            if len(items) == take:
                stream.close()
        return items

    def close(self):
        self.client.close()


class Asyncio:
    """The asynchronous one. All share a loop, since gRPC complains when one of several is closed."""

    runner = asyncio.Runner()

    def __init__(self, address, **options):
        self.client = self.runner.run(self._make(address, options))

    async def _make(self, address, options):
        return stretto.AsyncClient(address, **options)

    def call(self, method, *arguments, **options):
        return self.runner.run(getattr(self.client, method)(*arguments, **options))

    def stream(self, method, *arguments, take=None, **options):
        async def collect():
            items = []
            stream = getattr(self.client, method)(*arguments, **options)
            async for item in stream:
                items.append(item)
                if len(items) == take:
                    await stream.aclose()
            return items

        return self.runner.run(collect())

    def close(self):
        self.runner.run(self.client.close())


class Served:
    """Of a test case with `Face`, one of the two clients: coordinators and clients that end with
    the test."""

    def serve(self, **answers):
        coordinator = Coordinator(answers)
        self.addCleanup(coordinator.__exit__)
        return coordinator

    def client(self, *coordinators, **options):
        face = self.Face(",".join(getattr(one, "address", one) for one in coordinators), **options)
        self.addCleanup(face.close)
        return face
