// SPDX-License-Identifier: Apache-2.0

// `stretto-planner` reads a job spec and writes its plan. `stretto job submit --dry-run` runs it.
#include <CLI/CLI.hpp>
#include <iostream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/plan.h"
#include "google/protobuf/util/json_util.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace {

constexpr int kNoProgram = -1;

absl::StatusOr<stretto::v1alpha1::JobSpec> ReadSpec(const std::string& file) {
  std::string text;
  if (file == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    ASSIGN_OR_RETURN(text, stretto::ReadFile(file));
  }
  stretto::v1alpha1::JobSpec spec;
  const auto status = google::protobuf::util::JsonStringToMessage(text, &spec);
  if (status.ok()) return spec;
  return absl::InvalidArgumentError(absl::StrCat(
      file == "-" ? "standard input" : file, ": found no JobSpec as JSON: ", status.ToString()));
}

absl::StatusOr<std::string> Answer(const std::string& file, int program_of) {
  ASSIGN_OR_RETURN(const stretto::v1alpha1::JobSpec spec, ReadSpec(file));
  if (program_of != kNoProgram)
    return stretto::planner::ProgramText(spec, stretto::Rank::Of(program_of));
  ASSIGN_OR_RETURN(const stretto::v1alpha1::Plan plan, stretto::planner::PlanOf(spec));
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(plan, &json, options);
  if (!status.ok()) return absl::InternalError(status.ToString());
  return json + "\n";
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "stretto-planner plans the step programs of a job and prints their memory and operations as "
      "JSON.",
      "stretto-planner");
  std::string file = "-";
  int program_of = kNoProgram;
  app.add_option("FILE", file,
                 "job spec in JSON with every default filled in, as job.spec of "
                 "`stretto job submit --dry-run -o json`; - reads standard input")
      ->capture_default_str();
  app.add_option("--program", program_of, "print the step program of this rank instead")
      ->check(CLI::NonNegativeNumber);
  CLI11_PARSE(app, argc, argv);
  const absl::StatusOr<std::string> answer = Answer(file, program_of);
  if (!answer.ok()) {
    std::cerr << "error: " << answer.status().message() << "\n";
    return 1;
  }
  std::cout << *answer << std::flush;
  return std::cout.good() ? 0 : 1;
}
