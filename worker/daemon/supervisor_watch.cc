// SPDX-License-Identifier: Apache-2.0

// The watching thread of the supervisor, and adoption after a restart of the daemon.

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/exit_reason.h"
#include "spdlog/spdlog.h"
#include "worker/daemon/log_bound.h"
#include "worker/daemon/rank_exit.h"
#include "worker/daemon/supervisor.h"

namespace stretto::daemon {
namespace {

namespace v1 = stretto::v1alpha1;

bool Failed(const v1::RankExit& exit) { return exit.exit_code() != 0 || exit.signal() != 0; }

// How long what the kernel did to other processes counts for a trainer that dies.
constexpr absl::Duration kOomInterval = absl::Seconds(5);

// Orders deaths that are seen at once by likely cause: a signal that we did not send, then an error
// of its own, then the loss of a peer.
int CauseOrder(const std::optional<v1::RankExit>& exit, const ExitStatus& status) {
  if (status.signal != 0) return 0;
  return exit.has_value() && ExitReasonOf(exit->reason()) == ExitReason::kPeerLost ? 2 : 1;
}

}  // namespace

void Supervisor::Adopt() {
  const std::vector<StoredRun> runs = folders_.Scan();
  // All epochs first, so that each run is compared with the newest one of its job.
  {
    const MutexLock lock(mu_);
    for (const StoredRun& run : runs) {
      table_.NoteEpoch(run.key.job_uid, run.key.epoch);
    }
  }
  std::set<std::pair<std::string, int64_t>> broken;  // gangs that lost a member in the meantime
  for (const StoredRun& run : runs) {
    if (AdoptRun(run)) broken.emplace(run.key.job_uid, run.key.epoch);
  }
  for (const auto& [job_uid, epoch] : broken) {
    Stop(job_uid, epoch, options_.grace, "another rank of the job ended while no daemon ran");
  }
  Wake();
  NotifyCount();
}

bool Supervisor::AdoptRun(const StoredRun& run) {
  const bool stopping = run.folder.Stopping();
  if (!run.done) relay_.Add(run.key, run.assign.job_id(), run.slot, run.folder);
  absl::StatusOr<FileDescriptor> watch = absl::NotFoundError("never started");
  if (run.process.has_value() && IsAlive(*run.process)) watch = WatchProcess(*run.process);
  if (watch.ok()) {
    bool current = false;
    const bool ends = relay_.Exit(run.key).has_value();
    {
      const MutexLock lock(mu_);
      current = !run.done && run.key.epoch == table_.NewestEpoch(run.key.job_uid);
      processes_[run.key] = {.assign = std::make_shared<const v1::Assign>(run.assign),
                             .folder = run.folder,
                             .process = *run.process,
                             .watch = *std::move(watch)};
      const absl::Duration now = clock_.Monotonic();
      table_.Adopted(run.key, run.slot, stopping, now, options_.grace);
      if (ends) table_.ExpectExit(run.key, now, options_.exit_grace);
    }
    spdlog::info("trainer adopted job={} epoch={} rank={} pid={}", run.assign.job_id(),
                 run.key.epoch, run.key.rank, run.process->pid);
    if (!current) {
      StopOne(run.key, options_.grace, "left over from an epoch that is not current");
    }
    return false;
  }
  if (run.done) return false;
  if (!relay_.Exit(run.key).has_value()) {
    WriteExit(run.key, run.assign.job_id(), run.folder, run.process.value_or(ProcessId{}), {}, "");
  }
  const std::optional<v1::RankExit> exit = relay_.Exit(run.key);
  relay_.End(run.key, stopping);
  return exit.has_value() && Failed(*exit) && !stopping;
}

void Supervisor::Run() {
  absl::Duration noted = clock_.Monotonic();
  while (true) {
    WaitForEvents();
    std::set<RankKey> catch_up;
    {
      const MutexLock lock(mu_);
      if (stop_) return;
      catch_up.swap(catch_up_);
    }
    for (const RankKey& key : catch_up) relay_.CatchUp(key);
    FireDeadlines();
    HandleEnded(CollectEnded());
    if (clock_.Monotonic() < noted + kOomInterval) continue;
    oom_kills_.Note();
    BoundLogs();
    noted = clock_.Monotonic();
  }
}

void Supervisor::BoundLogs() {
  std::vector<std::string> logs;
  {
    const MutexLock lock(mu_);
    for (const auto& [key, process] : processes_) logs.push_back(process.folder.log());
  }
  for (const std::string& log : logs) {
    const absl::Status bounded = BoundLog(log, options_.max_log_bytes).status();
    if (bounded.ok() || absl::IsNotFound(bounded)) continue;  // the disk was full at its start
    const auto left_out = unbounded_logs_.Admit(clock_.Monotonic());
    if (left_out.has_value()) {
      spdlog::warn("log not bounded: {}{}", std::string(bounded.message()), LeftOutNote(*left_out));
    }
  }
}

void Supervisor::WaitForEvents() {
  std::vector<pollfd> descriptors = {{event_.get(), POLLIN, 0}};
  absl::Duration wait = absl::InfiniteDuration();
  {
    const MutexLock lock(mu_);
    for (const auto& [key, process] : processes_) {
      descriptors.push_back({process.watch.get(), POLLIN, 0});
    }
    wait = table_.NextDue() - clock_.Monotonic();
    if (!processes_.empty()) wait = std::min(wait, kOomInterval);
  }
  int timeout = -1;
  if (wait < absl::Hours(1)) {
    timeout = static_cast<int>(absl::ToInt64Milliseconds(std::max(wait, absl::ZeroDuration()))) + 1;
  }
  // Only this thread closes descriptors, so none can refer to another process here.
  ::poll(descriptors.data(), descriptors.size(), timeout);
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(event_.get(), &count, sizeof(count));
}

void Supervisor::FireDeadlines() {
  const MutexLock lock(mu_);
  for (const TrainerTable::Signal& signal : table_.TakeDue(clock_.Monotonic())) {
    const ProcessId& process = processes_.at(signal.key).process;
    if (signal.kill) {
      SignalGroup(process, SIGKILL);
      continue;
    }
    SignalGroup(process, SIGTERM);
    // A process that is stopped takes the signal only when it continues; then those that wait for
    // it can save too.
    SignalGroup(process, SIGCONT);
  }
}

std::vector<Supervisor::EndedProcess> Supervisor::CollectEnded() {
  const MutexLock lock(mu_);
  std::vector<EndedProcess> ended;
  for (auto& [key, process] : processes_) {
    pollfd descriptor{process.watch.get(), POLLIN, 0};
    if (::poll(&descriptor, 1, 0) > 0) ended.push_back({key, Reap(process.watch)});
  }
  return ended;
}

void Supervisor::HandleEnded(std::vector<EndedProcess> ended) {
  // The trainers' last reports are read before the deaths are ordered: they tell the loss of a peer
  // from an error of its own.
  for (const EndedProcess& one : ended) relay_.CatchUp(one.key);
  std::stable_sort(
      ended.begin(), ended.end(), [this](const EndedProcess& a, const EndedProcess& b) {
        return CauseOrder(relay_.Exit(a.key), a.status) < CauseOrder(relay_.Exit(b.key), b.status);
      });
  for (const EndedProcess& one : ended) HandleOne(one);
  if (!ended.empty()) NotifyCount();
}

void Supervisor::HandleOne(const EndedProcess& ended) {
  Assignment assign;
  RunFolder folder("");
  ProcessId process;
  bool stopping = false;
  std::string stop_reason;
  {
    const MutexLock lock(mu_);
    const Process& of = processes_.at(ended.key);
    assign = of.assign;
    folder = of.folder;
    process = of.process;
    const TrainerTable::Trainer& trainer = *table_.Find(ended.key);
    stopping = trainer.stopping;
    stop_reason = trainer.stop_reason;
  }
  if (!relay_.Exit(ended.key).has_value()) {
    ExitStatus status = ended.status;
    status.out_of_memory = status.signal == SIGKILL && !stopping && RanOutOfMemory(ended.key);
    WriteExit(ended.key, assign->job_id(), folder, process, status, stop_reason);
  }
  const std::optional<v1::RankExit> exit = relay_.Exit(ended.key);
  relay_.End(ended.key, stopping);  // an acknowledgement may now drop the rank
  const bool failed = exit.has_value() && Failed(*exit);
  spdlog::info("trainer exited job={} epoch={} rank={} pid={} exit_code={} signal={} stopped={}",
               assign->job_id(), ended.key.epoch, ended.key.rank, process.pid, ended.status.code,
               ended.status.signal, stopping);
  TrainerTable::Effects effects;
  {
    const MutexLock lock(mu_);
    effects = table_.Ended(ended.key, failed && !stopping);
  }
  CarryOut(effects, options_.grace, /*ask=*/nullptr);
  {
    // Erased last, because WaitUntilEmpty promises that the end of every trainer has been reported.
    const MutexLock lock(mu_);
    processes_.erase(ended.key);
    if (processes_.empty()) emptied_.NotifyAll();
  }
  const MutexLock starts(start_mu_);
  StartFree();
}

bool Supervisor::RanOutOfMemory(const RankKey& key) const {
  const bool grouped = options_.rights != nullptr && options_.rights->groups.has_value();
  if (grouped && options_.rights->groups->RanOutOfMemory(TrainerGroupOf(key))) return true;
  return oom_kills_.Grew();
}

void Supervisor::WriteExit(const RankKey& key, const std::string& job_id, const RunFolder& folder,
                           const ProcessId& process, const ExitStatus& status,
                           const std::string& stop_reason) {
  ReportRelay::Report report;
  *report.mutable_exit() =
      DescribeExit(key, job_id, folder, process, status, stop_reason, clock_.Now());
  relay_.Append(key, std::move(report));
}

}  // namespace stretto::daemon
