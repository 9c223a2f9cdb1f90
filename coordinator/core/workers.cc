// SPDX-License-Identifier: Apache-2.0

// Cordons: workers that take no new work, because a person said so or because their machine was to
// blame for several failures in a short time.

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"
#include "coordinator/core/restart.h"

namespace stretto::coordinator {
namespace {

constexpr size_t kFaultsToQuarantine = 3;
constexpr absl::Duration kFaultWindow = absl::Hours(1);
// Attempts that end within this time of a failure have ended for the same reason.
constexpr absl::Duration kOneFault = absl::Minutes(1);

absl::Status NoWorker(const std::string& id) {
  return absl::NotFoundError(absl::StrCat("no worker \"", id, "\""));
}

}  // namespace

void Core::Blame(const std::string& id, const FirstFailure& failure) {
  const Worker* worker = membership_.Find(failure.worker);
  if (worker == nullptr || !IsFaultOfWorker(ExitReasonOf(failure.reason))) return;
  std::vector<absl::Time> faults = worker->record.faults;
  std::erase_if(faults, [this](absl::Time time) { return time < now_ - kFaultWindow; });
  if (!faults.empty() && now_ - faults.back() < kOneFault) return;
  faults.push_back(now_);
  const bool quarantine = faults.size() >= kFaultsToQuarantine && worker->record.cordon.empty();
  if (quarantine) {
    ChangeWorker(failure.worker)
        .SetCordon(failure.worker, absl::StrCat("quarantined: ", faults.size(), " failures within ",
                                                absl::FormatDuration(kFaultWindow),
                                                ", the last of job ", id, ": ", failure.reason));
  }
  ChangeWorker(failure.worker).SetFaults(failure.worker, std::move(faults));
}

absl::Status Core::Handle(const CordonWorker& event) {
  if (membership_.Find(event.id) == nullptr) return NoWorker(event.id);
  ChangeWorker(event.id).SetCordon(event.id, event.reason);
  if (event.drain) Drain(event.id);
  PlaceQueued();
  return absl::OkStatus();
}

absl::Status Core::Handle(const UncordonWorker& event) {
  if (membership_.Find(event.id) == nullptr) return NoWorker(event.id);
  ChangeWorker(event.id).SetCordon(event.id, "");
  ChangeWorker(event.id).SetFaults(event.id, {});
  PlaceQueued();
  return absl::OkStatus();
}

void Core::Drain(const std::string& worker) {
  for (const std::string& id : JobsOn(worker)) {
    const JobRecord& job = Get(id);
    const bool trains = job.state == JobState::kPreparing || job.state == JobState::kRunning;
    if (!trains || !job.stop_reason.empty() || !job.restart.has_value() ||
        !job.restart->on.contains(RestartCause::kPreemption)) {
      continue;
    }
    Preempt(job.number, absl::StrCat("worker ", worker, " is drained"), /*by=*/"");
  }
}

}  // namespace stretto::coordinator
