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
#include "worker/daemon/rank_exit.h"
#include "worker/daemon/supervisor.h"

namespace stretto::daemon {
namespace {

namespace v1 = stretto::v1alpha1;

bool Failed(const v1::RankExit& exit) { return exit.exit_code() != 0 || exit.signal() != 0; }

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
      int64_t& newest = epochs_[run.key.job_uid];
      newest = std::max(newest, run.key.epoch);
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
    {
      const MutexLock lock(mu_);
      current = !run.done && run.key.epoch == NewestEpochLocked(run.key.job_uid);
      Trainer trainer;
      trainer.assign = std::make_shared<const v1::Assign>(run.assign);
      trainer.slot = run.slot;
      trainer.folder = run.folder;
      trainer.process = *run.process;
      trainer.watch = *std::move(watch);
      trainer.stopping = stopping;
      if (stopping) {  // the signal may not have been sent; another one changes nothing
        trainer.term_at = clock_.Monotonic();
        trainer.kill_at = clock_.Monotonic() + options_.grace;
      }
      trainers_[run.key] = std::move(trainer);
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
  }
}

void Supervisor::WaitForEvents() {
  std::vector<pollfd> descriptors = {{event_.get(), POLLIN, 0}};
  absl::Duration wait = absl::InfiniteDuration();
  {
    const MutexLock lock(mu_);
    const absl::Duration now = clock_.Monotonic();
    for (const auto& [key, trainer] : trainers_) {
      descriptors.push_back({trainer.watch.get(), POLLIN, 0});
      if (trainer.term_at.has_value()) wait = std::min(wait, *trainer.term_at - now);
      if (trainer.kill_at.has_value()) wait = std::min(wait, *trainer.kill_at - now);
    }
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
  const absl::Duration now = clock_.Monotonic();
  for (auto& [key, trainer] : trainers_) {
    if (trainer.kill_at.has_value() && *trainer.kill_at <= now) {
      trainer.kill_at.reset();
      trainer.term_at.reset();
      SignalGroup(trainer.process, SIGKILL);
    } else if (trainer.term_at.has_value() && *trainer.term_at <= now) {
      trainer.term_at.reset();
      SignalGroup(trainer.process, SIGTERM);
      // A process that is stopped takes the signal only when it continues; then those that wait for
      // it can save too.
      SignalGroup(trainer.process, SIGCONT);
    }
  }
}

std::vector<Supervisor::Ended> Supervisor::CollectEnded() {
  const MutexLock lock(mu_);
  std::vector<Ended> ended;
  for (auto& [key, trainer] : trainers_) {
    pollfd descriptor{trainer.watch.get(), POLLIN, 0};
    if (::poll(&descriptor, 1, 0) > 0) ended.push_back({key, Reap(trainer.watch)});
  }
  return ended;
}

void Supervisor::HandleEnded(std::vector<Ended> ended) {
  // The trainers' last reports are read before the deaths are ordered: they tell the loss of a peer
  // from an error of its own.
  for (const Ended& one : ended) relay_.CatchUp(one.key);
  std::stable_sort(ended.begin(), ended.end(), [this](const Ended& a, const Ended& b) {
    return CauseOrder(relay_.Exit(a.key), a.status) < CauseOrder(relay_.Exit(b.key), b.status);
  });
  for (const Ended& one : ended) HandleOne(one);
  if (!ended.empty()) NotifyCount();
}

void Supervisor::HandleOne(const Ended& ended) {
  std::shared_ptr<const v1::Assign> assign;
  RunFolder folder("");
  ProcessId process;
  bool stopping = false;
  std::string stop_reason;
  {
    const MutexLock lock(mu_);
    const Trainer& trainer = trainers_.at(ended.key);
    assign = trainer.assign;
    folder = trainer.folder;
    process = trainer.process;
    stopping = trainer.stopping;
    stop_reason = trainer.stop_reason;
  }
  if (!relay_.Exit(ended.key).has_value()) {
    WriteExit(ended.key, assign->job_id(), folder, process, ended.status, stop_reason);
  }
  const std::optional<v1::RankExit> exit = relay_.Exit(ended.key);
  relay_.End(ended.key, stopping);  // an acknowledgement may now drop the rank
  const bool failed = exit.has_value() && Failed(*exit);
  spdlog::info("trainer exited job={} epoch={} rank={} pid={} exit_code={} signal={} stopped={}",
               assign->job_id(), ended.key.epoch, ended.key.rank, process.pid, ended.status.code,
               ended.status.signal, stopping);
  if (failed && !stopping) {
    {
      const MutexLock lock(mu_);
      broken_.emplace(ended.key.job_uid, ended.key.epoch);  // for ranks still to be started
    }
    StopRanks(
        [&](const RankKey& key) {
          return key.job_uid == ended.key.job_uid && key.epoch == ended.key.epoch &&
                 key.rank != ended.key.rank;
        },
        options_.grace, absl::StrCat("rank ", ended.key.rank, " of the job failed"), nullptr);
  }
  {
    // Erased last, because WaitUntilEmpty promises that the end of every trainer has been reported.
    const MutexLock lock(mu_);
    trainers_.erase(ended.key);
    if (trainers_.empty()) emptied_.NotifyAll();
  }
  StartWaiting();
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
