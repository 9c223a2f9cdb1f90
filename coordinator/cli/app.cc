#include "coordinator/cli/app.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/compare.h"
#include "coordinator/cli/job_commands.h"
#include "coordinator/cli/names.h"
#include "coordinator/cli/session.h"
#include "coordinator/cli/up.h"
#include "coordinator/cli/worker_commands.h"
#include "proto/base/presets.h"
#include "proto/base/version.h"

namespace stretto::cli {
namespace {

constexpr char kDefaultCoordinator[] = "127.0.0.1:7070";

std::string DefaultStateDir(const AppEnvironment& environment) {
  const std::string state = environment.variable("XDG_STATE_HOME");
  if (!state.empty()) return state + "/stretto";
  const std::string home = environment.variable("HOME");
  return home.empty() ? ".stretto" : home + "/.local/state/stretto";
}

ExitCode PrintVersion(const Terminal& terminal, OutputFormat format) {
  std::vector<std::string> presets;
  for (const ModelPreset& preset : kModelPresets) presets.push_back(preset.name);
  switch (format) {
    case OutputFormat::kJson:
      terminal.out << "{\"version\":\"" << kBuildVersion << "\",\"protocol\":" << kProtocolVersion
                   << ",\"presets\":[\"" << absl::StrJoin(presets, "\",\"") << "\"]}\n";
      break;
    case OutputFormat::kYaml:
      terminal.out << "version: " << kBuildVersion << "\nprotocol: " << kProtocolVersion
                   << "\npresets: [" << absl::StrJoin(presets, ", ") << "]\n";
      break;
    case OutputFormat::kTable:
      terminal.out << "stretto " << kBuildVersion << "\nprotocol " << kProtocolVersion
                   << "\nmodel presets: " << absl::StrJoin(presets, ", ") << "\n";
  }
  return kOk;
}

// The tree of commands, with the values their flags are parsed into. A command that was named sets
// `action_`.
class App {
 public:
  explicit App(const AppEnvironment& environment)
      : environment_(environment), terminal_(environment.terminal) {
    app_.require_subcommand(1);
    app_.footer(kExitCodeHelp);
    app_.fallthrough();
    app_.add_option(
        "--coordinator", coordinator_,
        absl::StrCat("HOST:PORT; else STRETTO_COORDINATOR, else ", kDefaultCoordinator));
    app_.add_option("-o,--output", output_, "table, json or yaml")
        ->check(CLI::IsMember({"table", "json", "yaml"}));
    app_.add_flag("--no-color", no_color_, "plain text, as NO_COLOR does");
    AddUp();
    AddJob();
    AddWorker();
    // Only for the help text: main runs `stretto data` as a program of its own.
    app_.add_subcommand("data", "Prepare training data (see stretto data --help)")
        ->fallthrough(false)
        ->allow_extras()
        ->callback([this] {
          action_ = [this] {
            terminal_.err << "error: flags before `data`, expected `stretto data ...`\n";
            return kUsage;
          };
        });
    app_.add_subcommand("version", "Print version and model presets")->callback([this] {
      action_ = [this] { return PrintVersion(terminal_, format()); };
    });
  }

  ExitCode Run(std::vector<std::string> arguments) {
    const std::string unknown = UnknownCommand(arguments);
    try {
      std::reverse(arguments.begin(), arguments.end());  // CLI11 wants the last one first
      app_.parse(arguments);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() != 0) {
        terminal_.err << "error: " << (unknown.empty() ? error.what() : unknown)
                      << "\n`stretto --help` and `stretto COMMAND --help` say more\n";
        return kUsage;
      }
      std::ostringstream help;
      app_.exit(error, help, help);
      terminal_.out << help.str();
      return kOk;
    }
    if (no_color_ || !environment_.variable("NO_COLOR").empty()) terminal_.color = false;
    return action_();
  }

 private:
  // What CLI11 only calls a missing subcommand; empty when every command word is known.
  std::string UnknownCommand(const std::vector<std::string>& arguments) const {
    const CLI::App* command = &app_;
    for (const std::string& word : arguments) {
      const std::vector<const CLI::App*> subcommands = command->get_subcommands(nullptr);
      if (subcommands.empty() || word.empty() || word[0] == '-') return "";
      std::vector<std::string> names;
      const CLI::App* next = nullptr;
      for (const CLI::App* sub : subcommands) {
        names.push_back(sub->get_name());
        if (sub->get_name() == word) next = sub;
      }
      if (next == nullptr) {
        const std::string near = NearestName(word, names);
        return absl::StrCat("unknown command \"", word, "\"; ",
                            near.empty()
                                ? absl::StrCat("expected one of: ", absl::StrJoin(names, ", "))
                                : absl::StrCat("did you mean \"", near, "\"?"));
      }
      command = next;
    }
    return "";
  }

  OutputFormat format() const {
    return output_ == "json"   ? OutputFormat::kJson
           : output_ == "yaml" ? OutputFormat::kYaml
                               : OutputFormat::kTable;
  }

  // Runs `command` with a client; Ctrl-C interrupts it.
  ExitCode WithSession(const std::function<ExitCode(const Session&)>& command) {
    std::string address = coordinator_;
    if (address.empty()) address = environment_.variable("STRETTO_COORDINATOR");
    if (address.empty()) address = kDefaultCoordinator;
    std::optional<SignalThread> signals;
    if (environment_.handle_signals) signals.emplace(environment_.interrupt);
    Client client(address, environment_.interrupt);
    return command(
        {.client = client,
         .interrupt = environment_.interrupt,
         .terminal = terminal_,
         .format = format(),
         .hint_flags = coordinator_.empty() ? "" : absl::StrCat(" --coordinator ", coordinator_),
         .give_up = environment_.give_up,
         .retry_interval = environment_.retry_interval});
  }

