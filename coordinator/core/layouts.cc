// SPDX-License-Identifier: Apache-2.0

// The layouts of a job that starts again. A smaller layout is only for the loss of workers: a job
// whose layout fits on the workers that remain waits for the jobs that use them.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/core.h"

namespace stretto::coordinator {

int32_t Core::LayoutFor(const JobRecord& job) const {
  if (job.attempt == 0 || job.fallbacks.empty()) return 0;
  const int64_t most = DevicesOf(options_.quotas, job.project);
  for (int32_t i = 0; i <= static_cast<int32_t>(job.fallbacks.size()); ++i) {
    const Gang& gang = job.GangIn(i);
    if (gang.ranks() <= most && Slots().IsPossibleNow(gang, job.device_kind)) return i;
  }
  return 0;
}

void Core::ShowLayouts(const std::string& id) {
  const JobRecord& job = Get(id);
  if (job.fallbacks.empty() || workers().empty()) return;
  std::vector<std::string> unfit;
  for (size_t i = 0; i < job.fallbacks.size(); ++i) {
    const QueuedJob asked = {.id = id, .gang = job.fallbacks[i], .kind = job.device_kind};
    if (Slots().IsPossible(asked)) continue;
    unfit.push_back(
        absl::StrCat("layout ", i + 1, " of restart.layouts ", Slots().WhyImpossible(asked)));
  }
  if (!unfit.empty()) {
    SetCondition(id, "LayoutsFit", ConditionStatus::kFalse, "NotEnoughSlots",
                 absl::StrJoin(unfit, "; "));
  } else if (job.FindCondition("LayoutsFit") != nullptr) {
    SetCondition(id, "LayoutsFit", ConditionStatus::kTrue, "Fit", "");
  }
}

}  // namespace stretto::coordinator
