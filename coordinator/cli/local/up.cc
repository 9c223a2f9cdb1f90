// SPDX-License-Identifier: Apache-2.0

// Cluster makes the certificates that are missing. It starts one child after the other and waits
// for the line in which each reports its addresses. Then one poll waits on all children's output,
// their ends and the interrupt.

#include "coordinator/cli/local/up.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <list>
#include <map>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "coordinator/cli/base/local_cluster.h"
#include "coordinator/cli/local/affinity.h"
#include "coordinator/cli/local/child_process.h"
#include "coordinator/cli/local/up_certificates.h"
#include "coordinator/cli/text/table.h"
#include "proto/base/clock.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"

namespace stretto::cli {
namespace {

constexpr int kTailLines = 15, kMostKeyBytes = 256;
constexpr int kOrphanGraceSeconds = 5;
constexpr char kDefaultAddress[] = "127.0.0.1:7070";

// "listening grpc=1 metrics=2" -> {grpc: 1, metrics: 2}
std::map<std::string, std::string> Facts(const std::string& line) {
  std::map<std::string, std::string> facts;
  for (const absl::string_view word : absl::StrSplit(line, ' ')) {
    const std::pair<std::string, std::string> fact = absl::StrSplit(word, absl::MaxSplits('=', 1));
    if (!fact.second.empty()) facts.insert(fact);
  }
  return facts;
}

std::string Host(const std::string& address) { return address.substr(0, address.rfind(':')); }

class Cluster {
 public:
  Cluster(const UpOptions& options, Terminal& terminal, Interrupt& interrupt)
      : options_(options), terminal_(terminal), interrupt_(interrupt) {}

  // Starts everything and announces it. Errors name what did not start; Cancelled when interrupted.
  absl::Status Start() {
    RETURN_IF_ERROR(PrepareFolders());
    if (!options_.no_tls) {
      RETURN_IF_ERROR(PrepareCertificates(CertificateFolder(), options_.listen, options_.workers,
                                          Clock::Real().Now()));
    }
    RETURN_IF_ERROR(StartCoordinator());
    RETURN_IF_ERROR(StartWorkers());
    RETURN_IF_ERROR(WriteTargets());
    Announce();
    return absl::OkStatus();
  }

  // Runs until interrupted (OK) or until a child ends by itself.
  absl::Status Run() {
    while (!interrupt_.raised()) {
      Poll(absl::Minutes(1));
      RETURN_IF_ERROR(CheckChildren());
    }
    return absl::OkStatus();
  }

  void Stop() {
    if (children_.size() > 1) StopChildren(std::next(children_.begin()), children_.end());
    StopChildren(children_.begin(), children_.end());
    if (announced_.valid()) WithdrawLocalCluster(options_.user_state_dir, announced_port_);
    announced_ = FileDescriptor();
    const int orphans = EndOrphans(kOrphanGraceSeconds);
    if (orphans > 0)
      terminal_.err << "ended " << orphans << (orphans == 1 ? " process" : " processes")
                    << " that the workers left behind\n";
  }

 private:
  using Iterator = std::list<ChildProcess>::iterator;

  absl::Status PrepareFolders() {
    for (const std::string& folder : {LogFolder(), options_.data_root, options_.checkpoint_root}) {
      std::error_code error;
      std::filesystem::create_directories(folder, error);
      if (error) return ErrnoStatus(error.value(), absl::StrCat("create ", folder));
    }
    const std::string path = options_.state_dir + "/up.lock";
    lock_ = FileDescriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!lock_.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
    if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("state folder ", options_.state_dir,
                       " is in use by another `stretto up`; choose another with --state-dir"));
    }
    return absl::OkStatus();
  }

  std::string LogFolder() const { return options_.state_dir + "/logs"; }
  std::string CertificateFolder() const { return options_.state_dir + "/tls"; }

  // `holder`: of its certificate.
  absl::Status StartChild(const std::string& name, const std::string& holder,
                          std::vector<std::string> arguments) {
    if (!options_.no_tls) {
      const std::string base = absl::StrCat(CertificateFolder(), "/", holder);
      arguments.insert(arguments.end(),
                       {"--tls-ca", CertificateFolder() + "/ca.crt", "--tls-certificate",
                        base + ".crt", "--tls-key", base + ".key"});
    }
    arguments.front() = absl::StrCat(options_.binary_dir, "/", arguments.front());
    ASSIGN_OR_RETURN(
        ChildProcess child,
        ChildProcess::Start(name, arguments, absl::StrCat(LogFolder(), "/", name, ".log")));
    children_.push_back(std::move(child));
    return absl::OkStatus();
  }

