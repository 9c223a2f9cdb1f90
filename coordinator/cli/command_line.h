// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line: the tree of commands, which the files *_flags.cc fill, and the parser that runs
// one of them.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cli/app.h"
#include "coordinator/cli/client/config.h"
#include "coordinator/cli/client/invocation.h"
#include "proto/commands/command_tree.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stretto::cli {

class CommandLine {
 public:
  // Has the flags that every command takes, and no command yet. `environment` is borrowed.
  explicit CommandLine(const AppEnvironment& environment);
  ~CommandLine();

  // A word before commands: "job".
  CLI::App* AddGroup(const char* name, const char* help, const std::vector<std::string>& examples);
  // The same under another one: "ca token".
  CLI::App* AddGroup(CLI::App* parent, const char* name, const char* help,
                     const std::vector<std::string>& examples);
  // A command that talks to the coordinator, under `parent`.
  CLI::App* AddCommand(CLI::App* parent, const char* name, const char* help,
                       const std::function<ExitCode(const Invocation&)>& command,
                       const std::vector<std::string>& examples);
  // Adds a command that needs no coordinator.
  CLI::App* AddLocal(CLI::App* parent, const char* name, const char* help,
                     const std::function<ExitCode()>& command,
                     const std::vector<std::string>& examples);

  CLI::App* root() const { return app_.get(); }
  const AppEnvironment& environment() const { return environment_; }
  Terminal& terminal() const { return environment_.terminal; }

  // Runs the command that `arguments`, without the program's name, ask for.
  ExitCode Run(std::vector<std::string> arguments);

  // Runs a command that talks to the coordinator, as one of AddCommand is run.
  ExitCode WithInvocation(const std::function<ExitCode(const Invocation&)>& command);

  // For commands, while Run runs them.
  OutputFormat format() const;
  const Cluster& cluster() const { return cluster_.cluster; }  // as its flags were given
  // Those of its flags that were given, as "--FLAG=VALUE".
  std::vector<std::string> ClusterWords() const;
  // All commands, with those of separate programs.
  CommandInfo Commands() const;
  // The same, with the commands of those separate programs alone that are among `words`.
  CommandInfo CommandsFor(const std::vector<std::string>& words) const;
  // Returns the help of the command that `words` name. Errors: NotFound, with the nearest name.
  absl::StatusOr<std::string> HelpOf(const std::vector<std::string>& words) const;

 private:
  ExitCode ReportUsage(const std::string& what);
  std::vector<std::pair<std::string, std::string>> GivenClusterFlags() const;
  std::string UnknownWord(const std::vector<std::string>& arguments) const;
  std::string UnknownFlag() const;

  const AppEnvironment& environment_;
  std::unique_ptr<CLI::App> app_;
  std::function<ExitCode()> action_;  // of the command on the line
  ClusterFlags cluster_;
  std::string format_ = "table";
  bool no_color_ = false;
};

}  // namespace stretto::cli
