// SPDX-License-Identifier: Apache-2.0

// A stop has two steps, because asking a trainer takes a file and a message: StopChosen marks it,
// so that nobody asks it again for a lesser reason and assignments wait for it, and Asked sets its
// deadlines. Deadlines only shorten: a second stop with a longer grace must not extend the first.

#include "worker/daemon/trainers/trainer_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace stretto::daemon {

namespace v1 = stretto::v1alpha1;

// ---- assignments

absl::StatusOr<TrainerTable::Effects> TrainerTable::Assign(const Assignment& assign) {
  const std::string& uid = assign->job_uid();
  const int64_t epoch = assign->epoch();
  const int64_t newest = NewestEpoch(uid);
  if (epoch < newest) {
    return absl::AbortedError(
        absl::StrCat("its epoch is ", epoch, ", and the current one ", newest));
  }
  epochs_[uid] = epoch;
  int64_t& stopped = stopped_[uid];
  stopped = std::max(stopped, epoch - 1);
  Effects effects = StopChosen(
      [&](const RankKey& key) {
        const Trainer* trainer = Find(key);
        return key.job_uid == uid && key.epoch < epoch &&
               (trainer == nullptr || !trainer->stopping);
      },
      "a newer epoch was assigned");
  const auto same = [&](const Assignment& other) {
    return other->job_uid() == uid && other->epoch() == epoch;
  };
  if (std::none_of(waiting_.begin(), waiting_.end(), same)) waiting_.push_back(assign);
  return effects;
}

std::vector<Assignment> TrainerTable::TakeFree() {
  std::vector<Assignment> free;
  std::erase_if(waiting_, [&](const Assignment& assign) {
    if (IsBlocked(*assign)) return false;
    free.push_back(assign);
    return true;
  });
  return free;
}

bool TrainerTable::IsBlocked(const v1::Assign& assign) const {
  for (const auto& [key, trainer] : trainers_) {
    if (key.job_uid == assign.job_uid()) {
      if (key.epoch < assign.epoch()) return true;
      continue;
    }
    for (const v1::RankSlot& rank : assign.ranks()) {
      if (trainer.stopping && trainer.slot == rank.slot()) return true;
    }
  }
  return false;
}

absl::Status TrainerTable::MayStart(const RankKey& key) const {
  if (closed_) return absl::CancelledError("the daemon is shutting down");
  if (broken_.contains({key.job_uid, key.epoch})) {
    return absl::CancelledError("another rank of the job has failed already");
  }
  // A stop may have come while the assignment was on its way.
  const auto stopped = stopped_.find(key.job_uid);
  if (stopped != stopped_.end() && key.epoch <= stopped->second) {
    return absl::CancelledError("it was stopped before it started");
  }
  return absl::OkStatus();
}

void TrainerTable::Started(const RankKey& key, int32_t slot) { trainers_[key].slot = slot; }

// ---- the end of trainers

TrainerTable::Effects TrainerTable::StopChosen(const Selector& chosen, const std::string& reason) {
  Effects effects;
  effects.reason = reason;
  std::erase_if(waiting_, [&](const Assignment& assign) {
    const auto is_chosen = [&](const v1::RankSlot& rank) {
      return chosen({assign->job_uid(), assign->epoch(), rank.rank()});
    };
    if (std::none_of(assign->ranks().begin(), assign->ranks().end(), is_chosen)) return false;
    effects.unstarted.push_back(assign);
    return true;
  });
  for (auto& [key, trainer] : trainers_) {
    if (!chosen(key)) continue;
    if (!trainer.stopping) trainer.stop_reason = reason;
    trainer.stopping = true;
    effects.stop.push_back(key);
  }
  return effects;
}

TrainerTable::Effects TrainerTable::Stop(const std::string& job_uid, int64_t epoch,
                                         const std::string& reason) {
  int64_t& stopped = stopped_[job_uid];
  stopped = std::max(stopped, epoch);
  return StopChosen(
      [&](const RankKey& key) { return key.job_uid == job_uid && key.epoch <= epoch; }, reason);
}

TrainerTable::Effects TrainerTable::StopAll(const std::string& reason) {
  closed_ = true;
  return StopChosen([](const RankKey&) { return true; }, reason);
}

TrainerTable::Effects TrainerTable::StopOne(const RankKey& key, const std::string& reason) {
  return StopChosen([&](const RankKey& other) { return other == key; }, reason);
}

void TrainerTable::Asked(const RankKey& key, absl::Duration now, absl::Duration grace,
                         bool reached) {
  const auto found = trainers_.find(key);
  if (found == trainers_.end()) return;
  Trainer& trainer = found->second;
  trainer.kill_at = std::min(trainer.kill_at.value_or(absl::InfiniteDuration()), now + grace);
  trainer.term_at = now + (reached ? grace / 10 : absl::ZeroDuration());
}

void TrainerTable::ExpectExit(const RankKey& key, absl::Duration now, absl::Duration grace) {
  const auto found = trainers_.find(key);
  if (found == trainers_.end() || found->second.kill_at.has_value()) return;
  found->second.kill_at = now + grace;
}

TrainerTable::Effects TrainerTable::Ended(const RankKey& key, bool failed) {
  trainers_.erase(key);
  if (!failed) return {};
  broken_.emplace(key.job_uid, key.epoch);
  return StopChosen(
      [&](const RankKey& other) {
        return other.job_uid == key.job_uid && other.epoch == key.epoch && other.rank != key.rank;
      },
      absl::StrCat("rank ", key.rank, " of the job failed"));
}

std::vector<TrainerTable::Signal> TrainerTable::TakeDue(absl::Duration now) {
  std::vector<Signal> due;
  for (auto& [key, trainer] : trainers_) {
    if (trainer.kill_at.has_value() && *trainer.kill_at <= now) {
      trainer.kill_at.reset();
      trainer.term_at.reset();
      due.push_back({.key = key, .kill = true});
    } else if (trainer.term_at.has_value() && *trainer.term_at <= now) {
      trainer.term_at.reset();
      due.push_back({.key = key, .kill = false});
    }
  }
  return due;
}

absl::Duration TrainerTable::NextDue() const {
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [key, trainer] : trainers_) {
    next = std::min({next, trainer.term_at.value_or(next), trainer.kill_at.value_or(next)});
  }
  return next;
}

// ---- after a restart of the daemon

void TrainerTable::NoteEpoch(const std::string& job_uid, int64_t epoch) {
  int64_t& newest = epochs_[job_uid];
  newest = std::max(newest, epoch);
}

void TrainerTable::Adopted(const RankKey& key, int32_t slot, bool stopping, absl::Duration now,
                           absl::Duration grace) {
  Trainer& trainer = trainers_[key];
  trainer.slot = slot;
  trainer.stopping = stopping;
  if (stopping) Asked(key, now, grace, /*reached=*/false);
}

// ---- queries

const TrainerTable::Trainer* TrainerTable::Find(const RankKey& key) const {
  const auto found = trainers_.find(key);
  return found == trainers_.end() ? nullptr : &found->second;
}

int64_t TrainerTable::NewestEpoch(const std::string& job_uid) const {
  const auto found = epochs_.find(job_uid);
  return found == epochs_.end() ? 0 : found->second;
}

void TrainerTable::NoteSave(const RankKey& key, int64_t request) {
  const auto found = trainers_.find(key);
  if (found != trainers_.end()) found->second.save = std::max(found->second.save, request);
}

}  // namespace stretto::daemon
