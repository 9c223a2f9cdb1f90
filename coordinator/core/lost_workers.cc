// SPDX-License-Identifier: Apache-2.0

// Jobs with ranks on LOST workers. Nobody can tell a worker that is dead from one that is cut off,
// whose ranks train on, unless other ranks of the run still report steps: each step needs all of
// them. An attempt is therefore given up only if that is of use: because it cannot continue in any
// case, because it makes no steps and the next attempt can start elsewhere, or because the patience
// with the worker has ended. Until then the run continues where it is when contact returns. What a
// worker that was given up still runs is fenced: its reports are refused, a checkpoint of its
// attempt is refused once the next attempt has begun, and when it registers the coordinator
// asks it to save and to stop. Nothing fences a run that saves nothing: as long as none of its
// ranks is in contact it may train on, and it is not given up before the patience ends.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/line.h"
#include "coordinator/core/restart.h"

namespace stretto::coordinator {
namespace {

constexpr char kReachable[] = "WorkersReachable";

}  // namespace

// Which runs could start again on workers in contact if they were given up now. Runs are asked in
// the order of the queue, and each may have the room that those before it left. A run must not end
// for room that it would not get: jobs ahead of it in the queue come first, and while it backs off,
// whoever fits takes what it leaves.
class Core::Moves {
 public:
  explicit Moves(const Core& core) : core_(core) {}

  // If so, the room is taken.
  bool May(const JobRecord& job) {
    const RestartDecision decision = DecideRestart(job, NameOf(ExitReason::kWorkerLost));
    if (!decision.restart) return false;
    Rooms& rooms = RoomsOf(job.device_kind);
    if (AreDevicesWanted(job) ||
        !core_.ReserveAhead(KeyOf(job), /*if_full=*/true, &rooms.line, &rooms.beside_ahead)) {
      return false;
    }
    const std::vector<RankSlot> own = job.slots();
    rooms.SetFree(own, true);
    std::vector<RankSlot> ranks;
    if (decision.delay == absl::ZeroDuration() || !SomebodyFits(job, rooms))
      ranks = rooms.beside_ahead.Take(core_.Queued(job));
    if (ranks.empty()) {
      rooms.SetFree(own, false);
      return false;
    }
    rooms.all.SetFree(ranks, false);
    return true;
  }

 private:
  // What the jobs that wait in a lane ask for.
  struct Wanted {
    std::set<Gang> within_quota, all;
  };
  struct Rooms {
    void SetFree(const std::vector<RankSlot>& slots, bool free) {
      beside_ahead.SetFree(slots, free);
      all.SetFree(slots, free);
    }
    Line line;            // those passed have reserved in beside_ahead
    Placer beside_ahead;  // for the run that was asked last
    Placer all;
    std::map<std::string, Wanted> wanted = {};  // by lane
  };

  Rooms& RoomsOf(int32_t kind) {
    const auto found = rooms_.find(kind);
    if (found != rooms_.end()) return found->second;
    Rooms& rooms =
        rooms_.emplace(kind, Rooms{Line(core_, kind), core_.Slots(), core_.Slots()}).first->second;
    for (const auto& [name, keys] : core_.index_.LanesOf(kind)) {
      const size_t count = std::min<size_t>(keys.size(), kTriedBehindFirst);
      for (size_t i = 0; i < count; ++i) {
        const JobRecord& job = core_.JobOf(keys[i].number);
        if (!core_.BacksOff(job) && !core_.ExceedsQuota(job))
          rooms.wanted[name].all.insert(core_.Queued(job).gang);
      }
    }
    std::map<std::string, int> tried;  // by lane
    for (Line line(core_, kind); const JobRecord* job = line.Next();) {
      rooms.wanted[line.lane()].within_quota.insert(core_.Queued(*job).gang);
      if (++tried[line.lane()] >= kTriedBehindFirst) line.CloseLane();
    }
    return rooms;
  }

  // Whether a job ahead, of any kind, waits for the devices of its project that the run would free.
  bool AreDevicesWanted(const JobRecord& job) const {
    if (DevicesOf(core_.options_.quotas, job.project) == INT64_MAX) return false;
    const auto& waiting = core_.index_.waiting();
    return std::any_of(waiting.begin(), waiting.end(), [&job](const auto& of) {
      const auto lane = of.second.find(job.project);
      return lane != of.second.end() && lane->second.front() < KeyOf(job);
    });
  }

