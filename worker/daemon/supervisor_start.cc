// SPDX-License-Identifier: Apache-2.0

// The start of trainers. Every assignment waits in the table first, and most are free at once. The
// watching thread starts those that waited for a trainer which has ended.

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "spdlog/spdlog.h"
#include "worker/daemon/rank_exit.h"
#include "worker/daemon/supervisor.h"
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

void Supervisor::Assign(const v1::Assign& assign) {
  const auto shared = std::make_shared<const v1::Assign>(assign);
  const MutexLock starts(start_mu_);
  absl::StatusOr<TrainerTable::Effects> effects;
  {
    const MutexLock lock(mu_);
    effects = table_.Assign(shared);
  }
  if (!effects.ok()) {
    spdlog::warn("assignment refused job={}: {}", assign.job_id(),
                 std::string(effects.status().message()));
    return;
  }
  CarryOut(*effects, options_.grace, /*ask=*/nullptr);
  StartFree();
  const MutexLock lock(mu_);
  if (std::count(table_.waiting().begin(), table_.waiting().end(), shared) > 0) {
    spdlog::info("assignment waits for trainers that are being stopped job={} epoch={}",
                 assign.job_id(), assign.epoch());
  }
}

void Supervisor::ForgetWaiting() {
  const MutexLock starts(start_mu_);  // what has left the table is in the relay afterwards
  const MutexLock lock(mu_);
  table_.ForgetWaiting();
}

void Supervisor::StartFree() {
  std::vector<Assignment> free;
  {
    const MutexLock lock(mu_);
    free = table_.TakeFree();
  }
  for (const Assignment& assign : free) StartRanks(assign);
}

bool Supervisor::WasHere(const RankKey& key) const {
  return folders_.Find(key).ok() || relay_.Exit(key).has_value();
}

void Supervisor::StartRanks(const Assignment& assign) {
  std::set<std::string> in_use = {assign->job_uid()};
  {
    const MutexLock lock(mu_);
    for (const auto& [key, process] : processes_) in_use.insert(key.job_uid);
  }
  folders_.Prune(options_.keep_jobs, in_use);
  if (options_.rights != nullptr && options_.rights->groups.has_value())
    options_.rights->groups->RemoveEnded();
  absl::Status failure;
  for (const v1::RankSlot& rank : assign->ranks()) {
    const RankKey key{assign->job_uid(), assign->epoch(), rank.rank()};
    if (WasHere(key)) continue;
    const absl::Status status =
        failure.ok() ? StartRank(assign, key, rank.slot())
                     : absl::CancelledError("not started: another rank here could not be");
    if (status.ok()) continue;
    ReportUnstarted(key, *assign, rank.slot(), status);
    if (failure.ok()) failure = status;
  }
  if (!failure.ok()) {
    Stop(assign->job_uid(), assign->epoch(), options_.grace,
         absl::StrCat("a rank of the job could not be started: ", failure.message()));
  }
  NotifyCount();
}

absl::Status Supervisor::StartRank(const Assignment& assign, const RankKey& key, int32_t slot) {
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
  spawn.rights = options_.rights;
  spawn.group = TrainerGroupOf(key);
  if (options_.rights != nullptr && options_.rights->rights.user.has_value())
    RETURN_IF_ERROR(folder.GiveTo(*options_.rights->rights.user));

  ProcessId process;
  {
    // Locked until the trainer is in the table, because it may attach before Spawn returns.
    const MutexLock lock(mu_);
    RETURN_IF_ERROR(table_.MayStart(key));
    ASSIGN_OR_RETURN(process, Spawn(spawn));
    Process started{.assign = assign, .folder = folder, .process = process, .watch = {}};
    ASSIGN_OR_RETURN(started.watch, WatchProcess(process));
    processes_[key] = std::move(started);
    table_.Started(key, slot);
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

}  // namespace stretto::daemon
