// SPDX-License-Identifier: Apache-2.0

// A request of one method, --method=NAME, through the real handlers: any bytes as the message give
// an answer or a refusal whose message is printable. An input of Session is a list of messages,
// each after two bytes with its length, lower one first.
#include <spdlog/spdlog.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "proto/base/check.h"
#include "proto/base/printable.h"
#include "stretto/v1alpha1/job.pb.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/requests/cluster.h"

namespace {

const google::protobuf::MethodDescriptor* method = nullptr;

// Of the three services.
const google::protobuf::MethodDescriptor* FindMethod(const std::string& name) {
  for (const auto* file : {stretto::v1alpha1::Job::descriptor()->file(),
                           stretto::v1alpha1::WorkerMessage::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      const auto* found = file->service(i)->FindMethodByName(name);
      if (found != nullptr) return found;
    }
  }
  return nullptr;
}

std::vector<std::string> MessagesOf(absl::string_view bytes) {
  if (!method->client_streaming()) return {std::string(bytes)};
  const auto messages = stretto::fuzz::MessagesOf(bytes);
  return {messages.begin(), messages.end()};
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  spdlog::set_level(spdlog::level::off);
  for (int i = 1; i < *argc; ++i) {
    absl::string_view argument = (*argv)[i];
    if (absl::ConsumePrefix(&argument, "--method=")) method = FindMethod(std::string(argument));
  }
  if (method == nullptr) {
    std::fprintf(stderr, "requests_fuzz: expected --method=NAME, the name of a method\n");
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A session is the worker's own; it may be that of "node".
  static stretto::fuzz::Cluster cluster(/*with_worker=*/!method->client_streaming());
  static const std::string path =
      absl::StrCat("/", method->service()->full_name(), "/", method->name());
  const grpc::Status status = cluster.Call(path, MessagesOf(stretto::fuzz::TextOf(data, size)));
  STRETTO_CHECK(stretto::IsPrintable(status.error_message()));
  return 0;
}
