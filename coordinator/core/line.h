// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whose turn it is: the jobs that wait, of all kinds of slots, in the order of the queue, and the
// devices of quotas, which are dealt in that order.
//
// A job that waits claims devices of its project against later jobs of the project, whatever kind
// of slot those need: so nobody's devices go to a job behind it. A job that finds too few left
// holds up the later jobs of its project, of every kind, and nobody else. Jobs that back off, that
// can never run on this cluster or need more than their quota allows claim nothing.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/core.h"

namespace stretto::coordinator {

// Borrows the core, which must not change meanwhile. A job costs as much as one look at each quota
// of each kind. Jobs of kinds that are not asked for are passed only as far as they claim devices:
// at most as many as the quotas have devices.
class Core::Line {
 public:
  explicit Line(const Core& core) : Line(core, std::nullopt) {}
  // Next returns jobs of one kind only.
  Line(const Core& core, std::optional<int32_t> kind);

  // Returns the next job whose project has devices for it; null at the end, or if the next one is
  // not before `end`. The job claims its devices.
  const JobRecord* Next(const QueueKey& end = {.priority = INT32_MIN, .number = INT64_MAX});
  // The job that Next returned last starts: it holds what its layout needs and claims no more.
  void Starts();
  // Next returns no job of this kind any more.
  void Leave(int32_t kind);
  // Passes by the jobs of the last one's kind and project; without a quota, of all such projects.
  // They claim nothing.
  void CloseLane();

  // How many jobs Next has returned.
  int passed() const { return passed_; }
  // The lane of the last job (Lanes).
  const std::string& lane() const { return *last_lane_->name; }
  // Devices that the jobs of a project have claimed so far.
  int64_t ClaimedBy(const std::string& project) const;
  // By project: the first of its jobs that found too few devices.
  const std::map<std::string, const JobRecord*>& held_up() const { return held_up_; }
  // Whether a job that is next has devices.
  bool HasDevices(const JobRecord& job) const;
  // When the first of those that back off is due.
  absl::Duration next_due() const { return next_due_; }

 private:
  struct Lane {
    int32_t kind = 0;
    const std::string* name = nullptr;
    const QueueKey* next = nullptr;
    size_t left = 0;
    bool wanted = true;  // else its jobs are only passed
  };
  // The lane whose job is next; null if no job is left that Next could return.
  Lane* First();

  const Core& core_;
  std::vector<Lane> lanes_;
  std::map<std::string, int64_t> claimed_;  // of projects whose devices are limited
  std::map<std::string, const JobRecord*> held_up_;
  const JobRecord* last_ = nullptr;
  Lane* last_lane_ = nullptr;
  int passed_ = 0;
  absl::Duration next_due_ = absl::InfiniteDuration();
};

}  // namespace stretto::coordinator
