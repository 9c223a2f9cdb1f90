// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/explain_flags.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "coordinator/cli/command_line.h"
#include "coordinator/cli/commands/explain_command.h"
#include "coordinator/cli/help/cli_reference.h"

namespace stretto::cli {

void AddExplainCommand(CommandLine& line) {
  const auto flags = std::make_shared<ExplainOptions>();
  CLI::App* explain = line.AddLocal(
      line.root(), "explain", "Explain a field of a job file",
      [&line, flags] {
        if (flags->markdown != "cli") return Explain(*flags, line.terminal(), line.format());
        line.terminal().out << CliReference(line.Commands());
        return kOk;
      },
      {"stretto explain job.spec.schedule", "stretto explain schedule.parameters --recursive"});
  explain
      ->add_option("FIELD", flags->path,
                   "field to explain, such as job.spec.schedule, schedule.name or worker")
      ->capture_default_str();
  explain->add_flag("--recursive", flags->recursive, "show the tree of all fields under it");
  explain->add_option("--markdown", flags->markdown, "a file of docs/reference")
      ->check(CLI::IsMember({"job-spec", "api", "cli"}))
      ->group("");  // for the repository's own tests
}

}  // namespace stretto::cli
