// SPDX-License-Identifier: Apache-2.0
#pragma once
// The server streams of a job.

#include <grpcpp/grpcpp.h>

#include "coordinator/service/hub.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::service {

// The job, its steps from the history and its changes. A slow client loses nothing and costs no
// queue: the stream remembers the last step it has sent, not those to send.
grpc::ServerWriteReactor<v1alpha1::WatchJobResponse>* WatchJobStream(
    Hub& hub, const v1alpha1::WatchJobRequest& request);

// The log of one rank or of all, fetched from the workers. Up to 16 MiB wait for a slow client;
// more ends the stream with RESOURCE_EXHAUSTED.
grpc::ServerWriteReactor<v1alpha1::StreamJobLogsResponse>* JobLogsStream(
    Hub& hub, const v1alpha1::StreamJobLogsRequest& request);

// Recorded steps of one rank or of all, fetched from the workers, one rank after the other. A
// worker sends no more than a slow client reads: some 16 records wait.
grpc::ServerWriteReactor<v1alpha1::StreamJobTraceResponse>* JobTraceStream(
    Hub& hub, const v1alpha1::StreamJobTraceRequest& request);

}  // namespace stretto::service
