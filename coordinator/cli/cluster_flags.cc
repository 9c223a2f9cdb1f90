// SPDX-License-Identifier: Apache-2.0

// One function per group of commands, as in job_flags.cc. It declares the flags, binds each to a
// value that the command's callback keeps alive, and calls the command with them.

#include "coordinator/cli/cluster_flags.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/base/local_cluster.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/commands/config_commands.h"
#include "coordinator/cli/commands/top_command.h"
#include "coordinator/cli/commands/worker_commands.h"
#include "coordinator/cli/local/up.h"
#include "proto/commands/ranges.h"

namespace stretto::cli {
namespace {

ExitCode Up(const CommandLine& line, const UpOptions& options) {
  if (!line.cluster().tls.empty()) {
    line.terminal().err
        << "error: `stretto up` makes certificates of its own, in --state-dir; remove --tls-ca, "
           "--tls-certificate, --tls-key and --token-file\n";
    return kUsage;
  }
  std::optional<SignalThread> signals;
  if (line.environment().handle_signals) signals.emplace(line.environment().interrupt);
  return RunUp(options, line.terminal(), line.environment().interrupt);
}

void AddCordon(CommandLine& line, CLI::App* worker, bool drain) {
  struct Flags {
    std::string name, reason;
  };
  const auto flags = std::make_shared<Flags>();
  const char* verb = drain ? "drain" : "cordon";
  CLI::App* command =
      line.AddCommand(worker, verb,
                      drain ? "Place nothing new on a worker, and move jobs that may be preempted"
                            : "Place nothing new on a worker",
                      [flags, drain](const Invocation& invocation) {
                        return CordonWorker(invocation, flags->name, flags->reason, drain);
                      },
                      {absl::StrCat("stretto worker ", verb, " worker-1"),
                       absl::StrCat("stretto worker ", verb, " worker-1 --reason 'new memory'")});
  command->add_option("WORKER", flags->name, "worker name")->required();
  command->add_option("--reason", flags->reason, "reason to show (default: by request)")
      ->type_name("TEXT");
}

}  // namespace

void AddUpCommand(CommandLine& line) {
  const auto flags = std::make_shared<UpOptions>();
  flags->user_state_dir = UserStateDir(line.environment().variable);
  flags->state_dir = flags->user_state_dir;
  flags->binary_dir = line.environment().binary_dir;
  CLI::App* up =
      line.AddLocal(line.root(), "up", "Run a local cluster in the foreground",
                    [&line, flags] { return Up(line, *flags); },
                    {"stretto up", "stretto up --workers 2 --slots 1 --state-dir /tmp/stretto"});
  up->add_option("--workers", flags->workers, "number of worker daemons")
      ->check(Integer(1, 64))
      ->capture_default_str();
  up->add_option("--slots", flags->slots,
                 "number of slots of each worker (default: cores / workers)")
      ->check(Integer(1, 4096));
  up->add_option("--listen", flags->listen,
                 "address of the coordinator, HOST:PORT; port 0 picks a free port")
      ->type_name("ADDRESS")
      ->capture_default_str();
  up->add_option("--metrics-listen", flags->metrics_listen,
                 "address of the coordinator's metrics, HOST:PORT; port 0 picks a free port")
      ->type_name("ADDRESS")
      ->capture_default_str();
  up->add_option(
        "--state-dir", flags->state_dir,
        "folder for state and logs (default: $XDG_STATE_HOME/stretto or ~/.local/state/stretto)")
      ->type_name("DIR");
  up->add_option("--data-root", flags->data_root, "folder with data sets (default: STATE_DIR/data)")
      ->type_name("DIR");
  up->add_option("--checkpoint-root", flags->checkpoint_root,
                 "folder for checkpoints (default: STATE_DIR/checkpoints)")
      ->type_name("DIR");
  up->add_flag("--no-tls", flags->no_tls,
               "use plain text, which everybody on this machine can use to run jobs");
}

void AddTopCommand(CommandLine& line) {
  const auto once = std::make_shared<bool>(false);
  line.AddCommand(line.root(), "top", "Show what the cluster does now; on a terminal, continuously",
                  [once](const Invocation& invocation) { return Top(invocation, *once); },
                  {"stretto top", "stretto top --once", "stretto top -o json | jq .slots"})
      ->add_flag("--once", *once, "print it once");
}

void AddWorkerCommands(CommandLine& line) {
  const auto name = std::make_shared<std::string>();
  CLI::App* worker = line.AddGroup("worker", "Show the workers of the cluster",
                                   {"stretto worker list", "stretto worker get worker-1"});
  line.AddCommand(worker, "list", "List workers",
                  [](const Invocation& invocation) { return ListWorkers(invocation); },
                  {"stretto worker list", "stretto worker list -o json"});
  line.AddCommand(worker, "get", "Show the details of a worker",
                  [name](const Invocation& invocation) { return GetWorker(invocation, *name); },
                  {"stretto worker get worker-1", "stretto worker get worker-1 -o yaml"})
      ->add_option("WORKER", *name, "worker name")
      ->required();
  AddCordon(line, worker, /*drain=*/false);
  AddCordon(line, worker, /*drain=*/true);
  line.AddCommand(
          worker, "uncordon", "Let a worker take work again",
          [name](const Invocation& invocation) { return UncordonWorker(invocation, *name); },
          {"stretto worker uncordon worker-1", "stretto worker uncordon worker-1 --context lab"})
      ->add_option("WORKER", *name, "worker name")
      ->required();
  line.AddCommand(worker, "forget", "Remove a LOST worker that will not come back",
                  [name](const Invocation& invocation) { return ForgetWorker(invocation, *name); },
                  {"stretto worker forget worker-1", "stretto worker forget worker-1 -o json"})
      ->add_option("WORKER", *name, "worker name")
      ->required();
}

void AddConfigCommands(CommandLine& line) {
  const auto name = std::make_shared<std::string>();
  const auto path = [&line] { return ConfigPath(line.environment().variable); };
  const auto add_name = [name](CLI::App* command) {
    command->add_option("CONTEXT", *name, "context name")->required();
  };
  CLI::App* config = line.AddGroup("config", "Manage contexts, which are names for clusters",
                                   {"stretto config set-context lab --coordinator lab-1:7070",
                                    "stretto config use-context lab"});
  line.AddLocal(config, "get-contexts", "List contexts",
                [&line, path] { return ListContexts(line.terminal(), path(), line.format()); },
                {"stretto config get-contexts", "stretto config get-contexts -o json"});
  add_name(line.AddLocal(
      config, "use-context", "Make a context the current one",
      [&line, path, name] { return UseContext(line.terminal(), path(), *name); },
      {"stretto config use-context lab", "stretto config use-context lab && stretto job list"}));
  add_name(line.AddLocal(
      config, "set-context", "Create or change a context, using --coordinator and the --tls flags",
      [&line, path, name] { return SetContext(line.terminal(), path(), *name, line.cluster()); },
      {"stretto config set-context lab --coordinator lab-1:7070",
       "stretto config set-context laptop --coordinator 127.0.0.1:7070"}));
  add_name(
      line.AddLocal(config, "delete-context", "Delete a context",
                    [&line, path, name] { return DeleteContext(line.terminal(), path(), *name); },
                    {"stretto config delete-context lab",
                     "stretto config get-contexts && stretto config delete-context lab"}));
  line.AddLocal(config, "view", "Print the config file",
                [&line, path] { return ViewConfig(line.terminal(), path(), line.format()); },
                {"stretto config view", "stretto config view -o json"});
}

}  // namespace stretto::cli
