// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ended jobs of which little is kept: who they were, how and when they ended, and a short summary.

#include <cstdint>
#include <map>
#include <string>

#include "coordinator/core/records.h"

namespace stretto::coordinator {

// What is kept of a job that has ended. Its message has at most kRetiredMessageBytes, and its
// summary is still the whole one, which the driver replaces. About 1 KB stored.
inline constexpr size_t kRetiredMessageBytes = 300;
JobRecord RetiredRecord(const JobRecord& job, absl::Time now);

// Retired jobs by id and by number. Not thread-safe.
class RetiredJobs {
 public:
  // Null if there is none. Valid until the job is erased or put again.
  const JobRecord* Find(const std::string& id) const;
  const std::map<int64_t, JobRecord>& by_number() const { return by_number_; }
  // Adds or replaces. No two jobs share an id or a number.
  void Put(JobRecord job);
  void Erase(const std::string& id);

 private:
  std::map<int64_t, JobRecord> by_number_;
  std::map<std::string, int64_t> number_of_;
};

}  // namespace stretto::coordinator
