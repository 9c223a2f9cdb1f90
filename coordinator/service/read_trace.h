// SPDX-License-Identifier: Apache-2.0
#pragma once
// Recorded steps of some ranks in memory, fetched from the workers as StreamJobTrace does.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/service/authorize.h"
#include "coordinator/service/hub.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::service {

struct TraceQuery {
  std::string name = {};                  // "jobs/ID"
  int32_t first_rank = 0, last_rank = 0;  // those of them that the job has
  int64_t first_step = 0, last_step = 0;  // as in StreamJobTraceRequest
};

using TraceRecords = std::vector<v1alpha1::StreamJobTraceResponse>;

// Call it on the loop, where `done` is called once. It takes the place of a stream of a user.
// Errors: those of StreamJobTrace; RESOURCE_EXHAUSTED, if the records are longer than
// limits::kPageTraceBytes; DEADLINE_EXCEEDED after limits::kPageSeconds.
void ReadTrace(Hub& hub, const Call& call, const TraceQuery& query,
               std::function<void(absl::StatusOr<TraceRecords>)> done);

}  // namespace stretto::service
