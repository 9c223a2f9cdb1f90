// SPDX-License-Identifier: Apache-2.0

// A job file: any text gives a job or an error with a place. What is printed of a job is a job file
// of the same job.
#include <cstddef>
#include <cstdint>
#include <string>

#include "coordinator/cli/yaml/message_text.h"
#include "coordinator/cli/yaml/spec_yaml.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/base/check.h"
#include "tests/fuzz/fuzz_input.h"

using google::protobuf::util::MessageDifferencer;
using namespace stretto::cli;  // NOLINT: all of this target is about it

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto job = ParseJobFile(std::string(stretto::fuzz::TextOf(data, size)), "fuzz.yaml");
  if (!job.ok()) return 0;
  stretto::v1alpha1::Job shown;
  shown.set_name("jobs/fuzz");
  *shown.mutable_spec() = job->spec;
  for (const std::string& text : {ToYaml(shown), ToJson(shown, /*pretty=*/true)}) {
    const auto again = ParseJobFile(text, "again");
    STRETTO_CHECK(again.ok() && MessageDifferencer::Equals(again->spec, job->spec));
  }
  return 0;
}
