// SPDX-License-Identifier: Apache-2.0

// A job file: any text gives a job or an error with a place, and so do the fields of a job that a
// command line gives. What is printed of a job is a job file of the same job, and each field that
// the file gave is found in it.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/yaml/message_text.h"
#include "coordinator/cli/yaml/spec_yaml.h"
#include "coordinator/cli/yaml/yaml_tree.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/base/check.h"
#include "tests/fuzz/fuzz_input.h"

using google::protobuf::util::MessageDifferencer;
using namespace stretto::cli;  // NOLINT: all of this target is about it

namespace {

void CheckPlaces(const JobFile& job) {
  for (const auto& [path, position] : job.positions) {
    const std::string place = absl::StrCat(position.line, ":", position.column);
    STRETTO_CHECK(Locate(job, "job.spec." + path) == "fuzz.yaml:" + place);
    // What is below a field is where the field is.
    STRETTO_CHECK(Locate(job, path + ".below") == "fuzz.yaml:" + place);
  }
  JobFile changed = job;
  changed.set.insert("steps");
  STRETTO_CHECK(Locate(changed, "steps") == "--set steps");
  STRETTO_CHECK(job.name.empty() || Locate(job, "job_id") != "fuzz.yaml");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(stretto::fuzz::TextOf(data, size));
  if (auto fields = ParseYaml(text, "fuzz.yaml"); fields.ok()) {
    JobFile filled{.file = "fuzz.yaml"};
    FillJob(*std::move(fields), "fuzz.yaml", &filled).IgnoreError();
  }
  const auto job = ParseJobFile(text, "fuzz.yaml");
  if (!job.ok()) return 0;
  CheckPlaces(*job);
  stretto::v1alpha1::Job shown;
  shown.set_name("jobs/fuzz");
  shown.mutable_create_time()->set_seconds(static_cast<int64_t>(size));
  shown.mutable_submit_to_first_step()->set_seconds(static_cast<int64_t>(size));
  *shown.mutable_spec() = job->spec;
  for (const std::string& printed : {ToYaml(shown), ToJson(shown, /*pretty=*/true)}) {
    const auto again = ParseJobFile(printed, "again");
    STRETTO_CHECK(again.ok() && MessageDifferencer::Equals(again->spec, job->spec));
  }
  return 0;
}
