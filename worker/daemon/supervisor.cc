// SPDX-License-Identifier: Apache-2.0

// Starting, stopping and queries; supervisor_watch.cc has the watching thread. A trainer is in the
// table from the moment it is spawned until it has been reaped and its end reported. Stopping only
// sets deadlines (SIGTERM, then SIGKILL) and wakes the watching thread, which sends the signals.
// Files and the relay are accessed without the lock.

#include "worker/daemon/supervisor.h"

#include <fcntl.h>
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
#include "worker/daemon/rank_exit.h"
#include "worker/daemon/trainer_environment.h"

namespace stretto::daemon {
namespace {

namespace v1 = stretto::v1alpha1;

ReportRelay::Report LogWarning(const absl::Status& status) {
  ReportRelay::Report report;
  v1::RankWarning* warning = report.mutable_warning();
  warning->set_condition("LogIntact");
  warning->set_reason(absl::IsResourceExhausted(status) ? "DiskFull" : "LogNotWritable");
  warning->set_message(absl::StrCat("the trainer's output is lost: ", status.message()));
  return report;
}

absl::Status Faulty(const Slot& slot, const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrCat("slot ", slot.index, ", ", slot.description, ", is faulty: ", why));
}

}  // namespace

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

// ---- starting

void Supervisor::Assign(const v1::Assign& assign) {
  std::set<std::string> in_use;
  std::set<RankKey> leaving;  // trainers that are stopped in a slot of this assignment
  {
    const MutexLock lock(mu_);
    const int64_t newest = NewestEpochLocked(assign.job_uid());
    if (assign.epoch() < newest) {
      spdlog::warn("assignment refused: its epoch is not current job={} epoch={} current={}",
                   assign.job_id(), assign.epoch(), newest);
      return;
    }
    epochs_[assign.job_uid()] = assign.epoch();
    for (const auto& [key, trainer] : trainers_) {
      in_use.insert(key.job_uid);
      for (const v1::RankSlot& rank : assign.ranks()) {
        if (trainer.stopping && trainer.slot == rank.slot()) leaving.insert(key);
      }
    }
  }
  in_use.insert(assign.job_uid());
  Stop(assign.job_uid(), assign.epoch() - 1, absl::ZeroDuration(), "a newer epoch was assigned");
  for (const RankKey& key : leaving)
    StopOne(key, absl::ZeroDuration(), "its slot was assigned again");
  folders_.Prune(options_.keep_jobs, in_use);

  const auto shared = std::make_shared<const v1::Assign>(assign);
  absl::Status failure;
  for (const v1::RankSlot& rank : assign.ranks()) {
    const RankKey key{assign.job_uid(), assign.epoch(), rank.rank()};
    if (folders_.Find(key).ok() || relay_.Exit(key).has_value()) continue;  // started before
    const absl::Status status =
        failure.ok() ? StartRank(shared, key, rank.slot())
                     : absl::CancelledError("not started: another rank here could not be");
    if (status.ok()) continue;
    ReportUnstarted(key, *shared, rank.slot(), status);
    if (failure.ok()) failure = status;
  }
  if (!failure.ok()) {
    Stop(assign.job_uid(), assign.epoch(), options_.grace,
         absl::StrCat("a rank of the job could not be started: ", failure.message()));
  }
  NotifyCount();
}

absl::Status Supervisor::StartRank(const std::shared_ptr<const v1::Assign>& assign,
                                   const RankKey& key, int32_t slot) {
  ASSIGN_OR_RETURN(const RunFolder folder, folders_.Create(*assign, key.rank));
  relay_.Add(key, assign->job_id(), slot, folder);
  if (slot < 0 || slot >= static_cast<int32_t>(options_.slots.size())) {
    return absl::OutOfRangeError(absl::StrCat("slot ", slot, " does not exist: this node has ",
                                              options_.slots.size(), " slots"));
  }
  const Slot& here = options_.slots[slot];
  if (options_.fault != nullptr) {
    const std::string fault = options_.fault(here);
    if (!fault.empty()) return Faulty(here, fault);
  }
  // The UUID is needed to make only this GPU visible to its trainer.
  if (here.kind == SlotKind::kGpu && here.gpu_uuid.empty())
    return Faulty(here, "the driver reports no UUID for it");
  absl::StatusOr<FileDescriptor> log =
      folder.OpenLog(absl::StrCat("--- stretto-worker starts job ", assign->job_id(), " epoch ",
                                  key.epoch, " rank ", key.rank, " in slot ", slot));
  // Training is worth more than its log, so the trainer starts without one.
  if (!log.ok()) {
    relay_.Append(key, LogWarning(log.status()));
    log = FileDescriptor(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  }
  SpawnOptions spawn;
  spawn.binary = options_.trainer_binary;
  spawn.args = {"--socket", options_.socket_path,    "--job-uid", key.job_uid,
                "--epoch",  absl::StrCat(key.epoch), "--rank",    absl::StrCat(key.rank)};
  spawn.env = TrainerEnvironment(here.gpu_uuid, options_.interface_address);
  spawn.output_fd = log->get();
  spawn.core = here.core;

  ProcessId process;
  {
    // Locked until the trainer is in the table, because it may attach before Spawn returns.
    const MutexLock lock(mu_);
    RETURN_IF_ERROR(MayStartLocked(key));
    ASSIGN_OR_RETURN(process, Spawn(spawn));
    Trainer trainer;
    trainer.assign = assign;
    trainer.slot = slot;
    trainer.folder = folder;
    trainer.process = process;
    ASSIGN_OR_RETURN(trainer.watch, WatchProcess(process));
    trainers_[key] = std::move(trainer);
  }
  Wake();
  spdlog::info("trainer started job={} epoch={} rank={} slot={} pid={}", assign->job_id(),
               key.epoch, key.rank, slot, process.pid);
  // If the daemon dies before this, the next one does not adopt the trainer but rejects it, and the
  // trainer ends by itself.
  const absl::Status written = folder.WriteProcess(process);
  if (!written.ok()) {
    spdlog::error("trainer cannot be adopted after a restart: {}", written.ToString());
  }
  return absl::OkStatus();
}

void Supervisor::ReportUnstarted(const RankKey& key, const v1::Assign& assign, int32_t slot,
                                 const absl::Status& why) {
  spdlog::error("trainer not started job={} epoch={} rank={}: {}", assign.job_id(), key.epoch,
                key.rank, why.ToString());
  const absl::StatusOr<RunFolder> folder = folders_.Create(assign, key.rank);
  // Without a folder its reports are kept in memory.
  relay_.Add(key, assign.job_id(), slot,
             folder.ok() ? *folder : RunFolder(folders_.root() + "/none"));
  ReportRelay::Report report;
  *report.mutable_exit() = UnstartedExit(key, assign.job_id(), why, clock_.Now());
  relay_.Append(key, std::move(report));
  relay_.End(key, absl::IsCancelled(why));
}

// ---- stopping

void Supervisor::Stop(const std::string& job_uid, int64_t epoch, absl::Duration grace,
                      const std::string& reason, const Ask& ask) {
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

void Supervisor::StopOne(const RankKey& key, absl::Duration grace, const std::string& reason) {
  StopRanks([&](const RankKey& other) { return other == key; }, grace, reason, nullptr);
}

void Supervisor::StopRanks(const Selector& selector, absl::Duration grace,
                           const std::string& reason, const Ask& ask) {
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
