// SPDX-License-Identifier: Apache-2.0
#pragma once
// The reading methods of the API, for a thread of this process that has no gRPC: the monitoring
// page. Each call runs on the loop by the code that answers the API, as some user, and waits at
// most limits::kPageSeconds for its answer. A caller has one task on the loop at a time, so a page
// delays a heartbeat no more than a user's call does.

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
// in job.proto, with what the reader's roles refuse; UNAVAILABLE, if the loop does not answer in
// time or after Close.
class Reader {
 public:
  static constexpr size_t kNewestSteps = 60;

  // Reads as a user who has role viewer in every project. Borrows the hub until Close.
  explicit Reader(Hub& hub);
  // Also of the readers that For has returned.
  void Close();

  // Returns a reader that reads as who shows this, a certificate or a token, as a call of the API
  // with it would. Ask anew for each request: what has begun is not ended by the end of a token or
  // a revocation, but for a trace. Errors: UNAUTHENTICATED; UNAVAILABLE, after Close.
  absl::StatusOr<Reader> For(const tls::Shown& shown) const;

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
  // Shared by all readers of a coordinator, whichever ends first.
  struct Door {
    Mutex mu;
    Hub* hub GUARDED_BY(mu) = nullptr;  // null once closed
  };
  Reader(std::shared_ptr<Door> door, tls::Identity user, tls::Credential credential)
      : door_(std::move(door)), user_(std::move(user)), credential_(std::move(credential)) {}

  // Errors: those of AuthorizeKind.
  absl::StatusOr<Call> As(const char* method) const;
  absl::Status Post(std::function<void(Hub&)> task, const char* name) const;
  template <class Answer>
  absl::StatusOr<Answer> Ask(const char* method,
                             std::function<absl::Status(Hub&, const Call&, Answer*)> read) const;

  std::shared_ptr<Door> door_;
  tls::Identity user_;
  tls::Credential credential_;
};

}  // namespace stretto::service
