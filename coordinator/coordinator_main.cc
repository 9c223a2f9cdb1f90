// SPDX-License-Identifier: Apache-2.0

// stretto-coordinator, the daemon that manages the jobs, and what is done to its state beside it.
// With its state in etcd it serves only while it leads (standby/).
// Exit codes: 0 stopped on request, or done; 1 cannot start, may not lead any more, or nothing was
// done; 2 bad command line; 3 repaired, and records were lost.

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/flags/etcd_flags.h"
#include "coordinator/flags/limit_flags.h"
#include "coordinator/flags/retention_flags.h"
#include "coordinator/flags/tls_flags.h"
#include "coordinator/flags/waiting_flags.h"
#include "coordinator/front/front.h"
#include "coordinator/page/network_page.h"
#include "coordinator/page/page.h"
#include "coordinator/service/reachable.h"
#include "coordinator/service/server.h"
#include "coordinator/standby/standby.h"
#include "coordinator/store/backup.h"
#include "coordinator/store/job_store.h"
#include "coordinator/store/repair.h"
#include "coordinator/telemetry/telemetry.h"
#include "proto/base/address.h"
#include "proto/base/clock.h"
#include "proto/base/files.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"
#include "proto/base/version.h"
#include "proto/commands/ranges.h"
#include "proto/monitoring/monitoring_server.h"

namespace stretto {
namespace {

constexpr int kRecordsLost = 3;

struct Options {
  service::ServerOptions server;
  coordinator::EtcdFlags etcd;
  std::string metrics_listen = "127.0.0.1:9090";
  std::string page_listen;  // empty: the page is at metrics_listen alone
  std::string state_dir;
  bool insecure_metrics_beyond_loopback = false;
  double lease_seconds = 10;
  double lost_rank_seconds = 5;
  double lost_run_seconds = 300;
  double hang_seconds = 20;
  double stop_grace_seconds = 10;
  bool restored = false, repair = false;
  std::string backup;
  std::string move_to;  // "etcd" or "database"; empty: no move
  coordinator::Retention retention;
  double leader_lease_seconds = 4;
  std::vector<std::string> quotas;
};

// $XDG_STATE_HOME/stretto/coordinator, where that is ~/.local/state when unset.
std::string DefaultStateDir() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && state[0] == '/') return absl::StrCat(state, "/stretto/coordinator");
  const char* home = std::getenv("HOME");
  return absl::StrCat(home != nullptr ? home : "", "/.local/state/stretto/coordinator");
}

absl::Status CreateStateDir(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return absl::OkStatus();
  return ErrnoStatus(error.value(), absl::StrCat("--state-dir: create ", folder));
}

std::string DatabaseIn(const std::string& state_dir) {
  return absl::StrCat(state_dir, "/coordinator.db");
}

std::string LockIn(const std::string& state_dir) { return absl::StrCat(state_dir, "/lock"); }

// Locks the folder for the lifetime of the returned descriptor.
absl::StatusOr<FileDescriptor> LockStateDir(const std::string& folder) {
  const std::string path = LockIn(folder);
  FileDescriptor lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return ErrnoStatus(errno, absl::StrCat("--state-dir: open ", path));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    const auto holder = ReadFile(path);
    return absl::FailedPreconditionError(
        absl::StrCat("--state-dir: ", folder, " is in use by the coordinator with pid ",
                     holder.ok() ? absl::StripTrailingAsciiWhitespace(*holder) : "unknown",
                     "; expected a separate folder for each coordinator"));
  }
  if (ftruncate(lock.get(), 0) != 0) return ErrnoStatus(errno, absl::StrCat("truncate ", path));
  RETURN_IF_ERROR(WriteAll(lock.get(), absl::StrCat(getpid(), "\n"), path));
  return lock;
}

absl::Status CheckMetricsListen(const Options& options) {
  const absl::StatusOr<Address> address = ParseAddress(options.metrics_listen);
  if (!address.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics-listen: ", address.status().message()));
  }
  if (IsLoopback(*address) || options.insecure_metrics_beyond_loopback ||
      options.server.insecure_listen_beyond_loopback) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "--metrics-listen: found ", options.metrics_listen,
      ", expected a loopback address: anyone who can reach this port can read the metrics. "
      "--insecure-metrics-beyond-loopback allows it"));
}

