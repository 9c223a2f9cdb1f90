// SPDX-License-Identifier: Apache-2.0

// stretto-worker: the daemon of one node. `stretto-worker --help` lists its flags.

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "proto/base/clock.h"
#include "proto/base/files.h"
#include "proto/base/log.h"
#include "proto/base/version.h"
#include "spdlog/spdlog.h"
#include "worker/daemon/daemon.h"

namespace {

using stretto::FileDescriptor;
using stretto::daemon::Daemon;
using stretto::daemon::DaemonOptions;

struct Flags {
  DaemonOptions daemon;
  double lease_s = 15;
  double stop_grace_s = 10;
  double metrics_retention_s = 300;
  bool detach_on_exit = false;
};

void AddFlags(CLI::App& app, Flags& flags) {
  DaemonOptions& daemon = flags.daemon;
  app.set_version_flag("--version", stretto::kBuildVersion);
  app.add_option("--coordinator", daemon.coordinator,
                 "address of the coordinator, HOST:PORT, or of several, separated by commas, of "
                 "which one leads")
      ->required();
  app.add_option("--state-dir", daemon.state_dir,
                 "folder for the state of this daemon, which no other daemon may use")
      ->required();
  app.add_option("--name", daemon.name,
                 "name of this worker (default: derived from the host name)");
  app.add_option(
      "--host", daemon.host,
      "host name of this node, for containers whose own host name differs (default: the system's)");
  app.add_option("--slots", daemon.slots,
                 "maximum number of trainers at a time, one core each (default: all cores)");
  app.add_option("--nvml", daemon.nvml_library,
                 "path of the NVIDIA management library; \"\" offers no GPUs (default: "
                 "libnvidia-ml.so.1)");
  app.add_option("--data-root", daemon.data_root,
                 "folder with data sets (default: STATE_DIR/data)");
  app.add_option("--checkpoint-root", daemon.checkpoint_root,
                 "folder for checkpoints (default: STATE_DIR/checkpoints)");
  app.add_option(
      "--metrics-listen", daemon.metrics_listen,
      "address of /metrics, /healthz and /readyz, HOST:PORT (default: 127.0.0.1:0, a free port)");
  app.add_option("--trainer", daemon.trainer_binary,
                 "trainer program (default: stretto-trainer beside this program)");
  app.add_option("--max-trainer-log-bytes", daemon.max_log_bytes,
                 "bytes of its log that a trainer may have on disk; beyond them, the middle of the "
                 "log is dropped (default: 67108864)");
  app.add_option("--interface", daemon.interface_address,
                 "address on which trainers exchange tensors, unencrypted (default: 127.0.0.1)");
  app.add_option("--lease", flags.lease_s,
                 "seconds that a trainer continues without this daemon (default: 15)");
  app.add_option("--stop-grace", flags.stop_grace_s,
                 "seconds between asking a trainer to stop and killing it (default: 10)");
  app.add_option("--metrics-retention", flags.metrics_retention_s,
                 "seconds that the metrics of a job remain after its end (default: 300)");
  app.add_flag("--detach-on-exit", flags.detach_on_exit,
               "leave trainers running on SIGTERM, for the next daemon to adopt");
  app.add_flag(
      "--join-new-cluster", daemon.join_new_cluster,
      "accept a coordinator of another cluster than before; trainers that it does not know "
      "are stopped with a checkpoint");
  app.add_flag(
      "--insecure-listen-beyond-loopback", daemon.insecure_beyond_loopback,
      "allow addresses that other machines can reach, without encryption or authentication");
  app.add_flag(
      "--insecure-metrics-beyond-loopback", daemon.insecure_metrics_beyond_loopback,
      "allow such an address for --metrics-listen; anyone who can reach it can read the metrics");
  app.add_flag("--insecure-tensors-beyond-loopback", daemon.insecure_tensors_beyond_loopback,
               "allow such an address for --interface; anyone on that network can read tensors and "
               "disturb training");
  app.add_option("--tls-ca", daemon.tls.ca,
                 "PEM file with the CA that signed the certificate of the coordinator");
  app.add_option("--tls-certificate", daemon.tls.certificate,
                 "PEM file with the certificate of this worker, which must have the role worker");
  app.add_option(
      "--tls-key", daemon.tls.key,
      "PEM file with the private key of that certificate; the three --tls flags enable TLS to "
      "the coordinator, and their files are read again when they change");
}

void AddFlagsOfTrainers(CLI::App& app, stretto::daemon::RightsOptions& rights) {
  app.add_option("--trainer-user", rights.user,
                 "user that trainers run as, NAME, UID or UID:GID, if this daemon runs as root "
                 "(default: user stretto if it can use the folders, else root)");
  app.add_option("--max-trainer-threads", rights.threads,
                 "threads of a trainer and what it starts, where it has a control group or a user "
                 "of its own (default: 4096)");
  app.add_option("--max-trainer-files", rights.open_files,
                 "files and connections that a trainer may have open (default: 65536)");
  app.add_option("--max-trainer-memory-bytes", rights.memory_bytes,
                 "memory of a trainer, which takes control groups (default: 0, no limit)");
  app.add_option("--trainer-groups", rights.groups,
                 "folder of a control group (version 2) in which each trainer gets one, or none "
                 "(default: auto, the group that contains this daemon's if that can be changed)");
  app.add_flag("--trainer-core-dumps", rights.core_dumps,
               "let a trainer that crashes write a core dump, which contains weights and data");
  app.add_flag("--insecure-trainer-calls", rights.all_calls,
               "start trainers without the filter that refuses system calls which no trainer "
               "needs, for debuggers and profilers");
}

// Blocks the signals in every thread and returns a descriptor to read them from.
FileDescriptor TakeSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return FileDescriptor(::signalfd(-1, &set, SFD_CLOEXEC));
}

