// SPDX-License-Identifier: Apache-2.0
#pragma once
// The history of a job, as one list for people. It follows from the changes of the job's record, so
// code that changes a job cannot forget it.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace stretto::coordinator {

enum class JobState;

struct JobEvent {
  int64_t number = 0;  // of the job, from 1
  absl::Time time = {};
  JobState state{};  // of the job afterwards
  std::string reason = {};
  std::string message = {};
  std::string caller = {};  // URI of the certificate of the person who asked; may be empty
  int32_t count = 1;        // events in a row with this reason, of which only the newest is kept
  bool operator==(const JobEvent&) const = default;
};

// The newest events of a job. Copies are cheap: they share the events until one of them changes.
class EventLog {
 public:
  static constexpr size_t kKept = 100;

  // Numbers and adds an event. If the last one has the same reason, state and caller, it takes its
  // place.
  void Add(JobEvent event);
  // Replaces all events by stored ones.
  void Set(std::vector<JobEvent> events);
  const std::vector<JobEvent>& events() const;  // oldest first
  bool operator==(const EventLog& other) const { return events() == other.events(); }

 private:
  std::shared_ptr<const std::vector<JobEvent>> events_;
};

struct JobRecord;
// Adds what has changed in a job since `before`, which is null for a new one. `request` is what a
// person has asked for in this event, and `caller` who; empty if nobody has.
void NoteChanges(const JobRecord* before, absl::Time now, const std::string& request,
                 const std::string& caller, JobRecord* job);

}  // namespace stretto::coordinator
