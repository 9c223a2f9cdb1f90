// SPDX-License-Identifier: Apache-2.0

// `stretto-planner` reads a job spec and writes its plan. `stretto job submit --dry-run` runs it.
#include <CLI/CLI.hpp>
#include <iostream>
#include <iterator>
#include <string>
#include <utility>

#include "coordinator/cli/yaml/message_text.h"
#include "coordinator/cli/yaml/spec_yaml.h"
#include "coordinator/planner/plan.h"
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
  ASSIGN_OR_RETURN(stretto::cli::JobFile job,
                   stretto::cli::ParseJobFile(text, file == "-" ? "standard input" : file));
  return std::move(job.spec);
}

absl::StatusOr<std::string> Answer(const std::string& file, int program_of) {
  ASSIGN_OR_RETURN(const stretto::v1alpha1::JobSpec spec, ReadSpec(file));
  if (program_of != kNoProgram)
    return stretto::planner::ProgramText(spec, stretto::Rank::Of(program_of));
  ASSIGN_OR_RETURN(const stretto::v1alpha1::Plan plan, stretto::planner::PlanOf(spec));
  return stretto::cli::ToJson(plan, /*pretty=*/false);
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
                 "job file with every default filled in, as `stretto job submit --dry-run -o json` "
                 "prints it; - reads standard input")
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
