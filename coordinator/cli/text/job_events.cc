// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/text/job_events.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/text/job_text.h"
#include "coordinator/cli/text/table.h"
#include "coordinator/cli/text/times.h"
#include "proto/base/printable.h"
#include "proto/base/units.h"

namespace stretto::cli {
namespace {

using v1alpha1::Condition;

std::string ConditionText(const v1alpha1::Job& job, const Condition& condition) {
  // This condition's message names the newest checkpoint, but its time is that of the first.
  const bool dated = condition.type() != "Checkpointed";
  const std::string status = condition.status() == Condition::TRUE
                                 ? ""
                                 : absl::StrCat(" ", Condition::Status_Name(condition.status()));
  std::string text = absl::StrCat(condition.type(), status);
  if (!condition.reason().empty()) absl::StrAppend(&text, ", ", condition.reason());
  const bool news = !condition.message().empty() && !SaysFirstFailure(job, condition.message());
  if (dated && news) absl::StrAppend(&text, ": ", condition.message());
  return text;
}

}  // namespace

std::vector<JobEvent> EventsOf(const v1alpha1::Job& job, FailureShown failure) {
  std::vector<JobEvent> events;
  const auto add = [&](const google::protobuf::Timestamp& time, const std::string& text) {
    if (time.seconds() != 0) events.push_back({ToTime(time), FirstLine(Printable(text))});
  };
  add(job.create_time(), "created");
  for (const Condition& condition : job.conditions()) {
    add(condition.last_transition_time(), ConditionText(job, condition));
  }
  add(job.start_time(), "first rank prepared");
  if (job.has_first_failure()) {
    add(job.first_failure().time(), failure == FailureShown::kAbove
                                        ? BriefFailureText(job.first_failure())
                                        : FailureText(job.first_failure()));
  }
  add(job.end_time(), absl::StrCat("ended ", StateText(job.state(), false)));
  std::stable_sort(events.begin(), events.end(),
                   [](const JobEvent& a, const JobEvent& b) { return a.time < b.time; });
  return events;
}

std::string EventTable(const std::vector<JobEvent>& events) {
  std::vector<std::vector<std::string>> rows;
  for (const JobEvent& event : events) {
    const absl::Duration after = event.time - events.front().time;
    rows.push_back({absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", event.time, absl::UTCTimeZone()),
                    after == absl::ZeroDuration() ? "-" : stretto::FormatDuration(after),
                    event.text});
  }
  return Table({"TIME", ">AFTER", "EVENT"}, rows);
}

}  // namespace stretto::cli
