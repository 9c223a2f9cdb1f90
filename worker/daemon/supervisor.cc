// SPDX-License-Identifier: Apache-2.0

// Stopping and queries; supervisor_start.cc has the start of trainers, and supervisor_watch.cc the
// watching thread. A trainer has a Process from the moment it is spawned until it has been reaped
// and its end reported. Stopping only sets deadlines (SIGTERM, then SIGKILL) and wakes the watching
// thread, which sends the signals. Files and the relay are accessed without the lock.

#include "worker/daemon/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "spdlog/spdlog.h"

namespace stretto::daemon {

namespace v1 = stretto::v1alpha1;

Supervisor::Supervisor(Options options, const RunFolders& folders, ReportRelay& relay,
                       const Clock& clock, CountObserver observer)
    : options_(std::move(options)),
      folders_(folders),
      relay_(relay),
      clock_(clock),
      observer_(std::move(observer)),
      oom_kills_(options_.root),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { Run(); }) {
  STRETTO_CHECK(event_.valid());
}

Supervisor::~Supervisor() {
  {
    const MutexLock lock(mu_);
    stop_ = true;
  }
  Wake();
  thread_.join();
}

std::string Supervisor::TrainerGroupOf(const RankKey& key) {
  return absl::StrCat(kTrainerGroup, key.job_uid, "-", key.epoch, "-", key.rank);
}

void Supervisor::Wake() {
  const uint64_t one = 1;
  // Fails only if the counter is full; then the wait ends anyway.
  [[maybe_unused]] const ssize_t n = ::write(event_.get(), &one, sizeof(one));
}

// ---- stopping

void Supervisor::Stop(const std::string& job_uid, int64_t epoch, absl::Duration grace,
                      const std::string& reason, const Ask& ask) {
  TrainerTable::Effects effects;
  {
    const MutexLock lock(mu_);
    effects = table_.Stop(job_uid, epoch, reason);
  }
  CarryOut(effects, grace, ask);
}

void Supervisor::StopAll(absl::Duration grace, const std::string& reason, const Ask& ask) {
  TrainerTable::Effects effects;
  {
    const MutexLock lock(mu_);
    effects = table_.StopAll(reason);
  }
  CarryOut(effects, grace, ask);
}

void Supervisor::StopOne(const RankKey& key, absl::Duration grace, const std::string& reason,
                         const Ask& ask) {
  TrainerTable::Effects effects;
  {
    const MutexLock lock(mu_);
    effects = table_.StopOne(key, reason);
  }
  CarryOut(effects, grace, ask);
}

void Supervisor::CarryOut(const TrainerTable::Effects& effects, absl::Duration grace,
                          const Ask& ask) {
  for (const Assignment& assign : effects.unstarted) {
    for (const v1::RankSlot& rank : assign->ranks()) {
      const RankKey key{assign->job_uid(), assign->epoch(), rank.rank()};
      if (WasHere(key)) continue;
      ReportUnstarted(key, *assign, rank.slot(),
                      absl::CancelledError("it was stopped before its slot was free"));
    }
  }
  for (const RankKey& key : effects.stop) {
    RunFolder folder("");
    {
      const MutexLock lock(mu_);
      const auto it = processes_.find(key);
      if (it == processes_.end()) continue;  // it has ended
      folder = it->second.folder;
    }
    // Written before the signal, so that a restarted daemon knows who caused the exit.
    const absl::Status marked = folder.MarkStopping(effects.reason);
    if (!marked.ok()) spdlog::warn("stop not marked: {}", marked.ToString());
    const bool reached = ask != nullptr && ask(key);
    const MutexLock lock(mu_);
    table_.Asked(key, clock_.Monotonic(), grace, reached);
    spdlog::info("trainer is stopped epoch={} rank={}: {}", key.epoch, key.rank, effects.reason);
  }
  if (!effects.stop.empty()) Wake();
}

bool Supervisor::WaitUntilEmpty(absl::Duration timeout) {
  const MutexLock lock(mu_);
  return emptied_.WaitFor(mu_, absl::ToChronoMilliseconds(timeout),
                          [this]() REQUIRES(mu_) { return processes_.empty(); });
}

// ---- queries

absl::Status Supervisor::CheckCurrent(const RankKey& key) const {
  const MutexLock lock(mu_);
  const int64_t newest = table_.NewestEpoch(key.job_uid);
  if (key.epoch != newest) {
    return absl::AbortedError(absl::StrCat(key.ToString(), " is not current: the epoch of that job",
                                           " on this node is ", newest));
  }
  if (table_.Find(key) == nullptr) {
    return absl::AbortedError(absl::StrCat(key.ToString(), " does not run on this node"));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::AttachResponse> Supervisor::Attach(const v1::AttachRequest& request) const {
  const RankKey key = KeyOf(request);
  RETURN_IF_ERROR(CheckCurrent(key));
  const MutexLock lock(mu_);
  const TrainerTable::Trainer* trainer = table_.Find(key);
  const auto it = processes_.find(key);
  if (trainer == nullptr || it->second.process.pid != request.pid()) {
    return absl::AbortedError(
        absl::StrCat(key.ToString(), " is not process ", request.pid(), " but another one"));
  }
  v1::AttachResponse response;
  *response.mutable_assign() = *it->second.assign;
  response.set_slot(trainer->slot);
  response.set_run_folder(it->second.folder.path());
  return response;
}

bool Supervisor::Alive(const RankKey& key) const {
  const MutexLock lock(mu_);
  return processes_.contains(key);
}

std::vector<WatchedTrainer> Supervisor::Running() const {
  const MutexLock lock(mu_);
  std::vector<WatchedTrainer> running;
  for (const auto& [key, trainer] : table_.trainers()) {
    // A stop and an expected exit have deadlines of their own.
    if (trainer.stopping || trainer.kill_at.has_value()) continue;
    running.push_back({key, processes_.at(key).folder});
  }
  return running;
}

std::vector<TrainerMemory> Supervisor::Memory() const {
  std::vector<std::pair<TrainerMemory, ProcessId>> trainers;
  {
    const MutexLock lock(mu_);
    for (const auto& [key, process] : processes_) {
      trainers.push_back({{.job_id = process.assign->job_id(), .rank = key.rank}, process.process});
    }
  }
  std::vector<TrainerMemory> found;
  for (auto& [memory, process] : trainers) {
    const absl::StatusOr<int64_t> bytes = ResidentBytes(process);
    if (!bytes.ok()) continue;  // it has just ended
    memory.resident_bytes = *bytes;
    found.push_back(memory);
  }
  return found;
}

void Supervisor::NoteSave(const RankKey& key, int64_t request) {
  const MutexLock lock(mu_);
  table_.NoteSave(key, request);
}

int64_t Supervisor::SaveOf(const RankKey& key) const {
  const MutexLock lock(mu_);
  const TrainerTable::Trainer* trainer = table_.Find(key);
  return trainer == nullptr ? 0 : trainer->save;
}

void Supervisor::CatchUpLater(const RankKey& key) {
  {
    const MutexLock lock(mu_);
    catch_up_.insert(key);
  }
  Wake();
}

void Supervisor::ExpectExit(const RankKey& key) {
  {
    const MutexLock lock(mu_);
    table_.ExpectExit(key, clock_.Monotonic(), options_.exit_grace);
  }
  Wake();
}

void Supervisor::NotifyCount() {
  int count = 0;
  {
    const MutexLock lock(mu_);
    count = std::ssize(processes_);
  }
  observer_(count);
}

}  // namespace stretto::daemon