// Runs until a signal (exit code 0) or a refusal (1).
int Serve(Daemon& daemon, const FileDescriptor& signals, bool detach_on_exit) {
  bool announced = false;
  while (true) {
    pollfd descriptors[] = {{signals.get(), POLLIN, 0}, {daemon.event_fd(), POLLIN, 0}};
    if (::poll(descriptors, 2, -1) < 0) continue;
    if (descriptors[1].revents != 0) {
      eventfd_t count = 0;
      ::eventfd_read(daemon.event_fd(), &count);
      if (const std::optional<absl::Status> refusal = daemon.refusal()) {
        std::fprintf(stderr, "stretto-worker: %s\n", std::string(refusal->message()).c_str());
        return 1;
      }
      if (daemon.registered() && !announced) {
        announced = true;
        std::printf("ready worker=%s metrics=%d\n", daemon.name().c_str(), daemon.metrics_port());
        std::fflush(stdout);
      }
    }
    if (descriptors[0].revents == 0) continue;
    signalfd_siginfo info;
    [[maybe_unused]] const ssize_t n = ::read(signals.get(), &info, sizeof(info));
    spdlog::info("worker daemon ends signal={} detach={}", info.ssi_signo, detach_on_exit);
    if (!detach_on_exit) daemon.StopTrainers();
    return 0;
  }
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Stretto worker daemon: runs trainers on this node for a coordinator.");
  AddFlags(app, flags);
  AddFlagsOfTrainers(app, flags.daemon.rights);
  CLI11_PARSE(app, argc, argv);
  flags.daemon.lease = absl::Seconds(flags.lease_s);
  flags.daemon.stop_grace = absl::Seconds(flags.stop_grace_s);
  flags.daemon.metrics_retention = absl::Seconds(flags.metrics_retention_s);

  ::umask(0027);
  stretto::InitLogging("stretto-worker");
  const FileDescriptor signals = TakeSignals();
  absl::StatusOr<std::unique_ptr<Daemon>> daemon =
      Daemon::Start(flags.daemon, stretto::Clock::Real());
  if (!daemon.ok()) {
    std::fprintf(stderr, "stretto-worker: %s\n", std::string(daemon.status().message()).c_str());
    return 1;
  }
  return Serve(**daemon, signals, flags.detach_on_exit);
}
