// SPDX-License-Identifier: Apache-2.0

// Stopping and queries; supervisor_start.cc has the start of trainers, and supervisor_watch.cc the
// watching thread. A trainer is in the table from the moment it is spawned until it has been reaped
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

void Supervisor::Wake() {
  const uint64_t one = 1;
  // Fails only if the counter is full; then the wait ends anyway.
  [[maybe_unused]] const ssize_t n = ::write(event_.get(), &one, sizeof(one));
}

// ---- stopping

void Supervisor::Stop(const std::string& job_uid, int64_t epoch, absl::Duration grace,
                      const std::string& reason, const Ask& ask) {
  {
    const MutexLock lock(mu_);
    int64_t& stopped = stopped_[job_uid];
    stopped = std::max(stopped, epoch);
  }
  StopRanks([&](const RankKey& key) { return key.job_uid == job_uid && key.epoch <= epoch; }, grace,
            reason, ask);
}

void Supervisor::StopAll(absl::Duration grace, const std::string& reason, const Ask& ask) {
  {
    const MutexLock lock(mu_);
    closed_ = true;
  }
  StopRanks([](const RankKey&) { return true; }, grace, reason, ask);
}

void Supervisor::StopOne(const RankKey& key, absl::Duration grace, const std::string& reason,
                         const Ask& ask) {
  StopRanks([&](const RankKey& other) { return other == key; }, grace, reason, ask);
}

void Supervisor::StopRanks(const Selector& selector, absl::Duration grace,
                           const std::string& reason, const Ask& ask) {
  DropWaiting(selector);
  std::vector<std::pair<RankKey, RunFolder>> chosen;
  {
    const MutexLock lock(mu_);
    for (auto& [key, trainer] : trainers_) {
      if (!selector(key)) continue;
      if (!trainer.stopping) trainer.stop_reason = reason;
      trainer.stopping = true;
      chosen.emplace_back(key, trainer.folder);
    }
  }
  for (const auto& [key, folder] : chosen) {
    // Written before the signal, so that a restarted daemon knows who caused the exit.
    const absl::Status marked = folder.MarkStopping(reason);
    if (!marked.ok()) spdlog::warn("stop not marked: {}", marked.ToString());
    const bool asked = ask != nullptr && ask(key);
    const MutexLock lock(mu_);
    const auto it = trainers_.find(key);
    if (it == trainers_.end()) continue;
    const absl::Duration now = clock_.Monotonic();
    // Deadlines only shorten: a second stop with a longer grace must not extend the first.
    it->second.kill_at =
        std::min(it->second.kill_at.value_or(absl::InfiniteDuration()), now + grace);
    it->second.term_at = now + (asked ? grace / 10 : absl::ZeroDuration());
    spdlog::info("trainer is stopped epoch={} rank={} pid={}: {}", key.epoch, key.rank,
                 it->second.process.pid, reason);
  }
  if (!chosen.empty()) Wake();
}

bool Supervisor::WaitUntilEmpty(absl::Duration timeout) {
  const MutexLock lock(mu_);
  return emptied_.WaitFor(mu_, absl::ToChronoMilliseconds(timeout),
                          [this]() REQUIRES(mu_) { return trainers_.empty(); });
}

// ---- queries

absl::Status Supervisor::MayStartLocked(const RankKey& key) const {
  if (closed_) return absl::CancelledError("the daemon is shutting down");
  if (broken_.count({key.job_uid, key.epoch}) != 0) {
    return absl::CancelledError("another rank of the job has failed already");
  }
  // A stop may have come while the assignment was on its way.
  const auto stopped = stopped_.find(key.job_uid);
  if (stopped != stopped_.end() && key.epoch <= stopped->second) {
    return absl::CancelledError("it was stopped before it started");
  }
  return absl::OkStatus();
}

int64_t Supervisor::NewestEpochLocked(const std::string& job_uid) const {
  const auto it = epochs_.find(job_uid);
  return it == epochs_.end() ? 0 : it->second;
}

absl::Status Supervisor::CheckCurrent(const RankKey& key) const {
  const MutexLock lock(mu_);
  const int64_t newest = NewestEpochLocked(key.job_uid);
  if (key.epoch != newest) {
    return absl::AbortedError(absl::StrCat(key.ToString(), " is not current: the epoch of that job",
                                           " on this node is ", newest));
  }
  if (trainers_.count(key) == 0) {
    return absl::AbortedError(absl::StrCat(key.ToString(), " does not run on this node"));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::AttachResponse> Supervisor::Attach(const v1::AttachRequest& request) const {
  const RankKey key = KeyOf(request);
  RETURN_IF_ERROR(CheckCurrent(key));
  const MutexLock lock(mu_);
  const auto it = trainers_.find(key);
  if (it == trainers_.end() || it->second.process.pid != request.pid()) {
    return absl::AbortedError(
        absl::StrCat(key.ToString(), " is not process ", request.pid(), " but another one"));
  }
  v1::AttachResponse response;
  *response.mutable_assign() = *it->second.assign;
  response.set_slot(it->second.slot);
  response.set_run_folder(it->second.folder.path());
  return response;
}

bool Supervisor::Alive(const RankKey& key) const {
  const MutexLock lock(mu_);
  return trainers_.count(key) != 0;
}

std::vector<WatchedTrainer> Supervisor::Running() const {
  const MutexLock lock(mu_);
  std::vector<WatchedTrainer> running;
  for (const auto& [key, trainer] : trainers_) {
    // A stop and an expected exit have deadlines of their own.
    if (!trainer.stopping && !trainer.kill_at.has_value()) running.push_back({key, trainer.folder});
  }
  return running;
}

std::vector<TrainerMemory> Supervisor::Memory() const {
  std::vector<std::pair<TrainerMemory, ProcessId>> trainers;
  {
    const MutexLock lock(mu_);
    for (const auto& [key, trainer] : trainers_) {
      trainers.push_back({{.job_id = trainer.assign->job_id(), .rank = key.rank}, trainer.process});
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
  const auto it = trainers_.find(key);
  if (it != trainers_.end()) it->second.save = std::max(it->second.save, request);
}

int64_t Supervisor::SaveOf(const RankKey& key) const {
  const MutexLock lock(mu_);
  const auto it = trainers_.find(key);
  return it == trainers_.end() ? 0 : it->second.save;
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
    const auto it = trainers_.find(key);
    if (it == trainers_.end() || it->second.kill_at.has_value()) return;
    it->second.kill_at = clock_.Monotonic() + options_.exit_grace;
  }
  Wake();
}

void Supervisor::NotifyCount() {
  int count = 0;
  {
    const MutexLock lock(mu_);
    count = std::ssize(trainers_);
  }
  observer_(count);
}

}  // namespace stretto::daemon
