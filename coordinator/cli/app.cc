// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/app.h"

#include "coordinator/cli/ca_flags.h"
#include "coordinator/cli/cluster_flags.h"
#include "coordinator/cli/cluster_names.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/explain_flags.h"
#include "coordinator/cli/help/complete.h"
#include "coordinator/cli/help/man_page.h"
#include "coordinator/cli/help_flags.h"
#include "coordinator/cli/job_flags.h"
#include "proto/base/version.h"

namespace stretto::cli {
namespace {

ExitCode PrintCompletion(const CommandLine& line, const std::vector<std::string>& words) {
  const Completion completion =
      Complete(line.CommandsFor(words), words, [&](const ValueKind& kind, const GivenFlags& given) {
        return ClusterNames(kind, given, line.environment());
      });
  std::ostream& out = line.terminal().out;
  for (const Reply& reply : completion.replies) {
    out << reply.word << (reply.help.empty() ? "" : "\t") << reply.help << "\n";
  }
  if (completion.files) out << ":files\n";
  return kOk;
}

}  // namespace

ExitCode RunApp(const std::vector<std::string>& arguments, const AppEnvironment& environment) {
  CommandLine line(environment);
  AddUpCommand(line);
  AddJobCommands(line);
  AddTopCommand(line);
  AddWorkerCommands(line);
  AddConfigCommands(line);
  AddCaCommands(line);
  AddExplainCommand(line);
  AddHelpCommands(line);
  // For packages and shells; hidden from the help.
  if (!arguments.empty() && arguments[0] == "__man") {
    line.terminal().out << ManPage(line.Commands(), kBuildVersion);
    return kOk;
  }
  if (!arguments.empty() && arguments[0] == "__complete") {
    return PrintCompletion(line, {arguments.begin() + 1, arguments.end()});
  }
  return line.Run(arguments);
}

}  // namespace stretto::cli
