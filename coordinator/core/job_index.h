// SPDX-License-Identifier: Apache-2.0
#pragma once
// What can be looked up about jobs without walking through all of them: who waits for which kind of
// slot, who holds which slot, how much each project has, and which job ended first. It follows from
// the records alone.
//
// Not thread-safe; copies are independent.

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/quota.h"
#include "coordinator/core/records.h"

namespace stretto::coordinator {

// The place of a job among those of its kind: the smallest is the first in line.
struct QueueKey {
  int32_t priority = 0;
  int64_t number = 0;  // in the order of creation

  // Higher priority first, then the older job.
  auto operator<=>(const QueueKey& other) const {
    return std::pair(other.priority, number) <=> std::pair(priority, other.number);
  }
  bool operator==(const QueueKey&) const = default;
};
inline QueueKey KeyOf(const JobRecord& job) { return {job.priority, job.number}; }

// The jobs that wait for one kind of slot. Those of a project that has a quota are in a lane of its
// name, all others in the lane "", so that a project over its quota is passed by in one step
// (line.h). Each lane is in order and not empty.
using Lanes = std::map<std::string, std::vector<QueueKey>>;

class JobIndex {
 public:
  explicit JobIndex(const Quotas& quotas = {}) : quotas_(quotas) {}

  // Takes note of a job as it is now, whatever was known about it before.
  void Put(const JobRecord& job);
  // Forgets a job.
  void Remove(int64_t number);

  // The PENDING jobs by the kind of slot that they need; no empty entries.
  const std::map<int32_t, Lanes>& waiting() const { return waiting_; }
  const Lanes& LanesOf(int32_t kind) const;  // of jobs that wait; may be empty
  // How many jobs of this kind wait before this one.
  int64_t WaitingBefore(int32_t kind, const QueueKey& key) const;
  // The jobs that hold slots of a kind, the last in line first.
  const std::set<QueueKey, std::greater<>>& ActiveOf(int32_t kind) const;

  // Of each project: jobs that are PENDING, and slots that its jobs hold. Zeros have no entry.
  const std::map<std::string, int64_t>& waiting_of() const { return waiting_of_; }
  const std::map<std::string, int64_t>& held_by() const { return held_by_; }
  int64_t waiting_in_all() const { return waiting_in_all_; }  // jobs that are PENDING
  int64_t waiting_bytes() const { return waiting_bytes_; }    // of the specs of these jobs

  // The slots of a worker that jobs hold, and the numbers of these jobs. A job holds all its slots
  // until its attempt ends.
  const std::map<int32_t, int64_t>& HeldOn(const std::string& worker) const;

  // Whether slots are held now, of those whose use has changed since the last call; the newest
  // last.
  std::vector<std::pair<RankSlot, bool>> TakeSlotChanges() {
    return std::exchange(slot_changes_, {});
  }
  bool HasSlotChanges() const { return !slot_changes_.empty(); }

  // End and number of the jobs that have ended.
  const std::set<std::pair<absl::Time, int64_t>>& ended() const { return ended_; }

 private:
  struct Entry {
    int32_t kind = 0;
    QueueKey key;
    std::string project;
    bool waits = false;
    int64_t spec_bytes = 0;
    std::optional<absl::Time> end;
    std::vector<std::pair<std::string, int32_t>> slots;
  };
  std::string LaneOf(const Entry& entry) const;

  Quotas quotas_;
  std::vector<std::pair<RankSlot, bool>> slot_changes_;
  std::map<int64_t, Entry> entries_;
  std::set<std::pair<absl::Time, int64_t>> ended_;
  std::map<int32_t, Lanes> waiting_;
  std::map<int32_t, std::set<QueueKey, std::greater<>>> active_;  // by kind
  std::map<std::string, int64_t> waiting_of_, held_by_;
  int64_t waiting_in_all_ = 0, waiting_bytes_ = 0;
  std::map<std::string, std::map<int32_t, int64_t>> held_;  // by worker and slot
};

}  // namespace stretto::coordinator
