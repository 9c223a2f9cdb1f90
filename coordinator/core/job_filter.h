// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which jobs a list has.

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/core/records.h"

namespace stretto::coordinator {

struct LabelFilter {
  std::string key;
  std::optional<std::string> value;  // none: any
};

// A part that is empty admits every job.
struct JobFilter {
  std::string project = {};
  std::set<JobState> states = {};
  std::vector<LabelFilter> labels = {};  // a job has all of them

  bool Admits(const JobRecord& job) const {
    return (project.empty() || job.project == project) &&
           (states.empty() || states.contains(job.state)) &&
           std::all_of(labels.begin(), labels.end(), [&](const LabelFilter& label) {
             const auto found = job.labels.find(label.key);
             return found != job.labels.end() && (!label.value || found->second == *label.value);
           });
  }
};

}  // namespace stretto::coordinator
