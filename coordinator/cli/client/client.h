// SPDX-License-Identifier: Apache-2.0
#pragma once
// The coordinator's API as plain calls. Every call has a deadline. When `interrupt` is raised, it
// ends early with Cancelled.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/cli/base/interrupt.h"
#include "proto/tls/explain.h"
#include "proto/tls/files.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

struct FieldViolation {
  std::string field;
  std::string description;
};

// Returns the violations of the google.rpc.BadRequest in an error; empty if there is none.
std::vector<FieldViolation> FieldViolations(const absl::Status& status);
// Returns the reason of the google.rpc.ErrorInfo in an error. It is empty if there is none: then
// the error occurred on the way and is not from the coordinator.
std::string ErrorReason(const absl::Status& status);
// Returns a value of its metadata, such as that of "job"; empty if there is none.
std::string ErrorDetail(const absl::Status& status, const std::string& key);

// One thread at a time. Errors are the server's, with its details as payloads under their type URL.
class Client {
 public:
  static constexpr absl::Duration kCallDeadline = absl::Seconds(10);
  // Streams end with DeadlineExceeded after this time, so that a silent peer is noticed.
  static constexpr absl::Duration kStreamDeadline = absl::Minutes(5);

  // Connects at the first call, with TLS by `files`, or in plain text if they are empty(). Each
  // call carries the token of `files`, if they name one, as its file has it then. A call fails when
  // two attempts to connect have failed. `address` is that of the coordinator, or those of several,
  // separated by commas: then a call goes to one after the other, until one answers that leads or
  // the deadline has come. `interrupt` is borrowed.
  Client(std::string address, tls::Files files, Interrupt& interrupt);
  // Shares the connection of `other`, so that two threads can have a client each.
  Client(const Client& other, Interrupt& interrupt);
  ~Client();

  const std::string& address() const { return address_; }
  // For calls that are not worth a long wait.
  void set_call_deadline(absl::Duration deadline) { call_deadline_ = deadline; }
  // Explains, as far as TLS can tell, why a call ended with UNAVAILABLE, and what to do; may be
  // empty.
  std::string ExplainFailure() const;

  absl::StatusOr<v1alpha1::Job> CreateJob(const v1alpha1::CreateJobRequest& request);
  absl::StatusOr<v1alpha1::Job> GetJob(const v1alpha1::GetJobRequest& request);
  absl::StatusOr<v1alpha1::ListJobsResponse> ListJobs(const v1alpha1::ListJobsRequest& request);
  absl::StatusOr<v1alpha1::ListJobEventsResponse> ListJobEvents(
      const v1alpha1::ListJobEventsRequest& request);
  absl::StatusOr<v1alpha1::Job> CancelJob(const v1alpha1::CancelJobRequest& request);
  absl::StatusOr<v1alpha1::Job> CheckpointJob(const v1alpha1::CheckpointJobRequest& request);
  absl::StatusOr<v1alpha1::Job> SuspendJob(const v1alpha1::SuspendJobRequest& request);
  absl::StatusOr<v1alpha1::Job> ResumeJob(const v1alpha1::ResumeJobRequest& request);
  absl::StatusOr<v1alpha1::Job> DeleteJob(const v1alpha1::DeleteJobRequest& request);
  absl::StatusOr<v1alpha1::Worker> GetWorker(const v1alpha1::GetWorkerRequest& request);
  absl::StatusOr<v1alpha1::Worker> ForgetWorker(const v1alpha1::ForgetWorkerRequest& request);
  absl::StatusOr<v1alpha1::ListWorkersResponse> ListWorkers(
      const v1alpha1::ListWorkersRequest& request);
  absl::StatusOr<v1alpha1::Worker> CordonWorker(const v1alpha1::CordonWorkerRequest& request);
  absl::StatusOr<v1alpha1::Worker> UncordonWorker(const v1alpha1::UncordonWorkerRequest& request);

  // Calls `handler` for each message on this thread. If it returns false, the stream ends with OK.
  absl::Status WatchJob(const v1alpha1::WatchJobRequest& request,
                        const std::function<bool(const v1alpha1::WatchJobResponse&)>& handler);
  absl::Status StreamJobLogs(
      const v1alpha1::StreamJobLogsRequest& request,
      const std::function<bool(const v1alpha1::StreamJobLogsResponse&)>& handler);
  absl::Status StreamJobTrace(
      const v1alpha1::StreamJobTraceRequest& request,
      const std::function<bool(const v1alpha1::StreamJobTraceResponse&)>& handler);

 private:
  struct Peer;
  struct Peers;

  const std::string address_;
  const tls::Files files_;
  Interrupt& interrupt_;
  absl::Duration call_deadline_ = kCallDeadline;
  std::shared_ptr<Peers> peers_;  // shared: thread-safe, and the only owners of the connections
};

}  // namespace stretto::cli
