// SPDX-License-Identifier: Apache-2.0

// Who starts next. Each kind of slot has its own queue, in the order of priority and then of age.
// The devices of a quota are dealt in that order too, over all kinds (line.h).
//
// Jobs start from the head of the queue until one does not fit: the first in line of its kind. Jobs
// behind it may start only on workers that can never hold a block of it or of any other job of the
// kind before them (Placer::Reserve). The duration of jobs is unknown, so every other slot could be
// the one that an earlier job waits for: no job ever starts later because of one behind it.
//
// The first in line may preempt. Victims are jobs of lower priority, the lowest and youngest first,
// and only if it fits once they are gone. They write a checkpoint, end, wait again, and start by
// themselves. Slots of jobs that are ending count as free meanwhile, so nobody is stopped twice for
// one need.
//
// A tick looks at the queue only if a job or a worker has changed since the last look, or a job
// that was passed by because it backs off is due. So jobs that wait cost nothing while nothing
// happens.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/line.h"
#include "coordinator/core/restart.h"

namespace stretto::coordinator {

struct Core::Pass {
  Line line;
  Placer placer;
  // By kind: the first in line and those that were tried behind it. None: everyone has started.
  std::map<int32_t, int> tried = {};
  std::map<int64_t, Placed> placed = {};        // by number
  std::map<int64_t, std::string> victims = {};  // by number: the job that preempts it
};

void Core::PlaceQueued() {
  last_placing_ = steady_;
  Reindex();
  if (index_.waiting().empty() || (!queue_changed_ && steady_ < next_due_)) return;
  queue_changed_ = false;  // what this look starts and stops changes it again
  Pass pass{.line = Line(*this), .placer = Slots()};
  while (const JobRecord* job = pass.line.Next()) PlaceNext(*job, &pass);
  next_due_ = pass.line.next_due();
  for (const auto& [number, job] : pass.placed) Start(job);
  for (const auto& [number, by] : pass.victims) {
    Preempt(number, absl::StrCat("job ", by, " of priority ", Get(by).priority, " needs its slots"),
            by);
  }
  // Why exactly a job waits changes with every job ahead of it, so it is not stored (queue_view.h).
  for (const std::string& id : std::set<std::string>(changed_jobs_)) {
    if (Get(id).state == JobState::kPending && !BacksOff(Get(id)))
      SetCondition(id, "Scheduled", ConditionStatus::kFalse, "Waiting", "");
  }
}

void Core::PlaceNext(const JobRecord& record, Pass* pass) {
  const QueuedJob job = Queued(record);
  const bool is_first = !pass->tried.contains(job.kind);
  std::vector<RankSlot> ranks = pass->placer.Take(job);
  if (!ranks.empty()) {
    pass->line.Starts();
    pass->placed.emplace(record.number, Placed{job.id, std::move(ranks)});
    if (is_first) return;
  } else {
    if (is_first) {
      for (int64_t victim : VictimsFor(job, record.priority, pass->placer))
        pass->victims.emplace(victim, job.id);
    }
    Reserve(record, &pass->placer);
  }
  if (++pass->tried[job.kind] > kTriedBehindFirst || !pass->placer.HasRoom(job.kind))
    pass->line.Leave(job.kind);
}

void Core::Reserve(const JobRecord& job, Placer* placer) const {
  for (int32_t layout = 0; layout <= static_cast<int32_t>(job.fallbacks.size()); ++layout)
    placer->Reserve({.id = job.id, .gang = job.GangIn(layout), .kind = job.device_kind});
}

bool Core::ReserveAhead(const QueueKey& end, bool if_full, Line* line, Placer* placer) const {
  while (line->passed() <= kTriedBehindFirst) {
    const JobRecord* job = line->Next(end);
    if (job == nullptr) return true;
    Reserve(*job, placer);
    if (!if_full && !placer->HasRoom(job->device_kind)) return false;
  }
  return false;
}

std::vector<RankSlot> Core::TryPlacing(const JobRecord& job) const {
  const QueuedJob queued = Queued(job);
  Placer placer = Slots();
  if (!placer.IsPossible(queued) || IsOverQuota(job)) return {};
  Line line(*this, job.device_kind);
  if (!ReserveAhead(KeyOf(job), /*if_full=*/false, &line, &placer) || !line.HasDevices(job))
    return {};
  return placer.Take(queued);
}

bool Core::IsInContact(const JobRecord& job) const {
  return std::all_of(job.ranks.begin(), job.ranks.end(), [this](const RankRecord& rank) {
    const Worker* worker = FindWorker(rank.worker);
    return worker != nullptr && worker->ready();
  });
}

std::vector<int64_t> Core::VictimsFor(const QueuedJob& job, int32_t priority,
                                      const Placer& placer) const {
  const auto& active = index_.ActiveOf(job.kind);
  if (active.empty() || active.begin()->priority >= priority) return {};
  Placer trial = placer;
  std::vector<int64_t> chosen, may;
  for (const QueueKey& key : active) {
    const JobRecord& other = Get(id_by_number_.at(key.number));
    if (!other.stop_reason.empty()) {
      trial.SetFree(other.slots(), true);
    } else if (key.priority < priority && other.saves && IsInContact(other)) {
      may.push_back(key.number);
    }
  }
  const auto set_free = [&](int64_t number, bool free) {
    trial.SetFree(JobOf(number).slots(), free);
  };
  if (trial.Fits(job)) return {};
  for (int64_t number : may) set_free(number, true);
  if (!trial.Fits(job)) return {};
  // More room never hurts, so the fewest from the front that suffice are found by halves.
  size_t enough = may.size(), too_few = 0;
  size_t freed = enough;
  while (enough - too_few > 1) {
    const size_t middle = (enough + too_few) / 2;
    for (; freed > middle; --freed) set_free(may[freed - 1], false);
    for (; freed < middle; ++freed) set_free(may[freed], true);
    (trial.Fits(job) ? enough : too_few) = middle;
  }
  for (; freed > enough; --freed) set_free(may[freed - 1], false);
  for (; freed < enough; ++freed) set_free(may[freed], true);
  chosen.assign(may.begin(), may.begin() + static_cast<std::ptrdiff_t>(enough));
  // Spares those that are not needed, the most important first.
  for (size_t i = chosen.size(); i-- > 0;) {
    set_free(chosen[i], false);
    if (trial.Fits(job)) {
      chosen.erase(chosen.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      set_free(chosen[i], true);
    }
  }
  return chosen;
}

void Core::Preempt(int64_t number, const std::string& why, const std::string& by) {
  const std::string id = id_by_number_.at(number);
  const char* reason = NameOf(RestartCause::kPreemption);
  SetCondition(id, Get(id).state == JobState::kRunning ? "Running" : "Prepared",
               ConditionStatus::kFalse, reason, why);
  Change(id).preempted_by = by;
  Stop(id, reason, /*checkpoint=*/true);
}

void Core::Requeue(const std::string& id) {
  const std::string why =
      absl::StrCat("attempt ", Get(id).attempt, " made room for job ", Get(id).preempted_by);
  EndAttempt(id, RestartCause::kPreemption);
  Release(id, JobState::kPending);
  SetCondition(id, "Restarting", ConditionStatus::kTrue, NameOf(RestartCause::kPreemption), why);
  SetCondition(id, "Scheduled", ConditionStatus::kFalse, "Waiting", "");
}

}  // namespace stretto::coordinator
