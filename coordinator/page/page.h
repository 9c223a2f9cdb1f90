// SPDX-License-Identifier: Apache-2.0
#pragma once
// The page that the coordinator shows at its metrics port (docs/design/0082): what is in files/,
// and what that asks for. It only reads.
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
// Where a coordinator has TLS, /api wants the header "Authorization: Bearer KEY". KEY is the key of
// PageKey, which shows every job, or a user's token, which shows what that user may read. The
// address /#key=KEY makes a browser send it. The same page can be served with TLS to other machines
// (secure_connections.h). There it takes a user's token or certificate, one of both. With a
// certificate /api wants the header Stretto-Page, of any value: browsers show a certificate to
// requests that other pages make too, and without our consent those have no such header.
//
// A refusal is a line of text: 400 a bad name or page token, 401 no key, token or certificate, or
// one that does not count, 403 closed (PageAccess), asked for under a name that is none of this
// machine's or by another page, or a job that the user may not read, 404 no such job or path, 409 a
// job without steps, 503 no answer in time, or a coordinator that does not serve.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "coordinator/service/reader.h"
#include "coordinator/service/server.h"
#include "proto/base/mutex.h"
#include "proto/monitoring/monitoring_server.h"

namespace stretto::page {

inline constexpr int kDrawnRanks = 8;

// Whether the page may be shown at the metrics port. Errors: PERMISSION_DENIED, if the port is open
// beyond loopback, unless the API is open there to everybody as well.
absl::Status PageAccess(const service::ServerOptions& options, const std::string& metrics_listen);

// Whether the page can be served at `page_listen` (--page-listen). Errors: INVALID_ARGUMENT (no
// address), FAILED_PRECONDITION (without TLS it would be open).
absl::Status CheckPageListen(const service::ServerOptions& options, const std::string& page_listen);

// Returns the key of a page that not everybody may see: 64 hexadecimal digits, from the file
// `path`, which is made with a new one if there is none. Who can read the file sees what a viewer
// of all projects sees. Errors: InvalidArgument (the file has something else), those of files.
absl::StatusOr<std::string> PageKey(const std::string& path);

// Who can reach a page.
enum class Reach {
  kMachine,  // this machine alone
  kNetwork,  // everybody, by TLS, which proves to a browser whose page it is
};

// Thread-safe.
class Page {
 public:
  // `access` is the answer to every request unless it is OK. Data wants `key` or a token, and of a
  // page for the network a token or a certificate; on this machine without a key nothing.
  explicit Page(absl::Status access, std::string key = "", Reach reach = Reach::kMachine)
      : access_(std::move(access)), key_(std::move(key)), reach_(reach) {}

  // From now on, until the next call. Null: the coordinator does not serve.
  void Show(std::shared_ptr<service::Reader> reader);

  // Waits for the coordinator at most limits::kPageSeconds for each thing that it reads.
  monitoring::Answer Get(const monitoring::Request& request);

 private:
  absl::StatusOr<monitoring::Answer> Find(const monitoring::Request& request);
  absl::StatusOr<std::shared_ptr<service::Reader>> CurrentReader();

  // Returns what a request may read.
  absl::StatusOr<service::Reader> ReaderFor(const monitoring::Request& request);

  const absl::Status access_;
  const std::string key_;
  const Reach reach_;
  Mutex mu_;
  std::shared_ptr<service::Reader> reader_ GUARDED_BY(mu_);
};

}  // namespace stretto::page
