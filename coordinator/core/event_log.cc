// SPDX-License-Identifier: Apache-2.0

// Every transition of a job changes a condition, so events are the changes of conditions, and the
// requests of people.

#include "coordinator/core/event_log.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/records.h"

namespace stretto::coordinator {
namespace {

// Whether a change only repeats what another condition of the same event says better.
bool IsEcho(const Condition& condition) {
  const std::string& reason = condition.reason;
  return reason == "Waiting" || reason == "Preparing" || reason == "AllRanksPrepared" ||
         reason == "Ended" || reason == "Released" || reason == "Resumed" || reason == "Asked";
}

}  // namespace

void EventLog::Add(JobEvent event) {
  std::vector<JobEvent> events = this->events();
  event.number = events.empty() ? 1 : events.back().number + 1;
  if (!events.empty() && events.back().reason == event.reason &&
      events.back().state == event.state && events.back().caller == event.caller) {
    event.count = events.back().count + 1;
    events.pop_back();
  }
  events.push_back(std::move(event));
  if (events.size() > kKept) events.erase(events.begin());
  Set(std::move(events));
}

void EventLog::Set(std::vector<JobEvent> events) {
  events_ = std::make_shared<const std::vector<JobEvent>>(std::move(events));
}

const std::vector<JobEvent>& EventLog::events() const {
  static const std::vector<JobEvent> kNone;
  return events_ == nullptr ? kNone : *events_;
}

void NoteChanges(const JobRecord* before, absl::Time now, const std::string& request,
                 const std::string& caller, JobRecord* job) {
  const auto add = [&](const std::string& reason, const std::string& message,
                       const std::string& by) {
    job->events.Add(
        {.time = now, .state = job->state, .reason = reason, .message = message, .caller = by});
  };
  if (!request.empty()) {
    add(request,
        before == nullptr ? absl::StrCat("priority ", job->priority, ", project ", job->project)
                          : "",
        caller);
  }
  std::set<std::string> said;
  for (const Condition& condition : job->conditions) {
    const Condition* old = before == nullptr ? nullptr : before->FindCondition(condition.type);
    if ((old != nullptr && *old == condition) || IsEcho(condition)) continue;
    if (!said.insert(condition.reason).second) continue;  // of several conditions
    add(condition.reason, condition.message, "");
  }
}

}  // namespace stretto::coordinator