  absl::Status StartCoordinator() {
    RETURN_IF_ERROR(
        StartChild("coordinator", "coordinator",
                   {"stretto-coordinator", "--listen", options_.listen, "--metrics-listen",
                    options_.metrics_listen, "--state-dir", options_.state_dir + "/coordinator"}));
    std::string line;
    RETURN_IF_ERROR(Await(children_.front(), "listening ", &line));
    const auto facts = Facts(line);
    if (!facts.count("grpc") || !facts.count("metrics")) {
      return absl::InternalError(absl::StrCat("coordinator: found \"", line,
                                              "\", expected \"listening grpc=PORT metrics=PORT\""));
    }
    address_ = absl::StrCat(Host(options_.listen), ":", facts.at("grpc"));
    int port = 0;
    if (!options_.no_tls && absl::SimpleAtoi(facts.at("grpc"), &port)) {
      // Without a home that can be written, a shell has to name the certificates.
      absl::StatusOr<FileDescriptor> announced =
          AnnounceLocalCluster(options_.user_state_dir, port, CertificateFolder());
      if (announced.ok()) announced_ = *std::move(announced);
      announced_port_ = port;
    }
    rows_.push_back(
        {"coordinator", address_, MetricsUrl(Host(options_.metrics_listen), facts.at("metrics"))});
    return absl::OkStatus();
  }

  absl::Status StartWorkers() {
    for (int i = 1; i <= options_.workers; ++i) {
      const std::string name = absl::StrCat("worker-", i);
      const CoreShare cores(i - 1, options_.slots);
      std::vector<std::string> argv = {"stretto-worker",
                                       "--coordinator",
                                       address_,
                                       "--name",
                                       name,
                                       "--slots",
                                       absl::StrCat(options_.slots),
                                       "--state-dir",
                                       absl::StrCat(options_.state_dir, "/", name),
                                       "--data-root",
                                       options_.data_root,
                                       "--checkpoint-root",
                                       options_.checkpoint_root,
                                       "--metrics-listen",
                                       "127.0.0.1:0"};
      // The first worker offers all GPUs of the machine.
      if (i > 1) argv.insert(argv.end(), {"--nvml", ""});
      RETURN_IF_ERROR(StartChild(name, "worker-" + name, argv));
    }
    for (auto child = std::next(children_.begin()); child != children_.end(); ++child) {
      std::string line;
      RETURN_IF_ERROR(Await(*child, "ready ", &line));
      const auto facts = Facts(line);
      rows_.push_back(
          {child->name(), absl::StrCat(options_.slots, options_.slots == 1 ? " slot" : " slots"),
           MetricsUrl("127.0.0.1", facts.count("metrics") ? facts.at("metrics") : "?")});
    }
    return absl::OkStatus();
  }

  static std::string MetricsUrl(const std::string& host, const std::string& port) {
    return absl::StrCat("http://", host, ":", port, "/metrics");
  }

  // Writes a file for Prometheus's file_sd_configs; deploy/local/observe.sh reads it.
  absl::Status WriteTargets() const {
    std::vector<std::string> targets;
    for (const std::vector<std::string>& row : rows_) {
      const absl::string_view url = absl::StripSuffix(row[2], "/metrics");
      targets.push_back(absl::StrCat("\"", absl::StripPrefix(url, "http://"), "\""));
    }
    return WriteFileAtomic(options_.state_dir + "/prometheus-targets.json",
                           absl::StrCat("[{\"targets\": [", absl::StrJoin(targets, ", "), "]}]\n"));
  }

  // Waits for the child's ready line.
  absl::Status Await(ChildProcess& child, const std::string& prefix, std::string* line) {
    const absl::Duration deadline = Clock::Real().Monotonic() + options_.start_timeout;
    while (true) {
      if (const auto found = child.FindLine(prefix)) {
        *line = *found;
        return absl::OkStatus();
      }
      RETURN_IF_ERROR(CheckChildren());
      if (interrupt_.raised()) return absl::CancelledError("interrupted");
      const absl::Duration left = deadline - Clock::Real().Monotonic();
      if (left <= absl::ZeroDuration()) {
        return absl::DeadlineExceededError(absl::StrCat(
            child.name(), " was not ready within ", stretto::FormatDuration(options_.start_timeout),
            "; the last lines of ", child.log_path(), ":\n", child.LogTail(kTailLines)));
      }
      Poll(left);
    }
  }

