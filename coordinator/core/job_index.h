// SPDX-License-Identifier: Apache-2.0
#pragma once
// What can be looked up about jobs without walking through all of them: who waits for which kind of
// slot, who holds which slot, and which job ended first. It follows from the records alone.
//
// Not thread-safe; copies are independent.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/records.h"

namespace stretto::coordinator {

class JobIndex {
 public:
  // Takes note of a job as it is now, whatever was known about it before.
  void Put(const JobRecord& job);
  // Forgets a job.
  void Remove(int64_t number);

  // Numbers of the PENDING jobs by the kind of slot that they need, ascending; no empty lists.
  const std::map<int32_t, std::vector<int64_t>>& waiting() const { return waiting_; }
  // The slots of a worker that jobs hold, and the numbers of these jobs. A job holds all its slots
  // until its attempt ends.
  const std::map<int32_t, int64_t>& HeldOn(const std::string& worker) const;
  // The same of all workers on which some slot is held.
  const std::map<std::string, std::map<int32_t, int64_t>>& held() const { return held_; }

  // End and number of the jobs that have ended.
  const std::set<std::pair<absl::Time, int64_t>>& ended() const { return ended_; }

 private:
  struct Entry {
    int32_t kind = 0;
    bool waits = false;
    std::optional<absl::Time> end;
    std::vector<std::pair<std::string, int32_t>> slots;
  };

  std::map<int64_t, Entry> entries_;
  std::set<std::pair<absl::Time, int64_t>> ended_;
  std::map<int32_t, std::vector<int64_t>> waiting_;
  std::map<std::string, std::map<int32_t, int64_t>> held_;  // by worker and slot
};

}  // namespace stretto::coordinator
