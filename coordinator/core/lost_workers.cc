// SPDX-License-Identifier: Apache-2.0

// Jobs with ranks on LOST workers. Nobody can tell a worker that is dead from one that is cut off,
// whose ranks train on. An attempt is therefore given up only if that is of use: because it cannot
// continue in any case, because the next attempt can start elsewhere, or because the patience with
// the worker has ended. Until then the run continues where it is as soon as contact returns. What a
// worker that was given up still runs is fenced: its reports are refused, a checkpoint of its
// attempt is refused once the next attempt has begun, and when it registers the coordinator
// asks it to save and to stop.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/core.h"
#include "coordinator/core/restart.h"

namespace stretto::coordinator {
namespace {

constexpr char kReachable[] = "WorkersReachable";

}  // namespace

bool Core::HasBeenLostFor(const std::string& id, absl::Duration time) const {
  const Worker* worker = membership_.Find(id);
  if (worker == nullptr) return true;
  // A lease that ends in this event leaves the worker at least until the next one.
  if (worker->ready() || changed_workers_.contains(id)) return false;
  return steady_ >= worker->lease_end + time;
}

std::set<std::string> Core::LostWorkersOf(const JobRecord& job) const {
  std::set<std::string> lost;
  for (const RankRecord& rank : job.ranks) {
    if (!rank.gone() && HasBeenLostFor(rank.worker, options_.lost_rank_timeout))
      lost.insert(rank.worker);
  }
  return lost;
}

void Core::GiveUpLostRanks() {
  // Decided before an end blames one of the workers, which changes it.
  std::map<std::string, std::set<std::string>> lost;  // by job
  std::set<std::string> for_good;
  for (const auto& [worker, slots] : index_.held()) {
    if (!HasBeenLostFor(worker, options_.lost_rank_timeout)) continue;
    if (HasBeenLostFor(worker, options_.lost_run_timeout)) for_good.insert(worker);
    for (const std::string& id : JobsOn(worker)) {
      if (!lost.contains(id)) lost.emplace(id, LostWorkersOf(Get(id)));
    }
  }
  if (lost.empty()) return;
  std::vector<WorkerView> cluster = ClusterView();
  for (const auto& [id, workers] : lost) {
    const auto is_lost_for_good = [&](const auto& worker) { return for_good.contains(worker); };
    // A run that has been told to stop ends in any case.
    if (Get(id).stop_reason.empty() &&
        std::none_of(workers.begin(), workers.end(), is_lost_for_good) &&
        !MayMove(Get(id), &cluster)) {
      SetCondition(id, kReachable, ConditionStatus::kFalse, NameOf(ExitReason::kWorkerLost),
                   absl::StrCat("no contact with ", absl::StrJoin(workers, ", "),
                                "; the run continues there if contact returns within ",
                                absl::FormatDuration(options_.lost_run_timeout)));
      continue;
    }
    if (Get(id).FindCondition(kReachable) != nullptr)
      SetCondition(id, kReachable, ConditionStatus::kFalse, "GivenUp", "");
    for (int32_t i = 0; i < static_cast<int32_t>(Get(id).ranks.size()); ++i) {
      const RankRecord rank = Get(id).ranks[i];
      if (rank.gone() || !workers.contains(rank.worker)) continue;
      const absl::Duration waited =
          for_good.contains(rank.worker) ? options_.lost_run_timeout : options_.lost_rank_timeout;
      LoseRank(id, i, ExitReason::kWorkerLost,
               absl::StrCat("worker ", rank.worker, " did not come back within ",
                            absl::FormatDuration(waited), " after its lease ended"));
    }
    FinishIfGone(id);
  }
}

bool Core::MayMove(const JobRecord& job, std::vector<WorkerView>* cluster) const {
  if (!DecideRestart(job, NameOf(ExitReason::kWorkerLost)).restart) return false;
  std::vector<WorkerView> without = *cluster;
  for (WorkerView& worker : without) {
    const std::map<int32_t, int64_t>& held = index_.HeldOn(worker.id);
    for (SlotView& slot : worker.slots) {
      const auto holder = held.find(slot.slot);
      slot.free |= slot.healthy && holder != held.end() && holder->second == job.number;
    }
  }
  const std::vector<RankSlot> ranks = Placer(without).Take(Queued(job));
  if (ranks.empty()) return false;
  for (WorkerView& worker : without) {
    for (SlotView& slot : worker.slots) {
      for (const RankSlot& rank : ranks)
        slot.free &= rank.worker != worker.id || rank.slot != slot.slot;
    }
  }
  *cluster = std::move(without);
  return true;
}

void Core::ShowReturn(const std::string& worker) {
  for (const std::string& id : JobsOn(worker)) {
    const Condition* reachable = Get(id).FindCondition(kReachable);
    if (reachable == nullptr || reachable->status != ConditionStatus::kFalse) continue;
    if (LostWorkersOf(Get(id)).empty())
      SetCondition(id, kReachable, ConditionStatus::kTrue, "Returned", "");
  }
}

}  // namespace stretto::coordinator
