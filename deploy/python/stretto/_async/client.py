# SPDX-License-Identifier: Apache-2.0
"""The asynchronous client. The build of the wheel writes _sync/client.py from this file: what it
cannot translate is in transport.py of either package.

A call goes to the address that served last. If there are several, it goes to one after the other
until one is connected and leads. A call itself is not repeated, because the coordinator might have
carried it out; streams are, from where they were.
"""
import datetime
import os
import time
import uuid
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any

import grpc

from stretto import errors, memory
from stretto.cluster import Cluster, choose_cluster
from stretto.errors import AlreadyExists, CallError, InvalidInput, NotFound, Unavailable
from stretto.job_file import JobFile, read_job
from stretto.reconnect import Reconnector, log
from stretto.selection import list_request, log_selection
from stretto.tables import RankTrace, Table, ledger_table, metrics_table
from stretto.tls import TlsFiles
from stretto.v1alpha1 import job_pb2 as pb

from .peer import Peer
from .transport import aclosing, run_program, sleep

PATIENCE = 0.5  # seconds that an address has to connect before the next one has its turn
ROUND = 0.2  # seconds of pause after all addresses have had their turn
# Streams end after this time and are opened again, so that a silent peer is noticed.
STREAM_SECONDS = 300.0
ENDED = (pb.Job.SUCCEEDED, pb.Job.FAILED, pb.Job.CANCELLED)


