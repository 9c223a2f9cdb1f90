// SPDX-License-Identifier: Apache-2.0
#pragma once
// The reading methods of the API, for a thread of this process that has no gRPC: the monitoring
// page. Each call runs on the loop by the code that answers the API, as a user who has role viewer in
// every project, and waits at most limits::kPageSeconds for its answer. A caller has one task on the
// loop at a time, so a page delays a heartbeat no more than a user's call does.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/service/authorize.h"
#include "coordinator/service/hub.h"
#include "coordinator/service/read_trace.h"
#include "proto/base/mutex.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::service {

// Steps of rank 0.
struct JobSteps {
  std::vector<v1alpha1::StepReport> curve;   // JobHistory::Curve
  std::vector<v1alpha1::StepReport> newest;  // with their ledgers, as far as those are known
};

// Thread-safe, except that none of its calls may be made on the loop. Errors: those of the methods
// in job.proto; UNAVAILABLE, if the loop does not answer in time or after Close.
class Reader {
 public:
  static constexpr size_t kNewestSteps = 60;

  // Borrows the hub until Close.
  explicit Reader(Hub& hub) : hub_(&hub) {}
  void Close();

  absl::StatusOr<v1alpha1::ListJobsResponse> ListJobs(const v1alpha1::ListJobsRequest& request);
  absl::StatusOr<v1alpha1::Job> GetJob(const v1alpha1::GetJobRequest& request);
  absl::StatusOr<v1alpha1::ListJobEventsResponse> ListJobEvents(
      const v1alpha1::ListJobEventsRequest& request);
  absl::StatusOr<v1alpha1::ListWorkersResponse> ListWorkers(
      const v1alpha1::ListWorkersRequest& request);
  // What WatchJob streams.
  absl::StatusOr<JobSteps> Steps(const v1alpha1::GetJobRequest& request);
  // What StreamJobTrace streams.
  absl::StatusOr<TraceRecords> Trace(const TraceQuery& query);

 private:
  absl::Status Post(std::function<void(Hub&)> task, const char* name);
  template <class Answer>
  absl::StatusOr<Answer> Ask(const char* method,
                             std::function<absl::Status(Hub&, const Call&, Answer*)> read);

  Mutex mu_;
  Hub* hub_ GUARDED_BY(mu_);  // null once closed
};

}  // namespace stretto::service