  CLI::App* AddCommand(CLI::App* parent, const char* name, const char* help,
                       std::function<ExitCode(const Session&)> command) {
    CLI::App* sub = parent->add_subcommand(name, help);
    sub->fallthrough();
    sub->callback([this, command] { action_ = [this, command] { return WithSession(command); }; });
    return sub;
  }

  void AddName(CLI::App* command) { command->add_option("NAME", name_, "its name")->required(); }

  void AddUp() {
    up_.state_dir = DefaultStateDir(environment_);
    up_.binary_dir = environment_.binary_dir;
    CLI::App* up = app_.add_subcommand("up", "Run a local cluster in the foreground");
    up->add_option("--workers", up_.workers, "worker daemons")
        ->check(CLI::Range(1, 64))
        ->capture_default_str();
    up->add_option("--slots", up_.slots, "slots of each worker; default cores / workers")
        ->check(CLI::Range(1, 4096));
    up->add_option("--listen", up_.listen, "HOST:PORT of the coordinator; port 0 is a free one")
        ->capture_default_str();
    up->add_option("--metrics-listen", up_.metrics_listen, "HOST:PORT of its metrics")
        ->capture_default_str();
    up->add_option("--state-dir", up_.state_dir, "state and logs")->capture_default_str();
    up->add_option("--data-root", up_.data_root, "data sets; default STATE_DIR/data");
    up->add_option("--checkpoint-root", up_.checkpoint_root,
                   "checkpoints; default STATE_DIR/checkpoints");
    up->callback([this] {
      action_ = [this] {
        std::optional<SignalThread> signals;
        if (environment_.handle_signals) signals.emplace(environment_.interrupt);
        return RunUp(up_, terminal_, environment_.interrupt);
      };
    });
  }

  void AddJob() {
    CLI::App* job = app_.add_subcommand("job", "Submit and follow jobs");
    job->require_subcommand(1);
    job->fallthrough();
    CLI::App* submit = AddCommand(job, "submit", "Submit a job file",
                                  [this](const Session& s) { return SubmitJob(s, submit_); });
    submit->add_option("FILE", submit_.file, "job file (YAML); - reads stdin")->required();
    submit->add_option("--name", submit_.name, "name of the job, instead of the file's");
    submit->add_option("--request-id", submit_.request_id,
                       "repeat safely: the same id creates one job");
    CLI::Option* follow =
        submit->add_flag("--follow", submit_.follow, "show progress until it ends");
    CLI::Option* wait =
        submit->add_flag("--wait", submit_.wait, "wait silently until it ends")->excludes(follow);
    submit->add_flag("--validate-only", submit_.validate_only, "check everything, store nothing")
        ->excludes(follow)
        ->excludes(wait);
    CLI::App* list = AddCommand(job, "list", "List jobs, newest first",
                                [this](const Session& s) { return ListJobs(s, limit_); });
    list->add_option("--limit", limit_, "at most so many; 0: all")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    AddName(AddCommand(job, "get", "Show one job",
                       [this](const Session& s) { return GetJob(s, name_); }));
    AddName(AddCommand(job, "describe", "Show everything about one job",
                       [this](const Session& s) { return DescribeJobCommand(s, name_); }));
    AddName(AddCommand(job, "cancel", "Ask a job to stop",
                       [this](const Session& s) { return CancelJob(s, name_); }));
    CLI::App* watch = AddCommand(job, "watch", "Follow a job until it ends",
                                 [this](const Session& s) { return WatchJob(s, name_, false); });
    AddName(watch);
    CLI::App* logs =
        AddCommand(job, "logs", "Print the logs of its ranks",
                   [this](const Session& s) { return JobLogs(s, name_, rank_, follow_logs_); });
    AddName(logs);
    logs->add_flag("-f,--follow", follow_logs_, "until the job ends");
    logs->add_option("--rank", rank_, "of one rank only")->check(CLI::NonNegativeNumber);
    CLI::App* curve = AddCommand(job, "curve", "Draw the loss so far",
                                 [this](const Session& s) { return JobCurve(s, name_, height_); });
    AddName(curve);
    curve->add_option("--height", height_, "lines")
        ->check(CLI::Range(3, 100))
        ->capture_default_str();
    AddCompare(job);
  }

  void AddWorker() {
    CLI::App* worker = app_.add_subcommand("worker", "Look at the cluster's workers");
    worker->require_subcommand(1);
    worker->fallthrough();
    AddCommand(worker, "list", "List workers", [](const Session& s) { return ListWorkers(s); });
    AddName(AddCommand(worker, "get", "Show one worker",
                       [this](const Session& s) { return GetWorker(s, name_); }));
  }

  void AddCompare(CLI::App* job) {
    CLI::App* compare = AddCommand(job, "compare", "Compare the steps of several jobs",
                                   [this](const Session& s) { return CompareJobs(s, names_); });
    compare->add_option("NAME", names_, "their names")->required();
  }

  const AppEnvironment& environment_;
  Terminal& terminal_;
  CLI::App app_{"Stretto trains transformers with tensor parallelism and hides the communication.",
                "stretto"};
  std::function<ExitCode()> action_;
  std::string coordinator_, output_ = "table", name_;
  bool no_color_ = false, follow_logs_ = false;
  std::vector<std::string> names_;
  int limit_ = 50, rank_ = -1, height_ = 16;
  UpOptions up_;
  SubmitOptions submit_;
};

}  // namespace

ExitCode RunApp(const std::vector<std::string>& arguments, const AppEnvironment& environment) {
  return App(environment).Run(arguments);
}

}  // namespace stretto::cli