  // Whether a job that waits fits once the run has ended.
  bool SomebodyFits(const JobRecord& job, const Rooms& rooms) const {
    for (const auto& [lane, wanted] : rooms.wanted) {
      for (const Gang& gang : lane == job.project ? wanted.all : wanted.within_quota) {
        if (rooms.all.Fits({.id = "", .gang = gang, .kind = job.device_kind})) return true;
      }
    }
    return false;
  }

  const Core& core_;
  std::map<int32_t, Rooms> rooms_;  // by kind
};

bool Core::HasBeenLostFor(const std::string& id, absl::Duration time) const {
  const Worker* worker = membership_.Find(id);  // only one without ranks can be forgotten
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

bool Core::MakesSteps(const JobRecord& job) const {
  return steady_ < jobs_.at(job.id).step_due + options_.lost_rank_timeout;
}

bool Core::TrainsOnUnfenced(const JobRecord& job) const {
  if (job.saves) return false;
  return std::all_of(job.ranks.begin(), job.ranks.end(), [this](const RankRecord& rank) {
    return rank.state != RankState::kExited && !membership_.Find(rank.worker)->ready();
  });
}

void Core::GiveUpLostRanks() {
  // Decided before an end blames one of the workers, which changes it.
  std::map<std::string, std::set<std::string>> lost;  // by job
  std::set<std::string> for_good;
  for (const std::string& worker : membership_.lost()) {
    if (index_.HeldOn(worker).empty() || !HasBeenLostFor(worker, options_.lost_rank_timeout))
      continue;
    if (HasBeenLostFor(worker, options_.lost_run_timeout)) for_good.insert(worker);
    for (const std::string& id : JobsOn(worker)) {
      if (!lost.contains(id)) lost.emplace(id, LostWorkersOf(Get(id)));
    }
  }
  if (lost.empty()) return;
  std::vector<const JobRecord*> in_order;
  for (const auto& [id, workers] : lost) in_order.push_back(&Get(id));
  std::sort(in_order.begin(), in_order.end(),
            [](const auto* a, const auto* b) { return KeyOf(*a) < KeyOf(*b); });
  std::set<std::string> given_up;
  Moves moves(*this);
  for (const JobRecord* job : in_order) {
    const bool is_for_good =
        std::any_of(lost.at(job->id).begin(), lost.at(job->id).end(),
                    [&](const auto& worker) { return for_good.contains(worker); });
    if (!is_for_good && TrainsOnUnfenced(*job)) continue;
    // A run that has been told to stop ends in any case.
    const bool ends = is_for_good || !job->stop_reason.empty();
    if (!ends && MakesSteps(*job)) continue;  // it needs no room elsewhere
    const bool may_move = moves.May(*job);    // in both cases, so that nobody else gets that room
    if (ends || may_move) given_up.insert(job->id);
  }
  for (const auto& [id, workers] : lost) {
    if (given_up.contains(id)) {
      GiveUp(id, workers, for_good);
      continue;
    }
    SetCondition(id, kReachable, ConditionStatus::kFalse, NameOf(ExitReason::kWorkerLost),
                 absl::StrCat("no contact with ", absl::StrJoin(workers, ", "),
                              "; the run continues there if contact returns within ",
                              absl::FormatDuration(options_.lost_run_timeout)));
  }
}

void Core::GiveUp(const std::string& id, const std::set<std::string>& workers,
                  const std::set<std::string>& for_good) {
  if (Get(id).FindCondition(kReachable) != nullptr)
    SetCondition(id, kReachable, ConditionStatus::kFalse, "GivenUp", "");
  const absl::Duration step_due = jobs_.at(id).step_due;
  for (int32_t i = 0; i < static_cast<int32_t>(Get(id).ranks.size()); ++i) {
    const RankRecord rank = Get(id).ranks[i];
    if (rank.gone() || !workers.contains(rank.worker)) continue;
    const bool is_for_good = for_good.contains(rank.worker);
    const bool made_steps = !is_for_good && step_due > membership_.Find(rank.worker)->lease_end;
    const absl::Duration waited =
        is_for_good ? options_.lost_run_timeout : options_.lost_rank_timeout;
    LoseRank(id, i, ExitReason::kWorkerLost,
             absl::StrCat("worker ", rank.worker, " did not come back within ",
                          absl::FormatDuration(waited),
                          made_steps ? " after the next step was due" : " after its lease ended"));
  }
  FinishIfGone(id);
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
