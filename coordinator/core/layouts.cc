// SPDX-License-Identifier: Apache-2.0

// The layouts of a job that starts again. A smaller layout is only for the loss of workers: a job
// whose layout fits on the workers that remain waits for the jobs that use them.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/core.h"
#include "coordinator/placement/gang.h"

namespace stretto::coordinator {
namespace {

// Healthy slots of a kind, by worker; all workers, or those that take new ranks.
std::vector<int32_t> RoomOf(const std::map<std::string, Worker>& workers, int32_t kind,
                            bool in_contact) {
  std::vector<int32_t> room;
  for (const auto& [id, worker] : workers) {
    if (in_contact && (!worker.ready() || !worker.record.cordon.empty())) continue;
    int32_t& here = room.emplace_back(0);
    for (const WorkerDevice& device : worker.record.devices) {
      here += device.kind == kind && device.fault.empty();
    }
  }
  return room;
}

}  // namespace

int32_t Core::LayoutFor(const JobRecord& job) const {
  if (job.attempt == 0 || job.fallbacks.empty()) return 0;
  const std::vector<int32_t> room = RoomOf(workers(), job.device_kind, /*in_contact=*/true);
  const int64_t most = DevicesOf(options_.quotas, job.project);
  for (int32_t i = 0; i <= static_cast<int32_t>(job.fallbacks.size()); ++i) {
    const Gang& gang = job.GangIn(i);
    if (gang.ranks() <= most && !DealGang(room, gang).empty()) return i;
  }
  return 0;
}

void Core::ShowLayouts(const std::string& id) {
  const JobRecord& job = Get(id);
  if (job.fallbacks.empty() || workers().empty()) return;
  const std::vector<int32_t> room = RoomOf(workers(), job.device_kind, /*in_contact=*/false);
  std::vector<std::string> unfit;
  for (size_t i = 0; i < job.fallbacks.size(); ++i) {
    if (!DealGang(room, job.fallbacks[i]).empty()) continue;
    unfit.push_back(absl::StrCat("layout ", i + 1, " of restart.layouts needs ",
                                 CountOf(job.fallbacks[i].ranks(), job.device_kind)));
  }
  if (!unfit.empty()) {
    SetCondition(id, "LayoutsFit", ConditionStatus::kFalse, "NotEnoughSlots",
                 absl::StrCat(absl::StrJoin(unfit, "; "), "; this cluster has room for fewer"));
  } else if (job.FindCondition("LayoutsFit") != nullptr) {
    SetCondition(id, "LayoutsFit", ConditionStatus::kTrue, "Fit", "");
  }
}

}  // namespace stretto::coordinator