  // Sleeps until a child writes or ends, or the user interrupts, and records what happened.
  void Poll(absl::Duration timeout) {
    std::vector<pollfd> fds = {{interrupt_.fd(), POLLIN, 0}};
    for (const ChildProcess& child : children_) {
      if (!child.running()) continue;
      fds.push_back({child.exit_fd(), POLLIN, 0});
      if (child.output_fd() >= 0) fds.push_back({child.output_fd(), POLLIN, 0});
    }
    const int64_t timeout_ms = absl::ToInt64Milliseconds(timeout) + 1;
    poll(fds.data(), fds.size(), static_cast<int>(std::min<int64_t>(timeout_ms, 60'000)));
    if (fds[0].revents != 0) {
      uint64_t count;
      if (read(interrupt_.fd(), &count, sizeof count) < 0) count = 0;
    }
    for (ChildProcess& child : children_) {
      if (!child.running()) continue;
      child.ReadOutput();
      child.Reap();
    }
  }

  absl::Status CheckChildren() const {
    for (const ChildProcess& child : children_) {
      if (child.running()) continue;
      return absl::AbortedError(absl::StrCat(child.name(), " (pid ", child.pid(), ") ",
                                             child.ExitText(), "; the last lines of ",
                                             child.log_path(), ":\n", child.LogTail(kTailLines)));
    }
    return absl::OkStatus();
  }

  void StopChildren(Iterator begin, Iterator end) {
    const auto running = [&] {
      return std::any_of(begin, end, [](const ChildProcess& child) { return child.running(); });
    };
    for (auto child = begin; child != end; ++child) child->Signal(SIGTERM);
    const int interrupts = interrupt_.count();
    const absl::Duration deadline = Clock::Real().Monotonic() + options_.stop_grace;
    bool killed = false;
    while (running()) {
      const absl::Duration left = deadline - Clock::Real().Monotonic();
      if (!killed && (left <= absl::ZeroDuration() || interrupt_.count() > interrupts)) {
        killed = true;
        for (auto child = begin; child != end; ++child) {
          if (child->running()) terminal_.err << "killing " << child->name() << "\n";
          child->Signal(SIGKILL);
        }
      }
      Poll(killed ? absl::Seconds(1) : left);
    }
  }

  // A browser that has been there with the key keeps it.
  std::string PageAddress() const {
    const absl::string_view page = absl::StripSuffix(rows_[0][2], "metrics");
    const absl::StatusOr<std::string> key =
        ReadSmallFile(options_.state_dir + "/coordinator/page.key", kMostKeyBytes);
    if (options_.no_tls || !key.ok()) return std::string(page);
    return absl::StrCat(page, "#key=", absl::StripAsciiWhitespace(*key));
  }

  void Announce() {
    std::ostream& out = terminal_.out;
    out << "Stretto is up. Ctrl-C stops everything.\n\n"
        << Table({"PROCESS", "WHERE", "METRICS"}, rows_) << "\nstate  " << options_.state_dir
        << "\ndata   " << options_.data_root << "\nlogs   " << LogFolder() << "\npage   "
        << PageAddress() << "\ntls    "
        << (options_.no_tls ? "none: everybody on this machine can run jobs" : CertificateFolder())
        << "\n\n"
        << "Next, in another terminal:\n";
    if (address_ != kDefaultAddress) out << "  export STRETTO_COORDINATOR=" << address_ << "\n";
    if (!options_.no_tls && !announced_.valid()) {
      const std::string user = absl::StrCat(CertificateFolder(), "/", kUserOfUp);
      out << "  export STRETTO_TLS_CA=" << CertificateFolder()
          << "/ca.crt STRETTO_TLS_CERTIFICATE=" << user << ".crt STRETTO_TLS_KEY=" << user
          << ".key\n";
    }
    out << "  stretto data prepare TEXT... --output " << options_.data_root << "/NAME\n"
        << "  stretto job submit JOB.yaml --follow\n"
        << std::flush;
  }

  const UpOptions& options_;
  Terminal& terminal_;
  Interrupt& interrupt_;
  FileDescriptor lock_;
  FileDescriptor announced_;  // while it is open
  int announced_port_ = 0;
  std::list<ChildProcess> children_;  // the coordinator first
  std::string address_;
  std::vector<std::vector<std::string>> rows_;
};

absl::Status Complete(UpOptions* options) {
  if (options->workers < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--workers: found ", options->workers, ", expected at least 1"));
  }
  if (options->slots < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--slots: found ", options->slots, ", expected at least 1"));
  }
  if (options->listen.rfind(':') == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen: found ", options->listen, ", expected HOST:PORT"));
  }
  if (options->slots == 0) {
    const int cores = std::thread::hardware_concurrency();
    options->slots = std::max(1, cores / options->workers);
  }
  // The daemons run in other folders, so they get absolute paths.
  std::error_code error;
  options->state_dir = std::filesystem::absolute(options->state_dir, error);
  options->user_state_dir = std::filesystem::absolute(options->user_state_dir, error);
  if (options->data_root.empty()) options->data_root = options->state_dir + "/data";
  if (options->checkpoint_root.empty())
    options->checkpoint_root = options->state_dir + "/checkpoints";
  options->data_root = std::filesystem::absolute(options->data_root, error);
  options->checkpoint_root = std::filesystem::absolute(options->checkpoint_root, error);
  return absl::OkStatus();
}

}  // namespace

ExitCode RunUp(UpOptions options, Terminal& terminal, Interrupt& interrupt) {
  if (const absl::Status status = Complete(&options); !status.ok()) {
    terminal.err << "error: " << status.message() << "\n";
    return kUsage;
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  Cluster cluster(options, terminal, interrupt);
  absl::Status status = cluster.Start();
  if (status.ok()) status = cluster.Run();
  const bool asked = status.ok() || interrupt.raised();
  if (!asked) terminal.err << "error: " << status.message();
  if (!asked && !status.message().empty() && status.message().back() != '\n') terminal.err << "\n";
  terminal.err << "stopping" << (asked ? "" : " the rest") << "...\n" << std::flush;
  cluster.Stop();
  terminal.err << "stopped\n" << std::flush;
  return asked ? kOk : kError;
}

}  // namespace stretto::cli
