#pragma once
// The tree of commands, with the values their flags are parsed into. One file for each group of
// commands adds its own; app.cc parses, and runs what was named.

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/cli/app.h"
#include "coordinator/cli/client/config.h"
#include "coordinator/cli/client/session.h"
#include "coordinator/cli/commands/explain_command.h"
#include "coordinator/cli/commands/job_commands.h"
#include "coordinator/cli/commands/metrics_command.h"
#include "coordinator/cli/commands/trace_commands.h"
#include "coordinator/cli/help/complete.h"
#include "coordinator/cli/local/up.h"

namespace stretto::cli {

class App {
 public:
  explicit App(const AppEnvironment& environment);

  ExitCode Run(std::vector<std::string> arguments);

 private:
  // app_jobs.cc
  void AddJob();
  void AddJobViews(CLI::App* job);
  void AddCompare(CLI::App* job);
  void AddTrace(CLI::App* job);
  void AddMetrics(CLI::App* job);
  // app_cluster.cc
  void AddUp();
  void AddWorker();
  void AddConfig();
  // app_explain.cc
  void AddExplain();
  // app_help.cc
  void AddHelp();
  void AddCompletion();
  std::vector<const CommandInfo*> FindCommands(const CommandInfo& root) const;
  ExitCode PrintHelp();
  ExitCode PrintManPage();
  ExitCode PrintCompletion(const std::vector<std::string>& words);
  std::vector<std::string> AskNames(const ValueKind& kind, const GivenFlags& given);

  // app.cc: what a command that was named sets `action_` to.
  CLI::App* AddGroup(const char* name, const char* help, std::vector<std::string> examples);
  CLI::App* AddCommand(CLI::App* parent, const char* name, const char* help,
                       std::function<ExitCode(const Session&)> command,
                       std::vector<std::string> examples = {});
  // One that needs no coordinator.
  CLI::App* AddLocal(CLI::App* parent, const char* name, const char* help,
                     std::function<ExitCode()> command, std::vector<std::string> examples = {});
  void AddName(CLI::App* command, const ValueKind& kind = "JOB");
  static void AddExamples(CLI::App* command, const std::vector<std::string>& examples);
  // A flag that takes one of a few words: "table|json|yaml".
  static void Choice(CLI::Option* option, const ValueKind& words);

  ExitCode WithSession(const std::function<ExitCode(const Session&)>& command);
  std::string UnknownWord(const std::vector<std::string>& arguments) const;
  std::string UnknownFlag() const;
  OutputFormat format() const;

  const AppEnvironment& environment_;
  Terminal& terminal_;
  CLI::App app_{"Stretto trains transformers with tensor parallelism and hides the communication.",
                "stretto"};
  std::function<ExitCode()> action_;
  ClusterFlags cluster_;
  std::string output_ = "table", name_, shell_;
  bool no_color_ = false, follow_logs_ = false;
  std::vector<std::string> names_;
  int limit_ = 50, rank_ = -1, height_ = 16;
  UpOptions up_;
  SubmitOptions submit_;
  TraceOptions trace_;
  MetricsOptions metrics_;
  ExplainOptions explain_;
};

}  // namespace stretto::cli
