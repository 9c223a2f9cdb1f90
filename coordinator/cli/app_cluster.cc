// The flags of `stretto up`, `stretto worker ...` and `stretto config ...`.
#include "coordinator/cli/app_tree.h"
#include "coordinator/cli/commands/config_commands.h"
#include "coordinator/cli/commands/worker_commands.h"

namespace stretto::cli {
namespace {

std::string DefaultStateDir(const AppEnvironment& environment) {
  const std::string state = environment.variable("XDG_STATE_HOME");
  if (!state.empty()) return state + "/stretto";
  const std::string home = environment.variable("HOME");
  return home.empty() ? ".stretto" : home + "/.local/state/stretto";
}

}  // namespace

void App::AddUp() {
  up_.state_dir = DefaultStateDir(environment_);
  up_.binary_dir = environment_.binary_dir;
  CLI::App* up =
      AddLocal(&app_, "up", "Run a local cluster in the foreground",
               [this] {
                 if (!cluster_.cluster.tls.empty()) {
                   terminal_.err << "error: `stretto up` has no TLS, its cluster listens on this "
                                    "machine alone; leave out --tls-ca, --tls-certificate and "
                                    "--tls-key\n";
                   return kUsage;
                 }
                 std::optional<SignalThread> signals;
                 if (environment_.handle_signals) signals.emplace(environment_.interrupt);
                 return RunUp(up_, terminal_, environment_.interrupt);
               },
               {"stretto up", "stretto up --workers 2 --slots 1 --state-dir /tmp/stretto"});
  up->add_option("--workers", up_.workers, "worker daemons")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  up->add_option("--slots", up_.slots, "slots of each worker; default cores / workers")
      ->check(CLI::Range(1, 4096));
  up->add_option("--listen", up_.listen, "HOST:PORT of the coordinator; port 0 is a free one")
      ->type_name("ADDRESS")
      ->capture_default_str();
  up->add_option("--metrics-listen", up_.metrics_listen, "HOST:PORT of its metrics")
      ->type_name("ADDRESS")
      ->capture_default_str();
  up->add_option("--state-dir", up_.state_dir,
                 "state and logs; default $XDG_STATE_HOME/stretto, else ~/.local/state/stretto")
      ->type_name("DIR");
  up->add_option("--data-root", up_.data_root, "data sets; default STATE_DIR/data")
      ->type_name("DIR");
  up->add_option("--checkpoint-root", up_.checkpoint_root,
                 "checkpoints; default STATE_DIR/checkpoints")
      ->type_name("DIR");
}

void App::AddWorker() {
  CLI::App* worker = AddGroup("worker", "Look at the cluster's workers",
                              {"stretto worker list", "stretto worker get worker-1"});
  AddCommand(worker, "list", "List workers", [](const Session& s) { return ListWorkers(s); },
             {"stretto worker list", "stretto worker list -o json"});
  AddName(AddCommand(worker, "get", "Show one worker",
                     [this](const Session& s) { return GetWorker(s, name_); },
                     {"stretto worker get worker-1", "stretto worker get worker-1 -o yaml"}),
          "WORKER");
}

void App::AddConfig() {
  CLI::App* config = AddGroup("config", "Name clusters, and choose one",
                              {"stretto config set-context lab --coordinator lab-1:7070",
                               "stretto config use-context lab"});
  const auto path = [this] { return ConfigPath(environment_.variable); };
  AddLocal(config, "get-contexts", "List contexts",
           [this, path] { return ListContexts(terminal_, path(), format()); },
           {"stretto config get-contexts", "stretto config get-contexts -o json"});
  AddName(AddLocal(config, "use-context", "Talk to that cluster from now on",
                   [this, path] { return UseContext(terminal_, path(), name_); },
                   {"stretto config use-context lab",
                    "stretto config use-context lab && stretto job list"}),
          "CONTEXT");
  AddName(
      AddLocal(config, "set-context", "Make or change a context, by the flags that name a cluster",
               [this, path] { return SetContext(terminal_, path(), name_, cluster_.cluster); },
               {"stretto config set-context lab --coordinator lab-1:7070",
                "stretto config set-context laptop --coordinator 127.0.0.1:7070"}),
      "CONTEXT");
  AddName(AddLocal(config, "delete-context", "Forget a context",
                   [this, path] { return DeleteContext(terminal_, path(), name_); },
                   {"stretto config delete-context lab",
                    "stretto config get-contexts && stretto config delete-context lab"}),
          "CONTEXT");
  AddLocal(config, "view", "Print the config file as it is understood",
           [this, path] { return ViewConfig(terminal_, path(), format()); },
           {"stretto config view", "stretto config view -o json"});
}

}  // namespace stretto::cli
