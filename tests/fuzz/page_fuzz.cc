// SPDX-License-Identifier: Apache-2.0

// Requests for the page of a coordinator that has a job. The lines of an input are path, query,
// Host, Authorization and Stretto-Page; what follows them is the certificate that the client
// showed, in PEM form. Every page answers with a code that it has and with the headers that confine
// it, a refusal is printable text, and without the key nobody sees the job. The lines are also
// given as what an operator writes: addresses to listen on, and the file with the key.
#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "coordinator/page/page.h"
#include "coordinator/service/server.h"
#include "coordinator/store/job_store.h"
#include "proto/base/check.h"
#include "proto/base/printable.h"
#include "stretto/v1alpha1/job.grpc.pb.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using stretto::page::Page;
using stretto::page::Reach;

constexpr char kKey[] = "0123456789abcdef";
constexpr char kPrefix[] = "private-data-set";

struct Coordinator {
  Coordinator() {
    stretto::service::ServerOptions options;
    options.listen = "127.0.0.1:0";
    auto started = stretto::service::Server::Start(options, stretto::coordinator::NewMemoryStore(),
                                                   stretto::Clock::Real(), telemetry);
    STRETTO_CHECK(started.ok());
    server = *std::move(started);
    const auto channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(server->port()),
                                             grpc::InsecureChannelCredentials());
    stretto::v1alpha1::CreateJobRequest request;
    request.set_job_id("gpt");
    auto* spec = request.mutable_job()->mutable_spec();
    spec->mutable_model()->set_preset("gpt-tiny");
    spec->mutable_data()->set_prefix(kPrefix);
    spec->mutable_parallelism()->set_tp_size(2);
    spec->set_steps(3);
    spec->set_micro_batch_size(2);
    grpc::ClientContext context;
    stretto::v1alpha1::Job job;
    const auto jobs = stretto::v1alpha1::JobService::NewStub(channel);
    STRETTO_CHECK(jobs->CreateJob(&context, request, &job).ok());
    for (Page* page : {&open, &locked, &network}) page->Show(server->reader());
    const auto seen = open.Get({.path = "/api/jobs/gpt"});
    STRETTO_CHECK(seen.code == 200 && absl::StrContains(seen.body, kPrefix));
  }

  stretto::telemetry::Telemetry telemetry;
  std::unique_ptr<stretto::service::Server> server;
  Page open{absl::OkStatus()}, locked{absl::OkStatus(), kKey};
  Page network{absl::OkStatus(), "", Reach::kNetwork}, idle{absl::OkStatus()};
  Page closed{absl::PermissionDeniedError("closed")};
};

void CheckAnswer(const stretto::monitoring::Answer& answer) {
  static const std::set<int> codes = {200, 400, 401, 403, 404, 409, 503};
  STRETTO_CHECK(codes.contains(answer.code));
  STRETTO_CHECK(absl::StrContains(answer.headers, "Content-Security-Policy: default-src 'none'"));
  if (answer.code == 200) return;
  STRETTO_CHECK(absl::EndsWith(answer.body, "\n"));
  STRETTO_CHECK(stretto::IsPrintable(answer.body.substr(0, answer.body.size() - 1)));
}

// What an operator writes.
void CheckFlags(const std::string& text) {
  stretto::service::ServerOptions options;
  for (const bool beyond : {false, true}) {
    options.insecure_listen_beyond_loopback = beyond;
    const bool access = stretto::page::PageAccess(options, text).ok();
    STRETTO_CHECK(!beyond || access);
  }
  STRETTO_CHECK(!stretto::page::CheckPageListen(options, text).ok());  // without TLS
  options.tls = {.ca = "ca", .certificate = "certificate", .key = "key"};
  stretto::page::PageAccess(options, text).IgnoreError();
  stretto::page::CheckPageListen(options, text).IgnoreError();
  const auto& folder = stretto::fuzz::Folder::Get();
  const auto key = stretto::page::PageKey(folder.Write("page.key", text));
  STRETTO_CHECK(!key.ok() || key->size() == 64);
  std::filesystem::remove(folder.Path("new.key"));
  const auto made = stretto::page::PageKey(folder.Path("new.key"));
  STRETTO_CHECK(made.ok() && *stretto::page::PageKey(folder.Path("new.key")) == *made);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto coordinator = std::make_unique<Coordinator>();
  std::vector<std::string> lines =
      absl::StrSplit(stretto::fuzz::TextOf(data, size), absl::MaxSplits('\n', 5));
  lines.resize(6);
  const stretto::monitoring::Request request = {.path = lines[0],
                                                .query = lines[1],
                                                .host = lines[2],
                                                .authorization = lines[3],
                                                .stretto_page = lines[4],
                                                .certificate = lines[5]};
  CheckAnswer(coordinator->open.Get(request));
  CheckAnswer(coordinator->idle.Get(request));
  STRETTO_CHECK(coordinator->closed.Get(request).code == 403);
  const bool knows = request.authorization == std::string("Bearer ") + kKey;
  const auto locked = coordinator->locked.Get(request);
  CheckAnswer(locked);
  STRETTO_CHECK(knows || !absl::StrContains(locked.body, kPrefix));
  const auto network = coordinator->network.Get(request);
  CheckAnswer(network);
  STRETTO_CHECK(!absl::StrContains(network.body, kPrefix));
  CheckFlags(lines[0]);
  return 0;
}