class AsyncClient:
    """Talks to the coordinators of one cluster; connects at the first call. Errors of all calls:
    CallError and its subclasses. Close it, or use it in a `with` block."""

    def __init__(self, coordinator: str = "", *, context: str = "", tls: TlsFiles | None = None,
                 timeout: float = 10.0, give_up: float = 60.0, program: str = "") -> None:
        """`coordinator` is HOST:PORT, or several, separated by commas; what is not given is chosen
        as by `stretto` (stretto.cluster). A call has `timeout` seconds; streams that are followed
        survive a coordinator that is away for `give_up` seconds. `program` is the `stretto` that
        compares memory (stretto.memory). Errors: InvalidInput."""
        self.cluster: Cluster = choose_cluster(coordinator, context, tls)
        self.timeout = timeout
        self.give_up = give_up
        self.program = program
        self._peers = [Peer(address, self.cluster.tls) for address in self.cluster.addresses]
        self._current = 0
        self._closed = False

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        self._closed = True
        for peer in self._peers:
            await peer.close()

    # ---- jobs

    async def submit(self, job: JobFile | Mapping[str, Any] | str | os.PathLike[str], *,
                     name: str = "", dry_run: bool = False, look: bool = True,
                     request_id: str = "") -> pb.Job:
        """Submits a dict, the path of a job file, or a JobFile. `name` overrides that of the job.
        `dry_run` makes all checks and stores nothing. Otherwise the same checks are made first, as
        `stretto job submit` does: a worker looks whether data, weights and checkpoints exist and
        fit, which takes up to 6 s, and the program `stretto` whether memory suffices, which takes
        up to 15 s. What was not checked, because no worker could look or there is no program, is
        logged as a warning. Without `look` the job is created at once. The same `request_id`
        creates the job once.
        Errors: InvalidInput; InvalidArgument with the fields that are refused, or with the places
        that have too little memory."""
        file = read_job(job)
        request = pb.CreateJobRequest(
            job_id=name or file.name, job=pb.Job(spec=file.spec), validate_only=dry_run,
            request_id=request_id or str(uuid.uuid4()))
        try:
            if look and not dry_run:
                await self._look(request)
            created = await self._job_call("CreateJob", request)
            if dry_run:
                await self._judge(created, request)
        except CallError as error:
            raise file.locate(error) from None
        return created

    async def _look(self, request: pb.CreateJobRequest) -> None:
        """Makes all checks of a dry run. A job of this name that exists is for the request itself
        to judge, which may be a repetition."""
        trial = pb.CreateJobRequest()
        trial.CopyFrom(request)
        trial.validate_only = True
        try:
            job = await self._job_call("CreateJob", trial)
        except AlreadyExists:
            return
        await self._judge(job, request)

    async def _judge(self, job: pb.Job, request: pb.CreateJobRequest) -> None:
        """Compares memory for a job that passed the coordinator's checks, and logs what was not
        checked."""
        for condition in job.conditions:
            if condition.type == "Inspected" and condition.status == pb.Condition.UNKNOWN:
                log.warning("job %s: not checked: data, weights and checkpoints: %s",
                            request.job_id, condition.message)
        try:
            command = memory.command(self.program)
            ended = await run_program(command, self.cluster.environment(),
                                      memory.document(request), memory.SECONDS)
            memory.judge(command[0], *ended)
        except (memory.NotCompared, OSError) as error:
            log.warning("job %s: not checked: memory: %s", request.job_id, error)

    async def get(self, name: str) -> pb.Job:
        return await self._job_call("GetJob", pb.GetJobRequest(name=_job(name)))

    async def jobs(self, *, project: str = "", states: Iterable[str] = (),
                   labels: Mapping[str, str | None] | None = None,
                   retired: bool = False) -> list[pb.Job]:
        """The jobs of this project, in one of these states, with all of these labels; newest first.
        A state is a word such as "running". The value None stands for any value of a label. With
        `retired` the jobs that ended long ago, of which little is kept, and no labels. Errors:
        InvalidInput; InvalidArgument for labels that no job can have."""
        selected = list_request(project, states, labels, retired)
        jobs: list[pb.Job] = []
        token = ""
        while True:
            selected.page_token = token
            page = await self._call("jobs", "ListJobs", selected)
            jobs += page.jobs
            token = page.next_page_token
            if not token:
                return jobs

    async def cancel(self, name: str) -> pb.Job:
        """Asks a job to stop. Errors: FailedPrecondition if it has ended."""
        return await self._job_call("CancelJob", pb.CancelJobRequest(name=_job(name)))

    async def checkpoint(self, name: str) -> pb.Job:
        """Asks a running job for a checkpoint after the step that it is in."""
        return await self._job_call("CheckpointJob", pb.CheckpointJobRequest(name=_job(name)))

    async def suspend(self, name: str) -> pb.Job:
        return await self._job_call("SuspendJob", pb.SuspendJobRequest(name=_job(name)))

    async def resume(self, name: str, *, steps: int | None = None) -> pb.Job:
        """Lets a job continue that is suspended, failed or was cancelled; with more `steps` than it
        had, also one that succeeded."""
        return await self._job_call("ResumeJob",
                                    pb.ResumeJobRequest(name=_job(name), steps=steps))

    async def delete(self, name: str) -> pb.Job:
        """Deletes a job that has ended, and returns it as it was."""
        return await self._job_call("DeleteJob", pb.DeleteJobRequest(name=_job(name)))

    async def events(self, name: str) -> list[pb.JobEvent]:
        """What has happened to a job, oldest first."""
        answer = await self._call("jobs", "ListJobEvents",
                                  pb.ListJobEventsRequest(name=_job(name)))
        return list(answer.events)

    async def workers(self) -> list[pb.Worker]:
        answer = await self._call("cluster", "ListWorkers",
                                  pb.ListWorkersRequest(page_size=1000))
        return list(answer.workers)

    # ---- streams

    async def follow(self, name: str, *, after_step: int = 0
                     ) -> AsyncGenerator[pb.Job | pb.StepReport, None]:
        """Yields the job, each of its changes, and each step after `after_step` once, until the
        job has ended. Outlasts restarts of the coordinator, and logs them."""
        reconnector = Reconnector(str(self.cluster), self.give_up)
        while True:
            request = pb.WatchJobRequest(name=_job(name), after_step=after_step)
            reconnector.opened(may_stay_silent=False)  # its first event is the job
            failure: CallError = Unavailable("the stream ended before the job")
            try:
                async with aclosing(self._stream("WatchJob", request)) as stream:
                    async for response in stream:
                        reconnector.connected()
                        if response.HasField("job"):
                            yield response.job
                            if response.job.state in ENDED:
                                return
                        elif response.step.step > after_step:
                            after_step = response.step.step
                            yield response.step
            except CallError as error:
                failure = error
            await sleep(reconnector.pause(failure))

    async def wait(self, name: str) -> pb.Job:
        """Waits until a job has ended, and returns it."""
        job = await self.get(name)
        async with aclosing(self.follow(name, after_step=job.progress.total_steps)) as events:
            async for event in events:
                if isinstance(event, pb.Job):
                    job = event
        return job

    async def logs(self, name: str, *, rank: int | None = None, follow: bool = False,
                   tail: int | None = None, since: datetime.datetime | None = None, grep: str = ""
                   ) -> AsyncGenerator[tuple[int, str], None]:
        """Yields (rank, complete lines), each line once: all, or of each rank the newest `tail`
        lines, those written `since` then, and those that the regular expression `grep` (RE2)
        matches somewhere. With `follow` until the job has ended, across restarts of the
        coordinator."""
        reconnector = Reconnector(str(self.cluster), self.give_up)
        read: dict[int, pb.LogPosition] = {}  # by rank
        selection = log_selection(tail, since, grep)
        while True:
            request = pb.StreamJobLogsRequest(name=_job(name), rank=rank, follow=follow,
                                              selection=selection, after=list(read.values()))
            reconnector.opened(may_stay_silent=True)
            try:
                async with aclosing(self._stream("StreamJobLogs", request)) as stream:
                    async for response in stream:
                        reconnector.connected()
                        read[response.rank] = response.end
                        if response.data:
                            yield response.rank, response.data.decode("utf-8", "replace")
                return
            except CallError as error:
                if not follow:
                    raise
                failure = error
            await sleep(reconnector.pause(failure))

    async def steps(self, name: str, *, first: int = 1, last: int = 0) -> list[pb.StepReport]:
        """The reports of rank 0 of the steps `first` to `last`; 0 is the newest."""
        if first < 1 or last < 0:
            raise InvalidInput(f"steps: found {first} to {last}, expected steps from 1, and 0 as "
                               "the newest")
        reports: list[pb.StepReport] = []
        end, reached = -1, first - 1
        request = pb.WatchJobRequest(name=_job(name), after_step=reached)
        async with aclosing(self._stream("WatchJob", request)) as stream:
            async for response in stream:
                if response.HasField("step"):
                    reached = response.step.step
                    if reached <= end:
                        reports.append(response.step)
                elif end < 0:  # the job comes first
                    newest = response.job.progress.steps
                    end = min(newest, last) if last else newest
                if reached >= end:
                    break
        return reports

    async def metrics(self, name: str, *, first: int = 1, last: int = 0) -> Table:
        """A row for each step, with the columns of `stretto job metrics`."""
        return metrics_table(await self.steps(name, first=first, last=last))

    async def ledger(self, name: str, *, rank: int | None = None) -> Table:
        """The use of each second of all steps, of rank 0 or of `rank`."""
        progress = (await self.get(name)).progress
        if rank is None:
            return ledger_table(progress.ledger)
        if not 0 <= rank < len(progress.rank_ledgers):
            raise InvalidInput(f"rank: found {rank}, expected one of the "
                               f"{len(progress.rank_ledgers)} ranks with a ledger of {name}")
        return ledger_table(progress.rank_ledgers[rank])

    async def trace(self, name: str, *, rank: int | None = None, first: int = 0, last: int = 0
                    ) -> list[RankTrace]:
        """When each operation of recent steps ran; trace_table makes a table of it. Errors:
        NotFound if a rank keeps none of these steps."""
        request = pb.StreamJobTraceRequest(name=_job(name), rank=rank, first_step=first,
                                           last_step=last)
        ranks: dict[int, RankTrace] = {}
        async with aclosing(self._stream("StreamJobTrace", request)) as stream:
            async for response in stream:
                ranks.setdefault(response.rank, RankTrace(response.rank)).add(response.record)
        if not ranks:
            raise NotFound(f"trace of {name}: found no step, expected one that was recorded")
        return list(ranks.values())

    # ---- the way to a coordinator

    async def _peer(self, deadline: float) -> Peer:
        """The next address to try: connected, or the only one. Errors: Unavailable."""
        while True:
            if self._closed:
                raise InvalidInput("client: found it closed, expected an open one")
            peer = self._peers[self._current]
            ready = await peer.connect(max(min(PATIENCE, deadline - time.monotonic()), 0.05))
            if peer.fault and len(self._peers) == 1:
                raise Unavailable(f"cannot talk to the coordinator at {peer.address}: {peer.fault}")
            if ready or len(self._peers) == 1:
                return peer
            if time.monotonic() >= deadline:
                raise Unavailable(f"cannot reach a coordinator at {self.cluster}: found none that "
                                  "answers, expected one that leads" + (
                                      f" ({peer.address}: {peer.fault})" if peer.fault else ""))
            await self._turn(peer)

    async def _turn(self, peer: Peer) -> None:
        """The next address has its turn."""
        if self._peers[self._current] is peer:
            self._current = (self._current + 1) % len(self._peers)
        if self._current == 0:
            await sleep(ROUND)

    async def _failure(self, peer: Peer, error: grpc.RpcError) -> CallError:
        failure = errors.from_rpc(error, peer.address)
        if isinstance(failure, Unavailable) and not failure.reason:
            fault = await peer.explain()
            if fault:
                return Unavailable(f"cannot talk to the coordinator at {peer.address}: {fault}")
        return failure

    async def _job_call(self, method: str, request: Any) -> pb.Job:
        job: pb.Job = await self._call("jobs", method, request)
        return job

    async def _call(self, service: str, method: str, request: Any) -> Any:
        deadline = time.monotonic() + self.timeout
        while True:
            peer = await self._peer(deadline)
            stub = getattr(peer, service)
            try:
                return await getattr(stub, method)(
                    request, timeout=max(deadline - time.monotonic(), 0.05))
            except grpc.RpcError as error:
                failure = await self._failure(peer, error)
            if failure.reason != "STANDBY" or time.monotonic() >= deadline:
                raise failure
            await self._turn(peer)

    async def _stream(self, method: str, request: Any) -> AsyncGenerator[Any, None]:
        deadline = time.monotonic() + self.timeout
        while True:
            peer = await self._peer(deadline)
            call = getattr(peer.jobs, method)(request, timeout=STREAM_SECONDS)
            try:
                async for response in call:
                    yield response
                return
            except grpc.RpcError as error:
                failure = await self._failure(peer, error)
            finally:
                call.cancel()
            if failure.reason != "STANDBY" or time.monotonic() >= deadline:
                raise failure
            await self._turn(peer)


def _job(name: str) -> str:
    return name if name.startswith("jobs/") else f"jobs/{name}"