// Returns the exit code.
absl::StatusOr<int> Repair(const Options& options) {
  ASSIGN_OR_RETURN(const FileDescriptor lock, LockStateDir(options.state_dir));
  ASSIGN_OR_RETURN(const coordinator::RepairReport report,
                   coordinator::RepairSqliteStore(DatabaseIn(options.state_dir)));
  std::fputs(report.Text().c_str(), stdout);
  return report.lost_any() ? kRecordsLost : 0;
}

// The coordinator may run meanwhile.
absl::Status BackUp(const Options& options) {
  ASSIGN_OR_RETURN(const coordinator::BackupReport report,
                   coordinator::BackUpSqliteStore(DatabaseIn(options.state_dir), options.backup,
                                                  LockIn(options.state_dir)));
  std::printf("backed up %s jobs and %s workers to %s, %s bytes\n",
              absl::StrCat(report.jobs).c_str(), absl::StrCat(report.workers).c_str(),
              options.backup.c_str(), absl::StrCat(report.bytes).c_str());
  return absl::OkStatus();
}

absl::Status Move(const Options& options) {
  RETURN_IF_ERROR(CreateStateDir(options.state_dir));
  ASSIGN_OR_RETURN(const FileDescriptor lock, LockStateDir(options.state_dir));
  const std::string path = DatabaseIn(options.state_dir);
  const bool to_etcd = options.move_to == "etcd";
  ASSIGN_OR_RETURN(const coordinator::MoveReport report,
                   coordinator::MoveState(options.etcd, options.state_dir, path, to_etcd));
  const std::string etcd = absl::StrCat(options.etcd.prefix, " in etcd");
  std::printf("moved %s jobs and %s workers of cluster %s to %s; the earlier state is left in %s\n",
              absl::StrCat(report.jobs).c_str(), absl::StrCat(report.workers).c_str(),
              report.cluster_id.c_str(), (to_etcd ? etcd : path).c_str(), report.left.c_str());
  return absl::OkStatus();
}

// Blocked before any thread starts, so that all threads inherit the mask and only sigwait sees the
// signals.
sigset_t BlockStopSignals() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return stop;
}

