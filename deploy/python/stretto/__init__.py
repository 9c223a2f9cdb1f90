# SPDX-License-Identifier: Apache-2.0
"""Client of Stretto. `Client` blocks, `AsyncClient` is for asyncio; both have the same methods.
Messages are those of proto/stretto/v1alpha1/job.proto, in stretto.v1alpha1.job_pb2.
"""
from stretto._async.client import AsyncClient
from stretto._sync.client import Client
from stretto.cluster import Cluster
from stretto.errors import (AlreadyExists, CallError, Cancelled, DeadlineExceeded,
                            FailedPrecondition, Internal, InvalidArgument, InvalidInput,
                            MissingLibrary, NotFound, PermissionDenied, ResourceExhausted,
                            StrettoError, Unavailable, Violation)
from stretto.job_file import JobFile, parse_job, read_job
from stretto.tables import (RankTrace, Table, ledger_table, metrics_table, overlap_ratio,
                            preempted_seconds, trace_table)
from stretto.tls import TlsFiles
from stretto.v1alpha1.job_pb2 import Job, JobSpec, StepReport

__all__ = [
    "AlreadyExists", "AsyncClient", "CallError", "Cancelled", "Client", "Cluster",
    "DeadlineExceeded", "FailedPrecondition", "Internal", "InvalidArgument", "InvalidInput", "Job",
    "JobFile", "JobSpec", "MissingLibrary", "NotFound", "PermissionDenied", "RankTrace",
    "ResourceExhausted", "StepReport", "StrettoError", "Table", "TlsFiles", "Unavailable",
    "Violation", "ledger_table", "metrics_table", "overlap_ratio", "parse_job",
    "preempted_seconds", "read_job", "trace_table",
]
