// SPDX-License-Identifier: Apache-2.0
#pragma once
// The page that the coordinator shows at its metrics port (docs/design/0082): what is in files/, and
// what that asks for. It only reads.
//
//   /                                the page
//   /api/jobs?page_token=T           ListJobsResponse, without ranks and attempts
//   /api/jobs/ID                     {"job": Job, "ranks": N}, with the first limits::kPageRanks
//   /api/jobs/ID/events              ListJobEventsResponse
//   /api/jobs/ID/steps               {"curve": [StepReport], "newest": [StepReport]}
//   /api/jobs/ID/timeline.svg?step=N the picture of `stretto job timeline`, by default of a plain
//                                    step, with at most kDrawnRanks ranks
//   /api/workers?page_token=T        ListWorkersResponse
//
// Messages are in the JSON of Protobuf with the names of the proto. It is for this page, and may
// change with it; programs use the API, or `stretto -o json`.
//
// A refusal is a line of text: 400 a bad name or token, 403 closed (PageAccess) or asked for under a
// name that is none of this machine's, 404 no such job or path, 409 a job without steps, 503 no
// answer in time, or a coordinator that does not serve.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "coordinator/service/reader.h"
#include "coordinator/service/server.h"
#include "proto/base/mutex.h"
#include "proto/monitoring/monitoring_server.h"

namespace stretto::page {

inline constexpr int kDrawnRanks = 8;

// Whether everybody who reaches the metrics port may see what the API shows. Errors:
// PERMISSION_DENIED, if the coordinator has TLS, because then roles decide who sees a job and the
// port knows no users; or if the port, but not the API, is open beyond loopback.
absl::Status PageAccess(const service::ServerOptions& options, const std::string& metrics_listen);

// Thread-safe.
class Page {
 public:
  // `access` is the answer to every request unless it is OK.
  explicit Page(absl::Status access) : access_(std::move(access)) {}

  // From now on, until the next call. Null: the coordinator does not serve.
  void Show(std::shared_ptr<service::Reader> reader);

  // Waits for the coordinator at most limits::kPageSeconds for each thing that it reads.
  monitoring::Answer Get(const monitoring::Request& request);

 private:
  absl::StatusOr<monitoring::Answer> Find(const monitoring::Request& request);
  absl::StatusOr<std::shared_ptr<service::Reader>> CurrentReader();

  const absl::Status access_;
  Mutex mu_;
  std::shared_ptr<service::Reader> reader_ GUARDED_BY(mu_);
};

}  // namespace stretto::page
