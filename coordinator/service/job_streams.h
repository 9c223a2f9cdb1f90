// SPDX-License-Identifier: Apache-2.0
#pragma once
// The server streams of a job. Each ends with the refusal if the caller may not read the job.

#include <grpcpp/grpcpp.h>

#include "coordinator/service/authorize.h"
#include "coordinator/service/hub.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::service {

// Streams the job, its changes, and its steps from the history. A slow client loses no step and
// needs no queue: the stream remembers only the last step that it has sent.
grpc::ServerWriteReactor<v1alpha1::WatchJobResponse>* WatchJobStream(
    Hub& hub, Call call, const v1alpha1::WatchJobRequest& request);

// Streams the log of one rank or of all, fetched from the workers. At most 16 MiB wait for a slow
// client; beyond that the stream ends with RESOURCE_EXHAUSTED.
grpc::ServerWriteReactor<v1alpha1::StreamJobLogsResponse>* JobLogsStream(
    Hub& hub, Call call, const v1alpha1::StreamJobLogsRequest& request);

// What a trace needs. Errors: FAILED_PRECONDITION (JOB_NOT_PLACED, JOB_RETIRED).
absl::Status CheckHasRanks(const coordinator::JobRecord& job);

// Streams recorded steps of one rank or of all, fetched from the workers rank by rank. A worker
// sends only as fast as the client reads: at most 16 records wait.
grpc::ServerWriteReactor<v1alpha1::StreamJobTraceResponse>* JobTraceStream(
    Hub& hub, Call call, const v1alpha1::StreamJobTraceRequest& request);

}  // namespace stretto::service