absl::Status Run(const Options& options, telemetry::Telemetry& telemetry) {
  const sigset_t stop = BlockStopSignals();
  service::RaiseDescriptorLimit();
  const bool in_etcd = !options.etcd.endpoints.empty();
  RETURN_IF_ERROR(CheckMetricsListen(options));
  if (in_etcd) RETURN_IF_ERROR(CheckEtcdFlags(options.etcd));
  RETURN_IF_ERROR(CreateStateDir(options.state_dir));
  ASSIGN_OR_RETURN(const FileDescriptor lock, LockStateDir(options.state_dir));
  std::unique_ptr<coordinator::Leader> leader;  // outlives the store
  std::unique_ptr<coordinator::JobStore> store;
  if (!in_etcd) {
    RETURN_IF_ERROR(
        coordinator::CheckIsNotInEtcd(options.state_dir, DatabaseIn(options.state_dir)));
    ASSIGN_OR_RETURN(store, coordinator::OpenSqliteStore(DatabaseIn(options.state_dir)));
  }
  monitoring::Readiness readiness(absl::UnavailableError("starting"));
  const auto ready = [&]() -> absl::Status {
    RETURN_IF_ERROR(readiness.Get());
    return telemetry.LastCommit();
  };
  service::Reachable reachable;
  const absl::Status access = page::PageAccess(options.server, options.metrics_listen);
  std::string page_key;
  if (access.ok() && !options.server.tls.empty()) {
    ASSIGN_OR_RETURN(page_key, page::PageKey(options.state_dir + "/page.key"));
  }
  page::Page page(access, page_key);
  ASSIGN_OR_RETURN(const auto monitoring,
                   monitoring::MonitoringServer::Start(
                       options.metrics_listen,
                       {.metrics = [&] { return telemetry.Text(); },
                        .ready = ready,
                        .healthy = [&] { return reachable.Probe(); },
                        .page = [&](const auto& request) { return page.Get(request); }}));
  std::unique_ptr<page::NetworkPage> network_page;  // may be null
  if (!options.page_listen.empty()) {
    ASSIGN_OR_RETURN(network_page, page::NetworkPage::Start(options.page_listen, options.server));
  }
  const auto show = [&](const std::shared_ptr<service::Reader>& reader) {
    page.Show(reader);
    if (network_page != nullptr) network_page->Show(reader);
  };
  service::ServerOptions server_options = options.server;
  if (in_etcd) {
    ASSIGN_OR_RETURN(
        leader, coordinator::AwaitLeadership(options.etcd, options.server, options.state_dir, stop,
                                             readiness, [&](int port) {
                                               std::printf("standby grpc=%d metrics=%d\n", port,
                                                           monitoring->port());
                                               std::fflush(stdout);
                                             }));
    if (leader == nullptr) return absl::OkStatus();  // asked to stop
    store = std::move(leader->store);
    server_options.listen = leader->listen;
    server_options.guard = [&leader] { leader->Guard(); };
  }
  if (options.restored) {
    ASSIGN_OR_RETURN(const Epoch epoch, coordinator::SkipEpochs(*store));
    spdlog::warn("state was restored from a copy: epochs continue after {}", epoch.value());
  }
  ASSIGN_OR_RETURN(auto server, service::Server::Start(server_options, std::move(store),
                                                       Clock::Real(), telemetry));
  reachable.Set(server.get());
  show(server->reader());
  readiness.Set(absl::OkStatus());
  std::printf("listening grpc=%d metrics=%d%s\n", server->port(), monitoring->port(),
              network_page == nullptr ? "" : absl::StrCat(" page=", network_page->port()).c_str());
  std::fflush(stdout);
  spdlog::info("ready build={} grpc={} metrics={} tls={} state_dir={} etcd={}", kBuildVersion,
               server->port(), monitoring->port(), !options.server.tls.empty(), options.state_dir,
               in_etcd ? options.etcd.endpoints : "no");
  int signal = 0;
  sigwait(&stop, &signal);
  spdlog::info("stopping signal={}", signal);
  readiness.Set(absl::UnavailableError("shutting down"));
  reachable.Set(nullptr);
  show(nullptr);
  server->Shutdown();
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Options options;
  options.state_dir = DefaultStateDir();
  CLI::App app("stretto-coordinator accepts jobs and places them on workers.");
  app.set_version_flag("--version", kBuildVersion);
  app.add_option("--listen", options.server.listen,
                 "address for gRPC, HOST:PORT; port 0 picks a free port")
      ->capture_default_str();
  app.add_option(
         "--metrics-listen", options.metrics_listen,
         "address of the page, /metrics, /healthz and /readyz, HOST:PORT; port 0 picks a free "
         "port")
      ->capture_default_str();
  app.add_option("--state-dir", options.state_dir, "folder for the job database")
      ->capture_default_str();
  app.add_option("--audit-log", options.server.audit_log,
                 "file with a line for every call that changes something (default: audit.log in "
                 "--state-dir)");
  app.add_option("--lease", options.lease_seconds,
                 "seconds without a heartbeat after which a worker is LOST")
      ->check(Number(1, 3600))
      ->capture_default_str();
  app.add_option(
         "--lost-rank-timeout", options.lost_rank_seconds,
         "seconds to wait for the ranks of a LOST worker while their job makes no steps, where it "
         "can start again on other workers")
      ->check(Number(1, 86400))
      ->capture_default_str();
  app.add_option("--lost-run-timeout", options.lost_run_seconds,
                 "seconds to wait instead where the job cannot start again on other workers")
      ->check(Number(1, 86400))
      ->capture_default_str();
  app.add_option("--hang-timeout", options.hang_seconds,
                 "seconds without a move of any rank, or a sign of life of one, after which a job "
                 "hangs")
      ->check(Number(1, 86400))
      ->capture_default_str();
  app.add_option("--stop-grace", options.stop_grace_seconds,
                 "seconds that ranks have to write a checkpoint when their job is stopped")
      ->check(Number(1, 3600))
      ->capture_default_str();
  app.add_flag(
      "--restored", options.restored,
      "continue on a --state-dir, or an etcd, that is an older copy: skips the epochs that "
      "workers may know. Give it once, after restoring");
  CLI::Option* const repair =
      app.add_flag("--repair", options.repair,
                   "instead of starting, replace a damaged job database by one with every record "
                   "that is whole, list what was kept and lost, and keep the damaged one aside. "
                   "Exit code 3 if records were lost, 0 if none were");
  app.add_option("--backup", options.backup,
                 "instead of starting, copy the job database to this new file, also while a "
                 "coordinator uses it")
      ->excludes(repair);
  coordinator::AddEtcdFlags(app, options.etcd);
  app.add_option("--move-state", options.move_to,
                 "instead of starting, move the whole state from the database in --state-dir to "
                 "etcd (etcd) or back (database), while no coordinator runs; the target must be "
                 "empty")
      ->type_name("WHERE")
      ->check(CLI::IsMember({"etcd", "database"}))
      ->needs("--etcd-endpoints")
      ->excludes("--repair")
      ->excludes("--backup");
  app.add_option("--leader-lease", options.leader_lease_seconds,
                 "seconds after which others take over from a leader that etcd does not hear")
      ->check(Number(2, 60))
      ->capture_default_str();
  service::AddLimitFlags(app, options.server.limits);
  coordinator::AddRetentionFlags(app, options.retention);
  app.add_option("--quota", options.quotas,
                 "what a project may have at once, as PROJECT:devices=N,queued=N: slots that its "
                 "jobs hold, and jobs that wait; give it once for each project. With any quota, a "
                 "project without one may submit nothing")
      ->type_name("QUOTA");
  coordinator::AddWaitingFlags(app, options.server.core);
  app.add_flag("--insecure-listen-beyond-loopback", options.server.insecure_listen_beyond_loopback,
               "allow --listen on an address that other machines can reach, without encryption or "
               "authentication");
  app.add_flag(
      "--insecure-metrics-beyond-loopback", options.insecure_metrics_beyond_loopback,
      "allow --metrics-listen on an address that other machines can reach; metrics are not "
      "encrypted, and anyone who can reach the port can read them");
  service::AddTlsFlags(app, options.server, options.page_listen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.server.core.lease = absl::Seconds(options.lease_seconds);
  options.server.core.lost_rank_timeout = absl::Seconds(options.lost_rank_seconds);
  options.server.core.lost_run_timeout = absl::Seconds(options.lost_run_seconds);
  options.server.core.hang.still = absl::Seconds(options.hang_seconds);
  // With a heartbeat, a worker also looks at the positions of its ranks, whatever the lease is.
  options.server.core.heartbeat_interval =
      std::min(options.server.core.lease / 5, absl::Seconds(2));
  options.server.core.stop_grace = absl::Seconds(options.stop_grace_seconds);
  options.etcd.leader_lease = absl::Seconds(options.leader_lease_seconds);
  coordinator::SetRetention(options.retention, &options.server.core);
  const absl::StatusOr<coordinator::Quotas> quotas = coordinator::ParseQuotas(options.quotas);
  if (!quotas.ok()) {
    std::fprintf(stderr, "--quota: %s\n", std::string(quotas.status().message()).c_str());
    return 2;
  }
  options.server.core.quotas = *quotas;
  if (options.server.audit_log.empty()) {
    options.server.audit_log = absl::StrCat(options.state_dir, "/audit.log");
  }
  InitLogging("stretto-coordinator");
  // gRPC would log, in a format of its own, what we report ourselves.
  setenv("GRPC_VERBOSITY", "NONE", 0);
  // Debian's Abseil looks for deadlocks whenever gRPC locks: a tenth of the time of a heartbeat.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  telemetry::Telemetry telemetry;
  absl::StatusOr<int> exit_code = 0;
  const auto task = [&] {
    if (!options.backup.empty()) return BackUp(options);
    return options.move_to.empty() ? Run(options, telemetry) : Move(options);
  };
  if (options.repair) {
    exit_code = Repair(options);
  } else if (const absl::Status done = task(); !done.ok()) {
    exit_code = done;
  }
  if (const absl::Status& status = exit_code.status(); !status.ok()) {
    std::fprintf(stderr, "stretto-coordinator: %s\n", std::string(status.message()).c_str());
  }
  // Run has closed everything that matters.
  std::fflush(nullptr);
  std::_Exit(exit_code.ok() ? *exit_code : 1);
}

}  // namespace
}  // namespace stretto

int main(int argc, char** argv) { return stretto::Main(argc, argv); }
