// SPDX-License-Identifier: Apache-2.0

// Positions of ranks that do not move, and the end of a job that hangs. Ticks compare positions,
// and not their arrival, because a tick behind a pause of the coordinator decides nothing.

#include <algorithm>
#include <utility>

#include "coordinator/core/core.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {

absl::Status Core::Handle(const RankPositions& event) {
  RETURN_IF_ERROR(membership_.Check(event.worker, event.session));
  ForgetPositions(event.worker);
  for (const RankPositions::Of& of : event.ranks) {
    const JobRecord* job = FindJobByUid(of.job_uid);
    const int32_t rank = of.rank.value();
    if (job == nullptr || job->epoch != of.epoch || !IsActive(job->state) || rank < 0 ||
        rank >= static_cast<int32_t>(job->ranks.size())) {
      continue;
    }
    const RankRecord& record = job->ranks[rank];
    if (record.worker != event.worker || record.gone()) continue;
    Touch(job->id).positions[rank] = of.position;
    still_.insert(job->number);
  }
  return absl::OkStatus();
}

void Core::ForgetPositions(const std::string& worker) {
  for (const int64_t number : still_) {
    const auto found = id_by_number_.find(number);
    if (found == id_by_number_.end() || jobs_.at(found->second).positions.empty()) continue;
    Job& job = Touch(found->second);
    std::erase_if(job.positions, [&](const auto& entry) {
      return job.record.ranks[entry.first].worker == worker;
    });
  }
}

void Core::FailHungJobs() {
  std::erase_if(still_, [this](int64_t number) {
    const auto found = id_by_number_.find(number);
    if (found == id_by_number_.end()) return true;
    const Job& job = jobs_.at(found->second);
    return job.positions.empty() || !IsActive(job.record.state);
  });
  for (const int64_t number : std::set<int64_t>(still_)) FailIfHung(id_by_number_.at(number));
}

void Core::FailIfHung(const std::string& id) {
  const Job& job = jobs_.at(id);
  if (job.positions.empty() || !job.record.stop_reason.empty()) return;
  std::set<int32_t> ranks;
  for (int32_t i = 0; i < static_cast<int32_t>(job.record.ranks.size()); ++i) {
    const RankRecord& rank = job.record.ranks[i];
    if (rank.gone()) continue;
    // A lost worker explains why its ranks, and those that wait for them, do not move.
    const Worker* worker = membership_.Find(rank.worker);
    if (worker == nullptr || !worker->ready()) return;
    ranks.insert(i);
  }
  std::map<int32_t, RankPosition> positions = job.positions;
  std::erase_if(positions, [&](const auto& entry) { return !ranks.contains(entry.first); });
  const std::optional<Hang> hang = FindHang(ranks, positions, options_.hang);
  if (!hang.has_value()) return;
  const RankPosition& position = positions.at(hang->rank);
  Fail(id, {.rank = hang->rank,
            .worker = job.record.ranks[hang->rank].worker,
            .exit_code = 0,
            .signal = 0,
            .reason = NameOf(ExitReason::kHang),
            .message = hang->message,
            .step = position.step,
            .phase = position.phase,
            .last_operation = position.operation,
            .time = now_});
}

}  // namespace stretto::coordinator
